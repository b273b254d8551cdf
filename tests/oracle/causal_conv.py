"""com.microsoft.CausalConvWithState and the standard operator: docs/causal_conv.md, X3 and X4."""

from __future__ import annotations

import numpy as np

from oracle.case_file import Case
from oracle.tensors import Tensor


class Convolution:
    """A call with its letters: C, T, K, L, W. Tensors are seen channels first."""

    def __init__(self, case: Case) -> None:
        self.case, attributes = case, case.attributes
        self.last = attributes.get("channels_last", 0) == 1
        self.window = int(attributes.get("state_window", 0))
        self.dilation = int(attributes.get("dilation", 1))
        self.input = self.channels_first(case.inputs["input"].value)
        self.batch, self.channels, self.tokens = self.input.shape
        self.weight = case.inputs["weight"].value[:, 0]
        self.taps = self.weight.shape[1]
        self.length = (self.taps - 1) * self.dilation
        self.slots = max(1, self.window)
        self.pooled = "state_pool" in case.inputs

    def channels_first(self, array: np.ndarray) -> np.ndarray:
        """Turns there, and back."""
        return np.ascontiguousarray(np.swapaxes(array, -1, -2)) if self.last else array

    def spans(self) -> list[tuple[int, int, int]]:
        """(batch row, first token, one past the last) of every sequence."""
        if "cu_seqlens" not in self.case.inputs:
            return [(b, 0, self.tokens) for b in range(self.batch)]
        cu = self.case.inputs["cu_seqlens"].value.tolist()
        return [(0, first, last) for first, last in zip(cu, cu[1:])]

    def past(self, n: int) -> np.ndarray:
        """[C, L]."""
        inputs, zeros = self.case.inputs, np.zeros((self.channels, self.length))
        if self.pooled:
            slot = int(inputs["read_indices"].value[n])
            state = inputs["state_pool"].value[slot] if slot >= 0 else None
        elif "past_state" in inputs:
            value = inputs["past_state"].value
            state = value[-1][n] if self.window > 0 else value[n]
        else:
            state = None
        return zeros if state is None else self.channels_first(state)

    def convolve(self, padded: np.ndarray) -> np.ndarray:
        """[C, L + n] to [C, n]."""
        tokens = padded.shape[1] - self.length
        total = np.zeros((self.channels, tokens))
        if "bias" in self.case.inputs:
            total += self.case.inputs["bias"].value[:, None]
        for tap in range(self.taps):
            first = tap * self.dilation
            total += self.weight[:, tap, None] * padded[:, first : first + tokens]
        if self.case.attributes.get("activation", "none") != "none":
            with np.errstate(over="ignore"):
                total /= 1 + np.exp(-total)
        return total


def compute(case: Case) -> dict[str, Tensor]:
    call = Convolution(case)
    output = np.zeros_like(call.input)
    spans = call.spans()
    if call.pooled:
        states = call.channels_first(case.inputs["state_pool"].value).copy()
        indices = case.inputs["write_indices"].value.reshape(-1, call.slots)
    else:
        states = np.zeros((call.slots, len(spans), call.channels, call.length))
    with np.errstate(invalid="ignore"):
        for n, (row, first, last) in enumerate(spans):
            padded = np.concatenate([call.past(n), call.input[row, :, first:last]], axis=1)
            output[row, :, first:last] = call.convolve(padded)
            count = max(1, min(call.slots, last - first))
            for back in reversed(range(count)):  # the newest state is the last slot
                end = padded.shape[1] - back
                state = padded[:, end - call.length : end]
                slot = call.slots - 1 - back
                if not call.pooled:
                    states[slot, n] = state
                elif indices[n, slot] >= 0:
                    states[indices[n, slot]] = state
    if not call.pooled and call.window == 0:
        states = states[0]
    dtype = case.inputs["input"].dtype
    return {
        "output": Tensor.rounded(call.channels_first(output), dtype),
        "state_pool_out" if call.pooled else "present_state": Tensor.rounded(
            call.channels_first(states), dtype
        ),
    }
