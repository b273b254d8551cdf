"""What a cache is made of, and what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from quire._call import Tensor


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
