#!/usr/bin/env python3
"""Runs a fault test and compares the allocations that it saw with those that the source has.

usage: visited_sites.py SOURCE_FOLDER FAULT_TEST [webgpu]

A site is a place in the source that asks for memory. Each must have been seen: what was seen was
made to fail. Builds without debugging information cannot be compared; the test itself still runs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CALL = re.compile(r"\b(quire_alloc|quire_alloc_array|quire_arena_alloc|quire_arena_array|quire_arena_copy"
                  r"|quire_serving_allocate)\(")
# What hands on what its caller asks for: the caller is the site.
PASSED_ON = ("runtime/core/alloc.c", "serving/serving_support.c")
# Sites outside runtime/device/webgpu/ that only WebGPU reaches.
WEBGPU_ONLY = ("quire_arena_array(&plan->arena, 1, sizeof *host)",
               "quire_arena_alloc(p->scratch, sizeof *request)")


def source_sites(root, with_webgpu):
    """(file, first line, last line) of each call."""
    for folder in ("runtime", "library", "serving"):
        for path in sorted((root / folder).rglob("*.c")):
            name = str(path.relative_to(root))
            if name in PASSED_ON or ("/webgpu/" in name and not with_webgpu):
                continue
            text = path.read_text()
            for match in CALL.finditer(text):
                if "quire_arena_array((arena), (count)" in text[match.start():match.start() + 40]:
                    continue  # a macro's: its users are the sites
                if not with_webgpu and text.startswith(WEBGPU_ONLY, match.start()):
                    continue
                begin = text.rfind(";", 0, match.start()) + 1
                first = text.count("\n", 0, match.start()) + 1
                last = text.count("\n", 0, text.index(";", match.end())) + 1
                yield name, max(text.count("\n", 0, begin) + 1, first - 2), last


def seen_lines(program, stacks):
    """{(file, line)} of every frame of every stack."""
    addresses = sorted({f"{int(frame, 16) - 1:x}" for line in stacks for frame in line.split()})
    out = subprocess.run(["addr2line", "-i", "-e", program], input="\n".join(addresses),
                         capture_output=True, text=True, check=True).stdout
    return {(match[1], int(match[2])) for match in
            re.finditer(r"(?:^|/)((?:runtime|library|serving)/[^:\n]*):(\d+)", out, re.MULTILINE)}


def main():
    root, program = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        stacks = pathlib.Path(folder) / "stacks"
        done = subprocess.run([program, *sys.argv[3:]], cwd=folder,
                              env=dict(os.environ, QUIRE_FAULT_SITES=str(stacks)))
        if done.returncode != 0:
            return done.returncode
        seen = seen_lines(program, stacks.read_text().splitlines())
    if not seen:
        print("no debugging information: the sites cannot be compared")
        return 0
    with_webgpu = "webgpu" in sys.argv[3:]
    sites = [site for site in source_sites(root, with_webgpu)
             if not with_webgpu or "/webgpu/" in site[0]]  # the others are the CPU's run's
    missed = [site for site in sites
              if not any((site[0], line) in seen for line in range(site[1], site[2] + 1))]
    for name, first, last in missed:
        print(f"{name}:{first}: never seen to ask for memory")
    print(f"{len(sites)} allocation sites in the source, {len(sites) - len(missed)} visited")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
