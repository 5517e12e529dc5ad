"""Rotation in Triton gives the bits of the library on the CPU: every type, pairing, part, axis and stride, forward and
backward, through bearing.torch's own calls."""

from __future__ import annotations

import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch.triton import geometry
from bearing.torch.triton import launch as launches
from bearing.torch.triton import rotate as kernels
from place import needs_device

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
BLOCKS = bearing.RopeAxes.blocks([2, 4])


def library(x, table, positions, layout="bhtd", transposed=False):
    """What the library makes of x on the CPU. table: a RopeTable, or a Rope of any length."""
    if isinstance(table, bearing.Rope):
        table = bearing.RopeTable(table, 8, dtype="float64" if x.dtype is torch.float64 else "float32")
    turn = bearing.rotate_backward_to if transposed else bearing.rotate_to
    return turn(table, x.detach().cpu(), positions, layout=layout)


def same(found, wanted):
    assert found.dtype is wanted.dtype and torch.equal(found.detach().cpu(), wanted)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_queries_and_keys_have_the_library_s_bits(dtype, pairing, device):
    rope = bearing.Rope(head_dim=16, pairing=pairing)
    q, k = torch.randn(2, 2, 5, 16).to(dtype), torch.randn(2, 1, 5, 16).to(dtype)
    turned = bt.rotate(q.to(device), k.to(device), rope=bt.Rope(rope), positions=3)
    for x, y in zip((q, k), turned, strict=True):
        same(y, library(x, rope, 3))


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("order", ["heads together", "tokens together"])
def test_several_tiles_of_heads_and_of_tokens(order, pairing, device, monkeypatch):
    """The last of each kind is not full. Programs of all heads, of some, and of one each."""
    monkeypatch.setattr(launches, "THREADS", 8)
    monkeypatch.setattr(launches, "NUMBERS", 16)
    rope = bearing.Rope(head_dim=8, rotary_dim=6, pairing=pairing)
    shapes = [(2, 5, heads, 8) if order == "heads together" else (2, heads, 5, 8) for heads in (7, 3)]
    q, k = (torch.randn(shape) for shape in shapes)
    layout = "bthd" if order == "heads together" else "bhtd"
    for programs, rows in ((1, 8), (1, 0), (30, 8)):
        monkeypatch.setattr(launches, "PROGRAMS", programs)
        kernels._recipe.cache_clear()
        for x, y in zip(
            (q, k), bt.rotate(q.to(device), k.to(device), rope=bt.Rope(rope, rows), layout=layout), strict=True
        ):
            same(y, library(x, rope, 0, layout))
            one = library(x.transpose(1, 2), rope, 0, "bhtd" if layout == "bthd" else "bthd")
            same(y, one.transpose(1, 2))


