"""bearing.torch's functions and the custom ops behind them."""

from __future__ import annotations

import json
import math

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch
from bearing.torch import encoding as forms
from torch.utils._python_dispatch import TorchDispatchMode
from torch_cases import DIM, HEADS, TIME, qkv, tensor

ROPE = bearing.Rope(head_dim=DIM, pairing="half")
T5 = bearing.T5(buckets=8, max_distance=16, direction="causal")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(3)
    yield
    torch.set_num_threads(threads)


def t5_bias(dtype=torch.float64):
    table = torch.randn(8, HEADS, dtype=dtype, requires_grad=True)
    return bt.Encoding(forms.form_of("T5Bias", T5, ["table"]), (table,)), table


def attention_arguments(sinks=None, key_mask=None, layout="bhtd", dtype=torch.float64):
    encoding, table = t5_bias(bearing.torch.ops.arithmetic_of(dtype))
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in qkv())
    masks = [sinks, None, None, None, key_mask, None, None, None, None]
    constants = f"[{encoding.form}]", "causal", [-1, -1], 0, 0, None, 0.0, layout, ""
    return q, k, v, [table], *masks, *constants, bearing.torch.ops.arithmetic_of(dtype)


def test_attention_gives_the_numbers_of_bearing_itself():
    encoding, table = t5_bias()
    q, k, v = qkv()
    plain = bearing.attention(
        *(x.detach().numpy() for x in (q, k, v)),
        bearing.T5Bias(T5, table.detach().numpy()),
        mask="causal",
        soft_cap=5.0,
    )
    out = bt.attention(q, k, v, encoding, mask="causal", soft_cap=5.0)
    assert np.array_equal(out.detach().numpy(), plain)


