"""A needle in a haystack: find a number among letters and say it."""

from __future__ import annotations

import numpy as np

from ..task import Batch, Lettered, Letters, draw_lengths, one, rows, some

DIGITS = 4
_HAY = "abcdefghijklmnop"


class Needle(Lettered):
    """Say the number that stands somewhere among letters.

    Built after the pass key of Mohtashami and Jaggi 2023 (arXiv 2305.16300): a number in a text that says nothing about
    it, asked for at the text's end. Their text is a few sentences over and over; here it is letters drawn evenly, and
    the number has four digits.

    What it isolates: finding by what a token is, at any distance, and then following it token by token. An encoding
    that makes far tokens faint loses the needle.

    A row: ``>abc#1729de?172``, with the needle anywhere among the letters. Asked, from the question mark on: the number,
    here ``1729``. A length counts the letters. Metric: exact match.
    """

    name = "needle"
    title = "Needle among letters"
    source = "Mohtashami and Jaggi 2023, arXiv 2305.16300"
    unit = "letters"
    trained = 32
    metric = "exact"
    letters = Letters(" >#?0123456789" + _HAY)

    def time(self, length: int) -> int:
        return length + 2 * DIGITS + 2

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        lengths = draw_lengths(random, size, length, varied)
        before = random.integers(0, lengths + 1)
        hay = self.letters[_HAY[0]] + random.integers(0, len(_HAY), (2, size, length))
        number = self.letters["0"] + random.integers(0, 10, (size, DIGITS))
        all_digits = np.full(size, DIGITS)
        return rows(
            [
                one(size, self.letters[">"]),
                some(hay[0], before),
                one(size, self.letters["#"]),
                some(number, all_digits),
                some(hay[1], lengths - before),
                one(size, self.letters["?"]),
                some(number, all_digits, asked=True),
            ],
            self.time(length),
        )
