#!/usr/bin/env python3
"""Runs every case file on every instruction set and number of threads: the outputs must be the same bits.

usage: case_bits.py CASES QUIRE [QUIRE...] [--threads 1,2,3,7]

QUIRE is a command line of quire, with an emulator in front where it needs one ("qemu-aarch64 -L /usr/...
quire"): builds for several processors are compared with one another. Cases that must be refused are left
out. NaN counts as NaN, whatever its payload. Exits with 1 if any bit differs.
"""
import argparse
import hashlib
import json
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile

# For each float type: bytes, and the magnitude bits above which it is NaN.
FLOATS = {"F64": (8, 0x7FF0000000000000), "F32": (4, 0x7F800000), "F16": (2, 0x7C00), "BF16": (2, 0x7F80)}


def read(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8:8 + length]), data[8 + length:]


def without_payloads(dtype, data):
    """The bytes with every NaN made the same."""
    if dtype not in FLOATS:
        return data
    size, infinity = FLOATS[dtype]
    code = {8: "Q", 4: "I", 2: "H"}[size]
    values = struct.unpack(f"<{len(data) // size}{code}", data)
    sign = 1 << (8 * size - 1)
    if all(value & ~sign <= infinity for value in values):
        return data
    return struct.pack(f"<{len(values)}{code}",
                       *(value if value & ~sign <= infinity else infinity + 1 for value in values))


def digest(path):
    header, data = read(path)
    text = hashlib.sha256()
    for name in sorted(header):
        if name != "__metadata__":
            entry = header[name]
            begin, end = entry["data_offsets"]
            text.update(f"{name} {entry['dtype']} {entry['shape']}".encode())
            text.update(without_payloads(entry["dtype"], data[begin:end]))
    return text.hexdigest()


def levels(command):
    """Instruction sets that a build has on this machine."""
    found = []
    for isa in ("scalar", "avx2", "avx512", "neon"):
        done = subprocess.run([*command, "check", "/dev/null", "--isa", isa], capture_output=True, text=True)
        if "is not what this machine has" not in done.stderr:
            found.append(isa)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("quire", nargs="+")
    parser.add_argument("--threads", default="1,2,3,7")
    options = parser.parse_args()
    threads = options.threads.split(",")
    commands = [shlex.split(quire) for quire in options.quire]
    runs = [(command, isa, n) for command in commands for isa in levels(command) for n in threads]
    differing = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.safetensors"
        for case in sorted(options.cases.rglob("*.safetensors")):
            if "error" in read(case)[0].get("__metadata__", {}):
                continue
            first = None
            for command, isa, n in runs:
                done = subprocess.run([*command, "run", str(case), "-o", str(out), "--isa", isa, "--threads", n],
                                      capture_output=True, text=True)
                bits = digest(out) if done.returncode == 0 else done.stderr.strip()
                first = first or bits
                compared += 1
                if bits != first or done.returncode:
                    differing += 1
                    print(f"DIFFERS {case.name} {command[-1]} {isa} {n} threads: {bits} instead of {first}")
    names = sorted({f"{isa} ({command[0]})" if len(commands) > 1 else isa for command, isa, _ in runs})
    print(f"{compared} runs on {', '.join(names)} with {options.threads} threads: {differing} differ")
    return 1 if differing or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
