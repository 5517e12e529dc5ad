"""Norm and rotation in one pass: the formula, its gradients, part of a head, and the same bits on every run."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch.triton import norm

EPS = 1e-6


def formula(x, weight, rope, at):
    """In float64, by the library's rotation."""
    x, weight = x.detach().cpu().double().requires_grad_(), weight.detach().cpu().double().requires_grad_()
    normed = weight * x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()
    cos, sin = (torch.from_numpy(n) for n in bearing.cos_sin(rope, at, dtype="float64"))
    pairs, begin = rope.rotary_dim // 2 or rope.head_dim // 2, rope.part.begin if rope.part.where == "window" else 0
    places = torch.arange(2 * pairs) + begin
    one, two = places.chunk(2) if rope.pairing == "half" else (places[::2], places[1::2])
    out = normed.clone()
    out[..., one] = normed[..., one] * cos - normed[..., two] * sin
    out[..., two] = normed[..., one] * sin + normed[..., two] * cos
    return out, x, weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_it_is_the_formula_forward_and_backward(dtype, pairing, device):
    part = bearing.RotaryPart(where="window", begin=3)
    rope = bearing.Rope(head_dim=12, rotary_dim=6, pairing=pairing, part=part)
    x = torch.randn(2, 2, 3, 12).to(device, dtype).requires_grad_()
    weight = torch.rand(12).to(device).requires_grad_()
    at = torch.tensor([5, 900, 31])
    y = bt.norm_rotate(x, weight, rope=bt.Rope(rope), eps=EPS, positions=at.to(device))
    d_y = torch.randn(2, 2, 3, 12).to(dtype)
    wanted, *inputs = formula(x, weight, rope, at)
    gradients = torch.autograd.grad(wanted, inputs, d_y.double())
    found = torch.autograd.grad(y, (x, weight), d_y.to(device))
    # A dozen roundings of numbers below 8; sums of 12 for x, of 12 heads for the weight.
    unit = {torch.float32: 2**-24, torch.float64: 2**-53, torch.bfloat16: 2**-8}[dtype]
    assert y.dtype is dtype and found[0].dtype is dtype and found[1].dtype is torch.float32
    torch.testing.assert_close(y.detach().cpu().double(), wanted.detach(), rtol=unit, atol=64 * min(unit, 2**-24))
    torch.testing.assert_close(found[0].cpu().double(), gradients[0], rtol=unit, atol=512 * min(unit, 2**-24))
    torch.testing.assert_close(found[1].cpu().double(), gradients[1], rtol=2**-24, atol=2048 * 2**-24)


