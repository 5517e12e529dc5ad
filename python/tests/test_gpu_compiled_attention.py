"""Attention's kernels in Triton, compiled for GPUs without one: that products of matrices are instructions of their own, and
which registers are spilled."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton's interpreter compiles nothing", allow_module_level=True)
sys.path.insert(0, str(Path(__file__).parent / "gpu"))

import bearing
import bearing.torch as bt
from bearing.torch.encoding import encodings_of, forms_of, tensors_of
from bearing.torch.triton import (
    attend_backward,
    attend_diagonals,
    attend_forward,
    bias_lines,
    launches,
    runs_kernel,
    work,
)
from bearing.torch.triton.backward import backward as attention_backward
from bearing.torch.triton.forward import _steps
from bearing.torch.triton.forward import forward as attention_forward
from bearing.torch.triton.options import Options
from bearing.torch.triton.tables import SIDES
from compiled import TARGETS, code_of, kinds_of, recorded
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend

# Bytes that threads of a program may share. GPUs for desktops (sm_86, sm_89, sm_120), whose products are those of sm_80, have 99 KiB.
SHARED = {"sm_80": 99 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}
PRODUCTS = {"sm_80": r"\bmma\.sync", "sm_90": r"\b(?:wgmma\.mma_async|mma\.sync)", "gfx942": r"\bv_mfma"}
CAUSAL = Options(*[None] * 9, "causal", (-1, -1), 0, 0, None, 0.0, "bhtd")


def learned_bias(dim):
    return bt.Kerple(bearing.Kerple(form="logarithmic"), 4)


def alibi(dim):
    return bt.Alibi(4)


def picked_rows(dim):
    """Rows that queries and keys are multiplied with, and rows that are added to values."""
    keys = bt.BertRelative(
        bearing.BertRelative(max_position_embeddings=512, position_embedding_type="relative_key_query"), dim
    )
    return [bt.Shaw(bearing.Shaw(clip=16), dim), keys]


def numbers_of_queries(dim):
    """Numbers of queries that are multiplied with rows by distance."""
    logits = bt.RelativeLogits(bearing.RelativeLogits(extent=1024, clip=8), 4, 8)
    return logits.encoding(torch.zeros(1, 512, 8))


def decode_step(paged, target, band=None):
    """The launches of a step with one query of each sequence and 8,192 keys, which are divided."""
    launches.AMD = target.startswith("gfx")
    _steps.clear()
    q, (k, v) = (
        torch.randn(2, 4, 1, 128, dtype=torch.bfloat16),
        (torch.randn(2, 2, 8192, 128, dtype=torch.bfloat16),) * 2,
    )
    options = CAUSAL._replace(mask="none", band=band)
    if paged:
        k, v = (torch.randn(1024, 2, 16, 128, dtype=torch.bfloat16) for _ in range(2))
        table = torch.zeros(2, 512, dtype=torch.int64)
        options = options._replace(block_table=table, k_lengths=torch.tensor([8000, 5000]))
    one = learned_bias(128).encoding()
    with recorded(attend_forward, "forward", "merge_parts") as found, recorded(runs_kernel, "runs_kernel"):
        attention_forward(q, k, v, [t.detach() for t in one.tensors], forms_of([one]), options, torch.bfloat16)
    assert [launch.kernel.fn.__name__ for launch in found] == ["forward", "merge_parts"]
    return found


def launched(dtype, dim, target, made=learned_bias, options=CAUSAL, out_dtype=None):
    """The launches of a training step with such encodings, by kernel; those of tables by their side too."""
    launches.AMD = target.startswith("gfx")
    q, k, v = (torch.randn(1, heads, 512, dim, dtype=dtype) for heads in (4, 2, 2))
    encodings = encodings_of(made(dim))
    tensors = [t.detach() for t in tensors_of(encodings, torch.float32)]
    rest = q, k, v, tensors, forms_of(encodings), options
    with (
        recorded(attend_forward, "forward", "merge_parts") as forward,
        recorded(attend_backward, "row_sums", "d_queries", "d_keys") as backward,
        recorded(attend_diagonals, "d_distances", "d_tables") as diagonals,
        recorded(bias_lines, "lines_kernel"),
    ):
        out, lse = attention_forward(*rest, out_dtype or dtype)
        attention_backward(out, None, out, lse, *rest, options.q_positions is None)
    sides = lambda launch: f" of {launch.named['SIDE']}" if launch.kernel.fn.__name__ == "d_tables" else ""
    return {launch.kernel.fn.__name__ + sides(launch): launch for launch in [*forward, *backward, *diagonals]}


WIDTHS = (64, 128)


def places(kernels, turn):
    """Each kernel for one target at one width of rows. Both take turns, in each test from another one, so that a kernel of
    several tests has several of both; BEARING_EVERY_WIDTH in the environment asks for all."""
    every = "BEARING_EVERY_WIDTH" in os.environ
    for i, kernel in enumerate(kernels):
        for j, target in enumerate(TARGETS):
            if (i + j + turn) % len(TARGETS) and not every:
                continue
            for width in WIDTHS if every else (WIDTHS[(i + turn) % 2],):
                yield pytest.param(kernel, width, target, id=f"{kernel}-{width}-{target}")


# What is spilled where anything is, by kernel, width of rows and target. Tiles are the fastest on a device, and a little that
# is spilled may be a part of that. So a change does not add to it unseen.
SPILLED = {
    ("d_queries", 64, "sm_80"): 212,
    ("d_keys", 64, "sm_80"): 136,
    ("d_queries", 128, "sm_80"): 164,
    ("d_keys", 128, "sm_80"): 360,
    ("d_distances", 128, "sm_80"): 68,
    ("d_keys", 64, "sm_90"): 0,
    ("d_keys", 128, "sm_90"): 400,
    ("forward", 64, "gfx942"): 52,
    ("d_queries", 64, "gfx942"): 40,
    ("d_keys", 64, "gfx942"): 268,
    ("d_distances", 64, "gfx942"): 72,
    ("forward", 128, "gfx942"): 32,
    ("d_queries", 128, "gfx942"): 32,
    ("d_keys", 128, "gfx942"): 384,
    ("d_distances", 128, "gfx942"): 80,
}
SPILLED_STRAIGHT = {
    ("d_keys", 64, "sm_80"): 656,
    ("d_keys", 128, "sm_80"): 200,
    ("d_keys", 64, "sm_90"): 92,
    ("d_keys", 128, "sm_90"): 208,
    ("forward", 64, "gfx942"): 180,
    ("d_queries", 64, "gfx942"): 72,
    ("d_keys", 64, "gfx942"): 1052,
    ("d_distances", 64, "gfx942"): 72,
    ("forward", 128, "gfx942"): 156,
    ("d_keys", 128, "gfx942"): 200,
    ("d_distances", 128, "gfx942"): 76,
}
SPILLED_PICKED = {
    ("forward", 64, "sm_80"): 2400,
    ("d_tables of query", 64, "sm_80"): 2128,
    ("d_tables of key", 64, "sm_80"): 2176,
    ("d_tables of value", 64, "sm_80"): 1264,
    ("forward", 128, "sm_80"): 3404,
    ("d_queries", 128, "sm_80"): 248,
    ("d_keys", 128, "sm_80"): 304,
    ("d_tables of query", 128, "sm_80"): 264,
    ("d_tables of key", 128, "sm_80"): 216,
    ("d_tables of value", 128, "sm_80"): 72,
    ("forward", 64, "sm_90"): 512,
    ("d_tables of query", 64, "sm_90"): 1084,
    ("d_tables of key", 64, "sm_90"): 820,
    ("d_tables of value", 64, "sm_90"): 620,
    ("forward", 128, "sm_90"): 1092,
    ("d_queries", 128, "sm_90"): 252,
    ("d_keys", 128, "sm_90"): 368,
    ("d_tables of query", 128, "sm_90"): 1420,
    ("d_tables of key", 128, "sm_90"): 1364,
    ("d_tables of value", 128, "sm_90"): 96,
    ("forward", 64, "gfx942"): 356,
    ("d_queries", 64, "gfx942"): 4196,
    ("d_keys", 64, "gfx942"): 4752,
    ("d_tables of query", 64, "gfx942"): 256,
    ("d_tables of key", 64, "gfx942"): 260,
    ("d_tables of value", 64, "gfx942"): 188,
    ("forward", 128, "gfx942"): 580,
    ("d_queries", 128, "gfx942"): 4648,
    ("d_keys", 128, "gfx942"): 5516,
    ("d_tables of query", 128, "gfx942"): 4364,
    ("d_tables of key", 128, "gfx942"): 4400,
    ("d_tables of value", 128, "gfx942"): 2920,
}
SPILLED_MIXED = {
    ("d_tables of mixed", 64, "sm_80"): 416,
    ("forward", 128, "sm_80"): 220,
    ("d_queries", 128, "sm_80"): 24,
    ("d_tables of mixed", 128, "sm_80"): 76,
    ("d_keys", 128, "sm_90"): 8,
    ("d_tables of mixed", 128, "sm_90"): 68,
    ("forward", 64, "gfx942"): 68,
    ("d_queries", 64, "gfx942"): 2240,
    ("d_keys", 64, "gfx942"): 2384,
    ("d_tables of mixed", 64, "gfx942"): 196,
    ("forward", 128, "gfx942"): 64,
    ("d_queries", 128, "gfx942"): 2240,
    ("d_keys", 128, "gfx942"): 2396,
    ("d_tables of mixed", 128, "gfx942"): 2412,
}


SPILLED_RANKED = {
    ("d_keys", 64, "sm_80"): 232,
    ("d_keys", 128, "sm_80"): 192,
    ("d_keys", 128, "sm_90"): 16,
    ("forward", 64, "gfx942"): 144,
    ("d_queries", 64, "gfx942"): 176,
    ("d_keys", 64, "gfx942"): 212,
    ("forward", 128, "gfx942"): 144,
    ("d_queries", 128, "gfx942"): 548,
    ("d_keys", 128, "gfx942"): 360,
}


@pytest.mark.parametrize(
    ("kernel", "dim", "target"), [*places(["forward", "d_queries", "d_keys", "d_distances"], turn=0)]
)
def test_products_are_instructions_and_spilled_registers_are_known(kernel, dim, target):
    code = code_of(launched(torch.bfloat16, dim, target)[kernel], target)
    assert code.spilled == SPILLED.get((kernel, dim, target), 0)
    assert code.local == 0 or code.spilled > 0
    assert re.search(PRODUCTS[target], code.text)
    assert code.shared <= SHARED[target]
    assert code.widest_load == 16


@pytest.mark.parametrize(
    ("kernel", "dim", "target"), [*places(["forward", "d_queries", "d_keys", "d_distances"], turn=1)]
)
def test_a_bias_that_is_a_line_too(kernel, dim, target):
    """No number of it is looked up, so that the kernels' loops have fewer registers than with one that is not."""
    code = code_of(launched(torch.bfloat16, dim, target, alibi)[kernel], target)
    assert code.spilled == SPILLED_STRAIGHT.get((kernel, dim, target), 0)
    assert re.search(PRODUCTS[target], code.text)
    assert code.shared <= SHARED[target]


