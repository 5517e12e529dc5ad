"""What only a device can show of rotations, caches and norms: graphs, streams, several devices, memory that is not enough, and
the same bits on a hundred runs."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import pytest
import torch
from place import needs_device

pytestmark = needs_device

ROPE = bt.Rope(bearing.Rope(head_dim=64, pairing="half"), 64)
LATER = bearing.Rope(head_dim=64, pairing="half", base=500_000.0)


class Steps:
    """One call of each kind, on tensors that stay where they are, so that a graph may take it."""

    def __init__(self, device, dtype=torch.bfloat16):
        self.q, self.k, self.v = (torch.randn(2, heads, 16, 64, device=device, dtype=dtype) for heads in (8, 2, 2))
        self.caches = [torch.zeros(4, 2, 16, 64, device=device, dtype=dtype) for _ in range(2)]
        self.slots = torch.arange(32, device=device).reshape(2, 16)
        self.at = torch.randint(0, 100_000, (2, 16), device=device)
        self.weight = torch.rand(64, device=device)

    def rotate(self):
        return bt.rotate(self.q, self.k, rope=ROPE, positions=self.at)

    def counted(self):
        return bt.rotate(self.q, self.k, rope=ROPE, positions=3)

    def fixed_point(self):
        return bt.rotate(self.q, self.k, rope=FIXED, positions=self.at)

    def in_place(self):
        return bt.rotate_(self.q.clone(), self.k.clone(), rope=ROPE, positions=self.at)

    def norm(self):
        return (bt.norm_rotate(self.q, self.weight, rope=ROPE, eps=1e-6, positions=self.at),)

    def norms(self):
        rest = {"rope": ROPE, "eps": 1e-6, "positions": self.at}
        return bt.norm_rotate(self.q, self.weight, k=self.k, k_weight=self.weight, **rest)

    def written(self):
        out = bt.rotate_to_cache(self.q, self.k, self.v, *self.caches, self.slots, rope=ROPE, positions=self.at)
        return out, *self.caches

    def moved(self):
        cache = self.k.clone()
        bt.shift(ROPE, 7, cache)
        bt.rebase(LATER, self.at, ROPE.spec, 5, cache)
        return (cache,)

    def trained(self):
        """Forward and backward, with gradients of the input and of the norm's weight."""
        q, weight = self.q.detach().requires_grad_(), self.weight.detach().requires_grad_()
        y = bt.norm_rotate(q, weight, rope=ROPE, eps=1e-6, positions=self.at)
        (y,) = (bt.rotate(y, rope=ROPE, positions=self.at),)
        return torch.autograd.grad(y, (q, weight), self.q)


FIXED = bt.Rope(ROPE.spec, angles="fixed_point")
NAMES = ["rotate", "counted", "fixed_point", "in_place", "norm", "norms", "written", "moved", "trained"]


def copies(found):
    return [x.detach().clone() for x in found]


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_takes_it_and_follows_its_inputs(name, device):
    steps = Steps(device)
    step = getattr(steps, name)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()  # compiles, and copies what is kept on the device
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    for _ in range(2):
        for x in (steps.q, steps.k, steps.v):
            x.normal_()
        steps.at.random_(0, 100_000)
        graph.replay()
        kept = copies(found)
        assert all(torch.equal(x, y) for x, y in zip(kept, copies(step()), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_runs_have_the_same_bits(name, device):
    step = getattr(Steps(device), name)
    wanted = copies(step())
    for _ in range(100):
        assert all(torch.equal(x, y) for x, y in zip(step(), wanted, strict=True))


def test_streams_beside_each_other(device):
    steps = [Steps(device) for _ in range(4)]
    wanted = [copies(one.trained()) for one in steps]
    streams = [torch.cuda.Stream() for _ in steps]
    torch.cuda.synchronize()
    found = []
    for one, stream in zip(steps, streams, strict=True):
        with torch.cuda.stream(stream):
            found.append(one.trained())
    torch.cuda.synchronize()
    for one, other in zip(found, wanted, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(one, other, strict=True))


def test_a_first_call_on_a_side_stream_serves_all_others(device):
    """What is kept on the device is there before any stream reads it."""
    rope = bt.Rope(bearing.Rope(head_dim=64, pairing="half", base=54_321.0), 2**15)
    q = torch.randn(1, 8, 2**15, 64, device=device)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        bt.rotate(q[:, :, :1], rope=rope)
    y = bt.rotate(q, rope=rope)
    table = bearing.RopeTable(rope.spec, 8)
    assert torch.equal(y.cpu(), bearing.rotate_to(table, q.cpu(), 0))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("name", NAMES)
def test_the_tensors_device_is_the_one_that_works(name):
    """Whichever is the current one."""
    torch.manual_seed(5)
    one = Steps("cuda:1")
    with torch.cuda.device(0):
        found = copies(getattr(one, name)())
    with torch.cuda.device(1):
        wanted = copies(getattr(one, name)())
    assert all(x.device.index == 1 and torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_of_two_devices_are_refused():
    q, k = (torch.randn(1, 1, 2, 64, device=f"cuda:{i}") for i in range(2))
    with pytest.raises(TypeError, match="must be on one device"):
        bt.rotate(q, k, rope=ROPE)


def test_out_of_memory_is_pytorch_s_own_error_and_leaves_all_as_it_was(device):
    x = torch.randn(1, 16, 4096, 64, device=device)  # 16 MiB
    own, wanted = x.clone(), bt.rotate(x, rope=ROPE)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    reserved, total = torch.cuda.memory_reserved(), torch.cuda.get_device_properties(x.device).total_memory
    held = []
    torch.cuda.set_per_process_memory_fraction((reserved + 2**20) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            for _ in range(1000):
                held.append(bt.rotate(x, rope=ROPE))
        assert torch.equal(x.cpu(), own.cpu())
        bt.rotate_(x, rope=ROPE)  # needs no memory
        assert all(torch.equal(y.cpu(), x.cpu()) for y in held[:2])
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    held.clear()
    assert torch.equal(x, wanted) and torch.equal(bt.rotate(own, rope=ROPE), wanted)


def test_a_compiled_step_in_a_graph_of_pytorch_s(device):
    """mode="reduce-overhead" records graphs, whose memory must hold nothing that is kept for later calls."""
    rope = bt.Rope(bearing.Rope(head_dim=64, pairing="half", base=98_765.0), 64)
    q = torch.randn(2, 8, 16, 64, device=device)
    at = torch.randint(0, 1000, (2, 16), device=device)
    step = torch.compile(
        lambda q, at: bt.rotate(q, rope=rope, positions=at) * 2, fullgraph=True, mode="reduce-overhead"
    )
    for _ in range(4):
        found = step(q, at).clone()
        assert torch.equal(found, bt.rotate(q, rope=rope, positions=at) * 2)
        q.normal_()
