"""Attention in Triton gives what the library gives on the CPU, forward and backward, in every mask, and the same bits on
every run."""

from __future__ import annotations

import json
import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing import _core
from bearing.torch.encoding import build, encodings_of, forms_of, tensors_of, traits_of
from bearing.torch.triton import launches
from place import INTERPRETED

HEADS, KV_HEADS, Q_LEN, K_LEN, DIM, VALUE_DIM = 2, 1, 21, 29, 12, 10
LONGEST = Q_LEN + K_LEN  # no distance of these calls is longer
# A weight is off by the rounding of its score, here at most 16 in size, and of some operations: so many times 2^-24 of it.
ROUNDING = 32 * 2.0**-24
WIDE_ROUNDING = {torch.float32: ROUNDING, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Two tiles and a part of one along each axis. On a device, its own."""
    if INTERPRETED:
        for table in (launches._32_BITS, launches._16_BITS):
            for kernel in table:
                monkeypatch.setitem(table, kernel, ((16, 16, 4, 1),) * 3)


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Triton's interpreter replaces the functions of its language at each call of a function in a kernel, which is half of
    its time: once in a launch is enough."""
    if not INTERPRETED:
        yield
        return
    from triton.runtime import interpreter

    patched = set()
    patch, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__

    def once(self, *args, **named):
        if self.fn not in patched:
            patched.add(self.fn)
            patch(self.fn)
        return self.rewrite()(*args, **named)

    def launched(self, *args, **named):
        patched.clear()
        launch(self, *args, **named)

    change = pytest.MonkeyPatch()
    change.setattr(interpreter.InterpretedFunction, "__call__", once)
    change.setattr(interpreter.GridExecutor, "__call__", launched)
    yield
    change.undo()


def rows(device, dtype=torch.float32, batch=1, heads=HEADS, kv_heads=KV_HEADS, q_len=Q_LEN, k_len=K_LEN):
    shapes = (heads, q_len, DIM), (kv_heads, k_len, DIM), (kv_heads, k_len, VALUE_DIM)
    return [torch.randn(batch, *shape).to(device, dtype).requires_grad_() for shape in shapes]


def doubled(x):
    """What the library gets on the CPU: in float64, where its own roundings do not show."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().cpu()
    return x.double() if x.is_floating_point() else x


class Reference:
    """The library's own results for a call, and how large what is summed in each of them may be."""

    def __init__(self, q, k, v, encodings, options, d_out, d_lse):
        given = encodings_of(encodings)
        terms = build(forms_of(given), [doubled(t) for t in tensors_of(given, torch.float64)], torch.float64)
        options = {name: doubled(value) for name, value in options.items()}
        q, k, v, d_out, d_lse = (doubled(x) for x in (q, k, v, d_out, d_lse))
        self.out, self.lse = _core.attention(q, k, v, terms, return_lse=True, **options)
        back = (q, k, v, self.out, self.lse)
        d_q, d_k, d_v, self.of_terms, d_sinks = _core.attention_backward(*back, d_out, terms, d_lse=d_lse, **options)
        ones = torch.ones_like(d_out)
        seen_by = _core.attention_backward(*back, ones, terms, **options)[2].max()  # sum_i p_ij, of the key with most
        norm = lambda x: x.nan_to_num(0).norm(dim=-1).max()
        scale = options.get("scale") or 1 / math.sqrt(q.shape[-1])
        self.score = 2 * norm(d_out) * norm(v) + d_lse.abs().max()  # bounds d_s / p
        self.grads = {
            "d_q": (d_q, scale * self.score * norm(k)),
            "d_k": (d_k, scale * self.score * norm(q) * seen_by),
            "d_v": (d_v, norm(d_out) * seen_by),
        }
        if d_sinks is not None:
            self.grads["d_sinks"] = d_sinks, self.score * q.shape[0] * Q_LEN
        self.largest = v.nan_to_num(0).abs().max()


def close(name, found, wanted, size, rounding):
    found = found.detach().cpu().double()
    assert found.shape == wanted.shape, name
    hidden = wanted.isinf()
    assert torch.equal(found[hidden], wanted[hidden].to(found)), name
    off = (found - wanted)[~hidden].abs().max() if (~hidden).any() else torch.zeros(())
    assert off <= rounding * float(size), f"{name}: off by {float(off):.3g} of {float(size):.3g}"


def agree(device, encodings=None, inputs=None, slope=LONGEST, **options):
    """Compares a call and its gradients with the library's. slope: bounds how a bias changes with a parameter."""
    q, k, v = rows(device) if inputs is None else inputs
    moved = encodings.to(device) if isinstance(encodings, torch.nn.Module) else encodings
    there = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in options.items()}
    learned = [p for p in (moved.parameters() if isinstance(moved, torch.nn.Module) else []) if p.requires_grad]
    if "sinks" in there:
        there["sinks"] = there["sinks"].detach().requires_grad_()
    assert bt.plan(q, k, v, moved, **there).path == "triton"
    out, lse = bt.attention(q, k, v, moved, return_lse=True, **there)
    d_out = torch.randn_like(out)
    d_lse = torch.where(lse.isinf(), 0, torch.randn_like(lse))
    leaves = [q, k, v, *([there["sinks"]] if "sinks" in there else []), *learned]
    found = torch.autograd.grad((out, lse), leaves, (d_out, d_lse))
    want = Reference(q, k, v, moved, options, d_out, d_lse)
    rounding = WIDE_ROUNDING[q.dtype]
    close("out", out, want.out, want.largest, rounding)
    close("lse", lse, want.lse, 16, ROUNDING)
    for (name, (wanted, size)), one in zip(want.grads.items(), found, strict=False):
        close(name, one, wanted, size, rounding)
    for parameter, one in zip(learned, found[len(want.grads) :], strict=True):
        (name,) = (n for n, p in moved.named_parameters() if p is parameter)
        close(name, one, want.of_terms[0][name], want.score * slope * q.shape[0] * Q_LEN, rounding)
    return [out, lse, *found]


