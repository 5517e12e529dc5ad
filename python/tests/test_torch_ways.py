"""Every way in which PyTorch looks at a call, for every function and module of bearing.torch: right, which is what the
eager call gives on other numbers than those that were traced, or an error of bearing's own that says what to do."""

from __future__ import annotations

import copy
import os
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch import ops
from bearing.torch.base import Input
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._vmap_internals import _vmap
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch_cases import DIM, HEADS, TIME, cases, qkv, shaken, tensor

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, of what it calls old

ROPE = bearing.Rope(head_dim=DIM, pairing="half")


def given_table() -> bearing.RopeTable:
    numbers = (torch.rand(TIME, DIM // 2, dtype=torch.float64) for _ in range(2))
    return bearing.RopeTable.from_cos_sin(ROPE, *numbers)


GIVEN = given_table()
ALIBI = bearing.AlibiBias(bearing.Alibi.published(HEADS))
T5 = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="causal"), HEADS).encoding().form
ROTARY = bt.Rope(ROPE)
LEARNED = bt.LearnedPositions(bearing.Learned(length=9, dim=DIM)).encoding().form
POPE = bt.Pope(bearing.Pope(head_dim=DIM), HEADS).encoding().form
SHAW = bt.Shaw(bearing.Shaw(clip=3), DIM).encoding().form
MULTI = shaken(bt.MultiHeadAttention(DIM, 2, [bt.Rope(bearing.Rope(head_dim=4, pairing="half"))], mask="causal"))


CASES = cases()


def layer(x: Tensor) -> Tensor:
    return MULTI(x)


def of(form: str, *tensors: Tensor) -> bt.Encoding:
    return bt.Encoding(form, tensors)


def heads(*more: int) -> Tensor:
    return tensor(2, HEADS, TIME, *more)


def modified(q: Tensor, k: Tensor) -> Tensor:
    b, h, i, j = torch.meshgrid(*map(torch.arange, (2, HEADS, TIME, TIME)), indexing="ij")
    return bt.score_mod([ALIBI], q=q, k=k)(q @ k.transpose(2, 3), b, h, i, j)


# A call, and tensors to call it with. A new function is one line more.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]]]] = {
    "rotate": (lambda q, k: bt.rotate(q, k, rope=ROTARY), lambda: (heads(DIM), heads(DIM))),
    "rotate, spec": (lambda q: bt.rotate(q, rope=ROPE), lambda: (heads(DIM),)),
    "rotate, at positions": (
        lambda q: bt.rotate(q, rope=ROTARY, positions=torch.arange(TIME) * 3, layout="bhtd"),
        lambda: (heads(DIM),),
    ),
    "rotate, given table": (lambda q: bt.rotate(q, rope=GIVEN), lambda: (heads(DIM),)),
    "rotate_": (lambda q, k: bt.rotate_(q * 1, k * 1, rope=ROTARY, positions=2), lambda: (heads(DIM), heads(DIM))),
    "attention": (
        lambda q, k, v, table, sinks: bt.attention(
            q, k, v, of(T5, table), mask="causal", window=(4, -1), soft_cap=3.0, sinks=sinks, return_lse=True
        ),
        lambda: (*qkv(), tensor(8, HEADS), tensor(HEADS)),
    ),
    "attention, rows": (
        lambda q, k, v: bt.attention(q, k, v, [bearing.RotaryRows(GIVEN), ALIBI], mask="causal"),
        qkv,
    ),
    "linear_attention": (
        lambda q, k, v: bt.linear_attention(q, k, v, ROTARY, mask="causal", epsilon=1.0, return_state=True)[0],
        qkv,
    ),
    "merge": (bt.merge, lambda: (heads(DIM), heads(), heads(DIM), heads())),
    "turn": (
        lambda x, offsets: bt.turn(of(POPE, offsets), x, side="key"),
        lambda: (heads(DIM), -torch.rand(HEADS, DIM, dtype=torch.float64).requires_grad_().abs()),
    ),
    "add": (lambda x, table: bt.add(of(LEARNED, table), x, 2), lambda: (tensor(2, TIME, DIM), tensor(9, DIM))),
    "add_": (
        lambda x, table: bt.add_(of(LEARNED, table), x * 1, 2),
        lambda: (tensor(2, TIME, DIM), tensor(9, DIM)),
    ),
    "bias_matrix": (
        lambda table: bt.bias_matrix(of(T5, table), heads=HEADS, q_len=4, k_len=7, dtype=torch.float64),
        lambda: (tensor(8, HEADS),),
    ),
    "add_scores": (
        lambda scores, q, k, key, value: bt.add_scores(of(SHAW, key, value), scores, q=q, k=k, scale=0.5),
        lambda: (heads(TIME), heads(DIM), heads(DIM), tensor(7, DIM), tensor(7, DIM)),
    ),
    "add_values": (
        lambda p, out, key, value: bt.add_values(of(SHAW, key, value), p, out),
        lambda: (heads(TIME), heads(DIM), tensor(7, DIM), tensor(7, DIM)),
    ),
    "score_mod": (modified, lambda: qkv()[:2]),
    "MultiHeadAttention": (layer, lambda: (tensor(2, TIME, DIM),)),
    **{f"module {case.name}": (case.call, lambda case=case: case.inputs) for case in CASES},
}
# Modules that calls above read their parameters from.
MODULES = {layer: MULTI} | {case.call: case.module for case in CASES}
PURE = {"score_mod"}  # PyTorch's own operations alone
# bearing's own objects, which torch.compile cannot look into: its graph breaks there.
OWN = {"rotate, spec", "rotate, given table", "attention, rows", "score_mod"}
LINEAR = {"rotate", "rotate_", "rotate, spec", "rotate, at positions", "rotate, given table", "module Rope"}
# What is refused, by an error of ours: everything but what is named here.
FORWARD = LINEAR | PURE
TWICE = FORWARD | {"merge", *(f"module {case.name}" for case in CASES if isinstance(case.module, Input))}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(17)
    torch._dynamo.reset()
    yield
    torch.set_num_threads(threads)


