"""Attention in Triton gives what the library gives on the CPU, forward and backward, in every mask, and the same bits on
every run."""

from __future__ import annotations

import contextlib
import json
import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing import _core
from bearing.torch.encoding import traits_of
from bearing.torch.triton import backward as backward_calls
from bearing.torch.triton import forward as forward_calls
from bearing.torch.triton import plan as plan_calls
from bearing.torch.triton import runs_kernel
from bearing.torch.triton.forward import forward
from bearing.torch.triton.options import Options
from bearing.torch.triton.start import Started, is_wide
from calls import (
    BANDS,
    DIM,
    HEADS,
    HOLES,
    K_LEN,
    MASKS,
    Q_LEN,
    WIDE_ROUNDING,
    Reference,
    agree,
    close,
    doubled,
    padded,
    quick,
    rows,
    small_tiles,
)
from place import INTERPRETED

__all__ = ["quick", "small_tiles"]  # fixtures


def t5(heads=HEADS):
    module = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="bidirectional"), heads, 16)
    torch.nn.init.normal_(module.table)
    return module


@pytest.mark.parametrize("name", MASKS)
def test_every_mask(name, device):
    agree(device, t5(), slope=1, **MASKS[name])


def of_two(name):
    """What hides keys, for two sequences."""
    options = dict(HOLES[name])
    if "key_mask" in options:
        options["key_mask"] = options["key_mask"].repeat(2, 1)
    if "visible" in options:
        options["visible"] = options["visible"].expand(2, HEADS, -1, -1)
    return options


@pytest.mark.parametrize("name", HOLES)
def test_what_hides_keys(name, device):
    agree(device, t5(), inputs=rows(device, batch=2), slope=1, **of_two(name))


@pytest.mark.parametrize("place", range(len(MASKS)))
def test_bands_beside_every_mask(place, device):
    """By position, whatever the mask goes by: two of them beside each."""
    options = [*MASKS.values()][place]
    for band in (BANDS[place % 5], BANDS[(place + 2) % 5]):
        agree(device, t5(), slope=1, band=band, **options)


@pytest.mark.parametrize("name", HOLES)
def test_bands_beside_what_hides_keys(name, device):
    band = BANDS[[*HOLES].index(name) % 3]
    agree(device, t5(), inputs=rows(device, batch=2), slope=1, band=band, **of_two(name))