def test_plans_fill_a_device_and_keep_tiles_whole():
    """All heads of a token where heads lie together, sixteen tokens of a head where tokens do, programs enough in any case."""
    plan = lambda time, together, cosines="looked up", element=2, batch=2: launches.Plan.of(
        64, batch, time, (32, 8, 0), together, cosines, element
    )
    rows = launches.NUMBERS // 64
    together, apart, wide = plan(4096, True), plan(4096, False), plan(4096, True, element=4)
    assert (together.tokens, together.tile, together.heads, together.shared) == (1, rows, 32, True)
    assert (apart.tokens, apart.tile, apart.heads, apart.shared) == (rows, 1, launches.HEADS, False)
    assert (wide.tokens, wide.tile, wide.heads, wide.shared) == (launches.THREADS // 64, 8, launches.HEADS, False)
    assert all(plan(4096, order, "computed").shared for order in (True, False))
    for one in (
        together,
        apart,
        wide,
        plan(1, True, batch=64),
        plan(1, False, "computed", batch=1),
        plan(3, True, "fixed point"),
    ):
        assert one.tokens * one.tile * one.pairs <= launches.NUMBERS and one.warps in (1, 2, 4)
        assert one.programs >= launches.PROGRAMS or one.heads == 1


@pytest.mark.parametrize("rows", [0, 64])
def test_no_heads_beside_some(rows, device):
    """A program that turns queries and keys has both."""
    rope = bearing.Rope(head_dim=8, pairing="half")
    q, k = torch.randn(2, 3, 0, 8, dtype=torch.bfloat16), torch.randn(2, 3, 2, 8, dtype=torch.bfloat16)
    for pair in ((q, k), (k, q)):
        turned = bt.rotate(*(x.to(device) for x in pair), rope=bt.Rope(rope, rows), layout="bthd")
        for x, y in zip(pair, turned, strict=True):
            same(y, library(x, rope, 0, "bthd"))


# A head of 6 in a kernel whose blocks are powers of two; a window in the middle; one pair.
SHAPES = {
    "odd": {"head_dim": 6},
    "one pair": {"head_dim": 2},
    "first": {"head_dim": 16, "rotary_dim": 6},
    "last": {"head_dim": 10, "rotary_dim": 4, "part": bearing.RotaryPart(where="last")},
    "window": {"head_dim": 16, "rotary_dim": 6, "part": bearing.RotaryPart(where="window", begin=3)},
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_parts_and_odd_sizes(name, pairing, device):
    rope = bearing.Rope(pairing=pairing, **SHAPES[name])
    x = torch.randn(1, 2, 3, rope.head_dim)
    same(bt.rotate(x.to(device), rope=bt.Rope(rope), positions=7), library(x, rope, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_positions_to_the_end_of_their_range(dtype, device):
    rope = bearing.Rope(head_dim=32, pairing="half")
    x = torch.randn(1, 1, 9, 32, dtype=dtype)
    # So many radians are so near a multiple of π that the last of the three doubles decides their sine, which alone is
    # the first element of the turned pair (0, v).
    x[..., 0] = 0
    at = torch.tensor([0, 1, -1, 1_068_966_896, 2**24 + 1, -(2**31), 2**31, 2**31 - 1, 65_537])
    same(bt.rotate(x.to(device), rope=bt.Rope(rope), positions=at.to(device)), library(x, rope, at))


def test_positions_of_each_sequence_and_reals(device):
    rope = bearing.Rope(head_dim=16, pairing="interleaved")
    x = torch.randn(2, 1, 4, 16)
    whole = torch.randint(0, 100_000, (2, 4))
    for at in (whole, whole.int(), whole.double() / 7, (whole / 7).float()):
        same(bt.rotate(x.to(device), rope=bt.Rope(rope), positions=at.to(device)), library(x, rope, at.double()))


@pytest.mark.parametrize("factor", [1.0, 0.1 * math.log(40) + 1])
def test_as_float32_keeps_the_order_that_models_were_trained_with(factor, device):
    rope = bearing.Rope(head_dim=16, pairing="half", attention_factor=factor)
    x = torch.randn(1, 2, 6, 16)
    table = bearing.RopeTable(rope, 8, angles="as_float32")
    same(bt.rotate(x.to(device), rope=bt.Rope(rope, angles="as_float32"), positions=99_999), library(x, table, 99_999))


@pytest.mark.parametrize(
    "axes",
    [bearing.RopeAxes.sections([1, 2, 3]), bearing.RopeAxes.interleaved([2, 2, 2]), BLOCKS],
    ids=["sections", "interleaved", "blocks"],
)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_coordinates(axes, pairing, device):
    rope = bearing.Rope(head_dim=12, pairing=pairing, axes=axes)
    x = torch.randn(2, 1, 4, 12)
    at = torch.randint(0, 500, (2 if axes is BLOCKS else 3, 2, 4))
    same(bt.rotate(x.to(device), rope=bt.Rope(rope), positions=at.to(device)), library(x, rope, at))
    same(bt.rotate(x.to(device), rope=bt.Rope(rope), positions=at[0].to(device)), library(x, rope, at[0]))


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_layouts_and_strides(layout, device):
    rope, shape = bearing.Rope(head_dim=8, pairing="half"), (2, 3, 4, 8)
    views = [
        torch.randn(shape).transpose(1, 2).contiguous().transpose(1, 2),
        torch.randn(2, 3, 4, 24)[..., 8:16],
        torch.randn(2, 3, 8, 8)[:, :, ::2],
        torch.randn(2, 3, 8, 4).transpose(2, 3),
        torch.randn(1, 3, 4, 8).expand(shape),
    ]
    for x in views:
        there = torch.empty_strided(x.shape, x.stride(), device=device).copy_(x) if x.stride(0) else x.to(device)
        y = bt.rotate(there, rope=bt.Rope(rope), layout=layout)
        same(y, library(x, rope, 0, layout))
        assert (
            y.stride()
            == torch.ops.bearing.rotate([x.to("meta")], None, 0, bt.Rope(rope).table, layout, False, None, None)[
                0
            ].stride()
        )


def test_fewer_axes_and_no_tokens(device):
    rope = bearing.Rope(head_dim=8, pairing="half")
    for shape in [(5, 8), (3, 5, 8), (2, 0, 5, 8), (2, 3, 0, 8), (0, 3, 5, 8)]:
        x = torch.randn(shape)
        same(bt.rotate(x.to(device), rope=bt.Rope(rope)), library(x, rope, 0))


def test_three_tensors_of_two_types(device):
    rope = bearing.Rope(head_dim=8, pairing="half")
    xs = [torch.randn(1, 2, 3, 8), torch.randn(1, 1, 3, 8).bfloat16(), torch.randn(1, 1, 3, 8).bfloat16()]
    for x, y in zip(xs, bt.rotate(*(x.to(device) for x in xs), rope=bt.Rope(rope)), strict=True):
        same(y, library(x, rope, 0))


def test_given_tables(device, monkeypatch):
    rope = bearing.Rope(head_dim=8, pairing="half")
    cos, sin = torch.rand(6, 4), torch.rand(6, 4)
    table = bearing.RopeTable.from_cos_sin(rope, cos, sin)
    x = torch.randn(1, 2, 4, 8)
    at = torch.tensor([5, 0, 3, 3])
    same(bt.rotate(x.to(device), rope=table, positions=at.to(device)), library(x, table, at))
    same(bt.rotate(x.to(device), rope=table, positions=2), library(x, table, 2))
    for wrong, got in [
        (3, 6), (-1, -1), (torch.tensor([0, 6, 5, 1]), 6), (torch.tensor([[0, 1, 2, -1]]), -1),
        (torch.tensor([0, 1.5, 3, 2]), 1.5), (torch.tensor([0, 1, math.nan, 2]), "nan"),
        (torch.tensor([0, 1234567, 3, 2]), 1234567), (-1234567, -1234567),
    ]:  # fmt: skip
        text = rf"^\[rotate\] positions: must be a position of the given table, which has 0 to 5, got {got}$"
        with pytest.raises(bearing.RangeError, match=text):
            bt.rotate(x.to(device), rope=table, positions=wrong)
    with torch.device("meta"):  # the default, which no position is made on
        same(bt.rotate(x.to(device), rope=table, positions=2), library(x, table, 2))
    if device == "cpu":  # as on a device, whose numbers nobody looks at
        monkeypatch.setattr(kernels, "_check_rows", lambda *_: None)
    beyond = bt.rotate(x.to(device), rope=table, positions=torch.tensor([0, 6, -1, 1]).to(device)).cpu()
    assert beyond[:, :, [1, 2]].isnan().all() and not beyond[:, :, [0, 3]].isnan().any()


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_the_backward_is_the_transpose(pairing, device):
    rope = bearing.Rope(head_dim=8, rotary_dim=6, pairing=pairing)
    x = torch.randn(1, 2, 3, 8)
    there = x.to(device).requires_grad_()
    y = bt.rotate(there, rope=bt.Rope(rope), positions=100)
    d_y = torch.randn(1, 2, 3, 8)
    given = d_y.to(device).requires_grad_()
    (d_x,) = torch.autograd.grad(y, there, given, create_graph=True)
    same(d_x, library(d_y, rope, 100, transposed=True))
    (again,) = torch.autograd.grad(d_x, given, x.to(device))  # whose own backward is the rotation again
    same(again, library(x, rope, 100))


def test_gradcheck_and_opcheck(device):
    rope = bt.Rope(bearing.Rope(head_dim=4, pairing="half"))
    x = torch.randn(1, 1, 2, 4, dtype=torch.float64, device=device, requires_grad=True)
    torch.autograd.gradcheck(lambda x: bt.rotate(x, rope=rope, positions=5), x, fast_mode=True)
    arguments = ([x], None, 5, rope.table, "bhtd", False, None, None)
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.bearing.rotate.default, arguments, test_utils=utilities)


def test_autocast_changes_nothing(device):
    rope = bearing.Rope(head_dim=8, pairing="half")
    x = torch.randn(1, 1, 2, 8)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = bt.rotate(x.to(device), rope=bt.Rope(rope))
    same(y, library(x, rope, 0))


def test_compiled_calls(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    q, k = torch.randn(1, 2, 3, 8, device=device, requires_grad=True), torch.randn(1, 1, 3, 8, device=device)

    def step(q, k):
        q, k = rope(q, k, 7)
        return (q.sum(1) * k.sum(1)).sum()

    whole = torch.compile(step, fullgraph=True, backend="inductor" if device != "cpu" else "aot_eager")
    (wanted,) = torch.autograd.grad(step(q, k), q)
    (found,) = torch.autograd.grad(whole(q, k), q)
    assert torch.equal(found, wanted)


def test_exported_calls(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    q, k, at = torch.randn(2, 2, 3, 8), torch.randn(2, 1, 3, 8), torch.randint(0, 900, (2, 3))
    given = tuple(x.to(device) for x in (q, k, at))
    for x, y in zip((q, k), torch.export.export(rope, given).module()(*given), strict=True):
        same(y, library(x, rope.spec, at))


def test_transformations_see_through(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    x, d = torch.randn(2, 2, 3, 8, device=device), torch.randn(2, 2, 3, 8, device=device)
    turn = lambda x: bt.rotate(x, rope=rope, positions=4)
    same(torch.func.vmap(turn)(x), library(x, rope.spec, 4))
    same(torch.func.vjp(turn, x)[1](d)[0], library(d, rope.spec, 4, transposed=True))
    same(torch.func.jvp(turn, (x,), (d,))[1], library(d, rope.spec, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_table_is_on_the_device_once(dtype, device):
    geometry.geometry.cache_clear()
    x = torch.randn(1, 2, 3, 8).to(device, dtype)
    bt.rotate(x, rope=bt.Rope(bearing.Rope(head_dim=8, pairing="half")))
    assert geometry.geometry.cache_info().misses == 1


def test_a_model_with_replaced_rotary(device, monkeypatch):
    transformers = pytest.importorskip("transformers")
    from bearing.torch.hugging_face import replace_rotary

    config = transformers.LlamaConfig(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval().to(device)
    ids = torch.arange(4, device=device)[None]
    own = model(ids).logits
    counted, run = [], launches.Launch.run
    monkeypatch.setattr(launches.Launch, "run", lambda *args, **named: counted.append(1) or run(*args, **named))
    ours = replace_rotary(model)(ids).logits
    assert counted
    ours.sum().backward()
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-16 * own.abs().max().item())


def test_wrong_calls_say_what_must_hold(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    x = torch.randn(2, 1, 3, 8, device=device)
    for wrong, error, text in [
        ((x[..., :6], None), bearing.ShapeError, "head_dim 8"),
        ((x.int(), None), TypeError, "float64, float32, bfloat16 or float16"),
        ((x, torch.zeros(2, 4, dtype=torch.long)), bearing.ShapeError, "must have 3 tokens, got 4"),
        ((x, torch.zeros(3, 3, dtype=torch.long)), bearing.ShapeError, "must have 2 sequences, got 3"),
        ((x, torch.zeros(2, 2, 3, dtype=torch.long)), bearing.ShapeError, "must have 1 axis, got 2"),
        ((x, 2**31 - 1), bearing.RangeError, r"must be from -2\^31 to 2\^31"),
        ((x, torch.tensor([0, 1, 2**31 + 1])), bearing.RangeError, r"must be from -2\^31 to 2\^31"),
    ]:
        with pytest.raises(error, match=text):
            bt.rotate(wrong[0], rope=rope, positions=wrong[1])
    with pytest.raises(
        bearing.ShapeError, match="must have 5 tokens, got 3"
    ):  # nor does the second tensor read past them
        bt.rotate(x, torch.randn(2, 1, 5, 8, device=device), rope=rope, positions=torch.arange(3).to(device))


@needs_device
def test_a_position_on_the_device_out_of_range_makes_nan(device):
    rope = bt.Rope(bearing.Rope(head_dim=8, pairing="half"))
    y = bt.rotate(torch.randn(1, 1, 2, 8, device=device), rope=rope, positions=torch.tensor([0, 2**40], device=device))
    assert not y[:, :, 0].isnan().any() and y[:, :, 1].isnan().all()


def test_elements_may_lie_far_apart(device, tmp_path):
    """Past 2^31 elements from the first to the last of a head."""
    step, dim = 2**30, 4
    size = (dim - 1) * step + 1
    if device == "cpu":  # a file in which only what is written takes room
        whole = torch.from_file(str(tmp_path / "rows"), shared=True, size=size, dtype=torch.float16)
    else:
        whole = torch.empty(size, dtype=torch.float16, device=device)
    far = whole.as_strided((1, 1, 1, dim), (1, 1, 1, step))
    near = torch.randn(1, 1, 1, dim).to(device, torch.float16)
    weight = torch.rand(dim, device=device)
    part = bearing.RotaryPart(where="window", begin=1)
    for pairing in ("half", "interleaved"):
        rope = bt.Rope(bearing.Rope(head_dim=dim, rotary_dim=2, pairing=pairing, part=part), 8)
        far.copy_(near)
        want = bt.rotate(near, rope=rope, positions=5)
        assert torch.equal(bt.rotate(far, rope=rope, positions=5), want)
        normed = [bt.norm_rotate(x, weight, rope=rope, eps=1e-6, positions=5) for x in (far, near)]
        assert torch.equal(*normed)
        assert torch.equal(bt.rotate_(far, rope=rope, positions=5), want)