@pytest.mark.parametrize(
    ("kernel", "dim", "target"),
    [*places(["forward", "d_queries", "d_keys", *(f"d_tables of {side}" for side in SIDES[:3])], turn=2)],
)
def test_rows_by_distance_too(kernel, dim, target):
    code = code_of(launched(torch.bfloat16, dim, target, picked_rows)[kernel], target)
    assert code.spilled == SPILLED_PICKED.get((kernel, dim, target), 0)
    assert re.search(PRODUCTS[target], code.text)
    assert code.shared <= SHARED[target]
    assert code.widest_load == 16


@pytest.mark.parametrize(
    ("kernel", "dim", "target"), [*places(["forward", "d_queries", "d_keys", "d_tables of mixed"], turn=3)]
)
def test_numbers_of_queries_times_rows_too(kernel, dim, target):
    code = code_of(launched(torch.bfloat16, dim, target, numbers_of_queries)[kernel], target)
    assert code.spilled == SPILLED_MIXED.get((kernel, dim, target), 0)
    assert re.search(PRODUCTS[target], code.text)
    assert code.shared <= SHARED[target]
    assert code.widest_load == 16


def test_rows_of_16_bits_learn_from_results_of_float32():
    """Products are of one type, which compilers ask for and the interpreter of 16 bits does not."""
    found = launched(torch.bfloat16, 64, "sm_90", lambda dim: [], out_dtype=torch.float32)
    assert kinds_of(found["row_sums"])[0]["out"] == "*fp32"
    assert all(kinds_of(found[name])[0]["grads"].d_out == "*bf16" for name in ("d_queries", "d_keys"))


