"""N-th back: say the token that stood so many places before."""

from __future__ import annotations

import numpy as np

from ..task import NOTHING, PAD, Batch, Lettered, Letters, draw_lengths

BACK = 8


class NthBack(Lettered):
    """Say, at each place, the letter eight places before.

    Built after the N-back tests that Gong and Zhang 2024 (arXiv 2409.10715) train small decoders on. Theirs ask whether
    the letter is the same as N places before; this one asks for the letter, so that guessing has a tenth, not a half.

    What it isolates: one distance, wherever it stands. Letters say nothing about each other, so a model has only the
    places to go by. A relative encoding needs a single rule; an absolute one needs one for each place, and has none for
    places past the trained length.

    A row: ``abcdefghijab``. Asked, from the ninth place on: the letter eight places before, here ``abcd``. A length
    counts the places that are asked, so a row has eight letters more. Metric: accuracy.
    """

    name = "nth_back"
    title = "Eighth letter back"
    source = "Gong and Zhang 2024, arXiv 2409.10715"
    unit = "places asked"
    trained = 32
    metric = "accuracy"
    for_encoders = True
    letters = Letters(" abcdefghij")

    def time(self, length: int) -> int:
        return length + BACK

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        lengths = draw_lengths(random, size, length, varied)
        there = np.arange(self.time(length)) < lengths[:, None] + BACK
        tokens = np.where(there, random.integers(1, self.vocabulary, there.shape), PAD)
        targets = np.full_like(tokens, NOTHING)
        targets[:, BACK:] = np.where(there[:, BACK:], tokens[:, :-BACK], NOTHING)
        return Batch(tokens, targets)
