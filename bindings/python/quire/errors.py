"""Exceptions: one for each status of the library, with the library's own text."""

from __future__ import annotations


class Error(Exception):
    """Base of everything that the library raises.

    str() of it is the library's message, which names the input, the rule and the values.
    """

    status = "UNKNOWN"
    """Name of the status, such as "BAD_SHAPE"."""

    def __init__(self, message: str, *, rule: str = "", subject: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        """Rule of the specification that is broken, such as "PA-V7"; may be empty."""
        self.subject = subject
        """Tensor, attribute or file that it is about; may be empty."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), str(self), self.rule, self.subject))


def _again(kind: type[Error], message: str, rule: str, subject: str) -> Error:
    return kind(message, rule=rule, subject=subject)


class InvalidArgument(Error, ValueError):
    """An operator's contract is broken; always one of its subclasses."""

    status = "INVALID_ARGUMENT"


class BadAttribute(InvalidArgument):
    status = "BAD_ATTRIBUTE"


class BadPresence(InvalidArgument):
    status = "BAD_PRESENCE"


class BadRank(InvalidArgument):
    status = "BAD_RANK"


class BadType(InvalidArgument, TypeError):
    status = "BAD_TYPE"


class BadShape(InvalidArgument):
    status = "BAD_SHAPE"


class BadValue(InvalidArgument):
    status = "BAD_VALUE"


class BadAlias(InvalidArgument):
    status = "BAD_ALIAS"


class Unsupported(Error, NotImplementedError):
    status = "UNSUPPORTED"


class Limit(Error, OverflowError):
    status = "LIMIT"


class OutOfMemory(Error, MemoryError):
    """Memory cannot be had; or, from a cache, a pool has no block or slot left."""

    status = "OUT_OF_MEMORY"


class NotFound(Error, LookupError):
    status = "NOT_FOUND"


class BadManifest(Error, ValueError):
    status = "BAD_MANIFEST"


class BadRequest(Error, ValueError):
    """The call itself is malformed: not a tensor, not on this device, read-only, closed."""

    status = "BAD_REQUEST"


class FileError(Error, OSError):
    status = "IO"


class DeviceError(Error, RuntimeError):
    status = "DEVICE"


class Internal(Error, RuntimeError):
    """An invariant of the library does not hold: please report it."""

    status = "INTERNAL"


BY_STATUS: dict[str, type[Error]] = {
    kind.status: kind
    for kind in (
        BadAttribute,
        BadPresence,
        BadRank,
        BadType,
        BadShape,
        BadValue,
        BadAlias,
        Unsupported,
        Limit,
        OutOfMemory,
        NotFound,
        BadManifest,
        BadRequest,
        FileError,
        DeviceError,
        Internal,
    )
}