def test_attention_without_encodings_is_pytorchs_own():
    q, k, v = (x.float() for x in qkv())
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    # Six products and sums of numbers near 1, weighed: a few roundings of 2^-24 either way.
    torch.testing.assert_close(bt.attention(q, k, v, mask="causal"), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_attentions_gradients_are_those_of_differences(layout):
    encoding, table = t5_bias()
    sinks = tensor(HEADS)
    q, k, v = (x if layout == "bhtd" else x.detach().transpose(1, 2).contiguous().requires_grad_() for x in qkv())

    def call(q, k, v, table, sinks):
        one = encoding._replace(tensors=(table,))
        return bt.attention(
            q, k, v, one, mask="causal", window=(3, -1), soft_cap=3.0, sinks=sinks, layout=layout, return_lse=True
        )

    assert torch.autograd.gradcheck(call, (q, k, v, table, sinks), fast_mode=True)


def test_attentions_gradients_through_the_logarithms_alone():
    q, k, v = qkv()
    assert torch.autograd.gradcheck(
        lambda q, k: bt.attention(q, k, v.detach(), mask="none", return_lse=True)[1], (q, k), fast_mode=True
    )


def test_grouped_queries_positions_and_packed_sequences_have_gradients():
    q, k, v = tensor(1, 4, 5, DIM), tensor(1, 2, 7, DIM), tensor(1, 2, 7, 3)
    at = torch.tensor([2, 3, 4, 5, 6])
    assert torch.autograd.gradcheck(
        lambda q, k, v: bt.attention(q, k, v, bt.Alibi(4).double(), mask="causal", q_positions=at),
        (q, k, v),
        fast_mode=True,
    )
    starts = torch.tensor([0, 2, 5]), torch.tensor([0, 3, 7])
    assert torch.autograd.gradcheck(
        lambda q, k, v: bt.attention(
            q, k, v, mask="causal_bottom_right", q_starts=starts[0], k_starts=starts[1]
        ),
        (q, k, v),
        fast_mode=True,
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_the_op_of_attention_passes_opcheck(layout):
    arguments = attention_arguments(sinks=tensor(HEADS), key_mask=torch.ones(2, TIME, dtype=torch.bool), layout=layout)
    if layout == "bthd":
        arguments = *(x.detach().transpose(1, 2).requires_grad_() for x in arguments[:3]), *arguments[3:]
    torch.library.opcheck(torch.ops.bearing.attention.default, arguments)


def test_the_op_of_attention_passes_opcheck_with_results_in_float32():
    arguments = attention_arguments(sinks=torch.zeros(HEADS, requires_grad=True), dtype=torch.bfloat16)
    torch.library.opcheck(torch.ops.bearing.attention.default, arguments)


def test_results_in_float32_keep_what_16_bits_lose_and_have_the_same_gradients():
    encoding, table = t5_bias(torch.float32)
    q, k, v = (x.detach().bfloat16().requires_grad_() for x in qkv())
    wide = bt.attention(q, k, v, encoding, mask="causal", out_dtype=torch.float32)
    assert wide.dtype is torch.float32
    assert torch.equal(wide.bfloat16(), bt.attention(q, k, v, encoding, mask="causal"))
    exact = [x.detach().float().requires_grad_() for x in (q, k, v)]
    wanted = bt.attention(*exact, encoding, mask="causal")
    # The same numbers in the same arithmetic.
    torch.testing.assert_close(wide, wanted, rtol=0, atol=1e-6)
    weights = torch.randn(wide.shape)
    found = torch.autograd.grad((wide * weights).sum(), [q, k, v, table])
    for one, other in zip(found, torch.autograd.grad((wanted * weights).sum(), [*exact, table]), strict=True):
        torch.testing.assert_close(one, other.to(one.dtype), rtol=2**-7, atol=1e-6)  # a unit of bfloat16


def test_the_type_of_results_goes_through_torch_compile():
    q, k, v = (x.detach().bfloat16() for x in qkv())
    call = torch.compile(
        lambda *x: bt.attention(*x, mask="none", out_dtype=torch.float32) * 2, fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(call(q, k, v), bt.attention(q, k, v, mask="none", out_dtype=torch.float32) * 2)


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("axes", [2, 3])
def test_one_sequence_and_one_head_need_no_axes(axes, layout):
    q, k, v = (x[0] if axes == 3 else x[0, 0] for x in qkv())
    if layout == "bthd" and axes == 3:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    at = torch.arange(TIME)[None]

    def call(q, k, v):
        return bt.attention(q, k, v, mask="causal", q_positions=at, layout=layout, return_lse=True)

    out, lse = call(q, k, v)
    assert out.shape == q.shape
    assert lse.shape == ((HEADS, TIME) if axes == 3 else (TIME,))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v)
    assert all(torch.equal(a, b) for a, b in zip(compiled, (out, lse), strict=True))
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)


def test_the_op_of_rotation_passes_opcheck():
    table = forms.table_form(ROPE, 16)
    q, k = tensor(2, 4, TIME, DIM), tensor(2, 2, TIME, DIM, dtype=torch.float32)
    torch.library.opcheck(torch.ops.bearing.rotate.default, ([q, k], None, 3, table, "bhtd", False, None, None))
    torch.library.opcheck(
        torch.ops.bearing.rotate.default, ([q], torch.arange(TIME), 0, table, "bhtd", True, None, None)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_and_rotation_of_queries_and_keys_are_two_calls(dtype):
    q, k = tensor(2, 4, TIME, DIM, dtype=dtype), tensor(2, 2, TIME, DIM, dtype=dtype)
    weights = [torch.rand(DIM, requires_grad=True) for _ in range(2)]
    rest = {"rope": ROPE, "eps": 1e-6, "positions": 3}
    apart = [bt.norm_rotate(x, weight, **rest) for x, weight in zip((q, k), weights, strict=True)]
    with torch.autocast("cpu", dtype=torch.bfloat16):  # which changes nothing
        found = bt.norm_rotate(q, weights[0], k=k, k_weight=weights[1], **rest)
    assert all(torch.equal(a, b) for a, b in zip(found, apart, strict=True))
    grads = [torch.autograd.grad(sum(y.sin().sum() for y in ys), (q, k, *weights)) for ys in (found, apart)]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    arguments = (q, weights[0], k, weights[1], 1e-6, None, 3, forms.table_form(ROPE, 16), "bhtd")
    torch.library.opcheck(torch.ops.bearing.norm_rotate_both.default, arguments)
    whole = torch.randn(2, TIME, 6, DIM, dtype=dtype).transpose(1, 2)  # of one projection
    q, k = whole[:, :4].requires_grad_(), whole[:, 4:].requires_grad_()
    torch.library.opcheck(torch.ops.bearing.norm_rotate_both.default, (q, weights[0], k, *arguments[3:]))


def test_the_ops_of_rows_inputs_and_biases_pass_opcheck():
    pope = bt.Pope(bearing.Pope(head_dim=DIM), HEADS).double()
    one = pope.encoding()
    arguments = (tensor(2, HEADS, TIME, DIM), [*one.tensors], None, 2, f"[{one.form}]", "key", "bhtd")
    torch.library.opcheck(torch.ops.bearing.turn.default, arguments)
    learned = bt.LearnedPositions(bearing.Learned(length=9, dim=DIM)).double().encoding()
    arguments = (tensor(2, TIME, DIM), [*learned.tensors], torch.arange(TIME), 0, f"[{learned.form}]")
    torch.library.opcheck(torch.ops.bearing.add.default, arguments)
    encoding, table = t5_bias()
    arguments = ([table], None, None, 3, 0, f"[{encoding.form}]", HEADS, 4, 7, torch.float64)
    torch.library.opcheck(torch.ops.bearing.bias_matrix.default, arguments)


def sinusoids(dtype=torch.float64):
    spec = bearing.Sinusoidal(dim=DIM, layout="interleaved")
    scale = torch.tensor([0.7], dtype=dtype, requires_grad=True)
    return bt.Encoding(forms.form_of("SinusoidalInputs", spec, ["scale"]), (scale,)), scale


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_sums_in_place_are_those_beside(dtype):
    encoding, scale = sinusoids(torch.float64 if dtype is torch.float64 else torch.float32)
    x = torch.randn(2, TIME, DIM).to(dtype)
    with torch.no_grad():
        wanted = bt.add(encoding, x, 3)
        for y in (x.clone(), x.transpose(0, 1).clone().transpose(0, 1)):
            memory = y.data_ptr()
            assert bt.add_(encoding, y, 3) is y
            assert y.data_ptr() == memory and torch.equal(y, wanted)
    again = x.clone()
    bt.add_(encoding, again, 3)  # with a gradient of the scale
    assert torch.equal(again, wanted) and again.requires_grad
    again.sum().backward()
    assert scale.grad is not None


def test_sums_in_place_have_gradients():
    encoding, scale = sinusoids()
    x = tensor(2, TIME, DIM)

    def call(x, scale):
        return bt.add_(encoding._replace(tensors=(scale,)), x * 1, 2) ** 2

    assert torch.autograd.gradcheck(call, (x, scale), fast_mode=True)
    with pytest.raises(RuntimeError, match="leaf"):
        bt.add_(encoding, x)


def test_the_op_of_sums_in_place_passes_opcheck_and_compiles():
    encoding, scale = sinusoids()
    x = torch.randn(2, TIME, DIM, dtype=torch.float64)
    torch.library.opcheck(torch.ops.bearing.add_.default, (x.clone(), [scale.detach()], None, 3, f"[{encoding.form}]"))
    compiled = torch.compile(lambda x: bt.add_(encoding, x * 2, 3) + 1, fullgraph=True, backend="aot_eager")
    wanted = bt.add(encoding, x * 2, 3) + 1
    assert torch.equal(compiled(x), wanted)
    with torch.no_grad():
        assert torch.equal(compiled(x), wanted)


def test_rotation_gives_the_numbers_of_bearing_itself_for_every_type():
    table = bearing.RopeTable(ROPE, 16)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(2, HEADS, TIME, DIM).to(dtype)
        expected = bearing.rotate_to(table, x, 5)
        got = bt.rotate(x, rope=ROPE, positions=5)
        assert got.dtype is dtype and torch.equal(got, expected)


def test_rotation_by_a_table_of_xpos_keeps_its_decay():
    xpos = bearing.XposTable(bearing.Xpos(rope=bearing.Rope(head_dim=8, pairing="half")), 64, dtype="float64")
    x = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    for table in (xpos.q, xpos.k):
        wanted = torch.from_numpy(bearing.rotate_to(table, x.numpy(), 40))
        assert torch.equal(bt.rotate(x, rope=table, positions=40), wanted)


def test_rotation_is_differentiable_twice():
    x = tensor(1, 2, TIME, DIM)
    assert torch.autograd.gradcheck(lambda x: bt.rotate(x, rope=ROPE, positions=4), (x,))
    assert torch.autograd.gradgradcheck(lambda x: bt.rotate(x, rope=ROPE, positions=4) ** 3, (x,), fast_mode=True)


def test_rotation_takes_any_strides_and_gives_contiguous_results():
    x = torch.randn(2, TIME, HEADS, 2 * DIM)[..., ::2].transpose(1, 2)
    turned = bt.rotate(x, rope=ROPE)
    assert turned.is_contiguous()
    assert torch.equal(turned, bt.rotate(x.contiguous(), rope=ROPE))


def test_rotated_inside_attention_is_rotated_before_it():
    rope = bt.Rope(ROPE)
    q, k, v = qkv()
    inside = bt.attention(q, k, v, rope, mask="causal")
    before = bt.attention(*rope(q, k), v, mask="causal")
    # Both turn by the same numbers, once each; sums of attention are in float64.
    torch.testing.assert_close(inside, before, rtol=0, atol=1e-14)


def test_scores_after_rotation_depend_on_the_distance_alone():
    rope = bt.Rope(ROPE)
    q, k, _ = qkv()
    scores = [q_positions @ k_positions.transpose(2, 3) for q_positions, k_positions in (rope(q, k), rope(q, k, 1000))]
    torch.testing.assert_close(*scores, rtol=0, atol=1e-12)


def test_the_matrix_of_a_bias_has_gradients():
    encoding, table = t5_bias()

    def matrix(table):
        return bt.bias_matrix(
            encoding._replace(tensors=(table,)), 3, None, heads=HEADS, q_len=4, k_len=7, dtype=torch.float64
        )

    assert torch.autograd.gradcheck(matrix, (table,))
    expected = bearing.bias_matrix(bearing.T5Bias(T5, table.detach()), 3, None, heads=HEADS, q_len=4, k_len=7)
    assert torch.equal(matrix(table), expected)


def test_torch_compile_takes_everything_whole():
    encoding, table = t5_bias(torch.float32)
    rope = bt.Rope(ROPE)
    learned = bt.LearnedPositions(bearing.Learned(length=16, dim=DIM))

    def step(x, table):
        x = learned(x)
        q, k = rope(x.unsqueeze(1).expand(-1, HEADS, -1, -1), x.unsqueeze(1))
        bias = encoding._replace(tensors=(table,))
        return bt.attention(q, k, x.unsqueeze(1), [bias], mask="causal") + bt.bias_matrix(
            bias, heads=HEADS, q_len=TIME, k_len=DIM
        )

    x = torch.randn(2, TIME, DIM, requires_grad=True)
    results = []
    for call in (step, torch.compile(step, fullgraph=True)):
        out = call(x, table)
        results.append((out, *torch.autograd.grad(out.square().sum(), (x, table))))
    for eager, compiled in zip(*results, strict=True):
        # The same kernels; what is compiled around them may sum in another order.
        torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=1e-5)


def test_compiled_once_it_serves_other_lengths():
    rope = bt.Rope(ROPE)
    call = torch.compile(lambda x: bt.attention(*rope(x, x), x, mask="causal"), fullgraph=True, dynamic=True)
    for time in (5, 9, 17):
        x = torch.randn(1, HEADS, time, DIM)
        assert torch.equal(call(x), bt.attention(*rope(x, x), x, mask="causal"))


def test_exported_programs_hold_the_ops():
    module = bt.Attention([bt.Rope(ROPE), bt.T5Bias(T5, HEADS)], mask="causal")
    q, k, v = (x.detach().float() for x in qkv())
    program = torch.export.export(module, (q, k, v))
    assert any("bearing" in str(node.target) for node in program.graph.nodes)
    assert torch.equal(program.module()(q, k, v), module(q, k, v))


class Calls(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.biases = bt.encoding_of(bearing.AlibiBias(bearing.Alibi.published(HEADS)))
        self.rows, self.xpos = bt.Rope(ROPE), bt.Xpos(bearing.Xpos(rope=ROPE))

    def forward(self, q, k, v):
        out = bt.attention(q, k, v, self.rows, mask="causal") + bt.linear_attention(q, k, v, mask="causal")
        return out, *self.xpos(q, k), bt.bias_matrix(self.biases, heads=HEADS, q_len=3, k_len=3)


def test_exported_ops_take_none_for_no_parameters_as_packages_of_aotinductor_give_it():
    q, k, v = (x.detach().float() for x in qkv())
    program = torch.export.export(Calls(), (q, k, v)).module()
    with WithNoneForNothing() as mode:
        found = program(q, k, v)
    assert mode.replaced == 5
    for one, other in zip(found, Calls()(q, k, v), strict=True):
        assert torch.equal(one, other)


class WithNoneForNothing(TorchDispatchMode):
    """Calls ops of bearing with None in place of empty lists."""

    replaced = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "bearing":
            empty = [isinstance(arg, (list, tuple)) and not arg for arg in args]
            args = [None if nothing else arg for nothing, arg in zip(empty, args, strict=True)]
            self.replaced += sum(empty)
        return func(*args, **(kwargs or {}))


def test_autocast_has_attention_in_its_own_type_with_parameters_in_float32():
    bias = bt.T5Bias(T5, HEADS, 64)
    q, k, v = (x.detach().float() for x in qkv())
    with torch.autocast("cpu", torch.bfloat16):
        out = bt.attention(q, k, v.bfloat16(), bias, mask="causal")
        doubles = bt.attention(q.double(), k.double(), v.double(), bt.T5Bias(T5, HEADS).double(), mask="causal")
        turned = bt.rotate(q, rope=ROPE)
    assert out.dtype is torch.bfloat16 and doubles.dtype is torch.float64 and turned.dtype is torch.float32
    assert torch.equal(out, bt.attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), bias, mask="causal"))
    out.float().sum().backward()
    assert bias.table.grad.dtype is torch.float32 and bias.table.grad.any()


