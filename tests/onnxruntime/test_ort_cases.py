"""Every case file of the operators that the runtime has, as a model of one node."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.case_file import Case, read_case
from oracle.compare import difference
from ort_cases import as_float16, wanted, why_not
from ort_models import case_model
from ort_sessions import VERSION, make_session, run

CASES = Path(__file__).resolve().parents[1] / "data/cases"
FOLDERS = ["paged_attention", "linear_attention", "causal_conv"]
PATHS = [p for f in FOLDERS for p in sorted((CASES / f).glob("*.safetensors"))]


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
