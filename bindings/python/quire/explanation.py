"""Explanations: what planning decides and why, for devices that need not be there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quire._native import c_text, exception, ffi, lib, new_error
from quire.device import Device, default_device
from quire.errors import BadRequest, Error
from quire.operator import Operator, operator_named
from quire.request import Request, set_value


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
    request = Request(found, inputs, attributes or {}, outputs, precision, variant, tunables or {})
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
    request = Request(found, inputs, attributes or {}, outputs, "exact", variant, tunables or {})
    chosen = ffi.NULL if shader_pass is None else c_text(shader_pass)
    written, refusal = _written(lib.quire_render, found, device or {}, request, chosen)
    if refusal is not None:
        raise refusal
    return written


def _written(
    function: Any,
    operator: Operator,
    device: Device | Mapping[str, Any] | None,
    request: Request,
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
