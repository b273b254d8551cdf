"""Plans, bound calls, workspaces, devices, operators, explanations."""

from __future__ import annotations

import json

import numpy as np
import pytest

import quire

OPERATOR = "com.microsoft.PagedAttention"


def plan_of(paged, **options):
    return quire.Plan(OPERATOR, paged.tensors(), paged.attributes, **options)


def test_a_plan_knows_the_forms_of_outputs(paged):
    plan = plan_of(paged, outputs=["softmax_lse"])
    assert plan.forms["output"] == quire.Form("float32", (4, 16))
    assert plan.forms["softmax_lse"] == quire.Form("float32", (4, 2))
    assert plan.workspace_bytes > 0 and plan.variant == "cpu"


def test_plans_need_no_memory(paged):
    forms = {n: quire.Form(a.dtype, a.shape) for n, a in paged.tensors().items()}
    plan = quire.Plan(OPERATOR, forms, paged.attributes)
    np.testing.assert_array_equal(
        plan.run(paged.tensors())["output"], quire.paged_attention(**paged.arguments())
    )


def test_bound_calls_see_new_contents(paged):
    bound = plan_of(paged).bind(paged.tensors())
    first = bound()["output"].copy()
    paged.query[:] *= 2
    second = bound()["output"]
    assert second is bound.outputs["output"] and not np.array_equal(first, second)
    np.testing.assert_array_equal(second, quire.paged_attention(**paged.arguments()))


def test_layers_share_what_is_prepared(paged, make_paged):
    plan, workspace = plan_of(paged), quire.Workspace()
    other = make_paged()
    other.query[:] += 1
    layers = [plan.bind(layer.tensors(), workspace=workspace) for layer in (paged, other)]
    with pytest.raises(quire.BadRequest):
        layers[0](prepared=True)
    layers[0].prepare()
    for layer, tensors in zip(layers, (paged, other), strict=True):
        found = layer(prepared=True)["output"]
        np.testing.assert_array_equal(found, quire.paged_attention(**tensors.arguments()))
    assert workspace.counters.prepared == 1 and workspace.counters.bytes > 0


def test_functions_take_a_workspace(paged):
    workspace = quire.Workspace()
    for _ in range(3):
        quire.paged_attention(**paged.arguments(), workspace=workspace)
    assert workspace.counters.prepared == 1 and workspace.counters.reused == 2
    workspace.close()
    with pytest.raises(quire.BadRequest, match="^workspace: "):
        quire.paged_attention(**paged.arguments(), workspace=workspace)


def test_strict_and_not(paged):
    paged.indices["block_table"][1, 0] = -1  # holds tokens that are seen
    with pytest.raises(quire.BadValue):
        plan_of(paged).run(paged.tensors())
    plan_of(paged).run(paged.tensors(), strict=False)


def test_binding_wrong_tensors(paged, make_paged):
    plan = plan_of(paged)
    with pytest.raises(quire.BadRequest, match="^what: "):
        plan.bind({**paged.tensors(), "what": paged.query})
    with pytest.raises(quire.BadPresence, match="^softmax_lse: the plan was made without it"):
        plan.bind({**paged.tensors(), "softmax_lse": np.zeros((4, 2), np.float32)})
    with pytest.raises(quire.Error, match="query"):
        plan.bind({**paged.tensors(), "query": np.zeros((5, 16), np.float32)})()
    with pytest.raises(quire.Error, match="query"):
        plan.bind({**paged.tensors(), "query": np.zeros((4, 16), np.float16)})()
    missing = paged.tensors()
    del missing["block_table"]
    with pytest.raises(quire.Error, match="block_table"):
        plan.bind(missing)()
    paged.key_cache.flags.writeable = False
    with pytest.raises(quire.BadRequest, match="^key_cache: is read-only"):
        plan.bind(paged.tensors())


