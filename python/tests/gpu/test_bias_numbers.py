"""Biases by distance as numbers on the device: those of the library, whose help is asked for once, and gradients that are
summed in one order."""

from __future__ import annotations

import json

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing import _core
from bearing.torch.encoding import build, traits_of
from bearing.torch.triton import bias_numbers
from bearing.torch.triton.bias_numbers import Distances
from place import needs_device

HEADS = 3


def learned(kind, **settings):
    return lambda: bt.Described(kind, None, heads=HEADS, settings=settings)


def t5(direction, buckets=8, max_distance=16):
    def make():
        module = bt.T5Bias(bearing.T5(buckets=buckets, max_distance=max_distance, direction=direction), HEADS, 16)
        torch.nn.init.normal_(module.table)
        return module

    return make


# Every bias by distance of the catalog, and how its numbers are made.
BIASES = {
    "AlibiBias, published": (lambda: bt.Fixed(bearing.AlibiBias(bearing.Alibi.published(HEADS))), "fixed"),
    "AlibiBias": (learned("AlibiBias"), "proportional"),
    "AlibiBias, causal": (learned("AlibiBias", form="causal"), "proportional"),
    "KerpleBias, logarithmic": (lambda: bt.Kerple(bearing.Kerple(form="logarithmic"), HEADS), "formula"),
    "KerpleBias, power": (lambda: bt.Kerple(bearing.Kerple(form="power"), HEADS), "formula"),
    "RetentionBias, published": (lambda: bt.Fixed(bearing.RetentionBias(bearing.Retention.published(HEADS))), "fixed"),
    "RetentionBias": (learned("RetentionBias"), "proportional"),
    "SandwichBias": (lambda: bt.Sandwich(bearing.Sandwich(heads=HEADS, dim=6)), "fixed"),
    "T5Bias, causal": (t5("causal", 32, 128), "picked"),
    "T5Bias, bidirectional": (t5("bidirectional"), "picked"),
}
RANGES = [Distances(-40, 81), Distances(-999, 1000), Distances(300, 5), Distances(-70_000, 513), Distances(0, 1)]


def given(name, device):
    """The form of an encoding and its parameters."""
    torch.manual_seed(3)
    one = BIASES[name][0]().encoding()
    return json.loads(one.form), [t.detach().to(device) for t in one.tensors]


def built(form, parameters):
    return build(f"[{json.dumps(form)}]", [t.cpu() for t in parameters], torch.float32)


@pytest.mark.parametrize("at", RANGES, ids=str)
@pytest.mark.parametrize("name", BIASES)
def test_numbers_are_the_library_s(name, at, device):
    form, parameters = given(name, device)
    wanted = torch.zeros(1, HEADS, 1, at.count)
    _core.add_scores(built(form, parameters), wanted, 0, at.least)
    found = bias_numbers.numbers(form, parameters, HEADS, at, torch.device(device))
    assert found.is_contiguous() and found.dtype is torch.float32
    # One rounding of float64; the logarithm and the power are as good as the machine's.
    torch.testing.assert_close(found.cpu(), wanted[0, :, 0], rtol=2**-23, atol=0)


@pytest.mark.parametrize("at", RANGES, ids=str)
@pytest.mark.parametrize("name", [name for name in BIASES if BIASES[name][1] != "fixed"])
def test_gradients_are_the_library_s(name, at, device):
    form, parameters = given(name, device)
    d = torch.randn(HEADS, at.count)
    *_, (wanted,) = _core.add_scores_backward(built(form, parameters), d[None, :, None].contiguous(), 0, at.least)
    (magnitudes,) = _core.add_scores_backward(built(form, parameters), d.abs()[None, :, None], 0, at.least)[-1]
    found = bias_numbers.gradients(form, parameters, d.to(device), at)
    assert len(found) == len(parameters)
    for parameter, member, one in zip(form["tensors"], parameters, found, strict=True):
        assert one.dtype is torch.float32 and one.shape == member.shape and one.device == member.device
        size = magnitudes[parameter].abs().max().item()
        torch.testing.assert_close(one.cpu(), wanted[parameter], rtol=2**-22, atol=size * 2**-22)