def test_parameters_of_a_bfloat16_model_have_bfloat16_gradients():
    bias = bt.T5Bias(T5, HEADS, 64).bfloat16()
    q, k, v = (x.detach().bfloat16() for x in qkv())
    bt.attention(q, k, v, bias, mask="causal").sum().backward()
    assert bias.table.grad.dtype is torch.bfloat16


def test_threads_follow_pytorchs_and_change_no_bit():
    encoding, table = t5_bias(torch.float32)
    q, k, v = (torch.randn(2, HEADS, 70, DIM, requires_grad=True) for _ in range(3))
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out = bt.attention(q, k, v, encoding, mask="causal")
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v, table))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_encodings_of_bearing_itself_are_taken_with_their_gradients():
    table = tensor(8, HEADS)
    q, k, v = qkv()
    slopes = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    out = bt.attention(q, k, v, [bearing.T5Bias(T5, table), slopes], mask="causal")
    expected = bearing.attention(
        *(x.detach() for x in (q, k, v)), [bearing.T5Bias(T5, table.detach()), slopes], mask="causal"
    )
    assert torch.equal(out, expected)
    (gradient,) = torch.autograd.grad(out.sum(), (table,))
    assert gradient.shape == table.shape and gradient.any()


def test_forms_are_plain_json():
    encoding = forms.encoding_of(bearing.AlibiBias(bearing.Alibi.published(2)))
    assert json.loads(encoding.form)["kind"] == "AlibiBias"
    assert forms.spec_of(encoding.form) == bearing.Alibi.published(2)


