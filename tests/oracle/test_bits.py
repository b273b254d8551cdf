"""What may not change a bit of a result: threads, the company in a batch, where blocks lie, how
wide the table is. Every operator and element type, through the command line.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from oracle.case_file import Case
from oracle.command_line import run_case
from oracle.generate import normal, uniform
from oracle.tensors import FLOATS, Tensor

SEED = 20240611
THREADS = (1, 2, 3, 7)
Outputs = dict[str, Tensor]


def assert_same_bits(got: Outputs, want: Outputs, note: str) -> None:
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype, f"{note}: {name}"
        assert got[name].shape == tensor.shape, f"{note}: {name}"
        assert got[name].data.tobytes() == tensor.data.tobytes(), f"{note}: {name}"


# ---- calls ----


def paged_case(dtype: str, quantised: bool = False) -> Case:
    """Decodes, a short and a long prefill, an empty sequence; a table with spare columns."""
    rng = np.random.default_rng(SEED)
    new, past = [1, 20, 0, 5, 1], [700, 30, 9, 64, 3]
    blocks, block_size, heads, size = 64, 16, 2, 40
    case = Case("com.microsoft.PagedAttention", {"num_heads": 6, "kv_num_heads": heads})
    case.inputs = {
        "query": normal(rng, (sum(new), 6 * size), dtype),
        "key": normal(rng, (sum(new), heads * size), dtype),
        "value": normal(rng, (sum(new), heads * size), dtype),
        "key_cache": normal(rng, (blocks, block_size, heads, size), dtype),
        "value_cache": normal(rng, (blocks, block_size, heads, size), dtype),
        "cumulative_sequence_length": Tensor.integers(np.cumsum([0, *new])),
        "past_seqlens": Tensor.integers(past),
    }
    table = np.full((5, 46), -1)
    free = iter(rng.permutation(blocks))
    for b, total in enumerate(np.add(new, past)):
        for column in range(-(-total // block_size)):
            table[b, column] = next(free)
    case.inputs["block_table"] = Tensor.integers(table)
    if quantised:
        for side in ("key", "value"):
            data = rng.integers(-128, 128, (blocks, block_size, heads, size))
            case.inputs[f"{side}_cache"] = Tensor.integers(data, "I8")
            case.inputs[f"{side[0]}_scale"] = uniform(rng, (heads, 1, size), "F32", 0.01, 0.1)
            case.attributes[f"{side[0]}_quant_type"] = "PER_CHANNEL"
    case.outputs = ["output", "key_cache_out", "value_cache_out", "softmax_lse"]
    return case


def decode_case(dtype: str) -> Case:
    rng = np.random.default_rng(SEED)
    lengths = [1100, 1, 64, 513]
    heads, pages, page_size, size = 2, 120, 16, 64
    case = Case("quire.PagedDecode", {"scale": 0.125})
    table = np.full((4, 70), -1)
    free = iter(rng.permutation(pages))
    for b, length in enumerate(lengths):
        for column in range(-(-length // page_size)):
            table[b, column] = next(free)
    case.inputs = {
        "query": normal(rng, (4, 4, size), dtype),
        "key_pages": normal(rng, (heads, pages, page_size, size), dtype),
        "value_pages": normal(rng, (heads, pages, page_size, size), dtype),
        "page_table": Tensor.integers(table),
        "context_lengths": Tensor.integers(lengths),
    }
    case.outputs = ["output", "softmax_lse"]
    return case


def linear_case(dtype: str, op: str = "com.microsoft.LinearAttention") -> Case:
    rng = np.random.default_rng(SEED)
    batch, tokens, heads, dk, dv = 3, 21, 2, 24, 70
    case = Case(op, {"q_num_heads": 4, "kv_num_heads": heads, "update_rule": "gated_delta"})
    case.inputs = {
        "query": normal(rng, (batch, tokens, 4 * dk), dtype),
        "key": normal(rng, (batch, tokens, heads * dk), dtype, 0.2),
        "value": normal(rng, (batch, tokens, heads * dv), dtype),
        "past_state": normal(rng, (batch, heads, dk, dv), dtype),
        "decay": uniform(rng, (batch, tokens, heads * dk), dtype, -1, 0),
        "beta": uniform(rng, (batch, tokens, heads), dtype, 0, 1),
    }
    return case


def conv_case(dtype: str, op: str = "com.microsoft.CausalConvWithState") -> Case:
    rng = np.random.default_rng(SEED)
    batch, channels, tokens, taps = 3, 150, 37, 4
    case = Case(op, {"activation": "silu"})
    case.inputs = {
        "input": normal(rng, (batch, channels, tokens), dtype),
        "weight": normal(rng, (channels, 1, taps), dtype),
        "bias": normal(rng, (channels,), dtype),
        "past_state": normal(rng, (batch, channels, taps - 1), dtype),
    }
    return case


def channels_last(case: Case) -> Case:
    """The same call in the other layout."""
    turned = copy.deepcopy(case)
    turned.attributes["channels_last"] = 1
    for name in ("input", "past_state"):
        turned.inputs[name].data = np.ascontiguousarray(np.swapaxes(case.inputs[name].data, 1, 2))
    return turned


def merge_case(dtype: str) -> Case:
    rng = np.random.default_rng(SEED)
    case = Case("quire.MergeAttentionStates")
    for part in "ab":
        case.inputs[f"output_{part}"] = normal(rng, (37, 5, 40), dtype)
        case.inputs[f"softmax_lse_{part}"] = normal(rng, (37, 5), "F32", 3)
    return case


CALLS: dict[str, Callable[[str], Case]] = {
    "paged_attention": paged_case,
    "paged_attention_int8": lambda dtype: paged_case(dtype, quantised=True),
    "paged_decode": decode_case,
    "linear_attention": linear_case,
    "onnx_linear_attention": lambda dtype: linear_case(dtype, "ai.onnx.LinearAttention"),
    "causal_conv": conv_case,
    "causal_conv_last": lambda dtype: channels_last(conv_case(dtype)),
    "onnx_causal_conv": lambda dtype: conv_case(dtype, "ai.onnx.CausalConvWithState"),
    "merge_attention_states": merge_case,
}


# ---- one member of a batch alone ----


def rows_of(tensor: Tensor, first: int, last: int) -> Tensor:
    return Tensor(tensor.dtype, tensor.data[first:last])


def paged_alone(case: Case, b: int) -> tuple[Case, slice]:
    starts = case.inputs["cumulative_sequence_length"].data
    first, last = int(starts[b]), int(starts[b + 1])
    alone = copy.deepcopy(case)
    for name in ("query", "key", "value"):
        alone.inputs[name] = rows_of(case.inputs[name], first, last)
    for name in ("past_seqlens", "block_table"):
        alone.inputs[name] = rows_of(case.inputs[name], b, b + 1)
    alone.inputs["cumulative_sequence_length"] = Tensor.integers([0, last - first])
    return alone, slice(first, last)


def row_alone(names: list[str]) -> Callable[[Case, int], tuple[Case, slice]]:
    def alone_of(case: Case, b: int) -> tuple[Case, slice]:
        alone = copy.deepcopy(case)
        for name in names:
            alone.inputs[name] = rows_of(case.inputs[name], b, b + 1)
        return alone, slice(b, b + 1)

    return alone_of


DECODE_ROWS = ["query", "page_table", "context_lengths"]
LINEAR_ROWS = ["query", "key", "value", "past_state", "decay", "beta"]
CONV_ROWS = ["input", "past_state"]
MERGE_ROWS = ["output_a", "softmax_lse_a", "output_b", "softmax_lse_b"]
ALONE: dict[str, tuple[int, Callable[[Case, int], tuple[Case, slice]]]] = {
    "paged_attention": (5, paged_alone),
    "paged_attention_int8": (5, paged_alone),
    "paged_decode": (4, row_alone(DECODE_ROWS)),
    "linear_attention": (3, row_alone(LINEAR_ROWS)),
    "onnx_linear_attention": (3, row_alone(LINEAR_ROWS)),
    "causal_conv": (3, row_alone(CONV_ROWS)),
    "causal_conv_last": (3, row_alone(CONV_ROWS)),
    "onnx_causal_conv": (3, row_alone(CONV_ROWS)),
    "merge_attention_states": (4, row_alone(MERGE_ROWS)),
}


# ---- the tests ----

every_call = pytest.mark.parametrize("operator", CALLS)
every_dtype = pytest.mark.parametrize("dtype", FLOATS)


@every_call
@every_dtype
def test_threads(operator: str, dtype: str, tmp_path: Path) -> None:
    case = CALLS[operator](dtype)
    want = run_case(tmp_path, "threads", case, "--threads", THREADS[0])
    for threads in THREADS[1:]:
        got = run_case(tmp_path, "threads", case, "--threads", threads)
        assert_same_bits(got, want, f"{threads} threads")


@every_call
@every_dtype
def test_batch_composition(operator: str, dtype: str, tmp_path: Path) -> None:
    case = CALLS[operator](dtype)
    whole = run_case(tmp_path, "whole", case)
    members, alone_of = ALONE[operator]
    for b in range(members):
        alone, rows = alone_of(case, b)
        names = [name for name in whole if not name.endswith("cache_out")]
        want = {name: Tensor(whole[name].dtype, whole[name].data[rows]) for name in names}
        assert_same_bits(run_case(tmp_path, f"row_{b}", alone), want, f"row {b} alone")


def moved_blocks(case: Case, table: str, pools: dict[str, int], extra: int) -> tuple[Case, dict]:
    """The same contents in other physical blocks of a larger pool, and a wider table."""
    rng = np.random.default_rng(SEED + 1)
    moved = copy.deepcopy(case)
    places: dict = {}
    for name, axis in pools.items():
        data = case.inputs[name].data
        count = data.shape[axis]
        places = {"order": np.random.default_rng(SEED + 2).permutation(count + extra)[:count]}
        larger = np.zeros((*data.shape[:axis], count + extra, *data.shape[axis + 1 :]), data.dtype)
        np.moveaxis(larger, axis, 0)[places["order"]] = np.moveaxis(data, axis, 0)
        moved.inputs[name].data = larger
    entries = case.inputs[table].data
    live = entries >= 0
    new = rng.choice(np.array([-1, 10**6]), (entries.shape[0], entries.shape[1] + 9))
    new[:, : entries.shape[1]][live] = places["order"][entries[live]]
    moved.inputs[table] = Tensor.integers(new)
    return moved, places


@every_dtype
@pytest.mark.parametrize("quantised", [False, True])
def test_paged_attention_blocks(dtype: str, quantised: bool, tmp_path: Path) -> None:
    case = paged_case(dtype, quantised)
    want = run_case(tmp_path, "here", case)
    pools = {"key_cache": 0, "value_cache": 0}
    moved, places = moved_blocks(case, "block_table", pools, 7)
    got = run_case(tmp_path, "there", moved)
    for name in ("key_cache_out", "value_cache_out"):
        got[name].data = got[name].data[places["order"]]
    assert_same_bits(got, want, "moved blocks")


@every_dtype
def test_paged_decode_pages(dtype: str, tmp_path: Path) -> None:
    case = decode_case(dtype)
    want = run_case(tmp_path, "here", case)
    moved, _ = moved_blocks(case, "page_table", {"key_pages": 1, "value_pages": 1}, 7)
    assert_same_bits(run_case(tmp_path, "there", moved), want, "moved pages")


def narrower(case: Case, table: str) -> Case:
    entries = case.inputs[table].data
    used = int(np.nonzero((entries >= 0).any(axis=0))[0].max()) + 1
    narrow = copy.deepcopy(case)
    narrow.inputs[table] = Tensor("I32", np.ascontiguousarray(entries[:, :used]))
    return narrow


@every_dtype
@pytest.mark.parametrize(
    ("operator", "table"), [("paged_attention", "block_table"), ("paged_decode", "page_table")]
)
def test_table_width(operator: str, table: str, dtype: str, tmp_path: Path) -> None:
    case = CALLS[operator](dtype)
    wide = copy.deepcopy(case)
    entries = case.inputs[table].data
    wide.inputs[table] = Tensor.integers(np.pad(entries, ((0, 0), (0, 300)), constant_values=-1))
    want = run_case(tmp_path, "as_it_is", case)
    for name, other in (("narrow", narrower(case, table)), ("wide", wide)):
        assert_same_bits(run_case(tmp_path, name, other), want, name)


@every_dtype
def test_decode_equals_paged_attention_rows(dtype: str, tmp_path: Path) -> None:
    """NU-8: up to 8 new tokens in one call have the bits of one-token calls."""
    case = paged_case(dtype)
    case.inputs["cumulative_sequence_length"] = Tensor.integers([0, 8])
    case.inputs["past_seqlens"] = Tensor.integers([500])
    for name in ("query", "key", "value"):
        case.inputs[name] = rows_of(case.inputs[name], 0, 8)
    case.inputs["block_table"] = rows_of(case.inputs["block_table"], 0, 1)
    whole = run_case(tmp_path, "eight", case)
    step = copy.deepcopy(case)
    for token in range(8):
        for name in ("query", "key", "value"):
            step.inputs[name] = rows_of(case.inputs[name], token, token + 1)
        step.inputs["cumulative_sequence_length"] = Tensor.integers([0, 1])
        step.inputs["past_seqlens"] = Tensor.integers([500 + token])
        got = run_case(tmp_path, "one", step)
        for name in ("key_cache", "value_cache"):
            step.inputs[name] = got.pop(f"{name}_out")
        want = {
            name: rows_of(whole[name], token, token + 1) for name in ("output", "softmax_lse")
        }
        assert_same_bits(got, want, f"token {token}")


@every_dtype
@pytest.mark.parametrize("layout", ["k_major", "v_major"])
def test_linear_attention_cut(dtype: str, layout: str, tmp_path: Path) -> None:
    """NU-9: with an f32 state, a call may be cut anywhere."""
    case = linear_case(dtype)
    case.attributes["state_layout"] = layout
    state = normal(np.random.default_rng(SEED), case.inputs["past_state"].shape, "F32")
    if layout == "v_major":
        state.data = np.ascontiguousarray(state.data.transpose(0, 1, 3, 2))
    case.inputs["past_state"] = state
    whole = run_case(tmp_path, "whole", case)
    tokens = case.inputs["query"].shape[1]
    for cut in (1, 8, tokens - 1):
        past, outputs = state, []
        for first, last in ((0, cut), (cut, tokens)):
            part = copy.deepcopy(case)
            for name in ("query", "key", "value", "decay", "beta"):
                data = case.inputs[name].data[:, first:last]
                part.inputs[name].data = np.ascontiguousarray(data)
            part.inputs["past_state"] = past
            got = run_case(tmp_path, "part", part)
            past = got["present_state"]
            outputs.append(got["output"].data)
        joined = Tensor(whole["output"].dtype, np.concatenate(outputs, axis=1))
        assert_same_bits({"output": joined, "present_state": past}, whole, f"cut at {cut}")


@every_dtype
@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_conv_cut(dtype: str, dilation: int, tmp_path: Path) -> None:
    """NU-11: a call may be cut anywhere, in any element type, and in either layout."""
    case = conv_case(dtype)
    case.attributes["dilation"] = dilation
    past = np.tile(case.inputs["past_state"].data, (1, 1, dilation))
    case.inputs["past_state"] = Tensor(dtype, past)
    whole = run_case(tmp_path, "whole", case)
    tokens = case.inputs["input"].shape[2]
    for cut in (1, 2, 5, 20, tokens - 1):
        state, outputs = case.inputs["past_state"], []
        for first, last in ((0, cut), (cut, tokens)):
            part = copy.deepcopy(case)
            data = case.inputs["input"].data[:, :, first:last]
            part.inputs["input"].data = np.ascontiguousarray(data)
            part.inputs["past_state"] = state
            got = run_case(tmp_path, "part", channels_last(part) if cut % 2 else part)
            if cut % 2:
                for tensor in got.values():
                    tensor.data = np.ascontiguousarray(np.swapaxes(tensor.data, 1, 2))
            state = got["present_state"]
            outputs.append(got["output"].data)
        joined = Tensor(dtype, np.concatenate(outputs, axis=2))
        assert_same_bits({"output": joined, "present_state": state}, whole, f"cut at {cut}")


def replay_of(case: Case, log: Outputs, accepted: list[int]) -> Case:
    replay = Case("quire.LinearAttentionReplay")
    names = ("kv_num_heads", "state_layout", "head_mapping")
    replay.attributes = {n: case.attributes[n] for n in names if n in case.attributes}
    head_size = case.inputs["query"].shape[2] // int(case.attributes["q_num_heads"])
    replay.attributes["key_num_heads"] = case.inputs["key"].shape[2] // head_size
    replay.inputs = {name: log[name] for name in log if name.startswith("log_")}
    replay.inputs["accepted"] = Tensor.integers(accepted)
    return replay


RULES = ["linear", "gated", "delta", "gated_delta"]


def draft_case(dtype: str, state: str, rule: str, layout: str) -> Case:
    """Eight drafted tokens of three sequences; every rule with key heads of its own sharing."""
    rng = np.random.default_rng(SEED)
    batch, tokens, heads, dk, dv = 3, 8, 4, 24, 70
    per_head = rule in ("gated", "delta")
    key_heads = {"linear": 4, "gated": 1, "delta": 2, "gated_delta": 2}[rule]
    case = Case("com.microsoft.LinearAttention", {"q_num_heads": heads, "kv_num_heads": heads})
    case.attributes |= {"update_rule": rule, "state_layout": layout}
    if not per_head:
        case.attributes["qk_l2_norm"] = 1
    if rule == "delta":
        case.attributes["head_mapping"] = "tiled"
    matrix = (dk, dv) if layout == "k_major" else (dv, dk)
    case.inputs = {
        "query": normal(rng, (batch, tokens, heads * dk), dtype),
        "key": normal(rng, (batch, tokens, key_heads * dk), dtype, 0.2),
        "value": normal(rng, (batch, tokens, heads * dv), dtype),
        "past_state": normal(rng, (batch, heads, *matrix), state),
    }
    if "gated" in rule:
        width = heads if per_head else heads * dk
        case.inputs["decay"] = uniform(rng, (batch, tokens, width), dtype, -1, 0)
    if "delta" in rule:
        case.inputs["beta"] = uniform(rng, (batch, tokens, heads), dtype, 0, 1)
    return case


def decoded(folder: Path, case: Case, tokens: int) -> list[Tensor]:
    """The states before and after each of the first tokens, one call a token."""
    states = [case.inputs["past_state"]]
    step = copy.deepcopy(case)
    for token in range(tokens):
        for name, tensor in case.inputs.items():
            if name != "past_state":
                data = tensor.data[:, token : token + 1]
                step.inputs[name].data = np.ascontiguousarray(data)
        step.inputs["past_state"] = states[-1]
        states.append(run_case(folder, "step", step)["present_state"])
    return states


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("layout", ["k_major", "v_major"])
@pytest.mark.parametrize("isa", ["scalar", "best"])
def test_rollback_by_replay(rule: str, layout: str, isa: str, tmp_path: Path) -> None:
    """A replayed prefix is what decoding it one by one gives (f32), and what a window keeps."""
    options = ["--isa", "scalar"] if isa == "scalar" else []
    case = draft_case("F16", "F32", rule, layout)
    verify = copy.deepcopy(case)
    verify.outputs = ["output", "log_key", "log_value"]
    verify.outputs += ["log_decay"] if "gated" in rule else []
    log = run_case(tmp_path, "verify", verify, *options)
    whole = run_case(tmp_path, "whole", case)
    assert_same_bits({"output": log["output"]}, {"output": whole["output"]}, "with a log")
    states = decoded(tmp_path, case, 8)
    for accepted in ([0, 1, 8], [5, 3, 2], [8, 8, 8]):
        replay = replay_of(case, log, accepted)
        replay.inputs["past_state"] = case.inputs["past_state"]
        got = run_case(tmp_path, "replay", replay, *options)["present_state"]
        want = np.stack([states[n].data[b] for b, n in enumerate(accepted)])
        assert_same_bits({"s": got}, {"s": Tensor("F32", want)}, f"accepted {accepted}")


@every_dtype
@pytest.mark.parametrize("layout", ["k_major", "v_major"])
def test_replay_equals_window(dtype: str, layout: str, tmp_path: Path) -> None:
    """In every state type, through a pool and with ragged sequences."""
    case = draft_case("F32", dtype, "gated_delta", layout)
    lengths, accepted = [8, 3, 5], [6, 3, 1]
    for name in ("query", "key", "value", "decay", "beta"):
        rows = [case.inputs[name].data[b, :n] for b, n in enumerate(lengths)]
        case.inputs[name].data = np.concatenate(rows)[None]
    case.inputs["cu_seqlens"] = Tensor.integers(np.cumsum([0, *lengths]))
    past = case.inputs.pop("past_state")
    window = copy.deepcopy(case)
    window.attributes["state_window"] = 8
    window.inputs["past_state"] = Tensor(dtype, np.stack([past.data] * 8))
    slots = run_case(tmp_path, "window", window)["present_state"].data
    verify = copy.deepcopy(case)
    unused = normal(np.random.default_rng(SEED), past.shape[1:], dtype).data
    verify.inputs["state_pool"] = Tensor(dtype, np.stack([past.data[0], unused, *past.data[1:]]))
    verify.inputs["read_indices"] = Tensor.integers([0, 2, 3])
    verify.inputs["write_indices"] = Tensor.integers([-1, -1, -1])
    verify.outputs = ["output", "log_key", "log_value", "log_decay", "state_pool_out"]
    log = run_case(tmp_path, "verify", verify)
    pool = verify.inputs["state_pool"]
    assert_same_bits({"pool": log["state_pool_out"]}, {"pool": pool}, "verified only")
    replay = replay_of(case, log, accepted)
    for name in ("cu_seqlens", "state_pool", "read_indices"):
        replay.inputs[name] = verify.inputs[name]
    replay.inputs["write_indices"] = Tensor.integers([0, 1, 3])
    got = run_case(tmp_path, "replay", replay)["state_pool_out"]
    want = pool.data.copy()
    for n, slot in enumerate([0, 1, 3]):
        want[slot] = slots[8 - lengths[n] + accepted[n] - 1, n]
    assert_same_bits({"pool": got}, {"pool": Tensor(dtype, want)}, "replayed")
