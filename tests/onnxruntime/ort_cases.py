"""Calls of case files as models: which of them a runtime can say, and with which outputs."""

from __future__ import annotations

from oracle.case_file import Case
from oracle.tensors import Tensor
from ort_models import OPERATORS
from ort_sessions import VERSION


def why_not(case: Case) -> str | None:
    """What the runtime's own schemas cannot say. None: the case must work."""
    if case.op not in OPERATORS:
        return "the runtime has no such operator"
    _, inputs, outputs = OPERATORS[case.op]
    if not set(case.inputs) <= set(inputs) or not set(wanted(case)) <= set(outputs):
        return "an extension of Quire"
    if any(case.attributes.get(name) for name in ("gate_activation", "beta_activation")):
        return "an extension of Quire"
    if {"qk_l2_norm", "state_layout", "head_mapping", "precision"} & set(case.attributes):
        return "an extension of Quire"
    if case.op == "com.microsoft.PagedAttention":
        return why_not_paged(case)
    if VERSION < (1, 26):
        return "no such operator before 1.26"
    if VERSION < (1, 29) and "state_window" in case.attributes:
        return "no windows before 1.29"
    if VERSION < (1, 32) and {"dilation", "channels_last"} & set(case.attributes):
        return "attributes of 1.32"
    return None


def why_not_paged(case: Case) -> str | None:
    if any(t.dtype == "F32" for n, t in case.inputs.items() if not n.endswith("_scale")):
        return "the schema has float16 and bfloat16"
    if "PER_TOKEN" in case.attributes.values():
        return "an extension of Quire"
    if VERSION < (1, 29):
        if not set(case.inputs) <= set(OPERATORS[case.op][1][:10]):
            return "inputs of 1.29"
        if {"is_causal", "k_quant_type", "v_quant_type"} & set(case.attributes):
            return "attributes of 1.29"
    if VERSION < (1, 32) and "is_causal" in case.attributes:
        return "attribute of 1.32"
    return None


def wanted(case: Case) -> dict[str, str]:
    """Outputs to ask for, with their types."""
    if case.expect:
        return {name: tensor.dtype for name, tensor in case.expect.items()}
    floats = [t.dtype for t in case.inputs.values() if t.dtype in ("F32", "F16", "BF16")]
    dtype = floats[0]
    if case.op == "com.microsoft.PagedAttention":
        cache = case.inputs["key_cache"].dtype if "key_cache" in case.inputs else dtype
        return {"output": dtype, "key_cache_out": cache, "value_cache_out": cache}
    return {"output": dtype, "present_state": dtype}


def as_float16(case: Case) -> Case:
    """The runtime has float32 kernels of its own: in float16 a node is ours, refused or not."""
    inputs = {
        name: Tensor.rounded(tensor.value, "F16") if tensor.dtype == "F32" else tensor
        for name, tensor in case.inputs.items()
    }
    return Case(case.op, case.attributes, inputs, error=case.error)
