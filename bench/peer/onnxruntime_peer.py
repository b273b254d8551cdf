"""onnxruntime as a peer."""
import numpy as np

from .data import decode_data, decode_reference, gdn_data, gdn_reference, prefill_data, prefill_reference
from .timing import Variant, rotate


class Ort:
    """onnxruntime, CPU execution provider, models of one com.microsoft node.

    gated_delta  LinearAttention(update_rule=gated_delta). `inplace` binds past_state and present_state
                 to one buffer, `copy` to two.
    decode       GroupQueryAttention with past_key/present_key (and value) bound to one buffer of the
                 context's capacity, which is how the op updates a cache in place. i8 is the quantized
                 cache, one scale per tensor or per channel. Ragged batches use a cache padded to the
                 longest sequence (`padded`): the op has no block table on the CPU. `short_us` in the JSON is a
                 call on the same buffers with 16 valid tokens: it stays far below the time of copying
                 the cache, which shows that nothing is copied.
    prefill      GroupQueryAttention, first prompt.
    """
    name = "ort"

    def __init__(self, threads):
        import onnx
        import onnxruntime as ort
        self.onnx, self.ort, self.version = onnx, ort, ort.__version__
        self.so = ort.SessionOptions()
        self.so.intra_op_num_threads = threads
        self.so.inter_op_num_threads = 1
        self.so.log_severity_level = 4

    def session(self, node, inputs, outputs):
        h, tp = self.onnx.helper, self.onnx.TensorProto
        types = {"f32": tp.FLOAT, "f16": tp.FLOAT16, "i8": tp.INT8, "i32": tp.INT32}
        vi = lambda io: [h.make_tensor_value_info(n, types[t], s) for n, t, s in io]
        g = h.make_graph([node], "g", vi(inputs), vi(outputs))
        m = h.make_model(g, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)], ir_version=10)
        return self.ort.InferenceSession(m.SerializeToString(), self.so, providers=["CPUExecutionProvider"])

    def bind(self, sess, inputs, outputs):
        """inputs, outputs: name -> OrtValue. Returns a callable."""
        io = sess.io_binding()
        for n, v in inputs.items():
            io.bind_ortvalue_input(n, v)
        for n, v in outputs.items():
            io.bind_ortvalue_output(n, v)
        run = sess.run_with_iobinding
        return lambda: run(io)

    def val(self, a):
        return self.ort.OrtValue.ortvalue_from_numpy(np.asarray(a, order="C"))

    def overhead(self):
        h = self.onnx.helper
        s = self.session(h.make_node("Neg", ["x"], ["y"]), [("x", "f32", [1])], [("y", "f32", [1])])
        x, y = self.val(np.ones(1, np.float32)), self.val(np.zeros(1, np.float32))
        return self.bind(s, {"x": x}, {"y": y})

    def gated_delta(self, case):
        t, hq, hk, hv = case["tokens"], case["q_heads"], case["k_heads"], case["v_heads"]
        dk, dv = case["dk"], case["dv"]
        q, k, v, g, b, s = gdn_data(case)
        want = gdn_reference((q, k, v, g, b, s))
        node = self.onnx.helper.make_node(
            "LinearAttention", ["q", "k", "v", "s", "g", "b"], ["o", "s2"], domain="com.microsoft",
            q_num_heads=hq, kv_num_heads=hv, update_rule="gated_delta")
        sess = self.session(
            node,
            [("q", "f32", [1, t, hq * dk]), ("k", "f32", [1, t, hk * dk]), ("v", "f32", [1, t, hv * dv]),
             ("s", "f32", [1, hv, dk, dv]), ("g", "f32", [1, t, hv]), ("b", "f32", [1, t, hv])],
            [("o", "f32", [1, t, hv * dv]), ("s2", "f32", [1, hv, dk, dv])])
        fixed = {n: self.val(a.reshape(1, t, -1)) for n, a in (("q", q), ("k", k), ("v", v), ("g", g), ("b", b))}
        for variant in ("inplace", "copy"):
            if variant == "copy" and (case["states"] > 1 or t > 4):
                continue
            calls, states, o = [], [], self.val(np.zeros((1, t, hv * dv), np.float32))
            for _ in range(case["states"]):
                a = self.val(s[None].copy())
                c = a if variant == "inplace" else self.val(np.zeros_like(s[None]))
                states.append(c)
                calls.append(self.bind(sess, {**fixed, "s": a}, {"o": o, "s2": c}))
            yield Variant("f32", variant, rotate(calls),
                          lambda o=o, states=states: [(o.numpy(), want[0]), (states[0].numpy(), want[1])])

    def gqa(self, case, dtype, batch, tokens, capacity, quant="NONE"):
        hq, hkv, d = case["q_heads"], case["kv_heads"], case["head_dim"]
        io = "f16" if dtype == "f16" else "f32"
        names = ["q", "k", "v", "pk", "pv", "seqlens", "total"]
        attrs = dict(num_heads=hq, kv_num_heads=hkv)
        ins = [("q", io, [batch, tokens, hq * d]), ("k", io, [batch, tokens, hkv * d]), ("v", io, [batch, tokens, hkv * d]),
               ("pk", dtype, [batch, hkv, capacity, d]), ("pv", dtype, [batch, hkv, capacity, d]),
               ("seqlens", "i32", [batch]), ("total", "i32", [])]
        if quant != "NONE":
            names += ["", "", "", "", "", "ks", "vs"]
            shape = [1] if quant == "PER_TENSOR" else [1, hkv, 1, d]
            ins += [("ks", "f32", shape), ("vs", "f32", shape)]
            attrs.update(k_quant_type=quant, v_quant_type=quant, kv_cache_bit_width=8)
        node = self.onnx.helper.make_node("GroupQueryAttention", names, ["o", "nk", "nv"], domain="com.microsoft", **attrs)
        return self.session(node, ins, [("o", io, [batch, tokens, hq * d]), ("nk", dtype, [batch, hkv, capacity, d]),
                                        ("nv", dtype, [batch, hkv, capacity, d])])

    def decode(self, case):
        q, ks, vs = decode_data(case)
        want = decode_reference(q, ks, vs)
        bsz, lens = len(ks), np.array(case["contexts"], np.int32)
        cap = int(lens.max())
        pad = lambda xs: np.stack([np.pad(x, ((0, 0), (0, cap - x.shape[1]), (0, 0))) for x in xs])
        new = lambda xs: np.stack([x[:, -1].reshape(1, -1) for x in xs])
        kind = "padded" if bsz > 1 else "contiguous"
        for dtype, quant in (("f32", "NONE"), ("f16", "NONE"), ("i8", "PER_TENSOR"), ("i8", "PER_CHANNEL")):
            if dtype not in case["kv_dtypes"]:
                continue
            np_io = np.float16 if dtype == "f16" else np.float32
            ins, outs = {}, {}
            if quant != "NONE":
                kp, vp = pad(ks), pad(vs)
                ax = None if quant == "PER_TENSOR" else (0, 2)
                sk, sv = (np.abs(x).max(axis=ax, keepdims=ax is not None) / 127 for x in (kp, vp))
                cache = [np.clip(np.rint(x / s), -128, 127).astype(np.int8) for x, s in ((kp, sk), (vp, sv))]
                ins["ks"], ins["vs"] = (self.val(np.asarray(s, np.float32).reshape((1,) if ax is None else s.shape)) for s in (sk, sv))
            else:
                cache = [pad(x).astype(np_io) for x in (ks, vs)]
            for c, l in ((c, l) for c in cache for l in enumerate(lens)):
                c[l[0], :, l[1] - 1] = 0  # the call itself has to write the new token's row
            sess = self.gqa(case, dtype, bsz, 1, cap, quant)
            kv = [self.val(c) for c in cache]
            ins.update(q=self.val(q.reshape(bsz, 1, -1).astype(np_io)), k=self.val(new(ks).astype(np_io)),
                       v=self.val(new(vs).astype(np_io)), pk=kv[0], pv=kv[1])
            outs.update(o=self.val(np.zeros((bsz, 1, q[0].size), np_io)), nk=kv[0], nv=kv[1])
            at = lambda n: {"seqlens": self.val(np.asarray(n, np.int32) - 1), "total": self.val(np.array(int(np.max(n)), np.int32))}
            call = self.bind(sess, {**ins, **at(lens)}, outs)
            variant = kind if quant == "NONE" else kind + "," + quant.lower()
            var = Variant(dtype, variant, call, lambda outs=outs: [(outs["o"].numpy(), want)])
            var.short = self.bind(sess, {**ins, **at(np.minimum(lens, 16))}, outs)
            yield var

    def prefill(self, case):
        q, k, v = prefill_data(case)
        want, s = prefill_reference(q, k, v), case["tokens"]
        for dtype in ("f32", "f16"):
            if dtype not in case["dtypes"]:
                continue
            t = np.float16 if dtype == "f16" else np.float32
            sess = self.gqa(case, dtype, 1, s, s)
            kv = [self.val(np.zeros((1, case["kv_heads"], s, case["head_dim"]), t)) for _ in range(2)]
            ins = {n: self.val(a.reshape(1, s, -1).astype(t)) for n, a in (("q", q), ("k", k), ("v", v))}
            ins.update(pk=kv[0], pv=kv[1], seqlens=self.val(np.array([s - 1], np.int32)), total=self.val(np.array(s, np.int32)))
            outs = {"o": self.val(np.zeros((1, s, q[0].size), t)), "nk": kv[0], "nv": kv[1]}
            yield Variant(dtype, "contiguous", self.bind(sess, ins, outs), lambda outs=outs: [(outs["o"].numpy(), want)])
