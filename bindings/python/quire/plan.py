"""Plans: what a call will do, decided once per shape; explanations of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quire import _tensor
from quire._dlpack import library_of
from quire._layout import dtype_name, dtype_number
from quire._native import c_text, check, exception, ffi, generation, lib, new_error, owned, text
from quire.buffer import output_maker
from quire.device import Device, Operator, Workspace, default_device, operator_named
from quire.errors import BadPresence, BadRequest, Error

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


class _Request:
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


class Plan:
    """What a call of an operator will do. Immutable; may be used by several threads at once.

    operator: name or Operator. inputs: name -> array or Form. attributes: name -> value.
    outputs: names of outputs to compute, or name -> array, Form or None (inferred). An output that
        is not optional need not be listed; an in-place tensor is updated in place unless its
        output side is listed.
    precision: "exact", or "fast" to allow implementations with a tolerance of their own.
    variant: insists on one. tunables: name -> value.
    """

    def __init__(
        self,
        operator: Operator | str,
        inputs: Mapping[str, Any],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Mapping[str, Any] | Iterable[str] = (),
        device: Device | None = None,
        precision: str = "exact",
        variant: str | None = None,
        tunables: Mapping[str, Any] | None = None,
    ) -> None:
        self.operator = operator_named(operator)
        self.device = device or default_device()
        request = _Request(
            self.operator, inputs, attributes or {}, outputs, precision, variant, tunables or {}
        )
        made, error = ffi.new("quire_plan **"), new_error()
        self.device_handle = self.device.live()
        check(
            lib.quire_plan_create(self.device_handle, self.operator.live(), request.c, made, error),
            error,
        )
        self._handle: Any = owned(made[0], lib.quire_plan_release)
        self._generation = generation()
        self.forms: dict[str, Form] = self._read_forms()
        """Every tensor of the call, by name; of an in-place tensor the output side is left out."""

    def _read_forms(self) -> dict[str, Form]:
        found: dict[str, Form] = {}
        form = ffi.new("quire_tensor *")
        for index, slot in enumerate(self.operator.slots):
            if lib.quire_plan_slot(self._handle, index, form):
                continue
            if form.dtype and slot.name not in found:
                found[slot.name] = Form(
                    dtype_name(form.dtype),
                    _tensor.shape_of(form),
                    _tensor.strides_of(form),
                )
        return found

    def live(self) -> Any:
        handle = self._handle
        if handle is None or self._generation != generation():
            raise BadRequest("plan: it is closed, or of a process before fork()")
        return handle

    def close(self) -> None:
        """Gives the plan up; bound calls keep what they need of it. May be repeated."""
        self._handle = None

    @property
    def variant(self) -> str:
        """The chosen algorithm."""
        return text(lib.quire_plan_variant(self.live()))

    @property
    def workspace_bytes(self) -> int:
        need = ffi.new("quire_workspace_need *")
        lib.quire_plan_workspace(self.live(), need)
        return int(need.bytes)

    def slot_bytes(self, name: str) -> int:
        """What a buffer for that tensor must have at least; 0: absent."""
        for side in (True, False):
            index = self.operator.index.get((name, side))
            if index is not None:
                return int(lib.quire_plan_slot_bytes(self.live(), index))
        return 0

    def bind(
        self,
        tensors: Mapping[str, Any],
        *,
        workspace: Workspace | None = None,
        strict: bool = True,
    ) -> BoundCall:
        """The plan with its tensors: a call that costs next to nothing to repeat.

        tensors: name -> array, inputs and outputs; outputs that are missing are allocated, and
        updates in place need none. The arrays are kept alive, and looked at anew on every call.
        workspace: scratch; without one the call gets its own. strict: a block table entry that is
        used must exist, a slot must exist or be -1.
        """
        return BoundCall(self, tensors, workspace, strict)

    def run(self, tensors: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """Binds and computes once; returns the outputs by name."""
        return self.bind(tensors, strict=strict)()

    def __repr__(self) -> str:
        state = self.variant if self._handle is not None else "closed"
        return f"<quire.Plan {self.operator.name} {state}>"


class BoundCall:
    """A plan with tensors and a workspace. Calling it computes and returns the outputs by name.

    Calls that share a workspace take turns. For many layers of one shape: prepare one of them once
    per step (it checks lengths and tables, and cuts up the work), then call each with
    prepared=True; they must share the workspace.
    """

    def __init__(
        self, plan: Plan, tensors: Mapping[str, Any], workspace: Workspace | None, strict: bool
    ) -> None:
        operator = plan.operator
        self.plan = plan
        self._plan = plan.live()
        self.workspace = workspace or Workspace(handle=plan.device_handle)
        self._scratch = self.workspace.live()
        self._lock = self.workspace.lock
        self._count = len(operator.slots)
        self._tensors = ffi.new("quire_tensor[]", self._count)
        self._keep: list[Any] = []
        self.outputs: dict[str, Any] = {}
        self._fill(operator, tensors)
        self._options = [_run_options(strict, prepared) for prepared in (False, True)]
        self._run = lib.quire_plan_run
        self._generation = generation()

    def _fill(self, operator: Operator, tensors: Mapping[str, Any]) -> None:
        known = {slot.name for slot in operator.slots}
        for name in tensors:
            if name not in known:
                raise BadRequest(f"{name}: {operator.name} has no such tensor", subject=name)
        first = next((value for value in tensors.values() if value is not None), None)
        make = output_maker(self.plan.device, library_of(first))
        written = {
            slot.alias
            for slot in operator.slots
            if slot.alias >= 0 and tensors.get(slot.name) is None
        }
        inputs = {slot.name for slot in operator.slots if not slot.is_output}
        forms = self.plan.forms
        place = _tensor.place_for(self.plan.device, held=True)
        for index, slot in enumerate(operator.slots):
            if slot.is_output and slot.name in inputs:
                continue  # both sides have one name: in place
            value = tensors.get(slot.name)
            if value is None:
                if not slot.is_output or slot.alias >= 0 or slot.name not in forms:
                    continue
                form = forms[slot.name]
                dtype = dtype_number(form.dtype)
                value = make(form.shape or (), dtype, self.plan.slot_bytes(slot.name))
            elif slot.name not in forms:
                raise BadPresence(f"{slot.name}: the plan was made without it", subject=slot.name)
            writes = slot.is_output or index in written
            self._keep.append(value)
            placed = place(slot.name, value, writes, self.plan.device)
            self._keep.append(_tensor.write(self._tensors + index, placed))
            if slot.is_output:
                self.outputs[slot.name] = value

    def __call__(self, *, prepared: bool = False) -> dict[str, Any]:
        if self._generation != generation():
            raise BadRequest("bound call: it is of a process before fork()")
        error = new_error()
        with self._lock:
            status = self._run(
                self._plan,
                self._tensors,
                self._count,
                self._scratch,
                self._options[prepared],
                error,
            )
        if status:
            raise self._explained(status, error)
        return self.outputs

    def prepare(self) -> None:
        """Checks the step's values and writes the work list into the workspace; no outputs."""
        if self._generation != generation():
            raise BadRequest("bound call: it is of a process before fork()")
        error = new_error()
        with self._lock:
            status = lib.quire_plan_prepare(
                self._plan,
                self._tensors,
                self._count,
                self._scratch,
                self._options[False],
                error,
            )
        if status:
            raise self._explained(status, error)

    def _explained(self, status: int, error: Any) -> Error:
        named = {
            slot.name: self._tensors[index] for index, slot in enumerate(self.plan.operator.slots)
        }
        return _tensor.explain_strides(exception(status, error), named)


