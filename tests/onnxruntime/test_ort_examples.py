"""The examples, each in a process of its own. QUIRE_EXAMPLES names the folder of those in C."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import onnxruntime as ort
import pytest

from ort_sessions import LIBRARY, VERSION

FOLDER = Path(__file__).resolve().parents[2] / "examples/onnxruntime"
needs_genai = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime_genai") is None, reason="no onnxruntime-genai"
)


def run(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)


def ok(*command: object) -> str:
    result = run(*command)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_bound_caches() -> None:
    assert "caches in place: True" in ok(sys.executable, "-B", FOLDER / "bound_caches.py")


def test_bound_caches_in_c() -> None:
    if "QUIRE_EXAMPLES" not in os.environ:
        pytest.skip("QUIRE_EXAMPLES names no folder")
    program = Path(os.environ["QUIRE_EXAMPLES"]) / "example_ort_bound_caches"
    (runtime,) = (Path(ort.__file__).parent / "capi").glob("libonnxruntime.so.*")
    assert "each as expected" in ok(program, runtime, LIBRARY)


@pytest.mark.skipif(VERSION < (1, 32), reason="tells where nodes are")
def test_hybrid_graph() -> None:
    out = ok(sys.executable, "-B", FOLDER / "hybrid_graph.py")
    assert "QuireExecutionProvider: 2 LinearAttention, 1 PagedAttention" in out


@needs_genai
def test_engine_of_genai() -> None:
    out = ok(sys.executable, "-B", FOLDER / "genai_engine.py")
    assert "every token equals the dense reference" in out
    assert "5 requests, 78 tokens in 24 calls" in out  # several at once, or it would be 78 calls


@needs_genai
def test_engine_of_genai_without_us_is_refused() -> None:
    result = run(sys.executable, "-B", FOLDER / "genai_engine.py", "--without-quire")
    assert result.returncode != 0
    assert "Could not find an implementation for PagedAttention" in result.stderr
