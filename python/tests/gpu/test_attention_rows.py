"""Attention in Triton with rows of tables by distance gives what the library gives on the CPU, forward and backward, and the
same bits on every run."""

from __future__ import annotations

import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing import _core
from bearing.torch import index_map
from bearing.torch.encoding import build, encodings_of, forms_of
from bearing.torch.triton import backward, bias_numbers, tables
from calls import DIM, HEADS, HOLES, K_LEN, MASKS, Q_LEN, VALUE_DIM, agree, doubled, padded, quick, rows, small_tiles
from place import INTERPRETED
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["quick", "small_tiles"]  # fixtures

# Bounds how a score changes with a parameter: c times a row of queries, of keys or of a table.
SLOPE = 2.0
OLDER = {"q_positions": K_LEN - Q_LEN, "k_positions": 0}


def drawn(module):
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module


def shaw(clip=5, outside="clip", **options):
    return drawn(bt.Shaw(bearing.Shaw(clip=clip, outside=outside), DIM, VALUE_DIM, **options))


def transformer_xl(heads=HEADS, **members):
    """With r itself as a parameter."""
    spec = bearing.TransformerXL(first_offset=-K_LEN, **members)
    return drawn(bt.Described("TransformerXLTerm", spec, heads=heads, offsets=Q_LEN + 2 * K_LEN, dim=DIM))


def deberta(**members):
    spec = bearing.Deberta(**members)
    names = [name for name, none in (("key", "p2c"), ("query", "c2p")) if spec.terms == none]
    return drawn(bt.Described("DebertaTerm", spec, heads=HEADS, dim=DIM, without=names))


def bert(**members):
    return drawn(bt.BertRelative(bearing.BertRelative(max_position_embeddings=Q_LEN + K_LEN, **members), DIM))


ENCODINGS = {
    "Shaw": shaw,
    "Shaw, a table for each head": lambda: shaw(heads=HEADS),
    "Shaw, nothing outside": lambda: shaw(outside="zero"),
    "Shaw, scores alone": lambda: shaw(values=False),
    "Shaw, one row": lambda: shaw(clip=0),
    "Transformer-XL": transformer_xl,
    "Transformer-XL, both ways, clamped": lambda: transformer_xl(direction="bidirectional", clamp_len=7),
    "BERT": bert,
    "BERT, keys too": lambda: bert(position_embedding_type="relative_key_query"),
    "Wav2Vec2-BERT": lambda: drawn(bt.BertRelative(bearing.Wav2Vec2BertRelative(left=6, right=2), DIM)),
    "DeBERTa": lambda: deberta(max_relative_positions=16, position_buckets=8),
    "DeBERTa, v1": lambda: deberta(max_relative_positions=9),
    "DeBERTa, c2p": lambda: deberta(max_relative_positions=9, terms="c2p"),
    "DeBERTa, p2c as in the paper": lambda: deberta(
        max_relative_positions=16, position_buckets=8, terms="p2c", index="paper"
    ),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding(name, device):
    agree(device, ENCODINGS[name](), slope=SLOPE, mask="none", **OLDER)


@pytest.mark.parametrize(("name", "q_len"), [("Shaw", Q_LEN), ("Transformer-XL", Q_LEN), ("Transformer-XL", 1)])
def test_autocast_rounds_rows_alone(name, q_len, device):
    """Sums and parameters stay float32: bits are those of the same call without it."""
    module = ENCODINGS[name]().to(device)
    q, k, v = (x.detach() for x in rows(device, q_len=q_len))
    learned = [x.bfloat16().float().requires_grad_() for x in (q, k, v)]
    cast = [x.detach().bfloat16().requires_grad_() for x in learned]

    def results(inputs):
        out = bt.attention(*inputs, module, mask="causal", **OLDER)
        return [out, *torch.autograd.grad(out.float().sum(), [*inputs, *module.parameters()])]

    with torch.autocast(device, dtype=torch.bfloat16):
        found = results(learned)
    assert found[0].dtype is torch.bfloat16
    assert all(torch.equal(x.to(y.dtype), y) for x, y in zip(found, results(cast), strict=True))


@pytest.mark.parametrize("name", ["Shaw", "DeBERTa"])
def test_which_rows_are_picked_is_asked_once(name, device, monkeypatch):
    """After that nothing is copied from the CPU or counted on the device: so nothing waits for it."""
    module = ENCODINGS[name]().to(device)
    q, k, v = (torch.randn(1, HEADS, Q_LEN, dim, device=device) for dim in (DIM, DIM, VALUE_DIM))
    tensors = [q.requires_grad_(), k, v, *module.parameters()]

    def step():
        out = bt.attention(q, k, v, module, mask="causal")
        return torch.autograd.grad(out.sum(), [t for t in tensors if t.requires_grad])

    first = step()
    asked = lambda *_, **__: pytest.fail("it was asked again")
    for owner, function in [(torch, "unique_consecutive"), (torch.Tensor, "nonzero"), (_core, "add_values")]:
        monkeypatch.setattr(owner, function, asked)
    assert all(torch.equal(x, y) for x, y in zip(first, step(), strict=True))


@pytest.mark.parametrize("learns", [True, False], ids=["training", "no gradients"])  # the first within an op
@pytest.mark.parametrize("name", ["Shaw", "T5"])
def test_new_tensors_may_be_made_elsewhere_by_default(name, learns, device):
    """As torch.set_default_device and torch.set_default_dtype say, at the top of many scripts. The library reads the host."""
    bias = lambda: drawn(bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="causal"), HEADS, 16))
    module = (ENCODINGS | {"T5": bias})[name]().to(device)
    inputs = [x.detach().requires_grad_(learns) for x in rows(device)]

    def results():
        index_map.products_of.cache_clear(), index_map.value_rows.cache_clear(), index_map.check_ends.cache_clear()
        tables._products.cache_clear(), bias_numbers._on_device.cache_clear(), bias_numbers._pieces.cache_clear()
        with torch.set_grad_enabled(learns):
            out = bt.attention(*inputs, module, mask="causal", **OLDER)
        return [out, *(torch.autograd.grad(out.sum(), [*inputs, *module.parameters()]) if learns else [])]

    wanted = results()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            found = results()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", MASKS)
