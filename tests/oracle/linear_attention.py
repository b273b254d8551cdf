"""com.microsoft.LinearAttention and the standard operator: docs/linear_attention.md, X1 to X7."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.attention import effective_scale
from oracle.case_file import Case
from oracle.tensors import Tensor


@dataclass
class Linear:
    """A call with its letters: B, T, Hq, Hkv, Hk, dk, dv, W."""

    case: Case

    def __post_init__(self) -> None:
        inputs, attributes = self.case.inputs, self.case.attributes
        self.rule = str(attributes.get("update_rule") or "gated_delta")
        self.q_heads = int(attributes["q_num_heads"])
        self.heads = int(attributes["kv_num_heads"])
        self.window = int(attributes.get("state_window", 0))
        self.v_major = attributes.get("state_layout", "k_major") == "v_major"
        self.tiled = attributes.get("head_mapping", "blocked") == "tiled"
        self.batch, self.tokens, width = inputs["query"].shape
        self.dk = width // self.q_heads
        self.dv = inputs["value"].shape[2] // self.heads
        self.key_heads = inputs["key"].shape[2] // self.dk
        self.out_heads = max(self.q_heads, self.heads)
        self.decays = "gated" in self.rule
        self.deltas = "delta" in self.rule
        self.pooled = "state_pool" in inputs

    def spans(self) -> list[tuple[int, int, int]]:
        """(batch row, first token, one past the last) of every sequence."""
        if "cu_seqlens" not in self.case.inputs:
            return [(b, 0, self.tokens) for b in range(self.batch)]
        cu = self.case.inputs["cu_seqlens"].value.tolist()
        return [(0, first, last) for first, last in zip(cu, cu[1:])]

    def mapping(self, o: int) -> tuple[int, int]:
        """State head and query head of an output head."""
        if self.tiled:
            return o % self.heads, o % self.q_heads
        if self.q_heads >= self.heads:
            return o // (self.q_heads // self.heads), o
        return o, o // (self.heads // self.q_heads)

    def key_head(self, h: int) -> int:
        return h % self.key_heads if self.tiled else h // (self.heads // self.key_heads)

    def heads_of(self, name: str, heads: int, size: int) -> np.ndarray:
        """A packed input as [B, T, heads, size]; q and k normalised if the call says so."""
        value = self.case.inputs[name].value.reshape(self.batch, self.tokens, heads, size)
        if name != "value" and self.case.attributes.get("qk_l2_norm", 0):
            epsilon = self.case.attributes.get("qk_l2_norm_epsilon", 1e-6)
            squares = (value**2).sum(axis=3, keepdims=True)
            value = value / np.sqrt(squares + float(np.float32(epsilon)))
        return value

    def factors(self) -> np.ndarray:
        """exp(g) as [B, T, Hkv, dk]."""
        shape = (self.batch, self.tokens, self.heads, self.dk)
        if not self.decays:
            return np.ones(shape)
        decay = self.case.inputs["decay"].value
        g = decay.reshape(*shape[:3], decay.shape[2] // self.heads)
        if self.case.attributes.get("gate_activation", "none") == "qwen":
            a_log = self.case.inputs["a_log"].value
            x = g + self.case.inputs["dt_bias"].value.reshape(self.heads, -1)
            softplus = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
            g = -np.exp(a_log)[:, None] * softplus
        with np.errstate(over="ignore"):
            return np.broadcast_to(np.exp(g), shape)

    def betas(self) -> np.ndarray:
        """[B, T, Hkv]."""
        shape = (self.batch, self.tokens, self.heads)
        if not self.deltas:
            return np.ones(shape)
        beta = self.case.inputs["beta"].value
        kind = self.case.attributes.get("beta_activation", "none")
        if kind != "none":
            beta = (2 if kind == "twice_sigmoid" else 1) / (1 + np.exp(-beta))
        return np.broadcast_to(beta, shape)


class States:
    """Where states come from and go to: past and present, or a pool. Matrices are [Hkv, dk, dv]."""

    def __init__(self, call: Linear) -> None:
        self.call, inputs = call, call.case.inputs
        self.slots = max(1, call.window)
        self.source = inputs["state_pool"] if call.pooled else inputs.get("past_state")
        sequences = len(call.spans())
        matrix = (call.heads, call.dv, call.dk) if call.v_major else (call.heads, call.dk, call.dv)
        if call.pooled:
            self.target = inputs["state_pool"].value.copy()
        else:
            self.target = np.zeros((self.slots, sequences, *matrix))

    def load(self, n: int) -> np.ndarray:
        call = self.call
        zeros = np.zeros((call.heads, call.dk, call.dv))
        if self.source is None:
            return zeros
        if call.pooled:
            slot = int(call.case.inputs["read_indices"].value[n])
            if slot < 0:
                return zeros
            state = self.source.value[slot]
        else:
            state = self.source.value[-1][n] if call.window > 0 else self.source.value[n]
        return state.transpose(0, 2, 1).copy() if call.v_major else state.copy()

    def store(self, n: int, slot: int, state: np.ndarray) -> None:
        if slot < 0:
            return
        matrix = state.transpose(0, 2, 1) if self.call.v_major else state
        if not self.call.pooled:
            self.target[slot, n] = matrix
            return
        indices = self.call.case.inputs["write_indices"].value.reshape(-1, self.slots)
        if indices[n, slot] >= 0:
            self.target[indices[n, slot]] = matrix

    def result(self) -> np.ndarray:
        return self.target if self.call.pooled or self.call.window > 0 else self.target[0]


def run_sequence(
    call: Linear, states: States, n: int, output: np.ndarray, updates: np.ndarray
) -> None:
    row, first, last = call.spans()[n]
    query = call.heads_of("query", call.q_heads, call.dk)
    key = call.heads_of("key", call.key_heads, call.dk)
    value = call.heads_of("value", call.heads, call.dv)
    factors, betas = call.factors(), call.betas()
    scale = effective_scale(call.case.attributes, call.dk)
    key_heads = [call.key_head(h) for h in range(call.heads)]
    state = states.load(n)
    if first == last:
        states.store(n, states.slots - 1, state)
    for t in range(first, last):
        k = key[row, t, key_heads]
        state = state * factors[row, t][:, :, None]
        update = value[row, t]
        if call.deltas:
            retrieved = np.einsum("hij,hi->hj", state, k)
            update = betas[row, t][:, None] * (update - retrieved)
        updates[row, t] = update
        state = state + k[:, :, None] * update[:, None, :]
        for o in range(call.out_heads):
            h, q = call.mapping(o)
            output[row, t, o] = scale * (query[row, t, q] @ state[h])
        states.store(n, t - first + states.slots - (last - first), state)


def logs(call: Linear) -> dict[str, Tensor]:
    """X8: the key rows as used, and the factors; the updates are run_sequence's."""
    rows = (call.batch, call.tokens)
    keys = call.heads_of("key", call.key_heads, call.dk)
    out = {"log_key": keys.reshape(*rows, call.key_heads * call.dk)}
    if call.decays:
        width = call.case.inputs["decay"].shape[2]
        if call.case.attributes.get("gate_activation", "none") == "qwen":
            width = max(width, call.case.inputs["dt_bias"].shape[0])
        factors = call.factors()
        alike = width == call.heads
        out["log_decay"] = factors[..., 0] if alike else factors.reshape(*rows, width)
    return {name: Tensor.rounded(np.ascontiguousarray(v), "F32") for name, v in out.items()}


def state_dtype(case: Case) -> str:
    for name in ("state_pool", "past_state"):
        if name in case.inputs:
            return case.inputs[name].dtype
    return case.output_dtypes.get("present_state", case.inputs["query"].dtype)


def compute(case: Case) -> dict[str, Tensor]:
    call = Linear(case)
    states = States(call)
    output = np.zeros((call.batch, call.tokens, call.out_heads, call.dv))
    updates = np.zeros((call.batch, call.tokens, call.heads, call.dv))
    with np.errstate(invalid="ignore", over="ignore"):
        for n in range(len(call.spans())):
            run_sequence(call, states, n, output, updates)
    packed = output.reshape(call.batch, call.tokens, call.out_heads * call.dv)
    name = "state_pool_out" if call.pooled else "present_state"
    return {
        "output": Tensor.rounded(packed, case.inputs["query"].dtype),
        name: Tensor.rounded(states.result(), state_dtype(case)),
        "log_value": Tensor.rounded(updates.reshape(*updates.shape[:2], call.heads * call.dv), "F32"),
        **logs(call),
    }
