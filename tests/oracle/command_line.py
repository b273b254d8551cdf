"""Runs the command line on case files. The environment variable QUIRE names the binary."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from oracle.case_file import Case, read_tensors, write_case
from oracle.tensors import Tensor

ROOT = Path(__file__).resolve().parents[2]
QUIRE = os.environ.get("QUIRE", str(ROOT / "build/dev/tools/quire/quire"))


def quire(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [QUIRE, *(str(a) for a in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def check(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return quire("check", folder, *options)


def write_folder(folder: Path, cases: list[Case]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases):
        write_case(folder / f"case_{number:04d}.safetensors", case)


def run_case(folder: Path, name: str, case: Case, *options: object) -> dict[str, Tensor]:
    """The outputs of one call."""
    source, target = folder / f"{name}.safetensors", folder / f"{name}.out.safetensors"
    write_case(source, case)
    result = quire("run", source, "-o", target, *options)
    assert result.returncode == 0, f"{source}: {result.stderr}"
    return read_tensors(target)[1]
