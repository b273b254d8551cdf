"""Whatever a caller passes, an exception of the package or a result comes back; nothing crashes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from conftest import Paged
from hypothesis import given
from hypothesis import strategies as st

import quire

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.int32, np.int64,
          np.uint8, np.bool_, np.complex64, np.dtype(">f4")]  # fmt: skip

dtypes = st.sampled_from(DTYPES)
sizes = st.integers(0, 9)
shapes = st.lists(sizes, max_size=6).map(tuple)


@st.composite
def arrays(draw):
    """An array of any type, shape and strides, perhaps read-only."""
    array = np.zeros(draw(shapes), draw(dtypes))
    if array.ndim:
        cut = st.sampled_from(
            [slice(None), slice(None, None, 2), slice(None, None, -1), slice(1, None)]
        )
        array = array[tuple(draw(cut) for _ in range(array.ndim))]
    if draw(st.booleans()):
        array = array.T
    if draw(st.booleans()):
        array = array.view()
        array.flags.writeable = False
    return array


junk = st.one_of(
    arrays(), st.none(), st.text(max_size=3), st.integers(), st.floats(), st.just([1]),
    st.just(memoryview(b"12345678")), st.just(bytearray(8)), st.just(object()),
)  # fmt: skip
numbers = st.one_of(
    st.integers(-3, 9), st.integers(), st.floats(), st.text(max_size=4), st.booleans(), st.none(),
    st.sampled_from(["NONE", "PER_TENSOR", "PER_TOKEN", "linear", "gated", "silu", "tiled"]),
)  # fmt: skip


def run(function, arguments):
    try:
        function(**arguments)
    except quire.Error as error:
        assert str(error)


def changed(data, good, tensors, attributes):
    """Good arguments with a few replaced."""
    arguments = dict(good)
    names = data.draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
    arguments.update({name: data.draw(junk, label=name) for name in names})
    names = data.draw(st.lists(st.sampled_from(attributes), max_size=2))
    arguments.update({name: data.draw(numbers, label=name) for name in names})
    return arguments


@given(st.data())
def test_paged_attention(data):
    tensors = ["query", "key", "value", "key_cache", "value_cache", "cumulative_sequence_length",
               "past_seqlens", "block_table", "slot_mapping", "head_sink", "k_scale", "v_scale",
               "k_scale_cache", "attention_metadata", "output", "key_cache_out",
               "value_cache_out", "softmax_lse"]  # fmt: skip
    attributes = ["num_heads", "kv_num_heads", "scale", "is_causal", "local_window_size", "softcap",
                  "k_quant_type", "v_quant_type"]  # fmt: skip
    run(quire.paged_attention, changed(data, Paged().arguments(), tensors, attributes))


@given(st.data())
def test_values_of_index_arrays(data):
    """Right forms, any values."""
    values = st.one_of(st.integers(-3, 6), st.integers(-(2**31), 2**31 - 1))
    paged = Paged()
    arguments = paged.arguments()
    for name, array in paged.indices.items():
        drawn = data.draw(st.lists(values, min_size=array.size, max_size=array.size), label=name)
        arguments[name] = np.array(drawn, np.int32).reshape(array.shape)
    if data.draw(st.booleans()):
        slots = data.draw(st.lists(values, min_size=4, max_size=4))
        arguments["slot_mapping"] = np.array(slots, np.int32)
    run(quire.paged_attention, arguments)


@given(st.data())
def test_linear_attention(data):
    row = np.ones((1, 3, 8), np.float32)
    good = {"query": row, "key": row, "value": row, "past_state": np.zeros((1, 2, 4, 4), np.float32),
            "decay": np.zeros((1, 3, 2), np.float32), "beta": np.ones((1, 3, 2), np.float32),
            "q_num_heads": 2, "kv_num_heads": 2}  # fmt: skip
    tensors = ["query", "key", "value", "past_state", "decay", "beta", "cu_seqlens", "state_pool",
               "read_indices", "write_indices", "a_log", "dt_bias", "output", "present_state",
               "state_pool_out", "log_key", "log_value", "log_decay"]  # fmt: skip
    attributes = ["q_num_heads", "kv_num_heads", "update_rule", "scale", "chunk_size",
                  "state_window", "gate_activation", "beta_activation", "qk_l2_norm",
                  "qk_l2_norm_epsilon", "state_layout", "head_mapping"]  # fmt: skip
    run(quire.linear_attention, changed(data, good, tensors, attributes))


@given(st.data())
def test_paged_decode(data):
    pages = np.zeros((1, 4, 2, 8), np.float32)
    good = {"query": np.ones((1, 2, 8), np.float32), "key_pages": pages, "value_pages": pages,
            "page_table": np.array([[0, 1]], np.int32), "context_lengths": np.array([3], np.int32),
            "scale": 1.0}  # fmt: skip
    tensors = ["query", "key_pages", "value_pages", "page_table", "context_lengths", "head_sink",
               "key_scales", "value_scales", "output", "softmax_lse"]  # fmt: skip
    attributes = ["scale", "partial_blocks", "context_bound", "local_window_size"]
    run(quire.paged_decode, changed(data, good, tensors, attributes))


@given(st.data())
def test_causal_conv_and_merge(data):
    x = np.ones((1, 3, 5), np.float32)
    good = {"input": x, "weight": np.ones((3, 1, 4), np.float32)}
    tensors = ["input", "weight", "bias", "past_state", "cu_seqlens", "state_pool", "read_indices",
               "write_indices", "output", "present_state", "state_pool_out"]  # fmt: skip
    attributes = ["activation", "dilation", "channels_last", "state_window", "ndim"]
    run(quire.causal_conv, changed(data, good, tensors, attributes))
    part, lse = np.ones((2, 1, 4), np.float32), np.zeros((2, 1), np.float32)
    good = {"output_a": part, "softmax_lse_a": lse, "output_b": part, "softmax_lse_b": lse}
    attributes = ["device", "workspace"]
    arguments = changed(data, good, [*good, "output", "softmax_lse"], attributes)
    run(quire.merge_attention, {**arguments, "device": None, "workspace": None})


@given(st.data())
def test_plans_and_bound_calls(data):
    paged = Paged()
    tensors = paged.tensors()
    for name in data.draw(st.lists(st.sampled_from([*tensors, "what"]), max_size=2)):
        tensors[name] = data.draw(junk, label=name)
    try:
        plan = quire.Plan("PagedAttention", tensors, paged.attributes,
                          outputs=data.draw(st.lists(st.text(max_size=3), max_size=1)))  # fmt: skip
        bindings = dict(tensors)
        for name in data.draw(
            st.lists(st.sampled_from([*bindings, "output", "softmax_lse"]), max_size=2)
        ):
            bindings[name] = data.draw(junk, label=f"bind {name}")
        bound = plan.bind(bindings, strict=data.draw(st.booleans()))
        if data.draw(st.booleans()):
            bound.prepare()
        bound(prepared=data.draw(st.booleans()))
    except quire.Error as error:
        assert str(error)


@given(st.data())
def test_serving(data):
    """Random operations, right and wrong, on one cache: the books always balance."""
    cache = quire.Cache(
        quire.BlockPool(6, 4), quire.BlockPool(5, 2, window=3),
        states=quire.StatePool(4, window=data.draw(st.integers(0, 2))), hash_seed=1,
    )  # fmt: skip
    sequences = [cache.sequence()]
    count = st.integers(-1, 9)
    for _ in range(data.draw(st.integers(1, 12))):
        sequence = data.draw(st.sampled_from(sequences))
        what = data.draw(st.integers(0, 9))
        try:
            if what == 0:
                key = data.draw(st.sampled_from([None, "a", "b"]))
                sequences.append(cache.sequence([1] * data.draw(st.integers(0, 9)), key=key))
            elif what == 1:
                sequence.append(data.draw(count))
            elif what == 2:
                draft = data.draw(count)
                cache.batch(
                    [quire.Step(sequence, data.draw(count), draft, replay=data.draw(st.booleans()))]
                )
            elif what == 3:
                sequence.commit([1] * data.draw(st.integers(0, 9)))
            elif what == 4:
                sequence.truncate(data.draw(count), copy=data.draw(st.booleans()))
            elif what == 5:
                sequences.append(sequence.fork())
            elif what == 6:
                sequence.free()
            elif what == 7:
                sequence.reserve(data.draw(count))
            elif what == 8:
                cache.copies_done()
            else:
                cache.shared_prefix([(sequence, 1)])
        except quire.Error as error:
            assert str(error)
        assert cache.balanced()
