"""The shared library, its errors as exceptions, and the lifetime of its objects."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from quire._binding import ffi
from quire.errors import BY_STATUS, BadRequest, Error, Internal, NotFound

__all__ = ["check", "ffi", "generation", "lib", "new_error", "owned", "serving_library", "text"]


def _library_path() -> str:
    """The library of this package; QUIRE_LIBRARY names another one, for debug builds."""
    chosen = os.environ.get("QUIRE_LIBRARY")
    if chosen:
        return chosen
    folder = Path(__file__).parent
    for name in ("libquire.so", "libquire.dylib", "quire.dll"):
        if (folder / name).exists():
            return str(folder / name)
    raise ImportError(f"quire: no shared library in {folder}; set QUIRE_LIBRARY to one")


lib = ffi.dlopen(_library_path())


class _Record(threading.local):
    """An error record for each thread: calls of several threads do not meet."""

    def __init__(self) -> None:
        self.error = ffi.new("quire_error *")


_record = _Record()


def new_error() -> Any:
    """This thread's record, for the next call."""
    return _record.error


def exception(status: int, error: Any) -> Error:
    """The exception for a status, from the record that was passed to the call."""
    name = text(lib.quire_status_name(status))
    kind = BY_STATUS.get(name, Internal)
    if error.status != status:
        return kind(text(lib.quire_status_description(status)))
    return kind(text(error.message), rule=text(error.rule), subject=text(error.subject))


def check(status: int, error: Any) -> None:
    if status:
        raise exception(status, error)


def text(characters: Any) -> str:
    return ffi.string(characters).decode("utf-8", "replace") if characters else ""


def c_text(value: str) -> Any:
    """A C string that lives as long as it is referred to."""
    if not isinstance(value, str):
        raise BadRequest(f"{value!r} is no text")
    return _c_text(value)


@lru_cache(maxsize=256)
def _c_text(value: str) -> Any:
    raw = value.encode("utf-8", "surrogatepass")
    if b"\0" in raw:
        raise BadRequest(f"{value!r} holds a zero byte")
    return ffi.new("char[]", raw)


def c_integer(name: str, value: int, unsigned: bool = False) -> int:
    """An integer that fits its C member, or BadRequest."""
    low, high = (0, 2**64) if unsigned else (-(2**63), 2**63)
    try:
        number = value.__index__()
    except AttributeError:
        raise BadRequest(f"{name}: {value!r} is no integer") from None
    if not low <= number < high:
        raise BadRequest(f"{name}: {number} does not fit 64 bits")
    return number


# ---- lifetime ----

# A forked child has no threads of a pool and must never wait for them: what its parent made is
# neither used nor released there. The number tells the generations apart.
_generation = 0


def generation() -> int:
    return _generation


def _after_fork() -> None:
    global _generation
    _generation += 1
    _record.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def owned(pointer: Any, release: Callable[[Any], None]) -> Any:
    """A handle that is released when nobody refers to it any more.

    Closing an object drops its reference only, so that a call on another thread that still uses
    the handle keeps it alive.
    """
    born = _generation

    def give_up(handle: Any) -> None:
        if born == _generation:
            release(handle)

    return ffi.gc(pointer, give_up)


def serving_library() -> Any:
    if not hasattr(lib, "quire_cache_create"):
        raise NotFound("this build has no serving layer (it needs xxHash's header)")
    return lib