def _run_options(strict: bool, prepared: bool) -> Any:
    options = ffi.new("quire_run_options *")
    lib.quire_run_options_init(options)
    options.flags = (lib.QUIRE_RUN_STRICT if strict else 0) | (
        lib.QUIRE_RUN_PREPARED if prepared else 0
    )
    return options


# ---- explanations ----


class Explanation(str):
    """What planning decided and why. `refused` is the exception that a call would raise, or None."""

    refused: Error | None = None


def _description(device: Mapping[str, Any], keep: list[Any]) -> Any:
    """A device that need not be there: {"backend", "features", "limits", "adapter"}."""
    unknown = set(device) - {"backend", "features", "limits", "adapter"}
    if unknown:
        raise BadRequest(f"device: {sorted(unknown)[0]!r} is no member of a description")

    def kept(value: str) -> Any:
        keep.append(c_text(value))
        return keep[-1]

    def values(name: str) -> tuple[Any, int]:
        members = device.get(name, {})
        array = ffi.new("quire_named_value[]", len(members))
        keep.append(array)
        for record, (key, value) in zip(array, members.items(), strict=True):
            record.name = kept(key)
            set_value(record, key, value, kept)
        return array, len(members)

    description = ffi.new("quire_device_description *")
    description.struct_size = ffi.sizeof("quire_device_description")
    description.backend = kept(device.get("backend", "webgpu"))
    features = ffi.new("const char *[]", [kept(name) for name in device.get("features", ())])
    keep.append(features)
    description.features, description.feature_count = features, len(features)
    description.limits, description.limit_count = values("limits")
    description.adapter, description.adapter_count = values("adapter")
    return description


