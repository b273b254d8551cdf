"""Random legal calls of PagedAttention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from oracle.case_file import Case
from oracle.generate import dtypes, expect, largest, normal, poison, seeds, uniform
from oracle.paged_attention import Paged, cache_rows
from oracle.tensors import Tensor

HEADS = [(1, 1), (2, 1), (4, 2), (3, 3), (15, 3), (5, 1), (8, 4)]
Draw = Callable[[st.SearchStrategy[Any]], Any]


def block_table(rng: np.random.Generator, case: Case, spare: int) -> None:
    """Shuffled blocks for what is live, garbage beyond, `spare` columns more than needed."""
    inputs = case.inputs
    totals = inputs["past_seqlens"].value + np.diff(inputs["cumulative_sequence_length"].value)
    block_size = inputs["key_cache"].shape[1]
    needed = -(-totals // block_size)
    columns = max(1, int(needed.max(initial=0)) + spare)
    blocks = inputs["key_cache"].shape[0]
    table = rng.choice(np.array([-7, -1, blocks, blocks + 5, 2**31 - 1]), (len(totals), columns))
    order = rng.permutation(blocks)
    for b, count in enumerate(needed):
        table[b, :count], order = order[:count], order[count:]
    inputs["block_table"] = Tensor.integers(table)


def punch_holes(rng: np.random.Generator, case: Case) -> None:
    table = case.inputs["block_table"].data
    holes = rng.random(table.shape) < 0.2
    table[holes] = rng.choice(np.array([-1, case.inputs["key_cache"].shape[0]]), int(holes.sum()))


def share_prefix(case: Case) -> None:
    """The first block of all sequences is that of the first one."""
    table = case.inputs["block_table"].data
    if 0 <= table[0, 0] < case.inputs["key_cache"].shape[0]:
        table[:, 0] = table[0, 0]


def shares_slots(case: Case) -> bool:
    """PA-E15: of two tokens with one slot a GPU may store either; on the CPU the later one wins."""
    stored = [slot for slot in Paged(case).slots() if slot >= 0]
    return len(stored) != len(set(stored))


def slot_mapping(rng: np.random.Generator, case: Case, kind: str) -> None:
    """The derived slots, some of them replaced by 'nothing' or by rows of the last block."""
    paged = Paged(case)
    slots = np.array(paged.slots(), dtype=np.int64)
    changed = rng.random(len(slots)) < 0.4
    rows = paged.blocks * paged.block_size
    if kind == "none":
        slots[changed] = rng.choice(np.array([-1, -9, rows, 2**31 - 1]), int(changed.sum()))
    elif kind == "elsewhere":
        last = rows - paged.block_size
        slots[changed] = rng.integers(last, rows, int(changed.sum()))
    case.inputs["slot_mapping"] = Tensor.integers(slots)


def add_quantisation(draw: Draw, rng: np.random.Generator, case: Case, heads: int) -> None:
    """X6 and X7. Powers of two make 1/scale exact, so that bytes are the oracle's very own."""
    blocks, block_size, _, size = case.inputs["key_cache"].shape
    for side in ("key", "value"):
        kind = draw(st.sampled_from(["PER_TENSOR", "PER_CHANNEL", "PER_TOKEN", "PER_TOKEN"]))
        if kind == "PER_TOKEN":
            rows = (blocks, block_size, heads)
            case.inputs[f"{side[0]}_scale_cache"] = uniform(rng, rows, "F32", 0.001, 0.03)
            case.inputs[f"{side}_cache"] = Tensor.integers(
                rng.integers(-127, 128, (*rows, size)), "I8"
            )
            case.attributes[f"{side[0]}_quant_type"] = kind
            continue
        shape = (1,) if kind == "PER_TENSOR" else (heads, 1, size)
        scales = 2.0 ** rng.integers(-6, -3, shape)
        data = rng.integers(-128, 128, (blocks, block_size, heads, size))
        case.attributes[f"{side[0]}_quant_type"] = kind
        case.inputs[f"{side[0]}_scale"] = Tensor.rounded(scales, "F32")
        case.inputs[f"{side}_cache"] = Tensor.integers(data, "I8")


def poison_unseen(rng: np.random.Generator, case: Case) -> None:
    """NaN and infinities in every cache row that no token may see."""
    paged = Paged(case)
    seen = np.zeros(paged.blocks * paged.block_size, dtype=bool)
    for b, position in paged.owners():
        seen[paged.visible(b, position)] = True
    for name in ("key_cache", "value_cache", "k_scale_cache", "v_scale_cache"):
        if name not in case.inputs:
            continue
        cache = case.inputs[name]
        flat = Tensor(cache.dtype, cache.data.reshape(len(seen), -1))
        poison(rng, flat, ~seen)


