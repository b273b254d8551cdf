"""Every case file of the operators that the runtime has, as a model of one node."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.case_file import Case, read_case
from oracle.compare import difference
from oracle.tensors import Tensor
from ort_models import OPERATORS, case_model
from ort_sessions import VERSION, make_session, run

CASES = Path(__file__).resolve().parents[1] / "data/cases"
FOLDERS = ["paged_attention", "linear_attention", "causal_conv"]
PATHS = [p for f in FOLDERS for p in sorted((CASES / f).glob("*.safetensors"))]


def why_not(case: Case) -> str | None:
    """What the runtime's own schemas cannot say. None: the case must work."""
    if case.op not in OPERATORS:
        return "the runtime has no such operator"
    _, inputs, outputs = OPERATORS[case.op]
    if not set(case.inputs) <= set(inputs) or not set(wanted(case)) <= set(outputs):
        return "an extension of Quire"
    if any(case.attributes.get(name) for name in ("gate_activation", "beta_activation")):
        return "an extension of Quire"
    if {"qk_l2_norm", "state_layout", "head_mapping", "precision"} & set(case.attributes):
        return "an extension of Quire"
    if case.op == "com.microsoft.PagedAttention":
        return why_not_paged(case)
    if VERSION < (1, 26):
        return "no such operator before 1.26"
    if VERSION < (1, 29) and "state_window" in case.attributes:
        return "no windows before 1.29"
    if VERSION < (1, 32) and {"dilation", "channels_last"} & set(case.attributes):
        return "attributes of 1.32"
    return None


def why_not_paged(case: Case) -> str | None:
    if case.inputs["query"].dtype == "F32":
        return "the schema has float16 and bfloat16"
    if "PER_TOKEN" in case.attributes.values():
        return "an extension of Quire"
    if VERSION < (1, 29):
        if not set(case.inputs) <= set(OPERATORS[case.op][1][:10]):
            return "inputs of 1.29"
        if {"is_causal", "k_quant_type", "v_quant_type"} & set(case.attributes):
            return "attributes of 1.29"
    if VERSION < (1, 32) and "is_causal" in case.attributes:
        return "attribute of 1.32"
    return None


def wanted(case: Case) -> dict[str, str]:
    """Outputs to ask for, with their types."""
    if case.expect:
        return {name: tensor.dtype for name, tensor in case.expect.items()}
    dtype = case.inputs["query" if "query" in case.inputs else "input"].dtype
    if case.op == "com.microsoft.PagedAttention":
        cache = case.inputs["key_cache"].dtype
        return {"output": dtype, "key_cache_out": cache, "value_cache_out": cache}
    return {"output": dtype, "present_state": dtype}


def as_float16(case: Case) -> Case:
    """The runtime has float32 kernels of its own: in float16 a node is ours, refused or not."""
    inputs = {
        name: Tensor.rounded(tensor.value, "F16") if tensor.dtype == "F32" else tensor
        for name, tensor in case.inputs.items()
    }
    return Case(case.op, case.attributes, inputs, error=case.error)


# The runtime's own checks come first, and its message is all that can be seen.
RUNTIME_REFUSES = {
    "paged_attention/bad_key_without_value",
    "causal_conv/bad_ndim_2",
    "causal_conv/bad_activation",
    "linear_attention/bad_past_rank_4_window_1",
    "linear_attention/bad_heads_3_2",
    "linear_attention/bad_key_width_zero",
}


@pytest.mark.parametrize("symbolic", [True, False], ids=["symbolic", "static"])
@pytest.mark.parametrize("path", PATHS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path: Path, symbolic: bool) -> None:
    case = read_case(path)
    reason = why_not(case)
    if reason is not None:
        pytest.skip(reason)
    if case.error is not None:
        check_refused(as_float16(case), f"{path.parent.name}/{path.stem}", symbolic)
        return
    session = make_session(case_model(case, wanted(case), symbolic), alone=True)
    before = {name: tensor.copy() for name, tensor in case.inputs.items()}
    got = run(session, case.inputs)
    assert set(got) == set(case.expect)
    for name, want in case.expect.items():
        limit = case.tolerance.get(name, {"atol": 0.0, "rtol": 0.0})
        message = difference(got[name], want, limit["atol"], limit["rtol"])
        assert message is None, f"{name}{message}"
    for name, tensor in case.inputs.items():
        assert tensor.data.tobytes() == before[name].data.tobytes(), f"{name} was changed"


def check_refused(case: Case, name: str, symbolic: bool) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(make_session(case_model(case, wanted(case), symbolic), alone=True), case.inputs)
    message = str(caught.value)
    ours = f'{case.op.rsplit(".", 1)[1]} node "the_node": '
    assert ours in message or (
        name in RUNTIME_REFUSES and "ShapeInferenceError" in message
    ), message


def test_enough_cases_are_run() -> None:
    """A mistake in why_not() would skip them all."""
    counts = {folder: 0 for folder in FOLDERS}
    for path in PATHS:
        counts[path.parent.name] += why_not(read_case(path)) is None
    least = {"paged_attention": 25, "linear_attention": 0, "causal_conv": 0}
    if VERSION >= (1, 29):
        least = {"paged_attention": 30, "linear_attention": 26, "causal_conv": 10}
    assert all(counts[folder] >= least[folder] for folder in FOLDERS), counts
