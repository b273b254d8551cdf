"""PyTorch tensors, torch.library, Transformers. Skipped where they are not installed."""

from __future__ import annotations

import numpy as np
import pytest

import quire

torch = pytest.importorskip("torch")
import quire.torch  # noqa: E402


def attend(query, key, value, scale=None, causal=True, window=None):
    """[B, H, T, D], in float64."""
    groups = query.shape[1] // key.shape[1]
    key, value = (t.double().repeat_interleave(groups, 1) for t in (key, value))
    rows, columns = query.shape[2], key.shape[2]
    place = torch.arange(rows)[:, None] + columns - rows
    seen = torch.arange(columns)[None] <= place if causal else torch.ones(rows, columns, dtype=bool)
    if window:
        seen &= torch.arange(columns)[None] > place - window
    scores = query.double() @ key.transpose(2, 3) * (scale or query.shape[3] ** -0.5)
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), -1) @ value


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_go_in_and_come_out(make_paged, dtype):
    kind = getattr(torch, dtype)
    paged = make_paged(
        convert=lambda a: (
            torch.from_numpy(a).to(kind) if a.dtype == np.float32 else torch.from_numpy(a)
        )
    )
    before = paged.key_cache.data_ptr()
    output = quire.paged_attention(**paged.arguments())
    assert isinstance(output, torch.Tensor) and output.dtype == kind
    assert paged.key_cache.data_ptr() == before
    assert torch.equal(paged.key_cache[2, 0, 0], paged.key[0])
    if dtype == "float32":
        want = quire.paged_attention(**make_paged().arguments())
        np.testing.assert_array_equal(output.numpy(), want)


def test_what_tensors_are_refused(make_paged):
    paged = make_paged(convert=torch.from_numpy)
    with pytest.raises(quire.BadRequest, match="^query: .*detach"):
        quire.paged_attention(**paged.arguments(query=paged.query.clone().requires_grad_()))
    with pytest.raises(quire.BadRequest, match="^query: "):
        quire.paged_attention(**paged.arguments(query=torch.zeros(4, 16, device="meta")))
    with pytest.raises(quire.BadRequest, match="^query: "):
        quire.paged_attention(**paged.arguments(query=torch.zeros(4, 16).to_sparse()))
    for lost in (torch._efficientzerotensor((4, 16)), paged.query.clone()):
        lost.untyped_storage().resize_(0) if lost.data_ptr() else None
        with pytest.raises(quire.BadRequest, match="^query: has no memory"):
            quire.paged_attention(**paged.arguments(query=lost))
    with pytest.raises(quire.BadRequest, match="^query: .*lazy negative"):
        lazy = torch.complex(paged.query, paged.query).conj().imag
        quire.paged_attention(**paged.arguments(query=lazy))
    with pytest.raises(quire.Unsupported, match="contiguous copy"):
        quire.paged_attention(**paged.arguments(query=torch.zeros(16, 4).T))


def test_no_rows(make_paged):
    paged = make_paged(convert=torch.from_numpy)
    empty = {"query": torch.zeros(0, 16), "key": torch.zeros(0, 8), "value": torch.zeros(0, 8)}
    nothing = torch.zeros(3, dtype=torch.int32)
    output = quire.paged_attention(**paged.arguments(**empty, cumulative_sequence_length=nothing))
    assert output.shape == (0, 16)


def test_a_bound_call_keeps_memory_that_its_tensor_gave_up(make_paged):
    paged = make_paged(convert=torch.from_numpy)
    bound = quire.Plan("PagedAttention", paged.tensors(), paged.attributes).bind(paged.tensors())
    want = bound()["output"].clone()
    paged.query.set_(torch.zeros(4, 16))
    taken = [torch.randn(4, 16) for _ in range(100)]
    assert torch.equal(bound()["output"], want) and len(taken) == 100


def samples():
    from conftest import Paged

    paged = Paged(convert=torch.from_numpy)
    row, state = torch.randn(1, 5, 8), torch.randn(1, 2, 4, 4)
    gate = -torch.rand(1, 5, 2)
    pages = torch.randn(1, 4, 2, 8)
    ops = torch.ops.quire
    table, lengths = torch.tensor([[1, 2]], dtype=torch.int32), torch.tensor([3], dtype=torch.int32)
    part, lse = torch.randn(3, 2, 4), torch.randn(3, 2)
    return [
        (ops.paged_attention, (*paged.tensors().values(), 2, 1)),
        (ops.linear_attention, (row, row, row, state, gate, gate.exp(), 2, 2)),
        (ops.linear_attention, (row, row, row, None, None, None, 2, 2, "linear")),
        (ops.paged_decode, (torch.randn(1, 2, 8), pages, pages, table, lengths, 0.5)),
        (ops.merge_attention, (part, lse, part * 2, lse * 2)),
        (ops.causal_conv, (torch.randn(2, 3, 7), torch.randn(3, 1, 4), torch.randn(3))),
        (
            ops.causal_conv,
            (torch.randn(2, 7, 3), torch.randn(3, 1, 4), None, None, "silu", 2, True),
        ),
        (
            ops.linear_attention,
            (row, row, row, None, gate, gate.exp(), 2, 2),
            {"state_layout": "v_major", "cu_seqlens": torch.tensor([0, 2, 5], dtype=torch.int32)},
        ),
    ]


