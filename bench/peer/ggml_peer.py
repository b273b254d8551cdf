"""ggml as a peer."""
import ctypes
import math
import os

import numpy as np

from .data import bf16_bits, decode_data, decode_reference, gdn_data, gdn_reference, prefill_data, prefill_reference
from .timing import Variant, rotate


class Ggml:
    """ggml's CPU backend through ctypes: graphs of one operator, computed by ggml_backend_graph_compute.

    Taken from the directory in GGML_LIB_DIR (libggml-base.so, libggml-cpu.so; README.md says how to build
    one for this CPU), else from the package libggml-python, which is built for a generic x86-64 with AVX2
    at most. `version` says which.
    gated_delta  ggml_gated_delta_net; its value head h reads key head h % k_heads, which the reference
                 follows. The final state is written to the output tensor, so this is a `copy`.
    decode       ggml_flash_attn_ext, no mask; K and V head-major; the new row is already in the cache.
                 i8 is Q8_0. Ragged batches are one graph of one node per sequence.
    prefill      ggml_flash_attn_ext with an f16 causal mask.
    """
    name = "ggml"
    TYPE = {"f32": 0, "f16": 1, "i8": 8, "bf16": 30}

    class Params(ctypes.Structure):
        _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]

    class Pool(ctypes.Structure):
        _fields_ = [("cpumask", ctypes.c_bool * 512), ("n_threads", ctypes.c_int), ("prio", ctypes.c_int),
                    ("poll", ctypes.c_uint32), ("strict_cpu", ctypes.c_bool), ("paused", ctypes.c_bool)]

    def __init__(self, threads):
        where = os.environ.get("GGML_LIB_DIR")
        if not where:
            import importlib.util
            spec = importlib.util.find_spec("libggml")
            if spec is None:
                raise ImportError("set GGML_LIB_DIR or install libggml-python")
            where = os.path.join(list(spec.submodule_search_locations)[0], "lib64")
        load = lambda n: ctypes.CDLL(os.path.join(where, n), mode=ctypes.RTLD_GLOBAL)
        self.b, self.c = load("libggml-base.so"), load("libggml-cpu.so")
        p, i64, i = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
        b, c = self.b, self.c
        for lib, name, res, args in (
                (b, "ggml_version", ctypes.c_char_p, []),
                (b, "ggml_init", p, [self.Params]), (b, "ggml_free", None, [p]),
                (b, "ggml_new_tensor_4d", p, [p, i, i64, i64, i64, i64]), (b, "ggml_get_data", p, [p]),
                (b, "ggml_nbytes", ctypes.c_size_t, [p]),
                (b, "ggml_new_graph_custom", p, [p, ctypes.c_size_t, ctypes.c_bool]), (b, "ggml_build_forward_expand", None, [p, p]),
                (b, "ggml_flash_attn_ext", p, [p, p, p, p, p, ctypes.c_float, ctypes.c_float, ctypes.c_float]),
                (b, "ggml_gated_delta_net", p, None), (b, "ggml_neg", p, [p, p]),
                (b, "ggml_quantize_chunk", ctypes.c_size_t, [i, p, p, i64, i64, i64, p]),
                (b, "ggml_threadpool_params_default", self.Pool, [i]),
                (b, "ggml_backend_graph_compute", i, [p, p]),
                (c, "ggml_threadpool_new", p, [p]), (c, "ggml_backend_cpu_init", p, []),
                (c, "ggml_backend_cpu_set_n_threads", None, [p, i]), (c, "ggml_backend_cpu_set_threadpool", None, [p, p])):
            f = getattr(lib, name)
            f.restype = res
            if args is not None:
                f.argtypes = args
        isa = [n for n in ("amx_int8", "avx512_bf16", "avx512", "avx2", "avx") if getattr(c, "ggml_cpu_has_" + n, lambda: 0)()]
        self.version = b.ggml_version().decode() + "/" + (isa[0] if isa else "sse")
        if "avx512_bf16" in isa and "amx_int8" in isa:
            self.version = b.ggml_version().decode() + "/avx512+amx"
        self.cpu = c.ggml_backend_cpu_init()
        c.ggml_backend_cpu_set_n_threads(self.cpu, threads)
        self.pool_params = b.ggml_threadpool_params_default(threads)
        self.pool_params.poll = 100
        self.pool = c.ggml_threadpool_new(ctypes.byref(self.pool_params))
        c.ggml_backend_cpu_set_threadpool(self.cpu, self.pool)

    def context(self, nbytes):
        return self.b.ggml_init(self.Params(int(nbytes) + (64 << 20), None, False))

    def new(self, ctx, dtype, a, ne):
        """Tensor of `ne` (innermost first) from the f32 array `a`."""
        t = self.b.ggml_new_tensor_4d(ctx, self.TYPE[dtype], *ne)
        dst = self.b.ggml_get_data(t)
        a = np.ascontiguousarray(a, np.float32)
        if dtype == "i8":
            self.b.ggml_quantize_chunk(self.TYPE[dtype], a.ctypes.data, dst, 0, a.size // ne[0], ne[0], None)
        else:
            x = {"f32": lambda: a, "f16": lambda: a.astype(np.float16), "bf16": lambda: bf16_bits(a)}[dtype]()
            ctypes.memmove(dst, x.ctypes.data, x.nbytes)
        return t

    def graph(self, ctx, nodes):
        g = self.b.ggml_new_graph_custom(ctx, 64, False)
        for n in nodes:
            self.b.ggml_build_forward_expand(g, n)
        run, cpu = self.b.ggml_backend_graph_compute, self.cpu
        return lambda: run(cpu, g)

    def read(self, t, shape, offset=0):
        n = int(np.prod(shape))
        buf = (ctypes.c_float * n).from_address(self.b.ggml_get_data(t) + 4 * offset)
        return np.frombuffer(buf, np.float32).reshape(shape).copy()

    def overhead(self):
        ctx = self.context(0)
        return self.graph(ctx, [self.b.ggml_neg(ctx, self.new(ctx, "f32", np.ones(1), (1, 1, 1, 1)))])

    def gated_delta(self, case):
        q, k, v, g, b, s = gdn_data(case)
        want = gdn_reference((q, k, v, g, b, s), tiled=True)
        t, hk, hv, d = case["tokens"], case["k_heads"], case["v_heads"], case["dv"]
        ctx = self.context(case["states"] * (3 * s.nbytes + 4 * v.nbytes) + 4 * v.nbytes)
        x = [self.new(ctx, "f32", q, (d, hk, t, 1)), self.new(ctx, "f32", k, (d, hk, t, 1)), self.new(ctx, "f32", v, (d, hv, t, 1)),
             self.new(ctx, "f32", g, (1, hv, t, 1)), self.new(ctx, "f32", b, (1, hv, t, 1))]
        p = ctypes.c_void_p
        outs = []
        for _ in range(case["states"]):
            st = self.new(ctx, "f32", s.transpose(0, 2, 1), (d, d, hv, 1))
            outs.append(self.b.ggml_gated_delta_net(p(ctx), *(p(y) for y in x), p(st), ctypes.c_int64(1)))
        calls = [self.graph(ctx, [o]) for o in outs]
        yield Variant("f32", "copy", rotate(calls),
                      lambda: [(self.read(outs[0], v.shape), want[0]),
                               (self.read(outs[0], s.shape, v.size).transpose(0, 2, 1), want[1])])
        self.b.ggml_free(ctx)

    def decode(self, case):
        q, ks, vs = decode_data(case)
        want, d, hkv, hq = decode_reference(q, ks, vs), case["head_dim"], case["kv_heads"], case["q_heads"]
        for dtype in ("f32", "f16", "bf16", "i8"):
            if dtype not in case["kv_dtypes"]:
                continue
            ctx = self.context(sum(k.nbytes for k in ks) * 2 + (256 << 10))
            outs = []
            for i, (k, v) in enumerate(zip(ks, vs)):
                n = k.shape[1]
                outs.append(self.b.ggml_flash_attn_ext(
                    ctx, self.new(ctx, "f32", q[i], (d, 1, hq, 1)), self.new(ctx, dtype, k, (d, n, hkv, 1)),
                    self.new(ctx, dtype, v, (d, n, hkv, 1)), None, 1 / math.sqrt(d), 0.0, 0.0))
            yield Variant(dtype, "contiguous" if len(ks) == 1 else "graph", self.graph(ctx, outs),
                          lambda outs=outs: [(np.stack([self.read(o, (hq, d)) for o in outs]), want)],
                          "q8_0" if dtype == "i8" else "")
            self.b.ggml_free(ctx)

    def prefill(self, case):
        q, k, v = prefill_data(case)
        want, s, d = prefill_reference(q, k, v), case["tokens"], case["head_dim"]
        for dtype in ("f32", "f16", "bf16"):
            if dtype not in case["dtypes"]:
                continue
            ctx = self.context(4 * q.nbytes + 8 * s * s)
            h = lambda a: a.transpose(1, 0, 2)
            mask = self.new(ctx, "f16", np.triu(np.full((s, s), -np.inf, np.float32), 1), (s, s, 1, 1))
            o = self.b.ggml_flash_attn_ext(
                ctx, self.new(ctx, "f32", h(q), (d, s, q.shape[1], 1)), self.new(ctx, dtype, h(k), (d, s, k.shape[1], 1)),
                self.new(ctx, dtype, h(v), (d, s, k.shape[1], 1)), mask, 1 / math.sqrt(d), 0.0, 0.0)
            yield Variant(dtype, "contiguous", self.graph(ctx, [o]), lambda o=o: [(self.read(o, q.shape), want)])
            self.b.ggml_free(ctx)