def test_gradients_have_the_same_bits_on_every_run(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    x, weight, d_y = torch.randn(2, 3, 4, 8), torch.rand(8), torch.randn(2, 3, 4, 8)
    x, weight, d_y = (t.to(device).requires_grad_() for t in (x, weight, d_y))
    runs = [
        torch.autograd.grad(bt.norm_rotate(x, weight, rope=rope, eps=EPS, positions=2), (x, weight), d_y)
        for _ in range(2)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.parametrize(("batch", "time", "shares"), [(1, 5, None), (3, 7, 7)])
def test_a_table_that_ends_with_the_tokens(batch, time, shares, device, monkeypatch):
    """The last program has tokens that are not there, whose rows no table has."""
    if shares:
        monkeypatch.setattr(norm, "SHARES", shares)
    x, weight = torch.randn(batch, 2, time, 8).to(device), torch.rand(8).to(device).requires_grad_()
    found = []
    for rows in (time, 64):
        rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"), rows)
        (one,) = torch.autograd.grad(bt.norm_rotate(x, weight, rope=rope, eps=EPS).sin().sum(), weight)
        found.append(one)
    assert torch.equal(*found) and found[0].isfinite().all()


def test_layouts_and_compiled_calls(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    x, weight = torch.randn(1, 2, 3, 8).to(device), torch.rand(8).to(device).requires_grad_()

    def call(x, weight, layout="bhtd"):
        return bt.norm_rotate(x, weight, rope=rope, eps=EPS, layout=layout)

    y = call(x, weight)
    assert torch.equal(call(x.transpose(1, 2).contiguous(), weight, "bthd").transpose(1, 2), y)
    whole = torch.compile(call, fullgraph=True, backend="aot_eager")(x, weight)
    assert torch.equal(whole, y)
    assert torch.equal(*(torch.autograd.grad(out.sum(), weight)[0] for out in (whole, y)))


def counted(monkeypatch):
    """How many launches there were."""
    launches, run = [], norm.Launch.run
    monkeypatch.setattr(norm.Launch, "run", lambda self, *args: (launches.append(self), run(self, *args))[1])
    return launches


@pytest.mark.parametrize(
    ("dtype", "pairing", "layout", "shares"),
    [
        (torch.bfloat16, "half", "bthd", None),
        (torch.float32, "half", "bhtd", 3),
        (torch.float64, "interleaved", "bhtd", None),
    ],
)
def test_queries_and_keys_have_the_bits_of_two_calls_in_one_launch(dtype, pairing, layout, shares, device, monkeypatch):
    """Views of one projection, each with tiles and, for shares, runs of its own."""
    if shares:
        monkeypatch.setattr(norm, "SHARES", shares)
    heads, kv_heads, time, dim = (5, 2, 9, 12) if device == "cpu" else (16, 4, 300, 128)
    part = bearing.RotaryPart(where="window", begin=3)
    rope = bt.Rope(bearing.Rope(head_dim=dim, rotary_dim=dim // 2, pairing=pairing, part=part), 4)
    whole = torch.randn(2, time, heads + 2 * kv_heads, dim).to(device, dtype).requires_grad_()
    weights = [torch.rand(dim).to(device, kind).requires_grad_() for kind in (torch.float32, dtype)]
    rest = {"rope": rope, "eps": EPS, "positions": torch.arange(time).to(device) + 1, "layout": layout}

    def views():
        turned = whole.transpose(1, 2) if layout == "bhtd" else whole
        axis = 1 if layout == "bhtd" else 2
        return turned.narrow(axis, 0, heads), turned.narrow(axis, heads, kv_heads)

    q, k = views()
    apart = [bt.norm_rotate(x, weight, **rest) for x, weight in zip((q, k), weights, strict=True)]
    d_ys = [torch.randn(y.shape).to(device, dtype) for y in apart]
    wanted = [torch.autograd.grad(y, (x, w), d) for y, x, w, d in zip(apart, (q, k), weights, d_ys, strict=True)]
    launches = counted(monkeypatch)
    q, k = views()
    found = bt.norm_rotate(q, weights[0], k=k, k_weight=weights[1], **rest)
    assert len(launches) == 1
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(found, apart, strict=True))
    d_q, d_k, *d_weights = torch.autograd.grad(found, (q, k, *weights), d_ys, retain_graph=True)
    assert len(launches) == 2
    gradients = [(d_q, d_weights[0]), (d_k, d_weights[1])]
    for one, other in zip(gradients, wanted, strict=True):
        assert all(torch.equal(a, b) and a.dtype is b.dtype for a, b in zip(one, other, strict=True))
    (d_weight,) = torch.autograd.grad(found[1], weights[1], d_ys[1])  # of keys alone
    assert len(launches) == 3 and torch.equal(d_weight, d_weights[1])


def test_queries_and_keys_of_nothing_and_in_compiled_code(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    q, k = torch.randn(1, 3, 2, 8).to(device), torch.randn(1, 1, 2, 8).to(device)
    weight = torch.rand(8).to(device).requires_grad_()

    def call(q, k):
        return bt.norm_rotate(q, weight, k=k, k_weight=weight, rope=rope, eps=EPS, positions=3)

    apart = [bt.norm_rotate(x, weight, rope=rope, eps=EPS, positions=3) for x in (q, k)]
    whole = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k)
    assert all(torch.equal(a, b) for a, b in zip(whole, apart, strict=True))
    sums = [torch.autograd.grad(sum(y.sum() for y in ys), weight)[0] for ys in (whole, apart)]
    assert torch.equal(*sums)
    turned, none = call(q, k[:, :0])
    assert torch.equal(turned, apart[0]) and none.shape == (1, 0, 2, 8)
    found = torch.autograd.grad((turned, none), weight, (torch.ones_like(turned), none), retain_graph=True)[0]
    assert torch.equal(found, torch.autograd.grad(turned.sum(), weight)[0])


def test_a_weight_of_another_length_is_refused(device):
    with pytest.raises(bearing.ShapeError, match=r"\[norm_rotate\] weight: must be \[8\]"):
        rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
        bt.norm_rotate(torch.zeros(1, 1, 1, 8, device=device), torch.ones(6, device=device), rope=rope, eps=EPS)