@pytest.fixture
def precision():
    """Of products of float32, which is what it was again after the test."""
    yield
    torch.backends.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    work._has_tf32.cache_clear()


@pytest.mark.parametrize("target", ["gfx942:sramecc+:xnack-", "gfx950", "gfx90a:sramecc+", "gfx1100"])
def test_products_of_float32_are_what_an_amd_gpu_has(target, precision, monkeypatch):
    """Most have no tf32, also where PyTorch was told that it would do."""
    torch.set_float32_matmul_precision("high")
    work._has_tf32.cache_clear()
    monkeypatch.setattr(work, "AMD", True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(gcnArchName=target))
    name = target.split(":")[0]
    options = make_backend(GPUTarget("hip", name, 64)).parse_options({"arch": name})
    assert work.precision_of(torch.empty(1, device="meta")) == ("tf32" if name == "gfx942" else "ieee")
    assert ("tf32" in options.allowed_dot_input_precisions) == (name == "gfx942")


def test_products_of_float32_are_what_pytorch_was_told(precision):
    """In either of its ways. After the newer one it may not answer in words of the other."""
    q = torch.empty(1, device="meta")
    assert work.precision_of(q) == "ieee"
    for told, name in (("high", "tf32"), ("medium", "tf32"), ("highest", "ieee")):
        torch.set_float32_matmul_precision(told)
        assert work.precision_of(q) == name and work.precision_of(q.half()) == "ieee"
    for place in (torch.backends.cuda.matmul, torch.backends):
        for told in ("tf32", "ieee", "none"):
            place.fp32_precision = told
            assert work.precision_of(q) == ("tf32" if told == "tf32" else "ieee")


