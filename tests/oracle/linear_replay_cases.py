"""Random legal calls of LinearAttentionReplay."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from oracle.case_file import Case
from oracle.generate import dtypes, expect, largest, normal, seeds, uniform
from oracle.linear_cases import past, pool, ragged
from oracle.linear_replay import Replay, compute
from oracle.paged_cases import Draw
from oracle.tensors import Tensor

# Hkv, Hk
HEADS = [(1, 1), (2, 2), (4, 2), (4, 1), (6, 3), (3, 1)]
SIZES = [1, 2, 3, 8, 16, 17, 33, 70]


def finish(case: Case) -> Case:
    call = Replay(case)
    name = "state_pool_out" if call.pooled else "present_state"
    values = [largest(case.inputs[n].value) for n in case.inputs if "state" in n]
    values += [largest(compute(case)[name].value), 1e-3]
    return expect(case, {name: max(values)}, 4e-6)


@st.composite
def legal(draw: Draw) -> Case:
    rng = np.random.default_rng(draw(seeds))
    dtype = str(draw(dtypes))
    heads, key_heads = draw(st.sampled_from(HEADS))
    dk, dv = int(draw(st.sampled_from(SIZES))), int(draw(st.sampled_from([*SIZES, 0])))
    tokens = int(draw(st.sampled_from([0, 1, 2, 3, 5, 9])))
    varlen = draw(st.integers(0, 2)) == 0
    batch = 1 if varlen else int(draw(st.integers(0, 3)))
    case = Case("quire.LinearAttentionReplay", {"kv_num_heads": heads}, note="random legal call")
    if key_heads != heads or draw(st.booleans()):
        case.attributes["key_num_heads"] = key_heads
    if draw(st.integers(0, 3)) == 0:
        case.attributes["head_mapping"] = "tiled"
    case.inputs = {
        "log_key": normal(rng, (batch, tokens, key_heads * dk), "F32", dk**-0.5),
        "log_value": normal(rng, (batch, tokens, heads * dv), "F32"),
    }
    if draw(st.integers(0, 3)) > 0:
        width = heads * (dk if draw(st.booleans()) else 1)
        decay = uniform(rng, (batch, tokens, width), "F32", 0.1, 1)
        decay.data[rng.random(decay.shape) < 0.05] = 0
        case.inputs["log_decay"] = decay
    sequences = ragged(draw, rng, case, tokens) if varlen else batch
    lengths = np.diff(case.inputs["cu_seqlens"].data) if varlen else np.full(batch, tokens)
    case.inputs["accepted"] = Tensor.integers(rng.integers(0, lengths + 1))
    matrix = (heads, dk, dv)
    if draw(st.booleans()):
        case.attributes["state_layout"] = "v_major"
        matrix = (heads, dv, dk)
    states = pool if draw(st.integers(0, 2)) == 0 else past
    states(draw, rng, case, sequences, matrix, dtype, 0)
    if "past_state" not in case.inputs and "state_pool" not in case.inputs:
        case.output_dtypes = {"present_state": dtype}
    return finish(case)
