"""The node tests of the standard operators in the `onnx` package, placed on our provider."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.backend.test.case.node import (
    causal_conv_with_state,  # noqa: F401  importing collects the module's tests
    collect_testcases,
    linear_attention,  # noqa: F401
)
from onnx.backend.test.case.test_case import TestCase as NodeCase

from oracle.tensors import Tensor
from ort_sessions import PROVIDER, VERSION, make_session, placement, run

# Operator -> how many tests there are.
OPERATORS = {"LinearAttention": 14, "CausalConvWithState": 13}
PREFIXES = ("test_linear_attention_", "test_causal_conv_with_state_")
DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
CASES = [
    case
    for case in collect_testcases("no other operator")
    if case.name.startswith(PREFIXES) and not case.name.endswith("_expanded")
]


def tensor_of(array: np.ndarray) -> Tensor:
    dtype = DTYPES[str(array.dtype)]
    return Tensor(dtype, array.view(np.uint16) if dtype == "BF16" else np.ascontiguousarray(array))


def test_all_are_found() -> None:
    for operator, count in OPERATORS.items():
        found = [c for c in CASES if c.model.graph.node[0].op_type == operator]
        assert len(found) == count, operator


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_node(case: NodeCase) -> None:
    if VERSION < (1, 29):
        pytest.skip("no opset 27 before 1.29")
    model = case.model
    model.ir_version = 10
    session = make_session(model.SerializeToString(), alone=True)
    if hasattr(session, "get_provider_graph_assignment_info"):
        assert placement(session) == {PROVIDER: [model.graph.node[0].op_type]}
    names = [i.name for i in model.graph.input]
    for inputs, outputs in case.data_sets:
        got = run(session, {n: tensor_of(a) for n, a in zip(names, inputs)})
        for (name, result), array in zip(got.items(), outputs):
            want = tensor_of(array)
            assert result.dtype == want.dtype and result.shape == want.shape
            np.testing.assert_allclose(
                result.value, want.value, rtol=case.rtol, atol=1e-7, err_msg=name
            )