def test_every_mask(name, device):
    options = {"q_positions": 0, "k_positions": 0} | MASKS[name]
    agree(device, shaw(), slope=SLOPE, **options)


@pytest.mark.parametrize("name", HOLES)
def test_what_hides_keys(name, device):
    options = dict(HOLES[name])
    if "key_mask" in options:
        options["key_mask"] = options["key_mask"].repeat(2, 1)
    if "visible" in options:
        options["visible"] = options["visible"].expand(2, HEADS, -1, -1)
    agree(device, deberta(max_relative_positions=9), inputs=rows(device, batch=2), slope=SLOPE, **options)


def test_several_encodings_at_once(device):
    """Rows of one side are added up, and so are biases; the order of parameters stays."""
    both = [shaw(), bt.Alibi(HEADS).requires_grad_(), deberta(max_relative_positions=9)]
    table = bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 64)
    options = {"mask": "causal", "q_positions": 8, "k_positions": 0}
    q, k, v = rows(device)
    there = [module.to(device) for module in both]
    out = bt.attention(q, k, v, [bearing.RotaryRows(table), *there], **options)
    own = [q, k, v, *(p for module in there for p in module.parameters())]
    found = torch.autograd.grad(out.square().sum(), own)
    wide = [doubled(x).requires_grad_() for x in (q, k, v)]
    same = [module.cpu().double() for module in both]
    want = bt.attention(*wide, [bearing.RotaryRows(table), *same], **options)
    wanted = torch.autograd.grad(want.square().sum(), [*wide, *(p for module in same for p in module.parameters())])
    assert torch.allclose(out.detach().cpu().double(), want.detach(), atol=1e-4)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.cpu().double(), other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


