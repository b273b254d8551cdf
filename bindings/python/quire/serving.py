"""Serving: who owns which cache block and which recurrent state, and the arrays of a step.

A cache holds numbers only; keys, values and states stay in arrays of the caller. The rules are in
docs/serving.md. Calls on one cache take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from typing import Any

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
from quire._serving import Key, cache_tensors, pool_statistics, prefix_key, token_ids
from quire.batch import Batch, Step, build_batch, entries_of, steps_of
from quire.device import Device, default_device
from quire.errors import BadRequest
from quire.pools import BlockPool, CacheStatistics, CacheTensor, PoolStatistics, StatePool
from quire.sequence import Sequence


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
        ids, kept = token_ids(tokens)
        made, matched = ffi.new("quire_sequence *"), ffi.new("int64_t *")
        self.call(lib.quire_sequence_create, prefix_key(key), ids, len(kept), made, matched)
        return Sequence(self, made[0], matched[0])

    def match(self, tokens: Iterable[int] | Tensor, *, key: Key) -> int:
        """How many tokens sequence() would take over, without any change."""
        ids, kept = token_ids(tokens)
        matched = ffi.new("int64_t *")
        self.call(lib.quire_cache_match, prefix_key(key), ids, len(kept), matched)
        return int(matched[0])

    def restore(
        self, path: str | os.PathLike[str], tensors: SequenceOf[CacheTensor], *, key: Key = None
    ) -> Sequence:
        """Begins a sequence from a file that Sequence.save() wrote, and fills its blocks."""
        records, _keep = cache_tensors(tensors, True)
        made = ffi.new("quire_sequence *")
        self.call(
            lib.quire_sequence_restore,
            prefix_key(key),
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
                records, _keep = cache_tensors(tensors, True, device)
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
        return CacheStatistics(states=pool_statistics(found.states), **numbers)

    def pool_statistics(self, group: int = 0) -> PoolStatistics:
        found = ffi.new("quire_pool_statistics *")
        self.call(lib.quire_cache_get_group, c_integer("group", group, unsigned=True), found)
        return pool_statistics(found)

    def forget(self) -> None:
        """Forgets cached prefixes that no sequence holds."""
        with self._lock:
            lib.quire_cache_forget(self.live())

    def balanced(self) -> bool:
        """Walks all of the books: for tests and suspicions."""
        with self._lock:
            return bool(lib.quire_cache_check(self.live(), ffi.NULL))
