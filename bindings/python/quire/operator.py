"""Operators: loaded manifests, built in or of the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quire._native import c_text, check, ffi, generation, lib, new_error, owned, text
from quire.device import context
from quire.errors import BadManifest, BadRequest, NotFound


@dataclass(frozen=True)
class Slot:
    """One place for a tensor in a call."""

    name: str
    is_output: bool
    is_optional: bool
    alias: int
    """Output side of an in-place tensor: slot of its input side; else -1."""


@dataclass(frozen=True)
class Attribute:
    name: str
    kind: str
    """"int", "float", "string", "bool" or "any"."""
    default: int | float | str | bool | None


_KINDS = ("any", "int", "float", "string", "bool")


def read_value(value: Any) -> int | float | str | bool | None:
    """A quire_named_value as a Python value."""
    readers: dict[int, Any] = {
        1: lambda: int(value.i),
        2: lambda: float(value.f),
        3: lambda: text(value.s),
        4: lambda: bool(value.i),
    }
    return readers.get(value.type, lambda: None)()  # type: ignore[no-any-return]


class Operator:
    """An operator: a loaded manifest. Immutable; may be used by several threads at once.

    Operator("PagedAttention") finds a built-in one, by qualified or unambiguous bare name;
    Operator.load(text) loads a manifest.
    """

    def __init__(self, name: str) -> None:
        owner = context()
        handle = lib.quire_context_find_operator(owner, c_text(name))
        if not handle:
            raise NotFound(f"no operator is called {name!r}, or several are", subject=name)
        self._fill(handle, owner)

    def _fill(self, handle: Any, owner: Any) -> None:
        self._handle, self._owner = handle, owner
        self._generation = generation()
        slot, slots = ffi.new("quire_slot *"), []
        for index in range(lib.quire_operator_slot_count(handle)):
            lib.quire_operator_slot(handle, index, slot)
            slots.append(
                Slot(text(slot.name), bool(slot.is_output), bool(slot.is_optional), slot.alias)
            )
        self.slots: tuple[Slot, ...] = tuple(slots)
        self.index: dict[tuple[str, bool], int] = {
            (slot.name, slot.is_output): i for i, slot in enumerate(slots)
        }

    @classmethod
    def load(cls, manifest: str | bytes) -> Operator:
        """Loads a kernel manifest. BadManifest names the JSON path of the first fault."""
        raw = manifest.encode() if isinstance(manifest, str) else bytes(manifest)
        owner, made, error = context(), ffi.new("quire_operator **"), new_error()
        check(lib.quire_operator_load(owner, raw, len(raw), made, error), error)
        operator = cls.__new__(cls)
        operator._fill(owned(made[0], lib.quire_operator_release), owner)
        return operator

    def live(self) -> Any:
        if self._generation != generation():
            raise BadRequest("operator: it was loaded before fork(); load it in this process")
        return self._handle

    @property
    def name(self) -> str:
        return text(lib.quire_operator_name(self.live()))

    @property
    def since_version(self) -> int:
        return int(lib.quire_operator_since_version(self.live()))

    @property
    def variants(self) -> tuple[tuple[str, str], ...]:
        """(name, backend) of each variant."""
        handle = self.live()
        return tuple(
            (
                text(lib.quire_operator_variant_name(handle, i)),
                text(lib.quire_operator_variant_backend(handle, i)),
            )
            for i in range(lib.quire_operator_variant_count(handle))
        )

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        handle, found = self.live(), []
        value, kind = ffi.new("quire_named_value *"), ffi.new("quire_value_type *")
        for index in range(lib.quire_operator_attribute_count(handle)):
            lib.quire_operator_attribute(handle, index, value, kind)
            found.append(Attribute(text(value.name), _KINDS[kind[0]], read_value(value)))
        return tuple(found)

    def __repr__(self) -> str:
        return f"<quire.Operator {self.name}>"


_operators: dict[tuple[int, str], Operator] = {}


def operator_named(value: Operator | str) -> Operator:
    if isinstance(value, Operator):
        return value
    key = (generation(), value)
    known = _operators.get(key)
    if known is None:
        known = Operator(value)
        if len(_operators) < 256:
            _operators[key] = known
    return known


def operators() -> list[Operator]:
    """The built-in operators, in a fixed order."""
    owner = context()
    count = lib.quire_context_operator_count(owner)
    return [
        operator_named(text(lib.quire_operator_name(lib.quire_context_operator(owner, i))))
        for i in range(count)
    ]


@dataclass(frozen=True)
class Finding:
    severity: str
    path: str
    line: int
    message: str


def lint(manifest: str | bytes) -> list[Finding]:
    """Every finding about a kernel manifest, in the order of the text; empty: it is good."""
    raw = manifest.encode() if isinstance(manifest, str) else bytes(manifest)
    found: list[Finding] = []

    def note(_user: Any, finding: Any) -> None:
        severity = "error" if finding.severity else "warning"
        found.append(Finding(severity, text(finding.path), finding.line, text(finding.message)))

    report = ffi.callback("void(void *, const quire_finding *)", note)
    error = new_error()
    status = lib.quire_operator_lint(context(), raw, len(raw), report, ffi.NULL, error)
    try:
        check(status, error)
    except BadManifest:
        pass
    return found
