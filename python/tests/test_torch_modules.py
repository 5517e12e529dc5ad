"""bearing.torch's modules: every encoding with parameters, and attention."""

from __future__ import annotations

import copy
import inspect
import io
import re
from fractions import Fraction
from functools import partial

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch
from bearing import _core
from patches import on_two_axes
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_cases import DIM, HEADS, TIME, Case, cases, qkv, shaken

CASES = cases()
T5 = bearing.T5(direction="causal")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(5)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=CASES, ids=[case.name for case in CASES])
def case(request) -> Case:
    return request.param


def test_gradients_of_inputs_and_parameters_are_those_of_differences(case):
    given = len(case.inputs)
    tensors = (*case.inputs, *case.module.parameters())
    assert torch.autograd.gradcheck(lambda *all_of_them: case.call(*all_of_them[:given]), tensors, fast_mode=True)


def test_every_parameter_gets_a_gradient(case):
    case.module.zero_grad()
    case.call(*case.inputs).square().sum().backward()
    for name, parameter in case.module.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_modules_can_be_copied_and_saved(case):
    file = io.BytesIO()
    torch.save(case.module.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(case.module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(torch.load(file))
    for a, b in zip(case.module.parameters(), other.parameters(), strict=True):
        assert a is not b and torch.equal(a, b)


def test_every_class_with_parameters_is_among_the_cases():
    modules = {name for name in bt.__all__ if isinstance(getattr(bt, name), type)} - {
        "Attention",
        "Encoding",
        "EncodingModule",
        "Fixed",
        "MultiHeadAttention",
        "Plan",
        "RingRefused",
    }
    assert modules == {type(case.module).__name__ for case in CASES}


def of_scores() -> list[tuple[str, str, object]]:
    """Encodings of scores whose parameters are all learned, by name."""
    found = []
    for name, kind, spec in _core._named(HEADS, DIM, 4):
        traits = _core._traits(kind)
        learned = [one["learned"] for one in traits["parameters"].values()]
        if (
            traits["scores"]
            and learned
            and all(learned)
            and kind != "DenseBias"
            and name not in ("alibi", "alibi_shifted", "retention", "lightning")
        ):
            found.append((name, kind, spec))
    return found


@pytest.mark.parametrize(("name", "kind", "spec"), of_scores(), ids=lambda one: str(one)[:24])
def test_any_encoding_of_the_library_is_a_module(name, kind, spec):
    if hasattr(spec, "first_offset"):
        spec = spec.replace(first_offset=-3)
    optional = {p for p, one in _core._traits(kind)["parameters"].items() if one["optional"]}
    without = optional if kind == "TupeBias" and spec.rel_pos_bins == 0 else ()
    sizes = {"heads": HEADS, "dim": DIM, "value_dim": DIM, "q_len": 4, "k_len": 4}
    for parameter, one in _core._traits(kind)["parameters"].items():
        found = zip(one["extents"], _core._extents(kind, spec, parameter, sizes), strict=True)
        sizes |= {extent: 8 for extent, size in found if size is None and extent not in sizes}
    module = shaken(bt.Described(kind, spec, without=without, **sizes))
    on_grid = on_two_axes(name, spec, HEADS, DIM, 4)
    at = bt.window_positions(2, 2) if on_grid else None
    q, k, v = (torch.randn(2, HEADS, 4, DIM, dtype=torch.float64) for _ in range(3))
    bt.attention(q, k, v, module, mask="causal", q_positions=at, k_positions=at).square().sum().backward()
    for parameter in module.parameters():
        assert torch.isfinite(parameter.grad).all()
    again = bt.Described(kind, spec, without=without, **sizes).double()
    again.load_state_dict(module.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), again.parameters(), strict=True))


def test_a_described_module_asks_for_the_sizes_that_it_needs():
    with pytest.raises(TypeError, match=r"^\[KerpleBias\] heads: must be given, as r1 has that extent$"):
        bt.Described("KerpleBias", bearing.Kerple(form="power"))


def test_a_module_says_what_it_is():
    assert "max_distance=128" in repr(bt.T5Bias(bearing.T5(direction="causal"), 2))
    assert "half" in repr(bt.Rope(bearing.Rope(head_dim=8, pairing="half")))
    spec = bearing.Kerple(form="power")
    assert bt.Kerple(spec, 2).spec == spec


def test_kerple_holds_its_parameters_where_the_kernel_is_positive_definite():
    kerple = bt.Kerple(bearing.Kerple(form="power"), 3)
    with torch.no_grad():
        kerple.r1.fill_(-1)
        kerple.r2.fill_(3)
    kerple.clamp()
    assert (kerple.r1 == bearing.Kerple.least).all() and (kerple.r2 == bearing.Kerple.most_power).all()


def test_alibi_starts_at_the_published_slopes():
    assert torch.equal(bt.Alibi(12).slopes, torch.tensor(bearing.Alibi.published(12).slopes))


def test_transformer_xls_rows_are_those_of_bearing_itself():
    spec = bearing.TransformerXL(first_offset=-3, clamp_len=5, direction="bidirectional")
    module = bt.TransformerXL(spec, HEADS, DIM, 12, offsets=12).double()
    d = (
        torch.arange(-3, 9, dtype=torch.float64).clamp(-5, 5)[:, None]
        * 10_000.0 ** (-torch.arange(0, 12, 2) / 12).double()
    )
    expected = torch.cat([d.sin(), d.cos()], 1) @ module.w_r.T
    # Frequencies here were rounded to float32 first: 5 * 2^-24 radians at the most, a dozen terms of 0.02.
    torch.testing.assert_close(module.r().transpose(0, 1).flatten(1), expected, rtol=0, atol=1e-6)


