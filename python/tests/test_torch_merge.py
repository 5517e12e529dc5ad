"""bearing.torch.merge: attention over slices of the keys, put together, is that over all of them."""

from __future__ import annotations

import math

import bearing
import bearing.torch as bt
import pytest
import torch
from torch_cases import DIM, HEADS, TIME, qkv, tensor


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(9)
    yield
    torch.set_num_threads(threads)


def parts(dtype=torch.float64):
    """Two results with their logarithms; some rows of either have seen no key."""
    arithmetic = torch.float64 if dtype is torch.float64 else torch.float32
    outs = [torch.randn(2, HEADS, TIME, DIM).to(dtype) for _ in range(2)]
    sums = [torch.randn(2, HEADS, TIME, dtype=arithmetic) * 2 for _ in range(2)]
    sums[0][0, 0, :2] = sums[1][0, 0, 1:3] = -math.inf
    return tuple(x.requires_grad_() for pair in zip(outs, sums, strict=True) for x in pair)


def formula(part, part_lse, out, lse):
    sums = torch.logaddexp(part_lse, lse)
    return torch.exp(part_lse - sums)[..., None] * part + torch.exp(lse - sums)[..., None] * out, sums


def halves(q, k, v, bias):
    """Attention over the first keys, and over the others."""
    cut, results = TIME // 2, []
    for first, keys in ((0, slice(None, cut)), (cut, slice(cut, None))):
        results += bt.attention(
            q, k[:, :, keys], v[:, :, keys], bias, mask="causal", k_positions=first, return_lse=True
        )
    return results


def test_halves_put_together_are_the_whole_with_its_gradients():
    (q, k, v), bias = qkv(), bt.Alibi(HEADS).double()
    found = bt.merge(*halves(q, k, v, bias))
    wanted = bt.attention(q, k, v, bias, mask="causal", return_lse=True)
    weights = [torch.randn_like(x) for x in wanted]
    # Sums of a few numbers of the order of 1, in another order: some units of 2^-53.
    torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-13)
    gradients = (torch.autograd.grad(results, (q, k, v), weights) for results in (found, wanted))
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_values_and_gradients_are_those_of_the_formula():
    # No row without keys: there the formula has no number.
    inputs = [tensor(2, HEADS, TIME, DIM), tensor(2, HEADS, TIME), tensor(2, HEADS, TIME, DIM), tensor(2, HEADS, TIME)]
    found, wanted = bt.merge(*inputs), formula(*inputs)
    weights = [torch.randn_like(x) for x in wanted]
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=1e-14)
    gradients = (torch.autograd.grad(results, inputs, weights) for results in (found, wanted))
    torch.testing.assert_close(*gradients, rtol=1e-13, atol=1e-13)
    assert torch.autograd.gradcheck(bt.merge, inputs)
    assert torch.autograd.gradgradcheck(bt.merge, inputs, fast_mode=True)


def test_each_result_alone_has_its_gradients():
    inputs = parts()
    for chosen in (0, 1):
        seen = torch.isfinite(inputs[1]) & torch.isfinite(inputs[3])
        loss = [results[chosen][seen].sum() for results in (bt.merge(*inputs), formula(*inputs))]
        found, wanted = (torch.autograd.grad(one, inputs, materialize_grads=True) for one in loss)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one[seen], other[seen], rtol=1e-13, atol=1e-13)
            assert not one[~seen].any()


