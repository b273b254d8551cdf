"""The arrays of a step: what each sequence of a cache does in it, and where its rows go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from quire._native import c_integer, ffi, lib
from quire.errors import BadRequest

if TYPE_CHECKING:
    from quire.sequence import Sequence
    from quire.serving import Cache


@dataclass(frozen=True)
class Step:
    """What one sequence does in a batch; (sequence, new_tokens) may stand for it."""

    sequence: Sequence
    new_tokens: int
    draft_tokens: int = 0
    keep_state: bool = False
    """Commit may refuse every token: costs a state slot more."""
    replay: bool = False
    """The step writes no state; the accepted tokens are replayed before commit."""


@dataclass
class Batch:
    """The arrays of a step, int32. B sequences, T rows, padding included."""

    cumulative_sequence_length: np.ndarray
    past_seqlens: np.ndarray
    context_lengths: np.ndarray
    positions: np.ndarray
    block_tables: list[np.ndarray]
    """By group: [B, columns]."""
    slot_mappings: list[np.ndarray]
    """By group: [T]."""
    prefix_tables: list[np.ndarray]
    """By group: [1, prefix_tokens / P]; empty without a prefix."""
    state_read: np.ndarray | None
    state_write: np.ndarray | None
    state_replay: np.ndarray | None
    rows: int
    sequences: int
    steps: list[Step] = field(repr=False, default_factory=list)

    @property
    def block_table(self) -> np.ndarray:
        """Of group 0."""
        return self.block_tables[0]

    @property
    def slot_mapping(self) -> np.ndarray:
        """Of group 0."""
        return self.slot_mappings[0]


def steps_of(steps: Iterable[Step | tuple[Sequence, int]]) -> list[Step]:
    return [step if isinstance(step, Step) else Step(*step) for step in steps]


def entries_of(cache: Cache, steps: list[Step]) -> Any:
    entries = ffi.new("quire_batch_entry[]", max(len(steps), 1))
    for entry, step in zip(entries, steps, strict=False):
        if getattr(step.sequence, "cache", None) is not cache:
            raise BadRequest(f"step: {step.sequence!r} is no sequence of this cache")
        entry.sequence = step.sequence.number
        entry.new_tokens = c_integer("new_tokens", step.new_tokens)
        entry.draft_tokens = c_integer("draft_tokens", step.draft_tokens)
        entry.flags = (lib.QUIRE_STEP_KEEP_STATE if step.keep_state else 0) | (
            lib.QUIRE_STEP_REPLAY if step.replay else 0
        )
    return entries


def build_batch(
    cache: Cache,
    steps: list[Step],
    *,
    padded_rows: int,
    padded_sequences: int,
    prefix_tokens: int,
    columns: int,
    padding_block: int,
) -> Batch:
    """Cache.batch(), with the cache's lock held."""
    entries = entries_of(cache, steps)
    rows = padded_rows or sum(max(step.new_tokens, 0) for step in steps)
    count = padded_sequences or len(steps)
    for name, value in (("padded_rows", rows), ("padded_sequences", count),
                        ("prefix_tokens", prefix_tokens), ("columns", columns)):  # fmt: skip
        if not 0 <= c_integer(name, value) < 2**31:
            raise BadRequest(f"{name}: {value} is not in 0 to {2**31 - 1}")
    batch = ffi.new("quire_batch *")
    lib.quire_batch_init(batch)
    keep: list[Any] = []

    def array(*shape: int) -> np.ndarray:
        keep.append(np.full(shape, -1, np.int32))
        return keep[-1]  # type: ignore[no-any-return]

    def pointer(values: np.ndarray) -> Any:
        keep.append(ffi.from_buffer("int32_t *", values))
        return keep[-1]

    batch.row_capacity, batch.sequence_capacity = rows, count
    batch.padded_rows = c_integer("padded_rows", padded_rows)
    batch.padded_sequences = c_integer("padded_sequences", padded_sequences)
    batch.prefix_tokens = prefix_tokens
    window = cache.states.window if cache.states else 0
    arrays: dict[str, np.ndarray | None] = {
        "cumulative_sequence_length": array(count + 1),
        "past_seqlens": array(count),
        "context_lengths": array(count),
        "positions": array(rows),
        "state_read": None,
        "state_write": None,
        "state_replay": None,
    }
    if cache.states:
        arrays["state_read"] = array(count)
        arrays["state_write"] = array(count, window) if window else array(count)
        arrays["state_replay"] = array(count)
    for name, values in arrays.items():
        if values is not None:
            setattr(batch, name, pointer(values))
    groups = ffi.new("quire_batch_group[]", max(len(cache.pools), 1))
    tables, slots, prefixes = [], [], []
    for group, pool in enumerate(cache.pools):
        prefix = prefix_tokens // pool.block_size
        needed = max([step.sequence.block_count(group) for step in steps], default=0) - prefix
        table = array(count, columns or max(needed, 1))
        slot, shared = array(rows), array(1, prefix)
        groups[group].block_table, groups[group].columns = pointer(table), table.shape[1]
        groups[group].slot_mapping = pointer(slot)
        if prefix:
            groups[group].prefix_table = pointer(shared)
        groups[group].padding_block = padding_block
        tables.append(table)
        slots.append(slot)
        prefixes.append(shared)
    batch.groups, batch.group_count = groups, len(cache.pools)
    cache.call(lib.quire_batch_build, entries, len(steps), batch)
    return Batch(
        block_tables=tables,
        slot_mappings=slots,
        prefix_tables=prefixes,
        rows=int(batch.rows),
        sequences=int(batch.sequences),
        steps=steps,
        **arrays,  # type: ignore[arg-type]
    )
