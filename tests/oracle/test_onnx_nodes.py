"""The node tests of the standard operators in the `onnx` package, through the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.backend.test.case.node import (
    causal_conv_with_state,  # noqa: F401  importing collects the module's tests
    collect_testcases,
    linear_attention,  # noqa: F401
)
from onnx.backend.test.case.test_case import TestCase as NodeCase
from onnx.helper import get_attribute_value

from oracle.case_file import Case
from oracle.command_line import check, write_folder
from oracle.tensors import Tensor

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
# Operator -> prefix of its tests, inputs, how many tests there are.
OPERATORS = {
    "LinearAttention": (
        "test_linear_attention_",
        ["query", "key", "value", "past_state", "decay", "beta"],
        14,
    ),
    "CausalConvWithState": (
        "test_causal_conv_with_state_",
        ["input", "weight", "bias", "past_state"],
        13,
    ),
}


def node_cases(operator: str) -> list[NodeCase]:
    prefix = OPERATORS[operator][0]
    cases = [c for c in collect_testcases("no other operator") if c.name.startswith(prefix)]
    return [c for c in cases if not c.name.endswith("_expanded")]


def tensor_of(array: np.ndarray) -> Tensor:
    dtype = DTYPES[str(array.dtype)]
    return Tensor(dtype, array.view(np.uint16) if dtype == "BF16" else np.asarray(array))


def case_of(node_case: NodeCase) -> Case:
    (node,) = node_case.model.graph.node
    case = Case(f"ai.onnx.{node.op_type}", note=node_case.name)
    for attribute in node.attribute:
        value = get_attribute_value(attribute)
        case.attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
    inputs, outputs = node_case.data_sets[0]
    names = OPERATORS[node.op_type][1]
    given = [name for name, used in zip(names, node.input) if used]
    case.inputs = {name: tensor_of(array) for name, array in zip(given, inputs)}
    for name, array in zip(["output", "present_state"], outputs):
        case.expect[name] = tensor_of(array)
        case.tolerance[name] = {"atol": 1e-7, "rtol": node_case.rtol}
        case.output_dtypes[name] = case.expect[name].dtype
    return case


@pytest.mark.parametrize("operator", OPERATORS)
def test_all_are_found(operator: str) -> None:
    assert len(node_cases(operator)) == OPERATORS[operator][2]


@pytest.mark.parametrize(
    "node_case", [c for operator in OPERATORS for c in node_cases(operator)], ids=lambda c: c.name
)
def test_node(node_case: NodeCase, tmp_path: Path) -> None:
    assert node_case.rtol == 1e-3
    write_folder(tmp_path, [case_of(node_case)])
    result = check(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