def test_rows_that_have_seen_no_key_leave_the_other_side_as_it_is():
    part, part_lse, out, lse = (x.detach().clone() for x in parts())
    part[part_lse == -math.inf] = math.nan  # whatever lies there
    inputs = [x.requires_grad_() for x in (part, part_lse, out, lse)]
    merged, sums = bt.merge(*inputs)
    ours, theirs = ((lse == -math.inf) & (part_lse > -math.inf), (part_lse == -math.inf) & (lse > -math.inf))
    assert torch.equal(merged[ours], part[ours]) and torch.equal(sums[ours], part_lse[ours])
    assert torch.equal(merged[theirs], out[theirs]) and torch.equal(sums[theirs], lse[theirs])
    weights = torch.randn_like(merged)
    d_part, d_part_lse, d_out, d_lse = torch.autograd.grad((merged, sums), inputs, (weights, torch.ones_like(sums)))
    assert torch.equal(d_part[ours], weights[ours]) and torch.equal(d_out[theirs], weights[theirs])
    assert (d_part_lse[ours] == 1).all() and (d_lse[theirs] == 1).all()
    assert not d_part[theirs].any() and not d_out[ours].any()
    assert not d_part_lse[theirs].any() and not d_lse[ours].any()
    neither = (lse == -math.inf) & (part_lse == -math.inf)
    assert neither.any() and (sums[neither] == -math.inf).all()
    assert not any(d[neither].any() for d in (d_part, d_part_lse, d_out, d_lse))


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_numbers_are_those_of_bearing_itself_and_nothing_given_is_written(axes):
    given = [x.detach()[(0,) * (4 - axes)] for x in parts()]
    wanted = [given[2].clone(), given[3].clone()]
    bearing.merge(given[0], given[1], *wanted)
    before = [x.clone() for x in given]
    assert all(torch.equal(a, b) for a, b in zip(bt.merge(*given), wanted, strict=True))
    watched = [x.clone().requires_grad_() for x in given]
    assert all(torch.equal(a, b) for a, b in zip(bt.merge(*watched), wanted, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


def test_strided_tensors_give_contiguous_results():
    part, part_lse, out, lse = (x.detach() for x in parts())
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (part, part_lse, out, lse)]
    found = bt.merge(*turned)
    assert all(x.is_contiguous() for x in found)
    assert all(torch.equal(a, b) for a, b in zip(found, bt.merge(part, part_lse, out, lse), strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_types_keep_their_type(dtype):
    inputs = parts(dtype)
    merged, sums = bt.merge(*inputs)
    assert merged.dtype is dtype and sums.dtype is torch.float32
    exact = [x.detach().double().requires_grad_() for x in inputs]
    wide, wide_sums = bt.merge(*exact)
    unit = torch.finfo(dtype).eps
    # One rounding of a number below 8; sums and shares are good to some units of 2^-24.
    torch.testing.assert_close(merged.double(), wide, rtol=unit / 2, atol=2**-20)
    torch.testing.assert_close(sums.double(), wide_sums, rtol=2**-22, atol=2**-22)
    found = torch.autograd.grad((merged.float() ** 2).sum() + sums[sums > -math.inf].sum(), inputs)
    loss = (wide**2).sum() + wide_sums[wide_sums > -math.inf].sum()
    for one, other, given in zip(found, torch.autograd.grad(loss, exact), inputs, strict=True):
        assert one.dtype is given.dtype
        # From out as it was rounded, and its gradient: products of DIM numbers of the order of 4.
        torch.testing.assert_close(one.double(), other, rtol=0, atol=64 * unit)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_op_passes_opcheck(dtype):
    torch.library.opcheck(torch.ops.bearing.merge.default, parts(dtype))


def test_torch_compile_takes_it_whole():
    (q, k, v), bias = qkv(), bt.Alibi(HEADS).double()

    def step(q, k, v):
        merged, sums = bt.merge(*halves(q, k, v, bias))
        return merged * 2, sums

    results = []
    for call in (step, torch.compile(step, fullgraph=True)):
        outs = call(q, k, v)
        results.append((*outs, *torch.autograd.grad(sum(x.square().sum() for x in outs), (q, k, v))))
    # The same kernels; what is compiled around them may sum in another order.
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("place", "wrong", "error", "text"),
    [
        (0, torch.zeros(2, HEADS, TIME, DIM + 1).double(), bearing.ShapeError, "part: must be of the shape of out"),
        (0, torch.zeros(2, HEADS, TIME, DIM), TypeError, "part: must be float64, as out is"),
        (1, torch.zeros(HEADS, TIME).double(), bearing.ShapeError, r"part_lse: must be \[batch, heads, q_len\]"),
        (1, torch.zeros(2, HEADS, TIME), TypeError, "part_lse: must be float64"),
        (3, torch.zeros(2, HEADS, TIME, 1).double(), bearing.ShapeError, r"lse: must be \[batch, heads, q_len\]"),
        (2, torch.zeros(2, HEADS, TIME, DIM).int(), TypeError, "out: must be"),
    ],
)
def test_wrong_arguments_are_named(place, wrong, error, text):
    given = list(parts())
    given[place] = wrong
    with pytest.raises(error, match=rf"\[merge\] {text}"):
        bt.merge(*given)
