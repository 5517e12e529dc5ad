"""Copy and reverse: say a list of symbols again, forwards or backwards.

Built after Kazemnejad et al. 2023 (arXiv 2305.19466): 100 symbols drawn with repetition, trained on lists of up to 20,
measured by exact match. They give the instruction in words and say up to twice the length; here a sign stands for the
instruction, and the end must be said too.
"""

from __future__ import annotations

import string

import numpy as np

from ..task import Batch, Lettered, Letters, draw_lengths, one, rows, some

_SYMBOLS = 100
_LETTERS = (string.ascii_letters + string.digits + "".join(map(chr, range(0xC0, 0x100))))[:_SYMBOLS]


class Copy(Lettered):
    """Say the list again.

    What it isolates: the answer's token at a place stands one list and one sign before, so a model finds it by a
    distance that is the same at each place of a row, and another one for each length of the list. A symbol may occur
    twice, so that looking for the symbol said last is not enough.

    A row: ``>abca|abca``. Asked, behind the bar: the list and the full stop. Metric: exact match.
    """

    name = "copy"
    title = "Copy a list"
    source = "Kazemnejad et al. 2023, arXiv 2305.19466"
    unit = "symbols"
    trained = 20
    metric = "exact"
    symbols = _LETTERS
    letters = Letters(" >|." + _LETTERS)

    def time(self, length: int) -> int:
        return 2 * length + 2

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        lengths = draw_lengths(random, size, length, varied)
        symbols = self.letters[self.symbols[0]] + random.integers(0, len(self.symbols), (size, length))
        said = self._said(symbols, lengths)
        return rows(
            [
                one(size, self.letters[">"]),
                some(symbols, lengths),
                one(size, self.letters["|"]),
                some(said, lengths, asked=True),
                one(size, self.letters["."], asked=True),
            ],
            self.time(length),
        )

    def _said(self, symbols: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """What is said of the symbols: the first `lengths` of each row count."""
        return symbols


class Reverse(Copy):
    """Say the list again, from its end to its start.

    What it isolates: the answer's first token stands one place before, the next three places before, then five: the
    distance grows along the answer, and no distance serves two places.

    A row: ``>abca|acba``. Asked, behind the bar: the list backwards and the full stop. Metric: exact match.
    """

    name = "reverse"
    title = "Reverse a list"

    def _said(self, symbols: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        backwards = lengths[:, None] - 1 - np.arange(symbols.shape[1])
        return np.take_along_axis(symbols, np.maximum(backwards, 0), axis=1)
