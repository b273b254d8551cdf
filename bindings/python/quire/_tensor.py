"""Tensors of other libraries as quire_tensor records, without copying, through DLPack."""

from __future__ import annotations

import ctypes
import math
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from quire._native import check, ffi, lib, new_error, owned, text
from quire.errors import BadRequest, BadShape, BadType, Error, Limit, Unsupported

# ctypes.pythonapi, unlike cffi, keeps the interpreter's lock, which these functions need.
_get_pointer = ctypes.PyDLL(None).PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.PyDLL(None).PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]

# Records are read and written as a whole: member by member costs three times as much.
_TENSOR = struct.Struct("@PQiiPP")  # quire_tensor
_PLAIN = struct.Struct("@PiiiIPPQ")  # DLTensor, its type as one number
_VERSIONED = struct.Struct("@IIPPQPiiiIPPQ")  # DLManagedTensorVersioned
TENSOR_SIZE = _TENSOR.size
if (
    _TENSOR.size != ffi.sizeof("quire_tensor")
    or _PLAIN.size != ffi.sizeof("DLTensor")
    or _VERSIONED.size != ffi.sizeof("DLManagedTensorVersioned")
    or sys.byteorder != "little"
):
    raise ImportError("quire: records are laid out differently on this platform")
_plain_at = (ctypes.c_char * _PLAIN.size).from_address
_versioned_at = (ctypes.c_char * _VERSIONED.size).from_address
_read_plain, _read_versioned = _PLAIN.unpack_from, _VERSIONED.unpack_from
_write = _TENSOR.pack_into
_READ_ONLY = 1
_HOST_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost
_DEVICE_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi",
                 15: "webgpu", 16: "hexagon"}  # fmt: skip

# (code, bits) of DLPack, for one lane -> (element type, its size).
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
_DTYPES = {
    code | bits << 8 | 1 << 16: (dtype, int(lib.quire_dtype_size(dtype)))
    for (code, bits), dtype in _CODES.items()
}


Exported = tuple[Any, int, bool | None]


def dtype_name(dtype: int) -> str:
    return text(lib.quire_dtype_name(dtype))


_BY_NAME = {dtype_name(number): (number, size) for number, size in _DTYPES.values()}

# ---- exporters ----
#
# Each returns a capsule, the element type if DLPack's would be wrong, and whether the tensor is
# dense, if the library says so. Dense tensors get no strides: libraries give axes of one element
# and empty tensors whatever strides they like.


def _export_numpy(array: Any) -> Exported:
    try:
        return array.__dlpack__(max_version=(1, 0)), 0, array.flags.c_contiguous
    except BufferError:
        # NumPy exports no bfloat16, which it has from ml_dtypes; its bits travel as uint16.
        if array.dtype.name != "bfloat16":
            raise
        bits = array.view(np.uint16)
        return bits.__dlpack__(max_version=(1, 0)), lib.QUIRE_BFLOAT16, bits.flags.c_contiguous


def _export_torch(tensor: Any) -> Exported:
    # The same capsule as __dlpack__'s, without its cost.
    if tensor.requires_grad:
        raise BufferError("the tensor requires grad; pass .detach()")
    if tensor.is_neg():
        raise BufferError("the tensor is a lazy negative; pass .resolve_neg()")
    return _torch_capsule(tensor), 0, tensor.is_contiguous()


def _torch_capsule(tensor: Any) -> Any:
    global _torch_capsule
    from torch.utils.dlpack import to_dlpack

    _torch_capsule = to_dlpack
    return to_dlpack(tensor)


def _export_dlpack(value: Any) -> Exported:
    try:
        return value.__dlpack__(max_version=(1, 0)), 0, None
    except TypeError:  # a library of before version 1.0
        return value.__dlpack__(), 0, None


def _export_buffer(value: Any) -> Exported:
    view = memoryview(value)
    array = np.asarray(view)
    if array.dtype == object or array.dtype.names:
        raise BufferError(f"its elements ({view.format!r}) are no numbers")
    return _export_numpy(array)


_exporters: dict[type, Callable[[Any], Exported]] = {np.ndarray: _export_numpy}


def _find_exporter(kind: type) -> Callable[[Any], Exported] | None:
    """How tensors of a class are exported; remembered, as classes are few."""
    torch = sys.modules.get("torch")
    found: Callable[[Any], Exported]
    if issubclass(kind, np.ndarray):
        found = _export_numpy
    elif torch is not None and hasattr(torch, "Tensor") and issubclass(kind, torch.Tensor):
        found = _export_torch
    elif hasattr(kind, "__dlpack__"):
        found = _export_dlpack
    elif kind in (str, bytes, int, float, list, tuple) or not _has_buffer(kind):
        return None
    else:
        found = _export_buffer
    if len(_exporters) < 256:
        _exporters[kind] = found
    return found


