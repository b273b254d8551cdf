"""Serving: who owns which cache block and which recurrent state, and the arrays of a step.

A cache holds numbers only; keys, values and states stay in arrays of the caller. The rules are in
docs/serving.md. Calls on one cache take turns.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire import _tensor
from quire._call import Tensor
from quire._native import (
    c_integer,
    c_text,
    check,
    ffi,
    generation,
    lib,
    new_error,
    owned,
    serving_library,
)
from quire.batch import Batch, Step, build_batch, entries_of, steps_of
from quire.device import Device, default_device
from quire.errors import BadRequest


@dataclass(frozen=True)
class BlockPool:
    """Layers that share a block table: their number of blocks, and how many rows one has."""

    block_count: int
    block_size: int
    window: int = 0
    """0: layers see every position; V > 0: the last V."""


@dataclass(frozen=True)
class StatePool:
    """Slots of the recurrent layers' state tensors."""

    slots: int
    window: int = 0
    """LinearAttention's state_window, for drafts."""
    checkpoint_tokens: int = 0
    """n > 0: a state is kept with the cached prefix every n tokens."""


@dataclass(frozen=True)
class PoolStatistics:
    """used + cached + free = count."""

    count: int
    used: int
    cached: int
    free: int
    reserved: int
    shared: int
    allocated: int
    evicted: int


@dataclass(frozen=True)
class CacheStatistics:
    sequences: int
    prefixes: int
    matched_tokens: int
    asked_tokens: int
    copied_blocks: int
    metadata_bytes: int
    token_bytes: int
    sequence_bytes: int
    states: PoolStatistics


@dataclass(frozen=True)
class SequenceFacts:
    length: int
    committed: int
    matched: int
    findable: int
    state: int


@dataclass
class CacheTensor:
    """An array of the engine that a cache's numbers point into."""

    tensor: Tensor
    name: str = ""
    """In files: "layers.0.key"; copies need none."""
    group: int = 0
    """-1: a state tensor, whose block axis counts slots."""
    block_axis: int = 0
    row_axis: int = 1
    """States: -1."""


Key = str | bytes | tuple[int, int, int, int] | None


def _prefix_key(key: Key) -> Any:
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


def _tokens(tokens: Iterable[int] | Tensor) -> tuple[Any, np.ndarray]:
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