@pytest.mark.parametrize("name", BIASES)
def test_the_library_is_asked_once(name, device, monkeypatch):
    """After that nothing is computed on the CPU: so nothing waits for the device, and a graph may be captured."""
    form, parameters = given(name, device)
    assert bias_numbers._how(form, [t.shape for t in parameters], HEADS) == BIASES[name][1]

    def step(least, count):
        at = Distances(least, count)
        d = torch.ones(HEADS, count, device=device)
        numbers = bias_numbers.numbers(form, parameters, HEADS, at, torch.device(device))
        return numbers, bias_numbers.gradients(form, parameters, d, at)

    first = step(-99, 100)
    asked = lambda *_, **__: pytest.fail("the library was asked again")
    monkeypatch.setattr(_core, "add_scores", asked)
    monkeypatch.setattr(_core, "add_scores_backward", asked)
    monkeypatch.setattr(torch.Tensor, "cpu", asked)
    again = step(-99, 100)
    assert torch.equal(first[0], again[0])
    assert all(torch.equal(x, y) for x, y in zip(first[1], again[1], strict=True))
    for past in range(100, 120):  # a cache that grows token by token
        at = Distances(-past, past + 1)
        numbers = bias_numbers.numbers(form, parameters, HEADS, at, torch.device(device))
        bias_numbers.gradients(form, parameters, torch.ones(HEADS, past + 1, device=device), at)
        assert numbers.shape == (HEADS, past + 1) and torch.equal(numbers[:, past - 99 :], first[0])


@pytest.mark.parametrize("name", ["T5Bias, causal", "T5Bias, bidirectional"])
def test_the_sums_of_a_table_s_rows_are_whole(name, device):
    """With gradients of 1 each row's sum is how many distances pick it, and all of them are counted."""
    form, parameters = given(name, device)
    at = Distances(-1500, 1733)
    (found,) = bias_numbers.gradients(form, parameters, torch.ones(HEADS, at.count, device=device), at)
    numbers = torch.arange(1.0, 1 + len(found))[:, None].expand(-1, HEADS)
    rows = bias_numbers.numbers(form, [numbers.to(device)], HEADS, at, torch.device(device))[0].long() - 1
    wanted = torch.bincount(rows.cpu(), minlength=len(found)).float()
    assert torch.equal(found.cpu(), wanted[:, None].expand(-1, HEADS)) and wanted.sum() == at.count


def test_no_bias_by_distance_is_left_out():
    from bearing._modules import modules

    by_distance = {info.kind for info in modules() if traits_of(info.kind)["form"] == "distance"}
    assert by_distance == {name.split(",")[0] for name in BIASES}


def test_a_long_range_is_made_for_the_call_alone(device, monkeypatch):
    form, parameters = given("SandwichBias", device)
    monkeypatch.setattr(bias_numbers, "MOST_KEPT", 1000)
    bias_numbers._on_device.cache_clear()
    at = Distances(-600, 601)
    found = bias_numbers.numbers(form, parameters, HEADS, at, torch.device(device))
    assert not bias_numbers._on_device.cache_info().currsize
    monkeypatch.undo()
    assert torch.equal(found, bias_numbers.numbers(form, parameters, HEADS, at, torch.device(device)))
    assert bias_numbers._on_device.cache_info().currsize


def test_a_table_that_does_not_fit_is_the_library_s_error(device):
    form, (table,) = given("T5Bias, causal", device)
    with pytest.raises(bearing.ShapeError, match="table"):
        bias_numbers.numbers(form, [table[:, :2]], HEADS, Distances(0, 4), torch.device(device))
    with pytest.raises(bearing.ShapeError, match="table"):
        bias_numbers.numbers(form, [table[:-1]], HEADS, Distances(0, 4), torch.device(device))


@needs_device
def test_a_training_step_is_captured(device):
    """A graph takes a step of a learned table whole: nothing waits for the device."""
    module = t5("causal", 32, 128)().to(device)
    q, k, v = (torch.randn(1, HEADS, 256, 64, device=device, requires_grad=True) for _ in range(3))

    def step():
        out = bt.attention(q, k, v, module, mask="causal")
        return torch.autograd.grad(out, [q, k, v, module.table], torch.ones_like(out))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        wanted = step()
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    graph.replay()
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    with torch.no_grad():
        module.table.add_(1.0)
    graph.replay()
    assert all(torch.equal(x, y) for x, y in zip(found, step(), strict=True))
