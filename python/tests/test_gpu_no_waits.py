"""Calls for GPUs read nothing back from the device and copy nothing there, once what they keep is there. So a CUDA graph may take
them, and no launch waits. Shown without a GPU: on the meta device, whose tensors have no numbers to be read."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("tests of a process without Triton's interpreter", allow_module_level=True)
sys.path.insert(0, str(Path(__file__).parent / "gpu"))

import bearing
import bearing.torch as bt
from bearing.torch.encoding import encodings_of, forms_of, tensors_of
from bearing.torch.triton import (
    attend_backward,
    attend_diagonals,
    attend_forward,
    bias_lines,
    cache,
    hub,
    launch,
    norm,
    norm_cache,
    rotate,
    runs_kernel,
)
from bearing.torch.triton.backward import backward as attention_backward
from bearing.torch.triton.forward import forward as attention_forward
from bearing.torch.triton.options import Options
from compiled import recorded

ROPE = bt.Rope(bearing.Rope(head_dim=8, pairing="half", axes=bearing.RopeAxes.sections([1, 2, 1])), 16)
LATER = bt.Rope(bearing.Rope(head_dim=8, pairing="half", base=5e5), 0)
PLAIN = bt.Rope(bearing.Rope(head_dim=8, pairing="half"), 16)
FIXED = bt.Rope(PLAIN.spec, angles="fixed_point")


class Watch(TorchDispatchMode):
    """Notes what makes the host wait, or what a graph cannot hold: numbers read, and copies between devices."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.made = 0  # calls that are not views

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        devices = {x.device.type for x in (*args, out) if isinstance(x, torch.Tensor)}
        if "cpu" in devices or str(function).startswith(("aten._local_scalar_dense", "aten.equal", "aten.nonzero")):
            self.seen.append(str(function))
        self.made += not function.is_view
        return out


def watched(call):
    """The launches of a call, which is made once before: what is kept is there then."""
    call()
    with Watch() as watch, all_recorded() as launches:
        call()
    assert not watch.seen
    return sum(map(len, launches))


@contextlib.contextmanager
def all_recorded():
    kernels = (launch, "turn_kernel"), (norm, "norm_kernel", "norm_both_kernel"), (norm_cache, "norm_to_cache_kernel")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(recorded(*names)) for names in kernels]


def test_launches_wait_for_nothing():
    q, k, v = (torch.empty(2, heads, 6, 8, device="meta") for heads in (4, 2, 2))
    at, three = (torch.empty(*axes, 2, 6, device="meta", dtype=torch.int64) for axes in ((), (3,)))
    slots = torch.empty(2, 6, device="meta", dtype=torch.int32)
    paged = torch.empty(4, 2, 4, 8, device="meta")
    weight, angles = torch.empty(8, device="meta"), torch.empty(1, 6, 8, device="meta")
    calls = {
        "rotate": lambda: rotate.rotate([q, k], three, ROPE.table, "bhtd", False),
        "rotate, counted": lambda: rotate.rotate([q, k], 5, PLAIN.table, "bhtd", False),
        "rotate, computed": lambda: rotate.rotate([q, k], at, LATER.table, "bhtd", True),
        "rotate, fixed point": lambda: rotate.rotate([q, k], at.double(), FIXED.table, "bhtd", False),
        "rotate, given": lambda: rotate.rotate(
            [q, k], at, PLAIN_GIVEN, "bhtd", False, angles[0, :, :4], angles[0, :, :4]
        ),
        "rotate_": lambda: rotate.rotate([q, k], at, PLAIN.table, "bhtd", False, in_place=True),
        "rebase": lambda: cache.rebase(paged, PLAIN.table, at, LATER.table, 7, slots, "bhtd"),
        "shift": lambda: cache.shift(paged, PLAIN.table, 5, slots, "bhtd"),
        "rotate_to_cache": lambda: cache.rotate_to_cache(
            q, k, v, paged, paged, slots, at, PLAIN.table, "bhtd", (1.0, 1.0)
        ),
        "norm_rotate": lambda: norm.norm_rotate(q, weight, 1e-6, at, PLAIN.table, "bhtd"),
        "norm_rotate's backward": lambda: norm.norm_rotate(q, weight, 1e-6, at, PLAIN.table, "bhtd", q),
        "norm_rotate of both": lambda: norm.norm_rotate_each(
            (q, k), (weight,) * 2, 1e-6, at, PLAIN.table, "bhtd", (q, k)
        ),
        "rotate_to_cache with norms": lambda: norm_cache.norm_rotate_to_cache(
            q, k, v, paged, paged, slots, at, PLAIN.table, "bhtd", (1.0, 1.0), (weight,) * 2, 1e-6
        ),
        "hub": lambda: hub._turn._init_fn(q, k, angles, angles, False, False, False),
    }
    with all_recorded():
        for name, call in calls.items():
            assert watched(call) == 1, name


