"""Caches, sequences, batches, prefixes, states, files."""

from __future__ import annotations

import numpy as np
import pytest

import quire

D, P = 8, 4


class Engine:
    """One attention layer whose keys and values depend on token and position."""

    def __init__(self, blocks=16, **options):
        self.cache = quire.Cache(quire.BlockPool(blocks, P), hash_seed=0, **options)
        self.key_cache = np.full((blocks, P, 1, D), np.nan, np.float32)
        self.value_cache = self.key_cache.copy()

    def tensors(self):
        return [
            quire.CacheTensor(self.key_cache, "key"),
            quire.CacheTensor(self.value_cache, "value"),
        ]

    @staticmethod
    def embed(tokens, positions, salt):
        place = np.arange(D)[None] * 13 + np.asarray(positions)[:, None] * 7
        return (((np.asarray(tokens)[:, None] * 31 + place + salt) % 23 - 11) / 16).astype(
            np.float32
        )

    def run(self, work, **options):
        """One step of (sequence, tokens); returns the rows of output."""
        for sequence, tokens in work:
            sequence.append(len(tokens))
        self.cache.carry_out_copies(self.tensors())
        batch = self.cache.batch([(s, len(t)) for s, t in work], **options)
        tokens = np.concatenate([t for _, t in work])
        tokens = np.pad(tokens, (0, batch.rows - len(tokens)))
        query, key, value = (self.embed(tokens, batch.positions, salt) for salt in (1, 2, 3))
        output = quire.paged_attention(
            query, key, value, self.key_cache, self.value_cache,
            cumulative_sequence_length=batch.cumulative_sequence_length,
            past_seqlens=batch.past_seqlens, block_table=batch.block_table,
            slot_mapping=batch.slot_mapping, num_heads=1, kv_num_heads=1,
        )  # fmt: skip
        for sequence, ids in work:
            sequence.commit(ids)
        return output

    def alone(self, tokens):
        """The last row of a sequence that is computed by itself."""
        engine = Engine()
        return engine.run([(engine.cache.sequence(), tokens)])[-1]


def test_a_batch_has_the_rows_of_each_sequence_alone():
    engine = Engine()
    texts = [list(range(1, 8)), list(range(20, 25)), [7]]
    sequences = [engine.cache.sequence() for _ in texts]
    output = engine.run(list(zip(sequences, texts, strict=True)))
    ends = np.cumsum([len(t) for t in texts]) - 1
    for end, text in zip(ends, texts, strict=True):
        np.testing.assert_array_equal(output[end], engine.alone(text))
    assert [len(s) for s in sequences] == [7, 5, 1] and engine.cache.balanced()


def test_prefixes_are_found_under_their_key_only():
    engine = Engine()
    prompt = list(range(100, 110))
    first = engine.cache.sequence(prompt[:-1], key="model")
    engine.run([(first, prompt)])
    assert engine.cache.match(prompt, key="model") == 8
    assert engine.cache.match(prompt, key="other") == 0
    second = engine.cache.sequence(prompt[:-1], key="model")
    assert second.matched == 8
    output = engine.run([(second, prompt[8:])])
    np.testing.assert_allclose(output[-1], engine.alone(prompt), rtol=1e-5, atol=1e-6)
    assert list(first.blocks()[:2]) == list(second.blocks()[:2])
    engine.cache.forget()
    assert engine.cache.match(prompt, key="model") == 8  # held by sequences
    first.free(), second.free()
    engine.cache.forget()
    assert engine.cache.match(prompt, key="model") == 0 and engine.cache.balanced()


def test_forks_copy_their_last_block():
    engine = Engine()
    parent = engine.cache.sequence()
    engine.run([(parent, [1, 2, 3, 4, 5, 6])])
    child = parent.fork()
    output = engine.run([(parent, [7]), (child, [8])])
    np.testing.assert_array_equal(output[0], engine.alone([1, 2, 3, 4, 5, 6, 7]))
    np.testing.assert_array_equal(output[1], engine.alone([1, 2, 3, 4, 5, 6, 8]))
    assert engine.cache.statistics().copied_blocks == 1


def test_padding():
    engine = Engine()
    sequence = engine.cache.sequence()
    output = engine.run([(sequence, [1, 2, 3])], padded_rows=6, padded_sequences=3)
    assert output.shape == (6, D)
    np.testing.assert_array_equal(output[2], engine.alone([1, 2, 3]))


def test_a_pool_that_is_exhausted():
    engine = Engine(blocks=2)
    first, second = engine.cache.sequence(), engine.cache.sequence()
    first.append(5)
    with pytest.raises(quire.OutOfMemory) as caught:
        second.append(1)
    assert (
        caught.value.rule == "SV-3" and len(second) == 0 and isinstance(caught.value, MemoryError)
    )
    assert engine.cache.pool_statistics().free == 0


def test_freed_sequences_and_closed_caches():
    engine = Engine()
    sequence = engine.cache.sequence()
    sequence.free()
    for use in (sequence.free, lambda: sequence.append(1), lambda: sequence.facts, sequence.fork,
                lambda: sequence.commit(0), lambda: engine.cache.batch([(sequence, 1)]),
                lambda: sequence.blocks()):  # fmt: skip
        with pytest.raises(quire.NotFound):
            use()
    engine.cache.close()
    for use in (engine.cache.statistics, sequence.free, engine.cache.sequence):
        with pytest.raises(quire.BadRequest, match="^cache: it is closed"):
            use()


