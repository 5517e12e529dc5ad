"""Attention's kernels in Triton, compiled for GPUs without one: that products of matrices are instructions of their own, and
which registers are spilled."""

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
import bearing.torch as bt
from bearing.torch.encoding import forms_of
from bearing.torch.triton import attend_backward, attend_forward, attention
from bearing.torch.triton.work import Options
from compiled import TARGETS, code_of, recorded

PRODUCTS = {"sm_80": r"\bmma\.sync", "sm_90": r"\b(?:wgmma\.mma_async|mma\.sync)", "gfx942": r"\bv_mfma"}
CAUSAL = Options(*[None] * 8, "causal", (-1, -1), 0, 0, None, 0.0, "bhtd")


def launched(dtype, dim):
    """The launches of a training step with a learned bias, by kernel."""
    q, k, v = (torch.randn(1, heads, 512, dim, dtype=dtype) for heads in (4, 2, 2))
    one = bt.Kerple(bearing.Kerple(form="logarithmic"), 4).encoding()
    rest = q, k, v, [t.detach() for t in one.tensors], forms_of([one]), CAUSAL
    with (
        recorded(attend_forward, "forward") as forward,
        recorded(attend_backward, "row_sums", "d_queries", "d_keys", "d_distances") as backward,
    ):
        out, lse = attention.forward(*rest, dtype)
        attention.backward(out, None, out, lse, *rest, True)
    found = {launch.kernel.fn.__name__: launch for launch in [*forward, *backward]}
    assert len(found) == 5
    return found


# What is spilled where anything is, by kernel, width of rows and target. A number only ever falls.
SPILLED = {
    ("forward", 64, "sm_80"): 36,
    ("d_keys", 64, "sm_80"): 112,
    ("forward", 64, "gfx942"): 36,
    ("forward", 128, "gfx942"): 44,
    ("d_queries", 64, "gfx942"): 16,
    ("d_queries", 128, "gfx942"): 4,
    ("d_keys", 64, "gfx942"): 280,
    ("d_keys", 128, "gfx942"): 748,
    ("d_distances", 64, "gfx942"): 96,
    ("d_distances", 128, "gfx942"): 80,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("kernel", ["forward", "d_queries", "d_keys", "d_distances"])
def test_products_are_instructions_and_spilled_registers_are_known(kernel, dim, target):
    code = code_of(launched(torch.bfloat16, dim)[kernel], target)
    assert code.spilled == SPILLED.get((kernel, dim, target), 0)
    assert code.local == 0 or code.spilled > 0
    assert re.search(PRODUCTS[target], code.text)
    assert code.widest_load == 16


def test_tiles_that_are_too_large_are_seen(monkeypatch):
    """So the test above can fail."""
    from bearing.torch.triton import launches

    monkeypatch.setitem(launches._16_BITS, "d_keys", ((128, 128, 4, 2),) * 3)
    assert code_of(launched(torch.bfloat16, 128)["d_keys"], "sm_80").spilled > 0
