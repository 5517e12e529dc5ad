"""Where cosines and sines come from: rows that a table keeps on the device, with the CPU's bits, and fixed point, within one
ulp of float32 at any position."""

from __future__ import annotations

import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch.triton import geometry, recipe
from bearing.torch.triton import rotate as kernels

ULP = 2.0**-23  # of float32, of numbers from 1 on


def cosines(rope, at, device, dtype=torch.float32):
    """cos and sin as the kernel has them: it turns (1, 0)."""
    x = torch.zeros(1, 1, at.shape[-1], rope.spec.head_dim, dtype=dtype)
    x[..., : x.shape[-1] // 2] = 1
    return bt.rotate(x.to(device), rope=rope, positions=at.to(device)).cpu()[0, 0].chunk(2, -1)


def off(found, exact):
    """By how many ulps of float32 at most."""
    ulp = torch.exp2(exact.abs().log2().floor().clamp(min=-126)) * ULP
    return float(((found.double() - exact).abs() / ulp).max())


def expect_within_one_ulp(spec, at, device):
    """Of fixed point at these positions, against the library's cos and sin in double."""
    exact = bearing.cos_sin(spec, at.double() if at.is_floating_point() else at, dtype="float64")
    for found, right in zip(cosines(bt.Rope(spec, angles="fixed_point"), at, device), exact, strict=True):
        assert off(found, torch.as_tensor(right)) <= 1


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_fixed_point_is_within_one_ulp_at_any_position(base, device):
    spec = bearing.Rope(head_dim=64, base=base, pairing="half")
    hard = [0, 1, -1, 2, 3, 7, -(2**31), 2**31, 2**31 - 1, 65_537, 2**24 + 1]
    near = [22, 355, 103_993, 1_068_966_896]  # so many radians are near multiples of π
    at = torch.cat([torch.tensor(hard + near), torch.randint(-(2**31), 2**31, (500,)), torch.arange(500) * 257])
    expect_within_one_ulp(spec, at, device)


@pytest.mark.parametrize("factor", [0.7, 1.0 + 0.1 * math.log(4), 1.0 + 0.1 * math.log(40), 1.999])
def test_fixed_point_with_a_factor_is_rounded_once(factor, device):
    """Within one ulp too: the factor, of which float32 has not all digits, comes before the rounding."""
    spec = bearing.Rope(head_dim=64, pairing="half", attention_factor=factor)
    at = torch.cat([torch.arange(500), torch.randint(-(2**31), 2**31, (1000,))])
    expect_within_one_ulp(spec, at, device)


def test_fixed_point_at_reals(device):
    spec = bearing.Rope(head_dim=16, pairing="half")
    at = torch.cat([torch.randn(12, dtype=torch.float64) * 10.0**e for e in range(-6, 9, 3)])
    for positions in (at, at.float()):
        expect_within_one_ulp(spec, positions, device)


def test_fixed_point_of_frequencies_of_more_than_a_turn_and_of_other_signs(device):
    """Whole turns matter for parts of a token."""
    numbers = geometry._fixed(bearing.resolve(bearing.Rope(head_dim=4, pairing="half", base=100.0)), 1.0)
    assert numbers.dtype is torch.int32 and numbers[:2].tolist() != [0, 0] and numbers[6:8].tolist() == [0, 0]
    rope = bearing.Rope(head_dim=8, pairing="half", base=1e-4)  # its frequencies rise from 1 to 1000
    at = torch.tensor([0.3, -17.6, 1234.5625], dtype=torch.float64)
    expect_within_one_ulp(rope, at, device)


def test_fixed_point_elsewhere(device):
    """The factor, coordinates, float64, which stays exact, and the backward, whose numbers are the same."""
    axes = bearing.RopeAxes.sections([1, 2, 1])
    spec = bearing.Rope(head_dim=8, pairing="interleaved", axes=axes, attention_factor=1.25)
    exact, fixed = (bt.Rope(spec, angles=angles) for angles in ("exact", "fixed_point"))
    x, at = torch.randn(1, 2, 5, 8), torch.randint(0, 9000, (3, 1, 5)).to(device)
    near = {"rtol": 0, "atol": 16 * ULP}  # two products of numbers below 8 with cosines that are off by an ulp
    y = bt.rotate(x.to(device), rope=fixed, positions=at)
    torch.testing.assert_close(y, bt.rotate(x.to(device), rope=exact, positions=at), **near)
    wide = x.double().to(device)
    assert torch.equal(*(bt.rotate(wide, rope=rope, positions=at) for rope in (exact, fixed)))
    half = bt.Rope(bearing.Rope(head_dim=8, pairing="half"), angles="fixed_point")
    leaf = x.to(device, copy=True).requires_grad_()
    bt.rotate(leaf, rope=half, positions=70_000).backward(bt.rotate(x.to(device), rope=half, positions=70_000))
    torch.testing.assert_close(leaf.grad, x.to(device), **near)  # the transpose undoes a rotation
    cache = x.to(device, copy=True)
    bt.shift(half, 1000, cache)
    torch.testing.assert_close(cache, bt.rotate(x.to(device), rope=half, positions=torch.full((5,), 1000)), **near)


@pytest.fixture
def small_runs(monkeypatch):
    """Two tokens of a program, so that few tokens are several programs."""
    from bearing.torch.triton import launch

    monkeypatch.setattr(launch, "NUMBERS", 8)


@pytest.mark.parametrize("angles", ["exact", "as_float32"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_and_what_is_computed_have_the_same_bits(dtype, angles, device, small_runs):
    spec = bearing.Rope(head_dim=8, pairing="half", attention_factor=1.25)
    x = torch.randn(1, 2, 6, 8).to(dtype)
    inside, across, reals = torch.tensor([3, 0, 5, 4, 1, 2]), torch.tensor([3, 0, 5, 6, 9999, -4]), torch.arange(6) / 2
    for at in (0, 1, -2, 5, inside, across, reals, across.int()):
        positions = at.to(device) if isinstance(at, torch.Tensor) else at
        found, computed = (
            bt.rotate(x.to(device), rope=bt.Rope(spec, length, angles=angles), positions=positions) for length in (6, 0)
        )
        table = bearing.RopeTable(spec, 6, angles=angles, dtype="float64" if dtype is torch.float64 else "float32")
        wanted = bearing.rotate_to(table, x, at.double() if at is reals else at)
        assert torch.equal(found.cpu(), wanted) and torch.equal(computed.cpu(), wanted)


def test_rows_that_are_kept_are_looked_up(monkeypatch, device, small_runs):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"), 4)
    zeros = torch.zeros(1, 4, 4, device=device)
    x = torch.randn(1, 1, 4, 8, device=device)
    wanted = bt.rotate(x, rope=rope, positions=torch.tensor([0, 1, 2, 4], device=device))
    monkeypatch.setattr(recipe, "kept_rows", lambda *_: (zeros, zeros))
    kernels._recipe.cache_clear()
    assert not bt.rotate(x, rope=rope).any()
    found = bt.rotate(x, rope=rope, positions=torch.tensor([0, 1, 2, 4], device=device))
    assert not found[:, :, :2].any() and torch.equal(found[:, :, 2:], wanted[:, :, 2:])
    weight = torch.ones(8, device=device)
    assert not bt.norm_rotate(x, weight, rope=rope, eps=1e-6).any()
    cache = torch.ones(1, 1, 4, 8, device=device)
    slots = torch.arange(4, device=device)[None]
    out = bt.rotate_to_cache(x, x, x, cache, cache.clone(), slots, rope=rope, positions=slots)
    assert not out.any() and not cache.any()


def test_what_is_kept_is_no_tensor_of_who_asks_first(device):
    """Neither a mode of tensors without numbers nor inference mode reaches what all later calls read."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    form = bt.Rope(bearing.Rope(head_dim=8, pairing="half", base=777.0), 4).table
    place = torch.empty(0, device=device).device
    with FakeTensorMode(), torch.inference_mode():
        made = [*geometry.geometry(form, place)[6:], *geometry.kept_rows(form, place, False)]
    assert not any(isinstance(n, FakeTensor) or n.is_inference() for n in made)
