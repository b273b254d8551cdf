#!/usr/bin/env python3
"""Time Quire's provider for ONNX Runtime: against the runtime's own CPU kernels, and its overhead.

    python onnxruntime_provider.py --library libquire_onnxruntime.so [--quire libquire.so]
                                   [--only overhead,linear,paged] [--threads 2] [--rounds 9] [--seconds 0.15] [--patience 4]

Needs numpy, onnx and onnxruntime (1.32). Everything runs in one process, through IO binding with buffers that
stay where they are; states and caches are bound in place. The two sides of a ratio take turns, `--rounds`
times `--seconds` each; a figure is the median over all calls, its spread the first and ninth decile of them, and
the ratio's spread that of the rounds' own ratios. The first call of each side is checked against a NumPy
reference.

overhead   a node's cost in a chain of 101, from a second chain of one, minus the same call of Quire's library
           without the runtime (through ctypes, whose own cost is measured and taken away). The nodes are as small
           as they come. Needs --quire.
linear     LinearAttention f32, gated_delta, 16 query and key heads, 32 value heads, 128x128, T = 1 and 256.
paged      decode over 8K tokens, 32 query and 8 key heads of size 128: PagedAttention f16 on Quire, against
           GroupQueryAttention f32 and f16, which is what the runtime's CPU has.
"""
import argparse
import ctypes
import json
import os
import re
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from peer import data, timing  # noqa: E402
from peer.onnxruntime_peer import Ort  # noqa: E402  the models of the runtime's own operators

PROVIDER = "QuireExecutionProvider"


# ------------------------------------------------------------------------------------------------
# measuring
# ------------------------------------------------------------------------------------------------

def times_of(call, seconds):
    """Times of single calls in microseconds."""
    clock, times, end = time.perf_counter_ns, [], time.perf_counter() + seconds
    for _ in range(3):
        call()
    while len(times) < 5 or time.perf_counter() < end:
        a = clock()
        call()
        times.append((clock() - a) * 1e-3)
    return times


def quiet_times_of(call, options):
    """The same, again while other processes work; the quietest attempt of `--patience` counts."""
    best = None
    for _ in range(1 + options.patience):
        before, start = timing.cpu_ticks(), time.perf_counter()
        times = times_of(call, options.seconds)
        load = timing.others(before, time.perf_counter() - start)
        if best is None or load < best[1]:
            best = times, load
        if load <= timing.BUSY:
            break
    LOADS.append(best[1])
    return best[0]


def take_turns(calls, options):
    """For each call: (median, first decile, ninth decile, medians of the rounds), in microseconds."""
    all_times, medians = [[] for _ in calls], [[] for _ in calls]
    for _ in range(options.rounds):
        for i, call in enumerate(calls):
            times = quiet_times_of(call, options)
            all_times[i] += times
            medians[i].append(float(np.median(times)))
    return [(*np.quantile(t, [0.5, 0.1, 0.9]), np.array(m)) for t, m in zip(all_times, medians)]


def figure(result):
    return f"{result[0]:9.1f} us ({result[1]:.1f} to {result[2]:.1f})"


def print_ratio(name, other, ours):
    ratios = other[3] / ours[3]
    print(f"{name:58s} {figure(ours)}  {figure(other)}  {other[0] / ours[0]:5.2f}x ({ratios.min():.2f} to {ratios.max():.2f})",
          flush=True)


def check(pairs, name, tolerance):
    for got, want in pairs:
        error = data.rel_err(got, want)
        if not error <= tolerance:
            sys.exit(f"{name}: relative error {error:.2g}: not timed")


# ------------------------------------------------------------------------------------------------
# the runtime with our provider
# ------------------------------------------------------------------------------------------------

