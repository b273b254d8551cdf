"""What cannot be computed: refused with our reason where nobody else can, left alone where the
runtime can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from oracle.case_file import Case
from oracle.tensors import Tensor
from ort_models import ONNX_TYPES, case_model, model_of, node_of, symbols, value
from ort_problems import assert_close, expected, linear, paged, rounded
from ort_sessions import PROVIDER, VERSION, devices, make_session, placement, run

PAGED = {"output": "F16", "key_cache_out": "F16", "value_cache_out": "F16"}
STATE = {"output": "F32", "present_state": "F32"}
needs_newer = pytest.mark.skipif(VERSION < (1, 32), reason="of a later runtime")
needs_linear = pytest.mark.skipif(VERSION < (1, 29), reason="no LinearAttention with windows")


def case_of(**attributes: Any) -> Case:
    return paged(np.random.default_rng(13), [2, 1], [5, 9], **attributes)


def refusal(model: bytes, **more: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        make_session(model, **more)
    return str(caught.value)


# ---- PagedAttention: nobody else has it, so the session fails and says why ----


@pytest.mark.parametrize(
    ("attribute", "setting", "since"),
    [
        ("do_rotary", 1, 23),
        ("rotary_interleaved", 1, 23),
        ("rotary_offset", 8, 32),
        ("k_quant_type", "PER_BLOCK", 32),
        ("k_cache_dtype", "float8e4m3fn", 32),
        ("kv_cache_layout", "INTERLEAVED", 32),
        ("v_head_size", 8, 32),
    ],
)
def test_unsupported_attributes(attribute: str, setting: Any, since: int) -> None:
    if VERSION < (1, since):
        pytest.skip("an attribute of a later runtime")
    case = case_of(**{attribute: setting})
    message = refusal(case_model(case, PAGED))
    if "ShapeInferenceError" in message:
        pytest.skip("the runtime's own check comes first: " + message[:200])
    assert 'PagedAttention node "the_node": PA-V3' in message, message
    assert attribute in message and "UNSUPPORTED" in message
    assert "NOT_IMPLEMENTED" in message


@needs_newer
@pytest.mark.parametrize("name", ["q_norm_weight", "k_norm_weight", "cos_cache", "sin_cache"])
def test_unsupported_inputs(name: str) -> None:
    case = case_of()
    case.inputs[name] = rounded(np.random.default_rng(1), (8, 8) if "c" in name[:1] else (16,), "F16")
    message = refusal(case_model(case, PAGED))
    if "ShapeInferenceError" in message:
        pytest.skip("the runtime's own check comes first: " + message[:200])
    assert f'PagedAttention node "the_node": PA-V3: {name}' in message, message
    assert "UNSUPPORTED" in message


def test_bad_numbers_of_heads() -> None:
    case = case_of()
    case.attributes["kv_num_heads"] = 3
    message = refusal(case_model(case, PAGED))
    assert "ShapeInferenceError" in message or "PA-V1" in message, message


@pytest.mark.parametrize("scale", [float("inf"), float("nan")])
def test_numbers_that_are_not_finite(scale: float) -> None:
    message = refusal(case_model(case_of(scale=scale), PAGED))
    assert 'PagedAttention node "the_node": PA-V2: scale' in message, message
    assert "INVALID_ARGUMENT" in message


def test_negative_softcap() -> None:
    message = refusal(case_model(case_of(softcap=-1.0), PAGED))
    assert "softcap" in message and "INVALID_ARGUMENT" in message, message


@needs_newer
def test_long_texts() -> None:
    message = refusal(case_model(case_of(k_cache_dtype="x" * 100000), PAGED))
    assert "ShapeInferenceError" in message or "k_cache_dtype: is a text of 100000 bytes" in message


@pytest.mark.parametrize("heads", [2**62, -(2**63), -1, 0])
def test_huge_numbers_of_heads(heads: int) -> None:
    case = case_of()
    case.attributes["num_heads"] = heads
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(make_session(case_model(case, PAGED), alone=True), case.inputs)
    message = str(caught.value)
    ours = 'PagedAttention node "the_node": ' in message
    assert ours or "ShapeInferenceError" in message, message


def test_static_sizes_that_do_not_fit_are_seen_when_the_session_is_made() -> None:
    case = case_of()
    shape = case.inputs["key_cache"].shape
    case.inputs["value_cache"] = Tensor("F16", np.zeros((shape[0], 8, *shape[2:]), np.float16))
    message = refusal(case_model(case, PAGED, symbolic=False))
    assert "ShapeInferenceError" in message or "PA-V7: " in message, message


def test_values_are_checked_in_each_run_and_the_session_lives_on() -> None:
    case = case_of()
    session = make_session(case_model(case, PAGED), alone=True)
    good = {name: tensor.copy() for name, tensor in case.inputs.items()}
    bad = {name: tensor.copy() for name, tensor in case.inputs.items()}
    bad["past_seqlens"].data[1] = 1000
    for _ in range(2):
        with pytest.raises(Exception, match='PagedAttention node "the_node": PA-V13: past_seqlens'):
            run(session, bad)
        assert bad["key_cache"].data.tobytes() == case.inputs["key_cache"].data.tobytes()
        assert_close(run(session, good), expected(case))


def test_names_may_have_any_letters() -> None:
    case = case_of(softcap=-1.0)
    names = {n: n for n in case.inputs}
    node = node_of(case.op, case.attributes, names, {"output": "output"}, "слой 1 %s%n")
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items()]
    made = [helper.make_tensor_value_info("output", ONNX_TYPES["F16"], None)]
    assert 'PagedAttention node "слой 1 %s%n": ' in refusal(model_of([node], given, made))


def test_a_node_without_a_name() -> None:
    case = case_of(softcap=-1.0)
    names = {n: n for n in case.inputs}
    node = node_of(case.op, case.attributes, names, {"output": "output"}, "")
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items()]
    made = [helper.make_tensor_value_info("output", ONNX_TYPES["F16"], None)]
    assert 'PagedAttention node "": ' in refusal(model_of([node], given, made))


def test_a_tensor_of_another_rank() -> None:
    """The runtime knows no rank, or lets a wrong one pass: then the run says so."""
    case = case_of()
    case.inputs["block_table"] = Tensor("I32", case.inputs["block_table"].data.reshape(-1))
    with pytest.raises(Exception, match="block_table|ShapeInferenceError") as caught:  # noqa: PT011
        run(make_session(case_model(case, PAGED), alone=True), case.inputs)
    print(caught.value)


def test_ranks_that_only_a_run_shows() -> None:
    case = case_of()
    node = node_of(case.op, case.attributes, {n: n for n in case.inputs}, {"output": "output"})
    given = [
        helper.make_tensor_value_info(n, ONNX_TYPES[t.dtype], None)
        if n in ("past_seqlens", "block_table")
        else value(n, t.dtype, symbols(n, t, False))
        for n, t in case.inputs.items()
    ]
    made = [helper.make_tensor_value_info("output", ONNX_TYPES["F16"], None)]
    session = make_session(model_of([node], given, made), alone=True)
    assert_close(run(session, {n: t.copy() for n, t in case.inputs.items()}),
                 {"output": expected(case)["output"]})
    for shape in ((), (1,) * 9, (2,)):
        bad = {n: t.copy() for n, t in case.inputs.items()}
        data = np.zeros(shape, np.int32)
        bad["block_table"] = Tensor("I32", data)
        with pytest.raises(Exception, match="block_table: "):
            run(session, bad)


# ---- LinearAttention: the runtime has a float32 kernel, and functions for the standard one ----


@needs_linear
def test_without_us_half_precision_windows_and_paging_do_not_work() -> None:
    """What the provider is for."""
    refusal(case_model(case_of(), PAGED), provider=False)
    case = linear(np.random.default_rng(1), window=2)
    refusal(case_model(case, STATE), provider=False)
    case = linear(np.random.default_rng(1), dtype="BF16", state="BF16")
    refusal(case_model(case, dict.fromkeys(STATE, "BF16")), provider=False)


@needs_linear
def test_refused_float32_nodes_are_left_to_the_runtime() -> None:
    """Its own kernel may know better, or says what it thinks itself."""
    case = linear(np.random.default_rng(1))
    del case.inputs["beta"]
    model = case_model(case, STATE)
    session = None
    try:
        session = make_session(model)
    except Exception as error:  # noqa: BLE001
        assert "LinearAttention node" not in str(error)
    if session is not None and VERSION >= (1, 32):
        assert PROVIDER not in placement(session)


@needs_linear
def test_refused_half_precision_nodes_say_why() -> None:
    case = linear(np.random.default_rng(1), dtype="F16", state="F16")
    del case.inputs["beta"]
    message = refusal(case_model(case, dict.fromkeys(STATE, "F16")))
    assert 'LinearAttention node "the_node": LA-V2: beta' in message, message


@needs_newer
def test_standard_operator_keeps_its_own_rules() -> None:
    """Opset 27 allows no decay without a rule that uses it: left to the runtime, which has its own
    opinion."""
    case = linear(np.random.default_rng(1), heads=(4, 4), op="ai.onnx.LinearAttention")
    case.attributes["update_rule"] = "delta"
    try:
        session = make_session(case_model(case, STATE))
    except Exception as error:  # noqa: BLE001
        assert "LinearAttention node" not in str(error)
    else:
        assert PROVIDER not in placement(session)


# ---- options ----


@needs_linear
def test_operators_can_be_chosen() -> None:
    model = case_model(linear(np.random.default_rng(1)), STATE)
    assert "disabled by the user" in refusal(model, alone=True, options={"ops": "PagedAttention"})
    make_session(model, alone=True, options={"ops": "PagedAttention,LinearAttention"})
    make_session(model, options={"ops": ""})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ops": "Conv"}, '"Conv" is no operator of Quire'),
        ({"ops": "PagedAttention,"}, None),
        ({"threads": "two"}, 'threads: "two" is not in 0 to'),
        ({"threads": "-1"}, "is not in 0 to"),
        ({"threads": "99999999999999999999"}, "is not in 0 to"),
        ({"threads": ""}, "is not in 0 to"),
        ({"speed": "high"}, 'there is no option "speed"'),
    ],
)
def test_options_that_do_not_fit(options: dict[str, str], text: str | None) -> None:
    model = case_model(case_of(), PAGED)
    if text is None:
        make_session(model, options=options)
        return
    message = refusal(model, options=options)
    assert text in message and "QuireExecutionProvider" in message, message


def test_one_device_for_the_processor() -> None:
    found = devices()
    assert len(found) == 1
    assert found[0].ep_vendor == "Quire"
