"""Calls that autograd alone watches reach the work without the custom op, and are what the op makes of them."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch import ops
from interpreters import run
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_cases import DIM, HEADS, TIME, qkv

ROPE = bearing.Rope(head_dim=DIM, pairing="half")
ALIBI = bt.Fixed(bearing.AlibiBias(bearing.Alibi.published(HEADS)))


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


def test_a_module_is_asked_for_its_encoding_once():
    class Counted(bt.T5Bias):
        asked = 0

        def encoding(self):
            self.asked += 1
            return super().encoding()

    q, k, v = (x.detach() for x in qkv())
    for learns in (False, True):  # as numbers alone, and with gradients
        bias = Counted(bearing.T5(direction="causal"), HEADS).double().requires_grad_(learns)
        bt.attention(q, k, v, bias, mask="causal")
        assert bias.asked == 1


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


def ops_of(call, *args):
    """Names of the library's ops in the graph of a call that is compiled."""
    names = []

    def look(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes if "bearing" in str(node.target))
        return graph.forward

    torch._dynamo.reset()
    out = torch.compile(call, backend=look, fullgraph=True)(*args)
    return names, out


def both(q, k, v):
    return bt.attention(rotated(q), rotated(k), v, ALIBI, mask="causal")


def test_compiled_code_without_gradients_has_ops_that_do_not_ask_for_them():
    q, k, v = (x.detach() for x in qkv())
    with torch.no_grad():
        names, out = ops_of(both, q, k, v)
        assert set(names) == {"bearing.rotate_no_grad.default", "bearing.attention_no_grad.default"}
        assert torch.equal(out, both(q, k, v))
        nothing, out = ops_of(lambda q, k, v: bt.attention(q, k, v, mask="none"), q, k, v)
        assert nothing == ["bearing.attention_no_grad.default"]
        assert torch.equal(out, bt.attention(q, k, v, mask="none"))
    assert not any("no_grad" in name for name in ops_of(both, q.requires_grad_(), k, v)[0])


def test_compiled_code_is_compiled_again_for_gradients():
    q, k, v = (x.detach() for x in qkv())
    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(q, k, v), both(q, k, v))
    q.requires_grad_()
    for found, wanted in zip(*(torch.autograd.grad(call(q, k, v).sum(), q) for call in (compiled, both)), strict=True):
        assert torch.equal(found, wanted)


def test_what_is_exported_without_gradients_has_them_later():
    class Rotated(torch.nn.Module):
        def forward(self, x):
            return rotated(x)

    q, *_ = arguments()
    with torch.no_grad():
        program = torch.export.export(Rotated(), (q.detach(),), strict=True).module()
    wanted = torch.autograd.grad(rotated(q).square().sum(), q)
    assert torch.equal(torch.autograd.grad(program(q).square().sum(), q)[0], wanted[0])


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_plain_tensors_are_turned_in_place_as_beside(dtype, layout, monkeypatch):
    whole = torch.randn(2, TIME, 3, HEADS, DIM).to(dtype)
    q, k, _ = whole.unbind(2) if layout == "bthd" else whole.permute(2, 0, 3, 1, 4)
    at = torch.tensor([[3, 9, 4, 2, 7, 5, 1, 0, 8][:TIME], [11, 12, 13, 14, 15, 16, 17, 18, 19][:TIME]])
    wanted = bt.rotate(q, k, rope=ROPE, positions=at, layout=layout)
    versions = [x._version for x in (q, k)]
    monkeypatch.setattr("bearing.torch.in_place._check", None)  # of the usual way
    found = bt.rotate_(q, k, rope=ROPE, positions=at, layout=layout)
    assert found[0] is q and found[1] is k
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert all(x._version > before for x, before in zip(found, versions, strict=True))
    alone = bt.rotate(q, rope=ROPE, layout=layout)
    assert torch.equal(bt.rotate_(q, rope=ROPE, layout=layout), alone)


def test_tensors_that_are_not_turned_in_place_keep_their_numbers_and_versions():
    q, k = torch.randn(1, HEADS, TIME, DIM), torch.randn(1, 1, TIME, DIM)
    own, versions = (q.clone(), k.clone()), (q._version, k._version)
    for xs, more, error in (
        ((q, q), {}, bearing.ShapeError),
        ((q, k[..., :-2]), {}, bearing.ShapeError),
        ((q, k[0]), {}, bearing.ShapeError),
        ((q, k[:, :, 1:]), {}, bearing.ShapeError),
        ((q, k.expand(1, HEADS, TIME, DIM)), {}, bearing.ShapeError),
        ((q, k), {"positions": torch.arange(TIME + 1)}, bearing.ShapeError),
        ((q, k), {"positions": 2**31}, bearing.RangeError),
        ((q, k), {"layout": "thd"}, ValueError),
        ((q, k.int()), {}, TypeError),
    ):
        with pytest.raises(error, match=r"^\[rotate_\] "):
            bt.rotate_(*xs, rope=ROPE, **more)
    assert torch.equal(q, own[0]) and torch.equal(k, own[1])
    assert (q._version, k._version) == versions
    mixed = (q, k.double())
    wanted = bt.rotate(*mixed, rope=ROPE)
    assert all(torch.equal(x, y) for x, y in zip(bt.rotate_(*mixed, rope=ROPE), wanted, strict=True))


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


ANEW = """
import sys
import bearing, torch

rope, x = bearing.Rope(head_dim=8, pairing="half"), torch.randn(1, 1, 2, 8)
for _ in range(2):
    import bearing.torch as bt

    with torch.no_grad():
        turned = torch.compile(lambda x: bt.rotate(x, rope=rope), backend="aot_eager", fullgraph=True)(x)
        assert torch.equal(turned, bt.rotate(x, rope=rope))
        with torch.profiler.profile():
            assert torch.equal(turned, bt.rotate_(x.clone(), rope=rope))
    for name in [name for name in sys.modules if name.startswith("bearing.torch")]:
        del sys.modules[name]
"""


def test_the_package_may_be_imported_anew():
    found = run(ANEW)
    assert found.returncode == 0, found.stderr