def flat(found: Any) -> list[Tensor]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def summed(call: Callable[..., Any]) -> Callable[..., Tensor]:
    """A number that depends on every part of what is found."""
    return lambda *xs: sum((y.cos() * (1 + i)).sum() for i, y in enumerate(flat(call(*xs))))


def numbers(make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(x.detach().clone() for x in make())


def moved(xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Other numbers of the same kind."""
    return tuple(x.flip(0) * 0.9 for x in xs)


def same(found: Any, expected: Any) -> None:
    """The same kernels in float64, whose sums PyTorch may order otherwise."""
    for a, b in zip(flat(found), flat(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def gradients(call: Callable[..., Any], xs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in xs]
    found = torch.autograd.grad(summed(call)(*leaves), leaves, allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(xs, found, strict=True))


class Module(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call
        self.inner = MODULES.get(call)

    def forward(self, *xs: Tensor) -> Any:
        return self.call(*xs)


# Ways: a function of a call and its tensors that asserts.


def without_gradients(call, xs):
    expected = [y.detach() for y in flat(call(*(x.clone().requires_grad_() for x in xs)))]
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            same(call(*xs), expected)


def traced(call, xs):
    for wanted in (False, True):
        given = tuple(x.clone().requires_grad_(wanted) for x in moved(xs))
        for mode in (torch.no_grad(), torch.enable_grad()):
            with mode:
                graph = torch.jit.trace(Module(call), given, check_trace=False)
                same(graph(*xs), call(*xs))


def made_by_fx(call, xs):
    with torch.no_grad():
        same(make_fx(call)(*moved(xs))(*xs), call(*xs))


def compiled(call, xs):
    own = any(call is CALLS[name][0] for name in OWN)
    graph = torch.compile(call, fullgraph=not own, backend="aot_eager")
    graph(*moved(xs))
    same(graph(*xs), call(*xs))
    same(gradients(graph, xs), gradients(call, xs))


def exported(call, xs):
    graph = torch.export.export(Module(call), moved(xs)).module()
    same(graph(*xs), call(*xs))


def faked(call, xs):
    expected = flat(call(*xs))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = flat(call(*(mode.from_tensor(x) for x in xs)))
    assert [(y.shape, y.dtype) for y in found] == [(y.shape, y.dtype) for y in expected]


def by_functional_gradients(call, xs):
    found = torch.func.grad(summed(call), tuple(range(len(xs))))(*xs)
    same(found, gradients(call, xs))
    value, pull = torch.func.vjp(summed(call), *xs)
    same(pull(torch.ones_like(value)), found)


def mapped(call, xs):
    several = tuple(torch.stack([x, y], 1) for x, y in zip(xs, moved(xs), strict=True))
    expected = [torch.stack(pair) for pair in zip(flat(call(*xs)), flat(call(*moved(xs))), strict=True)]
    same(torch.func.vmap(call, in_dims=1)(*several), expected)


def gradients_mapped(call, xs):
    """Gradients of each of several: what per-sample gradients are."""
    where = tuple(range(len(xs)))
    several = tuple(torch.stack([x, y]) for x, y in zip(xs, moved(xs), strict=True))
    expected = [torch.stack(pair) for pair in zip(gradients(call, xs), gradients(call, moved(xs)), strict=True)]
    same(torch.func.vmap(torch.func.grad(summed(call), where))(*several), expected)
    # And the other way round: gradients through what is mapped.
    once = torch.func.grad(lambda *all_of_them: summed(torch.func.vmap(call))(*all_of_them), where)(*several)
    same(once, expected)


def gradients_in_batches(call, xs):
    """Of several directions at once, as jacobian(…, vectorize=True) and gradcheck(…, check_batched_grad=True) ask for them."""
    leaves = [x.clone().requires_grad_() for x in xs]
    out = flat(call(*leaves))
    along = [torch.randn(3, *y.shape, dtype=y.dtype) for y in out]
    ask = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    found = torch.autograd.grad(out, leaves, along, is_grads_batched=True, **ask)
    expected = [torch.autograd.grad(out, leaves, [a[i] for a in along], **ask) for i in range(3)]
    same(found, [torch.stack(column) for column in zip(*expected, strict=True)])


def functionalized(call, xs):
    same(torch.func.functionalize(call)(*xs), call(*xs))


def tangents(call, xs, along):
    return torch.func.jvp(call, xs, along)[1]


def duals(call, xs, along):
    with forward_ad.dual_level():
        found = flat(call(*(forward_ad.make_dual(x, t) for x, t in zip(xs, along, strict=True))))
        return [forward_ad.unpack_dual(y).tangent for y in found]


def forward(call, xs, way):
    along, h = tuple(torch.randn_like(x) for x in xs), 1e-5
    found = flat(way(call, xs, along))
    ends = [flat(call(*(x + s * h * t for x, t in zip(xs, along, strict=True)))) for s in (1, -1)]
    for one, up, down in zip(found, *ends, strict=True):
        torch.testing.assert_close(one, (up - down) / (2 * h), rtol=1e-6, atol=1e-6)  # of third derivatives: h^2


def twice(call, xs):
    leaves = [x.clone().requires_grad_() for x in xs]
    once = torch.autograd.grad(summed(call)(*leaves), leaves, create_graph=True)
    found = torch.autograd.grad(sum(g.square().sum() for g in once), leaves)
    again = torch.func.grad(
        lambda *ys: sum(g.square().sum() for g in flat(torch.func.grad(summed(call), tuple(range(len(xs))))(*ys))),
        tuple(range(len(xs))),
    )(*xs)
    same(found, again)
    assert any(g.any() for g in found)


def one_by_one(call, xs):
    """Gradients of one tensor while the others want none."""
    expected = gradients(call, xs)
    for i in range(len(xs)):
        given = [x.clone().requires_grad_(i == j) for j, x in enumerate(xs)]
        out = summed(call)(*given)
        found = torch.autograd.grad(out, given[i], allow_unused=True)[0] if out.requires_grad else None
        same(torch.zeros_like(xs[i]) if found is None else found, expected[i])


def autocast(call, xs):
    """Casts what is not float64, as PyTorch's own attention: never what is."""
    expected = call(*xs)
    with torch.autocast("cpu", torch.bfloat16):
        found = call(*xs)
    if all(y.dtype is torch.float64 for y in flat(found)):
        same(found, expected)
    else:  # layers of PyTorch's own around it are cast
        for a, b in zip(flat(found), flat(expected), strict=True):
            torch.testing.assert_close(a.double(), b.double(), rtol=0.1, atol=0.1)


WAYS = {
    "without gradients": without_gradients,
    "jit.trace": traced,
    "make_fx": made_by_fx,
    "compile": compiled,
    "export": exported,
    "FakeTensorMode": faked,
    "func.grad and vjp": by_functional_gradients,
    "vmap": mapped,
    "vmap and grad": gradients_mapped,
    "gradients in batches": gradients_in_batches,
    "functionalize": functionalized,
    "requires_grad one by one": one_by_one,
    "autocast": autocast,
}


# What finds the same faults of a module's Python: how it is traced, and how it is transformed.
ALIKE = (
    ["jit.trace", "make_fx", "compile", "export", "FakeTensorMode"],
    ["func.grad and vjp", "vmap", "vmap and grad", "gradients in batches", "functionalize"],
)


def looked_at():
    """Functions in every way. A module calls them, so of the ways that are alike it has one or two, in turns;
    BEARING_EVERY_WAY in the environment asks for all."""
    modules = [name for name in CALLS if name.startswith("module ")]
    for name in CALLS:
        left_out = set()
        if name in modules and "BEARING_EVERY_WAY" not in os.environ:
            turn = modules.index(name)
            traced, transformed = ALIKE
            left_out |= {*traced} - {traced[turn % 5], traced[(turn + 2) % 5]}
            left_out |= {*transformed} - {transformed[turn % 5]}
        yield from ((name, way) for way in WAYS if way not in left_out)


@pytest.mark.parametrize(("name", "way"), [*looked_at()])
def test_a_call_is_what_it_is_however_pytorch_looks_at_it(name, way):
    call, make = CALLS[name]
    WAYS[way](call, numbers(make))


@pytest.mark.parametrize("way", [tangents, duals])
@pytest.mark.parametrize("name", CALLS)
def test_forward_mode_derivatives_are_right_or_refused(name, way):
    call, make = CALLS[name]
    if name in FORWARD:
        forward(call, numbers(make), way)
        return
    with pytest.raises(RuntimeError, match=r"^\[\w+\] has no forward-mode derivatives .*: take reverse mode"):
        forward(call, numbers(make), way)


def mapped_tangents(call, xs, along):
    """vmap around jvp: of several calls, each with its own direction."""
    return torch.func.vmap(lambda ys, ts: torch.func.jvp(call, ys, ts)[1])(xs, along)


def tangents_of_mapped(call, xs, along):
    """The other way round."""
    return torch.func.jvp(torch.func.vmap(call), xs, along)[1]


def tangents_in_batches(call, xs, along):
    """Of one call in several directions, as jacfwd asks for them."""
    once = tuple(x[0] for x in xs)
    return torch.func.vmap(lambda ts: torch.func.jvp(call, once, ts)[1])(along)


@pytest.mark.parametrize("way", [mapped_tangents, tangents_of_mapped, tangents_in_batches])
@pytest.mark.parametrize("name", CALLS)
def test_forward_mode_derivatives_in_batches_are_right_or_refused(name, way):
    call, make = CALLS[name]
    xs = numbers(make)
    several = tuple(torch.stack([x, y]) for x, y in zip(xs, moved(xs), strict=True))
    along = tuple(torch.randn_like(x) for x in several)
    if name not in FORWARD:
        with pytest.raises(RuntimeError, match=r"^\[\w+\] has no forward-mode derivatives .*: take reverse mode"):
            way(call, several, along)
        return
    at = (0, 0) if way is tangents_in_batches else (0, 1)
    each = [flat(tangents(call, tuple(x[i] for x in several), tuple(t[n] for t in along))) for n, i in enumerate(at)]
    same(way(call, several, along), [torch.stack(column) for column in zip(*each, strict=True)])


def test_jacobians_and_hessians_by_forward_mode_are_those_of_reverse_mode():
    x = torch.randn(1, 2, 3, DIM, dtype=torch.float64)

    def turned(y):
        return bt.rotate(y, rope=ROTARY, positions=5)

    def number(y):
        return turned(y).sin().sum()

    same(torch.func.jacfwd(turned)(x), torch.func.jacrev(turned)(x))
    same(torch.func.hessian(number)(x), torch.func.jacrev(torch.func.jacrev(number))(x))
    value, along = torch.func.linearize(turned, x)
    same((value, along(x)), (turned(x), turned(x)))
    several = torch.stack([x, 2 * x, -x])
    same(torch.func.vmap(along)(several), torch.stack([turned(y) for y in several]))
    # PyTorch's older vmap, around dual numbers.
    older = torch.autograd.functional
    forwards = older.jacobian(turned, x, vectorize=True, strategy="forward-mode")
    same(forwards, torch.func.jacrev(turned)(x))
    outer = older.hessian(number, x, vectorize=True, outer_jacobian_strategy="forward-mode")
    same(outer, torch.func.hessian(number)(x))
    leaf = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        turned, leaf, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )


# Compiled functions that are transformed inside: the transformation goes the eager way, out of the graph.
INSIDE = {
    "func.grad": lambda call: torch.func.grad(summed(call)),
    "vmap": lambda call: lambda *xs: torch.func.vmap(call)(*(torch.stack([x, x]) for x in xs)),
    "jvp": lambda call: lambda *xs: torch.func.jvp(call, xs, xs)[1],
}


@pytest.mark.parametrize("way", INSIDE)
@pytest.mark.parametrize("name", ["rotate", "rotate_", "attention", "linear_attention", "merge", "turn", "add"])
def test_a_transformation_that_is_compiled_is_that_of_the_eager_call(name, way):
    call, make = CALLS[name]
    xs = numbers(make)
    whole = INSIDE[way](call)
    if way == "jvp" and name not in FORWARD:
        with pytest.raises(RuntimeError, match="has no forward-mode derivatives"):
            torch.compile(whole, backend="aot_eager")(*xs)
        return
    same(torch.compile(whole, backend="aot_eager")(*xs), whole(*xs))
    if way == "jvp":
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported):  # never 0 without a word
            torch.compile(whole, backend="aot_eager", fullgraph=True)(*xs)


