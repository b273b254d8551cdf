#!/usr/bin/env python3
"""The command line where memory fails: each of its own allocations in turn, alone and with all that follow.

usage: command_line_memory.py QUIRE_FAULTY SOURCE_FOLDER [WEBGPU_LIBRARY]

QUIRE_FAULTY is the command line behind fault_tool.h. After each failure the exit status is 1 or 2,
standard error has a line that begins with "quire:", no signal ended the program, and no file is left
half-written or beside the one that was wanted. Then the places of the source are counted that were
made to fail: what asks for memory, and what calls a function of jansson's that does.
QUIRE_FAULT_EVERY=1: every allocation, not only samples of those that one place makes; QUIRE_FAULT_SLOW=1:
benchmarks too, and a search on an adapter.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

QUIRE = os.path.abspath(sys.argv[1])
SOURCE = pathlib.Path(sys.argv[2]).resolve()
LIBRARY = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
CASES = SOURCE / "tests/data/cases"
EVERY = "QUIRE_FAULT_EVERY" in os.environ
SLOW = "QUIRE_FAULT_SLOW" in os.environ  # commands that take their time
ONLY = os.environ.get("QUIRE_FAULT_SCENARIO", "")
SAMPLES = 3  # of one place in one command
REAL = "--no-subgroups"  # with it not the library for tests
TIMED = ("bench", "tune")
LONG = {REAL, "sizes.json"}  # each run takes long: only what no other command has reached
SECONDS = 120 if SLOW else 20  # of a command with nothing failing; what it allocated until then counts

CALL = re.compile(r"\b(malloc|calloc|realloc|aligned_alloc|json_(?:array|deep_copy|integer|loadb|loads|object|pack|real"
                  r"|string|array_append_new|dumpf|dumps|dumpb|object_set|object_set_new|object_update))\(")
# What no command need reach: copies on a big-endian processor, and a choice that won in a search, by the clock.
UNREACHED = ("malloc(tensor->bytes + 1);\n  if (*copy)", "json_object_set_new(tunables,")

MANIFEST = """{"domain": "test", "name": "Scale", "sinceVersion": 1,
 "inputs": {"x": {"dtype": "float16", "rank": 1}}, "outputs": {"y": {"dtype": "float16", "shape": "shapes.x"}},
 "attributes": {"factor": {"default": 0.5}}, "derive": {"count": "dim(shapes.x, 0)"},
 "variants": [{"id": "only", "passes": [{"id": "first", "shader": "scale.wgsl.jinja", "dispatch": {"x": 1},
   "bindings": ["x", "y", {"name": "params", "struct": [{"name": "n", "type": "u32", "value": "count"}]}]}]}]}"""
REQUEST = """{"inputs": {"x": {"dtype": "float16", "shape": [6]}}, "attributes": {},
 "device": {"limits": {"maxBufferSize": 1000}, "features": ["shader-f16"]}}"""
WITHOUT = """{"inputs": {"x": {"dtype": "float16", "shape": [6]}}, "attributes": {}}"""
LIMITS = """{"limits": {"maxBufferSize": 70000}, "features": ["shader-f16"], "adapterInfo": {"vendor": "v", "x": 1}}"""
TUNING = """{"format": "quire-tuning", "version": 1, "entries": [{"operator": "a.B", "manifest": "1-0", "variant": "v",
 "adapter": "x", "class": "c", "tunables": {"wg": 64, "fast": true, "name": "n"}}]}"""
# More entries than a list of jansson's has room for before it asks for memory.
FULL_TUNING = json.dumps({**json.loads(TUNING), "entries": [
    {**json.loads(TUNING)["entries"][0], "class": f"c{i}"} for i in range(8)]})
BENCH = """{"format": 1, "notes": {}, "cases": [
 {"workload": "a", "case": "delta", "model": "m", "op": "gated_delta", "batch": 1, "tokens": 1, "q_heads": 1,
  "k_heads": 1, "v_heads": 2, "dk": 8, "dv": 8, "io_dtypes": ["f32"], "state_dtype": "f32", "states": 1},
 {"workload": "b", "case": "decode", "model": "m", "op": "decode", "q_heads": 2, "kv_heads": 1, "head_dim": 8,
  "contexts": [5, 9], "kv_dtypes": ["f32"], "block_size": 4},
 {"workload": "c", "case": "mixed", "model": "m", "op": "paged", "q_heads": 2, "kv_heads": 1, "head_dim": 8,
  "sequences": [[4, 3], [0, 5]], "kv_dtypes": ["f32"], "block_size": 4}]}"""
# As FULL_TUNING: ten rows, of five sizes for which the machine's bandwidth is measured in two ways.
SIZES = json.dumps({"format": 1, "notes": {}, "cases": [case for i in range(5) for case in (
    {"workload": "b", "case": f"decode{i}", "model": "m", "op": "decode", "q_heads": 1, "kv_heads": 1, "head_dim": 8,
     "contexts": [15000 << i], "kv_dtypes": ["f32"], "block_size": 16},
    {"workload": "a", "case": f"delta{i}", "model": "m", "op": "gated_delta", "batch": 1, "tokens": 1, "q_heads": 1,
     "k_heads": 1, "v_heads": 15 << i, "dk": 128, "dv": 128, "io_dtypes": ["f32"], "state_dtype": "f32",
     "states": 1})]})


def unaligned_case():
    """A case file whose attributes are no attributes, and whose numbers lie at odd places."""
    header = json.dumps({"__metadata__": {"op": "quire.MergeAttentionStates", "attributes": '{"scale": [1]}'},
                         "a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]},
                         "output_a": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]}}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + bytes(9)


def write_files(work):
    for name, text in (("m.json", MANIFEST), ("r.json", REQUEST), ("w.json", WITHOUT + " " * 70000),
                       ("l.json", LIMITS), ("t.json", TUNING), ("full.json", FULL_TUNING), ("b.json", BENCH),
                       ("sizes.json", SIZES), ("scale.wgsl.jinja", "// {{ count }}\n")):
        (work / name).write_text(text)
    (work / "odd.safetensors").write_bytes(unaligned_case())


def commands(work):
    """(arguments, the file that it writes or None)."""
    merge = CASES / "merge_attention_states/size_7_f32.safetensors"
    delta = CASES / "linear_attention/gated_delta.safetensors"
    refused = CASES / "linear_attention/bad_heads_3_2.safetensors"
    manifest, request = work / "m.json", work / "r.json"
    out = work / "out"
    yield ["run", merge, "-o", out], out
    yield ["run", work / "odd.safetensors"], None
    yield ["run", delta, "--attr", "scale=0.5", "--output", "output", "--dtype", "output=F32", "--tuning",
           work / "t.json"], None
    yield ["check", CASES / "merge_attention_states", refused], None
    yield ["check", merge, delta, "--strict"], None
    yield ["explain", manifest, "--request", request], None
    yield ["explain", manifest, "--request", request, "--format", "json", "--limits", work / "l.json"], None
    yield ["explain", manifest, "--request", work / "w.json", "--limits", work / "l.json"], None
    yield ["explain", "quire.MergeAttentionStates", "--case", merge, "--format", "json"], None
    yield ["explain", "com.microsoft.LinearAttention", "--case", delta, "--limits", work / "l.json"], None
    yield ["run", delta, "--attr", "scale=0.5", "--attr", "update_rule=gated_delta", "--attr", "unknown=5", "--attr",
           "other=text"], None
    yield ["explain", manifest, "--check-only"], None
    yield ["render", manifest, "--request", request], None
    yield ["lint", SOURCE / "tests/data/lint/warn_unused.json"], None
    for words in (["ops"], ["version"], ["devices"], ["help"]):
        yield words, None
    short = ["--seconds", "0.001", "--threads", "1"]
    yield ["bench", merge, *short], None
    if SLOW:
        yield ["bench", "--cases", work / "b.json", *short, "--json"], None
        yield ["bench", *[merge] * 9, *short, "--json"], None
        yield ["bench", "plan", "--threads", "1", "--json"], None
        yield ["bench", "same-bits", "--dtype", "f32"], None
        yield ["bench", "serving", "--threads", "1"], None
        yield ["bench", "--cases", work / "sizes.json", *short, "--mode", "warm", "--json"], None
    if LIBRARY:
        device = ["--device", "webgpu"]
        yield ["run", merge, "-o", out, *device], out
        yield ["explain", "com.microsoft.LinearAttention", "--case", delta, *device, "--format", "json"], None
        yield ["render", "com.microsoft.LinearAttention", "--case", delta, *device], None
        yield ["bench", merge, "--seconds", "0.001", *device, "--json"], None
        yield ["tune", "--case", delta, "--seconds", "0.001", *device, "-o", work / "tuned"], work / "tuned"
        if SLOW:
            yield ["bench", "--cases", work / "b.json", "--seconds", "0.001", *device, "--json"], None
            yield ["bench", "--cases", work / "sizes.json", "--seconds", "0.001", *device, "--json"], None
            # On an adapter, for the search goes on only while results are right.
            yield ["tune", "--case", delta, "--seconds", "0.001", "-o", work / "full.json", *device, REAL], None


def run(work, arguments, timeout=120, **order):
    environment = {**os.environ, **{f"QUIRE_FAULT_{key}": str(value) for key, value in order.items()}}
    if LIBRARY and REAL not in arguments:
        environment["QUIRE_WEBGPU_LIBRARY"] = LIBRARY
    try:
        return subprocess.run([QUIRE, *map(str, arguments)], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None


def choose(log):
    """Numbers of allocations: all of a place that makes few, else the first, the last and one between."""
    by_place = {}
    for number, place in enumerate(log, 1):
        by_place.setdefault(place, []).append(number)
    for numbers in by_place.values():
        if EVERY or len(numbers) <= SAMPLES:
            yield from numbers
        else:
            yield from (numbers[0], numbers[len(numbers) // 2], numbers[-1])


def fail(arguments, target, number, once):
    """What was wrong, or None."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_files(work)
        words = [pathlib.Path(folder) / word.name if isinstance(word, pathlib.Path) and word.parent == ROOT else word
                 for word in arguments]
        before = {path.name: path.read_bytes() for path in work.iterdir()}
        if target is not None and arguments[0] == "run":
            (work / target.name).write_bytes(b"old")
            before[target.name] = b"old"
        log = ROOT / f"log-{number}-{once}"
        done = run(work, words, AT=number, LOG=log, **({} if once else {"ALL": 1}))
        made = log.read_text().count("\n") if log.exists() else 0
        log.unlink(missing_ok=True)
        what = f"{' '.join(map(str, arguments[:2]))}: allocation {number}{' alone' if once else ''}: "
        if done is None:
            return what + "it never ends"
        error = done.stderr.decode("utf-8", "replace")
        if made < number and arguments[0] in TIMED and done.returncode == 0:
            return None  # by the clock fewer were made this time
        if done.returncode not in (1, 2) or not re.search("^quire:", error, re.MULTILINE):
            return what + f"exit {done.returncode}: {error[:200]!r}"
        after = {path.name: path.read_bytes() for path in work.iterdir()}
        if after != before:
            return what + f"files were {sorted(before)}, now {sorted(after)}"
    return None


