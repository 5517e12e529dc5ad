"""The emulated GPU itself: what it computes, and that it sees what no kernel may do (test_gpu_kernels.py runs kernels there)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton's interpreter compiles nothing", allow_module_level=True)
sys.path.insert(0, str(Path(__file__).parent / "gpu"))

from emulated.machine import launch
from emulated.memory import Fault, Memory


def ran(body, threads=64, *tensors):
    """A kernel of some instructions, whose parameters are the tensors' addresses."""
    parameters = ",\n".join(f".param .u64 .ptr .global .align 1 kernel_param_{i}" for i in range(len(tensors)))
    loads = [f"ld.param.b64 %rd{i}, [kernel_param_{i}];" for i in range(len(tensors))]
    text = f".visible .entry kernel(\n{parameters}\n)\n{{\n" + "\n".join([*loads, *body, "ret;"]) + "\n}\n"
    launch(text, threads, (1,), [x.data_ptr() for x in tensors], Memory(tensors))


PLACE = ["mov.u32 %r1, %tid.x;", "shl.b32 %r2, %r1, 2;"]  # four bytes of each thread
OTHER = ["xor.b32 %r3, %r2, 128;"]  # those of the other warp


def test_threads_load_and_store():
    x, y = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    at = ["cvt.u64.u32 %rd2, %r2;", "add.s64 %rd3, %rd0, %rd2;", "add.s64 %rd4, %rd1, %rd2;"]
    shared = ["st.shared.b32 [%r2], %r4;", "bar.sync 0;", "ld.shared.b32 %r5, [%r3];"]
    ran([*PLACE, *OTHER, *at, "ld.global.b32 %r4, [%rd3];", *shared, "st.global.b32 [%rd4], %r5;"], 64, x, y)
    assert torch.equal(y, x.view(2, 32).flip(0).flatten())


def test_branches_meet_again():
    """Half of the threads go round, and all come to the barrier."""
    y = torch.zeros(64, dtype=torch.int32)
    at = ["cvt.u64.u32 %rd2, %r2;", "add.s64 %rd4, %rd0, %rd2;", "mov.b32 %r5, 7;"]
    round_it = ["setp.lt.u32 %p1, %r1, 40;", "@%p1 bra $L__there;", "mov.b32 %r5, 9;", "$L__there:", "bar.sync 0;"]
    ran([*PLACE, *at, *round_it, "st.global.b32 [%rd4], %r5;"], 64, y)
    assert torch.equal(y, torch.where(torch.arange(64) < 40, 7, 9).int())


WRONG = {
    "past a tensor": ("in no tensor", ["ld.global.b32 %r4, [%rd0 + 256];"]),
    "no multiple": ("no multiple", ["ld.global.b32 %r4, [%rd0 + 2];"]),
    "no barrier before a read": ("without a barrier", [*PLACE, *OTHER, "st.shared.b32 [%r2], %r1;", "ld.shared.b32 %r5, [%r3];"]),
    "no barrier before a write": ("without a barrier", [*PLACE, *OTHER, "ld.shared.b32 %r5, [%r3];", "st.shared.b32 [%r2], %r1;"]),
    "two values in a place": ("different values", ["mov.u32 %r1, %tid.x;", "mov.b32 %r2, 0;", "st.shared.b32 [%r2], %r1;"]),
    "a copy that nobody waits for": (
        "not waited for",
        [*PLACE, "cp.async.ca.shared.global [%r2], [%rd0], 0x4;", "cp.async.commit_group;", "ld.shared.b32 %r5, [%r2];"],
    ),
    "a barrier for some": (
        "do not come", ["mov.u32 %r1, %tid.x;", "setp.lt.u32 %p1, %r1, 8;", "@%p1 bra $L__end;", "bar.sync 0;", "$L__end:"],
    ),
    "far in shared memory": ("of shared memory", ["mov.b32 %r2, 999996;", "ld.shared.b32 %r5, [%r2];"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_no_kernel_may_do_is_seen(name):
    words, body = WRONG[name]
    with pytest.raises(Fault, match=words):
        ran(body, 64, torch.zeros(64, dtype=torch.int32))


def test_an_instruction_that_is_not_known_is_an_error():
    with pytest.raises(NotImplementedError, match="wgmma"):
        ran(["wgmma.fence.sync.aligned;"])


def test_numbers_are_rounded_as_a_gpu_does():
    """A fused product keeps all bits of it, what is below the normal range is zero where ftz says so, and halves go to even ones."""
    y = torch.zeros(3, dtype=torch.float64)
    first, second = 1 + 2.0**-30, 1 - 2.0**-30
    bits = lambda x: f"0d{np.float64(x).view(np.uint64):016X}"
    body = [f"fma.rn.f64 %rd1, {bits(first)}, {bits(second)}, {bits(-1)};", "st.global.b64 [%rd0], %rd1;"]
    body += ["mul.ftz.f32 %r1, 0f00800000, 0f3F000000;", "cvt.f64.f32 %rd2, %r1;", "st.global.b64 [%rd0 + 8], %rd2;"]
    body += [
        "cvt.rn.bf16x2.f32 %r2, 0f3F808000, 0f3F818000;",
        "cvt.u64.u32 %rd3, %r2;",
        "st.global.b64 [%rd0 + 16], %rd3;",
    ]
    ran(body, 32, y)
    assert y[0] == -(2.0**-60) and y[1] == 0 and y[2:].view(torch.int64) == 0x3F80_3F82