class Cache:
    """The books of an engine: block pools, sequences, prefix index, recurrent states.

    Cache(BlockPool(1024, 16), states=StatePool(64)) has one group of attention layers and
    recurrent ones. sequence_limit: live sequences. length_limit: tokens of a sequence; 0: what the
    smallest pool holds. rollback_tokens: see docs/serving.md. hash_seed: random by default.
    """

    def __init__(
        self,
        *pools: BlockPool,
        states: StatePool | None = None,
        sequence_limit: int = 256,
        length_limit: int = 0,
        rollback_tokens: int = 0,
        hash_seed: int | None = None,
    ) -> None:
        library = serving_library()
        options = ffi.new("quire_cache_options *")
        library.quire_cache_options_init(options)
        groups = ffi.new("quire_cache_group[]", max(len(pools), 1))
        for record, pool in zip(groups, pools, strict=False):
            record.block_count = c_integer("block_count", pool.block_count)
            record.block_size = c_integer("block_size", pool.block_size)
            record.window = c_integer("window", pool.window)
        options.groups, options.group_count = groups, len(pools)
        options.sequence_limit = c_integer("sequence_limit", sequence_limit)
        options.length_limit = c_integer("length_limit", length_limit)
        options.rollback_tokens = c_integer("rollback_tokens", rollback_tokens)
        if states is not None:
            options.state_slots = c_integer("slots", states.slots)
            options.state_window = c_integer("window", states.window)
            options.checkpoint_tokens = c_integer("checkpoint_tokens", states.checkpoint_tokens)
        seed = int.from_bytes(os.urandom(8), "little") if hash_seed is None else hash_seed
        options.hash_seed = c_integer("hash_seed", seed, unsigned=True)
        made, error = ffi.new("quire_cache **"), new_error()
        check(library.quire_cache_create(options, made, error), error)
        self._handle: Any = owned(made[0], library.quire_cache_release)
        self._generation = generation()
        self._lock = threading.RLock()
        self.pools = pools
        self.states = states

    def live(self) -> Any:
        handle = self._handle
        if handle is None or self._generation != generation():
            raise BadRequest("cache: it is closed, or of a process before fork()")
        return handle

    def close(self) -> None:
        """Frees everything, live sequences too. May be repeated."""
        self._handle = None

    def call(self, function: Any, *arguments: Any) -> None:
        """One call of the library on this cache."""
        error = new_error()
        with self._lock:
            check(function(self.live(), *arguments, error), error)

    # ---- sequences ----

    def sequence(self, tokens: Iterable[int] | Tensor = (), *, key: Key = None) -> Sequence:
        """Begins a sequence. With a key (who may share: model, adapter, tenant) the longest cached
        prefix of the tokens is taken over; pass all tokens but the last."""
        ids, kept = _tokens(tokens)
        made, matched = ffi.new("quire_sequence *"), ffi.new("int64_t *")
        self.call(lib.quire_sequence_create, _prefix_key(key), ids, len(kept), made, matched)
        return Sequence(self, made[0], matched[0])

    def match(self, tokens: Iterable[int] | Tensor, *, key: Key) -> int:
        """How many tokens sequence() would take over, without any change."""
        ids, kept = _tokens(tokens)
        matched = ffi.new("int64_t *")
        self.call(lib.quire_cache_match, _prefix_key(key), ids, len(kept), matched)
        return int(matched[0])

    def restore(
        self, path: str | os.PathLike[str], tensors: SequenceOf[CacheTensor], *, key: Key = None
    ) -> Sequence:
        """Begins a sequence from a file that Sequence.save() wrote, and fills its blocks."""
        records, _keep = _cache_tensors(tensors, True)
        made = ffi.new("quire_sequence *")
        self.call(
            lib.quire_sequence_restore,
            _prefix_key(key),
            records,
            len(tensors),
            c_text(os.fspath(path)),
            made,
        )
        return Sequence(self, made[0], 0)

    # ---- copies ----

    def copies(self) -> list[tuple[int, int, int]]:
        """(group, source, destination) of blocks that must be copied before the next step runs."""
        with self._lock:
            count = ffi.new("size_t *")
            found = lib.quire_cache_copies(self.live(), count)
            return [
                (found[i].group, found[i].source, found[i].destination) for i in range(count[0])
            ]

    def copies_done(self) -> None:
        """The copies have been carried out, by an engine that does them itself."""
        with self._lock:
            lib.quire_cache_copies_done(self.live())

    def carry_out_copies(
        self, tensors: SequenceOf[CacheTensor], *, device: Device | None = None
    ) -> int:
        """Carries out the waiting copies in every array of their group; returns their number."""
        with self._lock:
            count = ffi.new("size_t *")
            found = lib.quire_cache_copies(self.live(), count)
            if count[0]:
                device = device or default_device()
                records, _keep = _cache_tensors(tensors, True, device)
                error = new_error()
                handle = device.live()
                check(
                    lib.quire_cache_copy_blocks(
                        handle, records, len(tensors), found, count[0], error
                    ),
                    error,
                )
                lib.quire_cache_copies_done(self.live())
            return int(count[0])

    # ---- batches ----

    def batch(
        self,
        steps: Iterable[Step | tuple[Sequence, int]],
        *,
        padded_rows: int = 0,
        padded_sequences: int = 0,
        prefix_tokens: int = 0,
        columns: int = 0,
        padding_block: int = 0,
    ) -> Batch:
        """Builds the arrays of a step, and takes the state slots that it writes.

        padded_rows, padded_sequences: 0: as many as there are. columns: of the block tables; 0: as
        many as are needed. padding_block: what padding sequences have in the table.
        """
        with self._lock:
            return build_batch(
                self,
                steps_of(steps),
                padded_rows=padded_rows,
                padded_sequences=padded_sequences,
                prefix_tokens=prefix_tokens,
                columns=columns,
                padding_block=padding_block,
            )

    def shared_prefix(self, steps: Iterable[Step | tuple[Sequence, int]]) -> int:
        """How many first tokens all these sequences share block by block."""
        found = steps_of(steps)
        tokens = ffi.new("int64_t *")
        self.call(lib.quire_cache_shared_prefix, entries_of(self, found), len(found), tokens)
        return int(tokens[0])

    # ---- facts ----

    def statistics(self) -> CacheStatistics:
        found = ffi.new("quire_cache_statistics *")
        with self._lock:
            lib.quire_cache_get_statistics(self.live(), found)
        numbers = {
            name: int(getattr(found, name))
            for name in CacheStatistics.__dataclass_fields__
            if name != "states"
        }
        return CacheStatistics(states=_pool(found.states), **numbers)

    def pool_statistics(self, group: int = 0) -> PoolStatistics:
        found = ffi.new("quire_pool_statistics *")
        self.call(lib.quire_cache_get_group, c_integer("group", group, unsigned=True), found)
        return _pool(found)

    def forget(self) -> None:
        """Forgets cached prefixes that no sequence holds."""
        with self._lock:
            lib.quire_cache_forget(self.live())

    def balanced(self) -> bool:
        """Walks all of the books: for tests and suspicions."""
        with self._lock:
            return bool(lib.quire_cache_check(self.live(), ffi.NULL))


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
            ids, kept = _tokens(tokens)
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
        records, _keep = _cache_tensors(tensors, False)
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


def _pool(found: Any) -> PoolStatistics:
    return PoolStatistics(
        **{name: int(getattr(found, name)) for name in PoolStatistics.__dataclass_fields__}
    )


def _cache_tensors(
    tensors: SequenceOf[CacheTensor], writes: bool, device: Device | None = None
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
