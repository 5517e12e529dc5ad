"""Attention in Triton with scores that are numbers of the query times rows by distance gives what the library gives on the
CPU, forward and backward, and the same bits on every run."""

from __future__ import annotations

import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing import _core
from bearing.torch.encoding import Encoding, build, encodings_of, form_of, forms_of
from calls import HEADS, HOLES, K_LEN, MASKS, Q_LEN, agree, doubled, padded, quick, rows, small_tiles
from place import INTERPRETED

__all__ = ["quick", "small_tiles"]  # fixtures

# Bounds how a score changes with a parameter: c times a row of numbers or of the table.
SLOPE = 4.0
OLDER = {"q_positions": K_LEN - Q_LEN, "k_positions": 0}
INKLING = bearing.PositionTemperature.inkling(10)


class Logits(torch.nn.Module):
    """With r itself as a parameter."""

    def __init__(self, *, rank=5, tables=1, batch=1, heads=HEADS, q_len=Q_LEN, **members):
        super().__init__()
        spec = bearing.RelativeLogits(**({"extent": 11} | members))
        self.form = form_of("RelativeLogitsTerm", spec, ["table", "r"])
        self.table = torch.nn.Parameter(torch.randn(tables, spec.extent, rank) / 2)
        self.r = torch.nn.Parameter(torch.randn(batch, heads, q_len, rank) / 2)

    def encoding(self):
        return Encoding(self.form, (self.table, self.r))


ENCODINGS = {
    "logits": Logits,
    "a table for each head": lambda: Logits(tables=HEADS),
    "clipped": lambda: Logits(clip=1.0),
    "clipped, and a temperature": lambda: Logits(clip=1.2, temperature=INKLING),
    "a power of the position": lambda: Logits(
        temperature=bearing.PositionTemperature(form="power", beta=0.2, length=8, first=1)
    ),
    "steps of the position": lambda: Logits(
        temperature=bearing.PositionTemperature(form="stepped", beta=0.2, length=8, first=1)
    ),
    "one row": lambda: Logits(extent=1),
    "past all keys": lambda: Logits(extent=100),
    "one number": lambda: Logits(rank=1),
    "more numbers than rows have": lambda: Logits(rank=18),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_spec(name, device):
    agree(device, ENCODINGS[name](), slope=SLOPE, mask="none", **OLDER)


@pytest.mark.parametrize("name", MASKS)
def test_every_mask(name, device):
    agree(device, Logits(), slope=SLOPE, **({"q_positions": 0, "k_positions": 0} | MASKS[name]))


@pytest.mark.parametrize("name", HOLES)
def test_what_hides_keys(name, device):
    options = dict(HOLES[name])
    if "key_mask" in options:
        options["key_mask"] = options["key_mask"].repeat(2, 1)
    if "visible" in options:
        options["visible"] = options["visible"].expand(2, HEADS, -1, -1)
    agree(device, Logits(batch=2), inputs=rows(device, batch=2), slope=SLOPE, **options)


def test_sequences_may_share_their_numbers(device):
    agree(device, Logits(clip=1.0), inputs=rows(device, batch=2), slope=SLOPE, mask="causal", **OLDER)


def test_several_encodings_at_once(device):
    """Numbers of two encodings stand side by side; rows of a third are added to scores and values."""
    torch.manual_seed(7)
    shaw = bt.Shaw(bearing.Shaw(clip=5), 12, 10)
    torch.nn.init.normal_(shaw.key, std=0.5)
    both = [Logits(), shaw, Logits(tables=HEADS, extent=6, rank=3, clip=1.0), bt.Alibi(HEADS).requires_grad_()]
    options = {"mask": "causal", **OLDER}
    q, k, v = rows(device)
    there = [module.to(device) for module in both]
    out = bt.attention(q, k, v, there, **options)
    own = [q, k, v, *(p for module in there for p in module.parameters())]
    found = torch.autograd.grad(out.square().sum(), own)
    wide = [doubled(x).requires_grad_() for x in (q, k, v)]
    same = [module.cpu().double() for module in both]
    want = bt.attention(*wide, same, **options)
    wanted = torch.autograd.grad(want.square().sum(), [*wide, *(p for module in same for p in module.parameters())])
    assert torch.allclose(out.detach().cpu().double(), want.detach(), atol=1e-4)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.cpu().double(), other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


def test_each_head_has_its_keys(device):
    agree(
        device, Logits(heads=4, tables=4), inputs=rows(device, heads=4, kv_heads=2), slope=SLOPE, mask="causal", **OLDER
    )  # fmt: skip


def test_caps_sinks_and_scales(device):
    """The scale and the soft cap are those of products of rows alone."""
    options = {"soft_cap": 1.5, "scale": 0.7, "sinks": torch.tensor([0.5, -math.inf])}
    agree(device, Logits(), slope=SLOPE, mask="causal_bottom_right", **OLDER, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_types_of_16_bits(dtype, device):
    """Tables and numbers are rounded to the type of rows: these are such numbers already."""
    module = Logits()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.to(dtype))
    agree(device, module, inputs=rows(device, dtype), slope=SLOPE, mask="causal", **OLDER)


def test_a_decode_step(device):
    """Where keys are divided between programs, too."""
    q, k, v = rows(device, q_len=1, k_len=600)
    module = Logits(q_len=1, extent=550).to(device)
    out = bt.attention(q, k, v, module, mask="causal", q_positions=599, k_positions=0)
    wide, same = [doubled(x) for x in (q, k, v)], module.cpu().double()
    want = bt.attention(*wide, same, mask="causal", q_positions=599, k_positions=0)
    assert torch.allclose(out.cpu().double(), want, atol=1e-5)


def test_what_nobody_sees_may_hold_anything(device):
    options = {"mask": "causal_bottom_right", "window": (20, 0), "k_lengths": torch.tensor([20, 9], device=device)}
    module = Logits(batch=2).to(device)

    def results(fill):
        torch.manual_seed(5)
        q, k, v = rows(device, batch=2)
        with torch.no_grad():
            for b, length in enumerate((20, 9)):
                k[b, :, length:], v[b, :, length:] = fill, fill
                q[b, :, : Q_LEN - length] = fill  # with the mask they see no key
                module.r[b, :, : Q_LEN - length] = fill
        out, lse = bt.attention(q, k, v, module, return_lse=True, **options)
        seen = torch.where(lse.isinf()[..., None], fill, torch.ones_like(out))
        return [out, lse, *torch.autograd.grad(out, [q, k, v, *module.parameters()], seen)]

    for found, wanted in zip(results(math.nan), results(0.0), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("options", [{}, {"sinks": torch.tensor([0.5, -math.inf])}], ids=str)
def test_queries_that_masks_leave_no_key_may_hold_anything(options, device):
    (q, k, v), masks = padded(device)
    module = Logits(batch=2).to(device)
    there = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in (masks | options).items()}
    blind = q[..., 0].isnan()

    def results(fill):
        with torch.no_grad():
            q[blind], module.r[blind] = fill, fill
        out, lse = bt.attention(q, k, v, module, return_lse=True, **there)
        return [out, lse, *torch.autograd.grad(out.sum(), [q, k, v, *module.parameters()])]

    for found, wanted in zip(results(math.nan), results(0.0), strict=True):
        assert torch.equal(found, wanted)


def test_the_same_bits_in_any_order_of_programs(device, monkeypatch):
    """Each sum is taken by one program. With atomics, another order would give other bits."""
    q, k, v = rows(device, batch=2)
    module = Logits(clip=1.0).to(device)

    def results():
        out = bt.attention(q, k, v, module, mask="causal", **OLDER)
        return [out, *torch.autograd.grad(out.square().sum(), [q, k, v, *module.parameters()])]

    first = results()
    if INTERPRETED:
        from triton.runtime import interpreter

        place = interpreter.interpreter_builder.set_grid_idx
        backwards = lambda x, y, z: place(interpreter.interpreter_builder.grid_dim[0] - 1 - x, y, z)
        monkeypatch.setattr(interpreter.interpreter_builder, "set_grid_idx", backwards)
    for _ in range(1 if INTERPRETED else 100):
        assert all(torch.equal(x, y) for x, y in zip(first, results(), strict=True))


def test_a_module_s_own_parameters_learn(device):
    """r is made of a projection, which gets its gradient through it; and queries have the same temperature."""
    spec = bearing.RelativeLogits(extent=11, clip=1.0)
    module = bt.RelativeLogits(spec, HEADS, 8, rank=4).to(device)
    q, k, v = rows(device)
    made = module.encoding(torch.randn(1, Q_LEN, 8, device=device))
    bt.attention(q, k, v, made, mask="causal", **OLDER).square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in module.parameters())