def options(draw: Draw, rng: np.random.Generator, case: Case, dtype: str, query_heads: int) -> None:
    attributes = case.attributes
    if draw(st.booleans()):
        attributes["scale"] = draw(st.sampled_from([0.0, -0.0, 0.3, -0.2, 1.0]))
    if draw(st.integers(0, 2)) == 0:
        attributes["local_window_size"] = draw(st.sampled_from([-1, 0, 1, 2, 7, 40, 10**6]))
    if draw(st.integers(0, 3)) == 0:
        attributes["softcap"] = draw(st.sampled_from([0.0, 0.5, 5.0, 50.0]))
    if draw(st.integers(0, 3)) == 0:
        attributes["is_causal"] = 0
    if draw(st.integers(0, 3)) == 0:
        case.inputs["head_sink"] = normal(rng, (query_heads,), dtype, 2)
    if draw(st.integers(0, 4)) == 0:
        bounds = [draw(st.integers(0, 40)), draw(st.integers(0, 200))]
        bounds += [0] if draw(st.booleans()) else []
        case.inputs["attention_metadata"] = Tensor.integers(bounds)


@st.composite
def sizes(draw: Draw) -> tuple[list[int], list[int]]:
    """New tokens and past of each sequence; now and then a long one."""
    count = draw(st.integers(1, 5))
    new = [draw(st.sampled_from([0, 1, 1, 1, 2, 5, 8, 9, 17])) for _ in range(count)]
    past = [draw(st.sampled_from([0, 0, 1, 3, 15, 16, 40, 63, 64, 100])) for _ in range(count)]
    if draw(st.integers(0, 9)) == 0:
        past[0] = draw(st.sampled_from([511, 512, 600, 1100]))
    return new, past


def activations(draw: Draw, rng: np.random.Generator, case: Case, dtype: str, tokens: int) -> None:
    query_heads, heads = case.attributes["num_heads"], case.attributes["kv_num_heads"]
    size = case.inputs["key_cache"].shape[3]
    q_width, kv_width = query_heads * size, heads * size
    if draw(st.booleans()):
        case.inputs["query"] = normal(rng, (tokens, q_width + 2 * kv_width), dtype)
    else:
        case.inputs["query"] = normal(rng, (tokens, q_width), dtype)
        case.inputs["key"] = normal(rng, (tokens, kv_width), dtype)
        case.inputs["value"] = normal(rng, (tokens, kv_width), dtype)


@st.composite
def legal(draw: Draw) -> Case:
    rng = np.random.default_rng(draw(seeds))
    dtype = str(draw(dtypes))
    query_heads, heads = draw(st.sampled_from(HEADS))
    size = draw(st.sampled_from([1, 2, 8, 16, 33, 40, 64, 80]))
    block_size = int(draw(st.sampled_from([1, 3, 4, 16, 48])))
    new, past = draw(sizes())
    needed = sum(-(-(n + p) // block_size) for n, p in zip(new, past))
    shape = (needed + 2, block_size, heads, size)
    case = Case("com.microsoft.PagedAttention")
    case.attributes = {"num_heads": query_heads, "kv_num_heads": heads}
    case.inputs = {
        "key_cache": normal(rng, shape, dtype),
        "value_cache": normal(rng, shape, dtype),
        "cumulative_sequence_length": Tensor.integers(np.cumsum([0, *new])),
        "past_seqlens": Tensor.integers(past),
    }
    if draw(st.integers(0, 3)) == 0:
        add_quantisation(draw, rng, case, heads)
    activations(draw, rng, case, dtype, sum(new))
    block_table(rng, case, int(draw(st.integers(0, 2))))
    if draw(st.integers(0, 3)) == 0:
        punch_holes(rng, case)
    if draw(st.integers(0, 5)) == 0:
        share_prefix(case)
    kind = draw(st.sampled_from(["", "", "derived", "none", "elsewhere"]))
    if kind:
        slot_mapping(rng, case, str(kind))
    options(draw, rng, case, dtype, query_heads)
    poison_unseen(rng, case)
    return finish(draw, case)


def finish(draw: Draw, case: Case) -> Case:
    case.note = "random legal call"
    return expected(case, bool(draw(st.booleans())))


def expected(case: Case, lse: bool) -> Case:
    """Expected outputs. The error of a weighted mean is one of the values, not of the mean."""
    paged = Paged(case)
    inputs = case.inputs
    values = cache_rows(paged, inputs["value_cache"], inputs.get("v_scale_cache"), "value")
    reach = max(largest(values), largest(case.inputs["query"].value), 1e-3)
    magnitude = {"output": reach, "key_cache_out": 0.0, "value_cache_out": 0.0}
    scales = [name for name in ("k_scale_cache", "v_scale_cache") if name in inputs]
    magnitude.update({f"{name}_out": 0.0 for name in scales})
    if lse:
        magnitude["softmax_lse"] = max(1.0, reach)
        case.outputs = list(magnitude)
    return expect(case, magnitude)


