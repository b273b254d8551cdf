"""The provider is registered once for all tests, under its usual name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import onnxruntime as ort
import pytest

# Runtimes before 1.32 have the schemas of opset 27, and load such models only on demand.
os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the package `oracle`
sys.path.insert(0, str(HERE))

import ort_sessions  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def registered() -> None:
    ort.register_execution_provider_library("quire", ort_sessions.LIBRARY)


def pytest_report_header() -> list[str]:
    return [f"onnxruntime {ort.__version__}, {ort_sessions.LIBRARY}"]
