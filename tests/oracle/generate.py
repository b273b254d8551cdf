"""What the request generators share: random tensors and tolerances."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from oracle.case_file import Case
from oracle.operators import compute
from oracle.tensors import FLOATS, Tensor, unit_in_last_place

seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(FLOATS)


def normal(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, scale: float = 1
) -> Tensor:
    return Tensor.rounded(rng.standard_normal(shape) * scale, dtype)


def uniform(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, low: float, high: float
) -> Tensor:
    return Tensor.rounded(rng.uniform(low, high, shape), dtype)


def poison(rng: np.random.Generator, tensor: Tensor, rows: np.ndarray) -> None:
    """Fills rows of the first axis with NaN and infinities, in place."""
    if tensor.dtype == "I8":
        tensor.data[rows] = 127
        return
    shape = tensor.data[rows].shape
    bad = rng.choice(np.array([np.nan, np.inf, -np.inf]), shape)
    tensor.data[rows] = Tensor.rounded(bad, tensor.dtype).data


def largest(values: np.ndarray) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def expect(case: Case, magnitude: dict[str, float], noise: float = 4e-6) -> Case:
    """Adds the expected outputs named by `magnitude` (output -> largest value that enters it).

    A magnitude of 0 asks for the very bits.
    """
    results = compute(case)
    for name, size in magnitude.items():
        want = results[name]
        case.expect[name] = want
        if size == 0:
            case.tolerance[name] = {"atol": 0.0, "rtol": 0.0}
            continue
        size = max(size, largest(want.value))
        case.tolerance[name] = {"atol": noise * size, "rtol": unit_in_last_place(want.dtype)}
    return case
