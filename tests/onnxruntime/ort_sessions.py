"""Sessions on our provider, and tensors of every type in and out of them.

QUIRE_ONNXRUNTIME_LIBRARY names the provider's library.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from oracle.tensors import STORAGE, Tensor
from ort_models import ONNX_TYPES

PROVIDER = "QuireExecutionProvider"
LIBRARY = str(Path(os.environ["QUIRE_ONNXRUNTIME_LIBRARY"]).resolve())
VERSION = tuple(int(part) for part in ort.__version__.split(".")[:2])
DTYPE_NAMES = {
    "tensor(float)": "F32",
    "tensor(float16)": "F16",
    "tensor(bfloat16)": "BF16",
    "tensor(int32)": "I32",
    "tensor(int8)": "I8",
    "tensor(int64)": "I64",
}


def devices() -> list[Any]:
    return [d for d in ort.get_ep_devices() if d.ep_name == PROVIDER]


def make_session(
    model: bytes,
    provider: bool = True,
    threads: int = 2,
    alone: bool = False,
    options: dict[str, str] | None = None,
    config: dict[str, str] | None = None,
) -> ort.InferenceSession:
    """alone: the session is refused if any node is left to the runtime's own kernels."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = threads
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if alone:
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for key, text in (config or {}).items():
        settings.add_session_config_entry(key, text)
    if provider:
        settings.add_provider_for_devices(devices()[:1], options or {})
    # Without fallback: a refused session must not come back as one without us.
    return ort.InferenceSession(model, sess_options=settings, enable_fallback=False)


def placement(session: ort.InferenceSession) -> dict[str, list[str]]:
    """Operator types by provider; of runtimes that tell."""
    found: dict[str, list[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        found.setdefault(part.ep_name, []).extend(n.op_type for n in part.get_nodes())
    return found


def ort_value(tensor: Tensor) -> ort.OrtValue:
    """Shares the tensor's memory."""
    assert tensor.data.flags.c_contiguous
    if tensor.dtype == "BF16":
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            tensor.data, ONNX_TYPES[tensor.dtype]
        )
    return ort.OrtValue.ortvalue_from_numpy(tensor.data)


def tensor_of(result: ort.OrtValue) -> Tensor:
    """A copy; bfloat16 only by address, since NumPy lacks it."""
    dtype = DTYPE_NAMES[result.data_type()]
    shape = result.shape()
    count = int(np.prod(shape))
    data = np.empty(shape, STORAGE[dtype])
    if count > 0:
        ctypes.memmove(data.ctypes.data, result.data_ptr(), data.nbytes)
    return Tensor(dtype, data)


def run(
    session: ort.InferenceSession,
    inputs: dict[str, Tensor],
    bound: dict[str, ort.OrtValue] | None = None,
    given: dict[str, ort.OrtValue] | None = None,
) -> dict[str, Tensor]:
    """One run. bound: outputs with a buffer of the caller; given: inputs as they are."""
    binding = session.io_binding()
    held = []
    for name, tensor in inputs.items():
        if given is None or name not in given:
            held.append(ort_value(tensor))
            binding.bind_ortvalue_input(name, held[-1])
    for name, one in (given or {}).items():
        binding.bind_ortvalue_input(name, one)
    names = [o.name for o in session.get_outputs()]
    for name in names:
        if bound is not None and name in bound:
            binding.bind_ortvalue_output(name, bound[name])
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    return {n: tensor_of(v) for n, v in zip(names, binding.get_outputs())}
