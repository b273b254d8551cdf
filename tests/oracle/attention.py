"""Softmax attention of one query row over gathered keys: what paged operators have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Row:
    """Result of one query head. `lse` is -inf without keys and sink."""

    output: np.ndarray
    lse: float


def attend(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    scale: float,
    softcap: float = 0.0,
    sink: float | None = None,
) -> Row:
    """query [D], keys and values [n, D]. A sink is one more logit in the denominator only."""
    scores = scale * (keys @ query)
    if softcap > 0:
        scores = softcap * np.tanh(scores / softcap)
    largest = max([-np.inf, *scores.tolist()] + ([] if sink is None else [sink]))
    if largest == -np.inf:
        return Row(np.zeros(values.shape[1]), -np.inf)
    weights = np.exp(scores - largest)
    total = weights.sum() + (0.0 if sink is None else np.exp(sink - largest))
    return Row(weights @ values / total, float(largest + np.log(total)))


def effective_scale(attributes: dict[str, Any], size: int) -> float:
    """0 means 1/sqrt(size). Attributes are float32."""
    scale = float(np.float32(attributes.get("scale", 0.0)))
    return scale if scale != 0 else float(np.float32(1 / np.sqrt(size)))
