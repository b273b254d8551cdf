"""Attention of sequences that begin with the same blocks: calls of the plain operators, combined."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire._call import CALLS, Tensor
from quire._native import c_integer, check, ffi, new_error, serving_library
from quire._tensor import view
from quire.device import Device, default_device
from quire.errors import Unsupported


def shared_prefix_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    *,
    prefix_table: Tensor,
    prefix_tokens: int,
    cumulative_sequence_length: Tensor,
    past_seqlens: Tensor,
    block_table: Tensor,
    slot_mapping: Tensor,
    num_heads: int,
    kv_num_heads: int,
    head_sink: Tensor | None = None,
    scale: float = 0.0,
    softcap: float = 0.0,
    output: Tensor | None = None,
    softmax_lse: Tensor | bool | None = None,
    device: Device | None = None,
) -> Any:
    """paged_attention() of sequences that all begin with the same blocks, which are read once.

    prefix_table: int32 [1, prefix_tokens / P]; the rest as Cache.batch(prefix_tokens=...) builds it.
    Equal to the plain call within its tolerance. docs/serving.md.
    """
    library = serving_library()
    device = device or default_device()
    if not device.takes_host_memory:
        raise Unsupported(f"device: shared_prefix_attention() does not run on {device!r}")
    args = ffi.new("quire_shared_prefix_args *")
    library.quire_shared_prefix_args_init(args)
    call = CALLS["paged_attention"]
    attention, results, _keep = call.filled(
        {
            "query": query,
            "key": key,
            "value": value,
            "key_cache": key_cache,
            "value_cache": value_cache,
            "cumulative_sequence_length": cumulative_sequence_length,
            "past_seqlens": past_seqlens,
            "block_table": block_table,
            "slot_mapping": slot_mapping,
            "head_sink": head_sink,
            "output": output,
            "softmax_lse": softmax_lse,
            "num_heads": num_heads,
            "kv_num_heads": kv_num_heads,
            "scale": scale,
            "softcap": softcap,
        },
        device,
    )
    args.attention = attention[0]
    prefix, _kept = view("prefix_table", prefix_table, False, device)
    args.prefix_table = prefix[0]
    args.prefix_tokens = c_integer("prefix_tokens", prefix_tokens)
    needed, error = ffi.new("size_t *"), new_error()
    check(library.quire_shared_prefix_scratch(args, needed, error), error)
    scratch = np.empty(needed[0] + 64, np.uint8)
    base = ffi.cast("char *", ffi.from_buffer(scratch))
    args.scratch = base + (-int(ffi.cast("uintptr_t", base))) % 64
    args.scratch_bytes = needed[0]
    check(library.quire_shared_prefix_attention(device.live(), args, error), error)
    return call.result(results)