def test_backward_through_the_backward_is_refused():
    q, k, v = qkv()
    (d_q,) = torch.autograd.grad(bt.attention(q, k, v, mask="none").square().sum(), (q,), create_graph=True)
    with pytest.raises((RuntimeError, NotImplementedError), match=r"\[attention\] has no second derivatives"):
        d_q.sum().backward()


def test_rows_that_see_no_key_have_no_gradient():
    q, k, v = qkv()
    mask = torch.zeros(2, TIME, dtype=torch.bool)
    out, lse = bt.attention(q, k, v, mask="none", key_mask=mask, return_lse=True)
    assert not out.any() and (lse == -math.inf).all()
    gradients = torch.autograd.grad(out.sum(), (q, k, v))
    assert not any(d.any() for d in gradients)


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (lambda q: bt.attention(q, q, q[..., :3, :], mask="causal"), bearing.ShapeError, "v"),
        (lambda q: bt.attention(q, q, q, mask="sideways"), ValueError, "mask: must be one of 'none'"),
        (lambda q: bt.attention(q, q.float(), q, mask="none"), TypeError, "k: must be float64, as q is"),
        (lambda q: bt.rotate(q[..., :6], rope=ROPE), bearing.ShapeError, "rotate"),
        (lambda q: bt.rotate(q, rope=ROPE, layout="tbhd"), ValueError, "layout: must be 'bhtd' or 'bthd'"),
        (
            lambda q: bt.rotate(q, rope=ROPE, positions=torch.rand(TIME, requires_grad=True)),
            TypeError,
            "positions: must be a tensor",
        ),
        (lambda q: bt.attention(q.int(), q.int(), q.int(), mask="none"), TypeError, "q: must be an array of float64"),
        (lambda q: bt.bias_matrix(None, heads=2, q_len=3), TypeError, "k_len: must be given"),
    ],
)
def test_wrong_arguments_are_named(wrong, error, text):
    with pytest.raises(error, match=text):
        wrong(torch.randn(2, HEADS, TIME, DIM, dtype=torch.float64))


