"""What the serving layer takes and gives, between Python and C."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from quire import _tensor
from quire._call import Tensor
from quire._native import c_integer, c_text, ffi
from quire.device import Device, default_device
from quire.errors import BadRequest
from quire.pools import CacheTensor, PoolStatistics

Key = str | bytes | tuple[int, int, int, int] | None


def prefix_key(key: Key) -> Any:
    """Four words: as given, or BLAKE2b of a text."""
    if key is None:
        return ffi.NULL
    if isinstance(key, (str, bytes)):
        raw = key.encode() if isinstance(key, str) else key
        digest = hashlib.blake2b(raw, digest_size=32).digest()
        key = tuple(int.from_bytes(digest[i : i + 8], "little") for i in range(0, 32, 8))  # type: ignore[assignment]
    made = ffi.new("quire_prefix_key *")
    try:
        words = list(key)
        if len(words) != 4:
            raise TypeError(f"{len(words)} words")
        made.words = words
    except (TypeError, OverflowError, IndexError) as fault:
        raise BadRequest(f"key: {key!r} is neither text nor four 64-bit words: {fault}") from fault
    return made


def token_ids(tokens: Iterable[int] | Tensor) -> tuple[Any, np.ndarray]:
    """int32 ids in C, and what keeps them."""
    try:
        array = np.asarray(tokens)
        if array.size == 0:
            array = array.astype(np.int32)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError(f"{array.dtype} of rank {array.ndim}")
        narrow = np.ascontiguousarray(array, dtype=np.int32)
        if not np.array_equal(narrow, array):
            raise TypeError("an id does not fit 32 bits")
    except (TypeError, ValueError, OverflowError) as fault:
        raise BadRequest(f"tokens: a row of 32-bit ids is needed: {fault}") from fault
    return ffi.from_buffer("int32_t[]", narrow), narrow


def pool_statistics(found: Any) -> PoolStatistics:
    return PoolStatistics(
        **{name: int(getattr(found, name)) for name in PoolStatistics.__dataclass_fields__}
    )


def cache_tensors(
    tensors: Sequence[CacheTensor], writes: bool, device: Device | None = None
) -> tuple[Any, list[Any]]:
    """Without a device they are read and written by the host."""
    device = device or default_device()
    records = ffi.new("quire_cache_tensor[]", max(len(tensors), 1))
    keep: list[Any] = [records]
    for record, tensor in zip(records, tensors, strict=False):
        name = c_text(tensor.name)
        keep.append(name)
        record.name = name
        viewed, kept = _tensor.view(tensor.name or "tensor", tensor.tensor, writes, device)
        keep.append(kept)
        record.tensor = viewed[0]
        for member in ("group", "block_axis", "row_axis"):
            value = c_integer(member, getattr(tensor, member))
            if not -(2**31) <= value < 2**31:
                raise BadRequest(f"{member}: {value} is out of range")
            setattr(record, member, value)
    return records, keep
