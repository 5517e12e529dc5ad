"""Sorting: say a list of symbols in their order."""

from __future__ import annotations

import string

import numpy as np

from ..task import Letters
from .copying import Copy

_SYMBOLS = (string.digits + string.ascii_letters)[:50]


class Sorting(Copy):
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
    trained = 8
    symbols = _SYMBOLS
    letters = Letters(" >|." + _SYMBOLS)

    def _said(self, symbols: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        behind = np.arange(symbols.shape[1]) >= lengths[:, None]
        return np.sort(np.where(behind, self.vocabulary, symbols), axis=1)
