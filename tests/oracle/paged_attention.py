"""com.microsoft.PagedAttention: docs/paged_attention.md, with extensions X1 to X10."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.attention import attend, effective_scale
from oracle.case_file import Case
from oracle.tensors import Tensor


@dataclass
class Paged:
    """A call with its letters: T, B, Hq, Hkv, D, NB, P, MB."""

    case: Case

    def __post_init__(self) -> None:
        inputs, attributes = self.case.inputs, self.case.attributes
        self.query_heads = int(attributes["num_heads"])
        self.heads = int(attributes["kv_num_heads"])
        self.blocks, self.block_size, _, self.size = inputs["key_cache"].shape
        self.starts = inputs["cumulative_sequence_length"].value
        self.past = inputs["past_seqlens"].value
        self.table = inputs["block_table"].value
        self.tokens = inputs["query"].shape[0]

    def block(self, b: int, position: int) -> int:
        """Physical block, or -1 if unmapped."""
        column = position // self.block_size
        if column >= self.table.shape[1]:
            return -1
        entry = int(self.table[b, column])
        return entry if 0 <= entry < self.blocks else -1

    def row(self, b: int, position: int) -> int:
        """Cache row, or -1."""
        block = self.block(b, position)
        return -1 if block < 0 else block * self.block_size + position % self.block_size

    def owners(self) -> list[tuple[int, int]]:
        """(sequence, position) of every token."""
        pairs = []
        for b in range(len(self.past)):
            for i in range(int(self.starts[b + 1] - self.starts[b])):
                pairs.append((b, int(self.past[b]) + i))
        return pairs

    def slots(self) -> list[int]:
        """Cache row that each token is stored to; negative: none."""
        rows = self.blocks * self.block_size
        if "slot_mapping" in self.case.inputs:
            slots = self.case.inputs["slot_mapping"].value.tolist()
            return [s if 0 <= s < rows else -1 for s in slots]
        return [self.row(b, p) for b, p in self.owners()]

    def visible(self, b: int, position: int) -> list[int]:
        """Cache rows that a token attends to, in order of their positions."""
        attributes = self.case.attributes
        window = int(attributes.get("local_window_size", -1))
        last = position
        if int(attributes.get("is_causal", 1)) == 0:
            last = int(self.past[b] + self.starts[b + 1] - self.starts[b]) - 1
        first = max(0, position + 1 - window) if window > 0 else 0
        rows = [self.row(b, j) for j in range(first, last + 1)]
        return [r for r in rows if r >= 0]

    def new_rows(self) -> tuple[Tensor, Tensor, np.ndarray]:
        """New keys and values as [T, Hkv, D] of the activation type, and queries [T, Hq, D]."""
        inputs, shape = self.case.inputs, (self.tokens, self.heads, self.size)
        query = inputs["query"]
        width = self.query_heads * self.size
        if "key" in inputs:
            key, value = inputs["key"].data, inputs["value"].data
        else:
            key = query.data[:, width : width + self.heads * self.size]
            value = query.data[:, width + self.heads * self.size :]
        queries = query.value[:, :width].reshape(self.tokens, self.query_heads, self.size)
        return (
            Tensor(query.dtype, key.reshape(shape)),
            Tensor(query.dtype, value.reshape(shape)),
            queries,
        )


def channel_scales(case: Case, side: str) -> np.ndarray | None:
    """X6: scales as float32 [1, 1] or [Hkv, D], or None."""
    kind = case.attributes.get(f"{side}_quant_type", "NONE")
    if kind in ("NONE", "PER_TOKEN"):
        return None
    scales = case.inputs[f"{side}_scale"].data.astype(np.float32)
    return scales.reshape(1, 1) if kind == "PER_TENSOR" else scales[:, 0, :]


def quantise(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """X6: clamp(rint(x * (1/scale)), -128, 127) in float32; scale 0 and NaN store 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = np.where(scales == 0, np.float32(0), np.float32(1) / scales).astype(np.float32)
        scaled = np.rint(values.astype(np.float32) * inverse)
    return np.nan_to_num(np.clip(scaled, -128, 127), nan=0.0).astype(np.int8)