def test_tensors_elsewhere_are_refused_by_name():
    class Elsewhere:
        device = torch.device("cuda", 0)

    with pytest.raises(TypeError, match=r"\[rotate\] must be given tensors on the CPU, got one on cuda:0"):
        bt.rotate(Elsewhere(), rope=ROPE)


def test_tensors_that_processes_share_are_refused_by_name():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        q, k, v = (x.detach() for x in qkv())
        shared = distribute_tensor(q, init_device_mesh("cpu", (1,)), [Shard(1)])
        for name, call in {
            "attention": lambda: bt.attention(shared, k, v, mask="causal"),
            "linear_attention": lambda: bt.linear_attention(shared, k, v, mask="causal"),
            "rotate": lambda: bt.rotate(shared, rope=ROPE),
            "rotate_": lambda: bt.rotate_(shared, rope=ROPE),
            "add_": lambda: bt.add_(
                bearing.SinusoidalInputs(bearing.Sinusoidal(dim=DIM, layout="concatenated")), shared[0]
            ),
            "rebase": lambda: bt.rebase(ROPE, 0, ROPE, 1, shared),
            "shift": lambda: bt.shift(ROPE, 1, shared),
            "rotate_to_cache": lambda: bt.rotate_to_cache(q, k, v, shared, shared, [[0]], rope=ROPE),
            "merge": lambda: bt.merge(shared, shared[..., 0], shared, shared[..., 0]),
        }.items():
            with pytest.raises(
                TypeError, match=rf"\[{name}\] tensors: must be local, got a DTensor: give each process"
            ):
                call()
    finally:
        torch.distributed.destroy_process_group()


