"""torch as a peer."""
import numpy as np

from .data import decode_data, decode_reference, prefill_data, prefill_reference
from .timing import Variant


class Torch:
    """torch, eager, torch.nn.functional.scaled_dot_product_attention on CPU tensors.

    decode   The cache is a tensor per sequence and the new row is already in it (torch has no fused
             append). `enable_gqa` passes 32 query heads as they are; `fold` views the query heads of one
             KV head as rows, which is the same result for one query token and lets the kernel
             read K and V once. Ragged batches are a Python loop over sequences.
    prefill  is_causal=True, enable_gqa=True.
    There is no gated delta rule in torch itself.
    """
    name = "torch"

    def __init__(self, threads):
        import torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch, self.version = torch, torch.__version__
        self.t = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

    def overhead(self):
        x = self.torch.ones(1)
        return lambda: self.torch.neg(x)

    def decode(self, case):
        q, ks, vs = decode_data(case)
        want, f = decode_reference(q, ks, vs), self.torch.nn.functional.scaled_dot_product_attention
        hkv, d, one = case["kv_heads"], case["head_dim"], len(ks) == 1
        for dtype in ("f32", "f16", "bf16"):
            if dtype not in case["kv_dtypes"]:
                continue
            cast = lambda a: self.torch.from_numpy(np.ascontiguousarray(a)).to(self.t[dtype])
            kt, vt = [cast(k[None]) for k in ks], [cast(v[None]) for v in vs]
            for variant in ("fold", "enable_gqa"):
                if variant == "fold":
                    qt = [cast(x.reshape(1, hkv, -1, d)) for x in q]
                    kw = {}
                else:
                    qt = [cast(x.reshape(1, -1, 1, d)) for x in q]
                    kw = {"enable_gqa": True}
                out = [None] * len(ks)

                def call(qt=qt, kt=kt, vt=vt, kw=kw, out=out):
                    for i in range(len(qt)):
                        out[i] = f(qt[i], kt[i], vt[i], **kw)
                yield Variant(dtype, variant if one else "loop," + variant, call,
                              lambda out=out: [(np.stack([o.float().numpy().reshape(want.shape[1:]) for o in out]), want)])

    def prefill(self, case):
        q, k, v = prefill_data(case)
        want, f = prefill_reference(q, k, v), self.torch.nn.functional.scaled_dot_product_attention
        for dtype in ("f32", "f16", "bf16"):
            if dtype not in case["dtypes"]:
                continue
            x = [self.torch.from_numpy(np.ascontiguousarray(a.transpose(1, 0, 2)[None])).to(self.t[dtype]) for a in (q, k, v)]
            out = [None]

            def call(x=x, out=out):
                out[0] = f(*x, is_causal=True, enable_gqa=True)
            yield Variant(dtype, "enable_gqa", call, lambda out=out: [(out[0][0].transpose(0, 1).float().numpy(), want)])
