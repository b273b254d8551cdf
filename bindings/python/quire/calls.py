"""The operators as functions: one typed call of the library each."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Mapping
from typing import Any

from quire import _tensor
from quire._native import c_text, exception, ffi, lib, new_error, text
from quire.device import Device, Workspace, default_device, operator_named
from quire.errors import BadAttribute, BadPresence, BadRequest, Error
from quire.plan import Form, Plan

Tensor = Any
"""Anything with `__dlpack__`, or a buffer."""


_PLAIN = frozenset((int, float, bool, str))


class _TypedCall:
    """One typed call; its tensors and attributes are read from its args struct and operator."""

    def __init__(self, function: str, operator: str) -> None:
        self.function = getattr(lib, function)
        self.init = getattr(lib, f"{function}_args_init")
        self.type = ffi.typeof(f"{function}_args *")
        self.operator = operator
        self.size = ffi.sizeof(self.type.item)
        example = ffi.new(self.type)
        self.init(example)
        if example.struct_size != self.size:
            raise ImportError("quire: the shared library is of another version than the package")
        self._written: dict[str, str] = {}
        self._forms: dict[Any, dict[str, tuple[tuple[int, ...], int, int]]] = {}
        tensor = ffi.typeof("quire_tensor")
        self.offsets: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self.defaults: dict[str, Any] = {}
        for name, member in self.type.item.fields:
            if member.type is tensor:
                self.offsets[name] = member.offset
            elif name not in ("struct_size", "workspace", "executor"):
                self.kinds[name] = member.type.cname
                default = getattr(example, name)
                is_text = member.type.kind == "pointer"
                self.defaults[name] = text(default) if is_text else default

    def in_place(self) -> dict[str, str]:
        """Inputs that a call writes to -> the output that would take the writing instead."""
        if not self._written:
            slots = operator_named(self.operator).slots
            self._written = {slots[slot.alias].name: slot.name for slot in slots if slot.alias >= 0}
        return self._written

    def __call__(
        self,
        inputs: Mapping[str, Tensor | None],
        outputs: Mapping[str, Tensor | bool | None],
        attributes: Mapping[str, Any],
        device: Device | None,
        workspace: Workspace | None,
    ) -> list[Any]:
        """Makes the call; an output that is True is allocated. Returns the outputs in order."""
        device = device or default_device()
        handle = device.live()
        args = ffi.new(self.type)
        self.init(args)
        results, _keep = self.fill(args, inputs, outputs, attributes, device)
        error = new_error()
        if workspace is None:
            status = self.function(handle, args, error)
        else:
            with workspace.lock:
                args.workspace = workspace.live()
                status = self.function(handle, args, error)
        if status:
            raise self.refusal(status, error, args)
        return results

    def fill(
        self,
        args: Any,
        inputs: Mapping[str, Tensor | None],
        outputs: Mapping[str, Tensor | bool | None],
        attributes: Mapping[str, Any],
        device: Device,
    ) -> tuple[list[Any], list[Any]]:
        """Fills an args struct; returns the outputs, and what must live as long as the struct."""
        written = self._written or self.in_place()
        offsets, kinds, put = self.offsets, self.kinds, _tensor.put_for(device)
        record = ffi.buffer(args, self.size)
        keep: list[Any] = []
        forms: list[Any] = []
        like = None
        for name, value in inputs.items():
            if value is not None:
                like = value if like is None else like
                writes = name in written and outputs.get(written[name]) is None
                kept, dtype = put(record, offsets[name], name, value, writes, device)
                keep.append(kept)
                forms += (name, dtype, getattr(value, "shape", None))
        defaults = self.defaults
        for name, value in attributes.items():
            if type(value) not in _PLAIN or value != defaults[name]:
                setattr(args, name, _attribute(name, kinds[name], value, keep))
        results = list(outputs.values())
        if any([value is True for value in results]):
            key = (*forms, *attributes.values(), *[v is None for v in results], device.number)
            found = self._output_forms(key, device, args, inputs, outputs, attributes)
            results = [
                _tensor.empty(found[name][0], found[name][1], like, device, found[name][2])
                if value is True
                else value
                for name, value in outputs.items()
            ]
        for name, value in zip(outputs, results, strict=True):
            if value is not None:
                keep.append(put(record, offsets[name], name, value, True, device))
        return results, keep

    def refusal(self, status: int, error: Any, args: Any) -> Error:
        tensors = {name: getattr(args, name) for name in self.offsets}
        return _tensor.explain_strides(exception(status, error), tensors)

    def _output_forms(
        self,
        key: tuple[Any, ...],
        device: Device,
        args: Any,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        attributes: Mapping[str, Any],
    ) -> dict[str, tuple[tuple[int, ...], int, int]]:
        """Shapes and types of outputs, which planning knows; remembered by the inputs' forms."""
        try:
            if None not in key:
                return self._forms[key]
        except KeyError:
            pass
        except TypeError:  # a shape that cannot be hashed
            key = (None,)
        views = [(name, getattr(args, name)) for name in inputs if inputs[name] is not None]
        found = self._plan_forms(device, views, outputs, attributes)
        if None not in key:
            self._forms[key] = found
            while len(self._forms) > 256:
                self._forms.pop(next(iter(self._forms)), None)
        return found

    def _plan_forms(
        self,
        device: Device,
        views: list[tuple[str, Any]],
        outputs: Mapping[str, Any],
        attributes: Mapping[str, Any],
    ) -> dict[str, tuple[tuple[int, ...], int, int]]:
        forms = {
            name: Form(_tensor.dtype_name(view.dtype), _tensor.shape_of(view))
            for name, view in views
        }
        operator = operator_named(self.operator)
        defaults = {a.name: a.default for a in operator.attributes}
        given = {
            name: value
            for name, value in attributes.items()
            if name in defaults and value != defaults[name]
        }
        # In-place sides are as they are; only what is pure output is asked for.
        asked = [
            name
            for name, value in outputs.items()
            if value is not None
            and (name, True) in operator.index
            and operator.slots[operator.index[name, True]].alias < 0
        ]
        plan = Plan(operator, forms, given, outputs=asked, device=device)
        found = {
            name: (form.shape or (), _tensor.dtype_number(form.dtype), plan.slot_bytes(name))
            for name, form in plan.forms.items()
        }
        for name, value in outputs.items():
            if value is True and name not in found:
                raise BadPresence(f"{name}: this call has no such output", subject=name)
        return found