def test_swin_v2s_table_is_that_of_bearing_itself():
    spec = bearing.SwinV2(window=bearing.Swin(height=3, width=4), trained_height=6, trained_width=6)
    module = bt.SwinV2(spec, HEADS, hidden=9).double()
    hidden, out = module.hidden, module.out
    expected = bearing.swin_v2_table(spec, hidden.weight.detach(), hidden.bias.detach(), out.weight.detach())
    torch.testing.assert_close(module.table().detach(), expected, rtol=1e-12, atol=1e-12)


def test_a_bias_called_gives_its_matrix():
    alibi = bt.Alibi(2)
    matrix = alibi(3, 3)
    assert matrix.shape == (2, 3, 3) and matrix[0, 2, 0] == -2 * alibi.slopes[0]


def test_sets_of_rows_are_shared_by_grouped_heads():
    rows = bt.RopeMixed(bearing.RopeMixed(head_dim=DIM, axes=2, pairing="interleaved"), 2)
    at = torch.rand(2, 1, TIME, dtype=torch.float64)
    q, k = torch.randn(1, 4, TIME, DIM), torch.randn(1, 2, TIME, DIM)
    turned, keys = rows(q, k, at)
    for head in range(4):
        alone = torch.stack([k[:, 0], q[:, head]]) if head // 2 else torch.stack([q[:, head], k[:, 1]])
        expected = rows(alone.transpose(0, 1), k, at)[0][:, head // 2]
        assert torch.equal(turned[:, head], expected)
    assert keys.shape == k.shape


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_xpos_turns_as_bearing_itself(dtype):
    spec = bearing.Xpos(rope=bearing.Rope(head_dim=8, pairing="interleaved"), gamma=0.3, scale_base=8)
    table = bearing.XposTable(spec, 16, dtype="float64" if dtype is torch.float64 else "float32")
    q, k = torch.randn(2, 1, 4, 5, 8).to(dtype)
    xpos = bt.Xpos(spec, 16)
    turned = xpos(q, k, 3)
    for one, x, rows in zip(turned, (q, k), (table.q, table.k), strict=True):
        assert one.dtype is dtype and torch.equal(one, bearing.rotate_to(rows, x, 3))
    assert xpos.spec == spec and not list(xpos.parameters())


def test_xpos_of_one_length_has_learned_factors_once():
    scaling = bearing.DynamicNtkScaling(factor=4.0, trained_length=8)
    rope = bearing.Rope(head_dim=8, pairing="half", scaling=scaling, log_factors=[0.3, 0.2, -0.1, 0.4])
    q, k = torch.randn(2, 1, 4, 5, 8, dtype=torch.float64)
    table = bearing.XposTable(bearing.Xpos(rope=rope), 16, seq_len=64, dtype="float64")
    assert table.q.frequencies == bearing.resolve(rope, 64)
    turned = bt.Xpos(bearing.Xpos(rope=rope), seq_len=64)(q, k)
    for one, x, rows in zip(turned, (q, k), (table.q, table.k), strict=True):
        torch.testing.assert_close(one, bearing.rotate_to(rows, x, None), rtol=0, atol=1e-12)


def test_xpos_in_attention_is_xpos_before_it():
    spec = bearing.Xpos(rope=bearing.Rope(head_dim=8, pairing="interleaved"), gamma=0.3, scale_base=8)
    q, k, v = (torch.randn(1, 4, 6, 8, dtype=torch.float64) for _ in range(3))
    xpos = bt.Xpos(spec, 16)
    inside = bt.attention(q, k, v, xpos, mask="causal")
    torch.testing.assert_close(inside, bt.attention(*xpos(q, k), v, mask="causal"), rtol=0, atol=1e-12)
    torch.testing.assert_close(inside, bt.Attention([xpos], mask="causal")(q, k, v), rtol=0, atol=1e-12)


def test_attention_adds_up_what_it_is_given():
    rope = bt.Rope(bearing.Rope(head_dim=DIM, pairing="half"))
    alibi = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    t5 = bt.T5Bias(bearing.T5(direction="causal"), HEADS, 64).double()
    module = bt.Attention([rope, alibi, t5], mask="causal", window=(4, 0), soft_cap=4.0, sinks=HEADS).double()
    q, k, v = qkv()
    expected = bt.attention(*rope(q, k), v, [alibi, t5], mask="causal", window=(4, 0), soft_cap=4.0, sinks=module.sinks)
    assert torch.equal(module(q, k, v), expected)
    module(q, k, v).sum().backward()
    assert module.sinks.grad.any() and t5.table.grad.any()


def test_a_cache_gives_what_the_whole_sequence_gives():
    module = bt.Attention(
        [bt.Rope(bearing.Rope(head_dim=DIM, pairing="half")), bt.Alibi(HEADS)], mask="causal"
    ).double()
    q, k, v = qkv()
    whole = module(q, k, v)
    last = module(q[:, :, 4:], k, v, q_positions=4)
    torch.testing.assert_close(last, whole[:, :, 4:], rtol=0, atol=1e-14)


def test_multi_head_attention_learns():
    layer = bt.MultiHeadAttention(32, 4, [bt.Alibi(4)], mask="causal", kv_heads=2)
    x, wanted = torch.randn(3, 10, 32), torch.randn(3, 10, 32)
    optimiser = torch.optim.Adam(layer.parameters(), 1e-2)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = (layer(x) - wanted).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_forgetting_is_given_to_attention_call_by_call():
    forgetting = bt.Forgetting(HEADS, 12)
    module = bt.Attention(mask="causal")
    q, k, v = (x.detach().float() for x in qkv())
    x = torch.randn(2, TIME, 12)
    out = module(q, k, v, more=forgetting.encoding(x))
    assert torch.equal(out, bt.attention(q, k, v, forgetting.encoding(x), mask="causal"))


@pytest.mark.parametrize("encoding", [bt.Alibi(4), bt.Rope(bearing.Rope(head_dim=8, pairing="half"))])
def test_keys_of_the_same_tokens_stand_where_the_queries_stand(encoding):
    layer = bt.MultiHeadAttention(32, 4, encoding, mask="causal")
    x, at, starts = torch.randn(2, TIME, 32), torch.randperm(TIME), torch.tensor([0, 2, TIME])
    assert torch.equal(layer(x, q_positions=at), layer(x, q_positions=at, k_positions=at))
    assert torch.equal(layer(x, q_positions=5), layer(x, q_positions=5, k_positions=5))
    assert torch.equal(layer(x, q_starts=starts), layer(x, q_starts=starts, k_starts=starts))
    others = layer(x, x, q_positions=5)
    assert torch.equal(others, layer(x, q_positions=5, k_positions=0))
    assert not torch.equal(others, layer(x, q_positions=5))


COMPUTED = {
    "SwinV2": lambda: bt.SwinV2(
        bearing.SwinV2(window=bearing.Swin(height=2, width=3), trained_height=2, trained_width=3), HEADS
    ),
    "Tupe": lambda: bt.Tupe(bearing.Tupe(rel_pos_bins=8, max_rel_pos=16), HEADS, DIM, 16, TIME),
    "Deberta": lambda: bt.Deberta(bearing.Deberta(max_relative_positions=8), HEADS, DIM, 16),
    "TransformerXL": lambda: bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, TIME),
    "Forgetting": lambda: bt.Forgetting(HEADS, 16),
    "GatedDecay": lambda: bt.GatedDecay(HEADS, DIM, 16),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_autocast_leaves_what_an_encoding_computes_as_it_is(name):
    torch.manual_seed(0)
    module = COMPUTED[name]()
    given = [torch.randn(1, TIME, 16).bfloat16().float()] if name in ("Forgetting", "GatedDecay") else []
    plain = module.encoding(*given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for more in (given, [x.bfloat16() for x in given]):  # as it comes, and out of a layer that autocast has cast
            cast = module.encoding(*more)
            assert all(t.dtype in (torch.float32, torch.int64) for t in cast.tensors)
            assert all(torch.equal(t, u) for t, u in zip(plain.tensors, cast.tensors, strict=True))


def test_a_position_without_a_row_is_told():
    learned = bt.LearnedPositions(bearing.Learned(length=4, dim=8))
    with pytest.raises(bearing.RangeError):
        learned(torch.zeros(1, 5, 8))


def test_a_module_made_on_the_meta_device_starts_like_any_other(case):
    """As large models are made: without memory first, then with memory whose numbers are anything."""
    kept = {name: (p.shape, p.dtype) for name, p in case.module.named_parameters()}
    empty = copy.deepcopy(case.module).to(device="meta").to_empty(device="cpu")
    for tensor in (*empty.parameters(), *empty.buffers()):
        tensor.data.fill_(float("nan"))
    for module in reversed(list(empty.modules())):  # those within before those around them
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    assert {name: (p.shape, p.dtype) for name, p in empty.named_parameters()} == kept
    assert all(tensor.isfinite().all() for tensor in (*empty.parameters(), *empty.buffers()))
    for name, buffer in case.module.named_buffers():
        assert torch.equal(empty.get_buffer(name), buffer)


BIG = bearing.Learned(length=2**20, dim=64)


def test_nothing_is_drawn_where_there_is_no_memory(monkeypatch):
    def drawn(*args):
        raise AssertionError("numbers were drawn")

    monkeypatch.setattr(_core, "_start", drawn)
    with torch.device("meta"):
        module = bt.LearnedPositions(BIG)
    assert [p.device.type for p in module.parameters()] == ["meta"]
    with FakeTensorMode():
        assert [tuple(p.shape) for p in bt.LearnedPositions(BIG).parameters()] == [(2**20, 64)]
        bt.Alibi(HEADS), bt.Kerple(bearing.Kerple(form="power"), HEADS), bt.Fire(bearing.Fire(), HEADS)


@pytest.mark.parametrize(
    ("make", "heads"),
    [
        (lambda: bt.LieRope(bearing.LieRope(head_dim=DIM, axes=1), heads=4), 4),
        (lambda: bt.Pope(bearing.Pope(head_dim=DIM), heads=2), 2),
        (lambda: bt.Sandwich(bearing.Sandwich(heads=3, dim=4)), 3),
        (lambda: bt.T5Bias(bearing.T5(direction="causal"), heads=5), 5),
    ],
)
def test_modules_know_their_heads(make, heads):
    assert make().heads == heads


def test_row_encodings_act_in_their_order_and_with_one_scale():
    q, k, v = qkv()
    lie = bearing.LieRopeRows(bearing.LieRope(head_dim=DIM, axes=1), torch.randn(1, 1, 1, 28).double(), group=HEADS)
    rope = bt.Rope(bearing.Rope(head_dim=DIM, pairing="half"))
    pope = bt.Pope(bearing.Pope(head_dim=DIM), HEADS).double()
    for encodings in ([lie, rope], [rope, lie], [pope]):
        out = bt.Attention(encodings, mask="causal")(q, k, v)
        torch.testing.assert_close(out, bt.attention(q, k, v, encodings, mask="causal"), rtol=1e-12, atol=1e-12)


def test_wrapped_modules_are_encodings_of_what_they_wrap():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    q, k, v = qkv()
    module = bt.Alibi(HEADS)
    expected = bt.attention(q, k, v, module, mask="causal")
    for one in (torch.compile(module), checkpoint_wrapper(module)):
        assert bt.encoding_of(one).form == module.form
        assert torch.equal(bt.attention(q, k, v, one, mask="causal"), expected)
        assert torch.equal(bt.Attention(one, mask="causal")(q, k, v), expected)
    needs = r"must need queries and keys alone, got Forgetting, which needs x: give each call "
    for one in (bt.Forgetting(HEADS, DIM), torch.compile(bt.Forgetting(HEADS, DIM))):
        with pytest.raises(TypeError, match=needs + r"forgetting\.encoding\(x\)$"):
            bt.encoding_of(one)
        with pytest.raises(TypeError, match=needs + r"more=forgetting\.encoding\(x\)$"):
            bt.Attention(one, mask="causal")


@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_any_real_number_scales_scores(half):
    q, k, v = qkv()
    options = {"mask": "causal", "scale": half, "soft_cap": half}
    expected = bt.attention(q, k, v, mask="causal", scale=0.5, soft_cap=0.5)
    assert torch.equal(bt.attention(q, k, v, **options), expected)
    assert torch.equal(bt.Attention([], **options)(q, k, v), expected)
    assert bt.plan(q, k, v, **options).path == "library"


@pytest.mark.parametrize("given", [True, np.True_, "one"])
@pytest.mark.parametrize(
    ("called", "name", "make"),
    [
        ("Forgetting", "bias", partial(bt.Forgetting, HEADS, DIM)),
        ("GatedDecay", "temperature", partial(bt.GatedDecay, HEADS, DIM, DIM)),
        ("T5Bias", "d_model", lambda d_model: bt.Described("T5Bias", T5, heads=2, start={"d_model": d_model})),
    ],
    ids=["Forgetting", "GatedDecay", "start"],
)
def test_truth_values_are_no_numbers(called, name, make, given):
    with pytest.raises(TypeError, match=re.escape(f"[{called}] {name}: must be a number, got {given!r}")):
        make(**{name: given})


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("q_positions", "x", "must be a tensor, an int or None, got <class 'str'>"),
        ("k_positions", True, "must be a tensor, an int or None, got <class 'bool'>"),
        ("regions", 3, "must be a DualChunk, a SelfExtend, a ReRope, a list of Region or None, got 3"),
        ("band", 3, "must be a DistanceBand or None, got 3"),
    ],
)
def test_plans_refuse_what_attention_refuses(device, name, given, text):
    x = torch.empty(1, 2, 4, DIM, device=device)
    with pytest.raises(TypeError, match=re.escape(f"[plan] {name}: {text}")):
        bt.plan(x, x, x, mask="causal", **{name: given})


