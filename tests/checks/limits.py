#!/usr/bin/env python3
"""Compares the table of limits in docs/reliability.md with the constants of the code that it names.

usage: limits.py SOURCE_DIR
"""
import pathlib
import re
import sys

ROW = re.compile(r"\| [^|]+ \| ([0-9,]+)[^|]* \| `([\w/.]+)`: `(\w+)` \|")


def main():
    source = pathlib.Path(sys.argv[1])
    text = (source / "docs/reliability.md").read_text(encoding="utf-8").split("\n## Limits\n")[1].split("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith("| ")][1:]
    failed = False
    for line in table:
        row = ROW.match(line)
        if not row:
            print(f"not a row of the table of limits: {line}")
            failed = True
            continue
        documented, path, name = int(row[1].replace(",", "")), row[2], row[3]
        found = re.search(rf"\b{name} =\s*([0-9 *<()]+)", (source / path).read_text(encoding="utf-8"))
        value = eval(found[1]) if found else None  # digits and operators only
        if value != documented:
            print(f"{name}: docs/reliability.md says {documented}, {path} says {value}")
            failed = True
    if len(table) < 20:
        print(f"only {len(table)} rows were found")
        failed = True
    print(f"{len(table)} limits")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
