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
FENCE, COMMIT, DONE = (f"wgmma.{x}.sync.aligned" for x in ("fence;", "commit_group;", "wait_group 0;"))
PRODUCT = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r20,%r21,%r22,%r23}, {%r24,%r25,%r26,%r27}, %rd9, 0, 1, 1, 0;"
)
BEGUN = [FENCE, PRODUCT, COMMIT]  # it reads the first bytes of shared memory
OF_SUMS = PRODUCT.replace("%r2", "%r5").replace("{%r54,%r55,%r56,%r57}", "{%r20,%r21,%r22,%r23}")
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
    "sums that nobody waits for": ("not waited for", [*BEGUN, "mov.b32 %r1, %r20;"]),
    "sums of a group that may be on its way": (
        "not waited for", [*BEGUN, "wgmma.wait_group.sync.aligned 1;", "mov.b32 %r1, %r20;"],
    ),
    "sums that another product multiplies": ("in another way", [*BEGUN, OF_SUMS]),
    "what is multiplied changes": ("not waited for", [*BEGUN, "mov.b32 %r24, 7;"]),
    "no fence of registers": ("last wgmma.fence", [FENCE, "mov.b32 %r24, 7;", PRODUCT]),
    "a write of what is multiplied": (
        "which was not waited for", [*BEGUN, "bar.sync 0;", *PLACE, "st.shared.b32 [%r2], %r1;"],
    ),
    "a copy to what is multiplied": (
        "which was not waited for", [*BEGUN, "bar.sync 0;", *PLACE, "cp.async.ca.shared.global [%r2], [%rd0], 0x4;"],
    ),
    "no barrier after a product": ("without a barrier", [*BEGUN, "bar.sync 0;", DONE, *PLACE, "st.shared.b32 [%r2], %r1;"]),
    "no barrier before a product": (
        "without a barrier", [*PLACE, "st.shared.b32 [%r2], %r1;", "fence.proxy.async.shared::cta;", *BEGUN],
    ),
    "no fence of shared memory": ("without fence.proxy", [*PLACE, "st.shared.b32 [%r2], %r1;", "bar.sync 0;", *BEGUN]),
    "a product of a copy that nobody waits for": (
        "not waited for", [*PLACE, "cp.async.ca.shared.global [%r2], [%rd0], 0x4;", "cp.async.commit_group;", *BEGUN],
    ),
    "a product for some": ("do not come", ["mov.u32 %r1, %tid.x;", "setp.lt.u32 %p1, %r1, 96;", f"@%p1 {FENCE}"]),
    "a matrix for each thread": ("different matrices", ["mov.u32 %r1, %tid.x;", "cvt.u64.u32 %rd9, %r1;", *BEGUN]),
    "far in shared memory": ("of shared memory", ["mov.b32 %r2, 999996;", "ld.shared.b32 %r5, [%r2];"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_no_kernel_may_do_is_seen(name):
    words, body = WRONG[name]
    with pytest.raises(Fault, match=words):
        ran(body, 128, torch.zeros(64, dtype=torch.int32))


def test_an_instruction_that_is_not_known_is_an_error():
    with pytest.raises(NotImplementedError, match="mbarrier"):
        ran(["mbarrier.init.shared::cta.b64 [%r1], 1;"])


def swizzled(matrix, width, across):
    """Rows of 16 numbers of 16 bits as they lie in shared memory [8192 bytes], and the steps and the swizzle of a descriptor.
    width: bytes that a swizzle turns about. across: the numbers of a column lie together."""
    lying, columns = torch.zeros(4096, dtype=matrix.dtype), width // 2
    near, far = (1024, 128) if width == 16 else (2048, 8 * width)
    for row in range(len(matrix)):
        for depth in range(16):
            if not across:
                at = (
                    row // 8 * far + row % 8 * width + (depth // 8 * near + depth % 8 * 2 if width == 16 else depth * 2)
                )
            elif width == 16:
                at = row // 8 * far + depth // 8 * near + depth % 8 * 16 + row % 8 * 2
            else:
                at = row // columns * near + depth // 8 * far + depth % 8 * width + row % columns * 2
            lying[(at ^ at >> 3 & width - 16) // 2] = matrix[row, depth]
    return lying, near >> 4 << 16 | far >> 4 << 32 | {16: 0, 128: 1, 64: 2, 32: 3}[width] << 62


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_products_of_a_warp_group(width, across, kind):
    """a b and then a b more, of a in shared memory and in registers."""
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kind]
    a, b = torch.randn(2, 64, 16).to(dtype)
    (left, left_at), (right, right_at) = (swizzled(x, width, across) for x in (a, b))
    thread, part = torch.arange(128), torch.arange(32)[:, None]
    row, column = thread // 32 * 16 + thread % 32 // 4, thread % 4 * 2
    held = torch.stack([a[row + 8 * (i % 2), column + 8 * (i // 2) + j] for i in range(4) for j in range(2)]).view(
        4, 2, 128
    )
    held = held.transpose(1, 2).contiguous().view(torch.int32)
    shared, found = torch.cat([left, right]).view(torch.int32), torch.zeros(32, 128)
    body = ["mov.u32 %r1, %tid.x;", "shl.b32 %r2, %r1, 4;", "cvt.u64.u32 %rd3, %r2;", "add.s64 %rd4, %rd0, %rd3;"]
    for at in range(0, 16384, 2048):
        body += [
            f"ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%rd4 + {at}];",
            f"st.shared.v4.b32 [%r2 + {at}], {{%r3, %r4, %r5, %r6}};",
        ]
    body += ["mul.wide.u32 %rd5, %r1, 4;", "add.s64 %rd6, %rd1, %rd5;", "add.s64 %rd7, %rd2, %rd5;"]
    body += [f"ld.global.b32 %r{200 + i}, [%rd6 + {512 * i}];" for i in range(4)]
    sums = "{" + ",".join(f"%r{100 + i}" for i in range(32)) + "}"
    name = f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{kind}.{kind} {sums}"
    body += [f"mov.b64 %rd8, {left_at};", f"mov.b64 %rd9, {right_at | 8192 >> 4};", "mov.pred %p1, -1;"]
    body += ["fence.proxy.async.shared::cta;", "bar.sync 0;", FENCE]
    body += [f"{name}, %rd8, %rd9, 0, 1, 1, {int(across)}, {int(across)};"]
    body += [f"{name}, {{%r200,%r201,%r202,%r203}}, %rd9, %p1, 1, -1, {int(across)};"] * 3
    body += [COMMIT, DONE, *(f"st.global.b32 [%rd7 + {512 * i}], %r{100 + i};" for i in range(32))]
    ran(body, 128, shared, held, found)
    at = row + part % 4 // 2 * 8, column + part // 4 * 8 + part % 2
    wanted = a.double() @ b.double().T * (1 - 3)
    assert torch.allclose(found.double(), wanted[at], atol=1e-4)


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


def test_products_of_warps_in_tf32():
    """The last 13 bits of numbers do not count."""
    a, b, found = torch.randn(16, 8), torch.randn(8, 8), torch.zeros(4, 32)
    thread = torch.arange(32)
    row, column = thread // 4, thread % 4
    parts = [a[row + 8 * (i % 2), column + 4 * (i // 2)] for i in range(4)] + [b[column + 4 * i, row] for i in range(2)]
    body = [
        "mov.u32 %r1, %tid.x;",
        "mul.wide.u32 %rd3, %r1, 4;",
        "add.s64 %rd4, %rd0, %rd3;",
        "add.s64 %rd5, %rd1, %rd3;",
    ]
    body += [f"ld.global.b32 %r{10 + i}, [%rd4 + {128 * i}];" for i in range(6)]
    operands = "{%r2,%r3,%r4,%r5}, {%r10,%r11,%r12,%r13}, {%r14,%r15}, {%r6,%r7,%r8,%r9}"
    body += [f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {operands};"]
    body += [f"st.global.b32 [%rd5 + {128 * i}], %r{2 + i};" for i in range(4)]
    ran(body, 32, torch.stack(parts), found)
    cut = lambda x: (x.view(torch.int32) & -(2**13)).view(torch.float32).double()
    part = torch.arange(4)[:, None]
    wanted = (cut(a) @ cut(b))[row + 8 * (part // 2), 2 * column + part % 2]
    assert torch.allclose(found.double(), wanted, atol=1e-5)
