"""Case files: recomputes the expected outputs of some (verify), or makes the oracle's own (make)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from oracle.case_file import read_case, write_case
from oracle.compare import difference
from oracle.named_cases import FOLDERS
from oracle.operators import compute


def verify(path: Path) -> str | None:
    """None if the oracle agrees with the file's expected outputs."""
    case = read_case(path)
    results = compute(case)
    for name, want in case.expect.items():
        limits = case.tolerance.get(name, {})
        problem = difference(results[name], want, limits.get("atol", 0), limits.get("rtol", 0))
        if problem:
            return f"{name}: {problem}"
    return None


def make(root: Path) -> int:
    for folder, cases_of in FOLDERS.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, case in cases_of().items():
            case.note = name.replace("_", " ")
            write_case(root / folder / f"{name}.safetensors", case)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oracle", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("verify").add_argument("folders", nargs="+", type=Path)
    commands.add_parser("make").add_argument("root", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "make":
        return make(arguments.root)
    checked = failed = refusals = 0
    for folder in arguments.folders:
        for path in sorted(folder.rglob("*.safetensors")) if folder.is_dir() else [folder]:
            if read_case(path).error:
                refusals += 1
                continue
            problem = verify(path)
            checked += 1
            if problem:
                failed += 1
                print(f"{path}: {problem}")
    print(f"{checked - failed} of {checked} cases agree, {refusals} refusals skipped")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
