"""Parity and summation: one answer about all of a list.

Both are built after Kazemnejad et al. 2023 (arXiv 2305.19466): trained on lists of up to 8, without a working, measured
by exact match. They put the question in words; here a bar stands for it.
"""

from __future__ import annotations

import numpy as np

from ..task import Batch, Lettered, Letters, draw_lengths, one, rows, some


class Parity(Lettered):
    """Say whether the ones of a list of bits are even in number.

    What it isolates: nothing that needs a place. Every bit counts, so a model must look at all places alike; what an
    encoding adds to far or near places is in the way.

    A row: ``>0110|``. Asked, at the bar: ``y`` if the ones are even, ``n`` if they are odd. Metric: exact match, of
    which half is had by guessing.
    """

    name = "parity"
    title = "Parity of bits"
    source = "Kazemnejad et al. 2023, arXiv 2305.19466"
    unit = "bits"
    trained = 8
    metric = "exact"
    guessed = 1 / 2
    for_encoders = True
    letters = Letters(" >|01yn")

    def time(self, length: int) -> int:
        return length + 2

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        lengths = draw_lengths(random, size, length, varied)
        bits = random.integers(0, 2, (size, length)) * (np.arange(length) < lengths[:, None])
        answer = np.where(bits.sum(axis=1) % 2 == 0, self.letters["y"], self.letters["n"])
        return _one_answer(self.letters, self.letters["0"] + bits, lengths, answer)


class Summation(Lettered):
    """Say the last digit of the sum of a list of digits.

    What it isolates: as parity, with ten answers in place of two. The digits are 1 to 9, as there.

    A row: ``>3948|``. Asked, at the bar: ``4``, the sum modulo 10. Metric: exact match, of which a tenth is had by
    guessing.
    """

    name = "summation"
    title = "Sum modulo 10"
    source = "Kazemnejad et al. 2023, arXiv 2305.19466"
    unit = "digits"
    trained = 8
    metric = "exact"
    guessed = 1 / 10
    for_encoders = True
    letters = Letters(" >|0123456789")

    def time(self, length: int) -> int:
        return length + 2

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        lengths = draw_lengths(random, size, length, varied)
        digits = random.integers(1, 10, (size, length)) * (np.arange(length) < lengths[:, None])
        zero = self.letters["0"]
        return _one_answer(self.letters, zero + digits, lengths, zero + digits.sum(axis=1) % 10)


def _one_answer(letters: Letters, items: np.ndarray, lengths: np.ndarray, answer: np.ndarray) -> Batch:
    """``>items|``, with the answer asked at the bar; it stands in no row."""
    size = len(items)
    answered = some(answer[:, None], np.ones(size, np.int64), asked=True)
    return rows([one(size, letters[">"]), some(items, lengths), one(size, letters["|"]), answered], items.shape[1] + 2)
