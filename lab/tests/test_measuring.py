"""What is measured of a model whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from lab import measuring
from lab.task import NOTHING, Batch


class Counting:
    """A task that asks for the place in the last half of a row."""

    vocabulary = 64

    def time(self, length):
        return length

    def batch(self, random, size, length, varied):
        tokens = np.tile(np.arange(length), (size, 1))
        return Batch(tokens, np.where(tokens >= length // 2, tokens, NOTHING))


class Says(nn.Module):
    """A model that is sure of f(token)."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, tokens):
        return 30.0 * nn.functional.one_hot(self.f(tokens), 64).float()


def measured(model, length=32, tokens=256):
    return measuring.measured(model, Counting(), length, tokens, np.random.default_rng(0))


def test_a_model_that_knows_everything():
    found = measured(Says(lambda tokens: tokens))
    assert (found["accuracy"], found["exact"], found["rows"]) == (1, 1, 8)
    assert found["loss"] < 1e-9 and found["perplexity"] == pytest.approx(1)


def test_a_model_that_knows_nothing():
    found = measured(lambda tokens: torch.zeros(*tokens.shape, 64))
    assert found["loss"] == pytest.approx(math.log(64)) and found["perplexity"] == pytest.approx(64)
    assert found["exact"] == 0


def test_one_wrong_token_spoils_a_row_and_is_seen_where_it_stands():
    found = measured(Says(lambda tokens: torch.where(tokens == 20, 0, tokens)))
    assert found["exact"] == 0 and found["accuracy"] == pytest.approx(15 / 16)
    wrong = [place for place, loss in found["by_position"] if loss > 1]
    assert len(wrong) == 1 and abs(wrong[0] - 20) <= 1 and found["by_position"][0][0] >= 15
    assert found["tail"] == pytest.approx(1)  # the last quarter begins at 24


def test_the_tail_is_the_last_quarter():
    found = measured(Says(lambda tokens: torch.where(tokens >= 24, 0, tokens)))
    assert found["tail"] == pytest.approx(math.exp(30), rel=1e-3)


def test_bins_are_as_wide_on_a_logarithmic_axis_and_hold_the_mean_of_their_places():
    sums = measuring.Sums()
    sums.losses, sums.asked, sums.right = np.arange(1024.0), np.ones(1024), np.ones(1024)
    sums.rows = 1
    found = sums.summary()["by_position"]
    assert all(place == pytest.approx(loss) for place, loss in found)
    assert found[0][0] == 0 and 15 <= len(found) <= measuring.BINS
    assert sum(place < 64 for place, _ in found) >= len(found) / 2


def test_at_least_four_rows_however_long_they_are():
    assert measured(Says(lambda tokens: tokens), length=64, tokens=1)["rows"] == 4
