"""Devices and workspaces: what calls are made on and with."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quire._layout import dtype_name
from quire._native import c_text, check, ffi, generation, lib, new_error, owned, text
from quire._tensor import shape_of, view
from quire.buffer import Buffer
from quire.errors import BadRequest

_lock = threading.Lock()
_shared: dict[str, Any] = {"generation": -1, "context": None, "device": None}
_numbers = itertools.count()
_ISAS = {"best": 0, "scalar": 1, "avx2": 2, "avx512": 3, "neon": 4}


def _shared_now() -> dict[str, Any]:
    """What this process shares; a forked child begins anew. Call with the lock held."""
    if _shared["generation"] != generation():
        _shared.update(generation=generation(), context=None, device=None)
    return _shared


def context() -> Any:
    """The process's context, which owns the built-in operators."""
    with _lock:
        shared = _shared_now()
        if shared["context"] is None:
            made, error = ffi.new("quire_context **"), new_error()
            check(lib.quire_context_create(ffi.NULL, made, error), error)
            shared["context"] = owned(made[0], lib.quire_context_release)
        return shared["context"]


@dataclass(frozen=True)
class DeviceFacts:
    """Facts for people; 0 or "" where unknown."""

    name: str
    model: str
    threads: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    isa: str


class Device:
    """Runs calls. May be used by several threads at once.

    name: "cpu", "webgpu" (`quire.device_names()` lists what this build knows).
    threads: size of its own pool; 0: one per processor in use.
    isa: highest instruction set: "best", "scalar", "avx2", "avx512", "neon"; no result depends on it.
    plan_cache_size: plans that calls keep; 0: 256.
    webgpu: options of such a device: library (a path), adapter_name, adapter_index, use_subgroups,
        trusted_shaders, default_limits, as_hardware, memory_budget (bytes), pipeline_cache_size.
    tuning: path of a tuning file, as `quire tune` writes it; plans take its values where they fit.

    A device that was opened before fork() cannot be used in the child, which has no threads of
    its pool; open another one there. The default device does that by itself.
    """

    def __init__(
        self,
        name: str = "cpu",
        *,
        threads: int = 0,
        isa: str = "best",
        plan_cache_size: int = 0,
        webgpu: Mapping[str, Any] | None = None,
        tuning: str | os.PathLike[str] | None = None,
    ) -> None:
        options = ffi.new("quire_device_options *")
        lib.quire_device_options_init_sized(options, ffi.sizeof("quire_device_options"))
        if isa not in _ISAS:
            raise BadRequest(f"isa: {isa!r} is none of {', '.join(_ISAS)}")
        options.isa = _ISAS[isa]
        for member, value in (("threads", threads), ("plan_cache_size", plan_cache_size)):
            if not 0 <= value < 2**31:
                raise BadRequest(f"{member}: {value} is not in 0 to {2**31 - 1}")
            setattr(options, member, value)
        if webgpu is not None:
            options.webgpu = _webgpu_options(webgpu)
        content = ffi.NULL  # must live until the device is open
        if tuning is not None:
            read = Path(tuning).read_bytes()
            content = ffi.new("char[]", read)
            options.tuning, options.tuning_length = content, len(read)
        made, error = ffi.new("quire_device **"), new_error()
        check(lib.quire_device_open(context(), c_text(name), options, made, error), error)
        self._handle: Any = owned(made[0], lib.quire_device_release)
        self._generation = generation()
        self.number = next(_numbers)
        """No other device of the process has it."""
        self.takes_host_memory = name == "cpu"
        """Whether calls take arrays of NumPy, PyTorch, ...; other devices take Buffers only."""

    def empty(self, shape: tuple[int, ...], dtype: Any = "float32") -> Buffer:
        """A tensor in memory of the device, with unspecified content."""
        return Buffer(self, shape, dtype)

    def put(self, array: Any) -> Buffer:
        """A copy of an array in memory of the device."""
        record, _kept = view("array", array)
        buffer = Buffer(self, shape_of(record), dtype_name(record.dtype))
        buffer.write(array)
        return buffer

    def live(self) -> Any:
        """The library's handle."""
        handle = self._handle
        if handle is None:
            raise BadRequest("device: it is closed")
        if self._generation != generation():
            raise BadRequest(
                "device: it was opened before fork(); open another one in this process"
            )
        return handle

    def close(self) -> None:
        """Gives the device up; plans and workspaces keep what they need of it. May be repeated."""
        self._handle = None

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def facts(self) -> DeviceFacts:
        facts = ffi.new("quire_device_facts *")
        lib.quire_device_get_facts(self.live(), facts)
        return DeviceFacts(
            text(facts.name),
            text(facts.model),
            facts.threads,
            facts.l1_bytes,
            facts.l2_bytes,
            facts.l3_bytes,
            text(facts.isa),
        )

    @property
    def features(self) -> tuple[str, ...]:
        """Features that plans may use: instruction sets of a CPU, features of WebGPU."""
        handle = self.live()
        description = lib.quire_device_describe(handle)
        return tuple(text(description.features[i]) for i in range(description.feature_count))

    def __repr__(self) -> str:
        if self._handle is None or self._generation != generation():
            return "<quire.Device closed>"
        facts = self.facts
        return f"<quire.Device {facts.name} {facts.isa} threads={facts.threads}>"


