#!/usr/bin/env python3
"""Runs one script of the command line and compares output and exit status with the expected ones.

usage: run_script.py QUIRE FOLDER [--update]

FOLDER holds `cmd` (sh), `stdout`, `stderr` and `exit`; a missing stdout or stderr must be empty, a
missing exit means 0. The script runs in an empty folder with these variables:

  QUIRE   the command line          DATA   tests/data
  HERE    FOLDER itself             MAKE   a Python that makes tensor files (make_tensors.py)

In an expected text, <*> stands for any text within one line. --update writes what came out.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def matches(expected, got):
    pattern = ".*".join(re.escape(part) for part in expected.split("<*>"))
    return re.fullmatch(pattern, got) is not None


def difference(name, expected, got):
    """The first line that differs, or None."""
    expected_lines = expected.split("\n")
    got_lines = got.split("\n")
    for number, line in enumerate(got_lines, 1):
        want = expected_lines[number - 1] if number <= len(expected_lines) else "(nothing)"
        if number > len(expected_lines) or not matches(want, line):
            return f"{name} line {number}:\n  got  {line}\n  want {want}"
    if len(expected_lines) > len(got_lines):
        return f"{name} ends after line {len(got_lines)}; want {expected_lines[len(got_lines)]}"
    return None


def main():
    quire, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as work:
        environment = dict(
            os.environ, QUIRE=os.path.abspath(quire), HERE=str(folder),
            DATA=str(here.parent / "data"), LC_ALL="C.UTF-8",
            MAKE=f"{sys.executable} -B {here / 'make_tensors.py'}")
        done = subprocess.run(["sh", str(folder / "cmd")], cwd=work, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=900)
    results = {"stdout": done.stdout.decode("utf-8", "replace"),
               "stderr": done.stderr.decode("utf-8", "replace"),
               "exit": f"{done.returncode}\n"}
    if "--update" in sys.argv:
        for name, text in results.items():
            if text and (name, text) != ("exit", "0\n"):
                (folder / name).write_text(text)
        return 0
    faults = []
    for name, got in results.items():
        path = folder / name
        expected = path.read_text() if path.exists() else ("0\n" if name == "exit" else "")
        fault = difference(name, expected, got)
        if fault:
            faults.append(fault)
    print("\n".join(faults) if faults else "ok")
    if faults:
        print(f"--- stdout\n{results['stdout']}--- stderr\n{results['stderr']}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