def test_keys_that_a_mask_hides_too():
    """With tiles as large as those where no key is hidden, 13,140 bytes."""
    options = CAUSAL._replace(key_mask=torch.ones(1, 512, dtype=torch.bool))
    code = code_of(launched(torch.bfloat16, 64, "sm_80", lambda dim: [], options)["d_keys"], "sm_80")
    assert code.spilled == 176


@pytest.mark.parametrize(
    ("kernel", "target", "spilled"), [("forward", "sm_80", 36), ("forward", "sm_90", 80), ("d_queries", "sm_80", 0)]
)
def test_pairs_that_are_visible_too(kernel, target, spilled):
    """With four warps, 1,092 to 2,148 bytes."""
    options = CAUSAL._replace(visible=torch.ones(1, 4, 512, 512, dtype=torch.bool))
    code = code_of(launched(torch.bfloat16, 128, target, lambda dim: [], options)[kernel], target)
    assert code.spilled == spilled
    assert re.search(PRODUCTS[target], code.text)
    assert code.shared <= SHARED[target]


@pytest.mark.parametrize(("kernel", "dim", "target"), [*places(["forward", "d_queries", "d_keys"], turn=4)])
def test_ranks_of_keys_too(kernel, dim, target):
    at = torch.zeros(3, 1, 512, dtype=torch.int64)
    options = CAUSAL._replace(q_positions=at, k_positions=at, window=(100, -1))
    code = code_of(launched(torch.bfloat16, dim, target, lambda dim: [], options)[kernel], target)
    assert code.spilled == SPILLED_RANKED.get((kernel, dim, target), 0)
    assert re.search(PRODUCTS[target], code.text)
    assert code.shared <= SHARED[target]
    assert code.widest_load == 16


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("paged", [False, True])
def test_a_decode_step_spills_next_to_nothing(paged, target):
    """On sm_80, with a paged cache, 28 bytes."""
    forward, merged = (code_of(launch, target) for launch in decode_step(paged, target))
    assert forward.spilled <= (28 if paged and target == "sm_80" else 0) and merged.spilled == merged.local == 0
    assert re.search(PRODUCTS[target], forward.text)
    assert forward.shared <= SHARED[target]
    assert forward.widest_load == 16