def explain(
    operator: Operator | str,
    inputs: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    *,
    outputs: Mapping[str, Any] | Iterable[str] = (),
    device: Device | Mapping[str, Any] | None = None,
    format: str = "text",
    precision: str = "exact",
    variant: str | None = None,
    tunables: Mapping[str, Any] | None = None,
) -> Explanation:
    """What planning decides and why, also where it refuses.

    device: an open one, or a description of any other, present or not: {"backend": "webgpu",
    "features": [...], "limits": {...}, "adapter": {...}}. format: "text" or "json". The rest is as
    for Plan.
    """
    if format not in ("text", "json"):
        raise BadRequest(f"format: {format!r} is neither 'text' nor 'json'")
    found = operator_named(operator)
    request = _Request(found, inputs, attributes or {}, outputs, precision, variant, tunables or {})
    style = lib.QUIRE_EXPLAIN_JSON if format == "json" else lib.QUIRE_EXPLAIN_TEXT
    written, refusal = _written(lib.quire_explain, found, device, request, style)
    if refusal is not None and not written:
        raise refusal
    explanation = Explanation(written)
    explanation.refused = refusal
    return explanation


def render(
    operator: Operator | str,
    inputs: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    *,
    shader_pass: str | None = None,
    outputs: Mapping[str, Any] | Iterable[str] = (),
    device: Device | Mapping[str, Any] | None = None,
    variant: str | None = None,
    tunables: Mapping[str, Any] | None = None,
) -> str:
    """The WGSL of a plan's shader passes, for any device, as explain() takes it.

    shader_pass: id or number of one; None: all. device: None: the defaults of WebGPU.
    """
    found = operator_named(operator)
    request = _Request(found, inputs, attributes or {}, outputs, "exact", variant, tunables or {})
    chosen = ffi.NULL if shader_pass is None else c_text(shader_pass)
    written, refusal = _written(lib.quire_render, found, device or {}, request, chosen)
    if refusal is not None:
        raise refusal
    return written


def _written(
    function: Any,
    operator: Operator,
    device: Device | Mapping[str, Any] | None,
    request: _Request,
    choice: Any,
) -> tuple[str, Error | None]:
    """What the library writes about a request, and its refusal."""
    keep: list[Any] = []
    described = _description(device, keep) if isinstance(device, Mapping) else ffi.NULL
    opened = default_device() if device is None else device
    handle = opened.live() if isinstance(opened, Device) else ffi.NULL
    pieces: list[bytes] = []

    def take(_user: Any, characters: Any, length: int) -> None:
        pieces.append(ffi.buffer(characters, length)[:])

    write = ffi.callback("void(void *, const char *, size_t)", take)
    error = new_error()
    status = function(operator.live(), handle, described, request.c, choice, write, ffi.NULL, error)
    text_of = b"".join(pieces).decode("utf-8", "replace")
    return text_of, exception(status, error) if status else None
