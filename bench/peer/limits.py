"""What a case could take at best on this machine."""
import json

from .data import counts


class Limits:
    """Numbers printed by limits.c. The bandwidth is that of the smallest measured working set that holds
    the case's cache or state; gated_delta uses the read-and-write figure. The peak of a prefill in bf16 is
    the best bf16 figure of the machine, everything else is held against the f32 peak."""

    def __init__(self, path):
        best = {}  # the file may hold several runs: the best of each number counts
        for x in open(path):
            if x.strip().startswith("{"):
                r = json.loads(x)
                key = tuple(sorted((k, v) for k, v in r.items() if k not in ("gbs", "gflops")))
                if key not in best or r.get("gbs", r.get("gflops")) > best[key].get("gbs", best[key].get("gflops")):
                    best[key] = r
        self.rows = list(best.values())

    def us(self, case, dtype, threads):
        nbytes, flops = counts(case, dtype)
        kind = "rmw" if case["op"] == "gated_delta" else "read"
        held = nbytes if case["op"] != "gated_delta" else 4 * case["states"] * case["v_heads"] * case["dk"] * case["dv"]
        bw = sorted((r["mib"], r["gbs"]) for r in self.rows if r["limit"] == kind and r["threads"] == threads)
        if not bw:
            return None
        gbs = next((g for m, g in bw if m * 2 ** 20 >= held), bw[-1][1])
        kinds = {"fma", "bf16dot", "amx_bf16"} if dtype == "bf16" and case["op"] == "prefill" else {"fma"}
        peak = max((r["gflops"] for r in self.rows if r["limit"] in kinds and r["threads"] == threads), default=None)
        if peak is None:
            return None
        return max(nbytes / gbs * 1e-3, flops / peak * 1e-3)