_kept_options: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def _webgpu_options(given: Mapping[str, Any]) -> Any:
    options = ffi.new("quire_webgpu_options *")
    lib.quire_webgpu_options_init(options)
    for member, value in given.items():
        if member in ("library", "adapter_name"):
            characters = c_text(value)
            _kept_options.setdefault(options, []).append(characters)
            setattr(options, member, characters)
        elif member in ("adapter_index", "use_subgroups", "trusted_shaders", "default_limits",
                        "as_hardware", "memory_budget", "pipeline_cache_size"):  # fmt: skip
            try:
                setattr(options, member, value)
            except (TypeError, OverflowError) as fault:
                raise BadRequest(f"webgpu: {member}: {fault}") from fault
        else:
            raise BadRequest(f"webgpu: there is no option {member!r}")
    return options


@dataclass(frozen=True)
class Adapter:
    """An adapter of WebGPU; texts may be empty."""

    index: int
    name: str
    driver: str
    type: str
    backend: str


def webgpu_adapters(library: str | None = None) -> list[Adapter]:
    """Adapters that the WebGPU library offers, the best first. NotFound: there is no library."""
    found: list[Adapter] = []

    def note(_user: Any, adapter: Any) -> None:
        found.append(
            Adapter(
                adapter.index,
                text(adapter.name),
                text(adapter.driver),
                text(adapter.type),
                text(adapter.backend),
            )
        )

    report = ffi.callback("void(void *, const quire_webgpu_adapter *)", note)
    options = ffi.NULL if library is None else _webgpu_options({"library": library})
    error = new_error()
    check(lib.quire_webgpu_list_adapters(options, report, ffi.NULL, error), error)
    return found


def default_device() -> Device:
    """The CPU with all its processors: what calls use that name no device."""
    shared = _shared
    device = shared["device"]
    if device is not None and shared["generation"] == generation():
        return device  # type: ignore[no-any-return]
    context()
    made = Device()
    with _lock:
        shared = _shared_now()
        if shared["device"] is None:
            shared["device"] = made
        return shared["device"]  # type: ignore[no-any-return]


def device_names() -> list[str]:
    """Names of the devices that this build knows."""
    names: list[str] = []
    while True:
        name = lib.quire_device_name(len(names))
        if not name:
            return names
        names.append(text(name))


@dataclass(frozen=True)
class WorkspaceCounters:
    prepared: int
    """Changes of plan."""
    reused: int
    """Calls that found their plan in place."""
    allocated: int
    """Growths of memory."""
    bytes: int
    """Memory held."""


class Workspace:
    """Reusable scratch. Calls that share one take turns."""

    def __init__(self, device: Device | None = None, *, handle: Any = None) -> None:
        if handle is None:
            handle = (device or default_device()).live()
        made, error = ffi.new("quire_workspace **"), new_error()
        check(lib.quire_workspace_create(handle, ffi.NULL, made, error), error)
        self._handle: Any = owned(made[0], lib.quire_workspace_release)
        self._generation = generation()
        self.lock = threading.RLock()
        """Held by every call that uses the workspace; hold it over prepare and runs of a step."""

    def live(self) -> Any:
        handle = self._handle
        if handle is None or self._generation != generation():
            raise BadRequest("workspace: it is closed, or of a process before fork()")
        return handle

    def close(self) -> None:
        self._handle = None

    @property
    def counters(self) -> WorkspaceCounters:
        counters = ffi.new("quire_workspace_counters *")
        with self.lock:
            lib.quire_workspace_get_counters(self.live(), counters)
        return WorkspaceCounters(
            counters.prepared, counters.reused, counters.allocated, counters.bytes
        )


def version() -> str:
    return text(lib.quire_version())


if hasattr(os, "register_at_fork"):
    # The lock may have been held by another thread of the parent.
    def _new_lock() -> None:
        global _lock
        _lock = threading.Lock()

    os.register_at_fork(after_in_child=_new_lock)
