#!/usr/bin/env python3
"""onnxruntime-genai's engine for continuous batching on the CPU, through Quire's provider.

    python genai_engine.py [FOLDER] [--without-quire]

Needs numpy, onnx, onnxruntime-genai 0.18, and the package quire-attn, or the provider's library alone, named by
QUIRE_ONNXRUNTIME_LIBRARY. The script builds a small model with paged caches (random weights; two
layers of PagedAttention between nodes of the runtime's own), writes it to FOLDER with the configuration that names
the provider, gives the engine several requests at once, and compares every token with a dense computation in NumPy.

Without the provider the engine cannot load the model: the runtime has no PagedAttention on the CPU.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime_genai as og
from onnx import TensorProto, helper, numpy_helper

PROVIDER = "QuireExecutionProvider"
VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, SIZE = 96, 64, 2, 4, 2, 16
INNER = 128
BLOCK_SIZE, BLOCKS, MOST_REQUESTS, CONTEXT = 16, 64, 4, 256
END = 0  # the token that would end a text
PROMPTS = [[5, 17, 80, 3, 44], list(range(1, 40)), [90], list(range(60, 80)), [33, 12, 61]]
NEW_TOKENS = [18, 9, 24, 12, 15]


# ---- the model ----


def make_weights() -> dict[str, np.ndarray]:
    """Float16, scaled so that activations stay near 1."""
    rng = np.random.default_rng(22)
    shapes = {"embedding": (VOCABULARY, WIDTH), "head": (WIDTH, VOCABULARY)}
    for i in range(LAYERS):
        shapes[f"query_{i}"] = (WIDTH, HEADS * SIZE)
        shapes[f"key_{i}"] = shapes[f"value_{i}"] = (WIDTH, KV_HEADS * SIZE)
        shapes[f"output_{i}"] = (HEADS * SIZE, WIDTH)
        shapes[f"up_{i}"], shapes[f"down_{i}"] = (WIDTH, INNER), (INNER, WIDTH)
    weights = {}
    for name, shape in shapes.items():
        scale = 1 if name == "embedding" else 2 * shape[0] ** -0.5
        weights[name] = (scale * rng.standard_normal(shape)).astype(np.float16)
    weights["head"][:, END] = 0  # never the likeliest: texts get as long as they may
    return weights


def layer_nodes(i: int) -> list[onnx.NodeProto]:
    """Attention and a small network, each with what came in added; the runtime computes all but one node."""
    node = helper.make_node
    products = [node("MatMul", [f"x_{i}", f"{n}_{i}"], [f"{n}_of_{i}"]) for n in ("query", "key", "value")]
    attention = node(
        "PagedAttention",
        [f"query_of_{i}", f"key_of_{i}", f"value_of_{i}", f"past_key_values.{i}.key", f"past_key_values.{i}.value",
         "cumulative_sequence_lengths", "past_sequence_lengths", "block_table"] + [""] * 8 + ["attention_metadata"],
        [f"attended_{i}", f"present.{i}.key", f"present.{i}.value"],
        name=f"/layers.{i}/attention",
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
    )
    return [
        *products,
        attention,
        node("MatMul", [f"attended_{i}", f"output_{i}"], [f"projected_{i}"]),
        node("Add", [f"x_{i}", f"projected_{i}"], [f"y_{i}"]),
        node("MatMul", [f"y_{i}", f"up_{i}"], [f"inner_{i}"]),
        node("Tanh", [f"inner_{i}"], [f"bent_{i}"]),
        node("MatMul", [f"bent_{i}", f"down_{i}"], [f"down_of_{i}"]),
        node("Add", [f"y_{i}", f"down_of_{i}"], [f"x_{i + 1}"]),
    ]


def make_model(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    cache = ["num_blocks", BLOCK_SIZE, KV_HEADS, SIZE]
    inputs = [
        value("input_ids", TensorProto.INT64, ["num_tokens"]),
        value("cumulative_sequence_lengths", TensorProto.INT32, ["batch_plus_one"]),
        value("past_sequence_lengths", TensorProto.INT32, ["batch"]),
        value("block_table", TensorProto.INT32, ["batch", "columns"]),
        value("attention_metadata", TensorProto.INT32, [3]),
    ]
    outputs = [value("logits", TensorProto.FLOAT16, ["num_tokens", VOCABULARY])]
    nodes = [helper.make_node("Gather", ["embedding", "input_ids"], ["x_0"])]
    for i in range(LAYERS):
        for part in ("key", "value"):
            inputs.append(value(f"past_key_values.{i}.{part}", TensorProto.FLOAT16, cache))
            outputs.append(value(f"present.{i}.{part}", TensorProto.FLOAT16, cache))
        nodes += layer_nodes(i)
    nodes.append(helper.make_node("MatMul", [f"x_{LAYERS}", "head"], ["logits"]))
    held = [numpy_helper.from_array(data, name) for name, data in weights.items()]
    graph = helper.make_graph(nodes, "paged", inputs, outputs, initializer=held)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def configuration(provider: bool) -> dict:
    """genai_config.json: the engine's sizes, and the provider by its name."""
    decoder = {
        "filename": "model.onnx",
        "head_size": SIZE,
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "session_options": {"intra_op_num_threads": 2, "provider_options": [{PROVIDER: {}}] if provider else []},
        "inputs": {
            "input_ids": "input_ids",
            "cumulative_sequence_lengths": "cumulative_sequence_lengths",
            "past_sequence_lengths": "past_sequence_lengths",
            "block_table": "block_table",
            "attention_metadata": "attention_metadata",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }
    return {
        "model": {
            "type": "llama",
            "bos_token_id": 1,
            "eos_token_id": END,
            "pad_token_id": END,
            "vocab_size": VOCABULARY,
            "context_length": CONTEXT,
            "decoder": decoder,
        },
        "search": {"max_length": CONTEXT, "do_sample": False},
        "engine": {
            "dynamic_batching": {
                "block_size": BLOCK_SIZE,
                "num_blocks": BLOCKS,
                "max_batch_size": MOST_REQUESTS,
            }
        },
    }


# ---- the dense computation ----


def dense_logits(weights: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """Logits of the last token, from the whole text, in float64."""
    w = {name: data.astype(np.float64) for name, data in weights.items()}
    x = w["embedding"][tokens]
    visible = np.tril(np.ones((len(tokens), len(tokens)), bool))
    for i in range(LAYERS):
        parts = [(x @ w[f"{n}_{i}"]).reshape(len(tokens), -1, SIZE) for n in ("query", "key", "value")]
        query, key, value = (p.repeat(HEADS // p.shape[1], axis=1).transpose(1, 0, 2) for p in parts)
        scores = np.where(visible, query @ key.transpose(0, 2, 1) / np.sqrt(SIZE), -np.inf)
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (weight / weight.sum(-1, keepdims=True)) @ value
        x = x + attended.transpose(1, 0, 2).reshape(len(tokens), -1) @ w[f"output_{i}"]
        x = x + np.tanh(x @ w[f"up_{i}"]) @ w[f"down_{i}"]
    return x[-1] @ w["head"]


def dense_tokens(weights: dict[str, np.ndarray], prompt: list[int], count: int) -> tuple[list[int], float]:
    """The likeliest token again and again; and by how much the closest decision was taken."""
    tokens, margin = list(prompt), np.inf
    while len(tokens) < len(prompt) + count:
        logits = dense_logits(weights, tokens)
        second, first = np.sort(logits)[-2:]
        margin = min(margin, first - second)
        tokens.append(int(np.argmax(logits)))
    return tokens[len(prompt) :], margin


# ---- the engine ----


def generate(folder: Path) -> list[list[int]]:
    engine = og.Engine(og.Model(str(folder)))
    results: list[list[int]] = [[] for _ in PROMPTS]
    requests = []
    for prompt, count in zip(PROMPTS, NEW_TOKENS):
        request = engine.create_request()
        turn = og.TurnOptions(request)
        turn.set_do_sample(False)
        turn.set_max_generated_tokens(count)
        request.begin_turn(np.array(prompt, np.int32), turn)
        requests.append(request)
    events = engine.create_event_buffer(64)
    steps = 0
    while engine.has_pending_requests():
        for event in engine.run(events):
            if event.flags & og.EngineEventFlags.FAILED:
                sys.exit(f"a request failed: {event.error_code}")
            if event.request is None:
                continue  # a request waits for room in the batch
            if event.flags & og.EngineEventFlags.TOKEN:
                results[next(i for i, r in enumerate(requests) if r is event.request)].append(event.token)
            if event.flags & og.EngineEventFlags.TURN_FINISHED:
                event.request.close()  # which makes room for the next
        steps += 1
    print(f"{len(requests)} requests, {sum(map(len, results))} tokens in {steps} calls of the engine")
    return results


def run(folder: Path, provider: bool) -> None:
    weights = make_weights()
    onnx.save(make_model(weights), folder / "model.onnx")
    (folder / "genai_config.json").write_text(json.dumps(configuration(provider), indent=2))
    got = generate(folder)
    for i, (prompt, count) in enumerate(zip(PROMPTS, NEW_TOKENS)):
        want, margin = dense_tokens(weights, prompt, count)
        if got[i] != want:
            sys.exit(f"request {i}: expected {want}\ngot {got[i]}\nclosest decision by {margin:.4f}")
        print(f"request {i}: {len(prompt):2d} + {len(want):2d} tokens, closest decision by {margin:.3f}: {want[:9]}")
    print("every token equals the dense reference")


def register_provider() -> None:
    """With the Python package two lines do; without it the library has to be named."""
    if "QUIRE_ONNXRUNTIME_LIBRARY" in os.environ:
        library = os.path.abspath(os.environ["QUIRE_ONNXRUNTIME_LIBRARY"])
        og.register_execution_provider_library("quire", library)
    else:
        import quire.onnxruntime

        quire.onnxruntime.register_genai()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the model goes; a temporary one by default")
    parser.add_argument("--without-quire", action="store_true", help="leave the provider away, and see the refusal")
    options = parser.parse_args()
    if not options.without_quire:
        register_provider()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        run(options.folder, not options.without_quire)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), not options.without_quire)


if __name__ == "__main__":
    main()
