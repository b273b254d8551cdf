"""Registering, twice and under other names, unregistering, and what the library shows of itself.
Each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ort_sessions import LIBRARY, VERSION

PREAMBLE = """
import sys
sys.path[:0] = [{tests!r}, {here!r}]
import numpy as np
import onnxruntime as ort
from ort_models import case_model
from ort_problems import assert_close, expected, paged
from ort_sessions import LIBRARY, PROVIDER, devices, make_session, run

case = paged(np.random.default_rng(1), [2, 1], [5, 9])
model = case_model(case, {{"output": "F16"}})

def works(session):
    got = run(session, {{n: t.copy() for n, t in case.inputs.items()}})
    assert_close(got, {{"output": expected(case)["output"]}})
"""


def run_python(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    here = Path(__file__).resolve().parent
    text = PREAMBLE.format(tests=str(here.parent), here=str(here)) + body
    return subprocess.run(
        [sys.executable, "-B", "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def ok(body: str) -> str:
    result = run_python(body)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_two_names_for_one_library() -> None:
    ok("""
ort.register_execution_provider_library("one", LIBRARY)
ort.register_execution_provider_library("two", LIBRARY)
assert len(devices()) == 2
sessions = []
for device in devices():
    options = ort.SessionOptions()
    options.add_provider_for_devices([device], {})
    sessions.append(ort.InferenceSession(model, options))
for session in sessions:
    works(session)
del sessions, session
ort.unregister_execution_provider_library("one")
works(make_session(model))
ort.unregister_execution_provider_library("two")
assert devices() == []
""")


def test_one_name_twice_is_refused_by_the_runtime() -> None:
    ok("""
ort.register_execution_provider_library("one", LIBRARY)
try:
    ort.register_execution_provider_library("one", LIBRARY)
except Exception as error:
    assert "one" in str(error)
else:
    raise SystemExit("registered twice")
works(make_session(model))
""")


def test_again_after_unregistering() -> None:
    ok("""
for _ in range(3):
    ort.register_execution_provider_library("one", LIBRARY)
    session = make_session(model)
    works(session)
    del session
    ort.unregister_execution_provider_library("one")
""")


def test_leaving_without_unregistering_or_releasing() -> None:
    ok("""
ort.register_execution_provider_library("one", LIBRARY)
kept = make_session(model)
works(kept)
""")


def test_several_sessions_at_once_and_released_in_any_order() -> None:
    ok("""
ort.register_execution_provider_library("one", LIBRARY)
sessions = [make_session(model, threads=1 + i % 2) for i in range(6)]
for i in (3, 0, 5, 1, 4, 2):
    works(sessions[i])
    sessions[i] = None
ort.unregister_execution_provider_library("one")
""")


@pytest.mark.skipif(VERSION < (1, 26), reason="by name since 1.26")
def test_by_name() -> None:
    ok("""
ort.register_execution_provider_library("one", LIBRARY)
assert PROVIDER in ort.get_available_providers()
session = ort.InferenceSession(model, providers=[PROVIDER])
assert PROVIDER in session.get_providers()
works(session)
""")


def test_chosen_by_policy() -> None:
    ok("""
ort.register_execution_provider_library("one", LIBRARY)
options = ort.SessionOptions()
options.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.PREFER_CPU)
works(ort.InferenceSession(model, options))
""")


def test_the_library_says_its_version() -> None:
    out = ok("""
ort.register_execution_provider_library("one", LIBRARY)
print(devices()[0].ep_metadata)
""")
    assert "0.1.0" in out


@pytest.mark.skipif(sys.platform != "linux", reason="nm")
def test_exports_two_functions_and_needs_no_runtime() -> None:
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    ).stdout.split()[2::3]
    sanitizers = [s for s in symbols if s.startswith("__")]
    assert sorted(set(symbols) - set(sanitizers)) == ["CreateEpFactories", "ReleaseEpFactory"]
    needed = subprocess.run(
        ["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True
    ).stdout
    assert "NEEDED" in needed and "onnxruntime.so" not in needed.split("NEEDED", 1)[1]
