"""The operators as functions: results, outputs, attributes, and the texts of refusals."""

from __future__ import annotations

import inspect
import pickle

import ml_dtypes
import numpy as np
import pytest

import quire
from quire._call import CALLS
from quire._native import ffi, lib, text


def attend(query, keys, values, scale):
    """Softmax attention of one head in float64."""
    scores = keys.astype(np.float64) @ query.astype(np.float64) * scale
    weights = np.exp(scores - scores.max())
    return weights @ values.astype(np.float64) / weights.sum()


def expected_output(paged, key_cache, value_cache):
    """paged_attention by its definition, from the caches after the call."""
    table, past = paged.indices["block_table"], paged.indices["past_seqlens"]
    rows = []
    for sequence, (first, last) in enumerate([(0, 3), (3, 4)]):
        order = table[sequence]
        keys = key_cache[order].reshape(-1, 8)
        values = value_cache[order].reshape(-1, 8)
        for row in range(first, last):
            seen = past[sequence] + row - first + 1
            heads = [
                attend(paged.query[row, h * 8 : h * 8 + 8], keys[:seen], values[:seen], 8**-0.5)
                for h in range(2)
            ]
            rows.append(np.concatenate(heads))
    return np.array(rows)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(np.float32, 1e-5), (np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2)],
)
def test_paged_attention_equals_its_definition(make_paged, dtype, tolerance):
    paged = make_paged(dtype)
    output = quire.paged_attention(**paged.arguments())
    assert output.dtype == dtype and output.shape == (4, 16)
    # The new rows lie where the table says.
    np.testing.assert_array_equal(paged.key_cache[2, 0, 0], paged.key[0])
    np.testing.assert_array_equal(paged.key_cache[1, 0, 0], paged.key[3])
    want = expected_output(paged, paged.key_cache, paged.value_cache)
    np.testing.assert_allclose(output.astype(np.float64), want, rtol=tolerance, atol=tolerance)


def test_outputs_are_filled_where_they_are_given(paged):
    output, lse = np.empty((4, 16), np.float32), np.empty((4, 2), np.float32)
    found = quire.paged_attention(**paged.arguments(), output=output, softmax_lse=lse)
    assert found[0] is output and found[1] is lse
    again = quire.paged_attention(**paged.arguments(), softmax_lse=True)
    np.testing.assert_array_equal(again[0], output)
    np.testing.assert_array_equal(again[1], lse)


def test_caches_stay_as_they_are_where_copies_are_asked_for(paged):
    before = paged.key_cache.copy(), paged.value_cache.copy()
    copies = {
        "key_cache_out": np.zeros_like(before[0]),
        "value_cache_out": np.zeros_like(before[1]),
    }
    quire.paged_attention(**paged.arguments(), **copies)
    np.testing.assert_array_equal(paged.key_cache, before[0])
    np.testing.assert_array_equal(paged.value_cache, before[1])
    np.testing.assert_array_equal(copies["key_cache_out"][2, 0, 0], paged.key[0])


def test_packed_query(paged):
    separate = quire.paged_attention(**paged.arguments())
    packed = np.concatenate([paged.query, paged.key, paged.value], axis=1)
    arguments = paged.arguments(query=packed, key=None, value=None)
    np.testing.assert_array_equal(quire.paged_attention(**arguments), separate)


def test_linear_attention_equals_its_recurrence():
    random = np.random.default_rng(1)
    query, key = (random.standard_normal((1, 5, 6), dtype=np.float32) for _ in range(2))
    value = random.standard_normal((1, 5, 8), dtype=np.float32)
    decay = -random.random((1, 5, 2), dtype=np.float32)
    beta = random.random((1, 5, 2), dtype=np.float32)
    output, state = quire.linear_attention(
        query, key, value, None, decay, beta, q_num_heads=2, kv_num_heads=2
    )
    for head in range(2):
        s = np.zeros((3, 4))
        for t in range(5):
            k, v = key[0, t, head * 3 :][:3], value[0, t, head * 4 :][:4]
            s *= np.exp(np.float64(decay[0, t, head]))
            s += np.outer(k, beta[0, t, head] * (v - s.T @ k))
            want = s.T @ query[0, t, head * 3 :][:3] / np.sqrt(3)
            np.testing.assert_allclose(output[0, t, head * 4 :][:4], want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state[0, head], s, rtol=1e-4, atol=1e-5)


