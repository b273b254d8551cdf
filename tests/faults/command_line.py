#!/usr/bin/env python3
"""The command line where its surroundings fail: full disks, closed outputs, files that are none.

usage: command_line.py QUIRE SOURCE_FOLDER

After each failure the exit status is 1 or 2, standard error has a line that begins with "quire:", no
signal ended the program, and no file is left half-written, or beside the one that was wanted.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

QUIRE = os.path.abspath(sys.argv[1])
SOURCE = pathlib.Path(sys.argv[2]).resolve()
CASE = SOURCE / "tests/data/cases/merge_attention_states"
MANIFEST = SOURCE / "tests/data/lint/pass_small.json"
faults = []
count = 0


def run(arguments, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([QUIRE, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=60, **options)


def expect(what, done, good=lambda done: done.returncode in (1, 2)):
    """A failure as it should be."""
    global count
    count += 1
    error = done.stderr.decode("utf-8", "replace")
    lines = [line for line in error.splitlines() if line.startswith("quire:")]
    if not good(done) or (done.returncode != 0 and not lines):
        faults.append(f"{what}: exit {done.returncode}: {error[:300]!r}")


def outputs(case, work):
    """Standard output that cannot be written: every command that prints says so."""
    commands = [["ops"], ["version"], ["devices"], ["help"], ["run", "--help"], ["check", case],
                ["explain", "quire.MergeAttentionStates", "--case", case],
                ["explain", MANIFEST, "--check-only"], ["lint", SOURCE / "tests/data/lint/warn_unused.json"]]
    for command in commands:
        name = " ".join(str(word) for word in command[:2])
        with open("/dev/full", "w") as full:
            expect(f"{name} >/dev/full", run(command, stdout=full))
        expect(f"{name} >&-", subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", QUIRE, *map(str, command)],
                                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60))
        reading, writing = os.pipe()
        os.close(reading)
        # The shell's default is to be ended by the signal, which is no crash; ignored, it is an error.
        expect(f"{name} | nobody", subprocess.run(
            ["sh", "-c", 'trap "" PIPE; exec "$@"', "sh", QUIRE, *map(str, command)], stdin=subprocess.DEVNULL,
            stdout=writing, stderr=subprocess.PIPE, timeout=60))
        os.close(writing)


def inputs(case, work):
    """What is no file, or not one that may be read."""
    fifo = work / "fifo"
    os.mkfifo(fifo)
    missing = work / "missing"
    for path in (work, fifo, missing, pathlib.Path("/dev/null"), case / "x"):
        for command in (["run", path], ["check", path], ["lint", path], ["explain", path, "--check-only"],
                        ["explain", "quire.MergeAttentionStates", "--case", path],
                        ["explain", MANIFEST, "--request", path],
                        ["render", MANIFEST, "--request", path]):
            if path == fifo and command[0] != "run" and "--case" not in command and command[0] != "check":
                continue  # texts may come from a pipe, which waits for whoever writes
            if path == work and command[0] == "check":
                continue  # a folder of cases
            expect(f"{' '.join(map(str, command))}", run(command))
    fifo.unlink()


def truncated(case, work):
    """Every length of a case file, and of a manifest."""
    whole = case.read_bytes()
    cut = work / "cut.safetensors"
    for length in [*range(0, min(len(whole), 64)), *range(64, len(whole), 37), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        expect(f"a case of {length} bytes", run(["run", cut, "-o", work / "out"]))
        if (work / "out").exists():
            faults.append(f"a case of {length} bytes left an output")
    cut.unlink()
    whole = MANIFEST.read_bytes().rstrip()
    cut = work / "cut.json"
    for length in range(0, len(whole), 23):
        cut.write_bytes(whole[:length])
        expect(f"a manifest of {length} bytes", run(["explain", cut, "--check-only"]))
    cut.unlink()


def targets(case, work):
    """A target that cannot be written: the old file stays whole, and nothing lies beside it."""
    old = work / "old.safetensors"
    old.write_bytes(b"old")

    def limited(bytes_):
        return ["sh", "-c", f'trap "" XFSZ; ulimit -f {bytes_}; exec "$@"', "sh", QUIRE, "run", str(case), "-o", str(old)]

    expect("a disk without room", subprocess.run(limited(0), stdin=subprocess.DEVNULL, capture_output=True, timeout=60))
    for target in (work, work / "no/such/folder", pathlib.Path("/dev/full"), pathlib.Path("/proc/none")):
        expect(f"-o {target}", run(["run", case, "-o", target]))
    if os.geteuid() != 0:
        os.chmod(work, 0o500)
        expect("a folder that is read-only", run(["run", case, "-o", old]))
        os.chmod(work, 0o700)
    if old.read_bytes() != b"old" or sorted(path.name for path in work.iterdir()) != ["old.safetensors"]:
        faults.append(f"left behind: {sorted(path.name for path in work.iterdir())}")
    expect("-o at last", run(["run", case, "-o", old]), lambda done: done.returncode == 0)
    if old.read_bytes() == b"old":
        faults.append("nothing was written in the end")


def main():
    case = next(path for path in sorted(CASE.glob("*.safetensors")) if not path.name.startswith("bad"))
    for part in (outputs, inputs, truncated, targets):
        with tempfile.TemporaryDirectory() as folder:
            part(case, pathlib.Path(folder))
    print("\n".join(faults[:40]))
    print(f"{count} failures ordered, {len(faults)} not as they should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
