#!/usr/bin/env python3
"""A model of one PagedAttention node, stepped over caches that stay where they are.

    QUIRE_ONNXRUNTIME_LIBRARY=libquire_onnxruntime.so python bound_caches.py

Needs numpy, onnx and onnxruntime 1.23 or later. Outputs of the caches are bound to the very buffers of their inputs,
so that each step writes its new rows and copies nothing.
"""

import os
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

HEADS, KV_HEADS, SIZE, BLOCK_SIZE, BLOCKS, STEPS = 8, 2, 32, 16, 8, 40


def make_model() -> bytes:
    value = helper.make_tensor_value_info
    f16, i32 = TensorProto.FLOAT16, TensorProto.INT32
    cache = ["blocks", BLOCK_SIZE, KV_HEADS, SIZE]
    inputs = [
        value("query", f16, ["tokens", HEADS * SIZE]),
        value("key", f16, ["tokens", KV_HEADS * SIZE]),
        value("value", f16, ["tokens", KV_HEADS * SIZE]),
        value("key_cache", f16, cache),
        value("value_cache", f16, cache),
        value("new_tokens_before", i32, ["sequences_plus_one"]),
        value("cached_tokens", i32, ["sequences"]),
        value("block_table", i32, ["sequences", "columns"]),
    ]
    outputs = [
        value("output", f16, ["tokens", HEADS * SIZE]),
        value("key_cache_out", f16, cache),
        value("value_cache_out", f16, cache),
    ]
    node = helper.make_node(
        "PagedAttention",
        [i.name for i in inputs],
        [o.name for o in outputs],
        name="attention",
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
    )
    graph = helper.make_graph([node], "one_node", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def attend(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One query of every head over dense keys and values, in float64."""
    out = []
    for head in range(HEADS):
        k, v = (x[:, head // (HEADS // KV_HEADS)].astype(np.float64) for x in (keys, values))
        scores = k @ query[head].astype(np.float64) / np.sqrt(SIZE)
        weight = np.exp(scores - scores.max())
        out.append(weight @ v / weight.sum())
    return np.concatenate(out)


def main() -> None:
    # With the Python package: quire.onnxruntime.add_to(options)
    library = os.path.abspath(os.environ["QUIRE_ONNXRUNTIME_LIBRARY"])
    ort.register_execution_provider_library("quire", library)
    device = next(d for d in ort.get_ep_devices() if d.ep_name == "QuireExecutionProvider")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_provider_for_devices([device], {})
    session = ort.InferenceSession(make_model(), options)

    rng = np.random.default_rng(3)
    blocks = rng.permutation(BLOCKS).astype(np.int32)
    shape = (BLOCKS, BLOCK_SIZE, KV_HEADS, SIZE)
    caches = {n: ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float16)) for n in ("key_cache", "value_cache")}
    addresses = {n: c.data_ptr() for n, c in caches.items()}
    history: dict[str, list[np.ndarray]] = {"key": [], "value": []}

    worst = 0.0
    for step in range(STEPS):
        new = {n: rng.standard_normal((1, h * SIZE)).astype(np.float16)
               for n, h in (("query", HEADS), ("key", KV_HEADS), ("value", KV_HEADS))}
        new["new_tokens_before"] = np.array([0, 1], np.int32)
        new["cached_tokens"] = np.array([step], np.int32)
        new["block_table"] = blocks[None]
        binding = session.io_binding()
        binding.bind_output("output")
        for name, array in new.items():
            binding.bind_cpu_input(name, array)
        for name, cache in caches.items():
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(f"{name}_out", cache)
        session.run_with_iobinding(binding)

        for name in history:
            history[name].append(new[name].reshape(KV_HEADS, SIZE))
        want = attend(new["query"].reshape(HEADS, SIZE), np.stack(history["key"]), np.stack(history["value"]))
        worst = max(worst, float(np.abs(binding.get_outputs()[0].numpy()[0] - want).max()))

    # The caches hold every row, in the block that the table names, and never moved.
    row = caches["key_cache"].numpy()[blocks[(STEPS - 1) // BLOCK_SIZE], (STEPS - 1) % BLOCK_SIZE]
    in_place = all(c.data_ptr() == addresses[n] for n, c in caches.items())
    print(f"{STEPS} steps, largest difference from a dense computation {worst:.1e}, caches in place: {in_place}")
    if worst > 2e-3 or not in_place or (row != history["key"][-1]).any():
        sys.exit("the result is wrong")


if __name__ == "__main__":
    main()
