"""A sequence of a cache: its tokens, its blocks, its state."""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from typing import TYPE_CHECKING, Any

import numpy as np

from quire._call import Tensor
from quire._native import c_integer, c_text, ffi, lib
from quire._serving import cache_tensors, token_ids
from quire.pools import CacheTensor, SequenceFacts

if TYPE_CHECKING:
    from quire.serving import Cache


class Sequence:
    """A sequence of a cache. After free(), every use of it is NotFound."""

    def __init__(self, cache: Cache, number: int, matched: int) -> None:
        self.cache = cache
        self.number = int(number)
        self.matched = int(matched)
        """Tokens that were taken over and need no computing."""

    def append(self, count: int) -> None:
        """Makes room for `count` tokens more. OutOfMemory: wait, or free another sequence."""
        self.cache.call(lib.quire_sequence_append, self.number, c_integer("count", count))

    def reserve(self, count: int) -> None:
        """Promises blocks for `count` tokens beyond the present length; 0 withdraws it."""
        self.cache.call(lib.quire_sequence_reserve, self.number, c_integer("count", count))

    def commit(self, tokens: Iterable[int] | Tensor | int) -> None:
        """The first tokens of the last step have been computed, with these ids (or this many, whose
        ids are not known: they are never found by others). The rest of the step is taken off."""
        if isinstance(tokens, (int, np.integer)):
            ids, count = ffi.NULL, c_integer("tokens", int(tokens))
        else:
            ids, kept = token_ids(tokens)
            count = len(kept)
        self.cache.call(lib.quire_sequence_commit, self.number, ids, count)

    def truncate(self, length: int, *, copy: bool = False) -> None:
        """Shortens it. copy: it may end inside a shared block, which the next append copies."""
        flags = lib.QUIRE_TRUNCATE_COPY if copy else 0
        self.cache.call(
            lib.quire_sequence_truncate, self.number, c_integer("length", length), flags
        )

    def rollback_point(self, length: int) -> int:
        """The largest length up to `length` that truncate(copy=True) can reach."""
        point = ffi.new("int64_t *")
        self.cache.call(
            lib.quire_sequence_rollback_point, self.number, c_integer("length", length), point
        )
        return int(point[0])

    def fork(self) -> Sequence:
        """Another sequence with the same tokens, which shares all blocks."""
        child = ffi.new("quire_sequence *")
        self.cache.call(lib.quire_sequence_fork, self.number, child)
        return Sequence(self.cache, child[0], 0)

    def free(self) -> None:
        """Ends it; its full blocks stay findable until they are needed."""
        self.cache.call(lib.quire_sequence_free, self.number)

    def save(self, path: str | os.PathLike[str], tensors: SequenceOf[CacheTensor]) -> None:
        """Writes its tokens, rows and state to a file, whole or not at all."""
        records, _keep = cache_tensors(tensors, False)
        self.cache.call(
            lib.quire_sequence_save, self.number, records, len(tensors), c_text(os.fspath(path))
        )

    @property
    def facts(self) -> SequenceFacts:
        found = ffi.new("quire_sequence_facts *")
        self.cache.call(lib.quire_sequence_get_facts, self.number, found)
        return SequenceFacts(
            found.length, found.committed, found.matched, found.findable, found.state
        )

    def __len__(self) -> int:
        return int(self.facts.length)

    def __bool__(self) -> bool:
        return True

    def chunk(self, limit: int) -> int:
        """How many of `limit` tokens the next step should take, to end where a checkpoint is due."""
        count = ffi.new("int64_t *")
        self.cache.call(lib.quire_sequence_get_chunk, self.number, c_integer("limit", limit), count)
        return int(count[0])

    def blocks(self, group: int = 0) -> np.ndarray:
        """Its block table, a copy; -1: slid out of the window."""
        with self.cache._lock:
            found, count = self._blocks(group)
            return np.array(ffi.unpack(found, count) if count else [], np.int32)

    def block_count(self, group: int = 0) -> int:
        with self.cache._lock:
            return self._blocks(group)[1]

    def _blocks(self, group: int) -> tuple[Any, int]:
        blocks, count = ffi.new("const int32_t **"), ffi.new("int64_t *")
        number = c_integer("group", group, unsigned=True)
        self.cache.call(lib.quire_sequence_get_blocks, self.number, number, blocks, count)
        return blocks[0], int(count[0])

    def __repr__(self) -> str:
        return f"<quire.Sequence {self.number:#x}>"
