"""Kernels in Triton, compiled for GPUs without one: what a thread loads at once, and that no register is spilled."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton's interpreter compiles nothing", allow_module_level=True)
sys.path.insert(0, str(Path(__file__).parent / "gpu"))

import bearing
from bearing.torch.encoding import table_form
from bearing.torch.triton import cache as caches
from bearing.torch.triton import hub, norm_cache
from bearing.torch.triton import launch as launches_of
from bearing.torch.triton import norm as norms
from bearing.torch.triton import rotate as kernels
from compiled import TARGETS, code_of, kinds_of, recorded

NORMS = ("norm_kernel", "norm_both_kernel")


def rotation(dtype, pairing, positions=0, rows=0, angles="exact", apart=False, **spec):
    """The launch that turns queries and keys of a model's size. apart: their heads do not lie together."""
    form = table_form(bearing.Rope(head_dim=128, pairing=pairing, **spec), rows, angles)
    q, k = (torch.empty(1, 256, heads, 128, dtype=dtype).transpose(1, 2) for heads in (32, 8))
    q, k = (x.contiguous() if apart else x for x in (q, k))
    with recorded(launches_of, "turn_kernel") as launches:
        kernels.rotate([q, k], positions, form, "bhtd", False)
    (launch,) = launches
    return launch


