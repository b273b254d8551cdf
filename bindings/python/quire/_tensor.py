"""Tensors of other libraries as quire_tensor records, without copying."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from quire._dlpack import export
from quire._layout import (
    Layout,
    dtype_name,
    is_dense,
    known_layout,
    remember,
)
from quire._native import ffi, lib
from quire.errors import BadRequest, BadType, Error

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
            layout = known_layout((value.dtype, value.shape))
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
                layout = known_layout((value.dtype, value.shape))
                if layout is not None:
                    address = value.data_ptr()
                    if address and not address % layout.alignment:
                        return layout, _cast(_ADDRESS, address), value
        except Exception:  # without storage, or of no shape: export() says it better
            pass
    return place_held(name, value, writes, device)


def place_held(name: str, value: Any, writes: bool, device: Any = None) -> Placed:
    """place() for longer than a call: the memory stays even if its tensor gets another one."""
    if hasattr(type(value), "_placed"):
        return value._placed(name, device)  # type: ignore[no-any-return]
    layout, address, keep = export(name, value, writes)
    kind = type(value)
    if layout.dense and (kind is np.ndarray or layout.library == "torch"):
        _note_form(value, kind, layout)
    return layout, _cast(_ADDRESS, address), keep


def _note_form(value: Any, kind: type, layout: Layout) -> None:
    """place() will know tensors like this dense one by their attributes."""
    global _torch_tensor
    if kind is np.ndarray:
        if layout.record.dtype != lib.QUIRE_BFLOAT16:  # a guest in NumPy, without a buffer
            remember((value.dtype, value.shape), layout)
    elif kind is sys.modules["torch"].Tensor:
        _torch_tensor = kind
        remember((value.dtype, value.shape), layout)


def place_there(name: str, value: Any, _writes: bool, device: Any) -> Placed:
    """place() for calls on a device that has memory of its own."""
    if not hasattr(type(value), "_placed"):
        raise BadRequest(
            f"{name}: is in host memory, and {device!r} has its own; pass device.put(array)",
            subject=name,
        )
    return value._placed(name, device)  # type: ignore[no-any-return]


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
