#!/usr/bin/env python3
"""Writes the case files of scripts/demo into tests/data/demo.

Needs numpy. The expected results are float64 evaluations of the definitions (docs/paged_attention.md
section 4, docs/linear_attention.md section 4), rounded once. The files are committed; run this again
only to change them.
"""

import json
import math
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "demo"
SEED = 20240531
NAMES = {"float32": "F32", "float16": "F16", "int32": "I32"}


def write_case(name, metadata, tensors):
    """Writes a safetensors file: largest elements first, so that every tensor is aligned."""
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for key, array in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
        blob = np.ascontiguousarray(array).tobytes()
        header[key] = {"dtype": NAMES[str(array.dtype)], "shape": list(array.shape),
                       "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (FOLDER / f"{name}.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + b"".join(blobs))


def tolerance(exact, dtype, noise):
    """One unit in the last place for float16, and the noise of float32 sums."""
    return {"atol": float(noise * np.abs(exact).max()), "rtol": 1e-5 if dtype == np.float32 else 2.0**-10}


# ---- paged attention ----


def paged_attention(random):
    heads, kv_heads, size, rows = 8, 2, 64, 16
    #            new tokens, past tokens, shares the prefix (two blocks)
    sequences = [(37, 0, False), (24, 32, True), (1, 61, True), (1, 100, True), (1, 150, False)]
    new = [sequence[0] for sequence in sequences]
    past = np.array([sequence[1] for sequence in sequences], np.int32)
    cumulative = np.concatenate([[0], np.cumsum(new)]).astype(np.int32)
    tokens = int(cumulative[-1])

    prefix_blocks = 2
    own = [math.ceil((n + p) / rows) - prefix_blocks * shares for n, p, shares in sequences]
    blocks = prefix_blocks + sum(own) + 2
    order = [int(block) for block in random.permutation(blocks)]
    prefix = [order.pop() for _ in range(prefix_blocks)]
    lists = [(prefix if shares else []) + [order.pop() for _ in range(count)]
             for count, (_, _, shares) in zip(own, sequences)]
    # Entries beyond the live length are garbage that must never be used.
    table = np.full((len(sequences), max(map(len, lists)) + 1), 9999, np.int32)
    for row, ids in zip(table, lists):
        row[: len(ids)] = ids

    draw = lambda *shape: random.standard_normal(shape).astype(np.float16)
    query, key, value = draw(tokens, heads * size), draw(tokens, kv_heads * size), draw(tokens, kv_heads * size)
    # Rows that hold no token are NaN: whoever reads one shows it.
    key_cache = np.full((blocks, rows, kv_heads, size), np.nan, np.float16)
    value_cache = key_cache.copy()
    for ids, length in zip(lists, past):
        for position in range(length):
            place = ids[position // rows], position % rows
            if np.isnan(key_cache[place][0, 0]):
                key_cache[place], value_cache[place] = draw(kv_heads, size), draw(kv_heads, size)

    key_out, value_out = key_cache.copy(), value_cache.copy()
    for b, ids in enumerate(lists):
        for i in range(new[b]):
            position, token = past[b] + i, cumulative[b] + i
            place = ids[position // rows], position % rows
            key_out[place] = key[token].reshape(kv_heads, size)
            value_out[place] = value[token].reshape(kv_heads, size)

    output = np.zeros((tokens, heads, size))
    for b, ids in enumerate(lists):
        keys = key_out[ids].astype(np.float64).reshape(-1, kv_heads, size)
        values = value_out[ids].astype(np.float64).reshape(-1, kv_heads, size)
        for i in range(new[b]):
            visible, token = past[b] + i + 1, cumulative[b] + i
            for head in range(heads):
                shared = head // (heads // kv_heads)
                q = query[token].reshape(heads, size)[head].astype(np.float64)
                score = keys[:visible, shared] @ q / math.sqrt(size)
                weight = np.exp(score - score.max())
                output[token, head] = weight @ values[:visible, shared] / weight.sum()
    output = output.reshape(tokens, -1)

    exact = {"atol": 0, "rtol": 0}
    write_case("paged_attention_ragged", {
        "op": "com.microsoft.PagedAttention",
        "attributes": json.dumps({"num_heads": heads, "kv_num_heads": kv_heads}),
        "tolerance": json.dumps({"output": tolerance(output, np.float16, 2e-6),
                                 "key_cache_out": exact, "value_cache_out": exact}),
        "note": "two prefills (37 new tokens; 24 after a shared prefix of 32), three decodes, two of "
                "them after the same prefix",
    }, {
        "query": query, "key": key, "value": value, "key_cache": key_cache,
        "value_cache": value_cache, "cumulative_sequence_length": cumulative, "past_seqlens": past,
        "block_table": table, "expect.output": output.astype(np.float16),
        "expect.key_cache_out": key_out, "expect.value_cache_out": value_out,
    })


# ---- gated delta: prefill, verification of a draft, rollback ----

BATCH, HEADS, STATE_HEADS, KEY, VALUE, WINDOW = 2, 1, 2, 32, 32, 4


def gated_delta(tokens, state):
    """Returns outputs [B,T,Hkv,dv] and the state after each token [T,B,Hkv,dk,dv], in float64."""
    outputs, states = [], []
    query, key, value, decay, beta = (part.astype(np.float64) for part in tokens)
    for t in range(query.shape[1]):
        k, q = (np.repeat(part[:, t].reshape(BATCH, HEADS, KEY), STATE_HEADS // HEADS, 1)
                for part in (key, query))
        v = value[:, t].reshape(BATCH, STATE_HEADS, VALUE)
        state = state * np.exp(decay[:, t])[:, :, None, None]
        change = beta[:, t, :, None] * (v - np.einsum("bhij,bhi->bhj", state, k))
        state = state + k[..., None] * change[:, :, None, :]
        outputs.append(np.einsum("bhij,bhi->bhj", state, q) / math.sqrt(KEY))
        states.append(state)
    return np.stack(outputs, 1), np.stack(states)


def draw_tokens(random, count):
    query = random.standard_normal((BATCH, count, HEADS * KEY))
    key = random.standard_normal((BATCH, count, HEADS, KEY))
    key = (key / np.linalg.norm(key, axis=-1, keepdims=True)).reshape(BATCH, count, -1)
    value = random.standard_normal((BATCH, count, STATE_HEADS * VALUE))
    decay = -random.uniform(0.001, 0.5, (BATCH, count, STATE_HEADS))
    beta = random.uniform(0.05, 0.95, (BATCH, count, STATE_HEADS))
    return tuple(part.astype(np.float16) for part in (query, key, value, decay, beta))


def window_of(state):
    """A state window of which only the last slot may be read."""
    past = np.full((WINDOW,) + state.shape, np.nan, np.float32)
    past[-1] = state
    return past


def write_gated_delta(name, note, tokens, past, outputs, states):
    output = outputs.reshape(BATCH, outputs.shape[1], -1)
    present = np.zeros((WINDOW,) + states.shape[1:])
    kept = min(WINDOW, len(states))
    present[WINDOW - kept:] = states[len(states) - kept:]
    tensors = dict(zip(("query", "key", "value", "decay", "beta"), tokens))
    if past is not None:
        tensors["past_state"] = past
    tensors["expect.output"] = output.astype(np.float16)
    tensors["expect.present_state"] = present.astype(np.float32)
    write_case(name, {
        "op": "com.microsoft.LinearAttention",
        "attributes": json.dumps({"q_num_heads": HEADS, "kv_num_heads": STATE_HEADS,
                                  "update_rule": "gated_delta", "state_window": WINDOW}),
        "output_dtypes": json.dumps({"present_state": "F32"}),
        "tolerance": json.dumps({"output": tolerance(output, np.float16, 1e-5),
                                 "present_state": tolerance(present, np.float32, 1e-5)}),
        "note": note,
    }, tensors)


def linear_attention(random):
    prompt, draft, after = draw_tokens(random, 40), draw_tokens(random, 4), draw_tokens(random, 1)
    start = np.zeros((BATCH, STATE_HEADS, KEY, VALUE))
    outputs, states = gated_delta(prompt, start)
    write_gated_delta("gated_delta_1_prefill", "40 tokens of prompt, no past", prompt, None, outputs, states)

    past = states[-1].astype(np.float32)
    outputs, drafted = gated_delta(draft, past.astype(np.float64))
    write_gated_delta("gated_delta_2_verify", "4 drafted tokens; the window keeps the state after each",
                      draft, window_of(past), outputs, drafted)

    # Sequence 0 accepts two of the four tokens, sequence 1 three: slot W-T+n-1 of the window.
    accepted = (2, 3)
    kept = np.stack([drafted[n - 1, b] for b, n in enumerate(accepted)]).astype(np.float32)
    # The expectation comes from the accepted tokens alone, as if the others had never been.
    truth = []
    for b, n in enumerate(accepted):
        whole = [np.concatenate([p, d[:, :n], a], 1) for p, d, a in zip(prompt, draft, after)]
        outputs, states = gated_delta(whole, start)
        truth.append((outputs[b, -1], states[-1, b]))
    outputs = np.stack([output for output, _ in truth])[:, None]
    states = np.stack([state for _, state in truth])[None]
    write_gated_delta("gated_delta_3_decode",
                      "one token after the rollback: sequence 0 kept two drafted tokens, sequence 1 three",
                      after, window_of(kept), outputs, states)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(SEED)
    paged_attention(random)
    linear_attention(random)


if __name__ == "__main__":
    main()
