"""Cached keys that bearing.torch moves in place, on the CPU."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch

ROPE = bearing.Rope(head_dim=8, pairing="half")
XPOS = bearing.Xpos(rope=ROPE)


def keys() -> torch.Tensor:
    return torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(1))


def test_the_keys_that_were_moved_are_returned():
    k = keys()
    assert bt.shift(ROPE, 2, k) is k
    assert bt.rebase(ROPE, 2, ROPE, 0, k) is k
    torch.testing.assert_close(k, keys())


@pytest.mark.parametrize("one", [XPOS, bt.Xpos(XPOS)], ids=["spec", "module"])
def test_keys_of_xpos_move(one):
    k, wanted = keys(), keys().numpy()
    assert bt.rebase(one, 3, XPOS, 40, k) is k
    bearing.rebase(XPOS, 3, 40, wanted)
    assert np.array_equal(k.numpy(), wanted)
    compiled = torch.compile(lambda k: bt.rebase(one, 40, one, 7, k), fullgraph=True, backend="aot_eager")
    compiled(k)
    bearing.rebase(XPOS, 40, 7, wanted)
    assert np.array_equal(k.numpy(), wanted)


def test_keys_of_tables_of_xpos_move():
    """With the frequencies of the length that the table serves; float32's own angles are refused."""
    xpos = XPOS.replace(rope=ROPE.replace(scaling=bearing.DynamicNtkScaling(factor=4.0, trained_length=8)))
    k, wanted = keys(), keys()
    one = bt.Fixed(bearing.XposRows(bearing.XposTable(xpos, 16, seq_len=128)))
    bt.rebase(one, 3, one, 40, k)
    module = bt.Xpos(xpos, seq_len=128)
    bt.rebase(module, 3, module, 40, wanted)
    assert torch.equal(k, wanted)
    one = bt.Fixed(bearing.XposRows(bearing.XposTable(XPOS, 16, angles="as_float32")))
    with pytest.raises(
        bearing.RangeError, match=r"^\[rebase\] from_, to: must have exact angles for xPos, got 'as_float32'$"
    ):
        bt.rebase(one, 3, one, 40, k)


@pytest.mark.parametrize("to", [XPOS.replace(rope=ROPE.replace(rotary_dim=8)), XPOS.replace(centre=-0.0)])
def test_keys_of_xpos_move_with_an_equal_spec(to):
    k, wanted = keys(), keys()
    bt.rebase(XPOS, 3, to, 40, k)
    bt.rebase(XPOS, 3, XPOS, 40, wanted)
    assert torch.equal(k, wanted)
    torch.compile(lambda k: bt.rebase(XPOS, 40, to, 7, k), fullgraph=True, backend="aot_eager")(k)
    assert torch.equal(k, bt.rebase(XPOS, 40, XPOS, 7, wanted))


def test_keys_of_xpos_move_in_a_paged_cache():
    cache = torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(2))
    slots = torch.tensor([[6, 1, -1], [0, 3, 5]])
    wanted = cache.clone()
    bt.rebase(XPOS, 3, XPOS, 9, cache, slots=slots)
    for row in (6, 1, 0, 3, 5):
        at = int((slots == row).nonzero()[0, 1])
        one = wanted[row // 4, :, row % 4].clone()[None, :, None]
        bt.rebase(XPOS, 3 + at, XPOS, 9 + at, one)
        wanted[row // 4, :, row % 4] = one[0, :, 0]
    assert torch.equal(cache, wanted)


@pytest.mark.parametrize(("from_", "to"), [(XPOS, ROPE), (ROPE, XPOS), (XPOS, XPOS.replace(centre=3))])
def test_keys_of_xpos_stay_keys_of_it(from_, to):
    k = keys()
    with pytest.raises(TypeError, match=r"\[rebase\] to: must be what from_ is if one of them is xPos"):
        bt.rebase(from_, 0, to, 3, k)
    assert torch.equal(k, keys())