def test_positions_that_are_numbers_are_compiled_once():
    """Twice, as every number is: for the first one, and for any."""
    q, k = heads(DIM).detach(), heads(DIM).detach()
    calls = {
        "rotate": lambda first: bt.rotate(q, rope=ROTARY, positions=first),
        "attention": lambda first: bt.attention(q, k, k, ROTARY, mask="causal", q_positions=first),
        "turn": lambda first: bt.turn(ROTARY, q, first, side="key"),
        "linear_attention": lambda first: bt.linear_attention(q, k, k, ROTARY, mask="none", q_positions=first, epsilon=1.0),
    }  # fmt: skip
    for name, call in calls.items():
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        whole = torch.compile(call, backend=counter, fullgraph=True)
        for first in (3, 7, 11, 20):
            same(whole(first), call(first))
        assert counter.frame_count == 2, name


def test_a_compiled_function_is_compiled_again_for_duals():
    q = heads(DIM).detach()
    call = torch.compile(lambda x: bt.rotate(x, rope=ROTARY), backend="aot_eager")
    call(q)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(call(forward_ad.make_dual(q, q))).tangent
    same(tangent, bt.rotate(q, rope=ROTARY))


def test_functionalize_drops_no_derivative():
    """Around it forward mode is right or refused."""
    q = heads(DIM).detach()
    call = torch.func.functionalize(lambda x: bt.rotate(x, rope=ROTARY))
    with pytest.raises(RuntimeError):
        torch.func.jvp(call, (q,), (q,))
    leaf = q.clone().requires_grad_()
    same(torch.autograd.grad(call(leaf).sum(), leaf), torch.autograd.grad(bt.rotate(leaf, rope=ROTARY).sum(), leaf))