@pytest.mark.parametrize("band", BANDS, ids=str)
def test_bands_by_positions_of_tokens(band, device):
    """In any order, and before 0."""
    q_at, k_at = torch.randperm(Q_LEN) - 9, torch.stack([torch.randperm(K_LEN), torch.arange(K_LEN) - 12])
    on_axes = torch.stack([k_at // 2, k_at % 2])
    fixed, both = t5().requires_grad_(False), rows(device, batch=2)
    agree(device, inputs=both, mask="none", band=band, q_positions=q_at, k_positions=k_at)
    agree(device, inputs=both, mask="causal_bottom_right", window=(7, 0), band=band, k_positions=k_at)
    there = {"q_positions": q_at, "k_positions": k_at, "window": (9, -1), "mask": "causal"}
    agree(device, fixed, inputs=both, band=band, **there)
    agree(device, fixed, inputs=both, band=band, **(there | {"q_positions": q_at // 2, "k_positions": on_axes}))


def test_a_band_has_chunks_of_any_length(device):
    for chunk, first in ((2**62, 5), (2**62, -6), (2**33, -(2**31)), (1, 4)):
        band, at = bearing.DistanceBand(begin=0, end=1, chunk=chunk), {"q_positions": first + 3, "k_positions": first}
        agree(device, mask="none", band=band, **at)
    far = bearing.DistanceBand(begin=-(2**63), end=2**63 - 1)
    agree(device, mask="none", band=far)
    agree(device, mask="none", band=bearing.DistanceBand())


def test_wrong_bands_are_refused_in_the_library_s_words(device):
    q, k, v = (x.detach() for x in rows(device))
    for wrong in ({"begin": 3, "end": 1}, {"end": 1, "chunk": -4}):
        band = bearing.DistanceBand(**wrong)
        with pytest.raises(bearing.RangeError) as want:
            bearing.attention(*map(doubled, (q, k, v)), mask="none", band=band)
        for name, call in (("attention", bt.attention), ("plan", bt.plan)):
            with pytest.raises(bearing.RangeError, match=rf"^\[{name}\] band: ") as found:
                call(q, k, v, mask="none", band=band)
            assert str(found.value).split(" ", 1)[1] == str(want.value).split(" ", 1)[1]


def test_positions_of_tokens(device):
    """Tensors of positions, in any order: masks and distances go by them."""
    q_at, k_at = torch.randperm(Q_LEN), torch.stack([torch.randperm(K_LEN), torch.arange(K_LEN)])
    module = t5().requires_grad_(False)
    both = rows(device, batch=2)
    agree(device, module, inputs=both, mask="causal", window=(9, -1), q_positions=q_at, k_positions=k_at)
    agree(device, module, mask="none", q_positions=q_at, k_positions=k_at[:1])


def test_what_has_no_limit_is_seen_from_anywhere(device):
    """Positions may be 2^32 apart."""
    least, most = -(2**31), 2**31 - K_LEN
    behind = {"mask": "causal", "q_positions": most, "k_positions": least}
    ahead = {"mask": "none", "window": (3, -1), "q_positions": least, "k_positions": most}
    for q_len in (1, Q_LEN):
        for options in (behind, behind | {"q_positions": torch.arange(most, most + q_len)}, ahead):
            agree(device, inputs=rows(device, q_len=q_len), **options)


def test_positions_on_several_axes(device):
    """A causal mask goes by all of them, in any order of tokens; a window and distances by the first one."""
    q_at, k_at = (torch.randint(0, 3, (3, 2, count)) for count in (Q_LEN, K_LEN))
    both = rows(device, batch=2)
    agree(device, inputs=both, mask="causal", q_positions=q_at, k_positions=k_at)
    agree(device, inputs=both, mask="causal", q_positions=q_at, k_positions=k_at[:1, :1])
    agree(device, inputs=both, mask="causal", q_positions=q_at)
    fixed = t5().requires_grad_(False)
    agree(device, fixed, inputs=both, mask="none", window=(1, 1), q_positions=q_at, k_positions=k_at)
    for k_of in (k_at, k_at[:1, :1]):
        there = {"mask": "causal", "q_positions": q_at, "k_positions": k_of}
        agree(device, fixed, inputs=both, **there)
        agree(device, inputs=both, window=(1, 5), **there)
    agree(device, fixed, inputs=both, window=(0, -1), mask="causal", q_positions=q_at[:, :1], k_positions=k_at)
    text = r"^\[attention\] k_positions: must have as many axes as q_positions, 2, or one for a causal mask, got 3$"
    with pytest.raises(bearing.ShapeError, match=text):
        bt.attention(*both, mask="causal", q_positions=q_at[:2].to(device), k_positions=k_at.to(device))


def test_a_patch_sees_those_before_it(device):
    """A picture of 2 x 3 patches between words, as Qwen2-VL counts them: all at one time."""
    at = torch.tensor([[0, 1, 2, 2, 2, 2, 2, 2, 5], [0, 1, 2, 2, 2, 3, 3, 3, 5], [0, 1, 2, 3, 4, 2, 3, 4, 5]])
    q, k, v = (x[:, :, :9].detach() for x in rows(device, q_len=9, k_len=9))
    found = bt.attention(q, k, v, mask="causal", q_positions=at[:, None].to(device), k_positions=at[:, None].to(device))
    assert torch.equal(found, bt.attention(q, k, v, mask="causal_top_left"))


def test_caps_sinks_and_scales(device):
    agree(
        device, t5(), slope=1, mask="causal_bottom_right", soft_cap=1.5, scale=0.7, sinks=torch.tensor([0.5, -math.inf])
    )
    agree(device, mask="causal", sinks=torch.tensor([2.0, 0.1]))  # without a bias


def test_sinks_may_have_any_stride(device):
    q, k, v = (x.detach() for x in rows(device))
    of_layers = torch.randn(HEADS, 3, device=device)
    for sinks in (of_layers[:, 1], of_layers[:1, 2].expand(HEADS)):
        want = bt.attention(q, k, v, mask="causal", sinks=sinks.contiguous())
        assert torch.equal(bt.attention(q, k, v, mask="causal", sinks=sinks), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_types_of_16_bits(dtype, device):
    results = agree(device, t5(), inputs=rows(device, dtype), slope=1, mask="causal", q_positions=8, k_positions=0)
    assert results[0].dtype is dtype and results[1].dtype is torch.float32
    q, k, v = rows(device, dtype)
    wide = bt.attention(q, k, v, mask="none", out_dtype=torch.float32)
    want = bearing.attention(doubled(q), doubled(k), doubled(v), mask="none")
    assert wide.dtype is torch.float32
    close(
        "out", wide, want, doubled(v).abs().max(), 2.0**-8 if dtype is torch.bfloat16 else 2.0**-11
    )  # weights are rounded


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_float32_results_of_16_bits(dtype, device):
    q, k, v = rows(device, dtype)
    out, lse = bt.attention(q, k, v, mask="none", out_dtype=torch.float32, return_lse=True)
    d_out, d_lse = torch.randn_like(out), torch.randn_like(lse)
    found = torch.autograd.grad((out, lse), [q, k, v], (d_out, d_lse))
    want = Reference(q, k, v, None, {"mask": "none"}, d_out, d_lse)
    for (name, (wanted, size)), one in zip(want.grads.items(), found, strict=True):
        assert one.dtype is dtype
        close(name, one, wanted, size, WIDE_ROUNDING[dtype])


def kerple():
    return bt.Kerple(bearing.Kerple(form="logarithmic"), 4)


TILES = {
    "window": (torch.bfloat16, 64, kerple, {"mask": "causal", "window": (140, -1), "q_positions": 60, "k_positions": 0}),
    "packed": (
        torch.float16, 64, lambda: bt.Alibi(4).requires_grad_(),
        {"mask": "causal_bottom_right", "q_starts": torch.tensor([0, 20, 150]), "k_starts": torch.tensor([0, 25, 210])},
    ),
    "lengths": (torch.bfloat16, 24, lambda: None, {"mask": "causal_bottom_right", "k_lengths": torch.tensor([190])}),
    "masks of keys": (
        torch.bfloat16, 24, lambda: bt.Alibi(4).requires_grad_(),
        {"mask": "causal", "q_positions": 60, "k_positions": 0, "key_mask": torch.arange(210)[None] % 7 > 1},
    ),
    "caps and sinks": (
        torch.float16, 128, lambda: None,
        {"mask": "none", "soft_cap": 2.0, "sinks": torch.tensor([0.5, -1.0, 2.0, -math.inf])},
    ),
}  # fmt: skip


@pytest.mark.skipif(INTERPRETED, reason="its tiles are small")
@pytest.mark.parametrize("name", TILES)
def test_several_tiles_of_16_bits(name, device):
    """Whole tiles are copied while others are worked on."""
    dtype, dim, made, options = TILES[name]
    shapes = (4, 150, dim), (2, 210, dim), (2, 210, dim)
    inputs = [torch.randn(1, *shape).to(device, dtype).requires_grad_() for shape in shapes]
    agree(device, made(), inputs=inputs, **options)


def test_each_head_has_its_keys(device):
    agree(device, t5(4), inputs=rows(device, heads=4, kv_heads=2), slope=1, mask="causal")


def biases():
    """Every encoding of the catalog that is a bias by distance, as a module with numbers that are not 0."""
    made = {
        "Alibi": lambda: bt.Alibi(HEADS),
        "Alibi, learned": lambda: bt.Alibi(HEADS).requires_grad_(),
        "Kerple, logarithmic": lambda: bt.Kerple(bearing.Kerple(form="logarithmic"), HEADS),
        "Kerple, power": lambda: bt.Kerple(bearing.Kerple(form="power"), HEADS),
        "Retention": lambda: bt.Fixed(bearing.RetentionBias(bearing.Retention.published(HEADS))),
        "Sandwich": lambda: bt.Sandwich(bearing.Sandwich(heads=HEADS, dim=6)),
        "T5Bias": t5,
    }
    return made


@pytest.mark.parametrize("name", biases())
def test_every_bias_by_distance(name, device):
    module = biases()[name]()
    agree(device, module, mask="causal", q_positions=K_LEN - Q_LEN, k_positions=0)


def test_no_bias_by_distance_is_left_out():
    by_distance = (
        {k for k in _core._kinds() if traits_of(k)["form"] == "distance"} if hasattr(_core, "_kinds") else set()
    )
    from bearing._modules import modules

    by_distance |= {info.kind for info in modules() if traits_of(info.kind)["form"] == "distance"}
    tried = {json.loads(make().encoding().form)["kind"] for make in biases().values()}
    assert tried == by_distance


def test_layouts_strides_and_missing_batches(device):
    q, k, v = (x.detach() for x in rows(device, batch=2))
    bias = bt.Alibi(HEADS).to(device)
    want = bt.attention(q, k, v, bias, mask="causal")
    turned = bt.attention(*(x.transpose(1, 2) for x in (q, k, v)), bias, mask="causal", layout="bthd")
    assert turned.is_contiguous() and torch.equal(turned.transpose(1, 2), want)
    spread = [torch.cat([x, x], -1)[..., ::2] for x in (q, k, v)]
    dense = [x.contiguous() for x in spread]
    assert torch.equal(bt.attention(*spread, bias, mask="causal"), bt.attention(*dense, bias, mask="causal"))
    assert torch.equal(bt.attention(q[0], k[0], v[0], bias, mask="causal"), want[0])


@pytest.mark.parametrize(("layout", "q_len"), [("bhtd", Q_LEN), ("bthd", 1)])
def test_logarithms_of_sums_have_the_batch_of_rows(layout, q_len, device):
    """None where rows have three axes, as on the CPU and as compilers are told."""
    inputs = [x.detach()[0] for x in rows(device, q_len=q_len)]
    inputs = [(x if layout == "bhtd" else x.transpose(0, 1)).requires_grad_() for x in inputs]
    sinks = torch.zeros(HEADS, device=device, requires_grad=True)
    call = lambda *given: bt.attention(*given, sinks=sinks, mask="none", layout=layout, return_lse=True)
    out, lse = call(*inputs)
    assert out.dim() == 3 and lse.shape == (HEADS, q_len)
    grads = torch.autograd.grad((out, lse), [*inputs, sinks], (torch.ones_like(out), torch.ones_like(lse)))
    whole = [x.detach()[None].requires_grad_() for x in inputs]
    out, lse = call(*whole)
    want = torch.autograd.grad((out, lse), [*whole, sinks], (torch.ones_like(out), torch.ones_like(lse)))
    assert all(torch.equal(x, y.view(x.shape)) for x, y in zip(grads, want, strict=True))


def test_rows_are_turned_first(device):
    table = bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 64)
    agree(device, [bearing.RotaryRows(table)], mask="causal", q_positions=8, k_positions=0)


@pytest.mark.parametrize("soft_cap", [0.0, 1.5])
def test_what_nobody_sees_may_hold_anything(soft_cap, device):
    lengths = torch.tensor([20, 9], device=device)
    options = {"mask": "causal_bottom_right", "window": (20, 0), "k_lengths": lengths, "soft_cap": soft_cap}
    bias = t5().to(device)

    def results(fill):
        torch.manual_seed(5)
        q, k, v = rows(device, batch=2)
        with torch.no_grad():
            for b, length in enumerate((20, 9)):
                k[b, :, length:], v[b, :, length:] = fill, fill
                q[b, :, : Q_LEN - length] = fill  # with the mask they see no key
        out, lse = bt.attention(q, k, v, bias, return_lse=True, **options)
        seen = torch.where(lse.isinf()[..., None], fill, torch.ones_like(out))
        grads = torch.autograd.grad(out, [q, k, v, bias.table], seen)
        return [out, lse, *grads]

    for found, wanted in zip(results(math.nan), results(0.0), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    "options", [{}, {"soft_cap": 1.5}, {"soft_cap": 1.5, "sinks": torch.tensor([0.5, -math.inf])}], ids=str
)
def test_queries_that_masks_leave_no_key_may_hold_anything(options, device):
    inputs, masks = padded(device)
    agree(device, t5(), inputs=inputs, slope=1, **masks, **options)
    at = torch.stack([torch.arange(K_LEN) - count for count in (7, 18)])
    placed = masks | {"q_positions": at[:, :Q_LEN], "k_positions": at}
    agree(device, t5().requires_grad_(False), inputs=inputs, slope=1, **placed, **options)


def test_the_same_bits_in_any_order_of_programs(device, monkeypatch):
    """Each sum is taken by one program. With atomics, another order would give other bits."""
    q, k, v = rows(device, batch=2)
    bias = t5().to(device)

    def results():
        out = bt.attention(q, k, v, bias, mask="causal", q_positions=8, k_positions=0)
        return [out, *torch.autograd.grad(out.square().sum(), [q, k, v, bias.table])]

    first = results()
    for _ in range(1 if INTERPRETED else 100):
        assert all(torch.equal(x, y) for x, y in zip(first, results(), strict=True))
    if INTERPRETED:
        from triton.runtime import interpreter

        place = interpreter.interpreter_builder.set_grid_idx
        backwards = lambda x, y, z: place(interpreter.interpreter_builder.grid_dim[0] - 1 - x, y, z)
        monkeypatch.setattr(interpreter.interpreter_builder, "set_grid_idx", backwards)
        assert all(torch.equal(x, y) for x, y in zip(first, results(), strict=True))


def test_nothing_to_do(device):
    for q_len, k_len in ((0, 5), (5, 0)):
        q, k, v = rows(device, q_len=q_len, k_len=k_len)
        out = bt.attention(q, k, v, t5().to(device), mask="none")
        grads = torch.autograd.grad(out.sum(), [q, k, v])
        assert not out.any() and not any(g.any() for g in grads)


def test_what_does_not_fit_is_refused(device):
    q, k, v = rows(device, batch=2)
    for wrong, words in (
        ({"sinks": torch.zeros(3, device=device)}, r"sinks: must have shape \[2\], got \[3\]"),
        ({"key_mask": torch.ones(2, 3, dtype=torch.bool, device=device)}, r"key_mask: must have shape \[2, 29\]"),
        ({"k_lengths": torch.zeros(3, dtype=torch.int64, device=device)}, r"k_lengths: must have shape \[2\]"),
        ({"soft_cap": -1.0}, "soft_cap: must be at least 0, got -1.0"),
        ({"q_starts": torch.tensor([0, 21], device=device)}, "q_starts, k_starts: must both be given"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            bt.attention(q, k, v, mask="none", **wrong)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_result_of_another_type_is_refused_in_the_library_s_words(dtype, device):
    q, k, v = (x.detach() for x in rows(device, dtype))
    for wrong in (torch.float16, torch.float64):
        with pytest.raises(TypeError) as want:
            _core.attention(*(x.cpu() for x in (q, k, v)), [], mask="none", out_dtype=wrong)
        for q_len in (1, Q_LEN):
            with pytest.raises(TypeError) as found:
                bt.attention(q[:, :, :q_len], k, v, mask="none", out_dtype=wrong)
            assert str(found.value) == str(want.value)


def test_rows_on_another_device_are_refused(device):
    """The meta device plays the other one."""
    rest = "[]", Options(*[None] * 9, "none", (-1, -1), 0, 0, None, 0.0, "bhtd")
    given = dict(zip("qkv", (x.detach() for x in rows(device)), strict=True))
    for name in "kv":
        q, k, v = (given | {name: given[name].to("meta")}).values()
        words = rf"\[attention\] {name}: must be on the device of q, {given['q'].device}, got meta"
        with pytest.raises(TypeError, match=words):
            forward(q, k, v, [], *rest, torch.float32)
    with pytest.raises(TypeError, match="sinks: must be on the device of q"):
        options = rest[1]._replace(sinks=torch.zeros(HEADS, device="meta"))
        forward(*given.values(), [], "[]", options, torch.float32)


def test_a_plan_says_which_path_a_call_takes():
    q = torch.empty(1, HEADS, 4, 8, device="meta")
    path = lambda *encodings, **options: bt.plan(q, q, q, list(encodings), mask="causal", **options)
    assert path(bt.Alibi(HEADS)).path == path().path == "triton"
    fire = path(bt.Fire(bearing.Fire(mlp_width=3), HEADS))
    assert fire.path == "flex_attention" and "FireBias is of the form per_query" in fire.reason
    assert path(bt.Shaw(bearing.Shaw(clip=3), 8)).path == "triton"
    assert (
        path(bt.Shaw(bearing.Shaw(clip=3), 8), q_positions=torch.arange(4)).path == "refused"
    )  # has a table of values
    assert path(bt.Cope(bearing.Cope(max_pos=4), 8)).path == "refused"
    gates = torch.zeros(1, HEADS, 4)
    assert path(bearing.ForgettingBias(gates)).path == "flex_attention"
    assert path(q_positions=torch.rand(4)).path == "flex_attention"
    assert path(block_table=torch.zeros(1, 1, dtype=torch.int64)).path == "triton"
    assert (
        path(bt.Fire(bearing.Fire(mlp_width=3), HEADS), block_table=torch.zeros(1, 1, dtype=torch.int64)).path
        == "refused"
    )
    assert path(t5(), q_positions=torch.arange(4)).path == "flex_attention"
    assert path(t5().requires_grad_(False), q_positions=torch.arange(4)).path == "triton"
    wide = torch.empty(1, 1, 4, 512, device="meta")
    assert bt.plan(wide, wide, wide, mask="none").path == "refused"
    half = q.double()
    assert "float64" in bt.plan(half, half, half, mask="none").reason


def test_a_plan_refuses_gpus_that_are_too_old(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for capability, why in (((7, 5), "Triton needs compute capability 8.0, and cuda:3 has 7.5"), ((8, 0), "")):
        plan_calls.too_old.cache_clear()
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, found=capability: found)
        assert plan_calls.too_old(torch.device("cuda:3")) == why
    monkeypatch.undo()
    plan_calls.too_old.cache_clear()
    assert plan_calls.too_old(torch.device("cpu")) == ""
    q = torch.empty(1, HEADS, 4, 8, device="meta")
    monkeypatch.setattr(plan_calls, "too_old", lambda _: "it is too old")
    found = bt.plan(q, q, q, mask="none")
    assert found.path == "refused" and "The kernels do not take the call: it is too old." in found.reason


def test_tensors_without_numbers_may_be_on_gpus_that_are_not_there():
    from torch._subclasses.fake_tensor import FakeTensorMode

    there = torch.device("cuda", torch.cuda.device_count())
    with FakeTensorMode():
        q = torch.empty(1, HEADS, 4, 8, device=there)
        assert bt.plan(q, q, q, mask="causal").path == "triton"
        out = bt.attention(q, q, q, mask="causal")
    assert out.shape == q.shape and out.device == there


def test_compilers_see_through(device):
    q, k, v = rows(device)
    bias = t5().to(device)

    def loss(q, k, v):
        return bt.attention(q, k, v, bias, mask="causal").square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    leaves = [q, k, v, bias.table]
    whole = [torch.autograd.grad(one(q, k, v), leaves) for one in (compiled, loss)]
    assert all(torch.equal(x, y) for x, y in zip(*whole, strict=True))


def test_all_launches_of_a_call_are_on_its_device(device, monkeypatch):
    """Those of the lines of a bias too, which no cache keeps."""
    inside, seen = [], []

    @contextlib.contextmanager
    def on(tensor):
        inside.append(tensor.device)
        yield
        inside.pop()

    for module in (forward_calls, backward_calls, runs_kernel):
        monkeypatch.setattr(module, "on", on)
    run = Started.run
    monkeypatch.setattr(Started, "run", lambda *args: seen.append(len(inside)) or run(*args))
    bt.attention(*rows(device), t5().to(device), mask="causal", q_positions=8, k_positions=0).sum().backward()
    assert len(seen) > 5 and all(seen)


def test_numbers_of_64_bits_are_told_from_those_of_32():
    assert [is_wide(n) for n in (-(2**31) - 1, -(2**31), 0, 2**31 - 1, 2**31)] == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"layout": "foo"}, "layout: must be"),
        ({"window": (4.0, 0)}, r"window: must be \(before, after\)"),
    ],
)
def test_options_that_are_none_are_refused(wrong, text, device):
    q, k, v = rows(device)
    with torch.no_grad(), pytest.raises((TypeError, ValueError), match=text):
        bt.attention(q[:, :, :1], k, v, **({"mask": "none"} | wrong))