def _attribute(name: str, kind: str, value: Any, keep: list[Any]) -> Any:
    """An attribute as its member takes it, or BadAttribute."""
    try:
        if kind == "float":
            return float(value)
        if kind == "char *":
            characters = c_text(value)
            keep.append(characters)
            return characters
        number = python_operator.index(value)
        if not -(2**63) <= number < 2**63:
            raise TypeError("it does not fit 64 bits")
        return number
    except (TypeError, ValueError, BadRequest) as fault:
        raise BadAttribute(f"{name}: {value!r} does not do: {fault}", subject=name) from fault


paged_attention_call = _TypedCall("quire_paged_attention", "com.microsoft.PagedAttention")
_linear_attention = _TypedCall("quire_linear_attention", "com.microsoft.LinearAttention")
_paged_decode = _TypedCall("quire_paged_decode", "quire.PagedDecode")
_merge_attention = _TypedCall("quire_merge_attention_states", "quire.MergeAttentionStates")
_replay = _TypedCall("quire_linear_attention_replay", "quire.LinearAttentionReplay")
_causal_conv = _TypedCall("quire_causal_conv_with_state", "com.microsoft.CausalConvWithState")


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
    results = paged_attention_call(
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
            "k_scale": k_scale,
            "v_scale": v_scale,
            "k_scale_cache": k_scale_cache,
            "v_scale_cache": v_scale_cache,
            "attention_metadata": attention_metadata,
        },
        {
            "output": True if output is None else output,
            "key_cache_out": key_cache_out,
            "value_cache_out": value_cache_out,
            "k_scale_cache_out": k_scale_cache_out,
            "v_scale_cache_out": v_scale_cache_out,
            "softmax_lse": asked(softmax_lse),
        },
        {
            "num_heads": num_heads,
            "kv_num_heads": kv_num_heads,
            "scale": scale,
            "is_causal": is_causal,
            "local_window_size": local_window_size,
            "softcap": softcap,
            "k_quant_type": k_quant_type,
            "v_quant_type": v_quant_type,
        },
        device,
        workspace,
    )
    return results[0] if results[-1] is None else (results[0], results[-1])