class Quire(Ort):
    """The same models, on our provider: sessions that leave a node to anyone else are refused."""
    name = "quire"

    def __init__(self, threads):
        super().__init__(threads)
        device = next(d for d in ort.get_ep_devices() if d.ep_name == PROVIDER)
        self.so.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        self.so.add_provider_for_devices([device], {"threads": str(threads)} if HINT else {})

    def session(self, node, inputs, outputs):
        return self.load(self.model([node], inputs, outputs))

    def model(self, nodes, inputs, outputs):
        h, tp = onnx.helper, onnx.TensorProto
        types = {"f32": tp.FLOAT, "f16": tp.FLOAT16, "i32": tp.INT32}
        vi = lambda io: [h.make_tensor_value_info(n, types[t], s) for n, t, s in io]
        graph = h.make_graph(nodes, "g", vi(inputs), vi(outputs))
        opsets = [h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)]
        return h.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()

    def load(self, model):
        return ort.InferenceSession(model, self.so, enable_fallback=False)

    def paged_decode(self, case, block=16):
        """One token over a paged cache in shuffled blocks, f16, updated in place."""
        q, ks, vs = data.decode_data(case)
        want = data.decode_reference(q, ks, vs)
        hq, hkv, d, n = case["q_heads"], case["kv_heads"], case["head_dim"], case["contexts"][0]
        blocks = -(-n // block)
        table = np.random.default_rng(1).permutation(blocks).astype(np.int32)
        caches = []
        for x in (ks[0], vs[0]):
            rows = np.zeros((blocks * block, hkv, d), np.float16)
            rows[: n - 1] = x.transpose(1, 0, 2)[: n - 1]
            cache = np.zeros((blocks, block, hkv, d), np.float16)
            cache[table] = rows.reshape(blocks, block, hkv, d)
            caches.append(self.val(cache))
        node = onnx.helper.make_node(
            "PagedAttention", ["q", "k", "v", "kc", "vc", "starts", "past", "table"], ["o", "kc2", "vc2"],
            domain="com.microsoft", num_heads=hq, kv_num_heads=hkv)
        shape = [blocks, block, hkv, d]
        sess = self.session(
            node,
            [("q", "f16", [1, hq * d]), ("k", "f16", [1, hkv * d]), ("v", "f16", [1, hkv * d]), ("kc", "f16", shape),
             ("vc", "f16", shape), ("starts", "i32", [2]), ("past", "i32", [1]), ("table", "i32", [1, blocks])],
            [("o", "f16", [1, hq * d]), ("kc2", "f16", shape), ("vc2", "f16", shape)])
        new = lambda x: self.val(x[0][:, -1].reshape(1, -1).astype(np.float16))
        ints = lambda *x: self.val(np.array(x, np.int32))
        out = self.val(np.zeros((1, hq * d), np.float16))
        call = self.bind(
            sess,
            {"q": self.val(q.reshape(1, -1).astype(np.float16)), "k": new(ks), "v": new(vs), "kc": caches[0],
             "vc": caches[1], "starts": ints(0, 1), "past": ints(n - 1), "table": self.val(table[None])},
            {"o": out, "kc2": caches[0], "vc2": caches[1]})
        return call, lambda: [(out.numpy(), want)]


# ------------------------------------------------------------------------------------------------
# Quire's own calls, by the members that its header declares
# ------------------------------------------------------------------------------------------------

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64), ("dtype", ctypes.c_int),
                ("ndim", ctypes.c_int32), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p)]