def test_gates_of_wavlm_are_summed_wide():
    """In float32 also under autocast, and with weights of another type."""
    x, weight, bias, constant = torch.randn(1, 4, 6, DIM), torch.randn(8, DIM), torch.randn(8), torch.randn(4)
    gate = bt.wavlm_gate(x, weight, bias, constant)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(bt.wavlm_gate(x, weight, bias, constant), gate)
        assert torch.equal(
            bt.wavlm_gate(x.bfloat16(), weight, bias, constant).float(), gate_of_16_bits(x, weight, bias, constant)
        )
    with pytest.raises(TypeError, match=r"^\[wavlm_gate\] bias: must be of a floating type, got int64$"):
        bt.wavlm_gate(x, weight, bias.long(), constant)


def gate_of_16_bits(x, *weights):
    return bt.wavlm_gate(x.bfloat16().float(), *weights).bfloat16().float()


def test_tables_serve_as_encodings_too():
    q, k, v = qkv()
    spec = bearing.Rope(head_dim=DIM, pairing="half")
    table = bearing.RopeTable(spec, 16)
    expected = bt.attention(q, k, v, bt.Rope(spec), mask="causal")
    assert torch.equal(bt.attention(q, k, v, bearing.RotaryRows(table), mask="causal"), expected)
    assert torch.equal(bt.rotate(q, rope=table), bt.rotate(q, rope=spec))
    xpos = bearing.Xpos(rope=spec)
    rows = bearing.XposRows(bearing.XposTable(xpos, 16, dtype="float64"))
    torch.testing.assert_close(
        bt.attention(q, k, v, rows, mask="causal"), bt.attention(q, k, v, bt.Xpos(xpos), mask="causal")
    )