def test_truncation_and_rollback():
    engine = Engine()
    sequence = engine.cache.sequence()
    engine.run([(sequence, [1, 2, 3, 4, 5, 6])])
    assert sequence.rollback_point(5) == 5
    sequence.truncate(5)
    np.testing.assert_array_equal(
        engine.run([(sequence, [9])])[0], engine.alone([1, 2, 3, 4, 5, 9])
    )
    with pytest.raises(quire.BadValue):
        sequence.truncate(-1)


def test_states():
    cache = quire.Cache(states=quire.StatePool(8, window=2))
    sequence = cache.sequence()
    sequence.append(3)
    batch = cache.batch([quire.Step(sequence, 3, draft_tokens=1)])
    assert list(batch.state_read) == [-1] and batch.state_write.shape == (1, 2)
    assert batch.block_tables == []
    sequence.commit([1, 2])
    assert len(sequence) == 2 and sequence.facts.state == batch.state_write[0, 0]


def test_shared_prefix():
    engine = Engine()
    prompt = list(range(1, 9))
    first = engine.cache.sequence()
    engine.run([(first, prompt)])
    second = first.fork()
    for sequence in (first, second):
        sequence.append(1)
    engine.cache.carry_out_copies(engine.tensors())
    work = [(first, 1), (second, 1)]
    prefix = engine.cache.shared_prefix(work)
    assert prefix == 8
    batch = engine.cache.batch(work, prefix_tokens=prefix)
    query, key, value = (Engine.embed([30, 31], [8, 8], salt) for salt in (1, 2, 3))
    found, lse = quire.shared_prefix_attention(
        query, key, value, engine.key_cache, engine.value_cache,
        prefix_table=batch.prefix_tables[0], prefix_tokens=prefix,
        cumulative_sequence_length=batch.cumulative_sequence_length,
        past_seqlens=batch.past_seqlens, block_table=batch.block_table,
        slot_mapping=batch.slot_mapping, num_heads=1, kv_num_heads=1, softmax_lse=True,
    )  # fmt: skip
    assert lse.shape == (2, 1)
    for row, token in enumerate([30, 31]):
        np.testing.assert_allclose(found[row], engine.alone([*prompt, token]), rtol=1e-5, atol=1e-6)


def test_files(tmp_path):
    engine = Engine()
    sequence = engine.cache.sequence()
    engine.run([(sequence, [1, 2, 3, 4, 5])])
    path = tmp_path / "sequence.safetensors"
    sequence.save(path, engine.tensors())
    other = Engine(blocks=9)
    restored = other.cache.restore(path, other.tensors())
    assert len(restored) == 5
    np.testing.assert_array_equal(other.run([(restored, [6])])[0], engine.alone([1, 2, 3, 4, 5, 6]))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(quire.BadValue):
        other.cache.restore(path, other.tensors())
    with pytest.raises((quire.NotFound, quire.FileError)):
        other.cache.restore(tmp_path / "nothing", other.tensors())


@pytest.mark.parametrize(
    "use",
    [
        lambda cache, sequence: cache.sequence([1.5]),
        lambda cache, sequence: cache.sequence([[1]]),
        lambda cache, sequence: cache.sequence([2**40]),
        lambda cache, sequence: cache.sequence("text"),
        lambda cache, sequence: cache.sequence([1], key=(1, 2)),
        lambda cache, sequence: cache.sequence([1], key=(1, 2, 3, -1)),
        lambda cache, sequence: cache.sequence([1], key=5),
        lambda cache, sequence: sequence.append(-1),
        lambda cache, sequence: sequence.append(2**70),
        lambda cache, sequence: sequence.append("3"),
        lambda cache, sequence: sequence.commit(5),
        lambda cache, sequence: sequence.commit([1]),
        lambda cache, sequence: cache.batch([(sequence, 1)]),
        lambda cache, sequence: cache.batch([("sequence", 1)]),
        lambda cache, sequence: cache.batch([], padded_rows=-1),
        lambda cache, sequence: cache.batch([], padded_rows=2**40),
        lambda cache, sequence: cache.batch([], prefix_tokens=2**40),
        lambda cache, sequence: cache.pool_statistics(5),
        lambda cache, sequence: cache.pool_statistics(-1),
        lambda cache, sequence: sequence.blocks(3),
        lambda cache, sequence: quire.Cache(quire.BlockPool(0, 4)),
        lambda cache, sequence: quire.Cache(quire.BlockPool("a", 4)),
        lambda cache, sequence: quire.Cache(*[quire.BlockPool(4, 4)] * 20),
        lambda cache, sequence: quire.Cache(quire.BlockPool(2**62, 2**62)),
    ],
)
def test_misuse_is_refused(use):
    cache = quire.Cache(quire.BlockPool(4, 4))
    with pytest.raises(quire.Error):
        use(cache, cache.sequence())
    assert cache.balanced()


def test_a_sequence_of_another_cache_is_refused():
    caches = [quire.Cache(quire.BlockPool(4, 4)) for _ in range(2)]
    sequence = caches[0].sequence()
    sequence.append(1)
    with pytest.raises(quire.BadRequest, match="no sequence of this cache"):
        caches[1].batch([(sequence, 1)])


def test_copies_by_the_engine_itself():
    cache = quire.Cache(quire.BlockPool(4, 4))
    parent = cache.sequence()
    parent.append(2)
    cache.batch([(parent, 2)])
    parent.commit([1, 2])
    child = parent.fork()
    child.append(1)
    ((group, source, destination),) = cache.copies()
    assert group == 0 and source != destination
    with pytest.raises(quire.BadRequest):
        cache.batch([(child, 1)])
    cache.copies_done()
    cache.batch([(child, 1)])
    with pytest.raises(quire.Error):
        cache.carry_out_copies([])
        parent.append(1)
        child.fork()
