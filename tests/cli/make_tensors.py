#!/usr/bin/env python3
"""Makes tensor files for the tests of the command line: small good ones, and hostile ones.

usage: make_tensors.py good|metadata|refused|hostile|json FOLDER
       make_tensors.py show FILE      prints metadata, tensors and (F32) values
Standard library only.
"""
import json
import pathlib
import struct
import sys


def file_bytes(header, data, length=None, pad=True):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def make(tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes), written in the given order."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return file_bytes(header, data)


def merge_tensors():
    """Two states of equal weight: the merged output is their mean, the sum of weights doubles."""
    return {
        "output_a": ("F32", [1, 1, 2], floats(1, 2)),
        "softmax_lse_a": ("F32", [1, 1], floats(0)),
        "output_b": ("F32", [1, 1, 2], floats(3, 6)),
        "softmax_lse_b": ("F32", [1, 1], floats(0)),
    }


MERGE = {"op": "quire.MergeAttentionStates", "attributes": "{}"}
EXPECT = {"expect.output": ("F32", [1, 1, 2], floats(2, 4))}
LOOSE = json.dumps({"output": {"atol": 1e-6, "rtol": 1e-6}})


def good():
    wrong = dict(merge_tensors(), **{"expect.output": ("F32", [1, 1, 2], floats(2, 4.5))})
    shape = dict(merge_tensors(), **{"expect.output": ("F32", [1, 2], floats(2, 4))})
    yield "merge", make(merge_tensors(), MERGE)
    yield "merge_checked", make(dict(merge_tensors(), **EXPECT), dict(MERGE, tolerance=LOOSE))
    yield "merge_wrong", make(wrong, dict(MERGE, tolerance=LOOSE))
    yield "merge_wrong_shape", make(shape, dict(MERGE, tolerance=LOOSE))
    yield "merge_not_refused", make(merge_tensors(), dict(MERGE, error="invalid_argument"))
    bad = dict(merge_tensors(), softmax_lse_b=("F32", [1, 2], floats(0, 0)))
    yield "merge_refused", make(bad, dict(MERGE, error="invalid_argument"))
    yield "merge_refused_otherwise", make(bad, dict(MERGE, error="UNSUPPORTED"))
    # A header of odd length: no float of the file lies aligned.
    aligned = make(dict(merge_tensors(), **EXPECT), dict(MERGE, tolerance=LOOSE))
    length = struct.unpack("<Q", aligned[:8])[0]
    yield "merge_unaligned", file_bytes(aligned[8:8 + length] + b" ", aligned[8 + length:], pad=False)


def metadata():
    def with_metadata(**changes):
        return make(dict(merge_tensors(), **EXPECT), {k: v for k, v in dict(MERGE, **changes).items() if v is not None})

    yield "no_op", with_metadata(op=None)
    yield "unknown_op", with_metadata(op="quire.Nothing")
    yield "attributes_no_json", with_metadata(attributes="{\"a\": }")
    yield "attributes_duplicate", with_metadata(attributes="{\"a\": 1, \"a\": 2}")
    yield "attributes_infinite", with_metadata(attributes="{\"a\": 1e999}")
    yield "attributes_list", with_metadata(attributes="[1]")
    yield "attributes_nested", with_metadata(attributes="{\"a\": [1]}")
    yield "output_dtypes_unknown", with_metadata(output_dtypes="{\"output\": \"F12\"}")
    yield "tolerance_negative", with_metadata(tolerance="{\"output\": {\"atol\": -1}}")
    yield "tolerance_unknown", with_metadata(tolerance="{\"output\": {\"tol\": 1}}")
    yield "outputs_no_list", with_metadata(outputs="{}")
    yield "outputs_no_name", with_metadata(outputs="[1]")
    yield "error_unknown", with_metadata(error="BAD_LUCK")
    yield "error_with_expected", with_metadata(error="invalid_argument")


def refused():
    """Cases that want a refusal for something that only metadata can say."""
    for name, text in (("nan", "{\"scale\": NaN}"), ("null", "{\"scale\": null}"), ("infinite", "{\"scale\": 1e999}")):
        yield f"attribute_{name}", make(merge_tensors(), dict(MERGE, attributes=text, error="BAD_ATTRIBUTE"))
    paged = {"query": ("F32", [1, 1], floats(1)), "key": ("F32", [1, 1], floats(1)), "value": ("F32", [1, 1], floats(1)),
             "key_cache": ("F32", [1, 1, 1, 1], floats(1)), "value_cache": ("F32", [1, 1, 1, 1], floats(1)),
             "cumulative_sequence_length": ("I32", [2], struct.pack("<2i", 0, 1)),
             "past_seqlens": ("I32", [1], bytes(4)), "block_table": ("I32", [1, 1], bytes(4))}
    about = {"op": "com.microsoft.PagedAttention", "attributes": "{\"num_heads\": 1, \"kv_num_heads\": 1}"}
    for name in ("key", "value"):
        yield f"{name}_cache_alone", make(
            paged, dict(about, outputs=json.dumps(["output", f"{name}_cache_out"]), error="BAD_PRESENCE"))
    linear = {"query": ("F32", [1, 1, 1], floats(1)), "key": ("F32", [1, 1, 1], floats(1)), "value": ("F32", [1, 1, 1], floats(1)),
              "state_pool": ("F32", [1, 1, 1, 1], floats(1)), "read_indices": ("I32", [1], bytes(4)),
              "write_indices": ("I32", [1], bytes(4))}
    yield "pool_and_present_state", make(linear, {
        "op": "com.microsoft.LinearAttention", "error": "BAD_PRESENCE", "outputs": json.dumps(["output", "present_state"]),
        "attributes": "{\"q_num_heads\": 1, \"kv_num_heads\": 1, \"update_rule\": \"linear\"}"})


