"""quire.onnxruntime of the Python package, which needs nothing else of the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime as ort
import pytest

from ort_models import case_model
from ort_problems import assert_close, expected, paged
from ort_sessions import LIBRARY, run

SOURCE = Path(__file__).resolve().parents[2] / "bindings/python/quire/onnxruntime.py"


@pytest.fixture
def helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quire_onnxruntime_helper", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_finds_the_library_that_the_environment_names(helper: ModuleType) -> None:
    assert str(helper.library_path()) == LIBRARY


def test_finds_the_library_beside_itself(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUIRE_ONNXRUNTIME_LIBRARY")
    monkeypatch.setattr(helper, "__file__", str(tmp_path / "onnxruntime.py"))
    with pytest.raises(FileNotFoundError, match="QUIRE_ONNXRUNTIME_LIBRARY may name one"):
        helper.library_path()
    (tmp_path / "libquire_onnxruntime.so").touch()
    assert helper.library_path() == (tmp_path / "libquire_onnxruntime.so").resolve()


def test_registers_once_and_adds_itself_to_sessions(helper: ModuleType) -> None:
    before = len(helper.devices())
    assert len(helper.register("helper")) == before + 1
    assert len(helper.register("helper")) == before + 1
    case = paged(np.random.default_rng(2), [2, 1], [5, 9])
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    helper.register = lambda: helper.devices()  # the name "quire" is taken by these tests
    helper.add_to(options, ops=["PagedAttention", "LinearAttention"], threads=2)
    session = ort.InferenceSession(case_model(case, {"output": "F16"}), options)
    assert_close(run(session, case.inputs), {"output": expected(case)["output"]})
    ort.unregister_execution_provider_library("helper")
