"""The case files through Python: by plans, and by the functions where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import REPOSITORY
from oracle.case_file import Case, read_case
from oracle.compare import difference
from oracle.tensors import Tensor

import quire
from quire.errors import BY_STATUS

CASES = sorted((REPOSITORY / "tests/data/cases").glob("*/*.safetensors"))
FUNCTIONS = {
    "com.microsoft.PagedAttention": quire.paged_attention,
    "com.microsoft.LinearAttention": quire.linear_attention,
    "com.microsoft.CausalConvWithState": quire.causal_conv,
    "quire.PagedDecode": quire.paged_decode,
    "quire.MergeAttentionStates": quire.merge_attention,
    "quire.LinearAttentionReplay": quire.linear_attention_replay,
}
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
          "I64": np.int64, "I32": np.int32, "I8": np.int8, "U8": np.uint8,
          "U32": np.uint32}  # fmt: skip
NAMES = {np.dtype(dtype).name: name for name, dtype in DTYPES.items()}


def to_array(tensor: Tensor) -> np.ndarray:
    """A copy of its own: in-place tensors are written."""
    array = np.ascontiguousarray(tensor.data).copy()
    return array.view(ml_dtypes.bfloat16) if tensor.dtype == "BF16" else array


def to_tensor(array: np.ndarray) -> Tensor:
    name = NAMES[array.dtype.name]
    return Tensor(name, array.view(np.uint16) if name == "BF16" else array)


def identity(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def expected_error(case: Case) -> type[quire.Error]:
    if case.error == "invalid_argument":
        return quire.InvalidArgument
    return BY_STATUS[case.error.upper()]


def check(case: Case, found: dict[str, Any]) -> None:
    assert set(case.expect) <= set(found)
    for name, want in case.expect.items():
        limits = case.tolerance.get(name, {})
        fault = difference(
            to_tensor(found[name]), want, limits.get("atol", 0), limits.get("rtol", 0)
        )
        assert fault is None, f"{name}{fault}"


@pytest.mark.parametrize("path", CASES, ids=identity)
def test_case_by_plan(path):
    case = read_case(path)
    operator = quire.Operator(case.op)
    inputs = {name: to_array(tensor) for name, tensor in case.inputs.items()}
    in_place = {
        slot.name: operator.slots[slot.alias].name for slot in operator.slots if slot.alias >= 0
    }

    def compute() -> dict[str, Any]:
        wanted = list(case.expect) or list(case.outputs or [])
        outputs = {name: None for name in wanted if name not in in_place}
        for name, want in case.expect.items():
            if name in outputs:
                outputs[name] = np.empty(want.shape, DTYPES[want.dtype])
        plan = quire.Plan(operator, inputs, case.attributes, outputs=outputs)
        given = {name: value for name, value in outputs.items() if value is not None}
        found = plan.run({**inputs, **given}, strict=False)
        return {**{out: inputs[name] for out, name in in_place.items() if name in inputs}, **found}

    if case.error:
        with pytest.raises(expected_error(case)):
            compute()
    else:
        check(case, compute())


@pytest.mark.parametrize("path", CASES, ids=identity)
def test_case_by_function(path):
    case = read_case(path)
    function = FUNCTIONS.get(case.op)
    if function is None:
        pytest.skip("no function of its own")
    inputs = {name: to_array(tensor) for name, tensor in case.inputs.items()}
    in_place = {"key_cache_out": "key_cache", "value_cache_out": "value_cache",
                "k_scale_cache_out": "k_scale_cache", "v_scale_cache_out": "v_scale_cache",
                "state_pool_out": "state_pool"}  # fmt: skip
    outputs = {
        name: np.empty(want.shape, DTYPES[want.dtype])
        for name, want in case.expect.items()
        if name not in in_place
    }
    arguments = {**inputs, **outputs, **case.attributes}
    import inspect

    parameters = inspect.signature(function).parameters
    if not set(arguments) <= set(parameters):
        pytest.skip("uses what the function does not have")
    missing = {
        name: None
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in arguments
    }
    if case.error:
        with pytest.raises((quire.InvalidArgument, expected_error(case))):
            function(**{**missing, **arguments})
        return
    try:
        function(**{**missing, **arguments})
    except quire.BadValue as fault:  # calls are strict, the files need not be
        assert fault.rule in ("PA-E9", "PA-E12"), fault
        pytest.skip(f"not strict: {fault}")
    check(case, {**{o: inputs[n] for o, n in in_place.items() if n in inputs}, **outputs})
