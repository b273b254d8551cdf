"""Random requests of every operator through the command line, legal and illegal.

Requests are drawn first and checked in batches, so that a process is started once for 50 of them.
The seed is printed; QUIRE_TEST_SEED sets it. Files of a batch that fails stay where the message
says.
"""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import causal_conv_cases, decode_cases, linear_cases, linear_replay_cases, paged_cases
from oracle.case_file import Case
from oracle.command_line import check, write_folder
from oracle.mutations import illegal_cases

SEED = int(os.environ.get("QUIRE_TEST_SEED", "20240611"))
BATCH = 50

LEGAL: dict[str, st.SearchStrategy[Case]] = {
    "paged_attention": paged_cases.legal(),
    "linear_attention": linear_cases.legal(),
    "onnx_linear_attention": linear_cases.legal(strict=True),
    "linear_attention_replay": linear_replay_cases.legal(),
    "causal_conv": causal_conv_cases.legal(),
    "onnx_causal_conv": causal_conv_cases.legal(strict=True),
    "paged_decode": decode_cases.legal_decode(),
    "merge_attention_states": decode_cases.legal_merge(),
}


def draw_cases(strategy: st.SearchStrategy[Case], count: int) -> list[Case]:
    cases: list[Case] = []

    @hypothesis.seed(SEED)
    @settings(max_examples=count)
    @given(strategy)
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    return cases


def check_in_batches(folder: Path, cases: list[Case], *options: str) -> None:
    print(f"seed {SEED}, {len(cases)} cases")
    assert cases
    problems = []
    for first in range(0, len(cases), BATCH):
        batch = folder / f"batch_{first // BATCH}"
        write_folder(batch, cases[first : first + BATCH])
        result = check(batch, *options)
        if result.returncode != 0:
            lines = [line for line in result.stdout.splitlines() if not line.startswith("ok")]
            problems.append("\n".join([str(batch), *lines[:20], result.stderr[:2000]]))
    if problems:
        pytest.fail("\n".join(problems[:3]), pytrace=False)


@pytest.mark.parametrize("operator", LEGAL)
def test_legal_requests(operator: str, tmp_path: Path) -> None:
    check_in_batches(tmp_path, draw_cases(LEGAL[operator], settings.default.max_examples))


@pytest.mark.parametrize("operator", LEGAL)
def test_illegal_requests(operator: str, tmp_path: Path) -> None:
    count = settings.default.max_examples
    legal = draw_cases(LEGAL[operator], count)
    check_in_batches(tmp_path, illegal_cases(legal, max(3, count // 60)))


@pytest.mark.skipif(not os.environ.get("QUIRE_TEST_WEBGPU"), reason="QUIRE_TEST_WEBGPU is not set")
@pytest.mark.parametrize("operator", LEGAL)
def test_legal_requests_on_webgpu(operator: str, tmp_path: Path) -> None:
    """Within the tolerance that the CPU must keep as well; few, since shaders are compiled for each."""
    drawn = draw_cases(LEGAL[operator], settings.default.max_examples // 60)
    is_paged = operator == "paged_attention"
    cases = [case for case in drawn if not (is_paged and paged_cases.shares_slots(case))]
    check_in_batches(tmp_path, cases, "--device", "webgpu", "--allow-unsupported")
