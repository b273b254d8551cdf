"""Runs the code of Markdown pages as it is printed, and compares what is printed below it.

usage: run_code.py PAGE.md...

In each page, in its own empty folder and in the page's order:

  ```python   runs, in one namespace for the whole page
  ```console  lines behind `$ ` are commands of bash; other lines are what they print
  ```output   is what the python block before it prints; `...` stands for anything
  ```c        is kept in the file that `<!-- file: NAME -->` above it names
  ```json     is parsed

`<!-- needs: MODULE -->` above a block: only where Python has that module. `<!-- not run: WHY -->`:
never. A C or shell block without a use is an error: nothing is shown that nobody ran.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w{}-]*)\s*$")
MARK = re.compile(r"^<!-- (?P<kind>file|needs|not run|example): (?P<value>.*) -->$")
CODE = ("python", "console", "output", "c", "json", "bash", "sh")


@dataclass
class Block:
    language: str
    text: str
    line: int
    marks: dict[str, str]


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    marks: dict[str, str] = {}
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        mark, fence = MARK.match(lines[at].strip()), FENCE.match(lines[at])
        if mark:
            marks[mark["kind"]] = mark["value"]
        elif fence:
            begin = at + 1
            at = begin
            while at < len(lines) and lines[at].strip() != "```":
                at += 1
            body = "\n".join(lines[begin:at]) + "\n"
            if fence["language"] in CODE:
                found.append(Block(fence["language"], body, begin, marks))
            marks = {}
        elif lines[at].strip():
            marks = {}
        at += 1
    return found


def same(printed: str, expected: str) -> bool:
    """`...` stands for anything within a line; a line of it for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n"
        for line in expected.rstrip("\n").split("\n")
    )
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


class Page:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.namespace: dict[str, object] = {"__name__": "__main__"}
        self.printed = ""
        self.count = self.skipped = 0

    def run(self) -> list[str]:
        """Faults, one text each."""
        faults = []
        for block in blocks(self.path):
            missing = block.marks.get("needs", "")
            if "not run" in block.marks or (missing and not importlib.util.find_spec(missing)):
                self.skipped += 1
                continue
            self.count += 1
            fault = getattr(self, f"run_{block.language}", self.run_unknown)(block)
            if fault:
                faults.append(f"{self.path}:{block.line}: {fault}")
                break  # what follows builds on it
        return faults

    def run_unknown(self, block: Block) -> str:
        return f"a block of {block.language}: use console, or say why it is not run"

    def run_python(self, block: Block) -> str:
        stream = io.StringIO()
        try:
            with contextlib.redirect_stdout(stream):
                exec(compile(block.text, f"{self.path}:{block.line}", "exec"), self.namespace)
        except BaseException:
            return traceback.format_exc()
        self.printed = stream.getvalue()
        return ""

    def run_output(self, block: Block) -> str:
        if same(self.printed, block.text):
            return ""
        return f"prints\n{self.printed}instead of\n{block.text}"

    def run_json(self, block: Block) -> str:
        try:
            json.loads(block.text)
        except ValueError as fault:
            return str(fault)
        return ""

    def run_c(self, block: Block) -> str:
        if "example" in block.marks:  # scripts/readme_example compares it; the build runs it
            return ""
        if "file" in block.marks:
            Path(block.marks["file"]).write_text(block.text, encoding="utf-8")
            return ""
        return "a C block needs <!-- file: NAME -->, to be compiled by a console block"

    def run_console(self, block: Block) -> str:
        steps: list[tuple[str, str]] = []
        for line in block.text.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], ""))
            elif line.startswith("> ") and steps and not steps[-1][1]:
                steps[-1] = (f"{steps[-1][0]}\n{line[2:]}", "")
            elif steps:
                steps[-1] = (steps[-1][0], steps[-1][1] + line + "\n")
            else:
                return "begins with no command"
        for command, expected in steps:
            done = subprocess.run(
                ["bash", "-ec", command], capture_output=True, text=True, check=False, timeout=300
            )
            printed = done.stdout + done.stderr
            # A command that is shown to fail has its message below.
            if done.returncode and not expected:
                return f"{command}: exit status {done.returncode}\n{printed}"
            if expected and not same(printed, expected):
                return f"{command}\nprints\n{printed}instead of\n{expected}"
        return ""


def main() -> int:
    faults: list[str] = []
    count = skipped = 0
    home = Path.cwd()
    for name in sys.argv[1:]:
        page = Page((home / name).resolve())
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            faults += page.run()
            os.chdir(home)
        count += page.count
        skipped += page.skipped
    print("\n".join(faults), end="\n" if faults else "")
    print(f"{count - len(faults)} passed, {len(faults)} failed, {skipped} skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
