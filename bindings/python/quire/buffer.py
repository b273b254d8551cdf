"""Memory of a device."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from quire import _tensor
from quire._layout import SIZES, dtype_name, dtype_number, layout_of
from quire._native import check, ffi, lib, new_error, owned
from quire._tensor import shape_of, tensor_is_dense, view
from quire.errors import BadRequest, BadShape, Limit, Unsupported


class Buffer:
    """A dense tensor in memory of a device: what calls on devices other than the CPU take.

    Made by Device.empty() and Device.put(). Calls on the device see writes that came before them.
    """

    def __init__(self, device: Any, shape: tuple[int, ...], dtype: Any, nbytes: int = 0) -> None:
        self.device = device
        self.shape = tuple(shape)
        number = dtype_number(dtype)
        self.dtype = dtype_name(number)
        """Name of the element type."""
        if len(self.shape) > lib.QUIRE_MAX_RANK or any(d < 0 or d >= 2**63 for d in self.shape):
            raise BadRequest(f"buffer: shape {list(self.shape)} is not possible")
        self.size = math.prod(self.shape) * SIZES[number]
        if self.size >= 2**63:
            raise Limit(f"buffer: shape {list(self.shape)} does not fit 64 bits")
        made, error = ffi.new("void **"), new_error()
        handle = device.live()
        check(
            lib.quire_buffer_create(handle, max(-(-self.size // 4) * 4, nbytes), made, error), error
        )
        # The buffer keeps its device: it must be destroyed first.
        self._handle: Any = owned(made[0], lambda held: lib.quire_buffer_destroy(handle, held))
        self._layout = layout_of(number, self.shape, None, "buffer")
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

    def _placed(self, name: str, device: Any) -> _tensor.Placed:
        """For a call on a device, or for none."""
        if device is not None and self.device is not device:
            raise BadRequest(f"{name}: is a buffer of another device", subject=name)
        handle = self.live()
        return self._layout, handle, self

    def write(self, array: Any) -> None:
        """Copies a dense array of the same type and shape in."""
        record, _kept = view("array", array)
        if dtype_name(record.dtype) != self.dtype or shape_of(record) != self.shape:
            raise BadShape(
                f"array: is {dtype_name(record.dtype)} {list(shape_of(record))}, "
                f"the buffer is {self.dtype} {list(self.shape)}"
            )
        if not tensor_is_dense(record):
            raise Unsupported("array: has gaps; pass a contiguous copy")
        error = new_error()
        with self._lock:
            check(
                lib.quire_buffer_write(
                    self.device.live(), self.live(), 0, record.data, self.size, error
                ),
                error,
            )

    def numpy(self) -> Any:
        """A copy as a NumPy array; waits for calls that write it."""
        array = _tensor.empty(self.shape, dtype_number(self.dtype), "numpy")
        target, _kept = view("array", array, True)
        error = new_error()
        with self._lock:
            check(
                lib.quire_buffer_read(
                    self.device.live(), self.live(), 0, target.data, self.size, error
                ),
                error,
            )
        return array

    def __repr__(self) -> str:
        return f"<quire.Buffer {self.dtype} {list(self.shape)}>"


def output_maker(device: Any, library: str) -> Callable[[tuple[int, ...], int, int], Any]:
    """What makes an output of a shape and an element type; on devices that take no host memory, of
    so many bytes at least."""
    if not device.takes_host_memory:
        return lambda shape, dtype, nbytes: Buffer(device, shape, dtype_name(dtype), nbytes)
    return lambda shape, dtype, _: _tensor.empty(shape, dtype, library)
