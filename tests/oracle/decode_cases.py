"""Random legal calls of PagedDecode and MergeAttentionStates."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from oracle.case_file import Case
from oracle.generate import dtypes, expect, largest, normal, poison, seeds, uniform
from oracle.paged_cases import HEADS, Draw
from oracle.paged_decode import pages_of
from oracle.tensors import Tensor


def page_table(
    draw: Draw, rng: np.random.Generator, case: Case, first: np.ndarray, last: np.ndarray
) -> None:
    """Distinct pages for what is live (or few, repeated ones); garbage outside."""
    pages = case.inputs["key_pages"].shape[1]
    page_size = case.inputs["key_pages"].shape[2]
    columns = max(1, int(-(-last.max() // page_size))) + int(draw(st.integers(0, 2)))
    table = rng.choice(np.array([-5, -1, pages, 2**31 - 1]), (len(last), columns))
    repeated = draw(st.integers(0, 3)) == 0
    order = rng.permutation(pages)
    for b in range(len(last)):
        live = np.arange(first[b] // page_size, -(-last[b] // page_size))
        if repeated:
            table[b, live] = rng.integers(0, pages, len(live))
        else:
            table[b, live], order = order[: len(live)], order[len(live) :]
    case.inputs["page_table"] = Tensor.integers(table)


def poison_unseen(
    rng: np.random.Generator, case: Case, first: np.ndarray, last: np.ndarray
) -> None:
    _, pages, page_size, _ = case.inputs["key_pages"].shape
    table = case.inputs["page_table"].value
    seen = np.zeros((pages, page_size), dtype=bool)
    for b in range(len(last)):
        tokens = np.arange(first[b], last[b])
        seen[table[b, tokens // page_size], tokens % page_size] = True
    for name in ("key_pages", "value_pages", "key_scales", "value_scales"):
        if name not in case.inputs:
            continue
        by_slot = np.moveaxis(case.inputs[name].data, 0, 2)
        bad = Tensor(case.inputs[name].dtype, np.ascontiguousarray(by_slot))
        poison(rng, bad, ~seen)
        case.inputs[name].data = np.ascontiguousarray(np.moveaxis(bad.data, 2, 0))


def quantise_pages(rng: np.random.Generator, case: Case) -> None:
    """X2: int8 pages in whole words, with anything behind the head size, and their scales."""
    for side in ("key", "value"):
        *rows, size = case.inputs[f"{side}_pages"].shape
        data = rng.integers(-127, 128, (*rows, -(-size // 4) * 4))
        case.inputs[f"{side}_pages"] = Tensor.integers(data, "I8")
        case.inputs[f"{side}_scales"] = uniform(rng, tuple(rows), "F32", 0.001, 0.03)


@st.composite
def legal_decode(draw: Draw) -> Case:
    rng = np.random.default_rng(draw(seeds))
    dtype = str(draw(dtypes))
    query_heads, heads = draw(st.sampled_from(HEADS))
    size = draw(st.sampled_from([1, 3, 16, 32, 40, 80]))
    page_size = int(draw(st.sampled_from([1, 3, 4, 16])))
    batch = int(draw(st.integers(1, 4)))
    choices = [1, 2, 15, 16, 63, 64, 65, 200] + ([0] if batch > 1 else [])
    last = np.array([draw(st.sampled_from(choices)) for _ in range(batch)])
    if draw(st.integers(0, 7)) == 0:
        last[0] = draw(st.sampled_from([511, 513, 1023, 1024, 1100]))
    window = int(draw(st.sampled_from([-1, -1, 0, 1, 10, 64])))
    first = np.maximum(0, last - window) if window > 0 else np.zeros_like(last)
    pages = int((-(-last // page_size)).sum()) + 2
    case = Case("quire.PagedDecode")
    case.attributes = {"scale": draw(st.sampled_from([0.1, 0.25, 1.0]))}
    if window >= 0:
        case.attributes["local_window_size"] = window
    case.inputs = {
        "query": normal(rng, (batch, query_heads, size), dtype),
        "key_pages": normal(rng, (heads, pages, page_size, size), dtype),
        "value_pages": normal(rng, (heads, pages, page_size, size), dtype),
        "context_lengths": Tensor.integers(last),
    }
    if draw(st.integers(0, 2)) == 0:
        quantise_pages(rng, case)
    page_table(draw, rng, case, first, last)
    if draw(st.integers(0, 2)) == 0:
        case.attributes["partial_blocks"] = draw(st.sampled_from([0, 1, 2, 3, 7, 32, 1000, 1024]))
    if draw(st.integers(0, 4)) == 0:
        case.attributes["context_bound"] = draw(st.integers(0, 2000))
    if draw(st.integers(0, 3)) == 0:
        case.inputs["head_sink"] = normal(rng, (query_heads,), dtype, 2)
    poison_unseen(rng, case, first, last)
    magnitude = {"output": largest(pages_of(case, "value")) or 1.0}
    if draw(st.booleans()):
        magnitude["softmax_lse"] = 5.0
        case.outputs = list(magnitude)
    case.note = "random legal call"
    return expect(case, magnitude)


@st.composite
def legal_merge(draw: Draw) -> Case:
    rng = np.random.default_rng(draw(seeds))
    dtype = str(draw(dtypes))
    shape = tuple(draw(st.sampled_from([0, 1, 2, 5])) for _ in range(2))
    size = draw(st.sampled_from([1, 3, 16, 40]))
    case = Case("quire.MergeAttentionStates", note="random legal call")
    for part in ("a", "b"):
        lse = normal(rng, shape, "F32", 3)
        empty = rng.random(shape) < 0.3
        lse.data[empty] = -np.inf
        output = normal(rng, (*shape, size), dtype)
        if draw(st.booleans()):
            poison(rng, output, empty)  # a part of weight 0 is selected away
        case.inputs[f"output_{part}"] = output
        case.inputs[f"softmax_lse_{part}"] = lse
    reach = max(largest(case.inputs[f"output_{part}"].value) for part in "ab")
    return expect(case, {"output": reach or 1.0, "softmax_lse": 5.0})
