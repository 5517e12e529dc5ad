"""bearing.torch.add_scores and add_values: terms of the whole matrix, with gradients."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch
from support import BATCH, DIM, HEADS, K_LEN, KV_HEADS, Q_LEN, examples, names

VALUE_DIM = DIM
# XLNet's segments are a module's: bearing's own object keeps them as plain numbers.
NAMES = names("scores")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(11)
    yield
    torch.set_num_threads(threads)


def tensor(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def rows():
    return tensor(BATCH, HEADS, Q_LEN, DIM), tensor(BATCH, KV_HEADS, K_LEN, DIM)


def shaw(dtype=torch.float64):
    """An encoding that looks at queries and acts on scores and values."""
    module = bt.Shaw(bearing.Shaw(clip=3), DIM).to(dtype)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def of_example(example):
    """An example's encoding as a function of its learned tensors, these tensors, and the positions of a call."""
    encoding = bt.encoding_of(example.encoding)
    learned = [t.detach().clone().requires_grad_() for t in encoding.tensors if t.is_floating_point()]

    def having(*given):
        rest = iter(given)
        return encoding._replace(tensors=tuple(next(rest) if t.is_floating_point() else t for t in encoding.tensors))

    at = {"q_positions": example.q_positions, "k_positions": example.k_positions}
    return having, learned, {name: torch.as_tensor(x) if hasattr(x, "shape") else x for name, x in at.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_encodings_scores_are_bearings_with_the_gradients_of_differences(name, rng):
    example = examples(rng)[name]
    having, learned, at = of_example(example)
    scores, (q, k) = tensor(BATCH, HEADS, Q_LEN, K_LEN), rows()

    def call(scores, q, k, *learned):
        return bt.add_scores(having(*learned), scores, **at, q=q, k=k, scale=0.5)

    wanted = scores.detach().clone()
    bearing.add_scores(example.encoding, wanted, **at, q=q.detach(), k=k.detach(), scale=0.5)
    assert torch.equal(call(scores, q, k, *learned), wanted)
    assert torch.autograd.gradcheck(call, (scores, q, k, *learned), fast_mode=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_encodings_values_are_bearings_with_the_gradients_of_differences(name, rng):
    example = examples(rng)[name]
    having, learned, at = of_example(example)
    p = torch.rand(BATCH, HEADS, Q_LEN, K_LEN, dtype=torch.float64, requires_grad=True)
    out = tensor(BATCH, HEADS, Q_LEN, VALUE_DIM)

    def call(p, out, *learned):
        return bt.add_values(having(*learned), p, out, **at)

    wanted = out.detach().clone()
    bearing.add_values(example.encoding, p.detach(), wanted, **at)
    assert torch.equal(call(p, out, *learned), wanted)
    assert torch.autograd.gradcheck(call, (p, out, *learned), fast_mode=True)


def test_scores_of_segments_are_bearings_with_the_gradients_of_differences():
    module = bt.XlnetSegments(HEADS, DIM).double()
    learned = tuple(torch.nn.init.normal_(parameter) for parameter in module.parameters())
    segments = torch.randint(2, (BATCH, K_LEN))
    encoding = module.encoding(segments[:, -Q_LEN:], segments)
    scores, (q, k) = tensor(BATCH, HEADS, Q_LEN, K_LEN), rows()
    arrays = module.seg_embed.detach(), module.r_s.detach()
    sides = {"q_segments": segments[:, -Q_LEN:].numpy(), "k_segments": segments.numpy()}
    wanted = scores.detach().clone()
    bearing.add_scores(bearing.XlnetSegmentTerm(*arrays, **sides), wanted, q=q.detach(), k=k.detach())
    assert torch.equal(bt.add_scores(encoding, scores, q=q, k=k), wanted)

    def call(scores, q, k, *_):
        return bt.add_scores(module.encoding(segments[:, -Q_LEN:], segments), scores, q=q, k=k)

    assert torch.autograd.gradcheck(call, (scores, q, k, *learned), fast_mode=True)


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_softmax_over_them_is_attention_with_its_gradients(layout):
    module, (q, k), v = shaw(), rows(), tensor(BATCH, KV_HEADS, K_LEN, VALUE_DIM)
    learned, scale, options = tuple(module.parameters()), DIM**-0.5, {"q_positions": K_LEN - Q_LEN, "layout": layout}

    def by_heads(x):
        return x.transpose(1, 2) if layout == "bthd" else x

    keys, values = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    scores = bt.add_scores(module, scale * q @ keys.mT, q=by_heads(q), k=by_heads(k), scale=scale, **options)
    p = scores.softmax(-1)
    found = bt.add_values(module, p, by_heads(p @ values), **options)
    wanted = bt.attention(*(by_heads(x) for x in (q, k, v)), module, mask="none", scale=scale, **options)
    # Sums of some ten numbers of the order of 1, in another order.
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13)
    weights = torch.randn_like(wanted)
    gradients = (torch.autograd.grad(out, (q, k, v, *learned), weights) for out in (found, wanted))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


def test_scores_of_biases_need_neither_queries_nor_keys():
    bias = bt.Alibi(HEADS)
    scores = tensor(HEADS, Q_LEN, K_LEN, dtype=torch.float32)
    added = bt.add_scores(bias, scores, torch.arange(2, 2 + Q_LEN)[None])
    # The same numbers, added in one rounding.
    assert torch.equal(added, scores + bt.bias_matrix(bias, 2, heads=HEADS, q_len=Q_LEN, k_len=K_LEN))
    added.sum().backward()
    assert torch.equal(scores.grad, torch.ones_like(scores))


def test_without_encodings_nothing_is_added_and_nothing_given_is_written():
    scores, p = torch.randn(HEADS, Q_LEN, K_LEN), torch.rand(HEADS, Q_LEN, K_LEN)
    out, module = torch.randn(HEADS, Q_LEN, VALUE_DIM), shaw(torch.float32)
    q, k = torch.randn(HEADS, Q_LEN, DIM), torch.randn(HEADS, K_LEN, DIM)
    assert torch.equal(bt.add_scores(None, scores), scores) and torch.equal(bt.add_values([], p, out), out)
    for call, given in (
        (lambda x: bt.add_scores(module, x, q=q, k=k), scores),
        (lambda x: bt.add_values(module, p, x), out),
    ):
        before = given.clone()
        assert not torch.equal(call(given), before) and torch.equal(given, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_ops_pass_opcheck(dtype):
    one = shaw(dtype).encoding()
    at = torch.arange(2, 2 + Q_LEN)
    scores, (q, k) = tensor(BATCH, HEADS, Q_LEN, K_LEN, dtype=dtype), (x.detach().to(dtype) for x in rows())
    q, k = q.requires_grad_(), k.requires_grad_()
    op = torch.ops.bearing.add_scores.default
    torch.library.opcheck(op, (scores, q, k, [*one.tensors], at, None, f"[{one.form}]", 0, 0, 0.5, "bhtd"))
    alibi = bt.Alibi(HEADS).to(dtype).encoding()
    words = f"[{alibi.form}]", 2, 0, 1.0, "bhtd"
    torch.library.opcheck(op, (scores.transpose(0, 0), None, None, [*alibi.tensors], None, None, *words))
    p = scores.detach().softmax(-1).requires_grad_()
    out = tensor(BATCH, Q_LEN, HEADS, VALUE_DIM, dtype=dtype)
    arguments = out, p, [*one.tensors], at, None, f"[{one.form}]", 0, 0, "bthd"
    torch.library.opcheck(torch.ops.bearing.add_values.default, arguments)


def test_torch_compile_takes_them_whole():
    module, v = shaw(), tensor(BATCH, HEADS, K_LEN, VALUE_DIM)
    (q, _), k = rows(), tensor(BATCH, HEADS, K_LEN, DIM)

    def step(q, k, v):
        p = bt.add_scores(module, q @ k.mT, 2, q=q, k=k).softmax(-1)
        return bt.add_values(module, p, p @ v, 2) * 2

    results = []
    for call in (step, torch.compile(step, fullgraph=True)):
        out = call(q, k, v)
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v, *module.parameters()))))
    # The same kernels; what is compiled around them may sum in another order.
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (lambda s, q, k: bt.add_scores(shaw(), s), bearing.ShapeError, "add_scores"),
        (lambda s, q, k: bt.add_scores(shaw(), s, q=q), bearing.ShapeError, r"add_scores\] q, k: must both be given"),
        (lambda s, q, k: bt.add_scores(shaw(), s, q=k, k=q), bearing.ShapeError, r"add_scores\] q: must be"),
        (lambda s, q, k: bt.add_scores(shaw(), s.float(), q=q, k=k), TypeError, r"add_scores\] q: must be float32"),
        (lambda s, q, k: bt.add_scores(None, s.bfloat16()), TypeError, r"add_scores\] scores: must be"),
        (lambda s, q, k: bt.add_scores(None, s, q=q, k=k, layout="t"), ValueError, r"add_scores\] layout: must be"),
        (
            lambda s, q, k: bt.add_scores(None, s, s[0, 0, :, 0]),
            TypeError,
            r"add_scores\] q_positions: must be a tensor",
        ),
        (lambda s, q, k: bt.add_values(None, s, q[:, :2]), bearing.ShapeError, r"add_values\] out: must be"),
        (lambda s, q, k: bt.add_values(None, s.float(), q), TypeError, r"add_values\] p: must be float64"),
        (
            lambda s, q, k: bt.add_values(None, s, q, k_positions=torch.arange(2)),
            bearing.ShapeError,
            r"add_values\] k_positions",
        ),
    ],
)
def test_wrong_arguments_are_named(wrong, error, text):
    with pytest.raises(error, match=rf"\[{text}"):
        wrong(tensor(BATCH, HEADS, Q_LEN, K_LEN), *rows())


