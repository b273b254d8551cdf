"""How tensors come in and out: without copies, by strides, and refused with the way out."""

from __future__ import annotations

import array
import ctypes
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from conftest import address

import quire
from quire import _dlpack, _layout, _tensor


class Exporter:
    """A foreign array: DLPack only, of either generation."""

    def __init__(self, inner, versioned=True):
        self.inner, self.versioned, self.exports = inner, versioned, 0

    def __dlpack__(self, **options):
        if options and not self.versioned:
            raise TypeError("__dlpack__() takes no keyword arguments")
        self.exports += 1
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8,
     np.uint16, np.uint32, np.uint64, np.bool_, ml_dtypes.bfloat16],
)  # fmt: skip
def test_views_point_at_the_very_memory(dtype):
    whole = np.zeros((4, 6), dtype)
    for part in (whole, whole[1:, 2:], whole[::2, ::3], whole.T, whole[::-1]):
        record, _kept = _tensor.view("x", part)
        assert int(_tensor.ffi.cast("uintptr_t", record.data)) + record.byte_offset == address(part)
        assert _tensor.shape_of(record) == part.shape
        dense = part.flags.c_contiguous
        strides = tuple(s // part.itemsize for s in part.strides)
        assert _tensor.strides_of(record) == (None if dense else strides)
        assert _layout.dtype_name(record.dtype) == (
            "bool" if dtype is np.bool_ else part.dtype.name
        )


def test_caches_are_written_in_place_without_a_copy(paged):
    """The very addresses reach the library: rows appear in a larger array that was cut."""
    whole = np.zeros((4, 2, 3, 16), np.float32)
    key_cache = whole[:, :, 1:2, 4:12]
    before = address(key_cache)
    quire.paged_attention(**paged.arguments(key_cache=key_cache))
    assert address(key_cache) == before
    np.testing.assert_array_equal(whole[2, 0, 1, 4:12], paged.key[0])
    outside = whole.copy()
    outside[:, :, 1:2, 4:12] = 0
    assert not outside.any()


@pytest.mark.parametrize("versioned", [True, False])
def test_anything_with_dlpack(paged, versioned):
    want = quire.paged_attention(**paged.arguments())
    foreign = {name: Exporter(value, versioned) for name, value in paged.tensors().items()}
    found = quire.paged_attention(**foreign, **paged.attributes)
    np.testing.assert_array_equal(found, want)
    assert isinstance(found, np.ndarray)
    assert all(value.exports == 1 for value in foreign.values())


def test_buffers(paged):
    want = quire.paged_attention(**paged.arguments())
    lengths = array.array("i", [0, 3, 4])
    past = memoryview(array.array("i", [0, 2]))
    query = memoryview(paged.query.tobytes()).cast("B").cast("f", (4, 16))
    found = quire.paged_attention(
        **paged.arguments(query=query, cumulative_sequence_length=lengths, past_seqlens=past)
    )
    np.testing.assert_array_equal(found, want)


def test_read_only_inputs_are_accepted_and_read_only_caches_refused(paged):
    paged.query.flags.writeable = False
    quire.paged_attention(**paged.arguments())
    paged.value_cache.flags.writeable = False
    with pytest.raises(quire.BadRequest, match="^value_cache: is read-only.*pass a writable copy"):
        quire.paged_attention(**paged.arguments())
    with pytest.raises(quire.BadRequest, match="^output: is read-only"):
        fixed = np.zeros((4, 16), np.float32)
        fixed.flags.writeable = False
        quire.paged_attention(**paged.arguments(value_cache=paged.value_cache.copy()), output=fixed)
    # A copy takes the writing: the input may be read-only.
    out = {"key_cache_out": paged.key_cache * 0, "value_cache_out": paged.key_cache * 0}
    quire.paged_attention(**paged.arguments(), **out)


def test_buffers_that_are_read_only(paged):
    cache = memoryview(paged.key_cache.tobytes()).cast("f", (4, 2, 1, 8))
    with pytest.raises(quire.BadRequest, match="^key_cache: is read-only"):
        quire.paged_attention(**paged.arguments(key_cache=cache))


def test_strides_are_used_where_the_contract_allows(paged):
    want = quire.paged_attention(**paged.arguments())
    wide = np.zeros((4, 40), np.float32)
    wide[:, 3:19] = paged.query
    found = quire.paged_attention(**paged.arguments(query=wide[:, 3:19]))
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("query", np.asfortranarray),
        ("key", lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1]),
        ("key_cache", lambda a: a[..., ::-1]),
        ("block_table", np.asfortranarray),
        ("past_seqlens", lambda a: np.repeat(a, 2)[::2]),
    ],
)
def test_strides_are_refused_with_the_way_out(paged, name, change):
    with pytest.raises(quire.Unsupported, match="a contiguous copy is accepted") as caught:
        quire.paged_attention(**paged.arguments(**{name: change(paged.tensors()[name])}))
    assert str(caught.value).startswith("PA-S1") and caught.value.subject == name


