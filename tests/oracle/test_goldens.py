"""The oracle itself against the golden vectors of docs/, which were computed independently."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracle.case_file import Case
from oracle.operators import compute
from oracle.paged_attention import quantise_rows
from oracle.tensors import Tensor, bf16_bits


def f64(values: Any) -> Tensor:
    return Tensor("F64", np.asarray(values, dtype=np.float64))


def paged(attributes: dict[str, Any], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """PA-G1's call, changed."""
    nan = np.nan
    keys, values = np.full((4, 2, 1, 2), nan), np.full((4, 2, 1, 2), nan)
    keys[1, :, 0], values[1, :, 0] = [[1, 0], [0, 1]], [[10, 1], [20, 2]]
    case = Case("com.microsoft.PagedAttention")
    case.attributes = {"num_heads": 2, "kv_num_heads": 1, "scale": 0.5, **attributes}
    case.inputs = {
        "query": f64([[1, 0, 0, 1]] * 3),
        "key": f64([[2, 0], [1, 0], [0, 1]]),
        "value": f64([[30, 3], [10, 1], [20, 2]]),
        "key_cache": f64(keys),
        "value_cache": f64(values),
        "cumulative_sequence_length": Tensor.integers([0, 1, 3]),
        "past_seqlens": Tensor.integers([2, 0]),
        "block_table": Tensor.integers([[1, 0], [3, 2]]),
        **inputs,
    }
    return compute(case)


def test_ragged() -> None:
    """PA-G1."""
    got = paged({}, {})
    want = [
        [21.9928451, 2.1992845, 20, 2],
        [10, 1, 10, 1],
        [13.7754067, 1.3775407, 16.2245933, 1.6224593],
    ]
    np.testing.assert_allclose(got["output"].value, want, atol=6e-8)
    lse = [[1.6802697, 1.2943768], [0.5, 0], [0.974077, 0.974077]]
    np.testing.assert_allclose(got["softmax_lse"].value, lse, atol=1e-7)


SINK = "head_sink"
HOLE = Tensor.integers([[-1, 0], [3, 2]])
PAGED_ROWS: list[tuple[str, dict[str, Any], dict[str, Tensor], list[float], list[float]]] = [
    ("PA-G2", {"scale": 1.0}, {}, [24.2051248], [2.4076060]),
    ("PA-G3", {"scale": 0.0}, {}, [22.9197994], [1.9659039]),
    ("PA-G4", {"scale": -1.0}, {}, [18.4530210], [0.4076060]),
    ("PA-G5", {}, {"block_table": HOLE}, [30, 30], [1, 0]),
    ("PA-G6", {"local_window_size": 2}, {}, [27.3105858, 23.7754067], [1.3132617, 0.9740770]),
    ("PA-G7", {}, {SINK: f64([0, 0])}, [18.5386540, 15.6977416], [1.8511289, 1.5365922]),
    ("PA-G8", {}, {SINK: f64([1, 1])}, [14.5988260, 11.4613460], [2.0900457, 1.8511289]),
    ("PA-G9", {"softcap": 1.0}, {}, [21.1720078, 20], [1.5537389, 1.2774364]),
    (
        "PA-G10",
        {"softcap": 1.0, "local_window_size": 2},
        {SINK: f64([0, 0])},
        [20.3421013, 17.2124902],
        [1.4211034, 1.2774364],
    ),
]


@pytest.mark.parametrize("row", PAGED_ROWS, ids=lambda row: row[0])
def test_variants(row: tuple[str, dict, dict, list[float], list[float]]) -> None:
    _, attributes, inputs, output, lse = row
    got = paged(attributes, inputs)
    heads = len(output)
    np.testing.assert_allclose(got["output"].value[0, ::2][:heads], output, rtol=6e-9)
    np.testing.assert_allclose(got["softmax_lse"].value[0, :heads], lse, atol=1e-7)


def test_non_causal() -> None:
    """PA-G12."""
    got = paged({"is_causal": 0}, {})["output"].value
    np.testing.assert_allclose(got[1:, ::2], [[13.7754067, 16.2245933]] * 2, rtol=6e-9)