def test_tables_of_xpos_keep_their_options():
    """A length that the frequencies serve, float32's own angles, and a compact memory."""
    q, k, v = qkv()
    rope = bearing.Rope(head_dim=DIM, pairing="half", scaling=bearing.DynamicNtkScaling(factor=4.0, trained_length=8))
    for xpos in (bearing.Xpos(rope=rope), bearing.Xpos(rope=rope.replace(scaling=bearing.NoScaling()))):
        table = bearing.XposTable(
            xpos, 16, seq_len=128, angles="as_float32", memory="compact", dtype=str(q.dtype).removeprefix("torch.")
        )
        turned = bearing.rotate_to(table.q, q.detach(), None), bearing.rotate_to(table.k, k.detach(), None)
        out = bt.attention(q, k, v, bearing.XposRows(table), mask="causal")
        torch.testing.assert_close(out, bt.attention(*turned, v, mask="causal"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_given_tables_rotate_as_bearing_itself(dtype):
    """Of cosines and sines alone, of which no text can be made."""
    spec = bearing.Rope(head_dim=DIM, rotary_dim=4, pairing="interleaved", part=bearing.RotaryPart(where="last"))
    cos, sin = torch.rand(2, TIME, 2, dtype=bearing.torch.ops.arithmetic_of(dtype))
    table = bearing.RopeTable.from_cos_sin(spec, cos, sin)
    x = torch.randn(2, HEADS, TIME, DIM).to(dtype)
    wanted = bearing.rotate_to(table, x, None)
    assert torch.equal(bt.rotate(x, rope=table), wanted)
    leaf = x.clone().requires_grad_()
    turned = bt.rotate(leaf, rope=table)
    assert torch.equal(turned, wanted)
    turned.backward(x)
    assert torch.equal(leaf.grad, bearing.rotate_backward_to(table, x, None))
    rows = bearing.RotaryRows(table)
    inside = bt.attention(leaf, x, x, rows, mask="causal")
    assert torch.equal(inside, bearing.attention(x, x, x, rows, mask="causal"))
    inside.sum().backward()
    learned = bt.Attention([rows], mask="causal")
    assert {name for name, _ in learned.named_buffers()} == {"rows.0.tensor_0", "rows.0.tensor_1"}
    torch.testing.assert_close(learned(x, x, x), inside.detach(), rtol=2**-7, atol=2**-7)  # turned first, and rounded


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize(
    "axes",
    [
        bearing.RopeAxes.sections([1, 1, 2]),
        bearing.RopeAxes.interleaved([2, 1, 1]),
        bearing.RopeAxes.axial([2, 2]),
        bearing.RopeAxes.listed([2, 0, 1, 0]),
        bearing.RopeAxes.blocks([1, 3]),
        bearing.RopeAxes.blocks([1, 2]).replace(still=1),
    ],
)
def test_given_tables_keep_their_axes(axes, pairing):
    spec = bearing.Rope(head_dim=8, pairing=pairing, axes=axes)
    cos, sin = torch.rand(2, 9, 4)
    table = bearing.RopeTable.from_cos_sin(spec, cos, sin)
    x = torch.randn(2, 2, 5, 8)
    at = torch.randint(0, 9, (table.frequencies.axes, 2, 5))
    assert torch.equal(bt.rotate(x, rope=table, positions=at), bearing.rotate_to(table, x, at))
    assert torch.equal(bt.rotate(x, rope=table), bearing.rotate_to(table, x))


def test_given_tables_of_another_type_are_converted_and_others_positions_refused():
    table = bearing.RopeTable.from_cos_sin(bearing.Rope(head_dim=4, pairing="half"), torch.rand(3, 2), torch.rand(3, 2))
    x = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    exact = bearing.RopeTable.from_cos_sin(
        bearing.Rope(head_dim=4, pairing="half"), torch.tensor(table.cos).double(), torch.tensor(table.sin).double()
    )
    assert torch.equal(bt.rotate(x, rope=table), bearing.rotate_to(exact, x, None))
    with pytest.raises(bearing.RangeError):
        bt.rotate(x, rope=table, positions=1)


def test_calls_with_a_given_table_make_no_other_and_see_what_is_written(monkeypatch):
    from bearing.torch import encoding, given_tables

    make, made, before = bearing.RopeTable.from_cos_sin, [], len(given_tables._tables)

    def counted(*given):
        made.append(1)
        return make(*given)

    spec = bearing.Rope(head_dim=DIM, pairing="half")
    table = bearing.RopeTable.from_cos_sin(spec, *torch.rand(2, TIME, DIM // 2))
    x = torch.randn(1, HEADS, TIME, DIM)
    wanted = bearing.rotate_to(table, x)
    monkeypatch.setattr(bearing.RopeTable, "from_cos_sin", staticmethod(counted))
    with torch.inference_mode():
        assert torch.equal(bt.rotate(x, rope=table), wanted)
    assert torch.equal(bt.rotate(x, rope=table), wanted)
    cos, sin = given_tables.given_numbers(table)
    assert given_tables.given_numbers(table)[0] is cos
    form = encoding.geometry_form(table)
    assert not made
    cos.mul_(2)
    changed = make(spec, cos, sin)
    assert torch.equal(
        bearing.rotate_to(encoding.table_of_numbers(form, cos, sin, torch.float32), x), bearing.rotate_to(changed, x)
    )
    assert torch.equal(bt.rotate(x, rope=table), wanted)  # of new copies
    assert len(made) == 1
    cos, sin = given_tables.given_numbers(table)
    del table
    for _ in range(3):  # of what is left of a table that is gone
        assert torch.equal(bearing.rotate_to(encoding.table_of_numbers(form, cos, sin, torch.float32), x), wanted)
    assert len(made) == 2
    del cos, sin
    assert len(given_tables._tables) == before


DYNAMIC = bearing.Xpos(
    rope=bearing.Rope(head_dim=DIM, pairing="half", scaling=bearing.DynamicNtkScaling(factor=2, trained_length=16))
)
LONG = bearing.LongRopeScaling(short_factor=[1] * (DIM // 2), long_factor=[3] * (DIM // 2), trained_length=16, factor=4)


@pytest.mark.parametrize("scaling", [DYNAMIC.rope.scaling, LONG, bearing.YarnScaling(factor=4, trained_length=16)])
def test_xpos_is_told_how_many_tokens_its_frequencies_serve(scaling):
    spec = DYNAMIC.replace(rope=DYNAMIC.rope.replace(scaling=scaling))
    module = bt.Xpos(spec, 16, seq_len=64)
    frequencies = bearing.resolve(spec.rope, 64)
    plain = spec.rope.replace(
        scaling=bearing.ExplicitFrequencies(inv_freq=frequencies.inv_freq.tolist()),
        attention_factor=frequencies.attention_factor,
    )
    same = bt.Xpos(spec.replace(rope=plain), 16)
    q, k, _ = qkv()
    for one, other in zip(module(q, k), same(q, k), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-14, atol=1e-14)
    assert module.spec == spec and repr(spec) in repr(module)
    assert copy.deepcopy(module).spec == spec


def test_an_alibi_of_a_spec_may_leave_its_form_out():
    causal = bearing.Alibi.published(2).replace(form="causal")
    for module in (bt.Alibi(2, spec=causal), bt.Alibi(2, "causal", spec=causal)):
        found = module(4, 4)
        assert torch.equal(found, bt.bias_matrix(bearing.AlibiBias(causal), heads=2, q_len=4, k_len=4))
    assert "form='causal'), heads=2" in repr(module) and repr(bt.Alibi(2, "causal")) == "Alibi(heads=2, form='causal')"


def test_regions_change_no_name_of_a_weight():
    torch.manual_seed(3)
    mixed = bearing.RopeMixed(head_dim=DIM, axes=1, pairing="half")
    t5 = bearing.T5(direction="causal")

    def made(regions):
        encodings = [bt.T5Bias(t5, HEADS), bt.RopeMixed(mixed, HEADS), bt.Shaw(bearing.Shaw(clip=2), DIM)]
        return bt.Attention(encodings, mask="causal", regions=regions, sinks=HEADS).double()

    plain, within = shaken(made(None)), made(bearing.SelfExtend(group=4, window=2 * TIME))
    assert sorted(plain.state_dict()) == sorted(within.state_dict())
    within.load_state_dict(plain.state_dict())
    q, k, v = qkv()
    # All keys are near, so that the regions are one.
    torch.testing.assert_close(within(q, k, v), plain(q, k, v), rtol=1e-12, atol=1e-12)
    own = [one.encoding() for one in (within.scores[0], within.rows[0], within.scores[1])]
    far = bearing.SelfExtend(group=2, window=2)
    wanted = bt.attention(q, k, v, own, mask="causal", regions=far, sinks=within.sinks)
    again = made(far)
    again.load_state_dict(plain.state_dict())
    assert torch.equal(again(q, k, v), wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_parameters_are_made_where_and_as_they_are_wanted(device, dtype):
    t5, window = bearing.T5(direction="causal"), bearing.Swin(height=2, width=2)
    makes = [
        lambda **at: bt.T5Bias(t5, HEADS, **at),
        lambda **at: bt.Kerple(bearing.Kerple(form="power"), HEADS, **at),
        lambda **at: bt.Fire(bearing.Fire(), HEADS, **at),
        lambda **at: bt.Deberta(bearing.Deberta(), HEADS, DIM, 16, **at),
        lambda **at: bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, 5, **at),
        lambda **at: bt.Tupe(bearing.Tupe(rel_pos_bins=8, max_rel_pos=16), HEADS, DIM, 16, 5, **at),
        lambda **at: bt.SwinV2(bearing.SwinV2(window=window), HEADS, **at),
        lambda **at: bt.RelativeLogits(bearing.RelativeLogits(extent=3, clip=2.0), HEADS, 16, **at),
        lambda **at: bt.Forgetting(HEADS, 16, **at),
        lambda **at: bt.GatedDecay(HEADS, DIM, 16, **at),
        lambda **at: bt.LeRope(bearing.Rope(head_dim=DIM, pairing="half"), **at),
        lambda **at: bt.TemperatureRows(bearing.PositionTemperature(form="learned", first=1), HEADS, **at),
        lambda **at: bt.Sinusoidal(bearing.Sinusoidal(dim=8, layout="interleaved"), learn_scale=True, **at),
        lambda **at: bt.Described("T5Bias", t5, heads=HEADS, **at),
        lambda **at: bt.Attention(mask="causal", sinks=HEADS, **at),
        lambda **at: bt.MultiHeadAttention(16, 2, mask="causal", sinks=2, bias=True, **at),
    ]
    for make in makes:
        torch.manual_seed(2)
        module = make(device=device, dtype=dtype)
        torch.manual_seed(2)
        plain = make()
        assert list(module.state_dict()) == list(plain.state_dict())
        for (name, one), other in zip(module.named_parameters(), plain.parameters(), strict=True):
            assert (one.device.type, one.dtype, one.shape) == (device, dtype, other.shape), (type(module), name)
            assert device == "meta" or one.isfinite().all()
        assert all(one.device.type == device for one in module.buffers())


def test_every_module_with_parameters_says_where_they_are_made():
    for case in CASES:
        named = inspect.signature(type(case.module)).parameters
        has = any(True for _ in case.module.parameters()) or isinstance(
            case.module, (bt.Attention, bt.MultiHeadAttention)
        )
        assert has <= ({"device", "dtype"} <= set(named)), case.name
    with pytest.raises(TypeError, match=r"\[Alibi\] dtype: must be one of torch.float64, .* got torch.int32"):
        bt.Alibi(2, dtype=torch.int32)
    with pytest.raises(TypeError, match=r"\[MultiHeadAttention\] dtype: must be one of .* got 'float32'"):
        bt.MultiHeadAttention(16, 2, mask="none", dtype="float32")


def test_a_bias_matrix_is_of_the_parameters_type():
    t5 = bearing.T5(direction="causal")
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        module = bt.T5Bias(t5, HEADS, dtype=dtype)
        assert module(3, 3).dtype is dtype
        assert bt.bias_matrix(module, heads=HEADS, q_len=3, k_len=3).dtype is dtype
    wide = bearing.T5Bias(t5, torch.randn(32, HEADS, dtype=torch.float64))
    found = bt.bias_matrix([module, wide], heads=HEADS, q_len=3, k_len=3)
    assert found.dtype is torch.float64
    constant = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    assert bt.bias_matrix(constant, heads=HEADS, q_len=3, k_len=3).dtype is torch.float32


def test_a_layer_tells_its_heads():
    assert bt.MultiHeadAttention(16, 4, mask="none").heads == 4


def test_a_rotary_module_is_one_of_an_encoding():
    assert isinstance(bt.Rope(bearing.Rope(head_dim=8, pairing="half")), bt.EncodingModule)
    assert all(isinstance(case.module, bt.EncodingModule) for case in CASES)


def test_parameters_in_own_encodings_are_learned():
    table = torch.nn.Parameter(torch.zeros(32, HEADS))
    module = bt.Attention(bearing.T5Bias(bearing.T5(direction="causal"), table), mask="causal")
    assert [p is table for p in module.parameters()] == [True]
    module(*(torch.randn(1, HEADS, TIME, DIM) for _ in range(3))).square().sum().backward()
    assert table.grad.any()
    with pytest.raises(TypeError, match="must be nn.Parameters if they are to be learned"):
        bt.Attention([bearing.AlibiBias(slopes=torch.ones(HEADS, requires_grad=True))], mask="causal")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: bt.Attention([bt.Forgetting(4, 8)], mask="causal"), TypeError, r"more=forgetting.encoding\(x\)"),
        (lambda: bt.Attention([bearing.Shaw(clip=2)], mask="causal"), TypeError, "must be modules .* got Shaw"),
        (lambda: bt.Attention([torch.nn.Linear(1, 1)], mask="causal"), TypeError, "must be modules .* got Linear"),
        (lambda: bt.Attention(mask="sideways"), ValueError, "mask: must be one of 'none'"),
        (lambda: bt.Attention(mask="causal", window=3), TypeError, r"window: must be \(before, after\), got 3"),
        (lambda: bt.MultiHeadAttention(65, 4, mask="causal"), bearing.ShapeError, "d_model: must be a multiple of 4"),
        (lambda: bt.MultiHeadAttention(64, 4, kv_heads=3, mask="causal"), bearing.ShapeError, "kv_heads: must divide"),
        (
            lambda: bt.MultiHeadAttention(64, 4, bearing.AlibiBias(bearing.Alibi.published(8)), mask="causal"),
            bearing.ShapeError,
            "encodings: must be for 4 heads, got AlibiBias of 8",
        ),
        (
            lambda: bt.MultiHeadAttention(
                64, 4, bearing.T5Bias(bearing.T5(direction="causal"), torch.zeros(32, 2)), mask="causal"
            ),
            bearing.ShapeError,
            "encodings: must be for 4 heads, got T5Bias of 2",
        ),
        (
            lambda: bt.MultiHeadAttention(64, 4, bt.Deberta(bearing.Deberta(), 2, 16, 8), mask="causal"),
            bearing.ShapeError,
            "encodings: must be for 4 heads, got Deberta of 2",
        ),
        (
            lambda: bt.MultiHeadAttention(64, 4, bt.Shaw(bearing.Shaw(clip=2), 16, heads=2), mask="causal"),
            bearing.ShapeError,
            "encodings: must be for 4 heads, got Shaw of 2",
        ),
        (
            lambda: bt.Alibi(4, spec=bearing.Alibi.published(8)),
            bearing.RangeError,
            r"\[Alibi\] heads: must be 8, as spec states them, got 4",
        ),
        (
            lambda: bt.Alibi(4, spec=bearing.Alibi()),
            bearing.RangeError,
            r"\[Alibi\] spec: must have slopes, one for each head, got none: Alibi\(slopes=\(\), form='symmetric'\)",
        ),
        (
            lambda: bt.Retention(4, spec=bearing.Retention()),
            bearing.RangeError,
            r"\[Retention\] spec: must have rates, one for each head, got none: Retention\(rates=\(\)\)",
        ),
        (
            lambda: bt.Retention(2, spec=bearing.Retention.published(4)),
            bearing.RangeError,
            r"\[Retention\] heads: must be 4, as spec states them, got 2",
        ),
        (
            lambda: bt.Alibi(2, "causal", spec=bearing.Alibi.published(2)),
            ValueError,
            r"\[Alibi\] form: must be 'symmetric', as spec states it, or left out, got 'causal'",
        ),
        (
            lambda: bt.LearnedPositions(bearing.Learned()),
            bearing.RangeError,
            r"\[LearnedPositions\] length \+ offset: must be from 1 on, as table has that extent, got 0",
        ),
        (
            lambda: bt.Xpos(DYNAMIC),
            bearing.RangeError,
            r"\[Xpos\] seq_len: must be given, as the frequencies of dynamic",
        ),
    ],
)
def test_what_a_module_cannot_serve_is_refused_when_it_is_made(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"scale": torch.tensor(0.5, requires_grad=True)}, "scale: must not require gradients"),
        ({"window": 3}, r"window: must be \(before, after\)"),
        ({"sinks": [0.0] * HEADS}, r"sinks: must be a tensor \[heads\]"),
        ({"mask": None}, "mask: must be one of 'none'"),
        ({"encodings": bearing.Shaw(clip=2)}, "encodings: must be modules of bearing.torch or encodings of bearing"),
    ],
)
def test_what_attention_cannot_take_is_named(given, text):
    q, k, v = qkv()
    with pytest.raises((TypeError, ValueError), match=r"\[attention\] " + text):
        bt.attention(q, k, v, **({"mask": "causal"} | given))
    with pytest.raises(TypeError, match=r"\[attention\] must be given tensors, got <class 'numpy.ndarray'>"):
        bt.attention(q.detach().numpy(), k, v, mask="causal")