def misaligned(values):
    raw = bytearray(values.nbytes + 1)
    view = np.frombuffer(raw, np.uint8, offset=1)[: values.nbytes]
    if view.ctypes.data % 4 == 0:
        view = np.frombuffer(raw, np.uint8)[: values.nbytes]
    view[:] = values.view(np.uint8).ravel()
    return view.view(values.dtype).reshape(values.shape)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ([1.0, 2.0], quire.BadRequest, "list is no tensor"),
        ("text", quire.BadRequest, "str is no tensor"),
        (b"bytes", quire.BadRequest, "bytes is no tensor"),
        (object(), quire.BadRequest, "object is no tensor"),
        (3.0, quire.BadRequest, "float is no tensor"),
        (np.zeros((4, 16), complex), quire.BadType, "not supported"),
        (np.zeros((4, 16), ">f4"), quire.BadRequest, "query: "),
        (np.zeros((4, 16), object), quire.BadRequest, "query: "),
        (np.zeros((4, 16), "U3"), quire.BadRequest, "query: "),
        (np.zeros((4, 16), [("a", "f4")]), quire.BadRequest, "query: "),
        (np.zeros((4, 16), [("a", "f4"), ("b", "i1")])["a"], quire.BadRequest, "query: "),
        (np.zeros((4, 16), ml_dtypes.float8_e4m3fn), quire.BadRequest, "query: "),
        (np.zeros((1,) * 12, np.float32), quire.BadRequest, "0 to 8 are possible"),
        (np.float32(3), quire.Error, "query"),
        (np.array(3, np.float32), quire.BadRank, "query"),
        (misaligned(np.zeros((4, 16), np.float32)), quire.BadRequest, "not aligned"),
    ],
)
def test_what_is_no_tensor_is_named(paged, value, kind, words):
    with pytest.raises(kind, match="query") as caught:
        quire.paged_attention(**paged.arguments(query=value))
    assert words in str(caught.value)


def capsule_of(managed, name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return new(ctypes.addressof(managed), name, None)


class Hand:
    """A record of DLPack that was made by hand."""

    def __init__(self, device=1, code=2, bits=32, lanes=1, major=1):
        self.data = np.zeros(64, np.float32)
        self.shape = (ctypes.c_int64 * 2)(4, 16)
        raw = _dlpack._VERSIONED.pack(
            major, 0, 0, 0, 0, self.data.ctypes.data, device, 0, 2,
            code | bits << 8 | lanes << 16, ctypes.addressof(self.shape), 0, 0,
        )  # fmt: skip
        self.record = ctypes.create_string_buffer(raw, len(raw))

    def __dlpack__(self, **_):
        return capsule_of(self.record, b"dltensor_versioned")


def test_records_of_other_libraries(paged):
    quire.paged_attention(**paged.arguments(query=Hand()))
    for hand, kind, words in [
        (Hand(device=2), quire.BadRequest, "is on cuda:0, the device takes host memory"),
        (Hand(device=77), quire.BadRequest, "DLPack device 77"),
        (Hand(code=2, bits=128), quire.BadType, "128 bits"),
        (Hand(lanes=4), quire.BadType, "4 lanes"),
        (Hand(major=2), quire.BadRequest, "DLPack 2.0 is not known"),
    ]:
        with pytest.raises(kind, match="^query: ") as caught:
            quire.paged_attention(**paged.arguments(query=hand))
        assert words in str(caught.value)


def test_an_exporter_that_fails(paged):
    class Broken:
        def __dlpack__(self, **_):
            raise RuntimeError("no memory on Mondays")

    class Wrong:
        def __dlpack__(self, **_):
            return 3

    for value in (Broken(), Wrong()):
        with pytest.raises(quire.BadRequest, match="^query: "):
            quire.paged_attention(**paged.arguments(query=value))


def test_nothing_is_kept_after_a_call(paged):
    class Watched(np.ndarray):
        pass

    query = paged.query.view(Watched)
    watch = weakref.ref(query)
    quire.paged_attention(**paged.arguments(query=query))
    del query
    gc.collect()
    assert watch() is None


def test_axes_of_one_element_may_have_any_stride(paged):
    """Slices of one row or column are dense, whatever their strides say."""
    want = quire.paged_attention(**paged.arguments())
    table = np.zeros((2, 5), np.int32)
    table[:, :2] = paged.indices["block_table"]
    one = {"query": paged.query[:1], "key": paged.key[:1], "value": paged.value[:1],
           "cumulative_sequence_length": np.array([0, 1], np.int32),
           "past_seqlens": np.zeros(3, np.int32)[::3],
           "block_table": table[:1, ::5]}  # fmt: skip
    np.testing.assert_allclose(quire.paged_attention(**paged.arguments(**one)), want[:1], rtol=1e-6)
    foreign = {name: Exporter(value) for name, value in one.items()}
    quire.paged_attention(**paged.arguments(**foreign))


def test_empty_tensors(paged):
    indices = {"cumulative_sequence_length": np.zeros(3, np.int32)}
    empty = {name: getattr(paged, name)[:0] for name in ("query", "key", "value")}
    assert quire.paged_attention(**paged.arguments(**empty, **indices)).shape == (0, 16)
