"""PyTorch: the operators in torch.library (namespace "quire"), and attention for Transformers.

Importing this module registers torch.ops.quire.paged_attention, .linear_attention, .paged_decode,
.merge_attention and .causal_conv for the CPU, with the shapes that torch.compile and torch.export
need. They have no gradients.

register() makes "quire" an attention implementation of Transformers:

    quire.torch.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="quire")
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import quire

__all__ = ["attention", "register"]


# ---- operators ----


@torch.library.custom_op(
    "quire::paged_attention", mutates_args={"key_cache", "value_cache"}, device_types="cpu"
)
def paged_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    cumulative_sequence_length: Tensor,
    past_seqlens: Tensor,
    block_table: Tensor,
    num_heads: int,
    kv_num_heads: int,
    slot_mapping: Tensor | None = None,
    head_sink: Tensor | None = None,
    scale: float = 0.0,
    is_causal: bool = True,
    local_window_size: int = -1,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """quire.paged_attention(); returns (output, softmax_lse). The caches are updated in place."""
    output, softmax_lse = quire.paged_attention(
        query,
        key,
        value,
        key_cache,
        value_cache,
        cumulative_sequence_length=cumulative_sequence_length,
        past_seqlens=past_seqlens,
        block_table=block_table,
        num_heads=num_heads,
        kv_num_heads=kv_num_heads,
        slot_mapping=slot_mapping,
        head_sink=head_sink,
        scale=scale,
        is_causal=is_causal,
        local_window_size=local_window_size,
        softcap=softcap,
        softmax_lse=True,
    )
    return output, softmax_lse


@paged_attention.register_fake
def _(query, key, value, key_cache, value_cache, cumulative_sequence_length, past_seqlens,
      block_table, num_heads, kv_num_heads, slot_mapping=None, head_sink=None, scale=0.0,
      is_causal=True, local_window_size=-1, softcap=0.0):  # type: ignore[no-untyped-def]  # fmt: skip
    rows = query.shape[0]
    output = query.new_empty((rows, num_heads * value_cache.shape[3]))
    return output, query.new_empty((rows, num_heads), dtype=torch.float32)


@torch.library.custom_op("quire::linear_attention", mutates_args=(), device_types="cpu")
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None,
    decay: Tensor | None,
    beta: Tensor | None,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    qk_l2_norm: bool = False,
) -> tuple[Tensor, Tensor]:
    """quire.linear_attention(); returns (output, present_state)."""
    return quire.linear_attention(
        query,
        key,
        value,
        past_state,
        decay,
        beta,
        q_num_heads=q_num_heads,
        kv_num_heads=kv_num_heads,
        update_rule=update_rule,
        scale=scale,
        qk_l2_norm=qk_l2_norm,
    )


@linear_attention.register_fake
def _(query, key, value, past_state, decay, beta, q_num_heads, kv_num_heads,
      update_rule="gated_delta", scale=0.0, qk_l2_norm=False):  # type: ignore[no-untyped-def]  # fmt: skip
    batch, tokens, width = query.shape
    key_size, value_size = width // q_num_heads, value.shape[2] // kv_num_heads
    heads = max(q_num_heads, kv_num_heads)
    like = query if past_state is None else past_state
    return (
        query.new_empty((batch, tokens, heads * value_size)),
        like.new_empty((batch, kv_num_heads, key_size, value_size)),
    )


@torch.library.custom_op("quire::paged_decode", mutates_args=(), device_types="cpu")
def paged_decode(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    page_table: Tensor,
    context_lengths: Tensor,
    scale: float,
    head_sink: Tensor | None = None,
    local_window_size: int = -1,
) -> tuple[Tensor, Tensor]:
    """quire.paged_decode(); returns (output, softmax_lse)."""
    output, softmax_lse = quire.paged_decode(
        query,
        key_pages,
        value_pages,
        page_table=page_table,
        context_lengths=context_lengths,
        scale=scale,
        head_sink=head_sink,
        local_window_size=local_window_size,
        softmax_lse=True,
    )
    return output, softmax_lse


@paged_decode.register_fake
def _(query, key_pages, value_pages, page_table, context_lengths, scale, head_sink=None,
      local_window_size=-1):  # type: ignore[no-untyped-def]  # fmt: skip
    return query.new_empty(query.shape), query.new_empty(query.shape[:2], dtype=torch.float32)


@torch.library.custom_op("quire::merge_attention", mutates_args=(), device_types="cpu")
def merge_attention(
    output_a: Tensor, softmax_lse_a: Tensor, output_b: Tensor, softmax_lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    """quire.merge_attention()."""
    return quire.merge_attention(output_a, softmax_lse_a, output_b, softmax_lse_b)


@merge_attention.register_fake
def _(output_a, softmax_lse_a, output_b, softmax_lse_b):  # type: ignore[no-untyped-def]
    return output_a.new_empty(output_a.shape), softmax_lse_a.new_empty(softmax_lse_a.shape)


@torch.library.custom_op("quire::causal_conv", mutates_args=(), device_types="cpu")
def causal_conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    activation: str = "none",
    dilation: int = 1,
    channels_last: bool = False,
) -> tuple[Tensor, Tensor]:
    """quire.causal_conv(); returns (output, present_state)."""
    return quire.causal_conv(
        input,
        weight,
        bias,
        past_state,
        activation=activation,
        dilation=dilation,
        channels_last=channels_last,
    )


@causal_conv.register_fake
def _(input, weight, bias=None, past_state=None, activation="none", dilation=1,
      channels_last=False):  # type: ignore[no-untyped-def]  # fmt: skip
    length = (weight.shape[2] - 1) * dilation
    batch = input.shape[0]
    state = (batch, length, input.shape[2]) if channels_last else (batch, input.shape[1], length)
    return input.new_empty(input.shape), input.new_empty(state)


# ---- Transformers ----


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """An attention function for Transformers' registry: the keys and values of its cache are read
    where they lie, as blocks of a cache of one sequence each.

    query: [B, Hq, Tq, D]; key, value: [B, Hkv, Tk, D]. attention_mask: None, or 1 for tokens and 0
    for padding, [B, Tk]. Returns ([B, Tq, Hq, D], None).
    """
    if dropout:
        raise quire.Unsupported("dropout: is for training, which has no gradients here")
    if attention_mask is not None and attention_mask.ndim != 2:
        raise quire.Unsupported(
            f"attention_mask: has rank {attention_mask.ndim}; padding masks [B, Tk] are supported "
            "(quire.torch.register() makes Transformers pass them)"
        )
    batch, heads, length, size = query.shape
    kv_heads, total = key.shape[1], key.shape[2]
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    options = {
        "num_heads": heads,
        "kv_num_heads": kv_heads,
        "scale": size**-0.5 if scaling is None else float(scaling),
        "is_causal": bool(causal),
        "local_window_size": sliding_window or -1,
        "softcap": softcap or 0.0,
        "head_sink": None if s_aux is None else s_aux.to(query.dtype),
    }
    rows = query.transpose(1, 2).reshape(batch * length, heads * size)
    # [B, Tk, Hkv, D], by strides: one block a sequence.
    keys, values = key.transpose(1, 2), value.transpose(1, 2)
    spans = None if attention_mask is None else _spans(attention_mask, total)
    if spans is None:
        output = _attend(rows, keys, values, length, options)
    else:
        output = torch.zeros((batch * length, heads * value.shape[3]), dtype=query.dtype)
        for b, (first, last) in enumerate(spans):
            # Rows of tokens; what is padding stays 0.
            begin = max(first - (total - length), 0)
            end = max(last - (total - length), begin)
            if end > begin:
                part = slice(b * length + begin, b * length + end)
                output[part] = _attend(
                    rows[part],
                    keys[b : b + 1, first:last],
                    values[b : b + 1, first:last],
                    end - begin,
                    options,
                )
    return output.view(batch, length, heads, value.shape[3]), None


def _spans(mask: Tensor, total: int) -> list[tuple[int, int]] | None:
    """First and last token of each sequence; None if nothing is padding."""
    mask = mask[:, -total:].bool()
    if mask.shape[1] < total or bool(mask.all()):
        return None
    spans = []
    for row in mask:
        places = torch.nonzero(row).flatten().tolist()
        first, last = (places[0], places[-1] + 1) if places else (0, 0)
        if last - first != len(places):
            raise quire.Unsupported("attention_mask: has holes; padding lies at one end or both")
        spans.append((first, last))
    return spans


def _attend(
    rows: Tensor, keys: Tensor, values: Tensor, length: int, options: dict[str, Any]
) -> Tensor:
    """Rows of equal length against caches that hold their keys and values already."""
    batch, total = keys.shape[:2]
    count = batch * length
    # The new rows lie in the cache: slot -1 writes none of them.
    new_key = keys[:, total - length :].reshape(count, -1)
    new_value = values[:, total - length :].reshape(count, -1)
    if keys.stride(3) != 1:
        keys = keys.contiguous()
    if values.stride(3) != 1:
        values = values.contiguous()
    index = torch.arange(batch + 1, dtype=torch.int32)
    return quire.paged_attention(  # type: ignore[no-any-return]
        rows.detach(),
        new_key.detach(),
        new_value.detach(),
        keys.detach(),
        values.detach(),
        cumulative_sequence_length=index * length,
        past_seqlens=torch.full((batch,), total - length, dtype=torch.int32),
        block_table=index[:batch, None],
        slot_mapping=torch.full((count,), -1, dtype=torch.int32),
        **options,
    )


def _padding_mask(
    batch_size: int,
    q_length: int | None = None,
    kv_length: int = 0,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Any = None,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> Tensor | None:
    """What Transformers hands to attention(): the padding mask itself, if it says anything."""
    if attention_mask is None:
        return None
    mask = attention_mask[:, -kv_length:] if kv_length else attention_mask
    return None if bool(mask.all()) else mask


def register(name: str = "quire") -> None:
    """Makes `attention` an implementation of Transformers, for attn_implementation=name."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, _padding_mask)
