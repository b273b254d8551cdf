"""Nodes among others: slots that move, chains, branches, sizes that change, every type."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

from oracle.case_file import Case
from oracle.tensors import Tensor
from ort_models import ONNX_TYPES, case_model, model_of, node_of, symbols, value
from ort_problems import assert_close, expected, linear, paged, rounded
from ort_sessions import PROVIDER, VERSION, make_session, placement, run

needs_linear = pytest.mark.skipif(VERSION < (1, 29), reason="no LinearAttention with windows")
PAGED = {"output": "F16", "key_cache_out": "F16", "value_cache_out": "F16"}
STATE = {"output": "F32", "present_state": "F32"}


def anything(name: str, dtype: str) -> helper.ValueInfoProto:
    return helper.make_tensor_value_info(name, ONNX_TYPES[dtype], None)


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


# ---- slots ----


@needs_linear
def test_query_key_and_value_in_one_tensor() -> None:
    """The runtime passes it once, which moves every input behind it."""
    case = linear(rng(), heads=(3, 3), sizes=(6, 6))
    case.inputs["value"] = case.inputs["query"] = case.inputs["key"]
    names = {n: n for n in case.inputs} | {"query": "key", "value": "key"}
    node = node_of(case.op, case.attributes, names, {n: n for n in STATE})
    inputs = {n: t for n, t in case.inputs.items() if n not in ("query", "value")}
    given = [value(n, t.dtype, t.shape) for n, t in inputs.items()]
    model = model_of([node], given, [anything(n, "F32") for n in STATE])
    assert_close(run(make_session(model, alone=True), inputs), expected(case))


def test_paged_query_key_and_value_in_one_tensor() -> None:
    case = paged(rng(), [4, 2], [9, 16], heads=(2, 2))
    case.inputs["value"] = case.inputs["query"] = case.inputs["key"]
    names = {n: n for n in case.inputs} | {"query": "key", "value": "key"}
    node = node_of(case.op, case.attributes, names, {n: n for n in PAGED})
    inputs = {n: t for n, t in case.inputs.items() if n not in ("query", "value")}
    given = [value(n, t.dtype, t.shape) for n, t in inputs.items()]
    model = model_of([node], given, [anything(n, "F16") for n in PAGED])
    assert_close(run(make_session(model, alone=True), inputs), expected(case))


def test_chained_layers_with_outputs_in_any_order() -> None:
    """The second layer's query is the first one's output, which is also an output of the graph."""
    first, second = paged(rng(), [2, 3], [17, 4]), paged(rng(), [2, 3], [17, 4])
    second.inputs["key"] = rounded(rng(), first.inputs["key"].shape, "F16")
    own = ["key", "value", "key_cache", "value_cache"]
    names = [{n: n + "_0" if n in own else n for n in first.inputs}]
    names.append({n: n + "_1" if n in own else n for n in first.inputs} | {"query": "middle"})
    results = [{n: n + "_0" for n in PAGED} | {"output": "middle"}, {n: n + "_1" for n in PAGED}]
    nodes = [
        node_of(first.op, first.attributes, names[i], results[i], f"layer_{i}") for i in range(2)
    ]
    inputs = {n: first.inputs[n] for n in first.inputs if n not in own}
    for i, case in enumerate((first, second)):
        inputs |= {f"{n}_{i}": case.inputs[n] for n in own}
    want_first = expected(first)
    second.inputs["query"] = want_first["output"]
    want = {n + "_0": t for n, t in want_first.items()} | {
        n + "_1": t for n, t in expected(second).items()
    }
    want["middle"] = want.pop("output_0")
    given = [value(n, t.dtype, t.shape) for n, t in inputs.items()]
    order = ["value_cache_out_1", "middle", "key_cache_out_0", "output_1", "value_cache_out_0"]
    order.append("key_cache_out_1")
    for names_of_outputs in (order, order[::-1]):
        model = model_of(nodes, given, [anything(n, "F16") for n in names_of_outputs])
        got = run(make_session(model, alone=True), inputs)
        for name, tensor in got.items():
            # The second layer's output has the rounding of the first one in it.
            atol = 4e-3 if name == "output_1" else 1e-3
            np.testing.assert_allclose(tensor.value, want[name].value, rtol=2e-3, atol=atol)
        for name in ("key_cache_out_0", "value_cache_out_1"):
            assert got[name].data.tobytes() == want[name].data.tobytes()


@needs_linear
def test_inside_a_branch() -> None:
    """Nodes of subgraphs are found, and see values of the graph around them."""
    case = linear(rng())
    branches = []
    for name in ("then", "else"):
        scale = 0.5 if name == "then" else 2.0
        node = node_of(
            case.op,
            {**case.attributes, "scale": scale},
            {n: n for n in case.inputs},
            {n: f"{name}_{n}" for n in STATE},
        )
        made = [anything(f"{name}_{n}", "F32") for n in STATE]
        branches.append(helper.make_graph([node], name, [], made))
    chooser = helper.make_node(
        "If", ["choice"], list(STATE), then_branch=branches[0], else_branch=branches[1]
    )
    given = [value(n, t.dtype, t.shape) for n, t in case.inputs.items()]
    given.append(helper.make_tensor_value_info("choice", TensorProto.BOOL, [1]))
    session = make_session(model_of([chooser], given, [anything(n, "F32") for n in STATE]))
    for choice, scale in ((True, 0.5), (False, 2.0)):
        case.attributes["scale"] = scale
        arrays = {n: t.data for n, t in case.inputs.items()} | {"choice": np.array([choice])}
        got = [Tensor("F32", a) for a in session.run(list(STATE), arrays)]
        assert_close(dict(zip(STATE, got)), expected(case))
    if VERSION >= (1, 32):
        assert placement(session)[PROVIDER] == ["LinearAttention"] * 2


def test_among_nodes_of_the_runtime() -> None:
    """MatMul, ours, MatMul: each provider computes its own, and no node copies anything."""
    case = paged(rng(), [3, 1], [10, 30])
    width = case.inputs["query"].shape[1]
    before, after = (rounded(rng(), (width, width), "F16") for _ in range(2))
    names = {n: n for n in case.inputs} | {"query": "projected"}
    nodes = [
        helper.make_node("MatMul", ["hidden", "before"], ["projected"]),
        node_of(case.op, case.attributes, names, {"output": "attended"}),
        helper.make_node("MatMul", ["attended", "after"], ["output"]),
    ]
    inputs = {n: t for n, t in case.inputs.items() if n != "query"}
    inputs |= {"hidden": case.inputs["query"], "before": before, "after": after}
    given = [value(n, t.dtype, symbols(n, t, False)) for n, t in inputs.items()]
    session = make_session(model_of(nodes, given, [anything("output", "F16")]))
    got = run(session, {n: t.copy() for n, t in inputs.items()})
    case.inputs["query"] = Tensor.rounded(inputs["hidden"].value @ before.value, "F16")
    want = expected(case)["output"].value @ after.value
    np.testing.assert_allclose(got["output"].value, want, rtol=4e-3, atol=4e-2)
    if VERSION >= (1, 32):
        assert placement(session)[PROVIDER] == ["PagedAttention"]
        assert "MemcpyToHost" not in sum(placement(session).values(), [])


# ---- sizes ----


def test_sizes_that_change_between_runs() -> None:
    """Prefill, decode, a step without tokens, other batches: one session."""
    steps = [([5, 3], [0, 0]), ([1, 1], [5, 3]), ([0, 0], [6, 4]), ([7], [100]), ([1] * 9, [3] * 9)]
    model = None
    for new, past in steps:
        case = paged(rng(), new, past)
        if model is None:
            model = case_model(case, PAGED)
            session = make_session(model, alone=True)
        assert_close(run(session, case.inputs), expected(case))


def test_no_tokens_at_all() -> None:
    """Empty tensors have no address."""
    case = paged(rng(), [0], [5])
    got = run(make_session(case_model(case, PAGED), alone=True), case.inputs)
    assert got["output"].shape == (0, 64)
    assert_close(got, expected(case))


@needs_linear
def test_linear_sizes_that_change_between_runs() -> None:
    session = None
    for batch, tokens in ((2, 3), (2, 0), (2, 1), (1, 70), (3, 1), (0, 4)):
        case = linear(rng(), batch=batch, tokens=tokens)
        session = session or make_session(case_model(case, STATE), alone=True)
        assert_close(run(session, case.inputs), expected(case))


@needs_linear
def test_more_sizes_than_plans_are_kept() -> None:
    session = None
    for tokens in range(1, 300):
        case = linear(rng(), batch=1, tokens=tokens % 280 + 1, heads=(1, 1), sizes=(2, 2))
        session = session or make_session(case_model(case, STATE), alone=True)
        got = run(session, case.inputs)
        if tokens % 40 == 0:
            assert_close(got, expected(case))


@needs_linear
@pytest.mark.parametrize("past", [True, False], ids=["past", "no_past"])
@pytest.mark.parametrize("window", range(1, 9))
def test_windows(window: int, past: bool) -> None:
    for tokens in (1, window, window + 2):
        case = linear(rng(), tokens=tokens, window=window, past=past)
        session = make_session(case_model(case, STATE), alone=True)
        got = run(session, case.inputs)
        assert got["present_state"].shape == (window, 2, 4, 8, 6)
        assert_close(got, expected(case))


@needs_linear
def test_window_without_tokens_says_why() -> None:
    """A literal reading would lose the state."""
    case = linear(rng(), tokens=0, window=2)
    with pytest.raises(Exception, match='LinearAttention node "the_node": LA-V11'):
        run(make_session(case_model(case, STATE), alone=True), case.inputs)


# ---- types ----


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_paged_types(dtype: str) -> None:
    case = paged(rng(), [6, 1], [0, 40], dtype=dtype)
    session = make_session(case_model(case, dict.fromkeys(PAGED, dtype)), alone=True)
    assert_close(run(session, case.inputs), expected(case))


@needs_linear
@pytest.mark.parametrize("past", [True, False], ids=["past", "no_past"])
@pytest.mark.parametrize("state", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_linear_types(dtype: str, state: str, past: bool) -> None:
    if not past and state != dtype:
        pytest.skip("the runtime gives the state the type of the query then")
    case = linear(rng(), dtype=dtype, state=state, past=past)
    model = case_model(case, {"output": dtype, "present_state": state})
    assert_close(run(make_session(model, alone=True), case.inputs), expected(case))


@pytest.mark.skipif(VERSION < (1, 29), reason="no quantised caches")
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_int8_caches(kind: str) -> None:
    case = paged(rng(), [3, 1], [20, 33], k_quant_type=kind, v_quant_type=kind)
    shape = (1,) if kind == "PER_TENSOR" else (2, 1, 16)
    for side in ("key", "value"):
        cache = case.inputs[f"{side}_cache"]
        data = rng().integers(-100, 100, cache.shape).astype(np.int8)
        case.inputs[f"{side}_cache"] = Tensor("I8", data)
        case.inputs[f"{side[0]}_scale"] = Tensor.rounded(np.full(shape, 0.02), "F32")
    outputs = {"output": "F16", "key_cache_out": "I8", "value_cache_out": "I8"}
    assert_close(run(make_session(case_model(case, outputs), alone=True), case.inputs),
                 expected(case))


@pytest.mark.skipif(VERSION < (1, 29), reason="inputs of 1.29")
def test_sink_window_softcap_and_slots() -> None:
    case = paged(rng(), [4, 1], [30, 50], softcap=2.0, local_window_size=24)
    case.inputs["head_sink"] = rounded(rng(), (4,), "F16")
    case.inputs["slot_mapping"] = Tensor.integers([-1, 0, 1, -1, 2])
    case.inputs["attention_metadata"] = Tensor.integers([4, 51, 34])
    got = run(make_session(case_model(case, PAGED), alone=True), case.inputs)
    assert_close(got, expected(case))


# ---- threads ----


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("hint", [None, "1", "4"])
def test_bits_do_not_depend_on_threads(threads: int, hint: str | None) -> None:
    case = paged(rng(), [1, 40, 1], [300, 0, 90])
    options = {} if hint is None else {"threads": hint}
    want = run(make_session(case_model(case, PAGED), alone=True, threads=1), case.inputs)
    got = run(
        make_session(case_model(case, PAGED), alone=True, threads=threads, options=options),
        case.inputs,
    )
    for name in PAGED:
        assert got[name].data.tobytes() == want[name].data.tobytes()


@pytest.mark.parametrize("pool", ["1", "2"])
def test_concurrent_runs_of_one_session(pool: str) -> None:
    """Twelve threads, each with sizes and buffers of its own."""
    cases = [paged(np.random.default_rng(i), [1 + i % 3, 2], [i * 9, 5]) for i in range(12)]
    wants = [expected(case) for case in cases]
    session = make_session(case_model(cases[0], PAGED), alone=True, threads=int(pool))
    failures: list[str] = []

    def work(case: Case, want: dict[str, Tensor]) -> None:
        try:
            for _ in range(20):
                assert_close(run(session, case.inputs), want)
        except Exception as error:  # noqa: BLE001
            failures.append(repr(error))

    workers = [threading.Thread(target=work, args=pair) for pair in zip(cases, wants)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures[0]
