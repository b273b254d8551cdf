#!/usr/bin/env python3
"""A small hybrid network: recurrent layers and an attention layer of Quire's, everything else the runtime's own.

    QUIRE_ONNXRUNTIME_LIBRARY=libquire_onnxruntime.so python hybrid_graph.py

Needs numpy, onnx and onnxruntime 1.32. Three layers: LinearAttention, PagedAttention, LinearAttention; each with
projections (MatMul), gates (Sigmoid, Softplus) and residuals (Add) that the runtime computes. The network reads a
prompt at once, then goes on token by token with its states and caches bound in place; then it reads the whole text
at once, from nothing. Both ways must agree, and each node must be where it belongs.
"""

import os
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, SIZE = 64, 4, 16
BLOCK_SIZE, BLOCKS = 16, 4
LAYERS = ["linear", "paged", "linear"]
PROMPT, STEPS = 21, 12
F16, I32 = TensorProto.FLOAT16, TensorProto.INT32


class Network:
    """Nodes, weights, inputs and outputs as they come up."""

    def __init__(self) -> None:
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.rng = np.random.default_rng(9)

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def project(self, x: str, name: str, rows: int, columns: int) -> str:
        data = (self.rng.standard_normal((rows, columns)) * rows**-0.5).astype(np.float16)
        return self.node("MatMul", [x, self.weight(name + "_weight", data)], name)

    def state(self, name: str, dtype: int, shape: list) -> tuple[str, str]:
        """Something that lives from step to step: an input and an output, to be bound to one buffer."""
        value = helper.make_tensor_value_info
        self.inputs.append(value(name, dtype, shape))
        self.outputs.append(value(name + "_out", dtype, shape))
        return name, name + "_out"

    def linear_layer(self, i: int, x: str) -> str:
        """Gated delta rule; one state of SIZE x SIZE for each head, kept in float32."""
        batched = self.node("Unsqueeze", [x, self.weight(f"axis_{i}", np.array([0], np.int64))], f"batched_{i}")
        parts = [self.project(batched, f"{n}_{i}", WIDTH, WIDTH) for n in ("query", "key", "value")]
        # Unit keys, decay below 0, beta in (0, 1): all by nodes of the runtime.
        split = self.weight(f"split_{i}", np.array([0, 0, HEADS, SIZE], np.int64))
        joined = self.weight(f"joined_{i}", np.array([0, 0, WIDTH], np.int64))
        heads = self.node("Reshape", [parts[1], split], f"key_heads_{i}")
        unit = self.node("LpNormalization", [heads], f"unit_{i}", axis=-1, p=2)
        parts[1] = self.node("Reshape", [unit, joined], f"unit_key_{i}")
        raw = self.node("Softplus", [self.project(batched, f"raw_decay_{i}", WIDTH, HEADS)], f"soft_{i}")
        decay = self.node("Neg", [raw], f"decay_{i}")
        beta = self.node("Sigmoid", [self.project(batched, f"raw_beta_{i}", WIDTH, HEADS)], f"beta_{i}")
        past, present = self.state(f"state_{i}", TensorProto.FLOAT, [1, HEADS, SIZE, SIZE])
        self.nodes.append(helper.make_node(
            "LinearAttention", [*parts, past, decay, beta], [f"attended_{i}", present], name=f"/layers.{i}/recurrence",
            domain="com.microsoft", q_num_heads=HEADS, kv_num_heads=HEADS, update_rule="gated_delta"))
        axis = self.weight(f"back_axis_{i}", np.array([0], np.int64))
        return self.node("Squeeze", [f"attended_{i}", axis], f"flat_{i}")

    def paged_layer(self, i: int, x: str) -> str:
        shape = [BLOCKS, BLOCK_SIZE, HEADS, SIZE]
        key, value = self.state(f"key_cache_{i}", F16, shape), self.state(f"value_cache_{i}", F16, shape)
        parts = [self.project(x, f"{n}_{i}", WIDTH, WIDTH) for n in ("query", "key", "value")]
        self.nodes.append(helper.make_node(
            "PagedAttention", [*parts, key[0], value[0], "new_tokens_before", "cached_tokens", "block_table"],
            [f"flat_{i}", key[1], value[1]], name=f"/layers.{i}/attention", domain="com.microsoft",
            num_heads=HEADS, kv_num_heads=HEADS))
        return f"flat_{i}"


