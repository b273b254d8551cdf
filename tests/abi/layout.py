#!/usr/bin/env python3
"""Compares the binary interface of the public headers with the recorded one: the size of every struct, the
offset and size of every member, the number behind every constant.

usage: layout.py SOURCE_DIR C_COMPILER [--update]

tests/abi/layout.txt holds what a 64-bit compiler must make of them. Whoever changes a line breaks programs that
are built already: a new member goes to the end of a struct that begins with struct_size, whose old size
stays accepted; anything else waits for the next SOVERSION.
"""
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile


def declarations(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)


def members(body):
    """Names of the members of a struct, in order."""
    for declaration in filter(str.strip, body.split(";")):
        pointer = re.search(r"\(\*(\w+)\)\s*\(", declaration)
        if pointer:
            yield pointer[1]
            continue
        for declarator in declaration.split(","):
            yield re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", declarator)[1]


def program(headers):
    lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "quire/quire.h"', "int main(void) {"]
    structs = constants = 0
    for header in headers:
        text = declarations(header.read_text(encoding="utf-8"))
        for found in re.finditer(r"typedef struct (\w+) \{(.*?)\}\s*\1;", text, flags=re.DOTALL):
            name = found[1]
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            for member in members(found[2]):
                lines.append(f'printf("  {member} %zu %zu\\n", offsetof({name}, {member}), '
                             f"sizeof((({name} *)0)->{member}));")
            structs += 1
        for found in re.finditer(r"enum (?:\w+ )?\{(.*?)\}", text, flags=re.DOTALL):
            for constant in re.findall(r"\b(QUIRE_\w+)\s*=", found[1]):
                lines.append(f'printf("{constant} %d\\n", (int){constant});')
                constants += 1
    assert structs > 20 and constants > 50, f"only {structs} structs and {constants} constants were found"
    return "\n".join([*lines, "return 0;", "}", ""])


def main():
    source, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as work:
        text = pathlib.Path(work) / "layout.c"
        text.write_text(program(sorted((source / "include/quire").glob("*.h"))))
        subprocess.run([compiler, "-std=c11", "-I", source / "include", "-o", f"{work}/layout", text], check=True)
        got = subprocess.run([f"{work}/layout"], check=True, capture_output=True, text=True).stdout
    record = source / "tests/abi/layout.txt"
    if "--update" in sys.argv:
        record.write_text(got)
        return 0
    changes = list(difflib.unified_diff(record.read_text().splitlines(), got.splitlines(), "recorded", "built",
                                        lineterm=""))
    print("\n".join(changes) or f"{len(got.splitlines())} lines as recorded")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
