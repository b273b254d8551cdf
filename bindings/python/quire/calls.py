"""The operators as functions: one typed call of the library each.

What is written here is their signatures and what they mean; typed_call() makes the calls.
"""

from __future__ import annotations

from typing import Any

from quire._call import Tensor, typed_call
from quire.device import Device, Workspace


@typed_call("quire_paged_attention", "com.microsoft.PagedAttention", output=(), softmax_lse=None)
def paged_attention(
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    key_cache: Tensor,
    value_cache: Tensor,
    *,
    cumulative_sequence_length: Tensor,
    past_seqlens: Tensor,
    block_table: Tensor,
    num_heads: int,
    kv_num_heads: int,
    slot_mapping: Tensor | None = None,
    head_sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    k_scale_cache: Tensor | None = None,
    v_scale_cache: Tensor | None = None,
    attention_metadata: Tensor | None = None,
    scale: float = 0.0,
    is_causal: bool | int = True,
    local_window_size: int = -1,
    softcap: float = 0.0,
    k_quant_type: str = "NONE",
    v_quant_type: str = "NONE",
    output: Tensor | None = None,
    key_cache_out: Tensor | None = None,
    value_cache_out: Tensor | None = None,
    k_scale_cache_out: Tensor | None = None,
    v_scale_cache_out: Tensor | None = None,
    softmax_lse: Tensor | bool | None = None,
    device: Device | None = None,
    workspace: Workspace | None = None,
) -> Any:
    """Stores new keys and values of a ragged batch in a paged cache, and attends to the history.

    Letters: T new tokens of all sequences; B sequences; Hq, Hkv query and key/value heads; D head
    size; NB blocks; P rows of a block; MB columns of the block table; E float32, float16 or bfloat16.

    query: E [T, Hq*D]; without key and value packed with them, [T, (Hq+2*Hkv)*D].
    key, value: E [T, Hkv*D].
    key_cache, value_cache: E [NB, P, Hkv, D], any strides; updated in place unless
        key_cache_out and value_cache_out take the copy.
    cumulative_sequence_length: int32 [B+1]: 0, prefix sums of new tokens, T.
    past_seqlens: int32 [B]: tokens cached before this call.
    block_table: int32 [B, MB]: logical to physical block.
    slot_mapping: int32 [T]: row to write, -1: none; without it the block table tells.
    head_sink: E [Hq]: one more logit in each head's denominator.
    k_quant_type, v_quant_type: "NONE"; "PER_TENSOR", "PER_CHANNEL" (int8 caches with k_scale,
        v_scale: float32 [1], [Hkv, 1, D]), "PER_TOKEN" (with k_scale_cache, v_scale_cache:
        float32 [NB, P, Hkv], written with the rows).
    scale: 0: 1/sqrt(D). local_window_size: W > 0: the last W keys. softcap: 0: off.
    softmax_lse: True, or float32 [T, Hq] to fill: natural logarithms of the denominators.

    Returns output, E [T, Hq*D]; or (output, softmax_lse) where that is asked for.
    Rules and formulas: docs/paged_attention.md.
    """
    raise NotImplementedError


@typed_call(
    "quire_linear_attention",
    "com.microsoft.LinearAttention",
    output=(),
    present_state=("state_pool", "log_key"),
)
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    chunk_size: int = 64,
    state_window: int = 0,
    gate_activation: str = "none",
    beta_activation: str = "none",
    qk_l2_norm: bool | int = False,
    qk_l2_norm_epsilon: float = 1e-6,
    state_layout: str = "k_major",
    head_mapping: str = "blocked",
    cu_seqlens: Tensor | None = None,
    state_pool: Tensor | None = None,
    read_indices: Tensor | None = None,
    write_indices: Tensor | None = None,
    a_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    output: Tensor | None = None,
    present_state: Tensor | bool | None = None,
    state_pool_out: Tensor | None = None,
    log_key: Tensor | None = None,
    log_value: Tensor | None = None,
    log_decay: Tensor | None = None,
    device: Device | None = None,
    workspace: Workspace | None = None,
) -> tuple[Any, Any]:
    """Recurrent attention: a matrix state per head, decayed, corrected, written and read per token.

    Letters: B batch; T tokens of this call; Hq, Hkv query and state heads; Hk key heads; Ho =
    max(Hq, Hkv); dk, dv head sizes; W = state_window; N sequences; NP slots of the state pool; E and S each
    float32, float16 or bfloat16. States are S [N, Hkv, dk, dv]; with W > 0 [W, N, Hkv, dk, dv].

    query, key, value: E [B, T, Hq*dk], [B, T, Hk*dk], [B, T, Hkv*dv].
    past_state: S; without it zeros.
    decay: E [B, T, Hkv] or [B, T, Hkv*dk], logarithms; rules "gated" and "gated_delta".
    beta: E [B, T, Hkv] or [B, T, 1]; rules "delta" and "gated_delta".
    cu_seqlens: int32 [N+1]: sequences packed along T.
    state_pool, read_indices, write_indices: states in place of past and present; the pool is
        updated in place unless state_pool_out takes the copy.
    present_state: S to fill; it may be past_state itself if W = 0. False: none (with a log).
    log_key, log_value, log_decay: float32 to fill, for linear_attention_replay().

    Returns (output, present_state): E [B, T, Ho*dv], and S or None (with a pool or a log).
    Rules and formulas: docs/linear_attention.md.
    """
    raise NotImplementedError


