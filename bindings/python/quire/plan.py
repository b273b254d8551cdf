"""Plans: what a call will do, decided once per shape; explanations of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quire import _tensor
from quire._dlpack import library_of
from quire._layout import dtype_name, dtype_number
from quire._native import check, exception, ffi, generation, lib, new_error, owned, text
from quire.buffer import output_maker
from quire.device import Device, Workspace, default_device
from quire.errors import BadPresence, BadRequest, Error
from quire.operator import Operator, operator_named
from quire.request import Form, Request


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
        request = Request(
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
