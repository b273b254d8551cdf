"""Typed calls: Python functions over the args structs of quire/operators.h."""

from __future__ import annotations

import functools
import inspect
import operator as python_operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from quire import _tensor
from quire._layout import Layout, dtype_name, dtype_number, layout_of
from quire._native import c_text, exception, ffi, lib, new_error
from quire._tensor import place_for
from quire.buffer import output_maker
from quire.device import Device, Workspace, default_device
from quire.errors import BadAttribute, BadPresence, BadRequest, Error
from quire.operator import operator_named
from quire.plan import Plan
from quire.request import Form

Tensor = Any
"""Anything with `__dlpack__`, or a buffer."""

Function = TypeVar("Function", bound=Callable[..., Any])

_INPUT, _OUTPUT, _CONTROL = "input", "output", "control"
# Types of Python whose values equal what C gets, so that they may stand for it in a key.
_PLAIN: dict[str, tuple[type, ...]] = {
    "float": (float, int, bool),
    "char *": (str,),
    "int": (int, bool),
}


class _Known:
    """What is the same for all calls of one form: the args struct but for its addresses."""

    __slots__ = ("keep", "make", "made", "template")

    def __init__(self, template: Any, keep: list[Any], make: Any, made: list[Any]) -> None:
        self.template, self.keep, self.make, self.made = template, keep, make, made


