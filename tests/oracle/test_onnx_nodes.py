"""The node tests of the standard operator in the `onnx` package, through the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase as NodeCase
from onnx.helper import get_attribute_value

from oracle.case_file import Case
from oracle.command_line import check, write_folder
from oracle.tensors import Tensor

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
PREFIX = "test_linear_attention_"


def node_cases() -> list[NodeCase]:
    cases = [c for c in collect_testcases("LinearAttention") if c.name.startswith(PREFIX)]
    return [c for c in cases if not c.name.endswith("_expanded")]


def tensor_of(array: np.ndarray) -> Tensor:
    dtype = DTYPES[str(array.dtype)]
    return Tensor(dtype, array.view(np.uint16) if dtype == "BF16" else np.asarray(array))


def case_of(node_case: NodeCase) -> Case:
    (node,) = node_case.model.graph.node
    case = Case("ai.onnx.LinearAttention", note=node_case.name)
    for attribute in node.attribute:
        value = get_attribute_value(attribute)
        case.attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
    inputs, outputs = node_case.data_sets[0]
    names = ["query", "key", "value", "past_state", "decay", "beta"]
    given = [name for name, used in zip(names, node.input) if used]
    case.inputs = {name: tensor_of(array) for name, array in zip(given, inputs)}
    for name, array in zip(["output", "present_state"], outputs):
        case.expect[name] = tensor_of(array)
        case.tolerance[name] = {"atol": 1e-7, "rtol": node_case.rtol}
        case.output_dtypes[name] = case.expect[name].dtype
    return case


def test_all_are_found() -> None:
    assert len(node_cases()) == 14


@pytest.mark.parametrize("node_case", node_cases(), ids=lambda c: c.name)
def test_node(node_case: NodeCase, tmp_path: Path) -> None:
    assert node_case.rtol == 1e-3
    write_folder(tmp_path, [case_of(node_case)])
    result = check(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
