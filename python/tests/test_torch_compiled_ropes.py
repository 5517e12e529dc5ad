"""Compiled code takes Ropes and tables of bearing itself that were made outside of it."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch

ROPE = bearing.Rope(head_dim=16, pairing="half")
TABLE = bearing.RopeTable(ROPE, 64)
ANGLES = torch.outer(torch.arange(40.0), 0.5 ** torch.arange(8))
GIVEN = bearing.RopeTable.from_cos_sin(ROPE, ANGLES.cos(), ANGLES.sin())
WHOLE = {"fullgraph": True, "backend": "aot_eager"}


def rows(count: int = 2) -> list[torch.Tensor]:
    torch.manual_seed(2)
    return [torch.randn(1, 2, 5, 16) for _ in range(count)]


@pytest.mark.parametrize("rope", [ROPE, TABLE, GIVEN], ids=["Rope", "RopeTable", "given"])
def test_rotation_takes_them_with_its_gradients(rope):
    xs = [x.requires_grad_() for x in rows()]
    found = torch.compile(lambda a, b: bt.rotate(a, b, rope=rope, positions=3), **WHOLE)(*xs)
    wanted = bt.rotate(*xs, rope=rope, positions=3)
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)
    grads = [torch.autograd.grad(sum(y.sin().sum() for y in ys), xs) for ys in (found, wanted)]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


@pytest.mark.parametrize("rope", [ROPE, TABLE, GIVEN], ids=["Rope", "RopeTable", "given"])
def test_rotation_in_place_takes_them(rope):
    (x,) = rows(1)
    found = torch.compile(lambda a: bt.rotate_(a, rope=rope), **WHOLE)(x.clone())
    assert torch.equal(found, bt.rotate(x, rope=rope))


@pytest.mark.parametrize("rope", [ROPE, TABLE, bearing.resolve(ROPE)], ids=["Rope", "RopeTable", "RopeFrequencies"])
def test_norms_and_caches_take_them(rope):
    (x,) = rows(1)
    weight = torch.rand(16)
    found = torch.compile(lambda a: bt.norm_rotate(a, weight, rope=rope, eps=1e-6), **WHOLE)(x)
    assert torch.equal(found, bt.norm_rotate(x, weight, rope=rope, eps=1e-6))
    both = torch.compile(lambda q, k: bt.norm_rotate(q, weight, k=k, k_weight=weight, rope=rope, eps=1e-6), **WHOLE)
    assert all(torch.equal(y, found) for y in both(x, x.clone()))
    moved, wanted = x.clone(), x.clone()
    torch.compile(lambda k: bt.shift(rope, 7, k), **WHOLE)(moved)
    bt.shift(rope, 7, wanted)
    assert torch.equal(moved, wanted)


def test_another_rope_is_compiled_anew():
    (x,) = rows(1)
    turn = torch.compile(lambda rope: bt.rotate(x, rope=rope), **WHOLE)
    for base in (10_000.0, 500.0, 20.0):
        rope = ROPE.replace(base=base)  # which may get the address of the one before, if nothing holds that
        assert torch.equal(turn(rope), bt.rotate(x, rope=rope))
        del rope


def test_the_module_may_be_made_inside():
    q, k = rows()
    found = torch.compile(lambda a, b: bt.Rope(ROPE)(a, b), **WHOLE)(q, k)
    assert all(torch.equal(a, b) for a, b in zip(found, bt.Rope(ROPE)(q, k), strict=True))
    out = torch.compile(lambda a: bt.attention(a, a, a, bt.Rope(ROPE), mask="causal"), **WHOLE)(q)
    assert torch.equal(out, bt.attention(q, q, q, ROPE, mask="causal"))


@pytest.mark.parametrize(("turn", "name"), [(bt.rotate, "rotate"), (bt.rotate_, "rotate_")])
def test_what_has_no_table_is_refused_in_the_name_of_who_was_called(turn, name):
    with pytest.raises(TypeError, match=rf"\[{name}\] rope: must be a bearing.torch.Rope, or a Rope or RopeTable"):
        turn(*rows(), rope=3)
