"""Quire as an execution provider of ONNX Runtime.

    import onnxruntime as ort
    import quire.onnxruntime

    options = ort.SessionOptions()
    quire.onnxruntime.add_to(options)
    session = ort.InferenceSession("model.onnx", options)

Nodes that Quire computes are PagedAttention, LinearAttention and CausalConvWithState; all others stay
with the runtime. docs/onnxruntime.md tells which runtime has which of them, and how caches are bound.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

__all__ = ["PROVIDER", "add_to", "devices", "library_path", "register", "register_genai"]

#: The name that sessions and GenAI configurations know the provider by.
PROVIDER = "QuireExecutionProvider"

_NAMES = ("libquire_onnxruntime.so", "libquire_onnxruntime.dylib", "quire_onnxruntime.dll")
_lock = threading.Lock()
_registered: set[str] = set()


def library_path() -> Path:
    """The provider's library: what QUIRE_ONNXRUNTIME_LIBRARY names, or the one beside this file.

    Absolute, since the runtime looks for relative paths in a folder of its own.
    FileNotFoundError: there is none.
    """
    chosen = os.environ.get("QUIRE_ONNXRUNTIME_LIBRARY")
    folder = Path(__file__).resolve().parent
    candidates = [Path(chosen)] if chosen else [folder / name for name in _NAMES]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    raise FileNotFoundError(
        f"{chosen or folder / _NAMES[0]}: no provider for ONNX Runtime there; "
        "QUIRE_ONNXRUNTIME_LIBRARY may name one"
    )


def register(name: str = "quire") -> list[Any]:
    """Makes the provider known to this process, once for each name; returns its devices.

    Sessions have to be released before `onnxruntime.unregister_execution_provider_library(name)`.
    ImportError: onnxruntime is not installed. Thread-safe.
    """
    import onnxruntime

    with _lock:
        if name not in _registered:
            onnxruntime.register_execution_provider_library(name, str(library_path()))
            _registered.add(name)
    return devices()


def devices() -> list[Any]:
    """The provider's devices, one for each registration; empty before."""
    import onnxruntime

    return [d for d in onnxruntime.get_ep_devices() if d.ep_name == PROVIDER]


def add_to(session_options: Any, **options: object) -> None:
    """Registers the provider and lets sessions with these `SessionOptions` use it.

    ops: names of the operators to take, in a text with commas or in a list; all if not given.
    threads: number of threads that share a run, a hint.
    """
    found = register()
    texts = {
        key: ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        for key, value in options.items()
    }
    session_options.add_provider_for_devices(found[:1], texts)


def register_genai(name: str = "quire") -> None:
    """Makes the provider known to onnxruntime-genai, which loads a runtime of its own.

    genai_config.json then names it in `provider_options` of a model's `session_options`:
    `[{"QuireExecutionProvider": {}}]`.
    """
    import onnxruntime_genai

    with _lock:
        if "genai:" + name not in _registered:
            onnxruntime_genai.register_execution_provider_library(name, str(library_path()))
            _registered.add("genai:" + name)