LIE = {
    "densely": lambda x: x[:HEADS],
    "at every second place": lambda x: x[: 2 * HEADS : 2],
    "in a column": lambda x: x[: 3 * HEADS].view(HEADS, 3)[:, 1],
    "at one place for all heads": lambda x: x[:1].expand(HEADS),
    "after others": lambda x: x[3 : 3 + HEADS],
}


@pytest.mark.parametrize("kind", [bearing.AlibiBias, bearing.AlibiShiftedBias])
@pytest.mark.parametrize("name", LIE)
def test_learned_slopes_may_lie_anywhere(name, kind):
    numbers = torch.rand(3 * HEADS, dtype=torch.float64, requires_grad=True)
    q, k = rows()
    k = k.repeat_interleave(HEADS // KV_HEADS, 1)
    m, n = torch.arange(Q_LEN, dtype=torch.float64)[:, None], torch.arange(K_LEN, dtype=torch.float64)
    per_slope = -(n - m).abs() if kind is bearing.AlibiBias else n.expand(Q_LEN, K_LEN)

    def plain(slopes):
        scores = q @ k.transpose(2, 3) / DIM**0.5 + slopes[:, None, None] * per_slope
        return torch.softmax(scores, -1) @ k

    def ours(slopes):
        return bt.attention(q, k, k, kind(slopes=slopes), mask="none")

    def compiled(slopes):
        call = torch.compile(lambda e: bt.attention(q, k, k, e, mask="none"), backend="aot_eager", fullgraph=True)
        return call(bt.encoding_of(kind(slopes=slopes)))

    weights = tensor(BATCH, HEADS, Q_LEN, DIM).detach()
    expected = plain(LIE[name](numbers))
    (wanted,) = torch.autograd.grad((expected * weights).sum(), numbers)
    for call in (ours, compiled):
        found = call(LIE[name](numbers))
        (gradient,) = torch.autograd.grad((found * weights).sum(), numbers)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient, wanted, rtol=1e-11, atol=1e-11)
    alone = bt.bias_matrix(kind(slopes=LIE[name](numbers)), heads=HEADS, q_len=Q_LEN, k_len=K_LEN, dtype=torch.float64)
    torch.testing.assert_close(alone, LIE[name](numbers)[:, None, None] * per_slope)
