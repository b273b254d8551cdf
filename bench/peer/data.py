"""Inputs of the cases, references in NumPy, and what a call must move and compute."""
import math
import zlib

import numpy as np

TOL = {"f32": 1e-4, "f16": 3e-2, "bf16": 3e-2, "i8": 5e-2}  # some peers accumulate in f16
ESIZE = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}


def rng_of(case):
    return np.random.default_rng(zlib.crc32(case["case"].encode()))


def gdn_data(case):
    """q [T,Hk,D], k [T,Hk,D] (unit rows), v [T,Hv,Dv], g [T,Hv], beta [T,Hv], state [Hv,Dk,Dv]."""
    r, t = rng_of(case), case["tokens"]
    n = lambda *s: r.standard_normal(s, dtype=np.float32)
    q, k = n(t, case["q_heads"], case["dk"]), n(t, case["k_heads"], case["dk"])
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v = n(t, case["v_heads"], case["dv"])
    g = (-0.1 * np.exp(0.5 * n(t, case["v_heads"]))).astype(np.float32)
    b = (1 / (1 + np.exp(-n(t, case["v_heads"])))).astype(np.float32)
    s = 0.1 * n(case["v_heads"], case["dk"], case["dv"])
    return q, k, v, g, b, s


def gdn_reference(d, tiled=False):
    """Token by token. Value head h reads key head h // group, or h % k_heads if `tiled`."""
    q, k, v, g, b, s = d
    hv, hk = v.shape[1], k.shape[1]
    idx = np.arange(hv) % hk if tiled else np.arange(hv) // (hv // hk)
    s, out = s.copy(), np.empty_like(v)
    for t in range(v.shape[0]):
        kt, qt = k[t, idx], q[t, idx]
        s *= np.exp(g[t])[:, None, None]
        u = (v[t] - np.matmul(kt[:, None, :], s)[:, 0]) * b[t][:, None]
        s += kt[:, :, None] * u[:, None, :]
        out[t] = np.matmul(qt[:, None, :], s)[:, 0] / math.sqrt(k.shape[2])
    return out, s


def decode_data(case):
    """q [B,Hq,D]; lists of K and V per sequence, [Hkv,L,D]; the last row is the new token's."""
    r = rng_of(case)
    n = lambda *s: r.standard_normal(s, dtype=np.float32)
    hq, hkv, d = case["q_heads"], case["kv_heads"], case["head_dim"]
    q = n(len(case["contexts"]), hq, d)
    return q, [n(hkv, l, d) for l in case["contexts"]], [n(hkv, l, d) for l in case["contexts"]]


def decode_reference(q, ks, vs):
    out = np.empty_like(q)
    for i, (k, v) in enumerate(zip(ks, vs)):
        x = q[i].reshape(k.shape[0], -1, q.shape[2])
        s = np.matmul(x, k.transpose(0, 2, 1)) / math.sqrt(q.shape[2])
        p = np.exp(s - s.max(-1, keepdims=True))
        out[i] = (np.matmul(p, v) / p.sum(-1, keepdims=True)).reshape(q.shape[1:])
    return out


def prefill_data(case):
    """q [S,Hq,D], k [S,Hkv,D], v [S,Hkv,D]."""
    r, s, d = rng_of(case), case["tokens"], case["head_dim"]
    n = lambda h: r.standard_normal((s, h, d), dtype=np.float32)
    return n(case["q_heads"]), n(case["kv_heads"]), n(case["kv_heads"])


def prefill_reference(q, k, v):
    s, hq, d = q.shape
    out, group = np.empty_like(q), hq // k.shape[1]
    mask = np.triu(np.full((s, s), -np.inf, np.float32), 1)
    for h in range(hq):
        x = q[:, h] @ k[:, h // group].T / math.sqrt(d) + mask
        p = np.exp(x - x.max(-1, keepdims=True))
        out[:, h] = p @ v[:, h // group] / p.sum(-1, keepdims=True)
    return out


def paged_data(case):
    """Lists per sequence of q [new,Hq,D], K and V [Hkv,past + new,D]."""
    r, d = rng_of(case), case["head_dim"]
    n = lambda *s: r.standard_normal(s, dtype=np.float32)
    shapes = [(new, past + new) for past, new in case["sequences"]]
    return ([n(new, case["q_heads"], d) for new, _ in shapes], [n(case["kv_heads"], l, d) for _, l in shapes],
            [n(case["kv_heads"], l, d) for _, l in shapes])


def paged_reference(qs, ks, vs):
    out = []
    for q, k, v in zip(qs, ks, vs):
        (new, hq, d), (hkv, length, _) = q.shape, k.shape
        mask = np.triu(np.full((new, length), -np.inf, np.float32), length - new + 1)
        rows = np.empty_like(q)
        for h in range(hq):
            x = q[:, h] @ k[h // (hq // hkv)].T / np.float32(math.sqrt(d)) + mask
            p = np.exp(x - x.max(-1, keepdims=True))
            rows[:, h] = p @ v[h // (hq // hkv)] / p.sum(-1, keepdims=True)
        out.append(rows)
    return np.concatenate(out)


def counts(case, dtype):
    """(bytes that must move, FLOP) of one call."""
    if case["op"] == "gated_delta":
        state = case["v_heads"] * case["dk"] * case["dv"]
        io = case["tokens"] * (case["q_heads"] + case["k_heads"] + 2 * case["v_heads"]) * case["dk"]
        return 4 * (2 * state + io), 7 * state * case["tokens"]
    hq, hkv, d = case["q_heads"], case["kv_heads"], case["head_dim"]
    if case["op"] == "decode":
        n = sum(case["contexts"])
        return 2 * n * hkv * d * ESIZE[dtype], 4 * hq * d * n
    if case["op"] == "paged":
        keys = sum(past + new for past, new in case["sequences"])
        pairs = sum(new * past + new * (new + 1) // 2 for past, new in case["sequences"])
        return 2 * keys * hkv * d * ESIZE[dtype], 4 * hq * d * pairs
    s = case["tokens"]
    return s * 2 * (hq + hkv) * d * ESIZE[dtype], 4 * hq * d * (s * (s + 1) // 2)


def rel_err(got, want):
    got = np.asarray(got, dtype=np.float64).reshape(-1)
    want = np.asarray(want, dtype=np.float64).reshape(-1)
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    return float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2)))


def bf16_bits(x):
    """float32 array to bfloat16 bits, round to nearest even."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