def _has_buffer(kind: type) -> bool:
    # Py_TPFLAGS tell nothing; __buffer__ exists from Python 3.12 on.
    return hasattr(kind, "__buffer__") or kind.__name__ in (
        "memoryview",
        "bytearray",
        "array",
        "mmap",
    )


# ---- import ----


class Buffer:
    """A dense tensor in memory of a device: what calls on devices other than the CPU take.

    Made by Device.empty() and Device.put(). Calls on the device see writes that came before them.
    """

    def __init__(self, device: Any, shape: tuple[int, ...], dtype: Any, nbytes: int = 0) -> None:
        self.device = device
        self.shape = tuple(shape)
        self.dtype = dtype_name(dtype_number(dtype))
        """Name of the element type."""
        self.number, size = _BY_NAME[self.dtype]
        if len(self.shape) > lib.QUIRE_MAX_RANK or any(d < 0 or d >= 2**63 for d in self.shape):
            raise BadRequest(f"buffer: shape {list(self.shape)} is not possible")
        self.size = math.prod(self.shape) * size
        if self.size >= 2**63:
            raise Limit(f"buffer: shape {list(self.shape)} does not fit 64 bits")
        made, error = ffi.new("void **"), new_error()
        handle = device.live()
        check(
            lib.quire_buffer_create(handle, max(-(-self.size // 4) * 4, nbytes), made, error), error
        )
        # The buffer keeps its device: it must be destroyed first.
        self._handle: Any = owned(made[0], lambda held: lib.quire_buffer_destroy(handle, held))
        self._dimensions = ffi.new("int64_t[]", [*self.shape, 0])
        self._shape_address = int(ffi.cast("uintptr_t", self._dimensions))
        self._lock = threading.Lock()

    def live(self) -> Any:
        handle = self._handle
        if handle is None:
            raise BadRequest("buffer: it is closed")
        self.device.live()
        return handle

    def close(self) -> None:
        """Gives the memory back once no call uses it. May be repeated."""
        self._handle = None

    def write(self, array: Any) -> None:
        """Copies a dense array of the same type and shape in."""
        record, _kept = view("array", array)
        if record.dtype != self.number or shape_of(record) != self.shape:
            raise BadShape(
                f"array: is {dtype_name(record.dtype)} {list(shape_of(record))}, "
                f"the buffer is {self.dtype} {list(self.shape)}"
            )
        if not is_dense(record):
            raise Unsupported("array: has gaps; pass a contiguous copy")
        source = ffi.cast("char *", record.data) + record.byte_offset
        error = new_error()
        with self._lock:
            check(
                lib.quire_buffer_write(
                    self.device.live(), self.live(), 0, source, self.size, error
                ),
                error,
            )

    def numpy(self) -> Any:
        """A copy as a NumPy array; waits for calls that write it."""
        array = empty(self.shape, self.number, None)
        error = new_error()
        with self._lock:
            target, _kept = view("array", array, True)
            check(
                lib.quire_buffer_read(
                    self.device.live(), self.live(), 0, target.data, self.size, error
                ),
                error,
            )
        return array

    def __repr__(self) -> str:
        return f"<quire.Buffer {self.dtype} {list(self.shape)}>"


def _put_buffer(target: Any, at: int, name: str, value: Buffer, device: Any) -> tuple[Any, int]:
    if device is not None and value.device is not device:
        raise BadRequest(f"{name}: is a buffer of another device", subject=name)
    handle = value.live()
    address = int(ffi.cast("uintptr_t", handle))
    _write(target, at, address, 0, value.number, len(value.shape), value._shape_address, 0)
    return (value, handle), value.number


def put(
    target: Any, at: int, name: str, value: Any, writes: bool, device: Any = None
) -> tuple[Any, int]:
    """Writes a quire_tensor that views a value into a buffer, at a byte offset.

    device: whose call it is for, one that takes host memory; None: only the form counts. Returns
    what keeps the record valid, and the element type.
    """
    kind = type(value)
    exporter = _exporters.get(kind) or _find_exporter(kind)
    if exporter is None:
        if kind is Buffer:
            return _put_buffer(target, at, name, value, device)
        raise BadRequest(
            f"{name}: {kind.__name__} is no tensor; pass an array with __dlpack__ or a buffer",
            subject=name,
        )
    try:
        capsule, dtype, dense = exporter(value)
        if exporter is _export_numpy or (
            exporter is not _export_torch and _is_valid(capsule, b"dltensor_versioned")
        ):
            (major, minor, _, _, flags, data, place, number, ndim, element, shape, strides,
             offset) = _read_versioned(
                _versioned_at(_get_pointer(capsule, b"dltensor_versioned"))
            )  # fmt: skip
            if major != 1:
                raise BufferError(f"DLPack {major}.{minor} is not known")
            if writes and flags & _READ_ONLY:
                raise BufferError("is read-only, and the call writes to it; pass a writable copy")
        else:
            data, place, number, ndim, element, shape, strides, offset = _read_plain(
                _plain_at(_get_pointer(capsule, b"dltensor"))
            )
    except Error:
        raise
    except Exception as fault:  # whatever a foreign exporter raises
        raise BadRequest(f"{name}: {fault}", subject=name) from fault
    if place != 1 and place not in _HOST_DEVICES:
        raise BadRequest(_elsewhere(name, place, number), subject=name)
    known = _DTYPES.get(element)
    if known is None:
        raise BadType(
            f"{name}: elements of DLPack type {element & 255}, {element >> 8 & 255} bits, "
            f"{element >> 16} lanes are not supported",
            subject=name,
        )
    if (data + offset) % known[1]:
        raise BadRequest(
            f"{name}: its data is not aligned to its elements of {known[1]} bytes; pass a copy",
            subject=name,
        )
    dtype = dtype or known[0]
    if dense:
        strides = 0
    elif dense is None and strides and 0 < ndim <= lib.QUIRE_MAX_RANK:
        strides = 0 if _is_dense(_numbers(shape, ndim), _numbers(strides, ndim)) else strides
    _write(target, at, data, offset, dtype, ndim, shape, strides)
    return capsule, dtype


def put_there(
    target: Any, at: int, name: str, value: Any, _writes: bool, device: Any
) -> tuple[Any, int]:
    """put() for calls on a device that has memory of its own."""
    if type(value) is not Buffer:
        raise BadRequest(
            f"{name}: is in host memory, and {device!r} has its own; pass device.put(array)",
            subject=name,
        )
    return _put_buffer(target, at, name, value, device)


def put_for(device: Any) -> Callable[..., tuple[Any, int]]:
    return put if device.takes_host_memory else put_there


def view(name: str, value: Any, writes: bool = False, device: Any = None) -> tuple[Any, Any]:
    """A quire_tensor record of its own, and what keeps it valid."""
    record = ffi.new("quire_tensor *")
    place = put if device is None else put_for(device)
    return record, place(ffi.buffer(record), 0, name, value, writes, device)


def _elsewhere(name: str, place: int, number: int) -> str:
    where = _DEVICE_NAMES.get(place, f"DLPack device {place}")
    return f"{name}: is on {where}:{number}, the device takes host memory; pass a copy there"


def shape_of(tensor: Any) -> tuple[int, ...]:
    return tuple(ffi.unpack(tensor.shape, tensor.ndim)) if tensor.ndim else ()


def strides_of(tensor: Any) -> tuple[int, ...] | None:
    if not tensor.strides or not tensor.ndim:
        return None
    return tuple(ffi.unpack(tensor.strides, tensor.ndim))


def is_dense(tensor: Any) -> bool:
    strides = strides_of(tensor)
    return strides is None or _is_dense(shape_of(tensor), strides)


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie in order without gaps; axes of one element do not matter."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address))


def explain_strides(fault: Error, tensors: Mapping[str, Any]) -> Error:
    """Adds the way out to a refusal that is about a tensor with gaps."""
    tensor = tensors.get(fault.subject)
    if tensor is None or is_dense(tensor):
        return fault
    return type(fault)(
        f"{fault} (its strides are {list(strides_of(tensor) or ())}; a contiguous copy is accepted)",
        rule=fault.rule,
        subject=fault.subject,
    )


# ---- making outputs ----


def _numpy_dtype(dtype: int) -> Any:
    name = dtype_name(dtype)
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise BadType(
                "NumPy has bfloat16 from the package ml_dtypes, which is not installed"
            ) from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


_numpy_dtypes: dict[int, Any] = {}


def empty(
    shape: tuple[int, ...], dtype: int, like: Any, device: Any = None, nbytes: int = 0
) -> Any:
    """A new array of the library that `like` comes from: PyTorch, and for all others NumPy.

    On a device with memory of its own a Buffer, of so many bytes at least.
    """
    if device is not None and not device.takes_host_memory:
        return Buffer(device, shape, dtype_name(dtype), nbytes)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "Tensor") and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=getattr(torch, dtype_name(dtype)))
    known = _numpy_dtypes.get(dtype)
    if known is None:
        known = _numpy_dtypes[dtype] = _numpy_dtype(dtype)
    if math.prod(shape) * known.itemsize > sys.maxsize:
        raise BadRequest(f"an output of shape {list(shape)} does not fit memory")
    return np.empty(shape, known)


def dtype_number(value: Any) -> int:
    """Element type by name ("float16"), NumPy type, or PyTorch type."""
    if value is None:
        return 0
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if name is None:
        name = str(value).removeprefix("torch.")
        if isinstance(value, type):
            name = getattr(value, "__name__", name)
    try:
        number = lib.quire_dtype_from_name(name.encode())
    except (AttributeError, ValueError):
        number = 0
    if not number:
        raise BadType(f"{value!r} is no element type")
    return int(number)
