"""PyTorch: the operators in torch.library (namespace "quire"), and attention for Transformers.

Importing this module registers torch.ops.quire.paged_attention, .linear_attention, .paged_decode,
.merge_attention and .causal_conv for the CPU, with the shapes that torch.compile and torch.export
need: the functions of quire with their parameters in order, all of which may be passed by position,
without outputs, pools of states, device and workspace. Each returns two tensors: output and softmax_lse,
or output and present_state. Caches are updated in place. They have no gradients.

register() makes "quire" an attention implementation of Transformers:

    quire.torch.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="quire")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import quire
from quire._call import CALLS

__all__ = ["attention", "register"]


# ---- operators ----

_SCHEMA_TYPES = {
    "Tensor": "Tensor",
    "Tensor | None": "Tensor?",
    "int": "int",
    "bool": "bool",
    "bool | int": "bool",
    "float": "float",
    "str": "str",
}


def _register(fake: Callable[..., Any], *, without: set[str], **fixed: Any) -> None:
    """Registers the function of quire that `fake` is named after: its parameters but for outputs,
    devices, and those that are left out or fixed, in its order. `fake` gets them by name, and returns
    what the operator does without its values. Tensors that the call writes to are mutated.
    """
    name = fake.__name__.strip("_")
    function, call = getattr(quire, name), CALLS[name]
    left_out = {"device", "workspace", *call.outputs(), *without, *fixed}
    parameters = [p for p in call.signature.parameters.values() if p.name not in left_out]
    names, mutated = [p.name for p in parameters], call.written_inputs() - left_out
    # A schema knows no default in front of an argument that has none.
    required = max(i for i, p in enumerate(parameters) if p.default is p.empty)
    declared = []
    for index, parameter in enumerate(parameters):
        kind = _SCHEMA_TYPES[str(parameter.annotation)]
        if parameter.name in mutated:
            kind = kind.replace("Tensor", f"Tensor(a{index}!)")
        default = f"={_literal(parameter.default)}" if index > required else ""
        declared.append(f"{kind} {parameter.name}{default}")

    def run(*arguments: Any, **named: Any) -> Any:
        return function(**dict(zip(names, arguments, strict=False)), **named, **fixed)

    def run_fake(*arguments: Any, **named: Any) -> Any:
        return fake(**dict(zip(names, arguments, strict=False)), **named)

    operator = torch.library.custom_op(
        f"quire::{name}",
        run,
        mutates_args=mutated,
        device_types="cpu",
        schema=f"({', '.join(declared)}) -> (Tensor, Tensor)",
    )
    operator.register_fake(run_fake)


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _paged_attention(
    query: Tensor, value_cache: Tensor, num_heads: int, **_: Any
) -> tuple[Tensor, Tensor]:
    rows = query.shape[0]
    output = query.new_empty((rows, num_heads * value_cache.shape[3]))
    return output, query.new_empty((rows, num_heads), dtype=torch.float32)


def _linear_attention(
    query: Tensor,
    value: Tensor,
    q_num_heads: int,
    kv_num_heads: int,
    past_state: Tensor | None = None,
    state_window: int = 0,
    state_layout: str = "k_major",
    cu_seqlens: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    batch, tokens, width = query.shape
    sizes = [width // q_num_heads, value.shape[2] // kv_num_heads]
    output = query.new_empty((batch, tokens, max(q_num_heads, kv_num_heads) * sizes[1]))
    if past_state is not None:
        return output, past_state.new_empty(past_state.shape)
    if state_layout == "v_major":
        sizes.reverse()
    sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
    window = [state_window] if state_window else []
    return output, query.new_empty((*window, sequences, kv_num_heads, *sizes))


def _paged_decode(query: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    return query.new_empty(query.shape), query.new_empty(query.shape[:2], dtype=torch.float32)


def _merge_attention(output_a: Tensor, softmax_lse_a: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    return output_a.new_empty(output_a.shape), softmax_lse_a.new_empty(softmax_lse_a.shape)


def _causal_conv(
    input: Tensor,
    weight: Tensor,
    dilation: int = 1,
    channels_last: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    length = (weight.shape[2] - 1) * dilation
    batch, first, second = input.shape
    state = (batch, length, second) if channels_last else (batch, first, length)
    return input.new_empty(input.shape), input.new_empty(state)


_POOLS = {"state_pool", "read_indices", "write_indices"}
_register(_paged_attention, without=set(), softmax_lse=True)
_register(_linear_attention, without=_POOLS)
_register(_paged_decode, without=set(), softmax_lse=True)
_register(_merge_attention, without=set())
_register(_causal_conv, without={*_POOLS, "cu_seqlens", "state_window", "ndim"})


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