def source_places():
    """(file, first line, last line, its text) of each."""
    for path in sorted((SOURCE / "tools/quire").glob("*.c")):
        text = path.read_text()
        for match in CALL.finditer(text):
            last = text.count("\n", 0, text.index(";", match.end())) + 1
            yield path.name, text.count("\n", 0, match.start()) + 1, last, text[match.start():]


def main():
    global ROOT
    faults, visited, count, allocations = [], set(), 0, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        ROOT = pathlib.Path(folder)
        write_files(ROOT)
        for arguments, target in commands(ROOT):
            if ONLY not in " ".join(map(str, arguments)):
                continue
            log = ROOT / "log"
            log.unlink(missing_ok=True)
            done = run(ROOT, arguments, timeout=SECONDS, LOG=log)
            if done is not None and not 0 <= done.returncode <= 3:
                faults.append(f"{arguments}: {done.stderr[:200]!r} with nothing failing")
            lines = log.read_text().splitlines() if log.exists() else []
            allocations += len(lines)
            numbers = list(choose(lines))
            if LONG.intersection(getattr(word, "name", word) for word in arguments):
                numbers = [lines.index(place) + 1 for place in sorted(set(lines) - visited)]
            jobs = [pool.submit(fail, arguments, target, number, once) for number in numbers
                    for once in (True, False)]
            found = [job.result() for job in jobs]
            print("".join(f"{fault}\n" for fault in found if fault), end="")
            faults += [fault for fault in found if fault]
            count += len(found)
            visited |= set(lines)
            print(f"{' '.join(str(getattr(word, 'name', word)) for word in arguments)[:70]:70} "
                  f"{len(lines):6} allocations {len(found):5} failures", flush=True)
    places = list(source_places())
    missed = [place for place in places
              if not any(f"{place[0]}:{line}" in visited for line in range(place[1], place[2] + 1))]
    for name, first, _, text in missed:
        print(f"tools/quire/{name}:{first}: never made to fail")
        if SLOW and LIBRARY and not text.startswith(UNREACHED):
            faults.append(f"{name}:{first}")
    print(f"{allocations} allocations, {count} failures, {len(faults)} not as they should be; "
          f"{len(places)} places in the source, {len(places) - len(missed)} visited")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
