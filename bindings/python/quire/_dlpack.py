"""What lies where in a tensor of another library, by DLPack."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from quire._layout import Layout, is_dense, known_layout, layout_of, remember
from quire._native import ffi, lib
from quire.errors import BadRequest, BadType

__all__ = ["export", "library_of"]

# ctypes.pythonapi, unlike cffi, keeps the interpreter's lock, which these functions need.
_get_pointer = ctypes.PyDLL(None).PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_PLAIN = struct.Struct("@PiiiIPPQ")  # DLTensor, its type as one number
_VERSIONED = struct.Struct("@IIPPQPiiiIPPQ")  # DLManagedTensorVersioned
if (
    _PLAIN.size != ffi.sizeof("DLTensor")
    or _VERSIONED.size != ffi.sizeof("DLManagedTensorVersioned")
    or sys.byteorder != "little"
):
    raise ImportError("quire: records are laid out differently on this platform")
_plain_at = (ctypes.c_char * _PLAIN.size).from_address
_versioned_at = (ctypes.c_char * _VERSIONED.size).from_address
_NUMBERS = [(ctypes.c_char * (8 * count)).from_address for count in range(65)]  # 64-bit ones
_READ_ONLY = 1
_HOST_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost
_DEVICE_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi",
                 15: "webgpu", 16: "hexagon"}  # fmt: skip

# (code, bits) of DLPack, for one lane -> element type.
_CODES: dict[tuple[int, int], int] = {
    (2, 32): lib.QUIRE_FLOAT32,
    (2, 16): lib.QUIRE_FLOAT16,
    (4, 16): lib.QUIRE_BFLOAT16,
    (2, 64): lib.QUIRE_FLOAT64,
    (0, 8): lib.QUIRE_INT8,
    (0, 16): lib.QUIRE_INT16,
    (0, 32): lib.QUIRE_INT32,
    (0, 64): lib.QUIRE_INT64,
    (1, 8): lib.QUIRE_UINT8,
    (1, 16): lib.QUIRE_UINT16,
    (1, 32): lib.QUIRE_UINT32,
    (1, 64): lib.QUIRE_UINT64,
    (6, 8): lib.QUIRE_BOOL,
}
_DTYPES = {code | bits << 8 | 1 << 16: dtype for (code, bits), dtype in _CODES.items()}
_nothing = ffi.new("double *")
_NOWHERE = int(ffi.cast("uintptr_t", _nothing))


# ---- capsules, and the element type where DLPack's would be wrong ----


def _numpy_capsule(array: Any) -> tuple[Any, int]:
    try:
        return array.__dlpack__(max_version=(1, 0)), 0
    except BufferError:
        # NumPy exports no bfloat16, which it has from ml_dtypes; its bits travel as uint16.
        if array.dtype.name != "bfloat16":
            raise
        return array.view(np.uint16).__dlpack__(max_version=(1, 0)), lib.QUIRE_BFLOAT16


def _torch_capsule(tensor: Any) -> tuple[Any, int]:
    # The same capsule as __dlpack__'s, without its cost.
    if tensor.requires_grad:
        raise BufferError("the tensor requires grad; pass .detach()")
    if tensor.is_neg():
        raise BufferError("the tensor is a lazy negative; pass .resolve_neg()")
    return sys.modules["torch"].utils.dlpack.to_dlpack(tensor), 0


def _foreign_capsule(value: Any) -> tuple[Any, int]:
    try:
        return value.__dlpack__(max_version=(1, 0)), 0
    except TypeError:  # a library of before version 1.0
        return value.__dlpack__(), 0


def _buffer_capsule(value: Any) -> tuple[Any, int]:
    view = memoryview(value)
    array = np.asarray(view)
    if array.dtype == object or array.dtype.names:
        raise BufferError(f"its elements ({view.format!r}) are no numbers")
    return _numpy_capsule(array)


Exporter = tuple[Callable[[Any], tuple[Any, int]], str]
_exporters: dict[type, Exporter | None] = {}


def _exporter(kind: type) -> Exporter | None:
    """How tensors of a class are exported; remembered, as classes are few."""
    if kind not in _exporters:
        if len(_exporters) >= 256:
            _exporters.clear()
        _exporters[kind] = _find_exporter(kind)
    return _exporters[kind]


def _find_exporter(kind: type) -> Exporter | None:
    torch = sys.modules.get("torch")
    if issubclass(kind, np.ndarray):
        return _numpy_capsule, "numpy"
    if torch is not None and hasattr(torch, "Tensor") and issubclass(kind, torch.Tensor):
        return _torch_capsule, "torch"
    if hasattr(kind, "__dlpack__"):
        return _foreign_capsule, "numpy"
    if kind in (str, bytes, int, float, list, tuple) or not _has_buffer(kind):
        return None
    return _buffer_capsule, "numpy"


def _has_buffer(kind: type) -> bool:
    # Py_TPFLAGS tell nothing; __buffer__ exists from Python 3.12 on.
    return hasattr(kind, "__buffer__") or kind.__name__ in (
        "memoryview",
        "bytearray",
        "array",
        "mmap",
    )


def library_of(value: Any) -> str:
    """ "torch" or "numpy": where outputs of a call with this tensor are made."""
    found = _exporter(type(value))
    return found[1] if found else "numpy"


# ---- reading ----


def export(name: str, value: Any, writes: bool) -> tuple[Layout, int, Any]:
    """Layout and address of a tensor in host memory, and what keeps the memory; or BadRequest or
    BadType, by the argument's name."""
    kind = type(value)
    found = _exporters.get(kind) or _exporter(kind)
    if found is None:
        raise BadRequest(
            f"{name}: {kind.__name__} is no tensor; pass an array with __dlpack__ or a buffer",
            subject=name,
        )
    exporter, library = found
    try:
        record: Any
        capsule, dtype = exporter(value)
        try:
            at = _versioned_at(_get_pointer(capsule, b"dltensor_versioned"))
        except ValueError:  # a record of before version 1.0
            plain = _plain_at(_get_pointer(capsule, b"dltensor"))
            flags, record = 0, _PLAIN.unpack_from(plain)
        else:
            major, minor, _, _, flags, *record = _VERSIONED.unpack_from(at)
            if major != 1:
                raise BufferError(f"DLPack {major}.{minor} is not known")
        if writes and flags & _READ_ONLY:
            raise BufferError("is read-only, and the call writes to it; pass a writable copy")
        address, place, number, ndim, element, shape, strides, offset = record
        if not 0 <= ndim < len(_NUMBERS):
            raise BufferError(f"has {ndim} dimensions, 0 to {lib.QUIRE_MAX_RANK} are possible")
        if ndim and not shape:
            raise BufferError("has no shape")
        sizes = _NUMBERS[ndim](shape).raw if ndim else b""
        steps = _NUMBERS[ndim](strides).raw if ndim and strides else b""
    except Exception as fault:  # whatever a foreign exporter raises
        raise BadRequest(f"{name}: {fault}", subject=name) from fault
    if place not in _HOST_DEVICES:
        raise BadRequest(
            f"{name}: is on {_DEVICE_NAMES.get(place, f'DLPack device {place}')}:{number}, the "
            "device takes host memory; pass a copy there",
            subject=name,
        )
    key = (dtype, element, sizes, steps, library)
    layout = known_layout(key) or remember(key, _layout(name, *key))
    address += offset
    if not address:
        if 0 not in ffi.unpack(layout.record.shape, ndim):
            raise BadRequest(f"{name}: has no memory", subject=name)
        address = _NOWHERE  # of no elements, and still not absent
    if address % layout.alignment:
        raise BadRequest(
            f"{name}: its data is not aligned to its elements of {layout.alignment} bytes; "
            "pass a copy",
            subject=name,
        )
    return layout, address, capsule


def _layout(
    name: str, dtype: int, element: int, sizes: bytes, steps: bytes, library: str
) -> Layout:
    """For an element type that may replace DLPack's, and 64-bit sizes and strides."""
    known = _DTYPES.get(element)
    if known is None:
        raise BadType(
            f"{name}: elements of DLPack type {element & 255}, {element >> 8 & 255} bits, "
            f"{element >> 16} lanes are not supported",
            subject=name,
        )
    count = len(sizes) // 8
    shape = struct.unpack(f"@{count}q", sizes)
    strides = struct.unpack(f"@{count}q", steps) if steps else None
    # Libraries give axes of one element and empty tensors whatever strides they like.
    if strides is not None and is_dense(shape, strides):
        strides = None
    return layout_of(dtype or known, shape, strides, library)
