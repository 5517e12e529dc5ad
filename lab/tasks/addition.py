"""Addition: the sum of two numbers, digit by digit."""

from __future__ import annotations

import numpy as np

from ..task import Batch, Lettered, Letters, draw_lengths, one, rows, some


class Addition(Lettered):
    """Say the sum of two numbers, written as numbers are: the highest digit first, without a working.

    Built after Kazemnejad et al. 2023 (arXiv 2305.19466): each number has its own count of digits, up to 8 in training,
    and no zeros before it; measured by exact match. They measure with at least one number longer than in training, up
    to 16 digits; here both have exactly as many digits as is said.

    What it isolates: aligning. The two digits of a column stand as far apart as the second number is long, plus one,
    and the answer's digit stands elsewhere again. The highest digit is said first, and whether it is carried to depends
    on every column behind it.

    A row: ``>98+7=105``. Asked, behind the equals sign: the sum and the full stop. Metric: exact match.
    """

    name = "addition"
    title = "Add two numbers"
    source = "Kazemnejad et al. 2023, arXiv 2305.19466"
    unit = "digits"
    trained = 8
    metric = "exact"
    letters = Letters(" >+=.0123456789")

    def time(self, length: int) -> int:
        return 3 * length + 4

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        first, first_length = _number(random, size, length, varied)
        second, second_length = _number(random, size, length, varied)
        total, total_length = _sum(first, second)
        zero = self.letters["0"]
        return rows(
            [
                one(size, self.letters[">"]),
                some(zero + _written(first, first_length), first_length),
                one(size, self.letters["+"]),
                some(zero + _written(second, second_length), second_length),
                one(size, self.letters["="]),
                some(zero + _written(total, total_length), total_length, asked=True),
                one(size, self.letters["."], asked=True),
            ],
            self.time(length),
        )


def _number(random: np.random.Generator, size: int, length: int, varied: bool) -> tuple[np.ndarray, np.ndarray]:
    """Digits [size, length], the lowest first, with zeros above, and how many are written."""
    lengths = draw_lengths(random, size, length, varied)
    digits = random.integers(0, 10, (size, length))
    highest = np.where(
        lengths == 1, digits[:, 0], random.integers(1, 10, size)
    )  # a number may be 0, none begins with 0
    digits[np.arange(size), lengths - 1] = highest
    digits[np.arange(length) >= lengths[:, None]] = 0
    return digits, lengths


def _sum(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Their sum, as _number gives numbers, with a column more.

    A column of 9 hands on what is carried to it; any other one decides by itself what it carries. So what is carried
    out of a column was decided by the nearest column at or below it that is not 9.
    """
    size, length = first.shape
    columns = first + second
    decides = np.maximum.accumulate(np.where(columns != 9, np.arange(length), -1), axis=1)
    carries = np.take_along_axis(columns > 9, np.maximum(decides, 0), axis=1) & (decides >= 0)
    total = np.zeros((size, length + 1), np.int64)
    total[:, :-1] = columns
    total[:, 1:] += carries
    total %= 10
    written = np.where(total != 0, np.arange(1, length + 2), 1).max(axis=1)
    return total, written


def _written(digits: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The highest digit first."""
    backwards = lengths[:, None] - 1 - np.arange(digits.shape[1])
    return np.take_along_axis(digits, np.maximum(backwards, 0), axis=1)
