"""How outputs are compared: NaN with NaN, infinities by sign, else atol + rtol * |expected|."""

from __future__ import annotations

import numpy as np

from oracle.tensors import Tensor


def difference(got: Tensor, want: Tensor, atol: float, rtol: float) -> str | None:
    """None if they agree, else one line about the worst element."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"is {got.dtype} {list(got.shape)}, expected {want.dtype} {list(want.shape)}"
    if want.data.size == 0:
        return None
    if atol == 0 and rtol == 0:
        wrong = got.data.view(np.uint8) != want.data.view(np.uint8)
        if not wrong.any():
            return None
    g, w = got.value.astype(np.float64), want.value.astype(np.float64)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    with np.errstate(invalid="ignore"):
        excess = np.abs(g - w) - (atol + rtol * np.abs(w))
    excess = np.where(same, -np.inf, np.where(np.isfinite(excess), excess, np.inf))
    if atol != 0 or rtol != 0:
        if not (excess > 0).any():
            return None
    index = np.unravel_index(int(np.argmax(excess)), w.shape)
    place = ", ".join(str(i) for i in index)
    return f"[{place}] is {g[index]:.9g}, expected {w[index]:.9g}"
