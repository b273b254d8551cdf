"""quire.LinearAttentionReplay: docs/linear_attention.md, section 11."""

from __future__ import annotations

import numpy as np

from oracle.case_file import Case
from oracle.tensors import Tensor


class Replay:
    """A call with its letters; states are seen K-major."""

    def __init__(self, case: Case) -> None:
        self.case, inputs, attributes = case, case.inputs, case.attributes
        self.heads = int(attributes["kv_num_heads"])
        self.key_heads = int(attributes.get("key_num_heads", 0)) or self.heads
        self.v_major = attributes.get("state_layout", "k_major") == "v_major"
        self.tiled = attributes.get("head_mapping", "blocked") == "tiled"
        self.batch, self.tokens, width = inputs["log_key"].shape
        self.dk = width // self.key_heads
        self.dv = inputs["log_value"].shape[2] // self.heads
        self.pooled = "state_pool" in inputs

    def spans(self) -> list[tuple[int, int, int]]:
        """(batch row, first token, accepted tokens) of every sequence."""
        accepted = self.case.inputs["accepted"].value.tolist()
        if "cu_seqlens" not in self.case.inputs:
            return [(b, 0, accepted[b]) for b in range(self.batch)]
        cu = self.case.inputs["cu_seqlens"].value.tolist()
        return [(0, first, n) for first, n in zip(cu, accepted)]

    def turned(self, state: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.swapaxes(state, -1, -2)) if self.v_major else state

    def past(self, n: int) -> np.ndarray:
        inputs = self.case.inputs
        if self.pooled:
            slot = int(inputs["read_indices"].value[n])
            if slot >= 0:
                return self.turned(inputs["state_pool"].value[slot])
        elif "past_state" in inputs:
            return self.turned(inputs["past_state"].value[n])
        return np.zeros((self.heads, self.dk, self.dv))

    def steps(self, row: int, token: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys [Hkv, dk], updates [Hkv, dv] and factors [Hkv, 1 or dk] of a token."""
        inputs = self.case.inputs
        keys = inputs["log_key"].value[row, token].reshape(self.key_heads, self.dk)
        group = self.heads // self.key_heads
        of_head = [h % self.key_heads if self.tiled else h // group for h in range(self.heads)]
        updates = inputs["log_value"].value[row, token].reshape(self.heads, self.dv)
        factors = np.ones((self.heads, 1))
        if "log_decay" in inputs:
            factors = inputs["log_decay"].value[row, token].reshape(self.heads, -1)
        return keys[of_head], updates, factors


def compute(case: Case) -> dict[str, Tensor]:
    call = Replay(case)
    spans = call.spans()
    if call.pooled:
        states = call.turned(case.inputs["state_pool"].value).copy()
        dtype = case.inputs["state_pool"].dtype
    else:
        states = np.zeros((len(spans), call.heads, call.dk, call.dv))
        given = case.inputs.get("past_state")
        dtype = given.dtype if given else case.output_dtypes.get("present_state", "F32")
    with np.errstate(invalid="ignore", over="ignore"):
        for n, (row, first, accepted) in enumerate(spans):
            state = call.past(n)
            for token in range(first, first + accepted):
                keys, updates, factors = call.steps(row, token)
                state = state * factors[:, :, None] + keys[:, :, None] * updates[:, None, :]
            slot = int(case.inputs["write_indices"].value[n]) if call.pooled else n
            if slot >= 0:
                states[slot] = state
    name = "state_pool_out" if call.pooled else "present_state"
    return {name: Tensor.rounded(call.turned(states), dtype)}
