"""Calls that autograd alone watches reach the work without the custom op, and are what the op makes of them."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch import ops
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_cases import DIM, HEADS, TIME, qkv

ROPE = bearing.Rope(head_dim=DIM, pairing="half")


class _OfFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class _OfOps(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def rotated(x):
    return bt.rotate(x, rope=ROPE, positions=3)


def attended(q, k, v, sinks, bias):
    return bt.attention(q, k, v, bt.Fixed(bearing.DenseBias(bias)), mask="causal", sinks=sinks, return_lse=True)


def arguments():
    q, k, v = (x.detach().requires_grad_() for x in qkv())
    # The keys want no gradient, so that the gradients' places are not those of the arguments.
    sinks = torch.linspace(-1, 1, HEADS, dtype=torch.float64, requires_grad=True)
    return q, k.requires_grad_(False), v, sinks, torch.randn(HEADS, TIME, TIME, dtype=torch.float64)


def is_eager(tensor):
    return type(tensor.grad_fn).__name__ == "_EagerBackward"


def test_gradients_alone_need_no_custom_op():
    q, *_ = arguments()
    assert is_eager(rotated(q))
    out, lse = attended(*arguments())
    assert is_eager(out) and is_eager(lse)


@pytest.mark.parametrize("mode", [_OfFunctions, _OfOps])
def test_a_mode_gets_the_custom_op(mode):
    q, *_ = arguments()
    with mode() as watcher:
        assert not is_eager(rotated(q))
    if mode is _OfOps:
        assert "bearing.rotate.default" in watcher.names


def test_a_subclass_gets_the_custom_op():
    class Own(torch.Tensor):
        pass

    q, *_ = arguments()
    assert not is_eager(rotated(q.as_subclass(Own)))


def test_a_negated_view_gets_the_custom_op():
    x = torch.randn(1, HEADS, TIME, DIM, dtype=torch.complex128, requires_grad=True)
    negated = x.conj().imag
    assert negated.is_neg() and not is_eager(rotated(negated))
    torch.testing.assert_close(rotated(negated), -rotated(x.imag), rtol=0, atol=0)


def test_numbers_and_gradients_are_the_custom_ops():
    given = arguments()
    watched = [x for x in given if x.requires_grad]
    found = []
    for through_op in (False, True):
        if through_op:
            with _OfFunctions():
                out, lse = attended(*given)
        else:
            out, lse = attended(*given)
        found.append([out, lse, *torch.autograd.grad((out.square().sum() + lse.sum()), watched)])
        assert is_eager(out) is not through_op
    for eager, op in zip(*found, strict=True):
        assert torch.equal(eager, op)


def test_an_output_that_nobody_used_has_no_gradient():
    given = arguments()
    out, lse = attended(*given)
    (from_lse,) = torch.autograd.grad(lse.sum(), given[3], retain_graph=True)
    assert torch.count_nonzero(from_lse)  # of each head's sink
    (of_v,) = torch.autograd.grad(lse.sum(), given[2], retain_graph=True)
    assert not torch.count_nonzero(of_v)


def test_hooks_see_what_is_kept_for_backward():
    given = arguments()
    kept = []

    def keep(tensor):
        kept.append(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out, lse = attended(*given)
    assert {x.data_ptr() for x in (*given[:4], out, lse)} <= set(kept)


def test_what_changed_in_place_is_refused_by_backward():
    q, k, v, sinks, bias = arguments()
    out, _ = attended(q, k, v, sinks, bias)
    k.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_second_derivatives_are_refused_by_name():
    q, *rest = arguments()
    out, _ = attended(q, *rest)
    (d_q,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"^\[attention\] has no second derivatives"):
        d_q.sum().backward()


def test_rotations_are_differentiated_twice():
    x = arguments()[0]
    (d_x,) = torch.autograd.grad(rotated(x).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(d_x.sum(), x)
    assert is_eager(d_x) and torch.count_nonzero(second)


def test_the_ops_own_call_takes_what_nobody_watches():
    q = arguments()[0].detach()
    assert torch.equal(ops.rotate([q], None, 3, bt.Rope(ROPE, 64).table, "bhtd", False, None, None)[0], rotated(q))
