"""PyTorch's tensors come and go by DLPack's interface in C, and where PyTorch has none by DLPack in Python."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import bearing as b
import interpreters
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.logging_tensor import LoggingTensorMode

TABLE = b.RopeTable(b.Rope(head_dim=8, pairing="half"), 16)

# Arrays come in to be read and to be written, positions among them, and results of several shapes go out.
BITS = """
import torch, bearing as b
{before}
for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    table = b.RopeTable(b.Rope(head_dim=8, pairing="half"), 16, dtype="float64" if dtype is torch.float64 else "float32")
    x = torch.arange(48.0).reshape(1, 2, 3, 8).to(dtype)
    made = [b.rotate_to(table, x, torch.tensor([5, 2, 9])), b.rotate_to(table, x.transpose(1, 2), layout="bthd")]
    made += [b.rotate_to(table, x[:, :0]), *b.attention(x, x, x, mask="causal", return_lse=True)]
    b.rotate(table, x, 3)
    for y in (*made, x):
        print(y.dtype, tuple(y.shape), y.stride(), y.double().flatten().tolist())
"""


def test_a_pytorch_without_the_interface_gives_the_same_bits() -> None:
    assert hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    with_it = interpreters.run(BITS.format(before=""))
    without = interpreters.run(BITS.format(before="del torch.Tensor.__dlpack_c_exchange_api__"))
    assert with_it.returncode == 0, with_it.stderr
    assert (without.stdout, without.stderr) == (with_it.stdout, with_it.stderr)


@pytest.mark.parametrize(
    "context",
    [contextlib.nullcontext, torch.inference_mode, FakeTensorMode, LoggingTensorMode, lambda: torch.device("meta")],
    ids=["nothing", "inference_mode", "fake", "logging", "meta"],
)
def test_a_result_is_an_ordinary_tensor_wherever_the_call_is_made(
    context: Callable[[], AbstractContextManager],
) -> None:
    x = torch.arange(48.0).reshape(1, 2, 3, 8)
    wanted = b.rotate_to(TABLE, x.numpy(), 3)
    with context():
        y = b.rotate_to(TABLE, x, 3)
    assert type(y) is torch.Tensor
    assert y.device.type == "cpu"
    assert y.is_contiguous()
    assert not y.requires_grad
    assert y.is_inference() == (context is torch.inference_mode)
    assert torch.equal(y, torch.from_numpy(wanted))


def test_a_result_can_be_learned_from_and_written() -> None:
    y = b.rotate_to(TABLE, torch.ones(3, 8)).requires_grad_()
    (2 * y).sum().backward()
    assert torch.equal(y.grad, torch.full((3, 8), 2.0))
    y.detach().zero_()
    assert torch.equal(y, torch.zeros(3, 8))


def test_tensors_are_let_go() -> None:
    x, statm = torch.ones(4, 256, 8), Path("/proc/self/statm")

    def memory() -> int:
        return int(statm.read_text().split()[1]) * resource.getpagesize()

    def calls(n: int) -> None:
        for _ in range(n):
            b.rotate_to(TABLE, x, 5)

    calls(100)
    before = memory()
    calls(2000)  # 64 MiB of results
    assert memory() - before < 2**23
