"""The operators against the same mathematics in PyTorch: what agrees, and how well.

Skipped (exit status 77) where PyTorch is not installed.
"""

from __future__ import annotations

import sys

try:
    import torch
    from torch import Tensor
    from torch.nn import functional
except ImportError:
    print("PyTorch is not installed")
    sys.exit(77)

import quire


def paged(dtype: torch.dtype) -> float:
    """A prompt and a decoding sequence over scattered blocks, against scaled_dot_product_attention."""
    heads, kv_heads, size, rows = 8, 2, 64, 16
    lengths, new = [37, 50], [37, 1]
    query, key, value = (
        torch.randn(sum(new), h * size).to(dtype) for h in (heads, kv_heads, kv_heads)
    )
    key_cache, value_cache = (torch.randn(12, rows, kv_heads, size).to(dtype) for _ in range(2))
    table = torch.randperm(12, dtype=torch.int32)[:8].reshape(2, 4)
    output = quire.paged_attention(
        query,
        key,
        value,
        key_cache,
        value_cache,
        cumulative_sequence_length=torch.tensor([0, 37, 38], dtype=torch.int32),
        past_seqlens=torch.tensor([0, 49], dtype=torch.int32),
        block_table=table,
        num_heads=heads,
        kv_num_heads=kv_heads,
    )
    worst, first = 0.0, 0
    for sequence, (length, count) in enumerate(zip(lengths, new, strict=True)):
        blocks = table[sequence].long()
        keys, values = (
            cache[blocks].reshape(-1, kv_heads, size)[:length].transpose(0, 1).double()
            for cache in (key_cache, value_cache)
        )
        part = query[first : first + count].reshape(count, heads, size).transpose(0, 1).double()
        seen = torch.arange(length)[None] <= torch.arange(count)[:, None] + length - count
        want = functional.scaled_dot_product_attention(
            part[None], keys[None], values[None], attn_mask=seen, enable_gqa=True
        )[0]
        found = output[first : first + count].reshape(count, heads, size).transpose(0, 1)
        worst = max(worst, float((found.double() - want).abs().max()))
        first += count
    return worst


def recurrent(dtype: torch.dtype) -> float:
    """The gated delta rule, against its recurrence."""
    heads, size, tokens = 4, 32, 100
    query, key, value = (torch.randn(1, tokens, heads, size) for _ in range(3))
    key = functional.normalize(key, dim=-1)
    decay, beta = -torch.rand(1, tokens, heads), torch.rand(1, tokens, heads)
    rounded = [tensor.to(dtype) for tensor in (query, key, value, decay, beta)]
    q, k, v, g, b = (tensor.double() for tensor in rounded)
    state = torch.zeros(heads, size, size, dtype=torch.float64)
    want = torch.empty(tokens, heads, size, dtype=torch.float64)
    for t in range(tokens):
        state = state * g[0, t].exp()[:, None, None]
        read = torch.einsum("hkv,hk->hv", state, k[0, t])
        state = state + torch.einsum("hk,hv->hkv", k[0, t], b[0, t, :, None] * (v[0, t] - read))
        want[t] = torch.einsum("hkv,hk->hv", state, q[0, t]) * size**-0.5
    flat: list[Tensor] = [tensor.reshape(1, tokens, -1) for tensor in rounded]
    output, _ = quire.linear_attention(
        flat[0], flat[1], flat[2], None, flat[3], flat[4], q_num_heads=heads, kv_num_heads=heads
    )
    return float((output.double().reshape(tokens, heads, size) - want).abs().max())


def convolution(dtype: torch.dtype) -> float:
    """The short convolution, against conv1d."""
    rows, weight, bias = torch.randn(2, 24, 40), torch.randn(24, 1, 4), torch.randn(24)
    rows, weight, bias = rows.to(dtype), weight.to(dtype), bias.to(dtype)
    output, _ = quire.causal_conv(rows, weight, bias, activation="silu")
    padded = functional.pad(rows.double(), (3, 0))
    want = functional.silu(functional.conv1d(padded, weight.double(), bias.double(), groups=24))
    return float((output.double() - want).abs().max())


def main() -> int:
    torch.manual_seed(0)
    limits = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
    failed = 0
    print(f"{'':24}" + "".join(f"{str(dtype).removeprefix('torch.'):>12}" for dtype in limits))
    for name, compare in (
        ("paged attention", paged),
        ("gated delta rule", recurrent),
        ("convolution", convolution),
    ):
        worst = [compare(dtype) for dtype in limits]
        failed += sum(error > limit for error, limit in zip(worst, limits.values(), strict=True))
        print(f"{name:24}" + "".join(f"{error:12.2e}" for error in worst))
    print("largest difference to float64 on the same inputs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
