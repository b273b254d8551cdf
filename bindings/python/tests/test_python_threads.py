"""Several threads, the interpreter's lock, forked children."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import quire


def large_call():
    """A prefill that takes a good part of a second on one core."""
    tokens, width = 1536, 8 * 128
    random = np.random.default_rng(0)
    query, key, value = (
        random.standard_normal((tokens, width), dtype=np.float32) for _ in range(3)
    )
    cache = np.zeros((tokens // 64, 64, 8, 128), np.float32)
    tensors = {
        "query": query, "key": key, "value": value,
        "key_cache": cache, "value_cache": cache.copy(),
        "cumulative_sequence_length": np.array([0, tokens], np.int32),
        "past_seqlens": np.zeros(1, np.int32),
        "block_table": np.arange(tokens // 64, dtype=np.int32)[None],
    }  # fmt: skip
    return tensors, {"num_heads": 8, "kv_num_heads": 8}


def tenths_with_turns(call):
    """In how many tenths of a call's time another thread ran Python."""
    span, stamps = [], []

    def compute():
        span.append(time.perf_counter())
        call()
        span.append(time.perf_counter())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        worker = threading.Thread(target=compute)
        worker.start()
        while len(span) < 2:
            stamps.append(time.perf_counter())
        worker.join()
    finally:
        sys.setswitchinterval(before)
    begin, end = span
    return len({int((s - begin) / (end - begin) * 10) for s in stamps if begin < s < end})


def test_the_interpreter_s_lock_is_released():
    """Another thread runs Python while a call computes. If the lock were held, it could run only
    before the call proper begins and after it ends: in the first and the last tenth."""
    tensors, attributes = large_call()
    device = quire.Device(threads=1)
    found = []
    while len(found) < 5 and (not found or found[-1] < 5):  # a busy machine may starve a thread
        found.append(
            tenths_with_turns(lambda: quire.paged_attention(**tensors, **attributes, device=device))
        )
    assert found[-1] >= 5, found


@pytest.mark.parametrize("shared", ["device", "workspace", "bound", "plan"])
def test_many_threads(make_paged, shared):
    device, workspace = quire.Device(threads=2), quire.Workspace()
    example = make_paged()
    want = quire.paged_attention(**example.arguments())
    plan = quire.Plan("com.microsoft.PagedAttention", example.tensors(), example.attributes)
    bound = plan.bind(example.tensors())

    def work(_):
        paged = make_paged()
        for _ in range(50):
            if shared == "device":
                found = quire.paged_attention(**paged.arguments(), device=device)
            elif shared == "workspace":
                found = quire.paged_attention(**paged.arguments(), workspace=workspace)
            elif shared == "plan":
                found = plan.run(paged.tensors())["output"]
            else:
                found = bound()["output"]
            np.testing.assert_array_equal(found, want)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_closing_while_others_compute(make_paged):
    """A handle lives as long as a call uses it."""

    def work(_):
        for _ in range(40):
            device = quire.Device(threads=1)
            paged = make_paged()
            plan = quire.Plan("PagedAttention", paged.tensors(), paged.attributes, device=device)
            bound = plan.bind(paged.tensors())
            closers = [threading.Thread(target=c.close) for c in (plan, device, bound.workspace)]
            for closer in closers:
                closer.start()
            bound()
            for closer in closers:
                closer.join()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_errors_of_threads_do_not_meet(make_paged):
    def work(number):
        paged = make_paged()
        for _ in range(100):
            with pytest.raises(quire.BadShape, match=f"{40 + number} =="):
                wrong = np.zeros((4, 40 + number), np.float32)
                quire.paged_attention(**paged.arguments(query=wrong))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


FORK = """
import os, sys
sys.path.insert(0, {tests!r})
import numpy as np, quire
from conftest import Paged
paged = Paged()
device = quire.Device(threads=2)
plan = quire.Plan("PagedAttention", paged.tensors(), paged.attributes, device=device)
bound = plan.bind(paged.tensors())
want = quire.paged_attention(**paged.arguments())
child = os.fork()
if child == 0:
    refused = 0
    for use in (bound, lambda: plan.variant, lambda: quire.paged_attention(**paged.arguments(), device=device)):
        try:
            use()
        except quire.BadRequest as error:
            refused += "fork" in str(error)
    found = quire.paged_attention(**paged.arguments())
    del bound, plan, device
    sys.exit(0 if refused == 3 and np.array_equal(found, want) else 1)
_, status = os.waitpid(child, 0)
bound()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_begins_anew():
    folder = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK.format(tests=folder)],
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 0
