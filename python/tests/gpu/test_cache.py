"""Caches on GPUs: keys that move in place, flat and paged, and queries and keys that are rotated into a paged cache, with
the bits of the library on the CPU."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch

ROPE = bearing.Rope(head_dim=8, rotary_dim=6, pairing="half")
LONG = bearing.Rope(head_dim=8, rotary_dim=6, pairing="half", base=500_000.0, attention_factor=1.25)
SLOTS = torch.tensor([[5, 0, 11, -1], [2, 3, 8, 6]])  # of 3 blocks of 4 rows; rows 1, 4, 7, 9 and 10 are nobody's


def tokens(cache):
    """The rows that slots name, [batch, heads, time, dim]; zeros for the one that has none."""
    rows = cache.transpose(1, 2).flatten(0, 1)[SLOTS.clamp(min=0)]
    return (rows * (SLOTS >= 0)[..., None, None].to(rows.dtype)).transpose(1, 2).contiguous()


def untouched(before, after):
    others = [row for row in range(12) if row not in SLOTS.flatten().tolist()]
    return torch.equal(before.transpose(1, 2).flatten(0, 1)[others], after.transpose(1, 2).flatten(0, 1)[others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("angles", ["exact", "as_float32"])
def test_rebase_has_the_library_s_bits(dtype, angles, device):
    before, after = bearing.resolve(ROPE), bearing.resolve(LONG, angles=angles)
    k = torch.randn(2, 1, 4, 8).to(dtype)
    old, new = torch.randint(0, 90_000, (2, 4)), torch.randint(0, 90_000, (2, 4))
    there = k.to(device, copy=True)
    bt.rebase(before, old.to(device), after, new.to(device), there)
    bearing.rebase(before, old, after, new, k)
    assert torch.equal(there.cpu(), k)


def test_rebase_back_undoes_it(device):
    k = torch.randn(1, 2, 4, 8, dtype=torch.float64, device=device)
    own = k.clone()
    bt.rebase(ROPE, 10, LONG, 500, k)
    assert not torch.allclose(k, own)
    bt.rebase(LONG, 500, ROPE, 10, k)
    torch.testing.assert_close(k, own, rtol=0, atol=2**-50)


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_shift_has_the_library_s_bits(layout, device):
    for rope, by in ((bt.Rope(LONG), -77), (LONG, 1000)):
        k = torch.randn(2, 3, 4, 8)
        there = k.to(device, copy=True)
        bt.shift(rope, by, there, layout=layout)
        bearing.shift(LONG, by, k, layout=layout)
        assert torch.equal(there.cpu(), k)


def test_angles_as_float32_are_not_shifted(device):
    with pytest.raises(bearing.RangeError, match=r"^\[shift\] frequencies: must have exact angles"):
        bt.shift(bearing.resolve(LONG, angles="as_float32"), 1, torch.ones(1, 1, 4, 8, device=device))


def test_paged_caches_move_where_slots_say(device):
    cache = torch.randn(3, 2, 4, 8)
    there = cache.to(device, copy=True)
    wanted = tokens(cache)
    bearing.shift(LONG, -9, wanted)
    bt.shift(LONG, -9, there, slots=SLOTS.to(device))
    moved = there.cpu()
    assert torch.equal(tokens(moved), wanted) and untouched(cache, moved)
    bearing.rebase(bearing.resolve(LONG), 3, bearing.resolve(ROPE), 40, wanted)
    bt.rebase(LONG, 3, ROPE, 40, there, slots=SLOTS.to(device, torch.int32))
    assert torch.equal(tokens(there.cpu()), wanted) and untouched(cache, there.cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_queries_and_keys_are_rotated_into_a_cache(layout, dtype, device):
    q, k, v = (torch.randn(2, heads, 4, dim).to(dtype) for heads, dim in ((4, 8), (2, 8), (2, 5)))
    caches = [torch.randn(3, 2, 4, dim).to(dtype) for dim in (8, 5)]
    there = [cache.to(device, copy=True) for cache in caches]
    at = torch.randint(0, 5000, (2, 4))
    given = [(x if layout == "bhtd" else x.transpose(1, 2).contiguous()).to(device) for x in (q, k, v)]
    out = bt.rotate_to_cache(
        *given, *there, SLOTS.to(device), rope=bt.Rope(ROPE), positions=at.to(device), layout=layout
    )
    table = bearing.RopeTable(ROPE, 8)
    out = out.cpu() if layout == "bhtd" else out.cpu().transpose(1, 2)
    assert torch.equal(out, bearing.rotate_to(table, q, at))
    kept = (SLOTS >= 0)[:, None, :, None].to(dtype)
    assert torch.equal(tokens(there[0].cpu()), bearing.rotate_to(table, k, at) * kept)
    assert torch.equal(tokens(there[1].cpu()), v * kept)
    assert all(untouched(before, after.cpu()) for before, after in zip(caches, there, strict=True))


SMALL = torch.float8_e4m3fn


def small(x, scale=1.0):
    """PyTorch's own rounding to 8 bits, which has no infinities: what is too large becomes the largest number."""
    return (x.float() / scale).clamp(-448, 448).to(SMALL).view(torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_caches_of_8_bits_are_written(dtype, pairing, device):
    rope = bearing.Rope(head_dim=8, rotary_dim=6, pairing=pairing)
    q, k, v = (torch.randn(2, heads, 4, dim).to(dtype) for heads, dim in ((4, 8), (2, 8), (2, 5)))
    k[0, 0, 0] *= 1e4  # larger than 8 bits hold
    v[0, 0, 1] *= 1e-3  # where steps do not shrink any more
    caches = [torch.randn(3, 2, 4, dim).to(SMALL) for dim in (8, 5)]
    there = [cache.to(device, copy=True) for cache in caches]
    out = bt.rotate_to_cache(
        *(x.to(device) for x in (q, k, v)), *there, SLOTS.to(device), rope=rope, positions=77, k_scale=0.3, v_scale=2.5
    )
    table = bearing.RopeTable(rope, 8)
    assert torch.equal(out.cpu(), bearing.rotate_to(table, q, 77))
    kept = (SLOTS >= 0)[:, None, :, None]
    found = [cache.cpu().view(torch.uint8) for cache in there]
    assert torch.equal(tokens(found[0]), small(bearing.rotate_to(table, k.float(), 77), 0.3) * kept)
    assert torch.equal(tokens(found[1]), small(v, 2.5) * kept)
    assert all(untouched(b.view(torch.uint8), a) for b, a in zip(caches, found, strict=True))
    assert (tokens(there[0].cpu().float()).abs() == 448).any()


@pytest.mark.parametrize(
    ("dtype", "of_cache", "layout"),
    [(torch.bfloat16, torch.bfloat16, "bthd"), (torch.float32, SMALL, "bhtd"), (torch.float64, torch.float64, "bhtd")],
)
def test_queries_and_keys_are_normalised_into_a_cache(dtype, of_cache, layout, device):
    rope = bearing.Rope(head_dim=8, rotary_dim=6, pairing="half")
    whole = torch.randn(2, 4, 7, 8).to(device, dtype).transpose(1, 2)  # views of one projection
    q, k, v = whole[:, :3], whole[:, 3:5], whole[:, 5:, :, :5]
    weights = torch.rand(8).to(device), torch.rand(8).to(device, dtype)
    caches = [torch.randn(3, 2, 4, dim).to(device, of_cache) for dim in (8, 5)]
    before, scales = [cache.clone() for cache in caches], (0.3, 2.5) if of_cache is SMALL else (1, 1)
    rest = {"rope": rope, "eps": 1e-6, "positions": torch.randint(0, 5000, (2, 4)).to(device)}
    given = [x if layout == "bhtd" else x.transpose(1, 2) for x in (q, k, v)]
    norms = {"q_weight": weights[0], "k_weight": weights[1], "k_scale": scales[0], "v_scale": scales[1]}
    out = bt.rotate_to_cache(*given, *caches, SLOTS.to(device), layout=layout, **norms, **rest)
    turned = bt.norm_rotate(q, weights[0], k=k, k_weight=weights[1], **rest)
    assert torch.equal(out if layout == "bhtd" else out.transpose(1, 2), turned[0])
    for cache, rows, old, scale in zip(caches, (turned[1], v), before, scales, strict=True):
        found, wanted, old = cache.cpu(), rows.cpu(), old.cpu()
        if of_cache is SMALL:
            found, wanted, old = found.view(torch.uint8), small(wanted, scale), old.view(torch.uint8)
        assert torch.equal(tokens(found), wanted * (SLOTS >= 0)[:, None, :, None].to(wanted.dtype))
        assert untouched(old, found)


def test_caches_of_8_bits_move_in_place(device):
    cache = torch.randint(0, 256, (3, 2, 4, 8), dtype=torch.uint8)
    cache[(cache & 0x7F) == 0x7F] = 0  # no number
    wanted = cache.view(SMALL).float()
    there = cache.view(SMALL).to(device, copy=True)
    bt.shift(LONG, -9, there)
    bearing.shift(LONG, -9, wanted)
    assert torch.equal(there.cpu().view(torch.uint8), small(wanted))
    before = there.cpu()
    moved = tokens(before.float())
    bearing.rebase(bearing.resolve(LONG), 3, bearing.resolve(ROPE), 40, moved)
    bt.rebase(LONG, 3, ROPE, 40, there, slots=SLOTS.to(device))
    kept = (SLOTS >= 0)[:, None, :, None]
    assert torch.equal(tokens(there.cpu().view(torch.uint8)), small(moved) * kept)
    assert untouched(before.view(torch.uint8), there.cpu().view(torch.uint8))


def test_a_compiled_decode_step_writes_the_cache(device):
    rope = bt.Rope(ROPE)
    caches = [torch.zeros(3, 2, 4, 8, device=device) for _ in range(2)]
    q, k, v = (torch.randn(2, 2, 1, 8, device=device) for _ in range(3))
    slots = torch.tensor([[4], [9]], device=device)

    def step(q, k, v, k_cache, v_cache, at):
        return bt.rotate_to_cache(q, k, v, k_cache, v_cache, slots, rope=rope, positions=at) * 2

    own = [cache.clone() for cache in caches]
    wanted = step(q, k, v, *own, torch.tensor([[7], [8]], device=device))
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    found = compiled(q, k, v, *caches, torch.tensor([[7], [8]], device=device))
    assert torch.equal(found, wanted) and all(torch.equal(a, b) for a, b in zip(own, caches, strict=True))

    def normed(q, k, v, k_cache, v_cache):
        weight = torch.full((8,), 2.0, device=device)
        return bt.rotate_to_cache(
            q, k, v, k_cache, v_cache, slots, rope=rope, q_weight=weight, k_weight=weight, eps=1e-6
        )

    wanted = normed(q, k, v, *own)
    assert torch.equal(torch.compile(normed, fullgraph=True, backend="aot_eager")(q, k, v, *caches), wanted)
    assert all(torch.equal(a, b) for a, b in zip(own, caches, strict=True))


def test_wrong_calls_say_what_must_hold(device):
    k = torch.zeros(3, 2, 4, 8, device=device)
    slots = SLOTS.to(device)
    row = torch.zeros(2, 2, 4, 8, device=device)
    written = lambda *caches, **scales: bt.rotate_to_cache(row, row, row, *caches, slots, rope=ROPE, **scales)
    for call, error, text in [
        (lambda: bt.shift(LONG, 1, k.clone().requires_grad_()), TypeError, r"\[shift\] k: must not require gradients"),
        (lambda: bt.shift(LONG, 1, k[..., :6]), bearing.ShapeError, r"head_dim"),
        (lambda: bt.shift("rope", 1, k), TypeError, r"\[shift\] rope: must be"),
        (
            lambda: bt.shift(LONG, 1, k, slots=slots.float()),
            bearing.ShapeError,
            r"\[shift\] slots: must be int32 or int64",
        ),
        (
            lambda: bt.rebase(LONG, 0, bearing.Rope(head_dim=8, pairing="half"), 0, k),
            bearing.ShapeError,
            r"\[rebase\] to",
        ),
        (
            lambda: bt.rotate_to_cache(k, k, k, k, k, slots, rope=ROPE),
            bearing.ShapeError,
            r"q: must have 4 axes, and batch",
        ),
        (
            lambda: written(k, k, k_scale=0.5),
            TypeError,
            r"k_scale: must be 1 unless the caches are torch.float8_e4m3fn",
        ),
        (
            lambda: written(k.to(SMALL), k.to(SMALL), v_scale=0),
            TypeError,
            r"v_scale: must be a number larger than 0, got 0",
        ),
        (
            lambda: written(k.to(SMALL), k.clone()),
            TypeError,
            r"v_cache: must be torch.float32, as q is, or both caches",
        ),
        (lambda: written(k.to(torch.float8_e5m2), k), TypeError, r"k_cache: must be torch.float32, as q is, or both"),
        (
            lambda: written(k, torch.zeros(3, 1, 4, 8, device=device)),
            bearing.ShapeError,
            r"v_cache: must be \[blocks, 2, block_size, 8\], got \[3, 1, 4, 8\]",
        ),
        (
            lambda: bt.shift(LONG, 3, torch.zeros(2, 1, 0, 8, device=device), slots=[[-1]]),
            bearing.ShapeError,
            r"^\[shift\] k: must have rows in its blocks, got \[2, 1, 0, 8\]$",
        ),
        (
            lambda: written(k[:, :, :0], k[:, :, :0]),
            bearing.ShapeError,
            r"^\[rotate_to_cache\] k_cache: must have rows in its blocks, got \[3, 2, 0, 8\]$",
        ),
        (
            lambda: bt.rotate_to_cache(row, row.double(), row, k, k.clone(), slots, rope=ROPE),
            TypeError,
            r"\[rotate_to_cache\] k: must be torch.float32, as q is, got torch.float64",
        ),
        (
            lambda: written(k.to(SMALL), k.to(SMALL), k_scale=torch.full((2,), 0.5)),
            TypeError,
            r"k_scale: must be a number larger than 0, got a tensor \[2\]; there are no scales for each head",
        ),
        (
            lambda: written(k, k.clone(), q_weight=row[0, 0, 0], eps=1e-6),
            TypeError,
            r"^\[rotate_to_cache\] k_weight: must be given beside q_weight and eps, got None$",
        ),
        (
            lambda: written(k, k.clone(), q_weight=row[0, 0, 0], k_weight=row[0, 0, 0, :3], eps=1e-6),
            bearing.ShapeError,
            r"^\[rotate_to_cache\] k_weight: must be \[8\] on .*, got \[3\] on ",
        ),
        (
            lambda: written(k, k.clone(), q_weight=row[0, 0, 0], k_weight=row[0, 0, 0], eps="x"),
            TypeError,
            r"^\[rotate_to_cache\] eps: must be a number, got 'x'$",
        ),
        (
            lambda: bt.shift(LONG, -3.5, k),
            TypeError,
            r"\[shift\] by: must be a whole number .* got -3.5: rebase\(\) moves",
        ),
        (
            lambda: bt.shift(LONG, torch.tensor([1, 2]), k, slots=slots),
            TypeError,
            r"\[shift\] by: must be .* by which all move, got a tensor \[2\]: rebase\(\) moves each sequence",
        ),
        (lambda: bt.shift(LONG, True, k), TypeError, r"\[shift\] by: must be a whole number of tokens, .* got True"),
        (
            lambda: bt.rotate_to_cache(row, row, row, k, k.clone(), None, rope=ROPE),
            TypeError,
            r"\[rotate_to_cache\] slots: must be a tensor, a list or an array, got None",
        ),
        (
            lambda: bt.rotate_to_cache(*[row.int()] * 3, k.int(), k.int(), slots, rope=ROPE),
            TypeError,
            r"\[rotate_to_cache\] q: must be one of torch.float16, .*, got torch.int32",
        ),
        (
            lambda: bt.shift(LONG, 1, k, slots="all"),
            TypeError,
            r"\[shift\] slots: must be a tensor, a list or an array",
        ),
        (
            lambda: bt.shift(LONG, 1, k, slots=[[1], [2, 3]]),
            TypeError,
            r"\[shift\] slots: must be numbers with one length",
        ),
    ]:
        with pytest.raises(error, match=text):
            call()
    if device == "cpu":
        before = [torch.randn(3, 2, 4, 8) for _ in range(2)]
        own = [x.clone() for x in before]
        for wrong, text in [
            (slots + 8, r"slots: must be from 0 to 11, the cache's rows, or -1 for none, got 13"),
            (slots - 1, r"slots: must be from 0 to 11, .* got -2"),
            (slots.clamp(min=3), r"slots: must name each row once, got 3 twice"),
        ]:
            calls = [
                lambda slots=wrong: bt.shift(LONG, 1, own[0], slots=slots),
                lambda slots=wrong: bt.rebase(LONG, 0, LONG, 1, own[0], slots=slots),
                lambda slots=wrong: bt.rotate_to_cache(row, row, row, *own, slots, rope=ROPE),
            ]
            for call in (*calls, torch.compile(calls[2], backend="aot_eager")):
                with pytest.raises(bearing.RangeError, match=text):
                    call()
        assert all(torch.equal(a, b) for a, b in zip(before, own, strict=True))


def test_caches_that_share_memory_are_refused_on_every_device(device):
    k, shared = torch.zeros(3, 2, 4, 8, device=device), torch.zeros(3, 2, 4, 16, device=device)
    row, slots = torch.ones(2, 2, 4, 8, device=device), SLOTS.to(device)
    written = lambda *caches: bt.rotate_to_cache(row, row, row, *caches, slots, rope=ROPE)
    for caches in [(k, k), (k, k.view(3, 2, 4, 8)), (shared[..., :8], shared[..., 7:15])]:
        for call in (written, torch.compile(written, backend="aot_eager")):
            with pytest.raises(bearing.ShapeError, match="v_cache: must share no memory with k_cache"):
                call(*caches)
    one = torch.ones(1, 2, 4, 8, device=device)
    windows = torch.ones(50, device=device).as_strided((3, 2, 4, 8), (12, 6, 3, 1))
    for cache in (one.expand(3, -1, -1, -1), windows):
        calls = {
            "shift] k": lambda k: bt.shift(LONG, 3, k),
            "shift] k:": lambda k: bt.shift(LONG, 3, k, slots=slots),
            "rebase] k": lambda k: bt.rebase(LONG, 0, ROPE, 3, k),
            "rotate_to_cache] k_cache": lambda k: written(k, torch.zeros(3, 2, 4, 8, device=device)),
            "rotate_to_cache] v_cache": lambda v: written(torch.zeros(3, 2, 4, 8, device=device), v),
        }
        for name, call in calls.items():
            text = rf"^\[{name.rstrip(':')}: no two elements may share memory, got strides".replace("]", r"\]")
            with pytest.raises(bearing.ShapeError, match=text):
                call(cache)
    assert not k.any() and not shared.any() and (one == 1).all() and (windows == 1).all()
    both = torch.zeros(3, 2, 2, 4, 8, device=device)
    # One buffer, block by block or row by row.
    for caches in [(both[:, 0], both[:, 1]), (shared[..., :8], shared[..., 8:])]:
        bt.rotate_to_cache(row, row, row, *caches, slots, rope=ROPE)
        assert all(x.any() for x in caches)


def test_where_nobody_watches_no_op_is_called_and_autograd_hears_of_it(device, monkeypatch):
    for name in ("_rebase", "_shift", "_write"):
        monkeypatch.setattr(bt.cache, name, lambda *_: pytest.fail("an op was called"))
    k, v = (torch.ones(3, 2, 4, 8, device=device) for _ in range(2))
    row, slots = torch.ones(2, 2, 4, 8, device=device), SLOTS.to(device)
    bt.shift(LONG, 3, k)
    bt.rebase(LONG, 0, ROPE, 3, k)
    bt.rotate_to_cache(row, row, row, k, v, slots, rope=ROPE)
    assert (k._version, v._version, row._version) == (3, 1, 0)
    weight = torch.ones(3, 2, 4, 8, device=device, requires_grad=True)
    lost = weight * k
    bt.shift(LONG, 3, k)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        lost.sum().backward()
    with torch.inference_mode():
        bt.shift(LONG, 3, torch.ones(1, 1, 4, 8, device=device))


def test_slots_and_scales_come_as_they_are_at_hand(device):
    row = torch.randn(2, 2, 4, 8, device=device)
    empty = lambda: [torch.zeros(3, 2, 4, 8, device=device).to(SMALL) for _ in range(2)]
    wanted, found = empty(), empty()
    out = bt.rotate_to_cache(row, row, row, *wanted, SLOTS.to(device), rope=ROPE, k_scale=0.5)
    scale = torch.tensor(0.5, device=device)
    for slots in (SLOTS.tolist(), SLOTS.numpy()):
        for k_scale in (scale, np.float32(0.5), np.float64(0.5)):
            assert torch.equal(bt.rotate_to_cache(row, row, row, *found, slots, rope=ROPE, k_scale=k_scale), out)
            assert all(torch.equal(a.float(), b.float()) for a, b in zip(wanted, found, strict=True))
    moved, there = row.clone(), row.clone()
    bt.shift(ROPE, 3, moved)
    bt.shift(ROPE, np.int64(3), there)
    assert torch.equal(moved, there)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, SMALL])