@typed_call(
    "quire_linear_attention_replay",
    "quire.LinearAttentionReplay",
    present_state=("state_pool",),
)
def linear_attention_replay(
    log_key: Tensor,
    log_value: Tensor,
    log_decay: Tensor | None = None,
    *,
    accepted: Tensor,
    kv_num_heads: int,
    key_num_heads: int = 0,
    state_layout: str = "k_major",
    head_mapping: str = "blocked",
    past_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    state_pool: Tensor | None = None,
    read_indices: Tensor | None = None,
    write_indices: Tensor | None = None,
    present_state: Tensor | None = None,
    state_pool_out: Tensor | None = None,
    device: Device | None = None,
    workspace: Workspace | None = None,
) -> Any:
    """Rollback after speculative decoding: repeats the accepted tokens of a log on the old state.

    accepted: int32 [N]: tokens to replay. The rest is as in the call of linear_attention() that
    wrote the log. Returns present_state, or None with a pool. docs/linear_attention.md, section 11.
    """
    raise NotImplementedError


@typed_call("quire_paged_decode", "quire.PagedDecode", output=(), softmax_lse=None)
def paged_decode(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    *,
    page_table: Tensor,
    context_lengths: Tensor,
    scale: float,
    key_scales: Tensor | None = None,
    value_scales: Tensor | None = None,
    head_sink: Tensor | None = None,
    partial_blocks: int = 0,
    context_bound: int = 0,
    local_window_size: int = -1,
    output: Tensor | None = None,
    softmax_lse: Tensor | bool | None = None,
    device: Device | None = None,
    workspace: Workspace | None = None,
) -> Any:
    """Attends one new token of each row to its whole paged context. Reads pages only.

    Letters: B rows; Hq, Hkv query and key/value heads; D head size; C pages; P tokens of a page;
    MP columns of the page table; E float32, float16 or bfloat16.

    query: E [B, Hq, D]. key_pages, value_pages: E [Hkv, C, P, D], any strides; or int8 [Hkv, C, P,
        D up to a multiple of 4] with key_scales, value_scales: float32 [Hkv, C, P].
    page_table: int32 [B, MP]. context_lengths: int32 [B], the new token included.
    scale: must be given. softmax_lse: True, or float32 [B, Hq] to fill.

    Returns output, E [B, Hq, D]; or (output, softmax_lse). docs/paged_decode.md.
    """
    raise NotImplementedError


@typed_call("quire_merge_attention_states", "quire.MergeAttentionStates", output=(), softmax_lse=())
def merge_attention(
    output_a: Tensor,
    softmax_lse_a: Tensor,
    output_b: Tensor,
    softmax_lse_b: Tensor,
    *,
    output: Tensor | None = None,
    softmax_lse: Tensor | None = None,
    device: Device | None = None,
    workspace: Workspace | None = None,
) -> tuple[Any, Any]:
    """Joins the attention of one query over two disjoint sets of keys.

    output_a, output_b: E [N, H, D]. softmax_lse_a, softmax_lse_b: float32 [N, H].
    Returns (output, softmax_lse). docs/paged_attention.md, X8b.
    """
    raise NotImplementedError


@typed_call(
    "quire_causal_conv_with_state",
    "com.microsoft.CausalConvWithState",
    output=(),
    present_state=("state_pool",),
)
def causal_conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    *,
    activation: str = "none",
    dilation: int = 1,
    channels_last: bool | int = False,
    state_window: int = 0,
    ndim: int = 1,
    cu_seqlens: Tensor | None = None,
    state_pool: Tensor | None = None,
    read_indices: Tensor | None = None,
    write_indices: Tensor | None = None,
    output: Tensor | None = None,
    present_state: Tensor | None = None,
    state_pool_out: Tensor | None = None,
    device: Device | None = None,
    workspace: Workspace | None = None,
) -> tuple[Any, Any]:
    """The short causal convolution in front of recurrent layers, with its state.

    Letters: B batch; C channels; T tokens; K taps; L = (K-1)*dilation; E float32, float16, bfloat16.
    input: E [B, C, T], or with channels_last [B, T, C]. weight: E [C, 1, K]. bias: E [C].
    past_state: E [B, C, L] (or [B, L, C]); without it zeros. activation: "none", "silu", "swish".

    Returns (output, present_state); present_state is None with a pool. docs/causal_conv.md.
    """
    raise NotImplementedError
