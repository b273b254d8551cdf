"""Random legal calls of LinearAttention, contrib and standard."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from oracle.case_file import Case
from oracle.generate import dtypes, expect, largest, normal, seeds, uniform
from oracle.linear_attention import Linear, compute
from oracle.paged_cases import Draw
from oracle.tensors import Tensor

# Hq, Hkv, Hk
HEADS = [(1, 1, 1), (2, 2, 2), (4, 2, 1), (6, 3, 3), (2, 8, 4), (1, 4, 2), (3, 1, 1), (2, 4, 1)]
STRICT_HEADS = [(1, 1, 1), (2, 2, 2), (4, 2, 2), (6, 3, 3), (3, 1, 1)]
RULES = ["linear", "gated", "delta", "gated_delta"]
SIZES = [1, 2, 3, 5, 8, 16, 33]


def token_inputs(draw: Draw, rng: np.random.Generator, case: Case, dtype: str, key_heads: int,
                 batch: int, tokens: int, dk: int, dv: int, strict: bool) -> None:
    heads, q_heads = case.attributes["kv_num_heads"], case.attributes["q_num_heads"]
    rule = str(case.attributes["update_rule"])
    key = rng.standard_normal((batch, tokens, key_heads, dk))
    key /= np.sqrt((key**2).sum(axis=3, keepdims=True))
    case.inputs = {
        "query": normal(rng, (batch, tokens, q_heads * dk), dtype),
        "key": Tensor.rounded(key.reshape(batch, tokens, key_heads * dk), dtype),
        "value": normal(rng, (batch, tokens, heads * dv), dtype),
    }
    extra = not strict and draw(st.integers(0, 3)) == 0  # LA-E9: ignored
    if "gated" in rule or extra:
        width = heads * (dk if draw(st.booleans()) else 1)
        decay = uniform(rng, (batch, tokens, width), dtype, -2, 0)
        decay.data[rng.random(decay.shape) < 0.05] = 0
        minus_infinity = Tensor.rounded(np.array(-np.inf), dtype).data
        if draw(st.integers(0, 5)) == 0:
            decay.data[rng.random(decay.shape) < 0.1] = minus_infinity
        case.inputs["decay"] = decay
    if "delta" in rule or extra:
        width = 1 if draw(st.booleans()) else heads
        case.inputs["beta"] = uniform(rng, (batch, tokens, width), dtype, 0, 1)


def gates(draw: Draw, rng: np.random.Generator, case: Case, dk: int) -> None:
    """X5."""
    heads, rule = int(case.attributes["kv_num_heads"]), str(case.attributes["update_rule"])
    if "gated" in rule and draw(st.integers(0, 2)) == 0:
        case.attributes["gate_activation"] = "qwen"
        width = heads * (dk if draw(st.booleans()) else 1)
        case.inputs["a_log"] = uniform(rng, (heads,), "F32", -1, 1)
        case.inputs["dt_bias"] = uniform(rng, (width,), "F32", -1, 1)
    if draw(st.integers(0, 2)) == 0:
        case.attributes["beta_activation"] = draw(st.sampled_from(["sigmoid", "twice_sigmoid"]))
    if draw(st.integers(0, 2)) == 0:
        case.attributes["qk_l2_norm"] = 1
        if draw(st.booleans()):
            case.attributes["qk_l2_norm_epsilon"] = draw(st.sampled_from([1e-5, dk * 1e-6, 0.01]))


def ragged(draw: Draw, rng: np.random.Generator, case: Case, tokens: int) -> int:
    """X3; returns the number of sequences."""
    count = int(draw(st.integers(1, 4)))
    cuts = np.sort(rng.integers(0, tokens + 1, count - 1))
    case.inputs["cu_seqlens"] = Tensor.integers([0, *cuts, tokens])
    return count


def pool(draw: Draw, rng: np.random.Generator, case: Case, sequences: int, matrix: tuple[int, ...],
         dtype: str, window: int) -> None:
    """X4: every sequence reads a slot that it may also write; some begin or end nowhere."""
    width = max(1, window)
    slots = sequences * (width + 1) + 1
    order = rng.permutation(slots)
    writes = order[: sequences * width].reshape(sequences, width)
    reads = order[sequences * width : sequences * (width + 1)].copy()
    own = rng.random(sequences) < 0.4
    reads[own] = writes[own, -1]
    reads[rng.random(sequences) < 0.2] = -1
    writes[rng.random(writes.shape) < 0.15] = -1
    case.inputs["state_pool"] = normal(rng, (slots, *matrix), dtype)
    case.inputs["read_indices"] = Tensor.integers(reads)
    case.inputs["write_indices"] = Tensor.integers(writes if window > 0 else writes[:, 0])


def past(draw: Draw, rng: np.random.Generator, case: Case, sequences: int, matrix: tuple[int, ...],
         dtype: str, window: int) -> None:
    if draw(st.integers(0, 3)) == 0:
        if draw(st.booleans()):
            case.output_dtypes = {"present_state": dtype}
        return
    shape = (window, sequences, *matrix) if window > 0 else (sequences, *matrix)
    state = normal(rng, shape, dtype)
    if window > 0:
        state.data[:-1] = Tensor.rounded(np.array(np.nan), dtype).data
    case.inputs["past_state"] = state


def finish(case: Case, logged: bool = False, stateless: bool = False) -> Case:
    """Expected outputs: the error is relative to the largest state that a read-out may cancel."""
    results = compute(case)
    states = largest(results.get("present_state", results["output"]).value)
    if "state_pool_out" in results:
        states = largest(results["state_pool_out"].value)
    if "past_state" in case.inputs:
        states = max(states, largest(case.inputs["past_state"].value))
    call = Linear(case)
    query = largest(call.heads_of("query", call.q_heads, call.dk))
    magnitude = {"output": max(1e-3, states * max(1.0, query), 1.0)}
    name = "state_pool_out" if call.pooled else "present_state"
    magnitude[name] = max(1e-3, states)
    if logged and call.dv > 0:  # X8; a call that logs need not give a state
        if stateless and not call.pooled:
            del magnitude[name]
        for log in ["log_key", "log_value", *(["log_decay"] if call.decays else [])]:
            magnitude[log] = max(1.0, states, largest(results[log].value))
    return expect(case, magnitude, 1e-5 if call.tokens >= 32 else 4e-6)


@st.composite
def legal(draw: Draw, strict: bool = False) -> Case:
    rng = np.random.default_rng(draw(seeds))
    dtype, state_dtype = str(draw(dtypes)), str(draw(dtypes))
    q_heads, heads, key_heads = draw(st.sampled_from(STRICT_HEADS if strict else HEADS))
    dk, dv = int(draw(st.sampled_from(SIZES))), int(draw(st.sampled_from([*SIZES, 0])))
    tokens = int(draw(st.sampled_from([0, 1, 1, 2, 3, 7, 16, 33])))
    case = Case("ai.onnx.LinearAttention" if strict else "com.microsoft.LinearAttention")
    case.note = "random legal call"
    case.attributes = {
        "q_num_heads": q_heads,
        "kv_num_heads": heads,
        "update_rule": draw(st.sampled_from(RULES)),
    }
    if draw(st.booleans()):
        case.attributes["scale"] = draw(st.sampled_from([0.0, -0.0, 0.5, -2.0]))
    if draw(st.booleans()):
        case.attributes["chunk_size"] = draw(st.integers(-1, 128))
    varlen = not strict and draw(st.integers(0, 2)) == 0
    batch = 1 if varlen else int(draw(st.integers(0, 3)))
    token_inputs(draw, rng, case, dtype, key_heads, batch, tokens, dk, dv, strict)
    if strict:
        past(draw, rng, case, batch, (heads, dk, dv), state_dtype, 0)
        case.output_dtypes = {}
        return finish(case)
    window = int(draw(st.integers(0, 8))) if tokens > 0 or varlen else 0
    window = window if draw(st.booleans()) else 0
    if window > 0:
        case.attributes["state_window"] = window
    sequences = ragged(draw, rng, case, tokens) if varlen else batch
    gates(draw, rng, case, dk)
    matrix = (heads, dk, dv)
    if draw(st.integers(0, 2)) == 0:
        case.attributes["state_layout"] = "v_major"
        matrix = (heads, dv, dk)
    if draw(st.integers(0, 4)) == 0:
        case.attributes["head_mapping"] = "tiled"
    states = pool if draw(st.integers(0, 2)) == 0 else past
    states(draw, rng, case, sequences, matrix, state_dtype, window)
    return finish(case, draw(st.integers(0, 3)) == 0, bool(draw(st.booleans())))
