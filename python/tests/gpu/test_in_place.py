"""Rotation in place has the bits of the rotation to new tensors, on GPUs and on the CPU, and autograd, compilers and
transformations see what was written."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch

ROPE = bt.Rope(bearing.Rope(head_dim=8, rotary_dim=6, pairing="half"))


def projected(device, dtype=torch.float32, seed=0):
    """Queries and keys as a model leaves them: parts of one projection, [batch, heads, time, dim]."""
    torch.manual_seed(seed)
    whole = torch.randn(2, 4, 5, 8).to(device, dtype)
    return whole, whole[:, :, :3].transpose(1, 2), whole[:, :, 3:].transpose(1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_the_bits_are_those_of_new_tensors(dtype, pairing, device):
    rope = bt.Rope(bearing.Rope(head_dim=8, rotary_dim=6, pairing=pairing))
    whole, q, k = projected(device, dtype)
    kept = whole.clone()
    wanted = bt.rotate(q, k, rope=rope, positions=9)
    turned = bt.rotate_(q, k, rope=rope, positions=9)
    assert turned[0] is q and turned[1] is k
    assert all(torch.equal(x, y) for x, y in zip(turned, wanted, strict=True))
    assert torch.equal(whole[:, :, :3].transpose(1, 2), wanted[0]) and not torch.equal(whole, kept)
    assert torch.equal(whole[..., 6:], kept[..., 6:])


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_strides_and_what_lies_between(layout, device):
    for spread in (
        lambda: torch.randn(2, 3, 4, 24, device=device)[..., 8:16],
        lambda: torch.randn(2, 3, 8, 8, device=device)[:, :, ::2],
        lambda: torch.randn(2, 3, 8, 4, device=device).transpose(2, 3),
    ):
        x = spread()
        owner, own = x._base, x._base.clone()
        wanted = bt.rotate(x, rope=ROPE, layout=layout)
        assert torch.equal(bt.rotate_(x, rope=ROPE, layout=layout), wanted)
        x.copy_(own.as_strided(x.shape, x.stride(), x.storage_offset()))
        assert torch.equal(owner, own)  # nothing else was written


def test_queries_and_keys_are_one_launch(device, monkeypatch):
    if not bt.triton.device.takes(torch.empty(0, device=device)):
        pytest.skip("the library turns them")
    from bearing.torch.triton.launch import Launch

    launches, run = [], Launch.run
    monkeypatch.setattr(Launch, "run", lambda *args, **named: launches.append(1) or run(*args, **named))
    _, q, k = projected(device)
    bt.rotate_(q, k, rope=ROPE)
    assert len(launches) == 1


def loss(turn):
    def call(leaf):
        whole = leaf * 1
        q, k = whole[:, :, :3].transpose(1, 2), whole[:, :, 3:].transpose(1, 2)
        q, k = turn(q, k, rope=ROPE, positions=50)
        return (q.cos().sum(1) * k.sin().sum(1)).sum()

    return call


def test_gradients_are_those_of_new_tensors(device):
    leaf = projected(device)[0].requires_grad_()
    found, wanted = (torch.autograd.grad(loss(turn)(leaf), leaf) for turn in (bt.rotate_, bt.rotate))
    assert torch.equal(*found, *wanted)
    x = torch.randn(1, 1, 2, 8, dtype=torch.float64, device=device, requires_grad=True)
    torch.autograd.gradcheck(lambda x: bt.rotate_(x * 2, rope=ROPE, positions=5), x, fast_mode=True)
    torch.autograd.gradgradcheck(lambda x: bt.rotate_(x * 2, rope=ROPE, positions=5), x, fast_mode=True)


def test_one_of_two_wants_gradients(device):
    _, q, k = projected(device)
    leaf = q.clone().requires_grad_()
    turned, kept = bt.rotate_(leaf * 1, k, rope=ROPE)
    assert turned.requires_grad and not kept.requires_grad
    (found,) = torch.autograd.grad(turned.sum(), leaf)
    (wanted,) = torch.autograd.grad(bt.rotate(leaf, rope=ROPE).sum(), leaf)
    assert torch.equal(found, wanted)


def test_autograd_hears_of_it(device):
    x = torch.randn(1, 1, 2, 8, device=device)
    before = x._version
    bt.rotate_(x, rope=ROPE)
    assert x._version > before
    leaf = torch.randn(1, 1, 2, 8, device=device, requires_grad=True)
    twice = leaf * 1
    squares = (twice * twice).sum()  # keeps its factors for the backward
    bt.rotate_(twice, rope=ROPE)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()
    for own in (leaf, leaf[..., :]):
        numbers = leaf.detach().clone()
        with pytest.raises(RuntimeError, match=r"\[rotate_\] xs: must be no leaf that requires gradients"):
            bt.rotate_(own, rope=ROPE)
        assert torch.equal(leaf.detach(), numbers)
    with torch.no_grad():
        bt.rotate_(leaf, rope=ROPE)
    with torch.inference_mode():
        y = torch.ones(1, 1, 2, 8, device=device)
        assert bt.rotate_(y, rope=ROPE) is y


def test_views_that_autograd_does_not_follow_are_not_written(device):
    whole = torch.randn(1, 2, 3, 16, device=device, requires_grad=True) * 1
    numbers = whole.detach().clone()
    with torch.no_grad():
        hidden = whole[..., :8]
    for q, k in [
        whole.chunk(2, -1),
        whole.split(8, -1),
        whole.unflatten(-1, (2, 8)).unbind(-2),
        (whole[..., 8:], hidden),
        [x.transpose(1, 2) for x in whole.chunk(2, -1)],
    ]:
        with pytest.raises(RuntimeError, match=r"\[rotate_\] xs: must be no views of chunk, split or unbind"):
            bt.rotate_(q, k, rope=ROPE, layout="bthd")
        assert torch.equal(whole.detach(), numbers)
    with torch.no_grad():
        q, k = whole.detach().chunk(2, -1)  # nothing to follow
        wanted = bt.rotate(q, rope=ROPE)
        assert torch.equal(bt.rotate_(q, k, rope=ROPE)[0], wanted)


def test_compilers_and_transformations_see_it(device):
    leaf = projected(device)[0].requires_grad_()
    own, whole = (torch.autograd.grad(one(leaf), leaf)[0] for one in (loss(bt.rotate_), compiled(loss(bt.rotate_))))
    assert torch.equal(own, whole)
    _, q, k = projected(device)
    wanted = bt.rotate(q, k, rope=ROPE, positions=2)
    found = compiled(lambda q, k: bt.rotate_(q, k, rope=ROPE, positions=2))(q, k)
    for x, y, z in zip((q, k), found, wanted, strict=True):
        assert torch.equal(x, z) and torch.equal(y, z)
    x = torch.randn(3, 1, 2, 8, device=device)
    each = torch.func.vmap(lambda x: bt.rotate_(x * 1, rope=ROPE))(x)
    assert torch.equal(each, bt.rotate(x, rope=ROPE))


def compiled(call):
    return torch.compile(call, fullgraph=True, backend="aot_eager")


def test_the_op_s_schema_says_what_it_writes(device):
    xs = [torch.randn(1, heads, 3, 8, device=device) for heads in (2, 1)]
    torch.library.opcheck(torch.ops.bearing.rotate_.default, (xs, None, 5, ROPE.table, "bhtd", None, None))
    assert "Tensor(a0!)[] xs" in str(torch.ops.bearing.rotate_.default._schema)


def test_wrong_calls_write_nothing(device):
    x = torch.randn(2, 3, 4, 8, device=device)
    own = x.clone()
    for xs, positions, error, text in [
        ((), None, TypeError, "xs: must be one tensor or more"),
        ((x, x), None, bearing.ShapeError, "xs: must share no memory"),
        ((x, x[:, :, :2].clone()), None, bearing.ShapeError, "xs: must have the same axes, batch, time and head_dim"),
        ((x, x.int()), None, TypeError, "float64, float32, bfloat16 or float16, got torch.int32"),
        ((x, x[:, :1].expand(2, 3, 4, 8)), None, bearing.ShapeError, "a place in memory for each element"),
        (
            (x.as_strided(x.shape, (48, 24, 6, 1)),),
            None,
            bearing.ShapeError,
            r"for each element, got strides \[48, 24, 6, 1\]",
        ),
        ((x, x[..., :6].clone()), None, bearing.ShapeError, "head_dim"),
        ((x[..., :6],), None, bearing.ShapeError, "head_dim"),
        ((x,), torch.zeros(7, dtype=torch.long), bearing.ShapeError, "must have 4 tokens, got 7"),
        ((x,), 2**31 - 1, bearing.RangeError, r"2\^31"),
    ]:
        with pytest.raises(error, match=text):
            bt.rotate_(*xs, rope=ROPE, positions=positions)
        assert torch.equal(x, own)


def test_memory_that_is_interwoven_is_not_shared(device):
    """Queries and keys of one projection, whose memory from end to end is the same; and a part of a head that is both's."""
    whole = torch.randn(2, 5, 3, 4, 8, device=device)
    q, k, _ = whole.permute(2, 0, 3, 1, 4)
    wanted = bt.rotate(q, k, rope=ROPE)
    assert all(torch.equal(x, y) for x, y in zip(bt.rotate_(q, k, rope=ROPE), wanted, strict=True))
    wide = torch.randn(2, 4, 5, 12, device=device)
    before = wide.clone()
    with pytest.raises(bearing.ShapeError, match="xs: must share no memory, got tensors 0 and 1"):
        bt.rotate_(wide[..., :8], wide[..., 4:], rope=ROPE)
    assert torch.equal(wide, before)
    # One place in 42,000, which takes some 100,000 steps to find.
    flat = torch.randn(48_000, device=device)
    x = flat.as_strided((3, 25, 22, 8), (17722, 462, 12, 1))
    with pytest.raises(bearing.ShapeError, match="xs: must share no memory, got tensors 0 and 1"):
        bt.rotate_(x, flat.as_strided((3, 21, 22, 8), (16079, 438, 16, 1), 309), rope=ROPE)


def test_memory_that_is_shared_is_refused_while_a_profiler_looks_on(device):
    x = torch.randn(1, 2, 3, 8, device=device)
    before = x.clone()
    with torch.profiler.profile(), pytest.raises(bearing.ShapeError, match="xs: must share no memory"):
        bt.rotate_(x, x, rope=ROPE)
    assert torch.equal(x, before)
