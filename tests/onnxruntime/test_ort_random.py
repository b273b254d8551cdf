"""Random calls, legal and illegal, as models of one node: hypothesis draws them as for the command line.

The seed is printed; QUIRE_TEST_SEED sets it.
"""

from __future__ import annotations

import copy
import os
from functools import cache

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oracle import causal_conv_cases, linear_cases, paged_cases
from oracle.case_file import Case
from oracle.compare import difference
from oracle.mutations import TABLES
from ort_cases import as_float16, wanted, why_not
from ort_models import case_model
from ort_sessions import VERSION, make_session, run

SEED = int(os.environ.get("QUIRE_TEST_SEED", "20240611"))
DRAWS = 300



def contrib(case: Case) -> Case:
    """The standard operator's calls are legal for the contrib one too, and use no extension."""
    case.op = case.op.replace("ai.onnx.", "com.microsoft.")
    return case


LEGAL: dict[str, st.SearchStrategy[Case]] = {
    "paged_attention": paged_cases.legal(),
    "linear_attention": linear_cases.legal(strict=True).map(contrib),
    "onnx_linear_attention": linear_cases.legal(strict=True),
    "causal_conv": causal_conv_cases.legal(strict=True).map(contrib),
    "onnx_causal_conv": causal_conv_cases.legal(strict=True),
}


@cache
def draw_cases(operator: str) -> list[Case]:
    cases: list[Case] = []

    @hypothesis.seed(SEED)
    @settings(
        max_examples=DRAWS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(LEGAL[operator])
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    print(f"seed {SEED}")
    return cases


def may_run(case: Case) -> bool:
    """What case files expect of a call that its inputs do not decide is not the runtime's choice."""
    if why_not(case) is not None or not case.expect:
        return False
    state = case.expect.get("present_state")
    return state is None or "past_state" in case.inputs or state.dtype == wanted(case)["output"]


@pytest.mark.parametrize("operator", LEGAL)
def test_legal_calls(operator: str) -> None:
    cases = copy.deepcopy([case for case in draw_cases(operator) if may_run(case)])
    if not cases:
        pytest.skip("the runtime has none of them")
    # Before 1.29 most draws have an attribute or input that the schema lacks.
    assert len(cases) > (30 if VERSION >= (1, 29) else 3)
    problems = []
    for number, case in enumerate(cases):
        model = case_model(case, wanted(case), symbolic=number % 2 == 0)
        got = run(make_session(model, alone=True), case.inputs)
        for name, want in case.expect.items():
            limit = case.tolerance.get(name, {"atol": 0.0, "rtol": 0.0})
            message = difference(got[name], want, limit["atol"], limit["rtol"])
            if message is not None:
                problems.append(f"{number}: {name}{message}")
    assert not problems, f"{len(problems)} of {len(cases)}: {problems[:5]}"


def illegal_cases(legal: list[Case]) -> list[Case]:
    """Every fault that fits, applied to three of the calls; those of Quire's extensions never do."""
    out = []
    for mutation in TABLES[legal[0].op]:
        for case in copy.deepcopy([case for case in legal if mutation.fits(case)][:3]):
            case.expect = {}
            mutation.apply(case)
            case.error, case.note = mutation.status, mutation.name
            out.append(case)
    return out


@pytest.mark.parametrize("operator", LEGAL)
def test_illegal_calls(operator: str) -> None:
    """Refused when the session is made or when it runs, by us or by the runtime; never a crash."""
    legal = [case for case in draw_cases(operator) if may_run(case)]
    illegal = illegal_cases(legal) if legal else []
    cases = [as_float16(case) for case in illegal if why_not(case) is None]
    if not cases:
        pytest.skip("the runtime has none of them")
    accepted, ours = [], 0
    for number, case in enumerate(cases):
        try:
            run(make_session(case_model(case, wanted(case), number % 2 == 0), alone=True), case.inputs)
        except Exception as error:  # noqa: BLE001
            ours += f'{case.op.rsplit(".", 1)[1]} node "the_node": ' in str(error)
        else:
            accepted.append(case.note)
    assert not accepted, accepted
    print(f"{len(cases)} refused, {ours} by us")
    if not operator.startswith("onnx_"):  # those are left to the runtime, and the session refused
        assert ours > len(cases) // 4, (ours, len(cases))
