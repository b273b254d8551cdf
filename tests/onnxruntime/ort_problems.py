"""Small random calls, and their float64 results."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.case_file import Case
from oracle.compare import difference
from oracle.operators import compute
from oracle.tensors import Tensor, unit_in_last_place

# Rounding of the result, and sums of a few hundred float32 terms.
TOLERANCE = {"F16": 1e-3, "BF16": 1e-3, "F32": 2e-5}
BLOCK = 16


def rounded(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Tensor:
    return Tensor.rounded(rng.standard_normal(shape), dtype)


def paged(
    rng: np.random.Generator,
    new: list[int],
    past: list[int],
    heads: tuple[int, int] = (4, 2),
    size: int = 16,
    dtype: str = "F16",
    spare: int = 2,
    **attributes: Any,
) -> Case:
    """Sequences of `new` tokens behind `past` cached ones, in shuffled blocks."""
    case = Case("com.microsoft.PagedAttention")
    case.attributes = {"num_heads": heads[0], "kv_num_heads": heads[1], **attributes}
    need = [-(-(n + p) // BLOCK) for n, p in zip(new, past)]
    columns, blocks = max(1, *need), sum(need) + spare
    order = rng.permutation(blocks)
    table = np.full((len(new), columns), -1)
    for row, count in enumerate(need):
        table[row, :count] = order[sum(need[:row]) : sum(need[:row]) + count]
    tokens, cache = sum(new), (blocks, BLOCK, heads[1], size)
    case.inputs = {
        "query": rounded(rng, (tokens, heads[0] * size), dtype),
        "key": rounded(rng, (tokens, heads[1] * size), dtype),
        "value": rounded(rng, (tokens, heads[1] * size), dtype),
        "key_cache": rounded(rng, cache, dtype),
        "value_cache": rounded(rng, cache, dtype),
        "cumulative_sequence_length": Tensor.integers(np.concatenate([[0], np.cumsum(new)])),
        "past_seqlens": Tensor.integers(past),
        "block_table": Tensor.integers(table),
    }
    return case


def linear(
    rng: np.random.Generator,
    batch: int = 2,
    tokens: int = 5,
    heads: tuple[int, int] = (2, 4),
    sizes: tuple[int, int] = (8, 6),
    dtype: str = "F32",
    state: str = "F32",
    window: int = 0,
    past: bool = True,
    op: str = "com.microsoft.LinearAttention",
) -> Case:
    """gated_delta with unit keys, decay below 0 and beta in (0, 1)."""
    case = Case(op)
    key_heads = heads[1]
    case.attributes = {"q_num_heads": heads[0], "kv_num_heads": heads[1]}
    if window:
        case.attributes["state_window"] = window
    key = rng.standard_normal((batch, tokens, key_heads, sizes[0]))
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    case.inputs = {
        "query": rounded(rng, (batch, tokens, heads[0] * sizes[0]), dtype),
        "key": Tensor.rounded(key.reshape(batch, tokens, key_heads * sizes[0]), dtype),
        "value": rounded(rng, (batch, tokens, heads[1] * sizes[1]), dtype),
        "decay": Tensor.rounded(-rng.random((batch, tokens, heads[1])), dtype),
        "beta": Tensor.rounded(rng.random((batch, tokens, heads[1])), dtype),
    }
    if past:
        matrix = (batch, heads[1], *sizes)
        shape = (window, *matrix) if window else matrix
        case.inputs["past_state"] = rounded(rng, shape, state)
    else:
        case.output_dtypes = {"present_state": state}
    return case


def expected(case: Case) -> dict[str, Tensor]:
    copy = Case(case.op, dict(case.attributes), {n: t.copy() for n, t in case.inputs.items()})
    copy.output_dtypes = dict(case.output_dtypes)
    return compute(copy)


def assert_close(got: dict[str, Tensor], want: dict[str, Tensor]) -> None:
    for name, tensor in got.items():
        exact = name.endswith("_cache_out")
        atol = 0.0 if exact else TOLERANCE[want[name].dtype]
        rtol = 0.0 if exact else unit_in_last_place(want[name].dtype)
        message = difference(tensor, want[name], atol, rtol)
        assert message is None, f"{name}{message}"