def t5(heads=HEADS):
    module = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="bidirectional"), heads, 16)
    torch.nn.init.normal_(module.table)
    return module


MASKS = {
    "none": {"mask": "none"},
    "causal": {"mask": "causal", "q_positions": K_LEN - Q_LEN, "k_positions": 0},
    "causal, queries before keys": {"mask": "causal", "q_positions": 0, "k_positions": 5},
    "causal_top_left": {"mask": "causal_top_left"},
    "causal_bottom_right": {"mask": "causal_bottom_right"},
    "window": {"mask": "none", "window": (5, 3), "q_positions": 4, "k_positions": 0},
    "window, causal": {"mask": "causal", "window": (6, -1), "q_positions": 8, "k_positions": 0},
    "window, by index": {"mask": "causal_bottom_right", "window": (4, 0)},
}


@pytest.mark.parametrize("name", MASKS)
def test_every_mask(name, device):
    agree(device, t5(), slope=1, **MASKS[name])


HOLES = {
    "k_lengths": {"mask": "none", "k_lengths": torch.tensor([29, 3])},
    "k_lengths, causal by index": {"mask": "causal_bottom_right", "k_lengths": torch.tensor([11, 29])},
    "key_mask": {"mask": "causal", "q_positions": 8, "k_positions": 0, "key_mask": torch.arange(29) % 5 > 0},
    "visible": {
        "mask": "none",
        "visible": torch.rand(1, 1, Q_LEN, K_LEN, generator=torch.Generator().manual_seed(3)) > 0.6,
    },
    "packed": {
        "mask": "none",
        "q_starts": torch.tensor([0, 4, 4, 17, 21]),
        "k_starts": torch.tensor([0, 6, 9, 9, 29]),
    },
    "packed, causal": {
        "mask": "causal_bottom_right",
        "window": (7, 0),
        "q_starts": torch.tensor([0, 9, 21]),
        "k_starts": torch.tensor([0, 3, 29]),
    },
}


@pytest.mark.parametrize("name", HOLES)
def test_what_hides_keys(name, device):
    options = dict(HOLES[name])
    if "key_mask" in options:
        options["key_mask"] = options["key_mask"].repeat(2, 1)
    if "visible" in options:
        options["visible"] = options["visible"].expand(2, HEADS, -1, -1)
    agree(device, t5(), inputs=rows(device, batch=2), slope=1, **options)


def test_positions_of_tokens(device):
    """Tensors of positions, in any order: masks and distances go by them."""
    q_at, k_at = torch.randperm(Q_LEN), torch.stack([torch.randperm(K_LEN), torch.arange(K_LEN)])
    module = t5().requires_grad_(False)
    both = rows(device, batch=2)
    agree(device, module, inputs=both, mask="causal", window=(9, -1), q_positions=q_at, k_positions=k_at)
    agree(device, module, mask="none", q_positions=q_at, k_positions=k_at[:1])


def test_caps_sinks_and_scales(device):
    agree(
        device, t5(), slope=1, mask="causal_bottom_right", soft_cap=1.5, scale=0.7, sinks=torch.tensor([0.5, -math.inf])
    )
    agree(device, mask="causal", sinks=torch.tensor([2.0, 0.1]))  # without a bias


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


def test_rows_are_turned_first(device):
    table = bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 64)
    agree(device, [bearing.RotaryRows(table)], mask="causal", q_positions=8, k_positions=0)


def test_what_nobody_sees_may_hold_anything(device):
    options = {"mask": "causal_bottom_right", "window": (20, 0), "k_lengths": torch.tensor([20, 9], device=device)}
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


def test_a_plan_says_which_path_a_call_takes():
    q = torch.empty(1, HEADS, 4, 8, device="meta")
    path = lambda *encodings, **options: bt.plan(q, q, q, list(encodings), mask="causal", **options)
    assert path(bt.Alibi(HEADS)).path == path().path == "triton"
    fire = path(bt.Fire(bearing.Fire(mlp_width=3), HEADS))
    assert fire.path == "flex_attention" and "FireBias is of the form per_query" in fire.reason
    assert path(bt.Shaw(bearing.Shaw(clip=3), 8)).path == "refused"  # with a table of values
    assert path(bt.Cope(bearing.Cope(max_pos=4), 8)).path == "refused"
    gates = torch.zeros(1, HEADS, 4)
    assert path(bearing.ForgettingBias(gates)).path == "flex_attention"
    assert path(q_positions=torch.rand(4)).path == "flex_attention"
    assert path(block_table=torch.zeros(1, 1, dtype=torch.int64)).path == "refused"
    assert path(t5(), q_positions=torch.arange(4)).path == "flex_attention"
    assert path(t5().requires_grad_(False), q_positions=torch.arange(4)).path == "triton"
    wide = torch.empty(1, 1, 4, 512, device="meta")
    assert bt.plan(wide, wide, wide, mask="none").path == "refused"
    half = q.double()
    assert "float64" in bt.plan(half, half, half, mask="none").reason


def test_compilers_see_through(device):
    q, k, v = rows(device)
    bias = t5().to(device)

    def loss(q, k, v):
        return bt.attention(q, k, v, bias, mask="causal").square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    leaves = [q, k, v, bias.table]
    whole = [torch.autograd.grad(one(q, k, v), leaves) for one in (compiled, loss)]
    assert all(torch.equal(x, y) for x, y in zip(*whole, strict=True))