@pytest.mark.parametrize("index", range(8))
def test_opcheck(index):
    operator, arguments, *named = samples()[index]
    torch.library.opcheck(operator.default, arguments, *named)


@pytest.mark.parametrize("index", range(8))
def test_operators_are_the_functions(index):
    """Same values, same effects, and the shapes that tracing expects."""
    operator, arguments, *named = samples()[index]
    named = named[0] if named else {}
    name = operator.default.name().removeprefix("quire::")
    order = [argument.name for argument in operator.default._schema.arguments]
    asked = {"softmax_lse": True} if name in ("paged_attention", "paged_decode") else {}

    def function(*positional, **more):
        return getattr(quire, name)(**dict(zip(order, positional, strict=False)), **more, **asked)

    runs = []
    for run in (operator, function):
        cloned = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        runs.append([*run(*cloned, **named), *[a for a in cloned if isinstance(a, torch.Tensor)]])
    for found, want in zip(*runs, strict=True):
        assert torch.equal(found, want)


def test_compile_sees_through(make_paged):
    """torch.compile keeps the call as one node, in a graph without breaks."""

    def step(row, state, gate):
        output, state = torch.ops.quire.linear_attention(
            row * 2, row, row, state, gate, gate.exp(), 2, 2
        )
        return output + 1, state

    row, state, gate = torch.randn(1, 5, 8), torch.zeros(1, 2, 4, 4), -torch.rand(1, 5, 2)
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    for found, want in zip(compiled(row, state, gate), step(row, state, gate), strict=True):
        assert torch.equal(found, want)


@pytest.mark.parametrize(("rows", "columns", "causal", "window"),
                         [(7, 7, True, None), (1, 9, True, None), (3, 9, True, 4), (5, 5, False, None)])  # fmt: skip
def test_attention(rows, columns, causal, window):
    query, key, value = (
        torch.randn(2, h, t, 16) for h, t in ((4, rows), (2, columns), (2, columns))
    )
    found, none = quire.torch.attention(
        None, query, key, value, is_causal=causal, sliding_window=window
    )
    assert none is None and found.shape == (2, rows, 4, 16)
    want = attend(query, key, value, causal=causal, window=window).transpose(1, 2)
    torch.testing.assert_close(found.double(), want, rtol=1e-4, atol=1e-5)


def test_attention_with_padding():
    query, key, value = (torch.randn(2, 2, 6, 8) for _ in range(3))
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    found, _ = quire.torch.attention(None, query, key, value, mask)
    for b, part in ((0, slice(2, 6)), (1, slice(0, 5))):
        cut = [t[b : b + 1, :, part] for t in (query, key, value)]
        want = attend(*cut).transpose(1, 2)[0]
        torch.testing.assert_close(found[b, part].double(), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(quire.Unsupported, match="holes"):
        quire.torch.attention(None, query, key, value, torch.tensor([[1, 0, 1, 1, 1, 1]] * 2))
    with pytest.raises(quire.Unsupported, match="rank 4"):
        quire.torch.attention(None, query, key, value, torch.zeros(2, 1, 6, 6))


@pytest.fixture(scope="module")
def model():
    transformers = pytest.importorskip("transformers")
    quire.torch.register()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def with_attention(model, name, work):
    model.set_attn_implementation(name)
    with torch.no_grad():
        return work(model)


def test_transformers_logits(model, monkeypatch):
    calls, attend_rows = [], quire.torch._attend
    monkeypatch.setattr(quire.torch, "_attend", lambda *a: calls.append(1) or attend_rows(*a))
    ids = torch.randint(1, 97, (2, 11))
    eager, ours = (with_attention(model, n, lambda m: m(ids).logits) for n in ("eager", "quire"))
    assert len(calls) == 2  # one for each layer, none by eager
    torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
def test_transformers_generate(model, padded):
    ids, mask = torch.randint(1, 97, (2, 7)), torch.ones(2, 7, dtype=torch.long)
    if padded:
        ids[0, :3], mask[0, :3] = 0, 0

    def work(m):
        return m.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)

    eager, ours = (with_attention(model, n, work) for n in ("eager", "quire"))
    assert torch.equal(ours, eager)