def args_struct(name):
    """A ctypes structure of an args struct, read from the header."""
    with open(os.path.join(HERE, "../include/quire/operators.h")) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), text, re.S).group(1)
    types = {"quire_tensor": Tensor, "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t, "float": ctypes.c_float}
    fields = []
    for member in re.sub(r"\s+", " ", body).split(";"):
        words = member.replace("*", " * ").split()
        if words:
            fields.append((words[-1], ctypes.c_void_p if "*" in words else types[words[-2]]))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


class Direct:
    """Typed calls of the shared library on its own pool of threads."""
    DTYPES = {"float32": 1, "float16": 2, "int32": 7}

    def __init__(self, path, threads):
        self.lib = lib = ctypes.CDLL(path)
        self.error = ctypes.create_string_buffer(4096)
        self.context, self.device, self.kept = ctypes.c_void_p(), ctypes.c_void_p(), []
        assert lib.quire_context_create(None, ctypes.byref(self.context), self.error) == 0
        options = (ctypes.c_size_t * 16)()
        lib.quire_device_options_init(options)
        options[1] = threads
        assert lib.quire_device_open(self.context, b"cpu", options, ctypes.byref(self.device), self.error) == 0

    def tensor(self, array):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.kept += [array, shape]
        return Tensor(array.ctypes.data, 0, self.DTYPES[str(array.dtype)], array.ndim, ctypes.addressof(shape), None)

    def call(self, name, tensors, **attributes):
        args = args_struct(f"quire_{name}_args")()
        getattr(self.lib, f"quire_{name}_args_init")(ctypes.byref(args))
        assert args.struct_size == ctypes.sizeof(args), "the library is not of this header"
        for key, array in tensors.items():
            setattr(args, key, self.tensor(array))
        for key, number in attributes.items():
            setattr(args, key, number)
        self.kept.append(args)
        function = getattr(self.lib, f"quire_{name}")
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        packed = (self.device.value, ctypes.addressof(args), ctypes.addressof(self.error))
        status = function(*packed)
        assert status == 0, (status, self.error.raw[148:400])
        return lambda: function(*packed)

    def nothing(self):
        """A call with as many arguments that does nothing: what ctypes costs."""
        function = self.lib.quire_workspace_get_counters
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        counters = (ctypes.c_uint64 * 4)()
        self.kept.append(counters)
        packed = (None, ctypes.addressof(counters), None)
        return lambda: function(*packed)


# ------------------------------------------------------------------------------------------------
# the three parts
# ------------------------------------------------------------------------------------------------

def repeated(call, count):
    def go():
        for _ in range(count):
            call()
    return go


def linear_chain(quire, length):
    """`length` nodes of one head, 4x4, one token: each one's query is the output before it."""
    names = ["k", "v", "s", "g", "b"]
    shapes = {"q": [1, 1, 4], "k": [1, 1, 4], "v": [1, 1, 4], "s": [1, 1, 4, 4], "g": [1, 1, 1], "b": [1, 1, 1]}
    nodes = [onnx.helper.make_node("LinearAttention", ["q" if i == 0 else f"o{i - 1}", *names], [f"o{i}", f"s{i}"],
                                   domain="com.microsoft", q_num_heads=1, kv_num_heads=1) for i in range(length)]
    outs = [(f"o{length - 1}", "f32", [1, 1, 4])] + [(f"s{i}", "f32", [1, 1, 4, 4]) for i in range(length)]
    sess = quire.load(quire.model(nodes, [(n, "f32", s) for n, s in shapes.items()], outs))
    return quire.bind(sess, {n: quire.val(np.full(s, 0.5, np.float32)) for n, s in shapes.items()},
                      {n: quire.val(np.zeros(s, np.float32)) for n, _, s in outs})


def linear_direct(direct):
    half = lambda *s: np.full(s, 0.5, np.float32)
    return direct.call(
        "linear_attention",
        {"query": half(1, 1, 4), "key": half(1, 1, 4), "value": half(1, 1, 4), "past_state": half(1, 1, 4, 4),
         "decay": half(1, 1, 1), "beta": half(1, 1, 1), "output": half(1, 1, 4), "present_state": half(1, 1, 4, 4)},
        q_num_heads=1, kv_num_heads=1)


def paged_chain(quire, length):
    """`length` nodes of one head of size 8, one token over 16 cached ones; caches in place."""
    names = ["k", "v", "kc", "vc", "starts", "past", "table"]
    shapes = {"q": [1, 8], "k": [1, 8], "v": [1, 8], "kc": [4, 16, 1, 8], "vc": [4, 16, 1, 8]}
    nodes = [onnx.helper.make_node("PagedAttention", ["q" if i == 0 else f"o{i - 1}", *names], [f"o{i}"],
                                   domain="com.microsoft", num_heads=1, kv_num_heads=1) for i in range(length)]
    ints = {"starts": [0, 1], "past": [16], "table": [[2, 1]]}
    ins = [(n, "f16", s) for n, s in shapes.items()] + [(n, "i32", list(np.shape(x))) for n, x in ints.items()]
    sess = quire.load(quire.model(nodes, ins, [(f"o{length - 1}", "f16", [1, 8])]))
    values = {n: quire.val(np.full(s, 0.5, np.float16)) for n, s in shapes.items()}
    values.update((n, quire.val(np.array(x, np.int32))) for n, x in ints.items())
    return quire.bind(sess, values, {f"o{length - 1}": quire.val(np.zeros((1, 8), np.float16))})


def paged_direct(direct):
    half = lambda *s: np.full(s, 0.5, np.float16)
    ints = lambda x: np.array(x, np.int32)
    return direct.call(
        "paged_attention",
        {"query": half(1, 8), "key": half(1, 8), "value": half(1, 8), "key_cache": half(4, 16, 1, 8),
         "value_cache": half(4, 16, 1, 8), "cumulative_sequence_length": ints([0, 1]), "past_seqlens": ints([16]),
         "block_table": ints([[2, 1]]), "output": half(1, 8)},
        num_heads=1, kv_num_heads=1)


def overhead(options):
    if options.quire is None:
        print("overhead: needs --quire", flush=True)
        return
    quire, direct, many = Quire(options.threads), Direct(options.quire, options.threads), 100
    print(f"{'overhead of a node':34s} {'in the runtime':>16s} {'direct call':>14s} {'difference, us':>16s}", flush=True)
    for name, chain, single in (("LinearAttention f32, 1 head, 4x4", linear_chain, linear_direct),
                                ("PagedAttention f16, 1 head, 17 keys", paged_chain, paged_direct)):
        calls = [chain(quire, many + 1), chain(quire, 1), repeated(single(direct), many), repeated(direct.nothing(), many)]
        r = take_turns(calls, options)
        inside, outside = (r[0][3] - r[1][3]) / many, (r[2][3] - r[3][3]) / many
        over = inside - outside
        print(f"{name:34s} {np.median(inside):13.2f} us {np.median(outside):11.2f} us {np.median(over):7.2f} "
              f"({over.min():.2f} to {over.max():.2f}); a whole run of one node {figure(r[1]).strip()}", flush=True)


def case_named(name):
    with open(os.path.join(HERE, "cases.json")) as f:
        return next(c for c in json.load(f)["cases"] if c["case"] == name)


def linear(options):
    for name in ("gdn_decode_t1", "gdn_prefill_t256"):
        case, pair = case_named(name), []
        for side in (Quire(options.threads), Ort(options.threads)):
            variant = next(iter(side.gated_delta(case)))
            variant.call()
            check(variant.check(), f"{name} {side.name}", 1e-4)
            pair.append(variant.call)
        ours, other = take_turns(pair, options)
        print_ratio(f"LinearAttention f32 16/32 heads 128x128, T = {case['tokens']}, against its own", other, ours)


def paged(options):
    case = case_named("decode_32x8_d128_l8192")
    call, result = Quire(options.threads).paged_decode(case)
    call()
    check(result(), "PagedAttention", 3e-2)
    rows = [v for v in Ort(options.threads).decode(case) if v.dtype in ("f32", "f16")]
    for variant in rows:
        variant.call()
        check(variant.check(), f"GroupQueryAttention {variant.dtype}", 3e-2)
    ours, *others = take_turns([call] + [v.call for v in rows], options)
    for variant, other in zip(rows, others):
        print_ratio(f"PagedAttention f16 32/8 D128 8K, against GQA {variant.dtype}", other, ours)


PARTS = {"overhead": overhead, "linear": linear, "paged": paged}
HINT = False
LOADS = []  # CPUs' worth of other work during each block that counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.environ.get("QUIRE_ONNXRUNTIME_LIBRARY"))
    parser.add_argument("--quire")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--patience", type=int, default=4, help="further attempts at a block that others disturbed")
    parser.add_argument("--hint", action="store_true", help="tell the provider the number of threads")
    options = parser.parse_args()
    if options.library is None:
        parser.error("--library or QUIRE_ONNXRUNTIME_LIBRARY must name the provider")
    global HINT
    HINT = options.hint
    ort.register_execution_provider_library("quire", os.path.abspath(options.library))
    print(f"onnxruntime {ort.__version__}, {options.threads} threads, {options.rounds} rounds; medians (first to ninth decile)")
    print(f"{'':58s} {'Quire':>12s} {'the runtime':>34s} {'ratio':>22s} (lowest to highest of the rounds)")
    for name in options.only.split(","):
        PARTS[name](options)
    print(f"other work meanwhile: {np.median(LOADS):.2f} CPUs in the middle, {max(LOADS):.2f} at most")


if __name__ == "__main__":
    main()
