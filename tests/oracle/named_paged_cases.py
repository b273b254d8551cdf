"""Case files of PagedAttention and PagedDecode that the oracle makes: int8 with a scale a token."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle import decode_cases, paged_cases
from oracle.case_file import Case
from oracle.generate import expect, largest, normal, uniform
from oracle.paged_decode import pages_of
from oracle.tensors import Tensor

SEED = 20261130


def refused(case: Case, status: str) -> Case:
    case.expect, case.tolerance, case.outputs = {}, {}, None
    case.error = status
    return case


# ---- PagedAttention, X7 ----


def scaled_cache(rng: np.random.Generator, case: Case, side: str, shape: tuple[int, ...]) -> None:
    case.attributes[f"{side[0]}_quant_type"] = "PER_TOKEN"
    case.inputs[f"{side}_cache"] = Tensor.integers(rng.integers(-127, 128, shape), "I8")
    case.inputs[f"{side[0]}_scale_cache"] = uniform(rng, shape[:3], "F32", 0.002, 0.02)


def attention(
    dtype: str, new: list[int], past: list[int], packed: bool = False, **attributes: Any
) -> Case:
    """4 query heads, 2 of keys and values, 24 channels, blocks of 8 in random order."""
    rng = np.random.default_rng(SEED + sum(new) + 1000 * sum(past))
    tokens, blocks = sum(new), sum(-(-(n + p) // 8) for n, p in zip(new, past)) + 2
    case = Case("com.microsoft.PagedAttention", {"num_heads": 4, "kv_num_heads": 2, **attributes})
    case.inputs = {
        "query": normal(rng, (tokens, (8 if packed else 4) * 24), dtype),
        "cumulative_sequence_length": Tensor.integers(np.cumsum([0, *new])),
        "past_seqlens": Tensor.integers(past),
    }
    if not packed:
        case.inputs["key"] = normal(rng, (tokens, 48), dtype)
        case.inputs["value"] = normal(rng, (tokens, 48), dtype)
    for side in ("key", "value"):
        scaled_cache(rng, case, side, (blocks, 8, 2, 24))
    paged_cases.block_table(rng, case, 1)
    return case


def per_channel_keys() -> Case:
    case = attention("F16", [2, 1], [9, 30])
    del case.inputs["k_scale_cache"]
    case.attributes["k_quant_type"] = "PER_CHANNEL"
    scales = 2.0 ** np.random.default_rng(SEED).integers(-7, -4, (2, 1, 24))
    case.inputs["k_scale"] = Tensor.rounded(scales, "F32")
    return case


def poisoned() -> Case:
    case = attention("F32", [1, 3], [20, 65], local_window_size=17)
    paged_cases.poison_unseen(np.random.default_rng(SEED), case)
    return case


def odd_rows() -> Case:
    """New rows of zeros, of NaN among numbers, of numbers whose scale underflows, of one number."""
    case = attention("F32", [4], [3])
    keys = case.inputs["key"].data
    keys[0], keys[1, ::2], keys[2] = 0, np.nan, 1e-44
    keys[3] = 0
    keys[3, 5] = -3.0
    return case


def nowhere() -> Case:
    """Slots: none, one that exists, one beyond the cache. Scales follow the slot."""
    case = attention("F32", [3], [12])
    rows = int(np.prod(case.inputs["key_cache"].shape[:2]))
    case.inputs["slot_mapping"] = Tensor.integers([-1, 0, rows])
    return case


def attention_cases() -> dict[str, Case]:
    legal = {
        "per_token_decode_f16": attention("F16", [1, 1, 1], [0, 70, 513]),
        "per_token_draft_bf16": attention("BF16", [8, 3], [61, 0], softcap=5.0),
        "per_token_prefill_f32": attention("F32", [40, 9], [0, 100]),
        "per_token_packed": attention("F16", [12, 2], [5, 7], packed=True),
        "per_token_not_causal": attention("F32", [11, 2], [64, 1], is_causal=0),
        "per_token_values_only": per_channel_keys(),
        "per_token_poison": poisoned(),
        "per_token_odd_rows": odd_rows(),
        "per_token_slots": nowhere(),
        "per_token_no_tokens": attention("F32", [0, 0], [4, 0]),
    }
    cases = {name: paged_cases.expected(case, lse=True) for name, case in legal.items()}
    missing = attention("F32", [1], [3])
    del missing.inputs["v_scale_cache"]
    short = attention("F32", [1], [3])
    short.inputs["k_scale_cache"].data = short.inputs["k_scale_cache"].data[1:]
    floats = attention("F32", [1], [3])
    floats.inputs["key_cache"] = normal(np.random.default_rng(1), (3, 8, 2, 24), "F32")
    floats.inputs["value_cache"] = floats.inputs["key_cache"].copy()
    cases |= {
        "bad_per_token_no_scales": refused(missing, "BAD_PRESENCE"),
        "bad_per_token_few_scales": refused(short, "BAD_SHAPE"),
        "bad_per_token_float_cache": refused(floats, "BAD_TYPE"),
    }
    return cases


# ---- PagedDecode, X2 ----


def decode(dtype: str, lengths: list[int], size: int = 32, **attributes: Any) -> Case:
    """6 query heads, 2 of keys and values, pages of 16 in random order."""
    rng = np.random.default_rng(SEED + sum(lengths) + size)
    last = np.array(lengths)
    pages = int((-(-last // 16)).sum()) + 2
    order = rng.permutation(pages)
    table = np.full((len(lengths), max(1, int(-(-last.max() // 16)))), -1)
    for b, count in enumerate(-(-last // 16)):
        table[b, :count], order = order[:count], order[count:]
    case = Case("quire.PagedDecode", {"scale": 0.25, **attributes})
    case.inputs = {
        "query": normal(rng, (len(lengths), 6, size), dtype),
        "key_pages": normal(rng, (2, pages, 16, size), dtype),
        "value_pages": normal(rng, (2, pages, 16, size), dtype),
        "page_table": Tensor.integers(table),
        "context_lengths": Tensor.integers(last),
    }
    decode_cases.quantise_pages(rng, case)
    window = int(attributes.get("local_window_size", -1))
    first = np.maximum(0, last - window) if window > 0 else np.zeros_like(last)
    decode_cases.poison_unseen(rng, case, first, last)
    return case


def decode_finish(case: Case) -> Case:
    magnitude = {"output": largest(pages_of(case, "value")) or 1.0, "softmax_lse": 5.0}
    case.outputs = list(magnitude)
    return expect(case, magnitude)


def decode_named_cases() -> dict[str, Case]:
    legal = {
        "int8_one_token": decode("F32", [1]),
        "int8_ragged_f16": decode("F16", [700, 0, 17, 64]),
        "int8_padded_size_22": decode("BF16", [130, 5], 22),
        "int8_size_1": decode("F32", [40], 1),
        "int8_blocks_7": decode("F32", [300, 2], 40, partial_blocks=7),
        "int8_window": decode("F16", [200, 30], 80, local_window_size=33),
    }
    cases = {name: decode_finish(case) for name, case in legal.items()}
    missing = decode("F32", [20])
    del missing.inputs["key_scales"]
    narrow = decode("F32", [20], 22)
    for name in ("key_pages", "value_pages"):
        narrow.inputs[name].data = np.ascontiguousarray(narrow.inputs[name].data[..., :22])
    cases |= {
        "bad_int8_no_scales": refused(missing, "BAD_PRESENCE"),
        "bad_int8_not_padded": refused(narrow, "BAD_SHAPE"),
    }
    return cases