def test_quantise_rows() -> None:
    """X7's and PD-G8's vector."""
    stored, scales = quantise_rows(np.array([[1, -0.3, 0.1, 0], [0, 0, 0, 0]]))
    np.testing.assert_array_equal(stored, [[127, -38, 13, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(scales, [0.0078740157, 1], rtol=4e-9)
    read = stored[0] * scales[0].astype(np.float64)
    np.testing.assert_allclose(read, [1, -0.2992126, 0.1023622, 0], atol=5e-8)


def test_merge() -> None:
    """PA-G11."""
    case = Case("quire.MergeAttentionStates")
    case.inputs = {
        "output_a": f64([[[10], [10]]]),
        "softmax_lse_a": f64([[0.5, 0]]),
        "output_b": f64([[[27.3105858], [23.7754067]]]),
        "softmax_lse_b": f64([[1.3132617, 0.9740770]]),
    }
    got = compute(case)
    np.testing.assert_allclose(got["output"].value, [[[21.9928451], [20]]], rtol=1e-7)
    np.testing.assert_allclose(got["softmax_lse"].value, [[1.6802697, 1.2943768]], atol=1e-6)


def pattern(shape: tuple[int, ...], multiplier: int) -> Tensor:
    index = np.arange(np.prod(shape))
    return f64((((index * multiplier) % 127 - 63) / 127).reshape(shape))


def test_decode_pattern() -> None:
    """PD-G4."""
    case = Case("quire.PagedDecode", {"scale": 1.0})
    case.inputs = {
        "query": pattern((1, 4, 64), 17),
        "key_pages": pattern((2, 64, 16, 64), 31),
        "value_pages": pattern((2, 64, 16, 64), 47),
        "page_table": Tensor.integers([range(64)]),
        "context_lengths": Tensor.integers([1024]),
    }
    got = compute(case)
    want = [
        [-0.00070939, 0.00383403, -0.00351377, -0.00025542],
        [0.00039338, -0.00143218, 0.00222445, 0.00110821],
        [0.00160142, -0.00127904, -0.00018473, 0.00039045],
        [-0.00022601, 0.00242247, 0.00089386, -0.00272400],
    ]
    lse = [[7.05752205, 7.01705053, 7.02652535, 7.03035415]]
    np.testing.assert_allclose(got["output"].value[0, :, :4], want, atol=6e-9)
    np.testing.assert_allclose(got["softmax_lse"].value, lse, atol=4e-7)


LINEAR_ROWS: list[tuple[str, str, list[float], list[float], list[float]]] = [
    ("LA-G1", "linear", [], [6, 10.4], [7.8, 10.4]),
    ("LA-G2", "gated", [0.5, 0.25], [4, 3.4], [2.8, 3.4]),
    ("LA-G3", "gated", [0.5, 1, 0.25, 0.5], [4, 6.4], [2.8, 6.4]),
    ("LA-G4", "delta", [], [3, 3.84], [-0.12, 3.84]),
    ("LA-G5", "gated_delta", [0.5, 0.25], [2, 2.52], [1.64, 2.52]),
    ("LA-G6", "gated_delta", [0.5, 1, 0.25, 0.5], [2, 3.6], [0.2, 3.6]),
    ("LA-G8", "gated_delta", [0.5, 0], [2, 2.4], [1.8, 2.4]),
]


@pytest.mark.parametrize("row", LINEAR_ROWS, ids=lambda row: row[0])
def test_linear(row: tuple[str, str, list[float], list[float], list[float]]) -> None:
    _, rule, factors, output, state = row
    case = Case("com.microsoft.LinearAttention")
    case.attributes = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": rule, "scale": 1.0}
    case.inputs = {
        "query": f64([[[1, 0], [0, 1]]]),
        "key": f64([[[1, 0], [0.6, 0.8]]]),
        "value": f64([[[2], [3]]]),
        "past_state": f64([[[[4], [8]]]]),
        "beta": f64([[[0.5], [1]]]),
    }
    if factors:
        with np.errstate(divide="ignore"):
            case.inputs["decay"] = f64(np.log(np.array(factors)).reshape(1, 2, -1))
    got = compute(case)
    np.testing.assert_allclose(got["output"].value.ravel(), output, rtol=1e-12)
    np.testing.assert_allclose(got["present_state"].value.ravel(), state, rtol=1e-12)


@pytest.mark.parametrize("row", [(0, [4, 8]), (1, [2, 4]), (2, [1.64, 2.52])])
def test_replay(row: tuple[int, list[float]]) -> None:
    """LR-G1."""
    accepted, state = row
    case = Case("quire.LinearAttentionReplay", {"kv_num_heads": 1})
    case.inputs = {
        "log_key": f64([[[1, 0], [0.6, 0.8]]]),
        "log_value": f64([[[0], [1.9]]]),
        "log_decay": f64([[[0.5], [0.25]]]),
        "accepted": Tensor.integers([accepted]),
        "past_state": f64([[[[4], [8]]]]),
    }
    got = compute(case)["present_state"]
    np.testing.assert_allclose(got.value.ravel(), state, rtol=1e-12)


Conv = tuple[str, dict[str, Any], dict[str, Tensor], list[float], list[float]]
RAGGED = Tensor.integers([0, 2, 3])
POOL = {
    "state_pool": f64([[[1, 2]], [[7, 8]], [[0, 0]]]),
    "read_indices": Tensor.integers([0, -1]),
    "write_indices": Tensor.integers([1, 2]),
}
CONV_ROWS: list[Conv] = [
    ("CC-G1", {}, {"past_state": f64([[[1, 2]]])}, [321.5, 432.5, 543.5], [4, 5]),
    ("CC-G2", {}, {}, [300.5, 430.5, 543.5], [4, 5]),
    (
        "CC-G3",
        {"dilation": 2},
        {"past_state": f64([[[1, 2, 3, 4]]]), "input": f64([[[5, 6]]])},
        [531.5, 642.5],
        [3, 4, 5, 6],
    ),
    (
        "CC-G4",
        {"state_window": 4},
        {"past_state": f64([[[[9, 9]]]] * 3 + [[[[1, 2]]]])},
        [321.5, 432.5, 543.5],
        [0, 0, 2, 3, 3, 4, 4, 5],
    ),
    (
        "CC-G5",
        {"activation": "silu"},
        {"weight": f64([[[0, 0, 1]]]), "bias": f64([0]), "input": f64([[[1, -2]]])},
        [0.7310585786, -0.2384058440],
        [1, -2],
    ),
    (
        "CC-G6",
        {},
        {"cu_seqlens": RAGGED, "past_state": f64([[[1, 2]], [[7, 8]]])},
        [321.5, 432.5, 587.5],
        [3, 4, 8, 5],
    ),
    ("CC-G7", {}, {"cu_seqlens": RAGGED, **POOL}, [321.5, 432.5, 500.5], [1, 2, 3, 4, 0, 5]),
]


@pytest.mark.parametrize("row", CONV_ROWS, ids=lambda row: row[0])
def test_convolution(row: Conv) -> None:
    _, attributes, inputs, output, state = row
    case = Case("com.microsoft.CausalConvWithState", dict(attributes))
    case.inputs = {
        "input": f64([[[3, 4, 5]]]),
        "weight": f64([[[1, 10, 100]]]),
        "bias": f64([0.5]),
        **inputs,
    }
    got = compute(case)
    name = "state_pool_out" if "state_pool" in inputs else "present_state"
    np.testing.assert_allclose(got["output"].value.ravel(), output, rtol=1e-9)
    assert got[name].value.ravel().tolist() == state


def test_one_rounding_to_bf16() -> None:
    """A tie of bfloat16 that float32 cannot see; NaN, infinities, overflow, subnormals."""
    tie = 1 + 2.0**-8
    values = np.array([tie, tie + 2.0**-40, tie - 2.0**-40, -tie, np.inf, 3.4e38, 2.0**-133, 0.0])
    want = [0x3F80, 0x3F81, 0x3F80, 0xBF80, 0x7F80, 0x7F80, 0x0001, 0x0000]
    assert bf16_bits(values).tolist() == want
    assert bf16_bits(np.array([np.nan]))[0] & 0x7FFF > 0x7F80
