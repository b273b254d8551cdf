"""The case files that the oracle itself makes: python -m oracle make tests/data/cases.

Their names say what they show. Random numbers have fixed seeds, so the files can be made again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from oracle import causal_conv_cases, linear_replay_cases
from oracle.case_file import Case
from oracle.generate import expect, largest, normal, poison, uniform
from oracle.named_paged_cases import attention_cases, decode_named_cases, refused
from oracle.tensors import Tensor

SEED = 20240611


# ---- CausalConvWithState ----


def conv(dtype: str, channels: int, tokens: int, taps: int = 4, batch: int = 2, last: bool = False,
         op: str = "com.microsoft.CausalConvWithState", **attributes: Any) -> Case:  # fmt: skip
    rng = np.random.default_rng(SEED + channels + 1000 * tokens)
    case = Case(op, dict(attributes))
    if last:
        case.attributes["channels_last"] = 1
    length = (taps - 1) * int(attributes.get("dilation", 1))
    shape = (batch, tokens, channels) if last else (batch, channels, tokens)
    state = (batch, length, channels) if last else (batch, channels, length)
    window = int(attributes.get("state_window", 0))
    case.inputs = {
        "input": normal(rng, shape, dtype),
        "weight": normal(rng, (channels, 1, taps), dtype, 0.5),
        "bias": normal(rng, (channels,), dtype),
        "past_state": normal(rng, (window, *state) if window else state, dtype),
    }
    return case


def without(case: Case, *names: str) -> Case:
    for name in names:
        del case.inputs[name]
    return case


def ragged(case: Case, lengths: list[int]) -> Case:
    """Rows of the batch become sequences along the token axis; channels last."""
    data = case.inputs["input"].data
    case.inputs["input"].data = np.ascontiguousarray(data[:1, : sum(lengths)])
    case.inputs["cu_seqlens"] = Tensor.integers(np.cumsum([0, *lengths]))
    return case


def pooled(case: Case, slots: int, reads: list[int], writes: Any) -> Case:
    state = case.inputs.pop("past_state")
    shape = (slots, *state.shape[-2:])
    case.inputs["state_pool"] = normal(np.random.default_rng(SEED), shape, state.dtype)
    case.inputs["read_indices"] = Tensor.integers(reads)
    case.inputs["write_indices"] = Tensor.integers(writes)
    return case


def poisoned() -> Case:
    """CC-E8: channel 3 is NaN, channel 5 has an infinite weight on zeros."""
    case = conv("F32", 20, 9, last=True)
    case.inputs["input"].data[:, :, 3] = np.nan
    case.inputs["input"].data[:, :, 5] = 0
    case.inputs["weight"].data[5, 0, 1] = np.inf
    case.inputs["weight"].data[7] = np.inf
    case.inputs["past_state"].data[0, :, 11] = [np.nan, np.inf, -np.inf]
    return case


def conv_cases() -> dict[str, Case]:
    strict = "ai.onnx.CausalConvWithState"
    legal = {
        "decode_f32": conv("F32", 130, 1, activation="silu"),
        "decode_f16": conv("F16", 130, 1, activation="silu"),
        "decode_bf16_last": conv("BF16", 130, 1, last=True, activation="silu"),
        "prefill_f32": conv("F32", 37, 70, activation="silu"),
        "prefill_f16_last": conv("F16", 300, 19, last=True, activation="swish"),
        "prefill_bf16": conv("BF16", 9, 100),
        "few_tokens": conv("F32", 35, 7),
        "no_past_no_bias": without(conv("F32", 16, 21), "past_state", "bias"),
        "short_input_no_past": without(conv("F32", 16, 2, taps=7), "past_state"),
        "one_tap": conv("F16", 16, 5, taps=1),
        "dilation_3": conv("F32", 16, 33, dilation=3),
        "dilation_3_last": conv("F32", 16, 33, dilation=3, last=True),
        "taps_70": conv("F32", 5, 40, taps=70),
        "no_tokens": conv("F32", 6, 0),
        "no_channels": conv("F32", 0, 3),
        "window_5_tokens_2": conv("F32", 20, 2, state_window=5),
        "window_3_tokens_5_last": conv("F16", 20, 5, last=True, state_window=3),
        "ragged": ragged(conv("F32", 40, 30, batch=4, last=True), [1, 20, 0, 5]),
        "pool": pooled(conv("F32", 40, 3, batch=3), 6, [0, -1, 4], [0, 2, -1]),
        "pool_window_over_read": pooled(
            ragged(conv("F32", 12, 8, batch=2, last=True, state_window=3), [2, 4]),
            8, [1, 5], [[0, 1, 2], [5, 5, 6]],
        ),
        "poison": poisoned(),
        "strict_silu": conv("F32", 12, 9, op=strict, activation="silu"),
        "strict_f16_decode": conv("F16", 12, 1, op=strict),
    }  # fmt: skip
    cases = {name: causal_conv_cases.finish(case) for name, case in legal.items()}
    short = copy.deepcopy(conv("F32", 16, 4))
    short.inputs["past_state"].data = short.inputs["past_state"].data[:, :, 1:]
    no_taps = without(conv("F32", 4, 4), "past_state")
    no_taps.inputs["weight"].data = no_taps.inputs["weight"].data[:, :, :0]
    clash = pooled(conv("F32", 8, 3), 4, [0, 1], [2, 2])
    steal = pooled(conv("F32", 8, 3), 4, [0, 1], [1, 2])
    cases |= {
        "bad_ndim_2": refused(conv("F32", 4, 4, ndim=2), "UNSUPPORTED"),
        "bad_activation": refused(conv("F32", 4, 4, activation="relu"), "BAD_ATTRIBUTE"),
        "bad_state_length": refused(short, "BAD_SHAPE"),
        "bad_taps_zero": refused(no_taps, "BAD_SHAPE"),
        "bad_slot_written_twice": refused(clash, "BAD_VALUE"),
        "bad_slot_read_by_another": refused(steal, "BAD_VALUE"),
        "bad_lengths": refused(ragged(conv("F32", 4, 9, last=True), [3, -1]), "BAD_VALUE"),
    }
    return cases


# ---- LinearAttentionReplay ----


def replay(accepted: list[int], dtype: str = "F32", tokens: int = 8, decay: str = "head",
           **attributes: Any) -> Case:  # fmt: skip
    rng = np.random.default_rng(SEED + tokens)
    heads, dk, dv, batch = 4, 24, 35, len(accepted)
    key_heads = int(attributes.get("key_num_heads", heads))
    case = Case("quire.LinearAttentionReplay", {"kv_num_heads": heads, **attributes})
    matrix = (dv, dk) if attributes.get("state_layout") == "v_major" else (dk, dv)
    case.inputs = {
        "log_key": normal(rng, (batch, tokens, key_heads * dk), "F32", dk**-0.5),
        "log_value": normal(rng, (batch, tokens, heads * dv), "F32"),
        "accepted": Tensor.integers(accepted),
        "past_state": normal(rng, (batch, heads, *matrix), dtype),
    }
    if decay != "none":
        width = heads * (dk if decay == "channel" else 1)
        case.inputs["log_decay"] = uniform(rng, (batch, tokens, width), "F32", 0.1, 1)
    return case


def golden_replay() -> Case:
    """LR-G1."""
    case = Case("quire.LinearAttentionReplay", {"kv_num_heads": 1})
    numbers = {
        "log_key": [[[1, 0], [0.6, 0.8]]] * 3,
        "log_value": [[[0], [1.9]]] * 3,
        "log_decay": [[[0.5], [0.25]]] * 3,
        "past_state": [[[[4], [8]]]] * 3,
    }
    case.inputs = {name: Tensor.rounded(np.array(n), "F32") for name, n in numbers.items()}
    case.inputs["accepted"] = Tensor.integers([0, 1, 2])
    return case


def replay_pool(case: Case, reads: list[int], writes: list[int]) -> Case:
    state = case.inputs.pop("past_state")
    pool = normal(np.random.default_rng(SEED), (5, *state.shape[1:]), state.dtype)
    case.inputs["state_pool"] = pool
    case.inputs["read_indices"] = Tensor.integers(reads)
    case.inputs["write_indices"] = Tensor.integers(writes)
    return case


def replay_poison() -> Case:
    """Tokens that were not accepted are not read."""
    case = replay([3, 0], decay="channel")
    for name in ("log_key", "log_value", "log_decay"):
        case.inputs[name].data[0, 3:] = np.nan
        case.inputs[name].data[1] = np.inf
    return case


def replay_ragged() -> Case:
    case = replay([2, 0, 3], decay="channel")
    for name in ("log_key", "log_value", "log_decay"):
        case.inputs[name].data = case.inputs[name].data[:1]
    case.inputs["cu_seqlens"] = Tensor.integers([0, 4, 4, 8])
    return case


def replay_cases() -> dict[str, Case]:
    legal = {
        "golden": golden_replay(),
        "per_head": replay([8, 3, 0]),
        "per_channel": replay([5, 1], decay="channel"),
        "no_decay": replay([4], decay="none"),
        "no_past": without(replay([2, 7]), "past_state"),
        "v_major_f16": replay([8, 2], "F16", decay="channel", state_layout="v_major"),
        "key_heads_2_bf16": replay([6, 6], "BF16", key_num_heads=2),
        "key_heads_2_tiled": replay([6, 1], key_num_heads=2, head_mapping="tiled"),
        "ragged": replay_ragged(),
        "pool_in_place": replay_pool(replay([1, 2, 0]), [0, 1, 2], [0, 1, 2]),
        "pool_fork": replay_pool(replay([1, 2, 0], "F16"), [0, -1, 2], [4, 3, -1]),
        "rejected_poison": replay_poison(),
    }
    cases = {name: linear_replay_cases.finish(case) for name, case in legal.items()}
    clash = replay_pool(replay([1, 1]), [0, 1], [2, 2])
    cases |= {
        "bad_accepted_too_many": refused(replay([9, 0]), "BAD_VALUE"),
        "bad_accepted_negative": refused(replay([-1, 0]), "BAD_VALUE"),
        "bad_slot_written_twice": refused(clash, "BAD_VALUE"),
        "bad_key_heads_3": refused(replay([1], key_num_heads=3), "BAD_SHAPE"),
    }
    return cases


# ---- MergeAttentionStates ----


def merge_of(dtype: str, size: int) -> Case:
    rng = np.random.default_rng(SEED + size)
    shape = (3, 5)
    case = Case("quire.MergeAttentionStates")
    for number, part in enumerate("ab"):
        logarithms = normal(rng, shape, "F32", 3)
        empty = np.zeros(shape, dtype=bool)
        empty[number] = True  # one side empty, then the other; in one place both
        empty[2, 4] = True
        logarithms.data[empty] = -np.inf
        output = normal(rng, (*shape, size), dtype)
        poison(rng, output, empty)  # a part of weight 0 is selected away
        case.inputs[f"output_{part}"] = output
        case.inputs[f"softmax_lse_{part}"] = logarithms
    reach = max(largest(case.inputs[f"output_{part}"].value) for part in "ab")
    return expect(case, {"output": reach, "softmax_lse": 5.0})


def merge_cases() -> dict[str, Case]:
    return {
        "empty_parts_f32": merge_of("F32", 16),
        "empty_parts_f16": merge_of("F16", 40),
        "odd_size_bf16": merge_of("BF16", 3),
        "size_7_f32": merge_of("F32", 7),
    }


FOLDERS: dict[str, Callable[[], dict[str, Case]]] = {
    "causal_conv": conv_cases,
    "paged_attention": attention_cases,
    "merge_attention_states": merge_cases,
    "paged_decode": decode_named_cases,
    "linear_attention_replay": replay_cases,
}
