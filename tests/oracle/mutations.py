"""Illegal requests: a legal one with one fault, and the status that must refuse it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle.case_file import Case
from oracle.tensors import STORAGE, Tensor


@dataclass
class Mutation:
    name: str
    status: str
    apply: Callable[[Case], None]
    needs: tuple[str, ...] = ()
    """Inputs without which the mutation makes no sense."""
    when: Callable[[Case], bool] = lambda case: True

    def fits(self, case: Case) -> bool:
        return all(name in case.inputs for name in self.needs) and self.when(case)


# ---- building blocks ----


def drop(name: str) -> Mutation:
    return Mutation(f"without {name}", "BAD_PRESENCE", lambda c: drop_input(c, name), (name,))


def drop_input(case: Case, name: str) -> None:
    del case.inputs[name]


def retype(name: str) -> Mutation:
    """float64 and int64 are never allowed."""

    def apply(case: Case) -> None:
        tensor = case.inputs[name]
        dtype = "I64" if tensor.dtype == "I32" else "F64"
        case.inputs[name] = Tensor(dtype, tensor.value.astype(STORAGE[dtype]))

    return Mutation(f"{name} of a wrong type", "BAD_TYPE", apply, (name,))


def add_axis(name: str) -> Mutation:
    def apply(case: Case) -> None:
        case.inputs[name].data = case.inputs[name].data[None]

    return Mutation(f"{name} with one axis more", "BAD_RANK", apply, (name,))


def widen(name: str, axis: int, when: Callable[[Case], bool] = lambda case: True) -> Mutation:
    """One more element along an axis, the values repeated."""

    def apply(case: Case) -> None:
        data = case.inputs[name].data
        padding = [(0, int(a == axis % data.ndim)) for a in range(data.ndim)]
        case.inputs[name].data = np.pad(data, padding)

    return Mutation(f"{name} longer along axis {axis}", "BAD_SHAPE", apply, (name,), when)


def attribute(name: str, value: Any, status: str = "BAD_ATTRIBUTE") -> Mutation:
    def apply(case: Case) -> None:
        case.attributes[name] = value

    return Mutation(f"{name} = {value!r}", status, apply)


def without_attribute(name: str) -> Mutation:
    return Mutation(f"without {name}", "BAD_ATTRIBUTE", lambda case: case.attributes.pop(name))


def entry(name: str, index: Any, value: int, status: str = "BAD_VALUE",
          when: Callable[[Case], bool] = lambda case: True) -> Mutation:  # fmt: skip
    def apply(case: Case) -> None:
        case.inputs[name].data[index] = value

    return Mutation(f"{name}[{index}] = {value}", status, apply, (name,), when)


def extra_input(name: str, status: str = "UNSUPPORTED") -> Mutation:
    def apply(case: Case) -> None:
        case.inputs[name] = Tensor.integers([0])

    return Mutation(f"with {name}", status, apply)


def structural(names: list[str]) -> list[Mutation]:
    return [make(name) for name in names for make in (retype, add_axis)]


COMMON = [
    attribute("no_such_attribute", 1, "UNSUPPORTED"),
    extra_input("no_such_input"),
]

# ---- the operators ----


def sequences(case: Case) -> int:
    return len(case.inputs["past_seqlens"].data)


PAGED_REQUIRED = [
    "query",
    "key_cache",
    "value_cache",
    "cumulative_sequence_length",
    "past_seqlens",
    "block_table",
]
PAGED = [
    *COMMON,
    *[drop(name) for name in [*PAGED_REQUIRED, "key", "value"]],
    *structural([*PAGED_REQUIRED, "key", "value", "slot_mapping"]),
    *[drop(name) for name in ("k_scale", "v_scale", "k_scale_cache", "v_scale_cache")],
    *structural(["k_scale_cache", "v_scale_cache"]),
    *[widen(name, axis) for name in ("k_scale_cache", "v_scale_cache") for axis in (0, 1, 2)],
    without_attribute("num_heads"),
    without_attribute("kv_num_heads"),
    attribute("num_heads", 0),
    attribute("num_heads", "4"),
    attribute("kv_num_heads", 0),
    attribute("kv_num_heads", -1),
    attribute("kv_num_heads", 16),
    attribute("is_causal", 2),
    attribute("softcap", -1.0),
    attribute("do_rotary", 1, "UNSUPPORTED"),
    widen("key", 1),
    widen("value", 1),
    widen("query", 1),
    widen("key", 0),
    widen("value_cache", 0),
    widen("key_cache", 2),
    widen("past_seqlens", 0),
    widen("block_table", 0),
    widen("slot_mapping", 0),
    widen("head_sink", 0),
    widen("k_scale", -1),
    entry("cumulative_sequence_length", 0, 1),
    entry("cumulative_sequence_length", -1, 2**31 - 1),
    entry("cumulative_sequence_length", 1, 2**30, when=lambda c: sequences(c) > 1),
    entry("past_seqlens", 0, -1),
    entry("past_seqlens", 0, 2**31 - 1),
    entry("attention_metadata", 0, -1),
    widen("attention_metadata", 0, lambda c: len(c.inputs["attention_metadata"].data) == 3),
]

DECODE_REQUIRED = ["query", "key_pages", "value_pages", "page_table", "context_lengths"]


def with_page(case: Case) -> bool:
    """Row 0 has tokens from its first page on: emptied, it is no padding row."""
    alone = case.inputs["query"].shape[0] == 1
    return alone or whole_row(case)


def whole_row(case: Case) -> bool:
    """Row 0 has a token and no window: its first page is in use."""
    window = case.attributes.get("local_window_size", -1)
    return bool(case.inputs["context_lengths"].data[0] > 0 and window <= 0)


def unpadded(case: Case) -> bool:
    """One channel more is not by chance within the rows of int8 pages, which are padded."""
    return case.inputs["key_pages"].shape[3] == case.inputs["query"].shape[2]


DECODE = [
    *COMMON,
    *[drop(name) for name in DECODE_REQUIRED],
    *structural([*DECODE_REQUIRED, "head_sink", "key_scales", "value_scales"]),
    *[drop(name) for name in ("key_scales", "value_scales")],
    *[widen(name, axis) for name in ("key_scales", "value_scales") for axis in (0, 1, 2)],
    without_attribute("scale"),
    attribute("scale", 0.0),
    attribute("scale", -1.0),
    attribute("partial_blocks", -1),
    attribute("partial_blocks", 1025),
    attribute("context_bound", -1),
    widen("query", 2, unpadded),
    widen("key_pages", 1),
    widen("value_pages", 3),
    widen("page_table", 0),
    widen("context_lengths", 0),
    widen("head_sink", 0),
    entry("context_lengths", 0, -1),
    entry("context_lengths", 0, 2**31 - 1),
    entry("context_lengths", 0, 0, when=with_page),
    entry("page_table", (0, 0), -1, when=whole_row),
    entry("page_table", (0, 0), 2**31 - 1, when=whole_row),
]

MERGE_INPUTS = ["output_a", "softmax_lse_a", "output_b", "softmax_lse_b"]
MERGE = [
    *COMMON,
    *[drop(name) for name in MERGE_INPUTS],
    *structural(MERGE_INPUTS),
    *[widen(name, axis) for name in MERGE_INPUTS for axis in (0, 1)],
    widen("output_b", 2),
]


def uses(part: str) -> Callable[[Case], bool]:
    return lambda case: part in str(case.attributes["update_rule"])


def required_gate(name: str, part: str) -> Mutation:
    mutation = drop(name)
    mutation.when = uses(part)
    return mutation


def decay_of_no_width(case: Case) -> bool:
    """One column more is not by chance the width of a decay per key channel."""
    head_size = case.inputs["query"].shape[2] // int(case.attributes["q_num_heads"])
    per_channel = int(case.attributes["kv_num_heads"]) * head_size
    return case.inputs["decay"].shape[2] + 1 != per_channel


LINEAR_SHARED = [
    *COMMON,
    *[drop(name) for name in ("query", "key", "value")],
    required_gate("decay", "gated"),
    required_gate("beta", "delta"),
    *structural(["query", "key", "value", "past_state", "decay", "beta"]),
    without_attribute("q_num_heads"),
    without_attribute("kv_num_heads"),
    attribute("q_num_heads", 0),
    attribute("kv_num_heads", -3),
    attribute("q_num_heads", 2**31),
    attribute("update_rule", "Gated"),
    attribute("update_rule", 3),
    *[widen(name, axis) for name in ("key", "value", "decay", "beta") for axis in (0, 1)],
    widen("past_state", -3),
    widen("past_state", -2),
    widen("past_state", -1),
    widen("past_state", 0),
    widen("value", 2, lambda c: int(c.attributes["kv_num_heads"]) > 1),
    widen("decay", 2, decay_of_no_width),
    widen("beta", 2, lambda c: int(c.attributes["kv_num_heads"]) > 2),
]


def pool_sequences(case: Case) -> int:
    return len(case.inputs["read_indices"].data)


def zero_width(name: str) -> Mutation:
    def apply(case: Case) -> None:
        case.inputs[name].data = case.inputs[name].data[:, :, :0]

    return Mutation(f"{name} of width 0", "BAD_SHAPE", apply, (name,))


LINEAR = [
    *LINEAR_SHARED,
    zero_width("query"),
    zero_width("key"),
    attribute("state_window", -1),
    attribute("state_window", 9),
    attribute("gate_activation", "silu"),
    attribute("beta_activation", "tanh"),
    attribute("qk_l2_norm", 2),
    attribute("qk_l2_norm_epsilon", -1.0),
    attribute("state_layout", "row_major"),
    attribute("head_mapping", "cyclic"),
    drop("state_pool"),
    drop("read_indices"),
    drop("write_indices"),
    drop("a_log"),
    drop("dt_bias"),
    *structural(["cu_seqlens", "state_pool", "read_indices", "write_indices", "a_log", "dt_bias"]),
    widen("read_indices", 0),
    widen("write_indices", 0),
    *[widen("state_pool", axis) for axis in (1, 2, 3)],
    widen("a_log", 0),
    widen("dt_bias", 0),
    entry("cu_seqlens", 0, 1),
    entry("cu_seqlens", -1, 2**31 - 1),
    entry("read_indices", 0, -2, when=lambda c: pool_sequences(c) > 0),
    entry("read_indices", 0, 10**6, when=lambda c: pool_sequences(c) > 0),
    entry("write_indices", 0, 10**6, when=lambda c: pool_sequences(c) > 0),
]


def unused_gate(name: str, part: str) -> Mutation:
    def apply(case: Case) -> None:
        query = case.inputs["query"]
        shape = (*query.shape[:2], int(case.attributes["kv_num_heads"]))
        case.inputs[name] = Tensor(query.dtype, np.zeros(shape, STORAGE[query.dtype]))

    unused = uses(part)
    return Mutation(f"unused {name}", "BAD_PRESENCE", apply, (), lambda case: not unused(case))


STRICT = [
    *LINEAR_SHARED,
    zero_width("query"),
    attribute("update_rule", ""),
    attribute("state_window", 2, "UNSUPPORTED"),
    extra_input("cu_seqlens"),
    unused_gate("decay", "gated"),
    unused_gate("beta", "delta"),
]

def width_zero(name: str) -> Mutation:
    def apply(case: Case) -> None:
        case.inputs[name].data = case.inputs[name].data[..., :0]

    return Mutation(f"{name} of width 0", "BAD_SHAPE", apply, (name,))


CONV_SHARED = [
    *COMMON,
    *[drop(name) for name in ("input", "weight")],
    *structural(["input", "weight", "bias", "past_state"]),
    attribute("activation", "SiLU"),
    attribute("activation", ""),
    attribute("activation", 1),
    *[widen("weight", axis) for axis in (0, 1)],
    width_zero("weight"),
    widen("bias", 0),
    *[widen("past_state", axis) for axis in (0, -2, -1)],
]
CONV = [
    *CONV_SHARED,
    attribute("ndim", 2, "UNSUPPORTED"),
    attribute("ndim", 0),
    attribute("dilation", 0),
    attribute("dilation", 2**31),
    attribute("channels_last", 2),
    attribute("state_window", -1),
    attribute("state_window", 9),
    *[drop(name) for name in ("state_pool", "read_indices", "write_indices")],
    *structural(["cu_seqlens", "state_pool", "read_indices", "write_indices"]),
    widen("read_indices", 0),
    widen("write_indices", 0),
    *[widen("state_pool", axis) for axis in (1, 2)],
    entry("cu_seqlens", 0, 1),
    entry("cu_seqlens", -1, 2**31 - 1),
    entry("read_indices", 0, -2, when=lambda c: pool_sequences(c) > 0),
    entry("read_indices", 0, 10**6, when=lambda c: pool_sequences(c) > 0),
    entry("write_indices", 0, 10**6, when=lambda c: pool_sequences(c) > 0),
]
CONV_STRICT = [
    *CONV_SHARED,
    attribute("ndim", 1, "UNSUPPORTED"),
    attribute("dilation", 1, "UNSUPPORTED"),
    attribute("channels_last", 1, "UNSUPPORTED"),
    attribute("state_window", 2, "UNSUPPORTED"),
    extra_input("cu_seqlens"),
]

def replayed(case: Case) -> int:
    return len(case.inputs["accepted"].data)


REPLAY_REQUIRED = ["log_key", "log_value", "accepted"]
REPLAY = [
    *COMMON,
    *[drop(name) for name in REPLAY_REQUIRED],
    *structural([*REPLAY_REQUIRED, "log_decay", "past_state", "cu_seqlens", "state_pool"]),
    *structural(["read_indices", "write_indices"]),
    *[drop(name) for name in ("state_pool", "read_indices", "write_indices")],
    without_attribute("kv_num_heads"),
    attribute("kv_num_heads", 0),
    attribute("key_num_heads", -1),
    attribute("state_layout", "row_major"),
    attribute("head_mapping", "cyclic"),
    width_zero("log_key"),
    *[widen(name, axis) for name in ("log_value", "log_decay") for axis in (0, 1)],
    widen("log_value", 2, lambda c: int(c.attributes["kv_num_heads"]) > 1),
    widen("log_decay", 2),
    widen("accepted", 0),
    *[widen("past_state", axis) for axis in (0, 1, 2, 3)],
    *[widen("state_pool", axis) for axis in (1, 2, 3)],
    widen("read_indices", 0),
    widen("write_indices", 0),
    entry("accepted", 0, -1, when=lambda c: replayed(c) > 0),
    entry("accepted", -1, 10**6, when=lambda c: replayed(c) > 0),
    entry("cu_seqlens", 0, 1),
    entry("cu_seqlens", -1, 2**31 - 1),
    entry("read_indices", 0, -2, when=lambda c: pool_sequences(c) > 0),
    entry("write_indices", 0, 10**6, when=lambda c: pool_sequences(c) > 0),
]

TABLES: dict[str, list[Mutation]] = {
    "com.microsoft.PagedAttention": PAGED,
    "com.microsoft.LinearAttention": LINEAR,
    "ai.onnx.LinearAttention": STRICT,
    "com.microsoft.CausalConvWithState": CONV,
    "ai.onnx.CausalConvWithState": CONV_STRICT,
    "quire.LinearAttentionReplay": REPLAY,
    "quire.PagedDecode": DECODE,
    "quire.MergeAttentionStates": MERGE,
}


def illegal_cases(legal: list[Case], per_mutation: int) -> list[Case]:
    """Every mutation of the operator's table, applied to some of the cases that it fits."""
    out: list[Case] = []
    for number, mutation in enumerate(TABLES[legal[0].op]):
        start = number * per_mutation % len(legal)
        turned = legal[start:] + legal[:start]
        fitting = [case for case in turned if mutation.fits(case)][:per_mutation]
        assert fitting, f"no case for: {mutation.name}"
        for case in copy.deepcopy(fitting):
            case.expect, case.tolerance, case.outputs = {}, {}, None
            mutation.apply(case)
            case.error, case.note = mutation.status, mutation.name
            out.append(case)
    return out