def test_nothing_to_do(device):
    for q_len, k_len in ((0, 5), (5, 0)):
        q, k, v = rows(device, q_len=q_len, k_len=k_len)
        module = Logits(q_len=q_len).to(device)
        out = bt.attention(q, k, v, module, mask="none")
        grads = torch.autograd.grad(out.sum(), [q, k, v, *module.parameters()])
        assert not out.any() and not any(g.any() for g in grads)


def on_the_cpu(module):
    encodings = encodings_of(module)
    return build(forms_of(encodings), [t.detach() for t in encodings[0].tensors], torch.float32)


WRONG = {
    "heads": {"heads": 3},
    "tables": {"tables": 3},
    "sequences": {"batch": 3},
    "queries": {"q_len": Q_LEN - 1},
    "a temperature that begins later": {"temperature": INKLING, "first": -3},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_as_on_the_cpu(name, device):
    """In the library's own words, which name the call."""
    members = dict(WRONG[name])
    options = {"mask": "causal", "q_positions": members.pop("first", 8), "k_positions": 0}
    q, k, v = rows(device, batch=2)
    with pytest.raises((ValueError, IndexError)) as on_cpu:
        _core.attention(*(doubled(x).float() for x in (q, k, v)), on_the_cpu(Logits(**members)), **options)
    with pytest.raises((ValueError, IndexError)) as found:
        bt.attention(q, k, v, Logits(**members).to(device), **options)
    assert str(found.value) == str(on_cpu.value)


def test_a_plan_says_what_the_kernels_do_not_take():
    q = torch.empty(1, HEADS, 4, 12, device="meta")
    plan = lambda *encodings, **options: bt.plan(q, q, q, list(encodings), mask="causal", **options)
    assert plan(Logits(q_len=4).to("meta")).path == "triton"
    placed = plan(Logits(q_len=4).to("meta"), q_positions=torch.arange(4))
    assert placed.path == "flex_attention" and "positions that rise by one" in placed.reason
    wide = [Logits(q_len=4, rank=129).to("meta") for _ in range(2)]
    assert plan(wide[0]).path == "triton" and "at most 256 numbers of a query, and there are 258" in plan(*wide).reason
