"""Where caches and states live: bound, omitted, unbound, swapped, overlapping, constant."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from oracle.case_file import Case
from oracle.tensors import Tensor
from ort_models import ONNX_TYPES, case_model, model_of, node_of, symbols, value
from ort_problems import assert_close, expected, linear, paged
from ort_sessions import VERSION, make_session, ort_value, run

CACHES = ["key_cache", "value_cache"]
ALL = {"output": "F16", "key_cache_out": "F16", "value_cache_out": "F16"}
needs_linear = pytest.mark.skipif(VERSION < (1, 29), reason="no LinearAttention with windows")


@pytest.fixture
def case() -> Case:
    return paged(np.random.default_rng(5), [3, 1, 0], [20, 40, 7])


def bits(tensor: Tensor) -> bytes:
    return tensor.data.tobytes()


def copies(case: Case) -> dict[str, Tensor]:
    return {name: tensor.copy() for name, tensor in case.inputs.items()}


def test_omitted_outputs_update_the_callers_buffers(case: Case) -> None:
    session = make_session(case_model(case, {"output": "F16"}), alone=True)
    inputs, want = copies(case), expected(case)
    got = run(session, inputs)
    got["key_cache_out"], got["value_cache_out"] = inputs["key_cache"], inputs["value_cache"]
    assert_close(got, want)


def test_omitted_outputs_update_numpy_arrays_of_run(case: Case) -> None:
    session = make_session(case_model(case, {"output": "F16"}), alone=True)
    inputs, want = copies(case), expected(case)
    (output,) = session.run(None, {name: tensor.data for name, tensor in inputs.items()})
    got = {"output": Tensor("F16", output)}
    got["key_cache_out"], got["value_cache_out"] = inputs["key_cache"], inputs["value_cache"]
    assert_close(got, want)


def test_bound_outputs_are_in_place(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    inputs, want = copies(case), expected(case)
    held = {name: ort_value(inputs[name]) for name in CACHES}
    got = run(session, inputs, {f"{n}_out": v for n, v in held.items()}, held)
    assert_close(got, want)
    for name in CACHES:
        assert bits(inputs[name]) == bits(want[f"{name}_out"])


def test_bound_outputs_over_several_steps(case: Case) -> None:
    """Each step sees what the one before it wrote."""
    session = make_session(case_model(case, ALL), alone=True)
    inputs = copies(case)
    rng = np.random.default_rng(6)
    held = {name: ort_value(inputs[name]) for name in CACHES}
    for _ in range(3):
        want = expected(Case(case.op, case.attributes, inputs))
        assert_close(run(session, inputs, {f"{n}_out": v for n, v in held.items()}, held), want)
        inputs["past_seqlens"].data[:] += [3, 1, 0]
        for name in ("query", "key", "value"):
            inputs[name].data[:] = rng.standard_normal(inputs[name].shape)


def test_unbound_outputs_leave_the_inputs_alone(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    inputs = copies(case)
    assert_close(run(session, inputs), expected(case))
    for name in CACHES:
        assert bits(inputs[name]) == bits(case.inputs[name])


def test_separately_bound_outputs_leave_the_inputs_alone(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    inputs = copies(case)
    bound = {f"{n}_out": ort_value(Tensor("F16", np.zeros_like(inputs[n].data))) for n in CACHES}
    assert_close(run(session, inputs, bound), expected(case))
    for name in CACHES:
        assert bits(inputs[name]) == bits(case.inputs[name])


def test_swapped_outputs_are_refused(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    inputs = copies(case)
    held = {name: ort_value(inputs[name]) for name in CACHES}
    swapped = {"key_cache_out": held["value_cache"], "value_cache_out": held["key_cache"]}
    with pytest.raises(Exception, match='PagedAttention node "the_node": PA-V12.*BAD_ALIAS'):
        run(session, inputs, swapped, held)
    for name in CACHES:
        assert bits(inputs[name]) == bits(case.inputs[name])


def test_one_output_bound_to_the_other_cache_is_refused(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    inputs = copies(case)
    held = {name: ort_value(inputs[name]) for name in CACHES}
    with pytest.raises(Exception, match="BAD_ALIAS"):
        run(session, inputs, {"key_cache_out": held["value_cache"]}, held)
    for name in CACHES:
        assert bits(inputs[name]) == bits(case.inputs[name])


def test_one_output_bound_one_fresh(case: Case) -> None:
    """Decided for each tensor by itself."""
    session = make_session(case_model(case, ALL), alone=True)
    inputs, want = copies(case), expected(case)
    held = {"key_cache": ort_value(inputs["key_cache"])}
    assert_close(run(session, inputs, {"key_cache_out": held["key_cache"]}, held), want)
    assert bits(inputs["key_cache"]) == bits(want["key_cache_out"])
    assert bits(inputs["value_cache"]) == bits(case.inputs["value_cache"])


def overlapping(tensor: Tensor, shift: int) -> tuple[Tensor, Tensor]:
    """The tensor and one of its shape that begins `shift` rows later in the same memory."""
    room = np.zeros((tensor.shape[0] + shift, *tensor.shape[1:]), tensor.data.dtype)
    room[: tensor.shape[0]] = tensor.data
    return Tensor("F16", room[: tensor.shape[0]]), Tensor("F16", room[shift:])


def test_partial_overlap_is_refused(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    inputs = copies(case)
    inputs["key_cache"], other = overlapping(inputs["key_cache"], 1)
    before = bits(inputs["key_cache"])
    with pytest.raises(Exception, match="BAD_ALIAS"):
        run(session, inputs, {"key_cache_out": ort_value(other)})
    assert bits(inputs["key_cache"]) == before


def test_outputs_in_one_buffer_are_refused(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    first, second = overlapping(case.inputs["key_cache"], 1)
    bound = {"key_cache_out": ort_value(first), "value_cache_out": ort_value(second)}
    with pytest.raises(Exception, match="BAD_ALIAS"):
        run(session, copies(case), bound)


def test_output_over_the_query_is_refused(case: Case) -> None:
    session = make_session(case_model(case, ALL), alone=True)
    inputs = copies(case)
    query = ort_value(inputs["query"])
    with pytest.raises(Exception, match="BAD_ALIAS"):
        run(session, inputs, {"output": query}, {"query": query})
    assert bits(inputs["query"]) == bits(case.inputs["query"])


def test_one_tensor_as_both_caches_is_refused(case: Case) -> None:
    names = {n: n for n in case.inputs} | {"value_cache": "key_cache"}
    node = node_of(case.op, case.attributes, names, {"output": "output"})
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items() if n != "value_cache"]
    model = model_of([node], given, [value("output", "F16", case.inputs["query"].shape)])
    inputs = copies(case)
    del inputs["value_cache"]
    with pytest.raises(Exception, match="BAD_ALIAS"):
        run(make_session(model, alone=True), inputs)
    assert bits(inputs["key_cache"]) == bits(case.inputs["key_cache"])


# ---- caches that the model itself holds ----


def initializer(name: str, tensor: Tensor) -> helper.TensorProto:
    return numpy_helper.from_array(tensor.data, name)


def constant_cache_model(case: Case, outputs: dict[str, str], taken: list[str]) -> bytes:
    node = node_of(case.op, case.attributes, {n: n for n in case.inputs}, outputs)
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items() if n not in CACHES]
    made = [helper.make_tensor_value_info(n, ONNX_TYPES["F16"], None) for n in taken]
    held = [initializer(n, case.inputs[n]) for n in CACHES]
    return model_of([node], given, made, held)


def test_initializers_as_caches_are_copied(case: Case) -> None:
    session = make_session(constant_cache_model(case, {n: n for n in ALL}, list(ALL)), alone=True)
    inputs = {n: t for n, t in copies(case).items() if n not in CACHES}
    for _ in range(2):  # the second run sees the model's own values again
        assert_close(run(session, inputs), expected(case))


@pytest.mark.parametrize("outputs", [["output"], list(ALL)], ids=["omitted", "dropped"])
def test_initializers_are_not_updated_in_place(case: Case, outputs: list[str]) -> None:
    model = constant_cache_model(case, {n: n for n in outputs}, ["output"])
    with pytest.raises(Exception, match="key_cache: is a constant initializer") as caught:
        make_session(model)
    assert "INVALID_ARGUMENT" in str(caught.value)


def test_cache_with_another_reader_is_not_updated_in_place(case: Case) -> None:
    """It might see the cache before or after: the runtime orders nodes as it likes."""
    node = node_of(case.op, case.attributes, {n: n for n in case.inputs}, {"output": "output"})
    reader = helper.make_node("Neg", ["value_cache"], ["negated"], name="reader")
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items()]
    made = [helper.make_tensor_value_info(n, ONNX_TYPES["F16"], None) for n in ("output", "negated")]
    with pytest.raises(Exception, match='value_cache: is updated in place.*Neg node "reader"'):
        make_session(model_of([node, reader], given, made))


def test_two_attention_nodes_may_share_caches(case: Case) -> None:
    """Layers that share keys: the second node sees what the first one stored, and stores it again."""
    outputs = ["first", "second"]
    nodes = [
        node_of(case.op, case.attributes, {n: n for n in case.inputs}, {"output": n}, n)
        for n in outputs
    ]
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items()]
    made = [helper.make_tensor_value_info(n, ONNX_TYPES["F16"], None) for n in outputs]
    inputs, want = copies(case), expected(case)
    got = run(make_session(model_of(nodes, given, made), alone=True), inputs)
    for name in outputs:
        assert_close({"output": got[name]}, want)
    assert bits(inputs["key_cache"]) == bits(want["key_cache_out"])


def test_cache_made_by_another_node(case: Case) -> None:
    """A cache that comes out of a node of the runtime's is the graph's own: nothing else sees it."""
    names = {n: n for n in case.inputs} | {"key_cache": "made"}
    node = node_of(case.op, case.attributes, names, {n: n for n in ALL})
    maker = helper.make_node("Identity", ["key_cache"], ["made"])
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items()]
    made = [helper.make_tensor_value_info(n, ONNX_TYPES["F16"], None) for n in ALL]
    inputs = copies(case)
    got = run(make_session(model_of([maker, node], given, made)), inputs)
    assert_close(got, expected(case))
    assert bits(inputs["key_cache"]) == bits(case.inputs["key_cache"])


def test_only_one_cache_output_is_taken(case: Case) -> None:
    """The node has both, and the runtime drops the one that nobody takes: that one is in place."""
    node = node_of(case.op, case.attributes, {n: n for n in case.inputs}, {n: n for n in ALL})
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items()]
    taken = ["value_cache_out", "output"]
    made = [helper.make_tensor_value_info(n, ONNX_TYPES["F16"], None) for n in taken]
    inputs, want = copies(case), expected(case)
    got = run(make_session(model_of([node], given, made), alone=True), inputs)
    assert set(got) == set(taken)
    assert_close(got, want)
    assert bits(inputs["key_cache"]) == bits(want["key_cache_out"])
    assert bits(inputs["value_cache"]) == bits(case.inputs["value_cache"])


def test_non_contiguous_arrays_are_copied_by_the_runtime(case: Case) -> None:
    """As documented: the update goes to a copy that nobody sees."""
    session = make_session(case_model(case, {"output": "F16"}), alone=True)
    inputs, want = copies(case), expected(case)
    arrays = {name: tensor.data for name, tensor in inputs.items()}
    spaced = np.zeros((*arrays["key_cache"].shape[:3], 2 * arrays["key_cache"].shape[3]), np.float16)
    arrays["key_cache"] = spaced[..., ::2]
    arrays["key_cache"][...] = case.inputs["key_cache"].data
    (output,) = session.run(None, arrays)
    assert_close({"output": Tensor("F16", output)}, want)
    assert (arrays["key_cache"] == case.inputs["key_cache"].data).all()


# ---- states of LinearAttention ----


STATE = {"output": "F32", "present_state": "F32"}


@needs_linear
def test_state_bound_in_place() -> None:
    case = linear(np.random.default_rng(7))
    session = make_session(case_model(case, STATE), alone=True)
    inputs, want = copies(case), expected(case)
    held = {"past_state": ort_value(inputs["past_state"])}
    assert_close(run(session, inputs, {"present_state": held["past_state"]}, held), want)
    # Bit for bit as with separate buffers.
    separate = run(session, copies(case))
    assert bits(inputs["past_state"]) == bits(separate["present_state"])
    # And again, from there.
    want = expected(Case(case.op, case.attributes, inputs))
    assert_close(run(session, inputs, {"present_state": held["past_state"]}, held), want)


@needs_linear
def test_window_of_states_in_place_is_refused() -> None:
    """Its slots move, so that old ones would be read after they were overwritten."""
    case = linear(np.random.default_rng(8), window=3)
    session = make_session(case_model(case, STATE), alone=True)
    inputs = copies(case)
    held = {"past_state": ort_value(inputs["past_state"])}
    with pytest.raises(Exception, match='LinearAttention node "the_node": LA-V13.*BAD_ALIAS'):
        run(session, inputs, {"present_state": held["past_state"]}, held)
    assert bits(inputs["past_state"]) == bits(case.inputs["past_state"])


@needs_linear
def test_state_over_another_input_is_refused() -> None:
    case = linear(np.random.default_rng(9), batch=1, tokens=6, heads=(4, 4), sizes=(6, 6))
    session = make_session(case_model(case, STATE), alone=True)
    inputs = copies(case)  # query and state have equally many elements
    query = ort.OrtValue.ortvalue_from_numpy(inputs["query"].data)
    state = ort.OrtValue.ortvalue_from_numpy(inputs["query"].data.reshape(1, 4, 6, 6))
    with pytest.raises(Exception, match="BAD_ALIAS"):
        run(session, inputs, {"present_state": state}, {"query": query})
    assert bits(inputs["query"]) == bits(case.inputs["query"])


@needs_linear
@pytest.mark.parametrize("taken", ["output", "present_state"])
def test_output_that_nobody_takes(taken: str) -> None:
    """The runtime drops it, and the operator writes it all the same, elsewhere."""
    case = linear(np.random.default_rng(10))
    node = node_of(case.op, case.attributes, {n: n for n in case.inputs}, {n: n for n in STATE})
    given = [value(n, t.dtype, symbols(n, t, False)) for n, t in case.inputs.items()]
    made = [helper.make_tensor_value_info(taken, ONNX_TYPES["F32"], None)]
    inputs = copies(case)
    got = run(make_session(model_of([node], given, made), alone=True), inputs)
    assert set(got) == {taken}
    assert_close(got, expected(case))
    assert bits(inputs["past_state"]) == bits(case.inputs["past_state"])
