"""One-node models and small graphs, by the names and positions of the operators."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from oracle.case_file import Case
from oracle.tensors import Tensor

ONNX_TYPES = {
    "F32": TensorProto.FLOAT,
    "F16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "I32": TensorProto.INT32,
    "I8": TensorProto.INT8,
    "I64": TensorProto.INT64,
    "F64": TensorProto.DOUBLE,
}

PAGED_INPUTS = [
    "query",
    "key",
    "value",
    "key_cache",
    "value_cache",
    "cumulative_sequence_length",
    "past_seqlens",
    "block_table",
    "cos_cache",
    "sin_cache",
    "slot_mapping",
    "head_sink",
    "q_norm_weight",
    "k_norm_weight",
    "k_scale",
    "v_scale",
    "attention_metadata",
]
LINEAR_INPUTS = ["query", "key", "value", "past_state", "decay", "beta"]
CONV_INPUTS = ["input", "weight", "bias", "past_state"]

# Operator -> domain, inputs by position, outputs by position.
OPERATORS: dict[str, tuple[str, list[str], list[str]]] = {
    "com.microsoft.PagedAttention": (
        "com.microsoft",
        PAGED_INPUTS,
        ["output", "key_cache_out", "value_cache_out"],
    ),
    "com.microsoft.LinearAttention": ("com.microsoft", LINEAR_INPUTS, ["output", "present_state"]),
    "ai.onnx.LinearAttention": ("", LINEAR_INPUTS, ["output", "present_state"]),
    "com.microsoft.CausalConvWithState": (
        "com.microsoft",
        CONV_INPUTS,
        ["output", "present_state"],
    ),
    "ai.onnx.CausalConvWithState": ("", CONV_INPUTS, ["output", "present_state"]),
}


def trimmed(names: list[str]) -> list[str]:
    while names and not names[-1]:
        names = names[:-1]
    return names


def node_of(
    op: str,
    attributes: dict[str, Any],
    inputs: dict[str, str],
    outputs: dict[str, str],
    name: str = "the_node",
) -> onnx.NodeProto:
    """`inputs` and `outputs` map the operator's names to values of the graph."""
    domain, input_names, output_names = OPERATORS[op]
    assert set(inputs) <= set(input_names), set(inputs) - set(input_names)
    return helper.make_node(
        op.rsplit(".", 1)[1],
        trimmed([inputs.get(n, "") for n in input_names]),
        trimmed([outputs.get(n, "") for n in output_names]),
        name=name,
        domain=domain,
        **attributes,
    )


def value(name: str, dtype: str, shape: list[Any] | tuple[Any, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, ONNX_TYPES[dtype], list(shape))


def symbols(name: str, tensor: Tensor, packed: bool) -> list[str | int]:
    """Nothing is known about the sizes, but what the runtime itself insists on."""
    sizes: list[str | int] = [f"{name}_{i}" for i in range(len(tensor.shape))]
    if packed and name == "query":
        sizes[1] = tensor.shape[1]
    return sizes


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: list[onnx.TensorProto] | None = None,
    opset: int = 21,
) -> bytes:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializer=initializers or [])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10  # every runtime in question reads it
    return model.SerializeToString()


def opset_of(op: str) -> int:
    return 27 if op.startswith("ai.onnx.") else 21


def case_model(case: Case, outputs: dict[str, str], symbolic: bool = True) -> bytes:
    """The call of a case file as a model of one node. `outputs`: name -> element type."""
    node = node_of(
        case.op, case.attributes, {n: n for n in case.inputs}, {n: n for n in outputs}
    )
    packed = "key" not in case.inputs
    given = [
        value(n, t.dtype, symbols(n, t, packed) if symbolic else t.shape)
        for n, t in case.inputs.items()
    ]
    made = [helper.make_tensor_value_info(n, ONNX_TYPES[d], None) for n, d in outputs.items()]
    return model_of([node], given, made, opset=opset_of(case.op))