@pytest.mark.parametrize("target", TARGETS)
def test_a_decode_step_in_a_band_spills_nothing(target):
    forward, _ = (code_of(launch, target) for launch in decode_step(False, target, (0, 1, 8192)))
    assert forward.spilled == 0 and forward.widest_load == 16


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("kernel", ["forward", "d_queries", "d_keys", "d_distances"])
def test_rows_of_256_spill_nothing(kernel, target):
    code = code_of(launched(torch.bfloat16, 256, target)[kernel], target)
    assert code.spilled == code.local == 0
    assert re.search(PRODUCTS[target], code.text)
    assert code.shared <= SHARED[target]


def test_few_kernels_serve_all_lengths():
    """Three of each: lengths that are multiples of 16, those that are one more, and others. Strides and counts that follow from
    lengths ask for no more."""
    encodings = encodings_of(bt.T5Bias(bearing.T5(direction="causal"), 8, 64))
    tensors = [t.detach().to("meta") for t in tensors_of(encodings, torch.float32)]
    options = CAUSAL._replace(k_lengths=torch.empty(4, dtype=torch.int64, device="meta"))
    compiled = {}
    for n in (100, 112, 113, 150, 256, 300, 385, 500, 528, 577, 640, 800, 1000, 1024, 1025, 1500):
        q, k, v = (torch.empty(4, heads, n, 64, dtype=torch.bfloat16, device="meta") for heads in (8, 2, 2))
        rest = q, k, v, tensors, forms_of(encodings), options
        with (
            recorded(attend_forward, "forward") as forward,
            recorded(attend_backward, "row_sums", "d_queries", "d_keys") as backward,
            recorded(attend_diagonals, "d_distances") as diagonals,
            recorded(bias_lines, "lines_kernel") as of_lines,
            recorded(runs_kernel, "runs_kernel") as runs,
        ):
            out, lse = attention_forward(*rest, torch.bfloat16)
            attention_backward(out, None, out, lse, *rest, True)
        for launch in (*forward, *backward, *diagonals, *of_lines, *runs):
            compiled.setdefault(launch.kernel.fn.__name__, set()).add(str(kinds_of(launch)))
    assert len(compiled) == 7 and all(len(kinds) <= 3 for kinds in compiled.values())


def test_tiles_that_are_too_large_are_seen(monkeypatch):
    """So the test above can fail."""
    monkeypatch.setitem(launches._16_BITS_UNEVEN, "d_keys", ((64, 64, 4, 4),) * 3)
    code = code_of(launched(torch.bfloat16, 128, "sm_80")["d_keys"], "sm_80")
    assert code.spilled > 0 and code.shared > SHARED["sm_80"]
