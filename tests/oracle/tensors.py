"""Tensors with element types that NumPy lacks, and single rounding from float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# safetensors name -> NumPy type of the stored bits. BF16 is stored as its 16 bits.
STORAGE: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "U32": np.dtype("<u4"),
}
FLOATS = ("F32", "F16", "BF16")


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """Rounds float64 to bfloat16 once, to nearest even.

    The way over float32 rounds to odd: towards zero, with the last bit set if anything was lost.
    The second rounding then sees every tie for what it is.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        beyond = np.abs(near.astype(np.float64)) > np.abs(values)
        towards_zero = np.where(beyond, np.nextafter(near, np.float32(0)), near).astype(np.float32)
        inexact = towards_zero.astype(np.float64) != values
    bits = towards_zero.view(np.uint32) | inexact.astype(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet_nan = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet_nan, rounded).astype("<u2")


@dataclass
class Tensor:
    """`data` holds the stored elements; `value` what they mean."""

    dtype: str
    data: np.ndarray

    @staticmethod
    def rounded(values: np.ndarray, dtype: str) -> Tensor:
        """Float64 values, rounded once to a floating type (or converted to an integer type)."""
        values = np.asarray(values)
        if dtype == "BF16":
            return Tensor(dtype, bf16_bits(values.astype(np.float64)))
        with np.errstate(over="ignore"):
            return Tensor(dtype, values.astype(STORAGE[dtype]))

    @staticmethod
    def integers(values: object, dtype: str = "I32") -> Tensor:
        return Tensor(dtype, np.asarray(values, dtype=STORAGE[dtype]))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def value(self) -> np.ndarray:
        """float64 for floating types, int64 for integers."""
        if self.dtype == "BF16":
            return (self.data.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.data.astype(np.float64 if self.dtype in ("F64", "F32", "F16") else np.int64)

    def copy(self) -> Tensor:
        return Tensor(self.dtype, self.data.copy())


def unit_in_last_place(dtype: str) -> float:
    """Relative size of one unit: the `rtol` of results that are rounded once."""
    return {"F16": 2.0**-10, "BF16": 2.0**-7}.get(dtype, 1e-5)