def make_model() -> bytes:
    net, x = Network(), "hidden"
    for i, kind in enumerate(LAYERS):
        flat = net.linear_layer(i, x) if kind == "linear" else net.paged_layer(i, x)
        x = net.node("Add", [x, net.project(flat, f"out_{i}", WIDTH, WIDTH)], f"hidden_{i}")
    value = helper.make_tensor_value_info
    net.inputs += [value("hidden", F16, ["tokens", WIDTH]), value("new_tokens_before", I32, [2]),
                   value("cached_tokens", I32, [1]), value("block_table", I32, [1, BLOCKS])]
    net.outputs.append(value(x, F16, ["tokens", WIDTH]))
    graph = helper.make_graph(net.nodes, "hybrid", net.inputs, net.outputs, initializer=net.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


class Sequence:
    """One text: its states, its caches, and how many tokens they hold."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self.session, self.cached = session, 0
        self.states = {
            i.name: ort.OrtValue.ortvalue_from_numpy(
                np.zeros(i.shape, np.float32 if "float)" in i.type else np.float16))
            for i in session.get_inputs() if i.name + "_out" in {o.name for o in session.get_outputs()}
        }

    def step(self, hidden: np.ndarray) -> np.ndarray:
        binding = self.session.io_binding()
        for name, state in self.states.items():
            binding.bind_ortvalue_input(name, state)
            binding.bind_ortvalue_output(name + "_out", state)
        binding.bind_cpu_input("hidden", hidden)
        binding.bind_cpu_input("new_tokens_before", np.array([0, len(hidden)], np.int32))
        binding.bind_cpu_input("cached_tokens", np.array([self.cached], np.int32))
        binding.bind_cpu_input("block_table", np.array([[2, 0, 3, 1]], np.int32))
        last = self.session.get_outputs()[-1].name
        binding.bind_output(last)
        self.session.run_with_iobinding(binding)
        self.cached += len(hidden)
        return binding.get_outputs()[-1].numpy()


def main() -> None:
    # With the Python package: quire.onnxruntime.add_to(options)
    library = os.path.abspath(os.environ["QUIRE_ONNXRUNTIME_LIBRARY"])
    ort.register_execution_provider_library("quire", library)
    device = next(d for d in ort.get_ep_devices() if d.ep_name == "QuireExecutionProvider")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3  # one warning says that other nodes stay with the runtime, as they should
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices([device], {})
    session = ort.InferenceSession(make_model(), options)

    placed: dict[str, list[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        placed.setdefault(part.ep_name, []).extend(n.op_type for n in part.get_nodes())
    for name, types in placed.items():
        print(f"{name}: {', '.join(f'{types.count(t)} {t}' for t in dict.fromkeys(types))}")

    text = np.random.default_rng(4).standard_normal((PROMPT + STEPS, WIDTH)).astype(np.float16)
    stepped = Sequence(session)
    rows = [stepped.step(text[:PROMPT])] + [stepped.step(text[i : i + 1]) for i in range(PROMPT, len(text))]
    at_once = Sequence(session)
    difference = np.abs(np.concatenate(rows).astype(np.float64) - at_once.step(text)).max()
    print(f"prompt of {PROMPT} and {STEPS} steps against {len(text)} tokens at once: differ by at most {difference:.1e}")
    if sorted(placed["QuireExecutionProvider"]) != ["LinearAttention", "LinearAttention", "PagedAttention"]:
        sys.exit("a node is not where it belongs")
    if not difference < 2e-2:
        sys.exit("the two ways do not agree")


if __name__ == "__main__":
    main()