class TypedCall:
    """One typed call of the library, as its args struct and its operator's slots describe it.

    declaration: a function without a body of use: its signature has the struct's members, inputs
    and outputs as tensors. returns: names of outputs to return -> names of inputs in whose presence
    it is not made by itself; None: made only if asked for (by True), and else not returned.
    """

    def __init__(
        self,
        declaration: Callable[..., Any],
        function: str,
        operator: str,
        returns: Mapping[str, tuple[str, ...] | None],
    ) -> None:
        self.function = getattr(lib, function)
        self.init = getattr(lib, f"{function}_args_init")
        self.type = ffi.typeof(f"{function}_args *")
        self.operator, self.returns = operator, returns
        self.signature = inspect.signature(declaration)
        parameters = self.signature.parameters.values()
        self.positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.required = {p.name for p in parameters if p.default is p.empty}
        self.kinds: dict[str, str] = {"device": _CONTROL, "workspace": _CONTROL}
        """Parameter -> input, output, control, or the C type of an attribute."""
        self._read_members()
        self._written: dict[str, str] = {}
        self._known: dict[Any, _Known] = {}

    def _read_members(self) -> None:
        example = ffi.new(self.type)
        self.init(example)
        if example.struct_size != ffi.sizeof(self.type.item):
            raise ImportError("quire: the shared library is of another version than the package")
        tensor = ffi.typeof("quire_tensor")
        for name, member in self.type.item.fields:
            if member.type is tensor:
                self.kinds[name] = _INPUT
            elif name not in ("struct_size", "workspace", "executor"):
                kind = member.type.cname
                self.kinds[name] = kind if kind in _PLAIN else "int"

    def _read_slots(self) -> None:
        """Needs a context, which not every import should make."""
        slots = operator_named(self.operator).slots
        inputs = {slot.name for slot in slots if not slot.is_output}
        for slot in slots:
            if slot.is_output and slot.name not in inputs and slot.name in self.kinds:
                self.kinds[slot.name] = _OUTPUT
        self._written = {slots[slot.alias].name: slot.name for slot in slots if slot.alias >= 0}

    def tensors(self) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind in (_INPUT, _OUTPUT)]

    def outputs(self) -> list[str]:
        self._read_slots()
        return [name for name, kind in self.kinds.items() if kind == _OUTPUT]

    def written_inputs(self) -> set[str]:
        """Inputs that a call writes to unless an output of another name takes the writing."""
        self._read_slots()
        return set(self._written)

    def __call__(self, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if positional:
            named = self._named(positional, named)
        device, workspace = named.get("device"), named.get("workspace")
        if device is None:
            device = default_device()
        elif not isinstance(device, Device):
            raise BadRequest(f"device: {device!r} is no quire.Device", subject="device")
        if workspace is not None and not isinstance(workspace, Workspace):
            raise BadRequest(f"workspace: {workspace!r} is no quire.Workspace", subject="workspace")
        handle = device.live()
        args, outputs, _keep = self.filled(named, device)
        error = new_error()
        if workspace is None:
            status = self.function(handle, args, error)
        else:
            with workspace.lock:
                args.workspace = workspace.live()
                status = self.function(handle, args, error)
        if status:
            raise self.refusal(status, error, args)
        return self.result(outputs)

    def _named(self, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        both = dict(zip(self.positional, positional, strict=False), **named)
        if len(both) != len(positional) + len(named):
            self.signature.bind(*positional, **named)  # raises Python's own TypeError
        return both

    def filled(self, named: Mapping[str, Any], device: Device) -> tuple[Any, dict[str, Any], Any]:
        """An args struct, the outputs to return, and what must live as long as the struct."""
        if not self._written:
            self._read_slots()
        key: list[Any] = [device.number]
        placed: list[tuple[str, Any]] = []
        keep: list[Any] = []
        outputs: dict[str, Any] = {}
        kinds, written, place = self.kinds, self._written, place_for(device)
        for name, value in named.items():
            kind = kinds.get(name)
            if kind == _INPUT or kind == _OUTPUT:
                if value is None:
                    continue
                writes = kind == _OUTPUT
                if writes:
                    if name in self.returns:
                        outputs[name] = value
                        if value is True or value is False:
                            key += (name, value)
                            continue
                elif name in written:
                    writes = named.get(written[name]) is None
                layout, pointer, kept = place(name, value, writes, device)
                key += (name, layout)
                placed.append((name, pointer))
                keep.append((pointer, kept))
            elif kind is None:
                self.signature.bind(**named)  # raises TypeError
            elif kind is not _CONTROL:
                if type(value) not in _PLAIN[kind]:
                    value = _attribute(name, kind, value)
                key += (name, value)
        form = tuple(key)
        known = self._known.get(form) or self._learn(form, named, device)
        args = ffi.new(self.type, known.template)
        for name, pointer in placed:
            getattr(args, name).data = pointer
        for name, shape, dtype, nbytes in known.made:
            value = outputs[name] = known.make(shape, dtype, nbytes)
            _, pointer, kept = place(name, value, True, device)
            getattr(args, name).data = pointer
            keep.append((pointer, kept))
        keep.append(known)
        return args, outputs, keep

    def result(self, outputs: Mapping[str, Any]) -> Any:
        found = []
        for name, unless in self.returns.items():
            value = outputs.get(name)
            value = None if value is False else value
            if value is not None or unless is not None:
                found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    def refusal(self, status: int, error: Any, args: Any) -> Error:
        tensors = {name: getattr(args, name) for name in self.tensors()}
        return _tensor.explain_strides(exception(status, error), tensors)

    # ---- calls of a new form ----

    def _learn(self, key: tuple[Any, ...], named: Mapping[str, Any], device: Device) -> _Known:
        if not self.required <= named.keys():
            self.signature.bind(**named)  # raises TypeError
        template = ffi.new(self.type)
        self.init(template)
        layouts: dict[str, Layout] = {}
        attributes: dict[str, Any] = {}
        keep: list[Any] = []
        for name, value in zip(key[1::2], key[2::2], strict=True):
            if isinstance(value, Layout):
                layouts[name] = value
                setattr(template, name, value.record[0])
            elif self.kinds[name] != _OUTPUT:
                value = _attribute(name, self.kinds[name], value)
                attributes[name] = value
                if isinstance(value, str):
                    value = c_text(value)
                    keep.append(value)
                setattr(template, name, value)
        keep.append(layouts)
        made = self._outputs_to_make(named)
        forms = []
        if made:
            for name, form, nbytes in self._plan_outputs(device, layouts, named, attributes, made):
                dtype, shape = dtype_number(form.dtype), form.shape or ()
                layouts[name] = layout_of(dtype, shape, None, "numpy")
                setattr(template, name, layouts[name].record[0])
                forms.append((name, shape, dtype, nbytes))
        # Outputs come from where the first input does.
        library = next((layouts[name].library for name in self.kinds if name in layouts), "numpy")
        known = _Known(template[0], [template, *keep], output_maker(device, library), forms)
        while len(self._known) >= 256:
            self._known.pop(next(iter(self._known)), None)
        self._known[key] = known
        return known

    def _outputs_to_make(self, named: Mapping[str, Any]) -> list[str]:
        made = []
        for name, unless in self.returns.items():
            given = named.get(name)
            by_itself = unless is not None and all(named.get(n) is None for n in unless)
            if given is True or (given is None and by_itself):
                made.append(name)
        return made

    def _plan_outputs(
        self,
        device: Device,
        layouts: Mapping[str, Layout],
        named: Mapping[str, Any],
        attributes: Mapping[str, Any],
        made: list[str],
    ) -> list[tuple[str, Form, int]]:
        """Forms and bytes of outputs, which planning knows."""
        operator = operator_named(self.operator)
        forms, asked = {}, list(made)
        for name, layout in layouts.items():
            record = layout.record
            if self.kinds[name] == _INPUT:
                forms[name] = Form(dtype_name(record.dtype), _tensor.shape_of(record))
            elif name not in self._written.values():  # in place is as it is
                asked.append(name)
        defaults = {a.name: a.default for a in operator.attributes}
        given = {
            name: value
            for name, value in attributes.items()
            if name in defaults and value != defaults[name]
        }
        plan = Plan(operator, forms, given, outputs=asked, device=device)
        for name in made:
            if name not in plan.forms:
                raise BadPresence(f"{name}: this call has no such output", subject=name)
        return [(name, plan.forms[name], plan.slot_bytes(name)) for name in made]


def _attribute(name: str, kind: str, value: Any) -> Any:
    """An attribute as its member takes it, or BadAttribute."""
    try:
        if kind == "float":
            return float(value)
        if kind == "char *":
            c_text(value)
            return value
        number = python_operator.index(value)
        if not -(2**63) <= number < 2**63:
            raise TypeError("it does not fit 64 bits")
        return number
    except (TypeError, ValueError, OverflowError, BadRequest) as fault:
        raise BadAttribute(f"{name}: {value!r} does not do: {fault}", subject=name) from fault


#: The typed call behind each function.
CALLS: dict[str, TypedCall] = {}


def typed_call(
    function: str, operator: str, **returns: tuple[str, ...] | None
) -> Callable[[Function], Function]:
    """Makes a function of its declaration: see TypedCall. The body never runs."""

    def declare(declaration: Function) -> Function:
        call = CALLS[declaration.__name__] = TypedCall(declaration, function, operator, returns)

        @functools.wraps(declaration)
        def run(*positional: Any, **named: Any) -> Any:
            return call(positional, named)

        return run  # type: ignore[return-value]

    return declare
