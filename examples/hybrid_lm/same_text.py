#!/usr/bin/env python3
"""The language model continues a prompt on the CPU and on WebGPU: greedily, with the same tokens.

usage: same_text.py HYBRID_LM [arguments]

Exits with 77 where there is no WebGPU device.
"""
import subprocess
import sys


def run(device):
    return subprocess.run([*sys.argv[1:], "--device", device], capture_output=True, timeout=1200)


gpu = run("webgpu")
if b"NOT_FOUND" in gpu.stderr:
    print(gpu.stderr.decode())
    sys.exit(77)
cpu = run("cpu")
for name, done in (("webgpu", gpu), ("cpu", cpu)):
    print(f"{name}: exit {done.returncode}, {done.stdout!r} {done.stderr!r}")
sys.exit(0 if cpu.returncode == gpu.returncode == 0 and cpu.stdout == gpu.stdout else 1)