def test_modes_and_compilers_see_the_ops():
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.randn(1, HEADS, TIME, DIM)
    graph = make_fx(lambda x: bt.rotate(bt.attention(x, x, x, mask="causal"), rope=ROPE))(x)
    targets = [str(node.target) for node in graph.graph.nodes]
    assert "bearing.attention.default" in targets and "bearing.rotate.default" in targets
    with torch.no_grad():
        assert torch.equal(graph(x), bt.rotate(bt.attention(x, x, x, mask="causal"), rope=ROPE))


def paged(k, table, size):
    """Keys [batch, heads, k_len, dim] in blocks [blocks, heads, size, dim], as a table places them."""
    blocks = k.new_zeros(int(table.max()) + 1, k.shape[1], size, k.shape[3])
    for b, row in enumerate(table):
        for i, block in enumerate(row):
            blocks[block] = k[b, :, i * size : (i + 1) * size]
    return blocks


@pytest.mark.parametrize("way", ["eager", "compile", "vmap"])
def test_a_paged_cache_gives_what_a_whole_one_gives(way):
    q, (k, v) = torch.randn(2, HEADS, 1, DIM), torch.randn(2, 2, HEADS, 8, DIM)
    table, lengths = torch.tensor([[3, 0], [1, 4]]), torch.tensor([7, 5])
    cache, alibi = (paged(k, table, 4), paged(v, table, 4)), bt.Alibi(HEADS)

    def call(q):
        return bt.attention(q, *cache, alibi, mask="none", q_positions=8, k_lengths=lengths, block_table=table)

    with torch.no_grad():
        wanted = bt.attention(q, k, v, alibi, mask="none", q_positions=8, k_lengths=lengths)
        if way == "compile":
            got = torch.compile(call, fullgraph=True, backend="aot_eager")(q)
        else:
            got = torch.func.vmap(call)(q[None])[0] if way == "vmap" else call(q)
    assert torch.equal(got, wanted)
    text = r"\[attention\] block_table: must not be given where gradients are wanted"
    with pytest.raises(bearing.ShapeError, match=text):
        call(q.requires_grad_())
    with pytest.raises(bearing.ShapeError, match=text):
        torch.func.grad(lambda q: bt.attention(q, *cache, mask="none", block_table=table).sum())(q.detach())


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_counters_count_attention_as_pytorchs_own(layout):
    from torch.utils import flop_counter

    bt.register_flop_formulas()
    bt.register_flop_formulas()
    bias, _ = t5_bias()
    x = [torch.randn(2, heads, time, dim).double() for heads, time, dim in ((4, 5, 8), (2, 7, 8), (2, 7, 6))]
    x = [(one if layout == "bhtd" else one.transpose(1, 2)).requires_grad_() for one in x]
    with flop_counter.FlopCounterMode(display=False) as counter:
        bt.attention(*x, bias, mask="causal", layout=layout).sum().backward()
    shapes = (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)
    forward = 2 * (2 * 4 * 5 * 7) * (8 + 6)
    backward = flop_counter.sdpa_backward_flop_count((2, 4, 5, 6), *shapes)
    assert counter.get_flop_counts()["Global"] == {
        torch.ops.bearing.attention: forward,
        torch.ops.bearing.attention_backward: backward,
    }


def test_counters_count_texts_that_are_packed_each_by_itself_and_what_linear_attention_sums():
    from torch.utils import flop_counter

    bt.register_flop_formulas()
    x, starts, at = torch.randn(1, HEADS, 8, DIM), torch.tensor([0, 3, 8]), torch.tensor([0, 1, 2, 0, 1, 2, 3, 4])
    blocks, table = torch.randn(6, HEADS, 4, DIM), torch.tensor([[4, 0]])
    texts = {"q_starts": starts, "k_starts": starts, "q_positions": at, "k_positions": at}
    for call, flops in (
        (lambda: bt.attention(x, x, x, mask="causal", **texts), 2 * HEADS * (9 + 25) * 2 * DIM),
        (lambda: bt.attention(x, blocks, blocks, mask="causal", block_table=table, k_lengths=torch.tensor([8])),
         2 * HEADS * 8 * 8 * 2 * DIM),
        (lambda: bt.linear_attention(x, x, x, mask="causal"), 2 * HEADS * (8 + 8) * DIM * DIM),
    ):  # fmt: skip
        with flop_counter.FlopCounterMode(display=False) as counter:
            call()
        assert counter.get_total_flops() == flops
