#!/usr/bin/env python3
"""Runs a fault test and compares the allocations that it saw with those that the source has.

usage: visited_sites.py SOURCE_FOLDER FAULT_TEST [webgpu]
       visited_sites.py SOURCE_FOLDER FAULT_WEBGPU_TEST LIBRARY...

A site is a place in the source that asks for memory, or with LIBRARY one that calls a function of
webgpu.h that can fail. Each must have been seen: what was seen was made to fail. Builds without
debugging information cannot be compared; the test itself still runs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CALL = re.compile(r"\b(quire_alloc|quire_alloc_array|quire_arena_alloc|quire_arena_array|quire_arena_copy"
                  r"|quire_serving_allocate)\(")
LIBRARY_CALL = re.compile(r"\b(?:p|procs|gpu->procs)(?:->|\.)([A-Z]\w+)\(")
# What cannot fail, or has nothing to say of it.
CANNOT_FAIL = re.compile(r"\w*(AddRef|Release|FreeMembers|HasFeature|GetSize|GetUsage|GetTimestampPeriod|ProcessEvents)$")
# wgpu-native's only, and not in the library for tests.
NOT_THERE = ("DeviceCreateShaderModuleTrusted",)
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


def call_sites(root):
    """(file, first line, last line) of each call of the WebGPU library that can fail."""
    for path in sorted((root / "runtime/device/webgpu").glob("*.c")):
        text = path.read_text()
        for match in LIBRARY_CALL.finditer(text):
            if not CANNOT_FAIL.match(match[1]) and match[1] not in NOT_THERE:
                first = text.count("\n", 0, match.start()) + 1
                last = text.count("\n", 0, text.index(";", match.end())) + 1
                yield str(path.relative_to(root)), first, last


def seen_lines(program, stacks):
    """{(file, line)} of every frame of every stack."""
    addresses = sorted({f"{int(frame, 16) - 1:x}" for line in stacks for frame in line.split()})
    out = subprocess.run(["addr2line", "-i", "-e", program], input="\n".join(addresses),
                         capture_output=True, text=True, check=True).stdout
    return {(match[1], int(match[2])) for match in
            re.finditer(r"(?:^|/)((?:runtime|library|serving)/[^:\n]*):(\d+)", out, re.MULTILINE)}


def main():
    root, program = pathlib.Path(sys.argv[1]).resolve(), os.path.abspath(sys.argv[2])
    libraries = [name for name in sys.argv[3:] if name.endswith(".so")]
    seen = set()
    for arguments in [[library] for library in libraries] or [sys.argv[3:]]:
        with tempfile.TemporaryDirectory() as folder:
            stacks = pathlib.Path(folder) / "stacks"
            done = subprocess.run([program, *arguments], cwd=folder,
                                  env=dict(os.environ, QUIRE_FAULT_SITES=str(stacks)))
            if done.returncode != 0:
                return done.returncode
            seen |= seen_lines(program, stacks.read_text().splitlines())
    if not seen:
        print("no debugging information: the sites cannot be compared")
        return 0
    what = "calls of the WebGPU library" if libraries else "allocation sites"
    with_webgpu = "webgpu" in sys.argv[3:]
    sites = list(call_sites(root)) if libraries else [site for site in source_sites(root, with_webgpu)
             if not with_webgpu or "/webgpu/" in site[0]]  # the others are the CPU's run's
    missed = [site for site in sites
              if not any((site[0], line) in seen for line in range(site[1], site[2] + 1))]
    for name, first, last in missed:
        print(f"{name}:{first}: never seen")
    print(f"{len(sites)} {what} in the source, {len(sites) - len(missed)} visited")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