def test_autocast_casts_to_what_the_caches_hold(dtype, device):
    row = torch.randn(2, 2, 4, 8, device=device)
    there, own = ([torch.zeros(3, 2, 4, 8, device=device).to(dtype) for _ in range(2)] for _ in range(2))
    kind = torch.device(device).type
    with torch.autocast(kind, torch.bfloat16):
        out = bt.rotate_to_cache(row, row, row, *there, SLOTS.to(device), rope=ROPE)
    cast = row.to(torch.bfloat16 if dtype is SMALL else dtype)
    assert torch.equal(out, bt.rotate_to_cache(cast, cast, cast, *own, SLOTS.to(device), rope=ROPE))
    assert all(torch.equal(a.float(), b.float()) for a, b in zip(there, own, strict=True))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float8_e5m2])
def test_autocast_casts_to_no_type_that_caches_may_not_have(dtype, device):
    row = torch.randn(2, 2, 4, 8, device=device)
    caches = [torch.zeros(3, 2, 4, 8, device=device).to(dtype) for _ in range(2)]
    text = rf"^\[rotate_to_cache\] k_cache: must be torch.bfloat16, as q is, or both caches {SMALL}, got {dtype}$"
    with torch.autocast(torch.device(device).type, torch.bfloat16), pytest.raises(TypeError, match=text):
        bt.rotate_to_cache(row, row, row, *caches, SLOTS.to(device), rope=ROPE)
