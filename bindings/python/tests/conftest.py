"""What the tests of the package share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "tests"))  # the oracle, which reads case files

settings.register_profile(
    "default", deadline=None, max_examples=200, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "slow", deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck)
)
settings.load_profile("default")


class Paged:
    """A small batch for paged_attention: a prompt of three tokens, a sequence that goes on."""

    attributes = {"num_heads": 2, "kv_num_heads": 1}

    def __init__(self, dtype: Any = np.float32, convert: Callable[[Any], Any] = lambda a: a):
        random = np.random.default_rng(7)

        def floats(*shape: int) -> Any:
            return convert(random.standard_normal(shape, dtype=np.float32).astype(dtype))

        self.query, self.key, self.value = floats(4, 16), floats(4, 8), floats(4, 8)
        self.key_cache, self.value_cache = floats(4, 2, 1, 8), floats(4, 2, 1, 8)
        self.indices = {
            "cumulative_sequence_length": convert(np.array([0, 3, 4], np.int32)),
            "past_seqlens": convert(np.array([0, 2], np.int32)),
            "block_table": convert(np.array([[2, 0], [3, 1]], np.int32)),
        }

    def tensors(self) -> dict[str, Any]:
        names = ("query", "key", "value", "key_cache", "value_cache")
        return {**{name: getattr(self, name) for name in names}, **self.indices}

    def arguments(self, **changes: Any) -> dict[str, Any]:
        return {**self.tensors(), **self.attributes, **changes}


@pytest.fixture
def paged() -> Paged:
    return Paged()


@pytest.fixture
def make_paged() -> type[Paged]:
    return Paged


def address(array: Any) -> int:
    """Where an array's first element lies."""
    return int(array.__array_interface__["data"][0])