def quantise_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X7: bytes [.., D] and scales [..]; the scale is the largest magnitude / 127, or 1 for 0."""
    rows = values.astype(np.float32)
    with np.errstate(invalid="ignore"):
        scales = np.fmax.reduce(np.abs(rows), axis=-1, initial=np.float32(0)) / np.float32(127)
        scales = np.where(scales == 0, np.float32(1), scales).astype(np.float32)
        scaled = np.rint(np.clip(rows / scales[..., None], -127, 127))
    return np.nan_to_num(scaled, nan=0.0).astype(np.int8), scales


@dataclass
class Cache:
    """A side's cache after phase 1, and the scales of its rows (X7)."""

    rows: Tensor
    scales: Tensor | None

    def value(self, paged: Paged, side: str) -> np.ndarray:
        """In float64, [rows, Hkv, D]."""
        return cache_rows(paged, self.rows, self.scales, side)


def store(paged: Paged, side: str, new: Tensor) -> Cache:
    """Phase 1: the cache after the call. The highest token wins a slot."""
    inputs = paged.case.inputs
    cache = inputs[f"{side}_cache"].copy()
    channels = channel_scales(paged.case, side[0])
    name = f"{side[0]}_scale_cache"
    scales = inputs[name].copy() if name in inputs else None
    flat = cache.data.reshape(-1, paged.heads, paged.size)
    for token, slot in enumerate(paged.slots()):
        if slot < 0:
            continue
        if scales is not None:
            flat[slot], row_scales = quantise_rows(new.value[token])
            scales.data.reshape(-1, paged.heads)[slot] = row_scales
        elif channels is not None:
            flat[slot] = quantise(new.value[token], channels)
        else:
            flat[slot] = new.data[token]
    return Cache(cache, scales)


def cache_rows(paged: Paged, cache: Tensor, scales: Tensor | None, side: str) -> np.ndarray:
    """The cache in float64, [rows, Hkv, D]."""
    values = cache.value.astype(np.float64).reshape(-1, paged.heads, paged.size)
    if scales is not None:
        return values * scales.value.reshape(-1, paged.heads, 1)
    channels = channel_scales(paged.case, side[0])
    return values if channels is None else values * channels.astype(np.float64)


def compute(case: Case) -> dict[str, Tensor]:
    paged = Paged(case)
    new_keys, new_values, queries = paged.new_rows()
    caches = {"key": store(paged, "key", new_keys), "value": store(paged, "value", new_values)}
    keys, values = (caches[side].value(paged, side) for side in ("key", "value"))
    scale = effective_scale(case.attributes, paged.size)
    softcap = float(np.float32(case.attributes.get("softcap", 0.0)))
    sinks = case.inputs["head_sink"].value if "head_sink" in case.inputs else None
    output = np.zeros((paged.tokens, paged.query_heads, paged.size))
    lse = np.zeros((paged.tokens, paged.query_heads))
    group = paged.query_heads // paged.heads
    for token, (b, position) in enumerate(paged.owners()):
        rows = paged.visible(b, position)
        for h in range(paged.query_heads):
            row = attend(
                queries[token, h],
                keys[rows, h // group],
                values[rows, h // group],
                scale,
                softcap,
                None if sinks is None else float(sinks[h]),
            )
            output[token, h], lse[token, h] = row.output, row.lse
    packed = output.reshape(paged.tokens, paged.query_heads * paged.size)
    results = {
        "output": Tensor.rounded(packed, case.inputs["query"].dtype),
        "softmax_lse": Tensor.rounded(lse, "F32"),
    }
    for side, cache in caches.items():
        results[f"{side}_cache_out"] = cache.rows
        if cache.scales is not None:
            results[f"{side[0]}_scale_cache_out"] = cache.scales
    return results
