"""quire.PagedDecode (docs/paged_decode.md, with X1 to X4) and quire.MergeAttentionStates."""

from __future__ import annotations

import numpy as np

from oracle.attention import attend
from oracle.case_file import Case
from oracle.tensors import Tensor


def pages_of(case: Case, side: str) -> np.ndarray:
    """Pages in float64, [Hkv, C, P, D]; int8 ones (X2) without their padding, times their scales."""
    size = case.inputs["query"].shape[2]
    pages = case.inputs[f"{side}_pages"].value[..., :size].astype(np.float64)
    scales = case.inputs.get(f"{side}_scales")
    return pages if scales is None else pages * scales.value[..., None]


def compute(case: Case) -> dict[str, Tensor]:
    inputs = case.inputs
    query = inputs["query"].value
    keys, values = pages_of(case, "key"), pages_of(case, "value")
    table, lengths = inputs["page_table"].value, inputs["context_lengths"].value
    scale = float(np.float32(case.attributes["scale"]))
    window = int(case.attributes.get("local_window_size", -1))
    sinks = inputs["head_sink"].value if "head_sink" in inputs else None
    batch, heads, size = query.shape
    page_size = keys.shape[2]
    output, lse = np.zeros((batch, heads, size)), np.zeros((batch, heads))
    for b in range(batch):
        first = max(0, int(lengths[b]) - window) if window > 0 else 0
        tokens = np.arange(first, int(lengths[b]))
        pages, slots = table[b, tokens // page_size], tokens % page_size
        for h in range(heads):
            kv_head = h // (heads // keys.shape[0])
            row = attend(
                query[b, h],
                keys[kv_head, pages, slots],
                values[kv_head, pages, slots],
                scale,
                sink=None if sinks is None else float(sinks[h]),
            )
            output[b, h], lse[b, h] = row.output, row.lse
    return {
        "output": Tensor.rounded(output, inputs["query"].dtype),
        "softmax_lse": Tensor.rounded(lse, "F32"),
    }


def weighted(weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A part of weight 0 is selected away, whatever it holds."""
    return weight * np.where(weight > 0, values, 0.0)


def merge(case: Case) -> dict[str, Tensor]:
    """Two partial results (o, lse) of disjoint sets of keys become one; -inf is an empty part."""
    inputs = case.inputs
    lse_a, lse_b = inputs["softmax_lse_a"].value, inputs["softmax_lse_b"].value
    largest = np.maximum(lse_a, lse_b)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        weight_a = np.where(np.isneginf(lse_a), 0.0, np.exp(lse_a - shift))
        weight_b = np.where(np.isneginf(lse_b), 0.0, np.exp(lse_b - shift))
        total = weight_a + weight_b
        lse = np.where(total > 0, shift + np.log(total), -np.inf)
    divisor = np.where(total > 0, total, 1.0)[..., None]
    part_a = weighted(weight_a[..., None], inputs["output_a"].value)
    part_b = weighted(weight_b[..., None], inputs["output_b"].value)
    return {
        "output": Tensor.rounded((part_a + part_b) / divisor, inputs["output_a"].dtype),
        "softmax_lse": Tensor.rounded(lse, "F32"),
    }