def test_gradients_that_nobody_needs_are_not_made(device, monkeypatch):
    """Those by distance of a bias without parameters beside a table that learns, and zeros where there is a gradient."""
    fixed, table = bt.Fixed(bearing.RetentionBias(bearing.Retention.published(HEADS))), shaw().to(device)
    q, k, v = rows(device)
    monkeypatch.setattr(backward, "_d_numbers", lambda *_: pytest.fail("it was made"))
    bt.attention(q, k, v, [fixed, table], mask="causal", **OLDER).sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in table.parameters())
    monkeypatch.undo()
    slopes = bt.Alibi(HEADS).to(device).requires_grad_()
    loss = bt.attention(q, k, v, slopes, mask="causal", **OLDER).sum()
    own, seen = torch.zeros_like, []
    monkeypatch.setattr(torch, "zeros_like", lambda x, **named: [seen.append(x.shape), own(x, **named)][1])
    loss.backward()
    assert slopes.slopes.shape not in seen


def test_each_head_has_its_keys(device):
    agree(
        device, transformer_xl(4), inputs=rows(device, heads=4, kv_heads=2), slope=SLOPE, mask="causal", q_positions=8,
        k_positions=0,
    )  # fmt: skip


def test_caps_sinks_and_scales(device):
    options = {"soft_cap": 1.5, "scale": 0.7, "sinks": torch.tensor([0.5, -math.inf])}
    agree(device, shaw(), slope=3 * SLOPE, mask="causal_bottom_right", **OLDER, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_types_of_16_bits(dtype, device):
    """Tables are rounded to the type of rows: these are such numbers already."""
    module = shaw()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.to(dtype))
    agree(device, module, inputs=rows(device, dtype), slope=SLOPE, mask="causal", q_positions=8, k_positions=0)


def test_what_nobody_sees_may_hold_anything(device):
    options = {"mask": "causal_bottom_right", "window": (20, 0), "k_lengths": torch.tensor([20, 9], device=device)}
    encodings = [shaw().to(device), deberta(max_relative_positions=9).to(device)]

    def results(fill):
        torch.manual_seed(5)
        q, k, v = rows(device, batch=2)
        with torch.no_grad():
            for b, length in enumerate((20, 9)):
                k[b, :, length:], v[b, :, length:] = fill, fill
                q[b, :, : Q_LEN - length] = fill  # with the mask they see no key
        out, lse = bt.attention(q, k, v, encodings, return_lse=True, **options)
        seen = torch.where(lse.isinf()[..., None], fill, torch.ones_like(out))
        return [out, lse, *torch.autograd.grad(out, [q, k, v, *(p for e in encodings for p in e.parameters())], seen)]

    for found, wanted in zip(results(math.nan), results(0.0), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("options", [{}, {"sinks": torch.tensor([0.5, -math.inf])}], ids=str)
@pytest.mark.parametrize("name", ["Shaw", "DeBERTa"])
def test_queries_that_masks_leave_no_key_may_hold_anything(name, options, device):
    inputs, masks = padded(device)
    agree(device, ENCODINGS[name](), inputs=inputs, slope=SLOPE, **masks, **options)


def test_the_same_bits_in_any_order_of_programs(device, monkeypatch):
    """Each sum is taken by one program. With atomics, another order would give other bits."""
    q, k, v = rows(device, batch=2)
    encodings = [shaw().to(device), deberta(max_relative_positions=9).to(device)]

    def results():
        out = bt.attention(q, k, v, encodings, mask="causal", q_positions=8, k_positions=0)
        return [
            out,
            *torch.autograd.grad(out.square().sum(), [q, k, v, *(p for e in encodings for p in e.parameters())]),
        ]

    first = results()
    if INTERPRETED:
        from triton.runtime import interpreter

        place = interpreter.interpreter_builder.set_grid_idx
        backwards = lambda x, y, z: place(interpreter.interpreter_builder.grid_dim[0] - 1 - x, y, z)
        monkeypatch.setattr(interpreter.interpreter_builder, "set_grid_idx", backwards)
    for _ in range(1 if INTERPRETED else 100):
        assert all(torch.equal(x, y) for x, y in zip(first, results(), strict=True))


def test_a_module_s_own_parameters_learn(device):
    """The rows of Transformer-XL are made of a projection, which gets its gradient through them."""
    xl = bt.TransformerXL(bearing.TransformerXL(), HEADS, DIM, 16, K_LEN + Q_LEN).to(device)
    q, k, v = rows(device)
    bt.attention(q, k, v, xl, mask="causal", q_positions=8, k_positions=0).square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in xl.parameters())


