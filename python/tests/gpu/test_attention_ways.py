"""Attention in Triton under whoever looks at a call, and what only a device has: graphs, streams, several devices, too little
memory."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch.encoding import encodings_of, forms_of
from calls import HEADS, quick, rows, small_tiles
from place import ON_DEVICE

__all__ = ["quick", "small_tiles"]  # fixtures
on_cuda = pytest.mark.skipif(ON_DEVICE != "cuda", reason="needs a GPU that PyTorch calls cuda")


def t5(device):
    module = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="bidirectional"), HEADS, 16)
    torch.nn.init.normal_(module.table)
    return module.to(device)


def shaw(device):
    return bt.Shaw(bearing.Shaw(clip=3), 12, 10).to(device)


def step(inputs, module):
    """A training step: out and all gradients."""
    out = bt.attention(*inputs, module, mask="causal")
    return [out, *torch.autograd.grad(out.float().square().sum(), [*inputs, *module.parameters()])]


def same(found, wanted):
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


@pytest.mark.parametrize("made", [t5, shaw])
def test_opcheck(made, device):
    q, k, v = rows(device)
    encodings = encodings_of(made(device))
    tensors = [t.detach().requires_grad_() for one in encodings for t in one.tensors]
    arguments = (
        q, k, v, tensors, *[None] * 9, forms_of(encodings), "causal", [-1, -1], 0, 0, None, 0.0, "bhtd", "", torch.float32
    )  # fmt: skip
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.bearing.attention.default, arguments, test_utils=utilities)


@pytest.mark.filterwarnings("ignore:Input .* requires gradient and is not a double precision")
def test_gradcheck(device):
    """In float32, as the kernels have no float64: differences of 2^-6 are off by its square, and by roundings over it."""
    sides = [torch.randn(1, 1, n, 3, device=device).requires_grad_() for n in (3, 4, 4)]
    bias = bt.T5Bias(bearing.T5(buckets=4, max_distance=8, direction="causal"), 1, 8).to(device)
    call = lambda q, k, v, table: bt.attention(q, k, v, bias.encoding()._replace(tensors=(table,)), mask="none")
    inputs = [*sides, bias.table.detach().clone().requires_grad_()]
    torch.autograd.gradcheck(call, inputs, eps=2.0**-6, atol=2.0**-8, rtol=2.0**-8, nondet_tol=0.0, fast_mode=True)


def test_export(device):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = bt.Attention([t5(device)], mask="causal")

        def forward(self, q, k, v):
            return self.attention(q, k, v)

    inputs, layer = [x.detach() for x in rows(device)], Layer()
    exported = torch.export.export(layer, tuple(inputs))
    assert torch.equal(exported.module()(*inputs), layer(*inputs))


def test_autocast(device):
    q, k, v = rows(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        out = bt.attention(q, k, v, t5(device).requires_grad_(False), mask="causal")
    torch.manual_seed(20261123)
    q, k, v = (x.to(torch.bfloat16) for x in rows(device))
    assert out.dtype is torch.bfloat16
    assert torch.equal(out, bt.attention(q, k, v, t5(device).requires_grad_(False), mask="causal"))


@on_cuda
@pytest.mark.parametrize("made", [t5, shaw])
def test_no_step_but_the_first_waits_for_the_device(made, device):
    inputs, module = rows(device), made(device)
    first = step(inputs, module)
    torch.cuda.set_sync_debug_mode("error")
    try:
        second = step(inputs, module)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    same(second, first)


@on_cuda
@pytest.mark.parametrize("made", [t5, shaw])
def test_a_graph_takes_a_training_step(made, device):
    inputs, module = rows(device), made(device)
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        wanted = step(inputs, module)
    aside.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(inputs, module)
    graph.replay()
    same(found, wanted)


@on_cuda
def test_a_graph_takes_a_decode_step_whose_lengths_change(device):
    q, (k, v) = torch.randn(2, 4, 1, 64, device=device), torch.randn(2, 9, 2, 16, 64, device=device)
    table, lengths = torch.arange(8, device=device).view(2, 4), torch.tensor([40, 7], device=device)
    bias = bt.Alibi(4).to(device).requires_grad_(False)
    call = lambda: bt.attention(q, k, v, bias, mask="causal_bottom_right", block_table=table, k_lengths=lengths)
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    for new in ([40, 7], [41, 8], [3, 64]):
        lengths.copy_(torch.tensor(new))
        graph.replay()
        same([found], [call()])


@on_cuda
def test_streams(device):
    inputs, module = rows(device), t5(device)
    wanted = step(inputs, module)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(3)]
    found = []
    for stream in streams:
        with torch.cuda.stream(stream):
            found.append(step(inputs, module))
    torch.cuda.synchronize()
    for one in found:
        same(one, wanted)


@on_cuda
def test_a_hundred_steps_of_many_tiles_have_the_same_bits(device):
    """Of bfloat16, with key heads that queries share, a bias and rows by distance, beside other work that delays some programs."""
    shapes = (2, 8, 1100, 64), (2, 2, 1100, 64), (2, 2, 1100, 64)
    inputs = [torch.randn(shape, device=device).to(torch.bfloat16).requires_grad_() for shape in shapes]
    bias = bt.T5Bias(bearing.T5(buckets=32, max_distance=128, direction="causal"), 8, 1100)
    module = torch.nn.ModuleList([bias, bt.Shaw(bearing.Shaw(clip=16), 64, 64)]).to(device)
    wanted, noise, aside = step(inputs, module), torch.randn(2048, 2048, device=device), torch.cuda.Stream()
    for _ in range(100):
        with torch.cuda.stream(aside):
            torch.mm(noise, noise)
        same(step(inputs, module), wanted)


@on_cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_several_devices(device):
    """A call goes to the device of its tensors, whichever is the current one."""
    inputs, module = rows("cuda:0"), t5("cuda:0")
    wanted = step(inputs, module)
    there = [x.detach().to("cuda:1").requires_grad_() for x in inputs]
    same([x.to("cuda:0") for x in step(there, module.to("cuda:1"))], wanted)


@on_cuda
def test_too_little_memory_is_said_and_survived(device):
    inputs, module = rows(device), t5(device)
    wanted = step(inputs, module)
    torch.cuda.empty_cache()
    large = torch.empty(1, HEADS, 2**21, 64, device="meta")
    torch.cuda.set_per_process_memory_fraction(0.001)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            bt.attention(*(torch.empty_like(large, device=device) for _ in range(3)), mask="causal")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    same(step(inputs, module), wanted)


@on_cuda
def test_memory_is_linear(device):
    """Ten times what a step is given serves it; scores alone would be 64 times as large."""
    shape = 1, 8, 2**14, 64
    inputs = [torch.randn(shape, device=device, dtype=torch.bfloat16).requires_grad_() for _ in range(3)]
    bias = bt.Alibi(8).to(device).requires_grad_()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(inputs, bias)
    assert torch.cuda.max_memory_allocated() - before < 10 * sum(x.nbytes for x in inputs)
