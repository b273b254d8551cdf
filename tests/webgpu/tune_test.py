#!/usr/bin/env python3
"""Tunes one case on the WebGPU device and plans with the file: end to end, by the command line.

usage: tune_test.py QUIRE CASE

Also what must not happen: values outside the choices in force, and a file that is lost when a search
is killed or a write fails. Exits with 77 where there is no library or no adapter.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

quire, case = sys.argv[1], pathlib.Path(sys.argv[2])
device = ["--case", str(case), "--device", "webgpu"]


def run(*arguments, **options):
    return subprocess.run([quire, *arguments], capture_output=True, text=True, timeout=600, **options)


def sound(done, status=0):
    assert done.returncode == status, f"{done.args} exits with {done.returncode}: {done.stderr}"
    return done.stdout


def explained(file):
    return json.loads(sound(run("explain", *device, "--format", "json", "--tuning", str(file))))


def main(folder):
    probe = run("check", str(case), "--device", "webgpu")
    if "no usable library" in probe.stderr or "offers no adapter" in probe.stderr:
        print(probe.stderr)
        return 77
    file = folder / "tuned.json"

    # A search: every candidate is right, and the file holds what was found for this call.
    told = sound(run("tune", *device, "-o", str(file), "--seconds", "0.02"))
    print(told)
    assert " 0 wrong; best: " in told
    content = json.loads(file.read_text())
    assert (content["format"], content["version"], len(content["entries"])) == ("quire-tuning", 1, 1)
    entry = content["entries"][0]
    plan = explained(file)
    assert plan["tuned"] == {"tunables": entry["tunables"]}
    assert plan["variant"] == entry["variant"]
    assert entry["measured"]["tuned_us"] <= entry["measured"]["default_us"]

    # What is in force, whoever was faster above: another chunk makes another shader, and the same result.
    entry["tunables"] = {"chunk": 32}
    file.write_text(json.dumps(content))
    assert explained(file)["tuned"] == {"tunables": {"chunk": 32}}
    assert explained(file)["derived"]["chunk"] == 32
    shaders = [sound(run("render", *device, *more)) for more in ([], ["--tuning", str(file)])]
    assert shaders[0] != shaders[1]
    sound(run("check", str(case), "--device", "webgpu", "--tuning", str(file)))

    # Tuning again replaces the entry, and keeps those of other calls.
    content["entries"].append({**entry, "class": "another"})
    file.write_text(json.dumps(content))
    sound(run("tune", *device, "-o", str(file), "--seconds", "0.02"))
    entries = json.loads(file.read_text())["entries"]
    assert sorted(one["class"] for one in entries) == sorted([entry["class"], "another"])

    # Values that the manifest does not offer are ignored, with the reason.
    hostile = folder / "hostile.json"
    for values in ({"chunk": 33}, {"chunk": "32"}, {"chunkedFrom": 1}, {"nothing": 1}, {"scanUnits": 1e300}):
        entry["tunables"] = values
        hostile.write_text(json.dumps({**content, "entries": [entry]}))
        assert "its entry is ignored" in explained(hostile)["tuned"]["reason"], values
        sound(run("check", str(case), "--device", "webgpu", "--tuning", str(hostile)))

    # A search that is killed, and a write that fails, leave the file and nothing beside it.
    before = file.read_bytes()
    search = subprocess.Popen([quire, "tune", *device, "-o", str(file), "--seconds", "60"],
                              stdout=subprocess.PIPE)
    search.stdout.readline()
    search.send_signal(signal.SIGKILL)
    search.wait()
    assert file.read_bytes() == before
    long = folder / ("x" * 250)  # there is no room for a temporary name beside it
    long.write_bytes(before)
    failed = run("tune", *device, "-o", str(long), "--seconds", "0.02")
    assert failed.returncode == 2 and "cannot be written" in failed.stderr, failed.stderr
    assert long.read_bytes() == before
    assert sorted(os.listdir(folder)) == ["hostile.json", "tuned.json", long.name]
    return 0


with tempfile.TemporaryDirectory() as work:
    sys.exit(main(pathlib.Path(work)))
