"""Where a bias is a line within a tile, of biases that are lines everywhere, somewhere and nowhere."""

from __future__ import annotations

import itertools
import json
import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing.torch.encoding import encodings_of, forms_of, tensors_of
from bearing.torch.triton import bias_numbers, distances, launches, visible, work
from bearing.torch.triton.bias_lines import lines
from bearing.torch.triton.bias_numbers import Distances, is_straight
from calls import quick

__all__ = ["quick"]  # a fixture
LOG2E = math.log2(math.e)
ROWS, COLS, HEADS = 16, 8, 4
Q_LEN, K_LEN = 70, 90


def described(module):
    """A bias' form and its parameters."""
    encodings = encodings_of(module)
    (form,) = json.loads(forms_of(encodings))
    return form, [t.detach() for t in tensors_of(encodings, torch.float32)]


def numbers(module, least, count, device):
    return bias_numbers.numbers(*described(module), HEADS, Distances(least, count), torch.device(device))


def biases():
    t5 = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="causal"), HEADS, 64)
    torch.nn.init.normal_(next(t5.parameters()))
    return {"ALiBi": bt.Alibi(HEADS), "T5": t5, "KERPLE": bt.Kerple(bearing.Kerple(form="logarithmic"), HEADS)}


@pytest.mark.parametrize("name", biases())
@pytest.mark.parametrize("causal", [True, False])
def test_lines_are_those_of_tiles(name, causal, device):
    """Each tile's line against its numbers, one by one."""
    least, most = 1 - Q_LEN, 0 if causal else K_LEN - 1
    bias, zero = numbers(biases()[name], least, most - least + 1, device), -least
    found = lines(bias, zero, Q_LEN, K_LEN, ROWS, COLS)
    assert found.step == 8 and found.least == -64 and found.count == (88 + 64) // 8 + 1
    told, values = found.numbers.cpu().double(), bias.cpu().double()
    straight, everywhere = 0, 0
    for n in range(found.count):
        at = torch.arange(-(ROWS - 1), COLS) + found.least + n * found.step
        there = (at >= least) & (at <= most)
        own = values[:, at[there] + zero]
        t = at[there] - (found.least + n * found.step)
        for head in range(HEADS):
            first, slope = told[head, n] / LOG2E
            everywhere += len(t) > 3
            off = (own[head] - (first + slope * t)).abs().max().item() if len(t) else 0.0
            if math.isnan(slope):
                assert not is_straight(own[head].float())
            else:
                straight += len(t) > 3
                assert off <= 2**-20 * own[head].abs().max().item() if len(t) else True
    if name == "KERPLE":
        assert straight < everywhere // 4
    else:
        assert straight == everywhere if name == "ALiBi" and causal else 0 < straight < everywhere


def test_what_is_a_line():
    t = torch.arange(-5000.0, 1)
    assert is_straight(t * 0.3) and is_straight(t * 0 + 7) and is_straight(t[:1]) and is_straight(t[:0])
    assert is_straight(torch.stack([t * 2**-0.5, 3 - t])) and is_straight(torch.zeros(3))
    assert not is_straight(t.abs() - 3 * (t == -7)) and not is_straight(torch.stack([t, t * t]))
    assert not is_straight(torch.arange(-5.0, 6).abs()) and not is_straight(t * float("nan"))
    assert not is_straight(torch.where(t < -9, -float("inf"), t))


def test_what_is_known_of_a_bias_without_its_numbers():
    def known(module, at):
        return bias_numbers.are_straight(*described(module), HEADS, at)

    one = biases()
    assert known(one["ALiBi"], Distances(-500, 501))
    assert not known(one["ALiBi"], Distances(-500, 601))  # by both sides
    assert not known(one["T5"], Distances(-500, 501)) and not known(one["KERPLE"], Distances(-500, 501))


@pytest.mark.parametrize("mask", ["none", "causal", "causal_top_left", "causal_bottom_right"])
@pytest.mark.parametrize("lengths", [None, torch.tensor([70, 5, 0, 33])])
def test_distances_are_those_that_masks_show(mask, lengths):
    """All of them, and no others where sizes tell: under a causal mask by index too ALiBi is a line."""
    for (q_len, k_len), window, offset in itertools.product(
        [(70, 70), (20, 70), (70, 20)], [(-1, -1), (9, -1), (9, 3), (0, 0)], [0, 50, -7]
    ):
        rules = visible.Rules(mask, window, q_len, k_len, offset, lengths, None, None, torch.device("cpu"))
        at = distances.distances_of(rules, None, None)
        first, end = visible.runs(rules)
        i = torch.arange(q_len).expand_as(first)[first < end]
        if not len(i):
            continue
        least = int((first[first < end] - i).min()) - offset
        most = int((end[first < end] - 1 - i).max()) - offset
        assert at.least <= least and most < at.least + at.count
        if lengths is None:
            assert at == Distances(least, most - least + 1)
    rules = visible.Rules(mask, (-1, -1), 20, 70, 50, lengths, None, None, torch.device("cpu"))
    known = bias_numbers.are_straight(*described(bt.Alibi(HEADS)), HEADS, distances.distances_of(rules, None, None))
    assert known == (mask != "none")


def test_a_sum_of_lines_is_one(device):
    """Also where its numbers are so small beside the sum's parts that their rounding is more than a line's."""
    both = [bt.Alibi(HEADS), bt.Alibi(HEADS)]
    with torch.no_grad():
        for module, slope in zip(both, (0.3, -0.299), strict=True):
            next(module.parameters()).fill_(slope)
    q, k, v = (torch.randn(1, HEADS, count, 16, device=device) for count in (Q_LEN, K_LEN, K_LEN))
    options = {"mask": "causal", "q_positions": K_LEN - Q_LEN, "k_positions": 0}
    out = bt.attention(q, k, v, [module.to(device) for module in both], **options)
    want = bt.attention(*(x.cpu().double() for x in (q, k, v)), [module.cpu().double() for module in both], **options)
    torch.testing.assert_close(out.cpu().double(), want, rtol=0, atol=2**-16)


def test_a_step_of_decoding_does_not_ask_for_lines(device, monkeypatch):
    q, k, v = (torch.randn(1, HEADS, count, 16, device=device) for count in (launches.DECODED, K_LEN, K_LEN))
    bias = bt.Alibi(HEADS).to(device)
    monkeypatch.setattr(work, "are_straight", lambda *_: pytest.fail("it was asked"))
    bt.attention(q, k, v, bias, mask="causal", q_positions=K_LEN - 16)
    with pytest.raises(pytest.fail.Exception):
        bt.attention(torch.cat([q, q], 2), k, v, bias, mask="causal")
