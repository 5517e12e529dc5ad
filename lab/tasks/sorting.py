"""Sorting: say a list of symbols in their order."""

from __future__ import annotations

import string

import numpy as np

from ..task import Batch, Lettered, Letters, draw_lengths, one, rows, some

_SYMBOLS = (string.digits + string.ascii_letters)[:50]


class Sorting(Lettered):
    """Say the symbols of a list from the first of the alphabet to the last.

    Built after Kazemnejad et al. 2023 (arXiv 2305.19466), its kind with single tokens: 50 symbols drawn with
    repetition, trained on lists of up to 8, measured by exact match.

    What it isolates: nothing that needs a place. Each answer is the least symbol that has not been said as often as it
    stands in the list, so an encoding can only be in the way. Where a model fails on longer lists, it failed to look
    at all of the list alike.

    A row: ``>c1aa|1aac``. Asked, behind the bar: the list in order (digits before letters) and the full stop. Metric:
    exact match.
    """

    name = "sorting"
    title = "Sort a list"
    source = "Kazemnejad et al. 2023, arXiv 2305.19466"
    unit = "symbols"
    trained = 8
    metric = "exact"
    letters = Letters(" >|." + _SYMBOLS)

    def time(self, length: int) -> int:
        return 2 * length + 2

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        lengths = draw_lengths(random, size, length, varied)
        symbols = self.letters[_SYMBOLS[0]] + random.integers(0, len(_SYMBOLS), (size, length))
        behind = np.arange(length) >= lengths[:, None]
        in_order = np.sort(np.where(behind, self.vocabulary, symbols), axis=1)
        return rows(
            [
                one(size, self.letters[">"]),
                some(symbols, lengths),
                one(size, self.letters["|"]),
                some(in_order, lengths, asked=True),
                one(size, self.letters["."], asked=True),
            ],
            self.time(length),
        )
