"""What a call costs from Python, without its arithmetic: microseconds for one-token calls.

usage: python bench/python_calls.py [--json FILE]

Each line is the best of many short rounds, on one thread: one that nobody disturbed. "typed" passes arrays on every
call; "allocating" makes the outputs too; "bound" repeats a plan with its tensors; "prepared" is a
bound call behind prepare(). Targets: 25 us typed, 5 us bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import quire


def paged(array: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One token of one sequence: tensors and attributes."""
    row = np.ones((1, 16), np.float32)
    cache = np.zeros((2, 4, 1, 16), np.float32)
    tensors = {
        "query": row,
        "key": row.copy(),
        "value": row.copy(),
        "key_cache": cache,
        "value_cache": cache.copy(),
        "cumulative_sequence_length": np.array([0, 1], np.int32),
        "past_seqlens": np.array([0], np.int32),
        "block_table": np.array([[1, 0]], np.int32),
    }
    return {name: array(value) for name, value in tensors.items()}, {
        "num_heads": 1,
        "kv_num_heads": 1,
    }


def linear(array: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    row = np.ones((1, 1, 8), np.float32)
    tensors = {
        "query": row,
        "key": row.copy(),
        "value": row.copy(),
        "past_state": np.zeros((1, 1, 8, 8), np.float32),
        "decay": np.zeros((1, 1, 1), np.float32),
        "beta": np.ones((1, 1, 1), np.float32),
    }
    return {name: array(value) for name, value in tensors.items()}, {
        "q_num_heads": 1,
        "kv_num_heads": 1,
    }


def best(call: Callable[[], Any], count: int = 100) -> float:
    """Microseconds a call."""
    call()
    return min(timeit.repeat(call, number=count, repeat=400)) / count * 1e6


def measure(device: quire.Device, array: Callable[[Any], Any], suffix: str) -> dict[str, float]:
    found: dict[str, float] = {}
    cases = (
        ("paged_attention", "PagedAttention", quire.paged_attention, paged),
        ("linear_attention", "com.microsoft.LinearAttention", quire.linear_attention, linear),
    )
    for name, operator, function, make in cases:
        tensors, attributes = make(array)
        made = function(**tensors, **attributes, device=device)
        outputs = (
            {"output": made}
            if name == "paged_attention"
            else {"output": made[0], "present_state": made[1]}
        )
        found[f"{name} typed{suffix}"] = best(
            lambda: function(**tensors, **outputs, **attributes, device=device)
        )
        found[f"{name} allocating{suffix}"] = best(
            lambda: function(**tensors, **attributes, device=device)
        )
        plan = quire.Plan(operator, tensors, attributes, outputs=list(outputs), device=device)
        bound = plan.bind({**tensors, **outputs})
        found[f"{name} bound{suffix}"] = best(bound)
        bound.prepare()
        found[f"{name} prepared{suffix}"] = best(lambda: bound(prepared=True))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    device = quire.Device(threads=1)
    found = measure(device, lambda values: values, "")
    try:
        import torch
    except ImportError:
        pass
    else:
        found.update(measure(device, torch.from_numpy, ", torch"))
    for name, microseconds in found.items():
        print(f"{microseconds:8.2f} us  {name}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