# Where cosines come from, and how heads lie.
WAYS = {
    "computed": {},
    "rows": {"rows": 256},
    "rows, by positions on the device": {"rows": 256, "positions": torch.arange(256)},
    "fixed point": {"angles": "fixed_point"},
    "fixed point at reals, heads apart": {"angles": "fixed_point", "positions": torch.arange(256) / 2, "apart": True},
    "computed, heads apart": {"apart": True},
    "rows, by positions on the device, heads apart": {"rows": 256, "positions": torch.arange(256), "apart": True},
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotation_loads_and_stores_wide_and_spills_nothing(pairing, dtype, target):
    code = code_of(rotation(dtype, pairing, rows=256), target)
    assert code.spilled == 0 and code.local == 0
    # 16 bytes are the most that a thread takes; four elements of two bytes fill a wave of 64 threads for AMD.
    wide = 8 if target == "gfx942" and dtype is torch.bfloat16 and pairing == "half" else 16
    assert set(code.stores) == {wide}
    # Queries' tile and keys', each as the first and as the next one; beside them rows of cosines, [2 tokens, 64 pairs].
    assert code.loads[wide] >= 4 and all(bytes_at_once >= 4 for bytes_at_once in code.loads)
    loaded = {size: size * count for size, count in code.loads.items()}
    assert sum(of for size, of in loaded.items() if size >= wide) >= 0.75 * sum(loaded.values())


@pytest.mark.parametrize(("way", "target"), [*((way, "sm_90") for way in WAYS), (list(WAYS)[-1], "gfx942")])
def test_each_source_of_cosines_leaves_registers_for_others(way, target):
    """A processor of NVIDIA's has 65,536 registers: with 128 for each thread, 512 threads wait for memory at once."""
    code = code_of(rotation(torch.bfloat16, "half", **WAYS[way]), target)
    assert code.spilled == 0 and code.local == 0 and code.registers <= 128
    assert set(code.stores) <= {8, 16}
    if "fixed point" in way:
        assert not re.search(r"\.f64|_f64", code.text)  # no GPU need know them


def moves():
    """Other launches of the same kernel: a cache that moves, one that is written to, rows in place, and given cosines."""
    rope, after = bearing.Rope(head_dim=128, pairing="half"), bearing.Rope(head_dim=128, pairing="half", base=5e5)
    forms = [table_form(one, 8) for one in (rope, after)]
    small = torch.empty(64, 8, 16, 128, dtype=torch.float8_e4m3fn)
    cache, slots = torch.empty(64, 8, 16, 128, dtype=torch.bfloat16), torch.zeros(2, 256, dtype=torch.int64)
    q, k = (torch.empty(2, 256, heads, 128, dtype=torch.bfloat16).transpose(1, 2) for heads in (32, 8))
    cos = torch.empty(1, 256, 128, dtype=torch.bfloat16)
    with recorded(launches_of, "turn_kernel") as launches:
        caches.rebase(cache, forms[0], 0, forms[1], torch.arange(256), slots, "bhtd")
        caches.rotate_to_cache(q, k, k, cache, cache, slots, torch.arange(256), forms[0], "bhtd", (1.0, 1.0))
        caches.rotate_to_cache(q, k, k, small, small, slots, torch.arange(256), forms[0], "bhtd", (0.5, 0.5))
        kernels.rotate([q, k], 0, forms[0], "bhtd", False, in_place=True)
        hub.apply_rotary_transformers(q, k, cos, cos)
    return launches


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_moves_and_writes_of_caches_spill_nothing(target):
    for launch in moves():
        code = code_of(launch, target)
        assert code.spilled == 0 and code.local == 0
        assert code.widest_load >= (8 if target == "gfx942" else 16)
        assert max(code.stores) >= (8 if target == "gfx942" else 16)


@pytest.mark.parametrize("target", TARGETS)
def test_caches_of_8_bits_spill_nothing(target):
    """Also where the GPU has no instructions for such numbers. A wave of 64 threads has 4 bytes of a row for each."""
    small = torch.empty(64, 8, 16, 128, dtype=torch.float8_e4m3fn)
    form = table_form(bearing.Rope(head_dim=128, pairing="half"), 8)
    with recorded(launches_of, "turn_kernel") as launches:
        caches.shift(small, form, 5, torch.zeros(2, 256, dtype=torch.int64), "bhtd")
    code = code_of(launches[0], target)
    assert code.spilled == 0 and code.local == 0
    assert code.widest_load >= 8


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_norm_and_rotation_spill_nothing(target):
    form = table_form(bearing.Rope(head_dim=128, pairing="half"), 8)
    q = torch.empty(1, 256, 32, 128, dtype=torch.bfloat16).transpose(1, 2)
    with recorded(norms, "norm_kernel") as launches:
        norms.norm_rotate(q, torch.empty(128), 1e-6, 0, form, "bhtd")
        norms.norm_rotate(q, torch.empty(128), 1e-6, 0, form, "bhtd", q)
    assert len(launches) == 2
    spill_nothing(launches, target)


@pytest.mark.parametrize("target", TARGETS)
def test_norm_and_rotation_of_queries_and_keys_spill_nothing(target):
    form = table_form(bearing.Rope(head_dim=128, pairing="half"), 8)
    whole = torch.empty(1, 256, 48, 128, dtype=torch.bfloat16).transpose(1, 2)
    xs, weights = (whole[:, :32], whole[:, 32:40]), (torch.empty(128),) * 2
    with recorded(norms, "norm_both_kernel") as launches:
        norms.norm_rotate_each(xs, weights, 1e-6, 0, form, "bhtd")
        norms.norm_rotate_each(xs, weights, 1e-6, 0, form, "bhtd", xs)
    assert len(launches) == 2
    spill_nothing(launches, target)


@pytest.mark.parametrize("target", TARGETS)
def test_norm_and_rotation_into_a_cache_spill_nothing(target):
    form = table_form(bearing.Rope(head_dim=128, pairing="half"), 8)
    whole, slots = torch.empty(2, 256, 48, 128, dtype=torch.bfloat16).transpose(1, 2), torch.zeros(2, 256).long()
    q, k, v = whole[:, :32], whole[:, 32:40], whole[:, 40:]
    with recorded(norm_cache, "norm_to_cache_kernel") as launches:
        for kind, scales in ((torch.bfloat16, (1.0, 1.0)), (torch.float8_e4m3fn, (0.5, 0.5))):
            cache = torch.empty(64, 8, 16, 128, dtype=kind)
            at, weights = torch.arange(256), (torch.empty(128),) * 2
            rest = form, "bhtd", scales, weights, 1e-6
            norm_cache.norm_rotate_to_cache(q, k, v, cache, cache, slots, at, *rest)
    assert len(launches) == 2
    spill_nothing(launches, target)


def spill_nothing(launches, target):
    for launch in launches:
        code = code_of(launch, target)
        assert code.spilled == 0 and code.local == 0
        assert code.widest_load >= (8 if target == "gfx942" else 16)


def test_a_step_at_another_position_is_not_compiled_again():
    """After a warm-up at 100 there is code for 112, a multiple of 16, and for 0 and 1; the same of lengths."""
    forms = [table_form(bearing.Rope(head_dim=128, pairing="half", base=base), 8) for base in (1e4, 5e5)]

    def made(first, time):
        q = torch.empty(1, 32, time, 128, dtype=torch.bfloat16)
        with recorded(launches_of, "turn_kernel") as turned, recorded(norms, *NORMS) as normed:
            kernels.rotate([q], first, forms[0], "bhtd", False)
            caches.rebase(q, forms[0], first, forms[1], first + 7, None, "bhtd")
            norms.norm_rotate(q, torch.empty(128), 1e-6, first, forms[0], "bhtd")
            norms.norm_rotate_each((q, q), (torch.empty(128),) * 2, 1e-6, first, forms[0], "bhtd")
        return [kinds_of(launch) for launch in (*turned, *normed)]

    warm = made(100, 100)
    assert len(warm) == 4
    assert made(112, 100) == made(0, 100) == made(1, 100) == made(100, 112) == warm


def test_a_length_is_compiled_once_where_positions_and_slots_are_tensors():
    """Strides of theirs are lengths: 1, a multiple of 16, or another number."""
    forms = [table_form(bearing.Rope(head_dim=128, pairing="half", base=base), 8) for base in (1e4, 5e5)]
    cache = torch.empty(64, 8, 16, 128, dtype=torch.bfloat16)

    def made(time):
        q, k = (torch.empty(2, time, heads, 128, dtype=torch.bfloat16).transpose(1, 2) for heads in (32, 8))
        at, slots = (torch.zeros(2, time, dtype=torch.int64) for _ in range(2))
        with (
            recorded(launches_of, "turn_kernel") as turned,
            recorded(norms, *NORMS) as normed,
            recorded(norm_cache, "norm_to_cache_kernel") as into,
        ):
            kernels.rotate([q, k], at, forms[0], "bhtd", False)
            caches.rotate_to_cache(q, k, k, cache, cache, slots, at, forms[0], "bhtd", (1.0, 1.0))
            caches.rebase(cache, forms[0], at, forms[1], at, slots, "bhtd")
            caches.shift(cache, forms[0], 3, slots, "bhtd")
            norms.norm_rotate(q, torch.empty(128), 1e-6, at, forms[0], "bhtd")
            norms.norm_rotate_each((q, k), (torch.empty(128),) * 2, 1e-6, at, forms[0], "bhtd")
            weights = (torch.empty(128),) * 2
            rest = slots, at, forms[0], "bhtd", (1.0, 1.0), weights, 1e-6
            norm_cache.norm_rotate_to_cache(q, k, k, cache, cache, *rest)
        return [kinds_of(launch) for launch in (*turned, *normed, *into)]

    warm = made(1024)
    assert len(warm) == 7 and made(1023) == made(1041) == warm


@pytest.mark.parametrize("target", TARGETS)
def test_products_and_sums_are_rounded_apart(target):
    """Fused ones are those of two_product alone, three for each element that a thread holds."""
    launch = rotation(torch.float32, "half", torch.arange(256))
    code = code_of(launch, target)
    threads = launch.named["num_warps"] * TARGETS[target].warp_size
    each = max(1, launch.named["BT"] * launch.named["BP"] // threads)
    fused = re.findall(r"\bfma\.rn\.f\d+|\bv_(?:pk_)?(?:fma|fmac|mad)_f\d+", code.text)
    assert all("64" in one for one in fused)
    assert len(fused) == 3 * each
    free = code_of(launch._replace(named=launch.named | {"enable_fp_fusion": True}), target)
    assert re.search(r"\bfma\.rn\.f32|\bv_(?:pk_)?(?:fma|fmac)_f32", free.text)  # so this test can fail
    assert ".ftz" not in code.text
