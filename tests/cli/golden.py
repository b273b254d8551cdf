#!/usr/bin/env python3
"""Compares quire explain with golden files, line by line.

usage: golden.py QUIRE     (QUIRE_COMPAT_DIR: the folder of the golden files; without it: skipped)

plan_cases.jsonl   a manifest, a request and the plan or the refusal as JSON
expr_cases.jsonl   an expression, put at derive.probe of one manifest, and its value or error
load_cases.jsonl   text of a manifest, and whether it loads
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def equal(left, right):
    """As JSON values, numbers by value; True is no 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right


def first_difference(path, want, got):
    if isinstance(want, dict) and isinstance(got, dict):
        for key in list(want) + [key for key in got if key not in want]:
            if key not in got or key not in want:
                return f"{path}.{key}: only in {'want' if key in want else 'got'}"
            if not equal(want[key], got[key]):
                return first_difference(f"{path}.{key}", want[key], got[key])
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (a, b) in enumerate(zip(want, got)):
            if not equal(a, b):
                return first_difference(f"{path}[{index}]", a, b)
    return f"{path}: got {json.dumps(got)[:200]} want {json.dumps(want)[:200]}"


class Golden:
    def __init__(self, quire, compat, work):
        self.quire, self.compat, self.work = quire, pathlib.Path(compat), pathlib.Path(work)
        self.faults, self.count = [], 0

    def explain(self, arguments, standard_input=None):
        done = subprocess.run([self.quire, "explain", *map(str, arguments)], capture_output=True,
                              text=True, input=standard_input, timeout=60)
        if done.returncode == 2 and not (done.stderr.startswith("quire: ") and done.stderr.count("\n") == 1):
            self.faults.append(f"{arguments}: standard error is not one line: {done.stderr!r}")
        return done

    def fault(self, case, text):
        self.faults.append(f"{case['id']} ({case.get('note', '')}): {text}")

    def plan_cases(self):
        for case in lines(self.compat / "plan_cases.jsonl"):
            self.count += 1
            manifest = self.compat / "compat" / f"{case['manifest']}.manifest.json"
            done = self.explain([manifest, "--request", "-", "--format", "json"], json.dumps(case["request"]))
            expected_exit = 3 if case["expect"].get("refused") else 0
            if done.returncode != expected_exit:
                self.fault(case, f"exit {done.returncode}, want {expected_exit} {done.stderr.strip()}")
                continue
            got = json.loads(done.stdout)
            if not equal(case["expect"], got):
                self.fault(case, first_difference("$", case["expect"], got))
            text = self.explain([manifest, "--request", "-"], json.dumps(case["request"]))
            if text.returncode != expected_exit or not text.stdout:
                self.fault(case, f"as text: exit {text.returncode}")

    def expr_cases(self):
        head, *cases = lines(self.compat / "expr_cases.jsonl")
        request, manifest = self.work / "request.json", self.work / "manifest.json"
        request.write_text(json.dumps(head["request"]))
        for case in cases:
            self.count += 1
            probe = dict(head["manifest"], derive=dict(head["manifest"]["derive"], probe=case["expr"]))
            manifest.write_text(json.dumps(probe))
            done = self.explain([manifest, "--request", request, "--format", "json"])
            if case.get("load_error"):
                if done.returncode != 2:
                    self.fault(case, f"{case['expr']}: exit {done.returncode}, want 2")
                continue
            if done.returncode != 0:
                self.fault(case, f"{case['expr']}: exit {done.returncode} {done.stderr.strip()}")
                continue
            want = {"error": case["error"]} if "error" in case else case["value"]
            got = json.loads(done.stdout)["derived"]["probe"]
            if not equal(want, got):
                self.fault(case, f"{case['expr']}: got {got} want {want}")

    def load_cases(self):
        for case in lines(self.compat / "load_cases.jsonl"):
            self.count += 1
            path = self.work / "load.json"
            path.write_bytes(case["text"].encode("utf-8", "surrogatepass"))
            done = self.explain([path, "--check-only"])
            if done.returncode != (0 if case["ok"] else 2):
                self.fault(case, f"exit {done.returncode}, want {0 if case['ok'] else 2} {done.stderr.strip()}")


def main():
    compat = os.environ.get("QUIRE_COMPAT_DIR")
    if not compat or not pathlib.Path(compat).is_dir():
        print("SKIPPED: QUIRE_COMPAT_DIR names no folder with golden files; nothing was compared")
        return SKIPPED
    with tempfile.TemporaryDirectory() as work:
        golden = Golden(sys.argv[1], compat, work)
        golden.plan_cases()
        golden.expr_cases()
        golden.load_cases()
    for fault in golden.faults[:50]:
        print(fault)
    print(f"{golden.count} golden lines, {len(golden.faults)} differences")
    return 1 if golden.faults or golden.count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
