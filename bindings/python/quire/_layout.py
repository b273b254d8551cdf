"""Element types, and tensors but for their addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire._native import ffi, lib, text
from quire.errors import BadType

#: Element type -> its size.
SIZES: dict[int, int] = {
    number: int(lib.quire_dtype_size(number))
    for number in range(256)
    if lib.quire_dtype_size(number)
}


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


class Layout:
    """A tensor but for its address: element type, shape, strides; where outputs beside it are made.

    One object for all tensors that are alike, so that what is known about a call can be found by it.
    """

    __slots__ = ("_sizes", "_steps", "alignment", "dense", "library", "record")

    def __init__(
        self,
        dtype: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        library: str = "numpy",
    ) -> None:
        self.library = library
        self.alignment, self.dense = SIZES[dtype], strides is None
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


known_layout: Callable[[Any], Layout | None] = _layouts.get


def layout_of(
    dtype: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, library: str
) -> Layout:
    key = (dtype, shape, strides, library)
    return _layouts.get(key) or remember(key, Layout(*key))


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie in order without gaps; axes of one element do not matter."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True