def test_sums_of_a_row_are_of_float64(device):
    """Of 20,000 distances, and nothing of what no row is picked for."""
    at = torch.cat([torch.full((20_000,), 4), torch.full((7,), -1), torch.tensor([2]), torch.full((64,), 0)])
    found = tables.Rows.on(torch.device(device), at)
    x = torch.rand(2, len(at), 3, device=device)
    x[:, 20_000:20_007] = math.nan
    sums = found.sums(x).cpu()
    wide = x.cpu().double()
    wanted = torch.stack([wide[:, :20_000].sum(1), wide[:, 20_007], wide[:, 20_008:].sum(1)], 1)
    assert found.named.tolist() == [4, 2, 0] and sums.dtype is torch.float64
    torch.testing.assert_close(sums, wanted, rtol=2**-50, atol=0)


class Copies(TorchDispatchMode):
    """Notes each copy of a whole tensor."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default):
            self.seen.append(function)
        return function(*args, **(kwargs or {}))


def test_rows_that_are_summed_are_copied_once(device):
    """They are as many as the distances of a call, in float64."""
    found = tables.Rows.on(torch.device(device), torch.tensor([0, 0, 1, 2]))
    x = torch.rand(2, 4, 3, device=device)
    with Copies() as copies:
        found.sums(x)
    assert copies.seen == [torch.ops.aten._to_copy.default]


def test_nothing_to_do(device):
    for q_len, k_len in ((0, 5), (5, 0)):
        q, k, v = rows(device, q_len=q_len, k_len=k_len)
        module = shaw().to(device)
        out = bt.attention(q, k, v, module, mask="none")
        grads = torch.autograd.grad(out.sum(), [q, k, v, *module.parameters()])
        assert not out.any() and not any(g.any() for g in grads)


def on_the_cpu(module):
    encodings = encodings_of(module)
    return build(forms_of(encodings), [t.detach() for t in encodings[0].tensors], torch.float32)


def test_what_does_not_fit_is_refused_as_on_the_cpu(device):
    """In the library's own words, which name the call."""
    q, k, v = rows(device)
    wrong = {
        "offsets": transformer_xl,
        "heads": lambda: transformer_xl(3),
        "rows": lambda: drawn(bt.Shaw(bearing.Shaw(clip=5), DIM + 1, VALUE_DIM)),
        "values": lambda: drawn(bt.Shaw(bearing.Shaw(clip=5), DIM, VALUE_DIM + 1)),
    }
    for name, make in wrong.items():
        first = 100 if name == "offsets" else 8
        options = {"mask": "causal", "q_positions": first, "k_positions": 0}
        with pytest.raises((ValueError, IndexError)) as on_cpu:
            _core.attention(*(doubled(x).float() for x in (q, k, v)), on_the_cpu(make()), **options)
        with pytest.raises((ValueError, IndexError)) as found:
            bt.attention(q, k, v, make().to(device), **options)
        assert str(found.value) == str(on_cpu.value)


def test_a_plan_says_what_the_kernels_do_not_take():
    q = torch.empty(1, HEADS, 4, DIM, device="meta")
    plan = lambda *encodings, **options: bt.plan(q, q, q, list(encodings), mask="causal", **options)
    module = shaw(values=False).to("meta")
    assert plan(module).path == "triton"
    placed = plan(module, q_positions=torch.arange(4))
    assert placed.path == "flex_attention" and "positions that rise by one" in placed.reason
    segments = bt.XlnetSegments(HEADS, DIM).encoding(torch.zeros(1, 4), torch.zeros(1, 4))
    assert "picks rows by segments" in plan(segments).reason
    sam = plan(bt.Sam(bearing.Sam(height=2, width=2), DIM))
    assert sam.path == "flex_attention" and "several axes" in sam.reason
