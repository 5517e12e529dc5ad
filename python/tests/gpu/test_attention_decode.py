"""Keys of one query divided between programs, and paged caches, in Triton: what the library gives on the CPU, and the same
bits on every run."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing import _core
from bearing.torch.encoding import build, encodings_of, forms_of, tensors_of
from bearing.torch.triton import forward, launches, runs_kernel, tiles, visible
from calls import BANDS, DIM, ROUNDING, VALUE_DIM, WIDE_ROUNDING, close, doubled, quick, small_tiles
from place import INTERPRETED

__all__ = ["quick", "small_tiles"]  # fixtures
LENGTH = 61


@pytest.fixture(autouse=True)
def divided(monkeypatch):
    """Keys are divided where there are more than a few, also where tiles are small."""
    monkeypatch.setattr(launches, "LEAST_KEYS", 16)


def inputs(device, q_len=1, batch=2, heads=4, kv_heads=2, k_len=LENGTH, dims=(DIM, VALUE_DIM)):
    shapes = (heads, q_len, dims[0]), (kv_heads, k_len, dims[0]), (kv_heads, k_len, dims[1])
    return [torch.randn(batch, *shape, device=device) for shape in shapes]


def agrees(device, q, k, v, module, **options):
    """Compares out and lse of a call with the library's; the table's bad blocks, which nobody sees, are others there."""
    there = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    module = module.to(device).requires_grad_(False) if isinstance(module, torch.nn.Module) else module
    out, lse = bt.attention(q, k, v, module, return_lse=True, **there)
    encodings = encodings_of(module)
    terms = build(forms_of(encodings), [doubled(t) for t in tensors_of(encodings, torch.float64)], torch.float64)
    rest = {name: doubled(x) for name, x in options.items()}
    if "block_table" in rest:
        rest["block_table"] = rest["block_table"].clamp(0, k.shape[0] - 1)
    want = _core.attention(doubled(q), doubled(k), doubled(v), terms, return_lse=True, **rest)
    close("out", out, want[0], doubled(v).nan_to_num(0).abs().max(), WIDE_ROUNDING[q.dtype])
    close("lse", lse, want[1], 16, ROUNDING)
    return out, lse


def bias(heads=4):
    module = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="bidirectional"), heads, 16)
    torch.nn.init.normal_(module.table)
    return module


def shaw():
    module = bt.Shaw(bearing.Shaw(clip=5), DIM, VALUE_DIM)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module


def test_keys_are_divided_by_the_shapes_alone():
    assert launches.shares(8, 16, 16) == (1, 16)
    parts, share = launches.shares(8, LENGTH, 16)
    assert parts > 1 and share % 16 == 0 and (parts - 1) * share < LENGTH <= parts * share
    assert launches.shares(launches.PROGRAMS, 10**6, 64)[0] == 1  # they fill a GPU without
    for programs in (1, 7, 100, 300):
        for k_len in (1, 255, 4097, 10**6):
            parts, share = launches.shares(programs, k_len, 64)
            assert programs * parts <= launches.PROGRAMS and (parts - 1) * share < k_len <= parts * share


OPTIONS = {
    "a decode step": (1, {"mask": "causal", "q_positions": LENGTH - 1, "k_positions": 0}),
    "some queries": (19, {"mask": "causal", "q_positions": LENGTH - 19, "k_positions": 0}),
    "a window": (3, {"mask": "causal", "window": (20, 0), "q_positions": 45, "k_positions": 0}),
    "sequences of different lengths": (
        2,
        {
            "mask": "causal_bottom_right",
            "k_lengths": torch.tensor([LENGTH, 9]),
            "sinks": torch.tensor([0.5, -math.inf, 2, 0]),
        },
    ),
    "keys that are hidden": (2, {"mask": "none", "key_mask": (torch.arange(LENGTH) % 3 > 0).repeat(2, 1)}),
    "nothing to see for one": (2, {"mask": "none", "k_lengths": torch.tensor([LENGTH, 0])}),
    "a soft cap": (1, {"mask": "none", "soft_cap": 2.0}),
}


@pytest.mark.parametrize("made", [bias, shaw])
@pytest.mark.parametrize("name", OPTIONS)
def test_divided_keys(name, made, device):
    q_len, options = OPTIONS[name]
    agrees(device, *inputs(device, q_len), made(), **options)


def counted(monkeypatch):
    """One for each call whose launches are not there yet."""
    made = []
    work = forward.Work
    monkeypatch.setattr(forward, "Work", lambda *args, **named: made.append(1) or work(*args, **named))
    return made


STEPS = {
    "plain": (lambda: None, {"mask": "none"}),
    "a bias in parts": (bias, {"mask": "causal", "q_positions": LENGTH - 1, "k_positions": 0}),
    "a bias by a number of each head": (lambda: bt.Alibi(4), {"mask": "causal", "q_positions": LENGTH - 1}),
    "masks and sinks": (
        lambda: None,
        {
            "mask": "causal_bottom_right",
            "k_lengths": torch.tensor([LENGTH, 9]),
            "key_mask": torch.arange(2 * LENGTH).view(2, LENGTH) % 3 > 0,
            "sinks": torch.tensor([0.5, -math.inf, 2, 0]),
        },
    ),
    "pairs": (lambda: None, {"mask": "none", "visible": torch.rand(2, 4, 1, LENGTH) < 0.5}),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_are_alike_share_launches(name, device, monkeypatch):
    """And nothing else: tensors are others, lie elsewhere, or have other numbers since."""
    make, options = STEPS[name]
    module, made = make(), counted(monkeypatch)
    options = {key: x.to(device) if isinstance(x, torch.Tensor) else x for key, x in options.items()}
    for step in range(4):
        q, k, v = inputs(device, dims=(16, 16))  # where vectors of 16 bytes are loaded if …
        if step == 2:  # … rows begin at multiples of 16 bytes
            q, k, v = (torch.cat((x.flatten()[:1], x.flatten()))[1:].view(x.shape) for x in (q, k, v))
        agrees(device, q, k, v, [] if module is None else module, **options)
        for x in (options.get("k_lengths"), options.get("sinks"), *(module.parameters() if module else ())):
            if x is not None:
                x.data[:2] -= 1
        for key in ("key_mask", "visible"):
            if key in options:
                options[key] = options[key].roll(1, -1)
    assert len(made) == 1


def test_slopes_are_read_where_they_lie(device):
    """In steps that share launches, and in those that do not."""
    q, k, v = inputs(device)
    options = {"mask": "causal", "q_positions": LENGTH - 1}
    numbers = torch.tensor([0.5, 9.0, 0.25, 9.0, 0.125, 9.0, 1.0, 9.0], device=device)
    dense = numbers[::2].clone()
    for _ in range(2):
        for slopes in (dense, numbers[::2], numbers[:1].expand(4), numbers.view(4, 2)[:, 0], dense.flip(0)):
            agrees(device, q, k, v, bearing.AlibiBias(slopes=slopes), **options)


def test_steps_that_differ_share_nothing(device, monkeypatch):
    made = counted(monkeypatch)
    q, k, v = inputs(device)
    plain = {"mask": "none"}
    calls = [
        (q, k, v, plain), (q, k, v, {"mask": "causal_bottom_right"}), (q, k, v, {"mask": "none", "window": (9, -1)}),
        (q, k, v, {"mask": "none", "scale": 0.5}), (q, k, v, {"mask": "none", "soft_cap": 3.0}), (q[:1], k[:1], v[:1], plain),
        (q, k[:, :, 1:], v[:, :, 1:], plain), (q, k[:, :1], v[:, :1], plain), (q, k, v[..., 1:], plain),
        (q.half(), k.half(), v.half(), plain), (q, k, v, {"mask": "none", "sinks": torch.zeros(4)}),
        (q, k, v, {"mask": "causal", "q_positions": 20}), (q, k, v, {"mask": "causal", "q_positions": 30}),
        *((q, k, v, {"mask": "none", "q_positions": 30, "band": band}) for band in BANDS[:2]),
    ]  # fmt: skip
    for _ in range(2):
        for *rows, options in calls:
            agrees(device, *rows, [], **options)
        assert len(made) == len(calls)
    scale = torch.tensor(0.5)
    for _ in range(2):
        agrees(device, q, k, v, [], mask="none", scale=float(scale))
        given = bt.attention(q, k, v, mask="none", scale=scale)
        assert torch.equal(given, bt.attention(q, k, v, mask="none", scale=float(scale)))
        scale *= 2
    by_token = [x.transpose(1, 2) for x in (q, k, v)]
    for _ in range(2):
        assert torch.equal(
            bt.attention(*by_token, mask="none", layout="bthd").transpose(1, 2), bt.attention(q, k, v, mask="none")
        )


def test_what_is_not_kept_is_made_for_each_call(device, monkeypatch):
    """Rows that turn, that are copied, or that distances pick; a bias by an operation; positions of tokens."""
    made = counted(monkeypatch)
    q, k, v = inputs(device)
    rope = bearing.RotaryRows(bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), LENGTH))
    places = {"q_positions": torch.tensor([40]), "k_positions": torch.arange(LENGTH)}
    spread = torch.stack([q, q], -1)[..., 0]
    calls = [
        (q, rope, {}), (q, shaw(), {}), (q, [bias(), bt.Alibi(4)], {}), (q, bias(), places), (spread, [], {}),
    ]  # fmt: skip
    for x, encodings, options in calls:
        many = encodings if isinstance(encodings, list) else [encodings]
        there = [one.to(device).requires_grad_(False) if isinstance(one, torch.nn.Module) else one for one in many]
        first, second = (bt.attention(x, k, v, there, mask="none", **options) for _ in range(2))
        assert torch.equal(first, second)
    assert len(made) == 2 * len(calls)


SHARED = {
    "one query": (
        1,
        {"mask": "causal", "q_positions": LENGTH - 1, "k_positions": 0, "sinks": torch.linspace(-2, 2, 12)},
    ),
    "two tiles of rows": (3, {"mask": "causal", "window": (20, 0), "q_positions": LENGTH - 3, "k_positions": 0}),
    "more queries than a tile": (11, {"mask": "causal", "q_positions": LENGTH - 11, "k_positions": 0}),
    "sequences of different lengths": (2, {"mask": "causal_bottom_right", "k_lengths": torch.tensor([LENGTH, 1])}),
    "pairs": (2, {"mask": "none", "visible": torch.rand(2, 12, 2, LENGTH) < 0.5}),
    "keys that are hidden": (
        5,
        {"mask": "none", "key_mask": (torch.arange(LENGTH) % 3 > 0).repeat(2, 1), "soft_cap": 2.0},
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_heads_that_share_keys_are_one_tile(name, device):
    """Six heads share a key head: 6, 18, 12 and 30 rows. 66 are too many for a tile, and 18 for one of float32."""
    q_len, options = SHARED[name]
    for dtype in (torch.float32, torch.float16):
        agrees(device, *(x.to(dtype) for x in inputs(device, q_len, heads=12)), bias(12), **options)


def test_a_tile_has_all_heads_that_share_keys():
    given = {"rows": 16, "width": 128, "value_width": 128, "group": 4}
    kind = tiles.Kind(**{field.name: 0 for field in fields(tiles.Kind)} | given)
    for q_len, dtype, rows in (
        (1, torch.bfloat16, 16),
        (5, torch.bfloat16, 32),
        (16, torch.bfloat16, 64),
        (4, torch.float32, 16),
    ):
        found = launches.packed(kind, q_len, dtype)
        assert found.packed and found.rows == rows
    for one, q_len, dtype in (
        (kind, 17, torch.bfloat16), (kind, 5, torch.float32), (replace(kind, group=1), 1, torch.bfloat16),
        (replace(kind, width=256), 5, torch.bfloat16), (replace(kind, q_table=True), 1, torch.bfloat16),
    ):  # fmt: skip
        assert launches.packed(one, q_len, dtype) is one


@pytest.mark.parametrize("band", BANDS, ids=str)
def test_steps_in_bands(band, device):
    """Heads that share keys, lengths of sequences, windows, positions of tokens, pages; and steps that follow each other."""
    lengths = torch.tensor([LENGTH, 9])
    for at in (LENGTH - 1, LENGTH - 2):
        agrees(device, *inputs(device), bias(), mask="causal", band=band, q_positions=at, k_positions=0)
    agrees(device, *inputs(device, 3), [], mask="causal_bottom_right", band=band, q_positions=40, k_lengths=lengths)
    agrees(device, *inputs(device, 2), bias(), mask="none", window=(20, 3), band=band, q_positions=30, k_positions=7)
    placed = {"q_positions": torch.tensor([[40], [7]]), "k_positions": torch.arange(LENGTH)[None].repeat(2, 1)}
    agrees(device, *inputs(device), bias(), mask="causal", band=band, **placed)
    paged = {"block_table": TABLE, "k_lengths": LENGTHS, "q_positions": 28, "k_positions": 0}
    q = torch.randn(2, 4, 2, DIM, device=device)
    agrees(device, q, *pages(device), bias(), mask="none", band=band, **paged)


RULES = {
    "none": ("none", (-1, -1), 3),
    "none, by tokens' positions": ("causal", (-1, -1), None),
    "a window": ("none", (4, 2), 7),
    "causal": ("causal", (-1, -1), 40),
    "queries before keys": ("causal", (5, -1), -6),
    "queries behind keys": ("none", (3, 1), 2**32),
    "from the first": ("causal_top_left", (2, -1), 3),
    "from the last": ("causal_bottom_right", (7, -1), 3),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    "lengths", [None, torch.tensor([LENGTH, 0, 9, 99, -3], dtype=torch.int32)], ids=["", "lengths"]
)
def test_runs_in_one_launch(name, lengths, device):
    mask, window, offset = RULES[name]
    spread = None if lengths is None else torch.stack([lengths, lengths], 1).to(device)[:, 0]
    for q_len in (1, 16, 130):
        rules = visible.Rules(mask, window, q_len, LENGTH, offset, spread, None, None, torch.device(device))
        for band in (None, *BANDS):
            given = band and visible.Band.of(band.begin, band.end, band.chunk, -5)
            rules = rules._replace(band=given)
            found, wanted = runs_kernel.runs(rules), visible.runs(rules)
            assert all(torch.equal(x, y) and x.dtype is y.dtype for x, y in zip(found, wanted, strict=True))


def test_sequences_are_as_many_as_memory_holds(device, monkeypatch):
    """Of the axes that programs have, all but the first one end at 65,535."""
    seen = []
    monkeypatch.setattr(runs_kernel, "start", lambda kernel, device, programs, *_, **__: seen.append(programs))
    lengths = torch.zeros(70_000, dtype=torch.int32, device=device)
    rules = visible.Rules("none", (-1, -1), 130, LENGTH, 0, lengths, None, None, torch.device(device))
    first, _ = runs_kernel.runs(rules)
    assert first.shape == (70_000, 130) and seen == [2 * 70_000]


def test_positions_of_each_sequence(device):
    options = {"q_positions": torch.tensor([[40], [7]]), "k_positions": torch.arange(LENGTH)[None].repeat(2, 1)}
    agrees(device, *inputs(device), bias(), mask="causal", **options)
    on_axes = {name: torch.stack([at, at % 3, at % 2]) for name, at in options.items()}
    agrees(device, *inputs(device), bias(), mask="causal", window=(9, -1), **on_axes)


TABLE = torch.tensor([[3, 1, 8, 0, 2, 5, 99], [4, 6, 7, -1, 99, 99, 99]])  # what comes after a sequence names no block
LENGTHS = torch.tensor([30, 13])


def pages(device, block_size=5):
    return (
        torch.randn(9, 2, block_size, DIM, device=device),
        torch.randn(9, 2, block_size, VALUE_DIM, device=device),
    )


@pytest.mark.parametrize("made", [bias, shaw])
@pytest.mark.parametrize("q_len", [1, 20])
def test_a_paged_cache(q_len, made, device):
    q = torch.randn(2, 4, q_len, DIM, device=device)
    k, v = pages(device)
    paged = {"block_table": TABLE, "k_lengths": LENGTHS}
    agrees(device, q, k, v, made(), mask="causal_bottom_right", **paged, q_positions=30 - q_len, k_positions=0)
    agrees(device, q, k, v, made(), mask="none", window=(11, 4), q_positions=5, k_positions=0, **paged)


def test_a_paged_cache_in_the_other_layout(device):
    q = torch.randn(2, 4, 3, DIM, device=device)
    k, v = pages(device)
    paged = {"block_table": TABLE.to(device), "k_lengths": LENGTHS.to(device), "mask": "none"}
    want = bt.attention(q, k, v, **paged)
    found = bt.attention(*(x.transpose(1, 2) for x in (q, k, v)), layout="bthd", **paged)
    assert torch.equal(found.transpose(1, 2), want)


def test_what_no_key_of_a_sequence_has_may_hold_anything(device):
    """Other blocks, and what lies behind the last key of a block."""
    q, (k, v) = torch.randn(2, 4, 1, DIM, device=device), pages(device)
    paged = {"block_table": TABLE.to(device), "k_lengths": LENGTHS.to(device), "mask": "none"}
    want = bt.attention(q, k, v, bias().to(device).requires_grad_(False), **paged)
    torch.manual_seed(20261123)
    k[7, :, 3:], v[7, :, 3:] = math.nan, math.nan  # 13 keys end in the third row of the second sequence's third block
    found = bt.attention(q, k, v, **paged)
    assert torch.equal(found, bt.attention(q, k.nan_to_num(0), v.nan_to_num(0), **paged))
    assert want.isfinite().all() and found.isfinite().all()


def test_a_block_that_does_not_exist_makes_nan(device):
    """Nothing on a device can raise, and no memory outside the cache is read."""
    q, (k, v) = torch.randn(2, 4, 1, DIM, device=device), pages(device)
    wrong = TABLE.to(device).clone()
    wrong[1, 1] = 9
    out = bt.attention(q, k, v, mask="none", block_table=wrong, k_lengths=LENGTHS.to(device))
    assert out[0].isfinite().all() and out[1].isnan().all()


def test_the_same_bits_in_any_order_of_programs(device, monkeypatch):
    q, k, v = inputs(device)
    call = lambda: bt.attention(q, k, v, shaw().to(device).requires_grad_(False), mask="none", return_lse=True)
    torch.manual_seed(1)
    first = call()
    if INTERPRETED:
        from triton.runtime import interpreter

        place = interpreter.interpreter_builder.set_grid_idx
        backwards = lambda x, y, z: place(interpreter.interpreter_builder.grid_dim[0] - 1 - x, y, z)
        monkeypatch.setattr(interpreter.interpreter_builder, "set_grid_idx", backwards)
    for _ in range(1 if INTERPRETED else 100):
        torch.manual_seed(1)
        assert all(torch.equal(x, y) for x, y in zip(first, call(), strict=True))


def test_gradients_through_divided_keys(device):
    q, k, v = (x.requires_grad_() for x in inputs(device))
    module = shaw().to(device)
    out = bt.attention(q, k, v, module, mask="none")
    found = torch.autograd.grad(out.square().sum(), [q, k, v])
    wide = [doubled(x).requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(bt.attention(*wide, module.cpu().double(), mask="none").square().sum(), wide)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.cpu().double(), other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


def test_what_does_not_fit_is_refused(device):
    q, (k, v) = torch.randn(2, 4, 1, DIM, device=device), pages(device)
    table, lengths = TABLE.to(device), LENGTHS.to(device)
    for wrong, words in (
        ({"block_table": table}, "k_lengths: must be given for a paged cache"),
        ({"block_table": table[:1], "k_lengths": lengths}, r"block_table: must have shape \[2, 7\], got \[1, 7\]"),
        (
            {"block_table": table.float(), "k_lengths": lengths},
            "block_table: must hold whole numbers, got torch.float32",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            bt.attention(q, k, v, mask="none", **wrong)
    with pytest.raises(ValueError, match="as a paged cache has none"):
        bt.attention(q.requires_grad_(), k, v, mask="none", block_table=table, k_lengths=lengths)
    rope = [bearing.RotaryRows(bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 64))]
    path = bt.plan(q, k, v, rope, mask="none", block_table=table, k_lengths=lengths)
    assert "rotate_to_cache() turns them as it writes them" in path.reason
