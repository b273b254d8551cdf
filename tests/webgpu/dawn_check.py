#!/usr/bin/env python3
"""Runs the command line on Dawn, which the Python package wgpudawn carries (scripts/webgpu dawn).

usage: dawn_check.py LIBRARY [ARGUMENT...]     (LIBRARY: quire_dawn of the build)

The library is the command line itself; it gets the addresses of WebGPU's functions from here.
Exits with 77 if the package is not installed.
"""
import ctypes
import os
import sys

SKIPPED = 77


def main() -> int:
    try:
        from wgpudawn._lib import ffi, lib
    except ImportError as missing:
        print(f"SKIPPED: {missing}")
        return SKIPPED
    signature = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

    @signature
    def resolve(_user, name):
        try:
            return int(ffi.cast("uintptr_t", ffi.addressof(lib, name.decode())))
        except AttributeError:
            return None

    program = ctypes.CDLL(sys.argv[1])
    arguments = [b"quire", *(os.fsencode(argument) for argument in sys.argv[2:])]
    argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    return program.quire_dawn_main(resolve, len(arguments), argv)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the driver's threads are not for Python to end
