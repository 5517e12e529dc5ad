"""Brackets: how deep a place lies."""

from __future__ import annotations

import numpy as np

from ..task import NOTHING, PAD, Batch, Lettered, Letters, draw_lengths

DEEPEST = 4


class Brackets(Lettered):
    """Say, at each bracket, how many are open behind it.

    Built after Yao et al. 2021 (arXiv 2105.11115), who prove that two layers suffice for brackets of bounded depth. Their
    first layer counts the depth, from the mean over all tokens so far and the place. They ask which bracket may close,
    and train on rows of up to 700 tokens that are up to ten deep. This task asks for the depth itself, so brackets have
    one kind; rows are shorter, and four deep at most.

    What it isolates: counting. The depth is a mean times a place, or it is found step by step from the last bracket at
    a known depth. Longer rows are no deeper, so only the places are new there.

    A row: ``(()(``. Asked, at each place: the depth, here ``1212``. Whether a bracket opens or closes is drawn evenly
    where both are possible. Metric: accuracy.
    """

    name = "brackets"
    title = "Depth of brackets"
    source = "Yao et al. 2021, arXiv 2105.11115"
    unit = "brackets"
    trained = 32
    metric = "accuracy"
    for_encoders = True
    letters = Letters(" ()01234")

    def time(self, length: int) -> int:
        return length

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        lengths = draw_lengths(random, size, length, varied)
        there = np.arange(length) < lengths[:, None]
        # A free walk, folded at 0 and at DEEPEST: its steps stay steps, and at the ends there is only one way.
        walk = np.cumsum(2 * random.integers(0, 2, (size, length + 1)) - 1, axis=1)
        depth = DEEPEST - np.abs((walk - walk[:, :1]) % (2 * DEEPEST) - DEEPEST)
        brackets = np.where(np.diff(depth, axis=1) > 0, self.letters["("], self.letters[")"])
        tokens = np.where(there, brackets, PAD)
        return Batch(tokens, np.where(there, self.letters["0"] + depth[:, 1:], NOTHING))
