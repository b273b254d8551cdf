"""The operators by their qualified names."""

from __future__ import annotations

from collections.abc import Callable

from oracle import causal_conv, linear_attention, linear_replay, paged_attention, paged_decode
from oracle.case_file import Case
from oracle.tensors import Tensor

OPERATORS: dict[str, Callable[[Case], dict[str, Tensor]]] = {
    "com.microsoft.PagedAttention": paged_attention.compute,
    "com.microsoft.LinearAttention": linear_attention.compute,
    "ai.onnx.LinearAttention": linear_attention.compute,
    "com.microsoft.CausalConvWithState": causal_conv.compute,
    "ai.onnx.CausalConvWithState": causal_conv.compute,
    "quire.LinearAttentionReplay": linear_replay.compute,
    "quire.PagedDecode": paged_decode.compute,
    "quire.MergeAttentionStates": paged_decode.merge,
}


def compute(case: Case) -> dict[str, Tensor]:
    return OPERATORS[case.op](case)
