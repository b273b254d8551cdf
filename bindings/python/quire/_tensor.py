"""Tensors of other libraries as quire_tensor records, without copying."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from quire._dlpack import SIZES, export, is_dense
from quire._native import ffi, lib, text
from quire.errors import BadRequest, BadType, Error


def dtype_name(dtype: int) -> str:
    return text(lib.quire_dtype_name(dtype))


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


# ---- layouts ----


class Layout:
    """A tensor but for its address: element type, shape, strides; where outputs beside it are made.

    One object for all tensors that are alike, so that what is known about a call can be found by it.
    """

    __slots__ = ("_sizes", "_steps", "alignment", "library", "record")

    def __init__(
        self,
        dtype: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        library: str = "numpy",
    ) -> None:
        self.library = library
        self.alignment = SIZES[dtype]
        # One number at least, as NULL stands for an absent tensor.
        self._sizes = ffi.new("int64_t[]", [*shape, 0])
        self._steps = ffi.NULL if strides is None else ffi.new("int64_t[]", [*strides, 0])
        self.record = ffi.new("quire_tensor *")
        """quire_tensor with data NULL; valid while the layout lives."""
        self.record.dtype, self.record.ndim = dtype, len(shape)
        self.record.shape, self.record.strides = self._sizes, self._steps


_layouts: dict[Any, Layout] = {}
_LAYOUT_LIMIT = 4096


def remember(key: Any, layout: Layout) -> Layout:
    while len(_layouts) >= _LAYOUT_LIMIT:
        _layouts.pop(next(iter(_layouts)), None)
    return _layouts.setdefault(key, layout)


def layout_of(
    dtype: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, library: str
) -> Layout:
    key = (dtype, shape, strides, library)
    return _layouts.get(key) or remember(key, Layout(*key))


# ---- import ----

Placed = tuple[Layout, Any, Any]
"""A layout, the address as a pointer of C, and what keeps the memory."""

# NPY_ARRAY_C_CONTIGUOUS and _ALIGNED; with _WRITEABLE.
_READABLE, _WRITABLE = 0x101, 0x501
_from_buffer = ffi.from_buffer
_cast, _ADDRESS = ffi.cast, ffi.typeof("void *")
_torch_tensor: Any = None
"""torch.Tensor, once one was seen."""


def place(name: str, value: Any, writes: bool, device: Any = None) -> Placed:
    """Where a tensor lies, for one call.

    device: whose call it is for, one that takes host memory; None: only the form counts. Dense
    tensors of NumPy and PyTorch whose form was seen before are looked at by their attributes, all
    others by DLPack.
    """
    kind = type(value)
    if kind is np.ndarray:
        wanted = _WRITABLE if writes else _READABLE
        if value.flags.num & wanted == wanted:
            layout = _layouts.get((value.dtype, value.shape))
            if layout is not None:
                return layout, _from_buffer(value), None
    elif kind is _torch_tensor:
        try:
            if (
                value.is_cpu
                and value.is_contiguous()
                and not value.requires_grad
                and not value.is_neg()
            ):
                layout = _layouts.get((value.dtype, value.shape))
                if layout is not None:
                    address = value.data_ptr()
                    if address and not address % layout.alignment:
                        return layout, _cast(_ADDRESS, address), value
        except Exception:  # without storage, or of no shape: export() says it better
            pass
    return place_held(name, value, writes, device)


def place_held(name: str, value: Any, writes: bool, device: Any = None) -> Placed:
    """place() for longer than a call: the memory stays even if its tensor gets another one."""
    own = getattr(type(value), "_placed", None)
    if own is not None:
        return own(value, name, device)  # type: ignore[no-any-return]
    found = export(name, value, writes)
    layout = layout_of(found.dtype, found.shape, found.strides, found.library)
    if found.strides is None:
        _note_form(value, layout)
    return layout, _cast(_ADDRESS, found.address), found.keep


def _note_form(value: Any, layout: Layout) -> None:
    """place() will know tensors like this dense one by their attributes."""
    global _torch_tensor
    if layout.library == "torch" and type(value) is sys.modules["torch"].Tensor:
        _torch_tensor = type(value)
    elif type(value) is not np.ndarray or layout.record.dtype == lib.QUIRE_BFLOAT16:
        return  # bfloat16 is a guest in NumPy and has no buffer
    remember((value.dtype, value.shape), layout)


def place_there(name: str, value: Any, _writes: bool, device: Any) -> Placed:
    """place() for calls on a device that has memory of its own."""
    own = getattr(type(value), "_placed", None)
    if own is None:
        raise BadRequest(
            f"{name}: is in host memory, and {device!r} has its own; pass device.put(array)",
            subject=name,
        )
    return own(value, name, device)  # type: ignore[no-any-return]


def place_for(device: Any, held: bool = False) -> Any:
    """The function among these for a device's calls."""
    if device is not None and not device.takes_host_memory:
        return place_there
    return place_held if held else place


def write(record: Any, placed: Placed) -> Any:
    """Fills a quire_tensor; returns what must live as long."""
    layout, pointer, keep = placed
    ffi.memmove(record, layout.record, ffi.sizeof("quire_tensor"))
    record.data = pointer
    return layout, pointer, keep


def view(name: str, value: Any, writes: bool = False, device: Any = None) -> tuple[Any, Any]:
    """A quire_tensor record of its own, and what keeps it valid."""
    record = ffi.new("quire_tensor *")
    return record, write(record, place_for(device, held=True)(name, value, writes, device))


# ---- reading records ----


def shape_of(tensor: Any) -> tuple[int, ...]:
    return tuple(ffi.unpack(tensor.shape, tensor.ndim)) if tensor.ndim else ()


def strides_of(tensor: Any) -> tuple[int, ...] | None:
    if not tensor.strides or not tensor.ndim:
        return None
    return tuple(ffi.unpack(tensor.strides, tensor.ndim))


def tensor_is_dense(tensor: Any) -> bool:
    strides = strides_of(tensor)
    return strides is None or is_dense(shape_of(tensor), strides)


def explain_strides(fault: Error, tensors: Mapping[str, Any]) -> Error:
    """Adds the way out to a refusal that is about a tensor with gaps."""
    tensor = tensors.get(fault.subject)
    if tensor is None or tensor_is_dense(tensor):
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
_torch_samples: dict[int, Any] = {}
"""By element type a tensor without elements: new_empty() of it is twice as fast as empty()."""


def empty(shape: tuple[int, ...], dtype: int, library: str) -> Any:
    """A new array of NumPy or PyTorch."""
    if library == "torch":
        sample = _torch_samples.get(dtype)
        if sample is None:
            torch = sys.modules["torch"]
            sample = torch.empty(0, dtype=getattr(torch, dtype_name(dtype)), device="cpu")
            _torch_samples[dtype] = sample
        return sample.new_empty(shape)
    known = _numpy_dtypes.get(dtype)
    if known is None:
        known = _numpy_dtypes[dtype] = _numpy_dtype(dtype)
    if math.prod(shape) * known.itemsize > sys.maxsize:
        raise BadRequest(f"an output of shape {list(shape)} does not fit memory")
    return np.empty(shape, known)