@pytest.mark.parametrize("over", [torch.func.vmap, torch.func.functionalize, torch.func.vjp, torch.func.jvp])
def test_a_given_table_may_be_met_within_a_transformation_first(over):
    """What is kept of it outlives the transformation."""
    table, q = given_table(), heads(DIM).detach()

    def call(x):
        return bt.rotate(x, rope=table)

    if over is torch.func.vjp:
        found = over(call, q)[0]
    elif over is torch.func.jvp:
        found = over(call, (q,), (q,))[1]  # of a linear function
    else:
        found = over(call)(q)
    expected = bt.rotate(q, rope=table)
    same(found, expected)
    same(expected, bearing.rotate_to(table, q))


def test_batches_in_batches_and_on_other_threads():
    """PyTorch's older vmap, which batches of gradients use, knows its nesting by thread; backwards on GPUs run on another."""
    x, y = torch.randn(2, 3, 1, HEADS, TIME, DIM), torch.randn(3, 1, HEADS, TIME, DIM)
    turn = lambda *zs: ops.rotate(list(zs), None, 0, ROTARY.table, "bhtd", False, None, None)
    turned = lambda z: turn(z)[0]
    same(_vmap(_vmap(turned))(x), turned(x.flatten(0, 2)).view_as(x))
    sums = lambda a, b: sum(turn(a, b))
    found = _vmap(_vmap(sums), in_dims=(0, None))(x, y)
    same(found, torch.stack([torch.stack([sums(x[i, j], y[j]) for j in range(3)]) for i in range(2)]))
    with ThreadPoolExecutor(1) as aside:
        elsewhere = lambda z: aside.submit(turned, z).result()
        same(_vmap(elsewhere)(y), torch.stack([turned(z) for z in y]))


