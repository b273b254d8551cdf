"""Times of calls, beside other processes, and what a peer offers to be timed."""
import gc
import os
import time

BUSY = 0.10  # of one CPU


def cpu_ticks():
    """(seconds that all CPUs were busy, seconds of this process's threads), or None off Linux."""
    try:
        with open("/proc/stat") as f:
            x = [int(y) for y in f.readline().split()[1:9]]
    except OSError:
        return None
    return (sum(x) - x[3] - x[4]) / os.sysconf("SC_CLK_TCK"), time.process_time()


def others(before, seconds):
    """CPUs' worth of work that other processes did since `before`; 0 where that cannot be told."""
    now = cpu_ticks()
    if before is None or now is None or seconds <= 0:
        return 0.0
    return max(0.0, (now[0] - before[0]) - (now[1] - before[1])) / seconds


def measure(call, budget, patience=0.0):
    """(times of single calls in microseconds, load of other processes meanwhile).

    With `patience`, waits up to that many seconds for the rest of the machine to be quiet, and measures
    again as long as it was not; the quietest attempt counts."""
    clock, t0, n = time.perf_counter_ns, time.perf_counter(), 0
    while n < 3 or (time.perf_counter() - t0 < 0.05 and n < 1000):
        call()
        n += 1
    deadline, best = time.perf_counter() + patience, None
    while True:
        while time.perf_counter() < deadline:
            before, t = cpu_ticks(), time.perf_counter()
            time.sleep(0.1)
            if others(before, time.perf_counter() - t) <= BUSY:
                break
        call()
        gc.collect()
        gc.disable()
        before, start = cpu_ticks(), time.perf_counter()
        times, end = [], start + budget
        while len(times) < 7 or (time.perf_counter() < end and len(times) < 20000):
            a = clock()
            call()
            times.append((clock() - a) * 1e-3)
        load = others(before, time.perf_counter() - start)
        gc.enable()
        if best is None or load < best[1]:
            best = times, load
        if best[1] <= BUSY or time.perf_counter() >= deadline:
            return best


class Variant:
    """One way a peer runs one case. `call()` does one timed call, `check()` returns [(got, want)] and is
    asked once, after the first call. `note` is text for the table."""

    def __init__(self, dtype, variant, call, check, note=""):
        self.dtype, self.variant, self.call, self.check, self.note = dtype, variant, call, check, note


def rotate(calls):
    """One callable that does the next of `calls` at each call."""
    if len(calls) == 1:
        return calls[0]
    state = [0]

    def go():
        i = state[0]
        calls[i]()
        state[0] = i + 1 if i + 1 < len(calls) else 0
    return go