def hostile():
    one = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    data = bytes(8)

    def entry(**changes):
        return {"a": dict(one["a"], **changes)}

    yield "empty", b""
    yield "short", b"\x01\x02\x03"
    yield "header_length_huge", file_bytes(one, data, length=2**63)
    yield "header_length_100_mb", file_bytes(one, data, length=100000001)
    yield "header_length_past_end", file_bytes(one, data, length=1000)
    yield "header_truncated", file_bytes(one, data)[:40]
    yield "header_empty", file_bytes(b"", data, pad=False)
    yield "header_no_object", file_bytes(b"[1]", data)
    yield "header_no_json", file_bytes(b"{\"a\": nan}", data)
    yield "header_text_after", file_bytes(b"{} x", b"")
    yield "header_not_utf8", file_bytes(b"{\"\xff\": 1}", b"")
    yield "header_zero_byte", file_bytes(b"{\"a\\u0000b\": 1}", b"")
    yield "header_depth_bomb", file_bytes(b"{\"a\": " + b"[" * 100000, b"")
    yield "header_duplicate_name", file_bytes(
        b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, '
        b'"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}', bytes(2))
    yield "name_10_mb", file_bytes({"x" * 10_000_000: 1}, b"")
    yield "name_control", file_bytes({"a\n\x1b[2Jb": 1}, b"")
    yield "metadata_no_object", file_bytes({"__metadata__": 1}, b"")
    yield "metadata_number", file_bytes({"__metadata__": {"op": 1}}, b"")
    yield "entry_no_object", file_bytes({"a": 7}, b"")
    yield "entry_missing_shape", file_bytes({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, data)
    yield "entry_unknown_member", file_bytes(entry(extra=1), data)
    yield "dtype_unknown", file_bytes(entry(dtype="F8_E4M3"), data)
    yield "dtype_number", file_bytes(entry(dtype=1), data)
    yield "shape_negative", file_bytes(entry(shape=[-2]), data)
    yield "shape_fraction", file_bytes(entry(shape=[2.5]), data)
    yield "shape_text", file_bytes(entry(shape="2"), data)
    yield "shape_rank_9", file_bytes(entry(shape=[1] * 9), data)
    yield "shape_product_overflow", file_bytes(entry(shape=[2**32, 2**32, 2**32]), data)
    yield "shape_product_overflow_zero", file_bytes(entry(shape=[2**62, 2**62, 0], data_offsets=[0, 0]), b"")
    yield "shape_beyond_64_bits", file_bytes(entry(shape=[2**64]), data)
    yield "offsets_one", file_bytes(entry(data_offsets=[0]), data)
    yield "offsets_negative", file_bytes(entry(data_offsets=[-8, 0]), data)
    yield "offsets_reversed", file_bytes(entry(data_offsets=[8, 0]), data)
    yield "offsets_past_end", file_bytes(entry(data_offsets=[8, 16]), data)
    yield "offsets_near_2_63", file_bytes(entry(data_offsets=[2**63 - 9, 2**63 - 1]), data)
    yield "offsets_other_size", file_bytes(entry(data_offsets=[0, 7]), data)
    yield "overlap", file_bytes(
        dict(one, b={"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}), bytes(12))
    yield "gap_inside", file_bytes(
        dict(one, b={"dtype": "F32", "shape": [1], "data_offsets": [12, 16]}), bytes(16))
    yield "gap_in_front", file_bytes(entry(data_offsets=[8, 16]), bytes(16))
    yield "trailing_bytes", file_bytes(one, bytes(9))
    yield "empty_tensor_inside", file_bytes(
        dict(one, b={"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}), data)


def hostile_json():
    """Texts that are handed in as manifest, request, or limits."""
    yield "empty", ""
    yield "no_object", "[]"
    yield "truncated", '{"domain": "test", "name": '
    yield "text_after", "{} {}"
    yield "duplicate_key", '{"inputs": {}, "inputs": {}}'
    yield "not_a_number", '{"inputs": NaN}'
    yield "overflow", '{"inputs": 1e999}'
    yield "integer_beyond_64_bits", '{"inputs": 9223372036854775808}'
    yield "depth_bomb", '{"inputs": ' + "[" * 200_000
    yield "depth_bomb_closed", '{"inputs": ' + "[" * 200_000 + "]" * 200_000 + "}"
    yield "string_10_mb", '{"inputs": "' + "x" * 10_000_000 + '"}'
    yield "name_10_mb", '{"' + "x" * 10_000_000 + '": 1}'
    yield "name_control", '{"a\\u001b[2J\\nb": 1}'


def show(path):
    content = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    print(f"header {'padded' if length % 8 == 0 else 'not padded'}", json.dumps(header.pop("__metadata__", None)))
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = ""
        if entry["dtype"] == "F32":
            values = " ".join(f"{value:.6g}" for value in
                              struct.unpack(f"<{(end - begin) // 4}f", content[8 + length + begin:8 + length + end]))
        print(name, entry["dtype"], entry["shape"], begin, end, values)


def main():
    if sys.argv[1] == "show":
        show(sys.argv[2])
        return
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "json":
        for name, text in hostile_json():
            (folder / f"{name}.json").write_text(text)
        return
    for name, content in {"good": good, "metadata": metadata, "refused": refused, "hostile": hostile}[sys.argv[1]]():
        (folder / f"{name}.safetensors").write_bytes(content)


if __name__ == "__main__":
    main()
