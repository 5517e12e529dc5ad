"""bearing.torch.linear_attention: values, states and gradients are those of bearing, and of the formula."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch
from torch_cases import DIM, HEADS, TIME, tensor

KV_HEADS, PAST, VALUE_DIM = 2, 2, 3
ROPE = bearing.Rope(head_dim=DIM, pairing="half")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(5)
    yield
    torch.set_num_threads(threads)


def rows(dtype=torch.float64, heads=HEADS):
    """Queries after PAST keys of the same sequence."""
    shapes = (heads, TIME, DIM), (KV_HEADS, PAST + TIME, DIM), (KV_HEADS, PAST + TIME, VALUE_DIM)
    return tuple(tensor(2, *shape).detach().to(dtype).requires_grad_() for shape in shapes)


def state_of(rows_dim=DIM, dtype=torch.float64):
    s = torch.randn(2, KV_HEADS, rows_dim, VALUE_DIM, dtype=dtype)
    z = torch.rand(2, KV_HEADS, DIM, dtype=dtype) + 1  # sums of positive numbers
    return s.requires_grad_(), z.requires_grad_()


def pope():
    """An encoding of rows with parameters, which makes two numbers of one, for as many heads of queries as of keys."""
    module = bt.Pope(bearing.Pope(head_dim=DIM), KV_HEADS).double()
    torch.nn.init.uniform_(module.offsets, -1, -0.1)
    return module


def formula(q, k, v, s, z, mask, feature_map="elu_plus_one", normaliser="sum", epsilon=0.0, turn=lambda x, at: x):
    """Linear attention written out, and its state."""
    maps = {"elu_plus_one": lambda x: torch.nn.functional.elu(x) + 1, "relu": torch.relu, "identity": lambda x: x}
    q, k = maps[feature_map](q), maps[feature_map](k)
    turned_q, turned_k = turn(q, PAST), turn(k, 0)
    after = s + turned_k.transpose(2, 3) @ v, z + k.sum(2)
    k, turned_k, v, s, z = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, turned_k, v, s, z))
    seen = torch.ones(q.shape[2], k.shape[2]).tril(PAST) if mask == "causal" else torch.ones(())
    out = (turned_q @ turned_k.transpose(2, 3) * seen) @ v + turned_q @ s
    if normaliser == "sum":
        out = out / ((q @ k.transpose(2, 3) * seen).sum(-1) + (q * z[:, :, None]).sum(-1) + epsilon)[..., None]
    return out, *after


def flat(result):
    out, (s, z) = result
    return out, s, z


def near(found, wanted):
    # Sums of some ten products, divided by sums of positive numbers above 0.1: a few hundred units of 2^-53.
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize(
    "options",
    [{}, {"epsilon": 0.5}, {"feature_map": "relu", "epsilon": 0.5}, {"feature_map": "identity", "normaliser": "none"}],
)
@pytest.mark.parametrize("turned", [False, True])
def test_values_states_and_gradients_are_those_of_the_formula(turned, options, mask):
    inputs = *rows(), *state_of()
    rope = bt.Rope(ROPE).double() if turned else None

    def turn(x, at):
        return bt.rotate(x, rope=ROPE, positions=at) if turned else x

    def ours(q, k, v, *state):
        given = options | {"mask": mask, "q_positions": PAST}
        return flat(bt.linear_attention(q, k, v, rope, **given, state=state, return_state=True))

    found, wanted = ours(*inputs), formula(*inputs, mask, **options, turn=turn)
    if options.get("normaliser") == "none":
        found, wanted = found[:2], wanted[:2]  # z is then not looked at
    near(found, wanted)
    weights = [torch.randn_like(x) for x in found]
    for one, other in zip(
        torch.autograd.grad(found, inputs, weights, materialize_grads=True),
        torch.autograd.grad(wanted, inputs, weights, materialize_grads=True),
        strict=True,
    ):
        near(one, other)


@pytest.mark.parametrize("mask", ["none", "causal", "causal_bottom_right"])
@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_gradients_are_those_of_differences(layout, mask):
    q, k, v = rows(heads=KV_HEADS)
    if layout == "bthd":
        q, k, v = (x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v))
    encoding = bt.encoding_of(pope())

    def call(q, k, v, s, z, offsets):
        one = encoding._replace(tensors=(offsets,))
        options = {"mask": mask, "q_positions": PAST, "layout": layout, "return_state": True}
        return flat(bt.linear_attention(q, k, v, one, **options, state=(s, z)))

    (offsets,) = encoding.tensors
    inputs = q, k, v, *state_of(2 * DIM), offsets.detach().requires_grad_()
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_each_result_alone_has_its_gradients(chosen):
    def call(*inputs):
        q, k, v, *state = inputs
        return flat(bt.linear_attention(q, k, v, mask="causal", q_positions=PAST, state=state, return_state=True))[
            chosen
        ]

    inputs = *rows(), *state_of()
    wanted = torch.autograd.grad(formula(*inputs, "causal")[chosen].sum(), inputs, materialize_grads=True)
    near(torch.autograd.grad(call(*inputs).sum(), inputs, materialize_grads=True), wanted)


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_op_passes_opcheck(dtype, layout):
    q, k, v = rows(dtype)
    few = q.detach()[:, :KV_HEADS].requires_grad_()
    if layout == "bthd":
        q, few, k, v = (x.detach().transpose(1, 2).requires_grad_() for x in (q, few, k, v))
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    one = pope().to(wide).encoding()
    words = f"[{one.form}]", "causal", "elu_plus_one", "sum", 0.5, PAST, 0, layout
    op = torch.ops.bearing.linear_attention.default
    torch.library.opcheck(op, (few, k, v, [*one.tensors], *state_of(2 * DIM, wide), None, None, *words))
    at = torch.arange(PAST, PAST + TIME)
    torch.library.opcheck(op, (q, k, v, [], None, None, at, None, "[]", *words[1:]))


def test_torch_compile_takes_it_whole_for_any_length():
    encodings = [bt.Rope(ROPE), bt.encoding_of(pope().float())]  # a module, and what one stands for

    def step(q, k, v, *state):
        given = {"mask": "causal", "q_positions": PAST, "return_state": True}
        return flat(bt.linear_attention(q * 2, k, v, encodings, **given, state=state))

    compiled = torch.compile(step, fullgraph=True, dynamic=True)
    for time in (6, 4, 9):
        q, k, v = (torch.randn(2, n, time, d) for n, d in ((KV_HEADS, DIM),) * 2 + ((KV_HEADS, VALUE_DIM),))
        inputs = [x.requires_grad_() for x in (q, k, v, *state_of(2 * DIM, torch.float32))]
        results = []
        for call in (step, compiled):
            outs = call(*inputs)
            results.append((*outs, *torch.autograd.grad(sum(x.square().sum() for x in outs), inputs)))
        for found, wanted in zip(*results, strict=True):
            # The same kernels; what is compiled around them may sum in another order, of a loss in the thousands.
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("parts", [(3, 3), (1, 1, 1, 1, 1, 1), (4, 0, 2)])
def test_parts_that_carry_the_state_are_the_whole(parts):
    q, k, v = (tensor(2, heads, TIME, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
    rope = bt.Rope(ROPE).double()
    whole = flat(bt.linear_attention(q, k, v, rope, mask="causal", return_state=True))
    outs, state, first = [], None, 0
    for length in parts:
        part = (x[:, :, first : first + length] for x in (q, k, v))
        options = {"mask": "causal", "q_positions": first, "k_positions": first}
        out, state = bt.linear_attention(*part, rope, **options, state=state, return_state=True)
        outs.append(out)
        first += length
    carried = torch.cat(outs, 2), *state
    near(carried, whole)
    weights = [torch.randn_like(x) for x in whole]
    near(torch.autograd.grad(carried, (q, k, v), weights), torch.autograd.grad(whole, (q, k, v), weights))


def test_a_state_is_only_read():
    q, k, v = (x.detach() for x in rows())
    state = tuple(x.detach() for x in state_of())
    before = [x.clone() for x in state]
    after = bt.linear_attention(q, k, v, mask="none", state=state, return_state=True)[1]
    bt.linear_attention(q, k, v, mask="none", state=state)
    for one, other, new in zip(state, before, after, strict=True):
        assert torch.equal(one, other) and not torch.equal(one, new)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_types_keep_their_type_and_sums_are_float32(dtype):
    q, k, v = rows(dtype)
    out, state = bt.linear_attention(q, k, v, mask="causal", q_positions=PAST, return_state=True)
    assert out.dtype is dtype and [x.dtype for x in state] == [torch.float32] * 2
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wanted, wide_state = bt.linear_attention(*exact, mask="causal", q_positions=PAST, return_state=True)
    # Sums in float32, good to 2^-20 of their terms' sizes, of the order of 10; the result is rounded once.
    torch.testing.assert_close(out.double(), wanted, rtol=torch.finfo(dtype).eps / 2, atol=2**-16)
    torch.testing.assert_close([x.double() for x in state], [*wide_state], rtol=0, atol=2**-16)
    found = torch.autograd.grad((out.float() ** 2).sum(), (q, k, v))
    for one, other in zip(found, torch.autograd.grad((wanted**2).sum(), exact), strict=True):
        assert one.dtype is dtype
        # d_out is out rounded, and gradients, sums of some ten such terms of the order of 1, are rounded again.
        torch.testing.assert_close(one.double(), other, rtol=0, atol=32 * torch.finfo(dtype).eps)


def test_autocast_has_it_in_its_own_type():
    q, k, v = (x.detach().float() for x in rows())
    with torch.autocast("cpu", torch.bfloat16):
        out = bt.linear_attention(q, k.bfloat16(), v, bt.Rope(ROPE), mask="none")
        doubles = bt.linear_attention(q.double(), k.double(), v.double(), mask="none")
    assert doubles.dtype is torch.float64
    assert torch.equal(out, bt.linear_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), bt.Rope(ROPE), mask="none"))


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("axes", [2, 3, 4])
def test_layouts_and_ranks_give_the_same_numbers(axes, layout):
    q, k, v = (tensor(2, HEADS, TIME, DIM).detach()[(0,) * (4 - axes)] for _ in range(3))
    at = torch.arange(TIME)[None]
    out, (s, z) = bearing.linear_attention(
        q, k, v, mask="causal", q_positions=PAST, k_positions=PAST, return_state=True
    )
    turned = [x.transpose(-2, -3) if layout == "bthd" and axes > 2 else x for x in (q, k, v)]

    def call(q, k, v):
        given = {
            "mask": "causal",
            "q_positions": at + PAST,
            "k_positions": PAST + at,
            "layout": layout,
            "return_state": True,
        }
        return flat(bt.linear_attention(q, k, v, **given))

    found = call(*turned)
    assert torch.equal(found[0].transpose(-2, -3) if layout == "bthd" and axes > 2 else found[0], out)
    assert torch.equal(found[1], s) and torch.equal(found[2], z)
    leaves = [x.detach().requires_grad_() for x in turned]
    watched = torch.compile(call, fullgraph=True, backend="aot_eager")(*leaves)
    assert all(torch.equal(a, b) for a, b in zip(watched, found, strict=True))
    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)


def test_encodings_of_bearing_itself_are_taken_with_their_gradients():
    q, k, v = rows(heads=KV_HEADS)
    offsets = torch.empty(1, DIM, dtype=torch.float64).uniform_(-1, -0.1).requires_grad_()
    given = {"mask": "causal", "q_positions": PAST}
    out = bt.linear_attention(q, k, v, bearing.PopeRows(bearing.Pope(head_dim=DIM), offsets, group=KV_HEADS), **given)
    plain = bearing.PopeRows(bearing.Pope(head_dim=DIM), offsets.detach(), group=KV_HEADS)
    assert torch.equal(out, bearing.linear_attention(*(x.detach() for x in (q, k, v)), plain, **given))
    (gradient,) = torch.autograd.grad(out.sum(), offsets)
    assert gradient.shape == offsets.shape and gradient.any()


def test_threads_follow_pytorchs_and_change_no_bit():
    q, k, v = (torch.randn(2, HEADS, 70, DIM, requires_grad=True) for _ in range(3))
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out = bt.linear_attention(q, k, v, mask="causal")
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_backward_through_the_backward_is_refused():
    q, k, v = rows()
    (d_q,) = torch.autograd.grad(bt.linear_attention(q, k, v, mask="none").square().sum(), q, create_graph=True)
    with pytest.raises((RuntimeError, NotImplementedError), match=r"\[linear_attention\] has no second derivatives"):
        d_q.sum().backward()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"mask": "sideways"}, ValueError, "mask: must be one of 'none'"),
        ({"feature_map": "gelu"}, ValueError, "feature_map: must be one of 'elu_plus_one'"),
        ({"feature_map": "identity"}, bearing.RangeError, "normaliser: must be none"),
        ({"epsilon": -1.0}, bearing.RangeError, "epsilon: must be"),
        ({"layout": "tbhd"}, ValueError, "layout: must be 'bhtd' or 'bthd'"),
        ({"k": torch.zeros(2, 3, 8, DIM, dtype=torch.float64)}, bearing.ShapeError, "k: must be"),
        ({"v": torch.zeros(2, KV_HEADS, 8, 3)}, TypeError, "v: must be float64, as q is"),
        (
            {"q_positions": torch.rand(TIME, requires_grad=True)},
            TypeError,
            "q_positions: must be a tensor without requires_grad",
        ),
        ({"k_positions": torch.arange(3)}, bearing.ShapeError, "k_positions"),
        ({"state": torch.zeros(2)}, TypeError, r"state: must be \(s, z\), two tensors"),
        ({"state": (torch.zeros(2, 2, 8, 3), torch.zeros(2, 2, 8))}, TypeError, "state: must be float64"),
        ({"state": (torch.zeros(DIM, 3), torch.zeros(DIM))}, bearing.ShapeError, r"state: .* got \[8, 3\] and \[8\]"),
        ({"state": (torch.zeros(2, 2, 7, 3).double(), torch.zeros(2, 2, 8).double())}, bearing.ShapeError, "state: s"),
        ({"encodings": bearing.AlibiBias(bearing.Alibi.published(HEADS))}, bearing.ShapeError, "encodings|terms"),
    ],
)
def test_wrong_arguments_are_named(change, error, text):
    q, k, v = rows()
    given = {"q": q, "k": k, "v": v, "mask": "causal", "q_positions": PAST} | change
    with pytest.raises(error, match=rf"\[linear_attention\].*({text})"):
        bt.linear_attention(**given)


def test_tensors_elsewhere_are_refused_by_name():
    class Elsewhere:
        device = torch.device("cuda", 0)

    with pytest.raises(TypeError, match=r"\[linear_attention\] must be given tensors on the CPU, got one on cuda:0"):
        bt.linear_attention(*[Elsewhere()] * 3, mask="none")
