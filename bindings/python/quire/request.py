"""Requests: tensors without memory, attributes and wishes, for plans and explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quire import _tensor
from quire._layout import dtype_name, dtype_number
from quire._native import c_text, ffi, lib
from quire.errors import BadRequest
from quire.operator import Operator

PRECISIONS = {"exact": 0, "fast": 1}


@dataclass(frozen=True)
class Form:
    """A tensor without its memory.

    dtype: name, NumPy or PyTorch type; None in outputs: the operator decides.
    shape: None in outputs: to be inferred. strides: in elements; None: dense.
    alias: outputs: name of the input whose very buffer it is.
    """

    dtype: Any = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    alias: str | None = None


class Request:
    """A quire_request with everything that it points to."""

    def __init__(
        self,
        operator: Operator,
        inputs: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any] | Iterable[str],
        precision: str,
        variant: str | None,
        tunables: Mapping[str, Any],
    ) -> None:
        self.keep: list[Any] = []
        self.c = ffi.new("quire_request *")
        lib.quire_request_init(self.c)
        if not isinstance(outputs, Mapping):
            outputs = dict.fromkeys(outputs)
        buffers: dict[int, str] = {}
        given = [
            self._form(name, value, buffers) for name, value in inputs.items() if value is not None
        ]
        asked = [self._output(name, value, buffers) for name, value in outputs.items()]
        self.c.inputs, self.c.input_count = self._tensors(given), len(given)
        self.c.outputs, self.c.output_count = self._tensors(asked), len(asked)
        self.c.attributes, self.c.attribute_count = self._values(attributes)
        self.c.tunables, self.c.tunable_count = self._values(tunables)
        if precision not in PRECISIONS:
            raise BadRequest(f"precision: {precision!r} is neither 'exact' nor 'fast'")
        self.c.precision = PRECISIONS[precision]
        if variant is not None:
            self.c.variant = self._text(variant)

    def _text(self, value: str) -> Any:
        characters = c_text(value)
        self.keep.append(characters)
        return characters

    def _form(self, name: str, value: Any, buffers: dict[int, str]) -> tuple[str, Form]:
        if isinstance(value, Form):
            if value.shape is None or value.dtype is None:
                raise BadRequest(f"{name}: an input needs a dtype and a shape", subject=name)
            return name, value
        view, kept = _tensor.view(name, value)
        self.keep.append(kept)
        buffers.setdefault(_address(view), name)
        dtype = dtype_name(view.dtype)
        return name, Form(dtype, _tensor.shape_of(view), _tensor.strides_of(view))

    def _output(self, name: str, value: Any, buffers: dict[int, str]) -> tuple[str, Form]:
        if value is None or value is True:
            return name, Form()
        if isinstance(value, Form):
            return name, value
        view, kept = _tensor.view(name, value, True)
        self.keep.append(kept)
        dtype, shape = dtype_name(view.dtype), _tensor.shape_of(view)
        shared = buffers.get(_address(view)) if 0 not in shape else None
        return name, Form(dtype, shape, _tensor.strides_of(view), shared)

    def _tensors(self, forms: list[tuple[str, Form]]) -> Any:
        array = ffi.new("quire_request_tensor[]", len(forms))
        self.keep.append(array)
        for record, (name, form) in zip(array, forms, strict=True):
            record.name = self._text(name)
            record.dtype = dtype_number(form.dtype)
            record.ndim = -1
            if form.shape is not None:
                record.ndim = len(form.shape)
                record.shape = self._numbers(name, form.shape)
            if form.strides is not None:
                if form.shape is None or len(form.strides) != len(form.shape):
                    raise BadRequest(f"{name}: as many strides as dimensions are needed")
                record.strides = self._numbers(name, form.strides)
            if form.alias is not None:
                record.alias = self._text(form.alias)
        return array

    def _numbers(self, name: str, numbers: Iterable[int]) -> Any:
        try:
            array = ffi.new("int64_t[]", list(numbers))
        except (TypeError, OverflowError) as fault:
            raise BadRequest(f"{name}: {fault}", subject=name) from fault
        self.keep.append(array)
        return array

    def _values(self, values: Mapping[str, Any]) -> tuple[Any, int]:
        array = ffi.new("quire_named_value[]", len(values))
        self.keep.append(array)
        for record, (name, value) in zip(array, values.items(), strict=True):
            record.name = self._text(name)
            set_value(record, name, value, self._text)
        return array, len(values)


def set_value(record: Any, name: str, value: Any, keep_text: Callable[[str], Any]) -> None:
    """Fills a quire_named_value from a Python number or text."""
    if isinstance(value, str):
        record.type, record.s = lib.QUIRE_VALUE_TYPE_STRING, keep_text(value)
    elif hasattr(value, "__index__"):
        if not -(2**63) <= value.__index__() < 2**63:
            raise BadRequest(f"{name}: {value} does not fit 64 bits", subject=name)
        record.type, record.i = lib.QUIRE_VALUE_TYPE_INT, value.__index__()
    else:
        try:
            record.type, record.f = lib.QUIRE_VALUE_TYPE_FLOAT, float(value)
        except (TypeError, ValueError) as fault:
            raise BadRequest(
                f"{name}: {value!r} is neither number nor text", subject=name
            ) from fault


def _address(view: Any) -> int:
    return int(ffi.cast("uintptr_t", view.data)) + int(view.byte_offset)