def test_a_state_may_be_carried_in_place():
    random = np.random.default_rng(2)
    tensors = [random.standard_normal((1, 3, 4), dtype=np.float32) for _ in range(3)]
    heads = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear"}
    state = random.standard_normal((1, 1, 4, 4), dtype=np.float32)
    _, want = quire.linear_attention(*tensors, state, **heads)
    _, found = quire.linear_attention(*tensors, state, present_state=state, **heads)
    assert found is state
    np.testing.assert_array_equal(state, want)


def test_replay_has_the_bits_of_decoding():
    random = np.random.default_rng(3)
    heads = {"q_num_heads": 1, "kv_num_heads": 1}
    query, key, value = (random.standard_normal((1, 4, 4), dtype=np.float32) for _ in range(3))
    decay, beta = -random.random((1, 4, 1), dtype=np.float32), np.ones((1, 4, 1), np.float32)
    past = random.standard_normal((1, 1, 4, 4), dtype=np.float32)
    log = {
        "log_key": np.empty((1, 4, 4), np.float32),
        "log_value": np.empty((1, 4, 4), np.float32),
        "log_decay": np.empty((1, 4, 1), np.float32),
    }
    output, none = quire.linear_attention(query, key, value, past, decay, beta, **heads, **log)
    assert none is None and output.shape == (1, 4, 4)
    replayed = quire.linear_attention_replay(
        **log, accepted=np.array([2], np.int32), past_state=past, kv_num_heads=1
    )
    cut = [tensor[:, :2] for tensor in (query, key, value)]
    _, want = quire.linear_attention(*cut, past, decay[:, :2], beta[:, :2], **heads)
    np.testing.assert_array_equal(replayed, want)


