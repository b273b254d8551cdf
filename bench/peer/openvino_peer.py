"""OpenVINO as a peer."""
import ctypes
import math
import os

import numpy as np

from .data import (decode_data, decode_reference, gdn_data, gdn_reference, paged_data, paged_reference,
                   prefill_data, prefill_reference)
from .timing import Variant, rotate


class OpenVino:
    """OpenVINO, CPU plugin, models of one operator.

    decode, prefill  PagedAttentionExtension: blocks of 32 tokens, block table in random order. The cache
                     is filled by the operator itself before timing, each block as a sequence of its own.
                     dtype is KV_CACHE_PRECISION; `bf16` in the variant marks
                     INFERENCE_PRECISION_HINT=bf16 (f32 otherwise). Queries, keys and values enter and
                     the output leaves as f32 in every variant: the plugin converts them.
    gated_delta      GatedDeltaNet, an internal operator that the CPU plugin registers when its library is
                     loaded as an extension; read from a generated IR file.
    """
    name = "openvino"
    BLOCK = 32

    def __init__(self, threads):
        import openvino as ov
        self.ov, self.threads = ov, threads
        self.version = ov.__version__.split("-")[0]
        self.core = ov.Core()
        self.base = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
        try:  # the class below openvino.InferRequest: its infer() does not convert inputs
            self.raw = ov._pyopenvino.InferRequest
        except AttributeError:
            self.raw = None

    def call_of(self, req):
        req.start_async  # fail here rather than in a timed call
        if self.raw is not None:
            infer = self.raw.infer
            try:
                infer(req, {}, True, False)
                return lambda: infer(req, {}, True, False)
            except TypeError:
                pass
        return lambda: req.infer(share_outputs=True)

    def overhead(self):
        o = self.ov.opset13
        p = o.parameter([1], self.ov.Type.f32)
        c = self.core.compile_model(self.ov.Model([o.negative(p)], [p], "noop"), "CPU", self.base)
        return self.call_of(c.create_infer_request())

    def gdn_model(self, case):
        import tempfile
        t, hk, hv, dk, dv = case["tokens"], case["k_heads"], case["v_heads"], case["dk"], case["dv"]
        lib = os.path.join(list(self.ov.__path__)[0], "libs", "libopenvino_intel_cpu_plugin.so")
        if not getattr(self, "registered", False):
            self.core.add_extension(lib)
            self.registered = True
        ins = [("q", (1, t, hk, dk)), ("k", (1, t, hk, dk)), ("v", (1, t, hv, dv)), ("s", (1, hv, dk, dv)), ("g", (1, t, hv)), ("b", (1, t, hv))]
        outs = [(1, t, hv, dv), (1, hv, dk, dv)]
        port = lambda i, s: f'<port id="{i}" precision="FP32">' + "".join(f"<dim>{d}</dim>" for d in s) + "</port>"
        layers, edges, op = [], [], len(ins)
        for i, (n, s) in enumerate(ins):
            layers.append(f'<layer id="{i}" name="{n}" type="Parameter" version="opset1"><data shape="{",".join(map(str, s))}" '
                          f'element_type="f32"/><output>{port(0, s).replace("<port", f"""<port names="{n}" """)}</output></layer>')
            edges.append(f'<edge from-layer="{i}" from-port="0" to-layer="{op}" to-port="{i}"/>')
        layers.append(f'<layer id="{op}" name="gdn" type="GatedDeltaNet" version="extension"><data fuse_qk_l2norm="false" '
                      f'q_l2_norm_eps="1e-6" k_l2_norm_eps="1e-6"/><input>{"".join(port(i, s) for i, (_, s) in enumerate(ins))}</input>'
                      f'<output>{port(op, outs[0])}{port(op + 1, outs[1])}</output></layer>')
        for j, s in enumerate(outs):
            layers.append(f'<layer id="{op + 1 + j}" name="r{j}" type="Result" version="opset1"><input>{port(0, s)}</input></layer>')
            edges.append(f'<edge from-layer="{op}" from-port="{op + j}" to-layer="{op + 1 + j}" to-port="0"/>')
        xml = f'<?xml version="1.0"?><net name="m" version="11"><layers>{"".join(layers)}</layers><edges>{"".join(edges)}</edges></net>'
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "m.xml"), "w") as f:
                f.write(xml)
            open(os.path.join(d, "m.bin"), "wb").close()
            return self.core.read_model(os.path.join(d, "m.xml"))

    def gated_delta(self, case):
        q, k, v, g, b, s = gdn_data(case)
        want, T = gdn_reference((q, k, v, g, b, s)), self.ov.Tensor
        comp = self.core.compile_model(self.gdn_model(case), "CPU", {**self.base, "INFERENCE_PRECISION_HINT": "f32"})
        for variant in ("inplace", "copy"):
            if variant == "copy" and (case["states"] > 1 or case["tokens"] > 4):
                continue
            calls, states, o = [], [], T(np.zeros_like(v[None]), shared_memory=True)
            reqs = []
            for _ in range(case["states"]):
                r = comp.create_infer_request()
                a = T(s[None].copy(), shared_memory=False)
                c = a if variant == "inplace" else T(np.zeros_like(s[None]), shared_memory=False)
                for n, x in (("q", q), ("k", k), ("v", v), ("g", g), ("b", b)):
                    r.set_tensor(n, T(np.ascontiguousarray(x[None]), shared_memory=False))
                r.set_tensor("s", a)
                r.set_output_tensor(0, o)
                r.set_output_tensor(1, c)
                states.append(c)
                reqs.append(r)
                # not call_of: its trial call would advance the state
                calls.append((lambda r=r: self.raw.infer(r, {}, True, False)) if self.raw else (lambda r=r: r.infer(share_outputs=True)))
            yield Variant("f32", variant, rotate(calls), lambda o=o, st=states: [(o.data, want[0]), (st[0].data, want[1])])

    def pa_model(self, hq, hkv, d):
        ov, o = self.ov, self.ov.opset13
        from openvino import op

        def par(name, shape, t):
            p = o.parameter(shape, t)
            p.set_friendly_name(name)
            p.output(0).get_tensor().set_names({name})
            return p
        f32, i32 = ov.Type.f32, ov.Type.i32
        q, k, v = par("q", [-1, hq * d], f32), par("k", [-1, hkv * d], f32), par("v", [-1, hkv * d], f32)
        kc, vc = par("key_cache.0", [-1] * 4, ov.Type.dynamic), par("value_cache.0", [-1] * 4, ov.Type.dynamic)
        meta = [par(n, [-1], i32) for n in ("past_lens", "subsequence_begins", "block_indices", "block_indices_begins")]
        longest = par("max_context_len", [], i32)
        empty = lambda dt, *s: o.constant(np.zeros(s, dt))
        one = lambda x: o.constant(x)
        args = [q, k, v, kc, vc, *meta,
                one(np.float32(1 / math.sqrt(d))), one(np.int32(0)),            # scale, sliding window
                empty(np.float32, 0), longest, empty(np.int32, 0),             # alibi, longest context, score window
                empty(np.int32, 0), empty(np.int32, 0, 0), empty(np.float32, 0, 0),  # cache rotation
                empty(np.float32, 0), one(np.int32(64)), one(np.int32(8)),       # sparse prefill: off
                empty(np.float32, 0, 0, 0, 0),                                  # sinks
                one(np.int32(0)), empty(np.int32, 0), empty(np.int32, 0), empty(np.int32, 0),  # eviction: off
                empty(np.int32, 0), empty(np.uint8, 0), empty(np.int32, 0)]      # token types, query bias
        pa = op._PagedAttentionExtension([a.output(0) for a in args])
        pa.set_friendly_name("pa")
        info = pa.get_rt_info()
        for name, x in (("num_k_heads", hkv), ("k_head_size", d), ("num_v_heads", hkv), ("v_head_size", d)):
            info[name] = x
        return ov.Model([pa.output(0)], [q, k, v, kc, vc, *meta, longest], "pa")

    def tensor(self, a):
        a = np.asarray(a, order="C")  # ascontiguousarray would turn a scalar into a vector
        t = self.ov.Tensor(self.ov.Type(a.dtype), self.ov.Shape(a.shape))  # aligned by the library
        t.data[...] = a
        return t

    def pa_request(self, case, kv, hint, blocks):
        comp = self.core.compile_model(self.pa_model(case["q_heads"], case["kv_heads"], case["head_dim"]), "CPU",
                                       {**self.base, "INFERENCE_PRECISION_HINT": hint, "KV_CACHE_PRECISION": kv})
        req = comp.create_infer_request()
        for i in comp.inputs:
            if "cache" in i.any_name:
                shape = [blocks] + [x.get_length() for x in list(i.partial_shape)[1:]]
                t = self.ov.Tensor(i.element_type, self.ov.Shape(shape))
                ctypes.memset(t.data.ctypes.data, 0, t.byte_size)
                req.set_tensor(i.any_name, t)
        return req

    def feed(self, req, q, k, v, past, begins, table, table_begins, longest):
        for n, a in (("q", q), ("k", k), ("v", v)):
            req.set_tensor(n, self.tensor(a.reshape(a.shape[0], -1)))
        for n, a in (("past_lens", past), ("subsequence_begins", begins), ("block_indices", table), ("block_indices_begins", table_begins)):
            req.set_tensor(n, self.tensor(np.asarray(a, np.int32)))
        req.set_tensor("max_context_len", self.tensor(np.array(longest, np.int32)))

    HINTS = (("f32", "f32", "f32"), ("f16", "f16", "f32"), ("bf16", "bf16", "bf16"), ("i8", "u8", "f32"), ("i8", "u8", "bf16"))

    def fill(self, req, ks, vs, stored, ids, tb, hq):
        """Stores the first stored[i] rows of each sequence: every block is a sequence without past; at most 512 of them a call."""
        blk, jobs = self.BLOCK, []
        for i, (k, v) in enumerate(zip(ks, vs)):
            for j in range(0, stored[i], blk):
                rows = slice(j, min(j + blk, stored[i]))
                jobs.append((k[:, rows], v[:, rows], ids[tb[i] + j // blk]))
        for a in range(0, len(jobs), 512):
            part = jobs[a:a + 512]
            kk, vv = (np.concatenate([x[c].transpose(1, 0, 2) for x in part]) for c in (0, 1))
            beg = np.concatenate([[0], np.cumsum([x[0].shape[1] for x in part])])
            self.feed(req, np.zeros((kk.shape[0], hq, kk.shape[2]), np.float32), kk, vv, np.zeros(len(part)), beg,
                      [x[2] for x in part], np.arange(len(part) + 1), blk)
            req.infer(share_outputs=True)

    def attend(self, case, dtypes, qs, ks, vs, want):
        """Sequences with new rows qs[i], whose keys and values are the last of ks[i] and vs[i]."""
        lengths, new = [k.shape[1] for k in ks], [q.shape[0] for q in qs]
        past = [l - n for l, n in zip(lengths, new)]
        nblk = [(l + self.BLOCK - 1) // self.BLOCK for l in lengths]
        ids = np.random.default_rng(1).permutation(sum(nblk)).astype(np.int32)
        tb = np.concatenate([[0], np.cumsum(nblk)])
        for dtype, kv, hint in self.HINTS:
            if dtype not in dtypes:
                continue
            req = self.pa_request(case, kv, hint, sum(nblk))
            self.fill(req, ks, vs, past, ids, tb, case["q_heads"])
            rows = lambda xs: np.concatenate([x[:, p:].transpose(1, 0, 2) for x, p in zip(xs, past)])
            self.feed(req, np.concatenate(qs), rows(ks), rows(vs), past, np.concatenate([[0], np.cumsum(new)]), ids, tb, max(lengths))
            yield Variant(dtype, "paged32" + (",u8" if kv == "u8" else "") + (",bf16" if hint == "bf16" and dtype != "bf16" else ""), self.call_of(req),
                          lambda req=req: [(req.get_output_tensor(0).data, want)])

    def decode(self, case):
        q, ks, vs = decode_data(case)
        return self.attend(case, case["kv_dtypes"], [row[None] for row in q], ks, vs, decode_reference(q, ks, vs))

    def paged(self, case):
        qs, ks, vs = paged_data(case)
        return self.attend(case, case["kv_dtypes"], qs, ks, vs, paged_reference(qs, ks, vs))

    def prefill(self, case):
        q, k, v = prefill_data(case)
        want, s, blk = prefill_reference(q, k, v), case["tokens"], self.BLOCK
        nblk = (s + blk - 1) // blk
        ids = np.random.default_rng(1).permutation(nblk)
        for dtype, kv, hint in self.HINTS[:3]:
            if dtype not in case["dtypes"]:
                continue
            req = self.pa_request(case, kv, hint, nblk)
            self.feed(req, q, k, v, [0], [0, s], ids, [0, nblk], s)
            yield Variant(dtype, "paged32", self.call_of(req), lambda req=req: [(req.get_output_tensor(0).data, want)])