def test_vmap_over_nothing_gives_nothing():
    q = torch.zeros(0, 2, HEADS, TIME, DIM)
    assert torch.vmap(lambda x: bt.rotate(x, rope=ROTARY))(q).shape == q.shape
    assert torch.vmap(lambda x: bt.attention(x, x, x, mask="causal"), in_dims=1)(q.movedim(0, 1)).shape == q.shape


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives_are_right_or_refused(name):
    call, make = CALLS[name]
    if name in TWICE:
        twice(call, numbers(make))
        return
    with pytest.raises(RuntimeError, match=r"^\[\w+\] has no second derivatives: differentiate it once"):
        twice(call, numbers(make))


@pytest.mark.parametrize("name", [name for name in CALLS if name not in PURE])
def test_exporting_to_onnx_by_tracing_is_refused(name):
    call, make = CALLS[name]
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"^\[\w+\] cannot be exported to ONNX.*restore_rotary"):
        torch.onnx.export(Module(call), numbers(make), "/dev/null", dynamo=False, verbose=False)


def test_exporting_to_onnx_by_torch_export_names_the_op(tmp_path):
    x = torch.randn(2, HEADS, TIME, DIM)
    module = Module(lambda x: x + bt.rotate(x, rope=ROPE))
    with pytest.raises(Exception, match=r"No ONNX function found for <OpOverload\(op='bearing.rotate'"):
        torch.onnx.export(module, (x,), tmp_path / "m.onnx", dynamo=True, verbose=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_modules_are_copied_pickled_and_called_with_others_parameters(case):
    expected = case.call(*case.inputs)
    assert case.module.state_dict().keys() == copy.deepcopy(case.module).state_dict().keys()
    again = pickle.loads(pickle.dumps(case.module))
    for a, b in zip(case.module.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    # As FSDP and ensembles do: the module's own tensors are replaced for one call.
    others = {name: p.detach() * 0.5 for name, p in case.module.named_parameters()}

    def halved(*xs):
        return torch.func.functional_call(Module(case.call), {f"inner.{n}": p for n, p in others.items()}, xs)

    if others:
        assert not torch.equal(halved(*case.inputs), expected)
    assert torch.equal(case.call(*case.inputs), expected)


def test_every_function_is_among_the_calls():
    functions = {n for n in bt.__all__ if callable(getattr(bt, n)) and not isinstance(getattr(bt, n), type)}
    # Some have tests of their own (those of caches and norm_rotate in gpu/); the others make positions, shards, forms and
    # plans, without arithmetic, or a table for another grid, once (test_inputs.py).
    own = {"ring_attention", "rebase", "shift", "rotate_to_cache", "norm_rotate", "wavlm_gate"}
    others = (
        own
        | {"shard", "shard_positions", "window_positions", "encoding_of", "plan", "ScoreMod"}
        | {"resize", "resize_grid", "register_flop_formulas"}
    )
    assert functions - others == {name.split(",")[0] for name in CALLS if name in functions or "," in name}


def test_ring_attention_says_what_it_cannot_be_given_to():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        x = torch.randn(1, 2, 4, 8)

        def call(x):
            return bt.ring_attention(x, x, x, mask="causal", q_positions=0, k_positions=0)

        assert torch.equal(call(x), bt.attention(x, x, x, mask="causal"))
        for way in (
            lambda: torch.func.grad(lambda x: call(x).sum())(x),
            lambda: torch.func.vmap(call)(x[None]),
            lambda: torch.func.jvp(call, (x,), (x,)),
            lambda: duals(call, (x,), (x,)),
            lambda: torch.jit.trace(call, (x,), check_trace=False),
            lambda: make_fx(call)(x),
        ):
            with pytest.raises(RuntimeError, match=re.escape("[ring_attention] runs eagerly alone")):
                way()
    finally:
        torch.distributed.destroy_process_group()