def test_paged_decode_and_merge():
    random = np.random.default_rng(4)
    query = random.standard_normal((1, 2, 8), dtype=np.float32)
    keys, values = (random.standard_normal((1, 4, 2, 8), dtype=np.float32) for _ in range(2))

    def decode(pages, length):
        return quire.paged_decode(
            query, keys, values, page_table=np.array([pages], np.int32),
            context_lengths=np.array([length], np.int32), scale=0.5, softmax_lse=True,
        )  # fmt: skip

    whole, lse = decode([3, 0, 2, 1], 8)
    first, second = decode([3, 0], 4), decode([2, 1], 4)
    merged, merged_lse = quire.merge_attention(*first, *second)
    np.testing.assert_allclose(merged, whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(merged_lse, lse, rtol=1e-5)


def test_causal_conv_equals_its_definition():
    random = np.random.default_rng(5)
    x, w = random.standard_normal((1, 3, 7), dtype=np.float32), random.random((3, 1, 4), np.float32)
    output, state = quire.causal_conv(x, w)
    padded = np.concatenate([np.zeros((3, 3), np.float32), x[0]], axis=1)
    want = np.array([np.convolve(padded[c], w[c, 0, ::-1], "valid") for c in range(3)])
    np.testing.assert_allclose(output[0], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(state[0], x[0, :, -3:])


def test_signatures_have_every_tensor_and_default_of_the_library():
    for name, call in CALLS.items():
        parameters = inspect.signature(getattr(quire, name)).parameters
        assert set(parameters) == set(call.kinds), name
        args = ffi.new(call.type)
        call.init(args)
        for attribute, kind in call.kinds.items():
            given = parameters[attribute].default
            if attribute in (*call.tensors(), "device", "workspace") or given is inspect._empty:
                continue
            default = getattr(args, attribute)
            if kind == "char *":
                assert given == text(default), (name, attribute)
            else:
                assert np.float32(given) == np.float32(default), (name, attribute)
    functions = {name for name in vars(lib) if name.endswith("_args_init")}
    assert len(CALLS) + 1 == len(functions)  # and quire_shared_prefix_attention()


def test_arguments_are_bound_as_python_does(paged):
    arguments = paged.arguments()
    rows = [arguments.pop(name) for name in ("query", "key", "value")]
    quire.paged_attention(*rows, **arguments)
    for positional, changes, words in [
        (rows, {"query": rows[0]}, "multiple values for argument 'query'"),
        (rows, {"what": 1}, "unexpected keyword argument 'what'"),
        ([*rows, None, None, None], {}, "multiple values for argument 'key_cache'"),
        (rows[:2], {}, "missing a required argument: 'value'"),
    ]:
        with pytest.raises(TypeError, match=words):
            quire.paged_attention(*positional, **{**arguments, **changes})
    for name in ("device", "workspace"):
        with pytest.raises(quire.BadRequest, match=f"^{name}: 'cpu' is no quire"):
            quire.paged_attention(*rows, **{**arguments, name: "cpu"})


def test_a_known_form_takes_no_more_than_a_new_one(paged):
    """Calls of one form share what was learnt; what only equals an attribute is still refused."""
    want = quire.paged_attention(**paged.arguments())
    for changes in ({"num_heads": 2.0}, {"num_heads": "2"}, {"kv_num_heads": None}):
        with pytest.raises(quire.BadAttribute):
            quire.paged_attention(**paged.arguments(**changes))
    np.testing.assert_array_equal(
        quire.paged_attention(**paged.arguments(num_heads=np.int64(2), is_causal=1)), want
    )
    # Same form, other memory, other flags: each call is looked at.
    again = {name: getattr(paged, name).copy() for name in ("query", "key", "value")}
    again["query"] *= 2
    found = quire.paged_attention(**paged.arguments(**again))
    assert not np.array_equal(found, want)


def test_every_status_has_an_exception():
    from quire.errors import BY_STATUS

    names = {text(lib.quire_status_name(number)) for number in range(64)} - {"OK", "UNKNOWN"}
    assert names == set(BY_STATUS)
    for name, kind in BY_STATUS.items():
        number = getattr(lib, f"QUIRE_{name}")
        invalid = bool(lib.quire_status_is_invalid_argument(number))
        assert issubclass(kind, quire.InvalidArgument) == invalid, name
        assert getattr(quire, kind.__name__) is kind


REFUSALS = [
    ({"query": np.zeros((4, 15), np.float32)}, quire.BadShape, "PA-V8", "query"),
    ({"query": np.zeros((4, 2, 8), np.float32)}, quire.BadRank, "PA-V5", "query"),
    ({"query": np.zeros((4, 16), np.float16)}, quire.BadType, "PA-V6", "key"),
    ({"value": None}, quire.BadPresence, "PA-V4", "value"),
    ({"num_heads": 3}, quire.InvalidArgument, "PA-V8", "query"),
    ({"block_table": np.full((2, 2), 9, np.int32)}, quire.BadValue, "PA-E9", "block_table"),
    ({"scale": float("nan")}, quire.BadAttribute, "", "scale"),
    ({"k_quant_type": "WHAT"}, quire.Unsupported, "PA-V3", "k_quant_type"),
]


@pytest.mark.parametrize(("changes", "kind", "rule", "subject"), REFUSALS)
def test_refusals_have_the_library_s_text(paged, changes, kind, rule, subject):
    before = paged.key_cache.copy()
    with pytest.raises(kind) as caught:
        quire.paged_attention(**paged.arguments(**changes))
    error = caught.value
    assert type(error).status == quire._native.text(
        lib.quire_status_name(getattr(lib, f"QUIRE_{type(error).status}"))
    )
    assert subject in str(error)
    if rule:
        assert error.rule == rule and str(error).startswith(rule), str(error)
    np.testing.assert_array_equal(paged.key_cache, before)


def test_an_alias_is_refused(paged):
    with pytest.raises(quire.BadAlias):
        quire.paged_attention(**paged.arguments(), output=paged.query)


def test_errors_can_be_pickled(paged):
    with pytest.raises(quire.BadShape) as caught:
        quire.paged_attention(**paged.arguments(query=np.zeros((4, 15), np.float32)))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.rule) == (quire.BadShape, str(caught.value), "PA-V8")


@pytest.mark.parametrize(
    "changes",
    [
        {"num_heads": "two"},
        {"num_heads": 2.0},
        {"num_heads": None},
        {"num_heads": 2**70},
        {"scale": "large"},
        {"scale": [1.0]},
        {"k_quant_type": 3},
        {"k_quant_type": "NONE\0"},
    ],
)
def test_attributes_of_a_wrong_kind(paged, changes):
    with pytest.raises(quire.BadAttribute) as caught:
        quire.paged_attention(**paged.arguments(**changes))
    assert next(iter(changes)) in str(caught.value)
