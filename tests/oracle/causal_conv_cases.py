"""Random legal calls of CausalConvWithState, contrib and standard."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from oracle.case_file import Case
from oracle.causal_conv import Convolution
from oracle.generate import dtypes, expect, largest, normal, seeds
from oracle.linear_cases import past, pool, ragged
from oracle.paged_cases import Draw

CHANNELS = [0, 1, 2, 3, 8, 15, 16, 17, 33, 70]
TAPS = [1, 2, 3, 4, 4, 4, 5, 7, 40]
TOKENS = [0, 1, 1, 2, 3, 7, 16, 18, 33, 70]


def finish(case: Case) -> Case:
    """Expected outputs; states are copied inputs and have their very bits."""
    call = Convolution(case)
    values = [largest(call.input), 1.0]
    values += [largest(case.inputs[name].value) for name in case.inputs if "state" in name]
    weights = call.taps * largest(call.weight)
    state = "state_pool_out" if call.pooled else "present_state"
    return expect(case, {"output": max(1.0, max(values) * weights), state: 0}, 2e-6)


@st.composite
def legal(draw: Draw, strict: bool = False) -> Case:
    rng = np.random.default_rng(draw(seeds))
    dtype = str(draw(dtypes))
    channels, taps, tokens = (int(draw(st.sampled_from(s))) for s in (CHANNELS, TAPS, TOKENS))
    case = Case("ai.onnx.CausalConvWithState" if strict else "com.microsoft.CausalConvWithState")
    case.note = "random legal call"
    if draw(st.integers(0, 3)) > 0:
        case.attributes["activation"] = draw(st.sampled_from(["none", "silu", "silu", "swish"]))
    varlen = not strict and draw(st.integers(0, 2)) == 0
    last = not strict and draw(st.booleans())
    batch = 1 if varlen else int(draw(st.integers(0, 3)))
    dilation = int(draw(st.sampled_from([1, 1, 1, 2, 3]))) if not strict else 1
    if last:
        case.attributes["channels_last"] = 1
    if dilation > 1 or draw(st.integers(0, 5)) == 0 and not strict:
        case.attributes["dilation"] = dilation
    case.inputs = {
        "input": normal(rng, (batch, tokens, channels) if last else (batch, channels, tokens), dtype),
        "weight": normal(rng, (channels, 1, taps), dtype, 0.5),
    }
    if draw(st.booleans()):
        case.inputs["bias"] = normal(rng, (channels,), dtype)
    length = (taps - 1) * dilation
    matrix = (length, channels) if last else (channels, length)
    if strict:
        past(draw, rng, case, batch, matrix, dtype, 0)
        case.output_dtypes = {}
        return finish(case)
    window = int(draw(st.integers(0, 8))) if tokens > 0 or varlen else 0
    window = window if draw(st.booleans()) else 0
    if window > 0:
        case.attributes["state_window"] = window
    sequences = ragged(draw, rng, case, tokens) if varlen else batch
    states = pool if draw(st.integers(0, 2)) == 0 else past
    states(draw, rng, case, sequences, matrix, dtype, window)
    return finish(case)