def test_a_training_step_of_attention_waits_for_nothing():
    """Nor has it a crowd of small launches: what sizes decide is made once."""
    kernels = [
        (attend_forward, "forward", "merge_parts"), (attend_backward, "row_sums", "d_queries", "d_keys"),
        (attend_diagonals, "d_distances"), (bias_lines, "lines_kernel"),
    ]  # fmt: skip
    q, k, v = (torch.empty(1, heads, 128, 64, device="meta", dtype=torch.bfloat16) for heads in (4, 2, 2))
    options = Options(*[None] * 9, "causal", (-1, -1), 0, 0, None, 0.0, "bhtd")
    t5 = bt.T5Bias(bearing.T5(direction="causal"), 4, 64)
    for module, kernels_of_a_step, most in ((None, 4, (6, 12)), (bt.Alibi(4), 7, (12, 24)), (t5, 8, (16, 40))):
        encodings = encodings_of(module)
        tensors = [t.detach().to("meta") for t in tensors_of(encodings, torch.float32)]
        rest = q, k, v, tensors, forms_of(encodings), options
        with contextlib.ExitStack() as stack:
            launches = [stack.enter_context(recorded(*names)) for names in kernels]
            for _ in range(2):
                with Watch() as forward:
                    out, lse = attention_forward(*rest, torch.bfloat16)
                with Watch() as backward:
                    attention_backward(out, None, out, lse, *rest, True)
            assert sum(map(len, launches)) == 2 * kernels_of_a_step
        assert not forward.seen and not backward.seen
        assert forward.made <= most[0] and backward.made <= most[1], (forward.made, backward.made)


def test_a_decode_step_of_attention_is_a_few_launches():
    """Its keys are more with each call, so nothing that their count decides is kept; the kernel works it out."""
    shapes = ((4, 1), (2, 900), (2, 900))
    q, k, v = (torch.empty(2, heads, count, 64, device="meta", dtype=torch.bfloat16) for heads, count in shapes)
    options = Options(*[None] * 9, "causal_bottom_right", (-1, -1), 0, 0, None, 0.0, "bhtd")
    lengths = torch.empty(2, dtype=torch.int64, device="meta")
    t5 = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="causal"), 4, 16)
    for module, given in ((None, {}), (bt.Alibi(4), {"k_lengths": lengths}), (t5, {})):
        encodings = encodings_of(module)
        tensors = [t.detach().to("meta") for t in tensors_of(encodings, torch.float32)]
        rest = tensors, forms_of(encodings), options._replace(**given), torch.bfloat16
        with (
            recorded(attend_forward, "forward", "merge_parts") as forward,
            recorded(runs_kernel, "runs_kernel") as runs,
        ):
            for _ in range(2):
                with Watch() as watch:
                    attention_forward(q, k, v, *rest)
        assert len(forward) == 4 and not runs and not watch.seen
        assert watch.made == 4, watch.made  # results and those of parts


PLAIN_GIVEN = '{"rope": ' + PLAIN.table.split('"rope": ', 1)[1].rsplit(', "length"', 1)[0] + "}"


def test_calls_wait_for_nothing():
    """All that stands before the ops, whose results are known without numbers."""
    q, k, v = (torch.empty(2, heads, 6, 8, device="meta") for heads in (4, 2, 2))
    at = torch.empty(2, 6, device="meta", dtype=torch.int64)
    slots = torch.empty(2, 6, device="meta", dtype=torch.int64)
    paged, weight = torch.empty(4, 2, 4, 8, device="meta"), torch.empty(8, device="meta")
    with Watch() as watch:
        for layout in ("bhtd", "bthd"):
            for y in bt.rotate(q, k, rope=PLAIN, positions=at if layout == "bhtd" else None, layout=layout):
                assert y.device.type == "meta"
        assert PLAIN(q, k, at)[1].shape == k.shape
        bt.rotate_(q, k, rope=PLAIN, positions=at)
        bt.rebase(PLAIN, at, LATER, 7, paged, slots=slots)
        bt.shift(PLAIN, 5, paged, slots=slots)
        out = bt.rotate_to_cache(q, k, v, paged, paged.clone(), slots, rope=PLAIN, positions=at)
        assert out.shape == q.shape
        y = bt.norm_rotate(q, weight, rope=PLAIN, eps=1e-6, positions=at)
        assert y.device.type == "meta" and y.stride() == q.stride()
        y, turned = bt.norm_rotate(q, weight, k=k, k_weight=weight, rope=PLAIN, eps=1e-6, positions=at)
        assert y.stride() == q.stride() and turned.shape == k.shape
    assert not watch.seen


def test_what_reads_is_seen():
    """So the tests above can fail."""
    x = torch.empty(2, device="meta")
    with Watch() as watch:
        torch.ones(2).to("meta")
        with pytest.raises(RuntimeError, match="meta"):
            bool(x.sum() > 0)
    assert len(watch.seen) == 2