def asked(value: Tensor | bool | None) -> Tensor | bool | None:
    """None and False: not asked for."""
    return None if value is False else value


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
    state: Any = present_state
    if state is None:
        state = True if state_pool is None and log_key is None else None
    results = _linear_attention(
        {
            "query": query,
            "key": key,
            "value": value,
            "past_state": past_state,
            "decay": decay,
            "beta": beta,
            "cu_seqlens": cu_seqlens,
            "state_pool": state_pool,
            "read_indices": read_indices,
            "write_indices": write_indices,
            "a_log": a_log,
            "dt_bias": dt_bias,
        },
        {
            "output": True if output is None else output,
            "present_state": asked(state),
            "state_pool_out": state_pool_out,
            "log_key": log_key,
            "log_value": log_value,
            "log_decay": log_decay,
        },
        {
            "q_num_heads": q_num_heads,
            "kv_num_heads": kv_num_heads,
            "update_rule": update_rule,
            "scale": scale,
            "chunk_size": chunk_size,
            "state_window": state_window,
            "gate_activation": gate_activation,
            "beta_activation": beta_activation,
            "qk_l2_norm": qk_l2_norm,
            "qk_l2_norm_epsilon": qk_l2_norm_epsilon,
            "state_layout": state_layout,
            "head_mapping": head_mapping,
        },
        device,
        workspace,
    )
    return results[0], results[1]


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
    state: Any = present_state
    if state is None and state_pool is None:
        state = True
    results = _replay(
        {
            "log_key": log_key,
            "log_value": log_value,
            "log_decay": log_decay,
            "accepted": accepted,
            "past_state": past_state,
            "cu_seqlens": cu_seqlens,
            "state_pool": state_pool,
            "read_indices": read_indices,
            "write_indices": write_indices,
        },
        {"present_state": state, "state_pool_out": state_pool_out},
        {
            "kv_num_heads": kv_num_heads,
            "key_num_heads": key_num_heads,
            "state_layout": state_layout,
            "head_mapping": head_mapping,
        },
        device,
        workspace,
    )
    return results[0]


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
    results = _paged_decode(
        {
            "query": query,
            "key_pages": key_pages,
            "value_pages": value_pages,
            "page_table": page_table,
            "context_lengths": context_lengths,
            "key_scales": key_scales,
            "value_scales": value_scales,
            "head_sink": head_sink,
        },
        {"output": True if output is None else output, "softmax_lse": asked(softmax_lse)},
        {
            "scale": scale,
            "partial_blocks": partial_blocks,
            "context_bound": context_bound,
            "local_window_size": local_window_size,
        },
        device,
        workspace,
    )
    return results[0] if results[1] is None else (results[0], results[1])


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
    results = _merge_attention(
        {
            "output_a": output_a,
            "softmax_lse_a": softmax_lse_a,
            "output_b": output_b,
            "softmax_lse_b": softmax_lse_b,
        },
        {
            "output": True if output is None else output,
            "softmax_lse": True if softmax_lse is None else softmax_lse,
        },
        {},
        device,
        workspace,
    )
    return results[0], results[1]


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
    state: Any = present_state
    if state is None and state_pool is None:
        state = True
    results = _causal_conv(
        {
            "input": input,
            "weight": weight,
            "bias": bias,
            "past_state": past_state,
            "cu_seqlens": cu_seqlens,
            "state_pool": state_pool,
            "read_indices": read_indices,
            "write_indices": write_indices,
        },
        {
            "output": True if output is None else output,
            "present_state": state,
            "state_pool_out": state_pool_out,
        },
        {
            "activation": activation,
            "ndim": ndim,
            "dilation": dilation,
            "channels_last": channels_last,
            "state_window": state_window,
        },
        device,
        workspace,
    )
    return results[0], results[1]