def test_shared_buffers_are_seen(paged):
    state = np.zeros((1, 1, 4, 4), np.float32)
    row = np.ones((1, 2, 4), np.float32)
    plan = quire.Plan(
        "com.microsoft.LinearAttention",
        {"query": row, "key": row, "value": row, "past_state": state},
        {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear"},
        outputs={"present_state": state},
    )
    plan.run({"query": row, "key": row, "value": row, "past_state": state, "present_state": state})
    assert state.all()


def test_what_is_closed_is_refused(paged):
    device = quire.Device(threads=1)
    plan = quire.Plan(OPERATOR, paged.tensors(), paged.attributes, device=device)
    bound = plan.bind(paged.tensors())
    plan.close()
    plan.close()
    device.close()
    bound()  # keeps what it needs
    for use in (
        lambda: plan.variant,
        lambda: plan.bind(paged.tensors()),
        lambda: plan.workspace_bytes,
    ):
        with pytest.raises(quire.BadRequest, match="^plan: it is closed"):
            use()
    with pytest.raises(quire.BadRequest, match="^device: it is closed"):
        quire.paged_attention(**paged.arguments(), device=device)
    with pytest.raises(quire.BadRequest, match="^device: it is closed"):
        quire.Plan(OPERATOR, paged.tensors(), paged.attributes, device=device)


def test_devices():
    assert "cpu" in quire.device_names()
    with quire.Device("cpu", threads=1, isa="scalar") as device:
        assert device.facts.isa == "scalar" and device.facts.threads == 1
        assert "scalar" in repr(device)
    assert "closed" in repr(device)
    for arguments, kind in [
        ({"name": "abacus"}, quire.NotFound),
        ({"isa": "mmx"}, quire.BadRequest),
        ({"threads": -1}, quire.BadRequest),
        ({"threads": 2**40}, quire.BadRequest),
    ]:
        with pytest.raises(kind):
            quire.Device(**arguments)


def test_tuning_files_are_read(paged, tmp_path):
    file = tmp_path / "tuned.json"
    file.write_text('{"format": "quire-tuning", "version": 1, "entries": []}')
    with quire.Device("cpu", tuning=file) as device:
        told = quire.explain(OPERATOR, paged.tensors(), paged.attributes, device=device)
        assert "tuned values: none: no entry" in told
    file.write_text('{"format": "quire-tuning", "version": 2, "entries": []}')
    with pytest.raises(quire.BadRequest, match="^tuning.version: is not 1"):
        quire.Device("cpu", tuning=str(file))
    with pytest.raises(FileNotFoundError):
        quire.Device("cpu", tuning=tmp_path / "nothing.json")


def test_bits_do_not_depend_on_the_device_s_options(paged):
    want = quire.paged_attention(**paged.arguments())
    for options in ({"threads": 1}, {"isa": "scalar"}, {"threads": 3}):
        found = quire.paged_attention(**paged.arguments(), device=quire.Device(**options))
        np.testing.assert_array_equal(found, want)


def test_operators():
    names = [operator.name for operator in quire.operators()]
    assert OPERATOR in names and "quire.PagedDecode" in names
    operator = quire.Operator("PagedDecode")
    assert operator.name == "quire.PagedDecode" and operator.since_version == 1
    assert [a.name for a in operator.attributes][0] == "scale"
    assert "cpu" in {backend for _, backend in operator.variants}
    with pytest.raises(quire.NotFound, match="Abacus"):
        quire.Operator("Abacus")
    with pytest.raises(quire.NotFound):
        quire.Operator("LinearAttention")  # two have that bare name


MANIFEST = {
    "name": "Twice", "domain": "example", "sinceVersion": 1,
    "inputs": [], "outputs": [], "variants": [],
}  # fmt: skip


def test_manifests_can_be_linted_and_refused():
    findings = quire.lint(json.dumps(MANIFEST))
    assert findings and {f.severity for f in findings} <= {"error", "warning"}
    assert quire.lint("{")[0].line == 1
    with pytest.raises(quire.BadManifest) as caught:
        quire.Operator.load("{}")
    assert caught.value.subject == "$"


def test_explanations(paged):
    text = quire.explain(OPERATOR, paged.tensors(), paged.attributes)
    assert text.refused is None and "cpu" in text
    parsed = json.loads(quire.explain(OPERATOR, paged.tensors(), paged.attributes, format="json"))
    assert parsed
    refused = quire.explain(OPERATOR, {"query": paged.query}, {"num_heads": 2})
    assert isinstance(refused.refused, quire.BadAttribute) and "kv_num_heads" in refused
    with pytest.raises(quire.BadRequest):
        quire.explain(OPERATOR, {}, {}, format="xml")
    with pytest.raises(quire.BadRequest):
        quire.explain(OPERATOR, {}, {}, device={"colour": "red"})


def test_explanations_for_devices_that_are_not_there(paged):
    phone = {"backend": "webgpu", "features": ["shader-f16"],
             "limits": {"maxComputeInvocationsPerWorkgroup": 128}}  # fmt: skip
    text = quire.explain(OPERATOR, paged.tensors(), paged.attributes, device=phone)
    assert "webgpu" in text.lower() or "cpu" in text.lower()


def test_shaders_can_be_read(paged):
    phone = {"backend": "webgpu", "features": ["shader-f16"]}
    try:
        text = quire.render("PagedAttention", paged.tensors(), paged.attributes, device=phone)
    except quire.Unsupported as fault:
        pytest.skip(f"no shaders yet: {fault}")
    assert "@compute" in text and "// pass" in text
    with pytest.raises(quire.NotFound):
        quire.render("PagedAttention", paged.tensors(), paged.attributes, shader_pass="what")


@pytest.mark.parametrize(
    "use",
    [
        lambda paged: quire.Operator(5),
        lambda paged: quire.Device(None),
        lambda paged: quire.Plan(OPERATOR, paged.tensors(), paged.attributes, variant=3),
        lambda paged: quire.Plan(OPERATOR, paged.tensors(), paged.attributes, precision="high"),
        lambda paged: quire.Plan(OPERATOR, paged.tensors(), {"num_heads": object()}),
        lambda paged: quire.Plan(OPERATOR, paged.tensors(), {3: 4}),
        lambda paged: quire.explain(OPERATOR, {}, {}, device={"backend": 3}),
        lambda paged: quire.explain(OPERATOR, {}, {}, device={"backend": "abacus"}),
        lambda paged: quire.explain(OPERATOR, {}, {}, device={"limits": {"a": "b"}}),
    ],
)
def test_misuse_of_plans(paged, use):
    try:
        found = use(paged)
    except quire.Error as error:
        assert str(error)
    else:  # an explanation may come with its refusal
        assert isinstance(found, quire.Explanation) and found.refused is not None


@pytest.mark.parametrize(
    "inputs",
    [
        {"query": quire.Form("float32")},
        {"query": quire.Form(None, (4, 4))},
        {"query": quire.Form("float31", (4, 4))},
        {"query": quire.Form("float32", (4, 2**70))},
        {"query": quire.Form("float32", (4, 4), (1,))},
        {"query": quire.Form("float32", ("a",))},
        {"query": quire.Form("float32", (-1, 4))},
        {"query": quire.Form("float32", (1,) * 30)},
        {"what": quire.Form("float32", (4, 4))},
        {"query\0": quire.Form("float32", (4, 4))},
    ],
)
def test_malformed_requests(inputs):
    with pytest.raises(quire.Error):
        quire.Plan(OPERATOR, inputs, {"num_heads": 1, "kv_num_heads": 1})