def test_a_layer_gives_its_logarithms_too():
    layer = bt.MultiHeadAttention(16, 4, mask="causal")
    out, lse = layer(torch.randn(2, 5, 16), return_lse=True)
    assert out.shape == (2, 5, 16) and lse.shape == (2, 4, 5)
    assert "mask='causal'" in repr(layer) and "heads=8" in repr(bt.Alibi(8))


def in_8_bits(linear: torch.nn.Linear) -> torch.nn.Module:
    plain = torch.nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    plain.load_state_dict(linear.state_dict())
    around = torch.nn.Sequential(plain)
    return torch.ao.quantization.quantize_dynamic(around, {torch.nn.Linear}, dtype=torch.qint8)[0]


class InBytes(torch.nn.Module):
    """A linear layer whose weights are a parameter of bytes, as those of 4 bits are kept. It computes in its input's type."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        low, high = linear.weight.detach().aminmax()
        self.low, self.step = low.item(), (high - low).item() / 255
        packed = ((linear.weight.detach() - low) / self.step).round().to(torch.uint8)
        self.weight = torch.nn.Parameter(packed, requires_grad=False)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return torch.nn.functional.linear(x, self.weight.to(x.dtype) * self.step + self.low, bias)


@pytest.mark.parametrize("quantised", [in_8_bits, InBytes])
@pytest.mark.filterwarnings("ignore:.*quantiz.*:DeprecationWarning", "ignore:.*reduce_range.*:UserWarning")
@pytest.mark.parametrize("case", [c for c in CASES if c.name not in ("Rope", "Xpos")], ids=lambda case: case.name)
def test_linear_layers_may_be_swapped_for_quantised_ones(case, quantised):
    """All that a module reads of a linear layer is what it gives when it is called."""
    module = copy.deepcopy(case.module).float()
    heads = bearing.torch.Encoding
    swapped = copy.deepcopy(module)
    for name, linear in module.named_modules():
        if isinstance(linear, torch.nn.Linear):
            swapped.set_submodule(name, quantised(linear))
    given = [x.float() if x.is_floating_point() else x for x in case.given]
    encodings = [one.encoding(*given) for one in (module, swapped)]
    assert all(isinstance(one, heads) for one in encodings)
    for own, got in zip(*(one.tensors for one in encodings), strict=True):
        # Weights and inputs in 8 bits; sums of a dozen products, then at most a sigmoid times 16.
        torch.testing.assert_close(got, own, rtol=0.2, atol=0.2 * own.abs().max().item() if own.numel() else 0)


NUMBERS = {
    "TransformerXL": lambda: bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, 3 * TIME),
    "SwinV2": lambda: bt.SwinV2(
        bearing.SwinV2(window=bearing.Swin(height=2, width=3), trained_height=2, trained_width=3), HEADS
    ),
    "a given table": lambda: bt.Attention(given_table(), mask="causal"),
    "given slopes": lambda: bt.Fixed(bearing.AlibiBias(slopes=np.linspace(0.1, 0.9, HEADS))),
}


def given_table() -> bearing.RopeTable:
    table = bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), TIME)
    return bearing.RopeTable.from_cos_sin(bearing.Rope(head_dim=DIM, pairing="half"), table.cos, table.sin)


@pytest.mark.parametrize("make", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_that_nobody_learns_are_not_rounded_with_the_parameters(make, dtype):
    module = make()
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    assert before
    module = torch.nn.Sequential(module).to(dtype).float()[0]
    assert all(torch.equal(buffer, before[name]) for name, buffer in module.named_buffers())
    assert all(parameter.dtype is torch.float32 for parameter in module.parameters())


def test_a_layer_of_16_bits_turns_by_a_given_table_as_it_was_given():
    layer = bt.Attention(given_table(), mask="causal").bfloat16()
    q, k, v = (x.detach().bfloat16() for x in qkv())
    assert torch.equal(layer(q, k, v), bt.Attention(given_table(), mask="causal")(q, k, v))
