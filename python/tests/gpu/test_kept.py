"""What is kept on a device is there as long as a CUDA graph may read it."""

from __future__ import annotations

import gc
import json
import weakref
from types import SimpleNamespace

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch.triton import bias_numbers, cache, geometry, mixed, norm, norm_cache, rotate, tables, visible
from bearing.torch.triton import device as devices
from calls import quick, rows, small_tiles

__all__ = ["quick", "small_tiles"]  # fixtures
KEPT = [
    bias_numbers._on_device, bias_numbers._pieces, cache._moved, cache._plain, cache._unscaled, geometry.geometry,
    geometry.geometry_of_given, geometry.kept_rows, mixed._rows, tables._products, visible._kept, rotate._recipe,
    cache._recipe, norm._recipe, norm_cache._recipe,
]  # fmt: skip


@pytest.mark.parametrize("captured", [True, False])
def test_what_a_graph_took_outlives_the_cache(captured, monkeypatch):
    made = devices.kept(2)(lambda n: torch.full((1,), n))
    made(0)  # as a call before the capture does
    monkeypatch.setattr(devices, "_captures", lambda: captured)
    one = weakref.ref(made(0))
    monkeypatch.undo()
    assert made(0) is one() and made.cache_info().currsize == 1
    made(1), made(2)
    gc.collect()
    assert (one() is not None) == captured


@pytest.mark.parametrize("captured", [True, False])
def test_a_graph_s_steps_outlive_the_cache_too(captured, monkeypatch):
    kept = devices.Kept(2)
    for n in range(2):
        kept.put(n, torch.full((1,), n))
    monkeypatch.setattr(devices, "_captures", lambda: captured)
    one = weakref.ref(kept.get(0))
    monkeypatch.undo()
    assert kept.get(0) is one() and kept.get(2) is None
    for n in range(2, 4):
        kept.put(n, torch.full((1,), n))
    gc.collect()
    assert kept.get(0) is None and kept.get(1) is None and kept.get(3) is not None
    assert (one() is not None) == captured


@pytest.mark.parametrize("captured", [True, False])
def test_what_is_kept_has_so_many_bytes(captured, monkeypatch):
    """As an allocator counts them. What was asked for last stays, and one thing always does."""
    made = devices.kept_within(4096)(lambda n, size: (torch.full((size,), n), n))
    monkeypatch.setattr(devices, "_captures", lambda: captured)
    first = weakref.ref(made(0, 300)[0])
    monkeypatch.undo()
    for n in range(1, 4):
        made(n, 1)
    assert made(0, 300)[0] is first() and made.cache_info().currsize == 4 and made.cache_info().bytes == 2560 + 3 * 512
    made(4, 1), made(0, 300)
    assert made.cache_info().currsize == 4 and made.cache_info().bytes == 4096
    made(5, 513)
    gc.collect()
    assert (first() is not None) == captured and made.cache_info().currsize == 1
    made.cache_clear()
    assert made.cache_info().currsize == made.cache_info().bytes == 0


def test_no_step_waits_for_lengths_that_come_in_turns(device, monkeypatch):
    """Some hundreds of lengths, as training in buckets has, each with runs and blocks, forward and backward."""
    shaw = bt.Shaw(bearing.Shaw(clip=5), 12, 10).encoding()
    placed, there = [(json.loads(shaw.form), 0, len(shaw.tensors))], torch.device(device)

    def step(n):
        mask = ("causal", "causal_bottom_right")[n % 2]
        seen = visible.Visible(visible.Rules(mask, (-1, -1), n, n, 0, None, None, None, there))
        seen.key_blocks(64, 64), seen.query_blocks(64, 32)
        tables.products(placed, shaw.tensors, bias_numbers.Distances(1 - n, n), there)

    lengths = range(17, 517)
    for n in lengths:
        step(n)
    for module in (visible, tables):
        monkeypatch.setattr(module, "for_good", lambda *_: pytest.fail("it was made again"))
    for n in lengths:
        step(n)


def test_calls_keep_what_they_read(device, monkeypatch):
    """All of it, in a step of training with rotations, biases and rows by distance."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for function in KEPT:
        function.cache_clear()
    alive = []
    for_good = devices.for_good

    def noted(*args):
        found = for_good(*args)
        alive.extend(map(weakref.ref, found))
        return found

    for module in (bias_numbers, geometry, tables, visible):
        monkeypatch.setattr(module, "for_good", noted)
    q, k, v = rows(device)
    rope = bt.Rope(bearing.Rope(head_dim=12, pairing="half"), 64)
    t5 = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="bidirectional"), 2, 16)
    encodings = [t5.to(device), bt.Shaw(bearing.Shaw(clip=5), 12, 10).to(device)]
    bt.attention(*bt.rotate(q, k, rope=rope), v, encodings, mask="causal").sum().backward()
    assert all(
        function.cache_info().currsize for function in (bias_numbers._pieces, geometry.kept_rows, tables._products)
    )
    for function in KEPT:
        function.cache_clear()
    gc.collect()
    assert len(alive) > 10 and all(one() is not None for one in alive)


def test_cuda_is_not_asked_where_nobody_used_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: pytest.fail("it was asked"))
    assert devices.kept(1)(lambda: 3)() == 3


def test_memory_of_what_is_forgotten_outlives_its_readers(monkeypatch):
    """On any stream. With the CPU in the place of a GPU."""
    waited = []
    host = torch.device("cpu")
    monkeypatch.setattr(devices, "KINDS", ("cpu",))
    monkeypatch.setattr(devices, "_forgotten", {})
    monkeypatch.setattr(torch.cpu, "current_stream", lambda _: SimpleNamespace(synchronize=lambda: None))
    monkeypatch.setattr(torch.cpu, "synchronize", waited.append)
    made = devices.kept(1)(lambda n: devices.for_good(lambda: [torch.full((5,), float(n))], host)[0])

    def forgotten():
        gc.collect()
        return [storage.data_ptr() for _, storage in devices._forgotten.values()]

    address = made(1).untyped_storage().data_ptr()
    made(2)
    assert forgotten() == [address] and not waited
    with monkeypatch.context() as within:
        within.setattr(devices, "_captures", lambda: True)
        devices.for_good(list, host)
    assert forgotten() == [address] and not waited

    def refuse(device):
        raise RuntimeError("a stream of another thread is captured")

    with monkeypatch.context() as within:
        within.setattr(torch.cpu, "synchronize", refuse)
        devices.for_good(list, host)
    assert forgotten() == [address]
    devices.for_good(list, host)
    assert forgotten() == [] and waited == [host]
    devices.for_good(list, host)
    assert waited == [host]  # nothing to wait for
