"""An engine's loop in small: requests come and go, share the beginning of their prompts, and run in
one batch with whatever blocks there are. A sequence that finds no block gives its own back and
starts again later; most of what it had is then still in the index.

One layer of attention stands for the model: greedy decoding picks the token whose embedding is
nearest to the layer's output. The same requests, one by one, give the same tokens.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np

import quire

VOCABULARY, HEADS, SIZE, BLOCKS, ROWS = 61, 2, 16, 40, 8
SYSTEM, LENGTH, CHUNK, RUNNING = 40, 84, 16, 8

random = np.random.default_rng(0)
EMBEDDING = random.standard_normal((VOCABULARY, HEADS * SIZE), dtype=np.float32)
POSITION = random.standard_normal((LENGTH + 1, HEADS * SIZE), dtype=np.float32) / 4
WEIGHTS = [random.standard_normal((HEADS * SIZE,) * 2, dtype=np.float32) / 6 for _ in range(3)]


@dataclass
class Request:
    tokens: list[int]
    """The prompt, then what was generated."""
    sequence: quire.Sequence | None = None
    done: int = 0
    """Tokens that are computed."""

    @property
    def finished(self) -> bool:
        return len(self.tokens) >= LENGTH


@dataclass
class Engine:
    cache: quire.Cache = field(
        default_factory=lambda: quire.Cache(quire.BlockPool(BLOCKS, ROWS), sequence_limit=RUNNING)
    )
    computed: int = 0
    steps: int = 0
    preempted: int = 0

    def __post_init__(self) -> None:
        self.keys = np.zeros((BLOCKS, ROWS, HEADS, SIZE), np.float32)
        self.values = np.zeros_like(self.keys)

    def admit(self, request: Request) -> int | None:
        """Tokens that the next step computes for a request, or None: no blocks, wait."""
        if request.sequence is None:
            request.sequence = self.cache.sequence(request.tokens[:-1], key="example")
            request.done = request.sequence.matched
        count = min(CHUNK, len(request.tokens) - request.done)
        try:
            request.sequence.append(count)
        except quire.OutOfMemory:
            request.sequence.free()
            request.sequence = None
            self.preempted += 1
            return None
        return count

    def step(self, running: list[Request]) -> None:
        """One batch: a chunk of each prompt, one token of each that decodes."""
        # The oldest first: they keep their blocks, and somebody always gets on.
        counts = [(request, self.admit(request)) for request in running]
        work = [(request, count) for request, count in counts if count is not None]
        batch = self.cache.batch([(r.sequence, n) for r, n in work if r.sequence])
        ids = np.concatenate([r.tokens[r.done : r.done + n] for r, n in work])
        rows = EMBEDDING[ids] + POSITION[batch.positions]
        query, key, value = (rows @ weight for weight in WEIGHTS)
        output = quire.paged_attention(
            query,
            key,
            value,
            self.keys,
            self.values,
            cumulative_sequence_length=batch.cumulative_sequence_length,
            past_seqlens=batch.past_seqlens,
            block_table=batch.block_table,
            slot_mapping=batch.slot_mapping,
            num_heads=HEADS,
            kv_num_heads=HEADS,
        )
        self.steps += 1
        self.computed += len(ids)
        ends = batch.cumulative_sequence_length[1:] - 1
        for (request, count), row in zip(work, output[ends], strict=True):
            assert request.sequence is not None
            request.sequence.commit(request.tokens[request.done : request.done + count])
            request.done += count
            if request.done == len(request.tokens):
                request.tokens.append(int(np.argmax(EMBEDDING @ row)))
            if request.finished:
                request.sequence.free()
                request.sequence = None

    def run(self, requests: list[Request]) -> None:
        waiting = list(requests)
        while waiting:
            self.step(waiting[:RUNNING])
            waiting = [request for request in waiting if not request.finished]


def prompts() -> list[Request]:
    system = [int(token) for token in np.random.default_rng(1).integers(0, VOCABULARY, SYSTEM)]
    own = np.random.default_rng(2).integers(0, VOCABULARY, (20, 12))
    return [Request(system + [int(token) for token in tokens]) for tokens in own]


def main() -> int:
    together, engine = prompts(), Engine()
    engine.run(together)
    alone, plain = prompts(), 0
    for request in alone:
        single = Engine()
        single.run([request])
        plain += single.computed
    statistics = engine.cache.statistics()
    print(
        f"{len(together)} requests in {engine.steps} steps, {engine.preempted} times short of blocks"
    )
    print(f"{engine.computed} tokens computed ({plain} one request at a time)")
    print(f"{statistics.matched_tokens} tokens taken over from the index")
    same = sum(a.tokens == b.tokens for a, b in zip(together, alone, strict=True))
    print(f"{same} of {len(alone)} requests have the very tokens of being alone")
    return 0 if same == len(alone) and engine.cache.balanced() else 1


if __name__ == "__main__":
    sys.exit(main())
