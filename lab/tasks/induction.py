"""Induction: say what stood behind a key when it stood there before."""

from __future__ import annotations

import string

import numpy as np

from ..task import NOTHING, Batch, Lettered, Letters, draw_lengths

_KEYS = 256
_VALUES = (string.ascii_letters + string.digits)[:32]


class Induction(Lettered):
    """Say the value of each key again; the keys come in another order than before.

    Built after the induction heads of Olsson et al. 2022 (arXiv 2209.11895), which complete ``[A][B] … [A]`` by
    ``[B]``; many keys are asked for in one row, as in Arora et al. 2023 (arXiv 2312.04927).

    What it isolates: two steps. A place must know the token right before it, which is a distance of one; then the key
    is found by what it is, at any distance, and here each key has its own. An encoding that makes far keys faint, or
    turns them to where the model never saw them, fails at the second step.

    A row: ``>ĀaĂbāc|āĀĂ``, with keys ``Ā``, ``Ă``, ``ā`` and values ``a``, ``b``, ``c``; keys of a row differ. Asked,
    at each key behind the bar: its value, here ``c``, ``a``, ``b``. Metric: accuracy.
    """

    name = "induction"
    title = "Find what followed"
    source = "Olsson et al. 2022, arXiv 2209.11895"
    unit = "pairs"
    trained = 16
    metric = "accuracy"
    for_encoders = True
    letters = Letters(" >|" + _VALUES + "".join(map(chr, range(0x100, 0x100 + _KEYS))))

    def time(self, length: int) -> int:
        return 3 * length + 2

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        if length > _KEYS:
            raise ValueError(f"[Induction] length: must be at most {_KEYS}, as keys differ, got {length}")
        lengths = draw_lengths(random, size, length, varied)
        keys = random.permuted(np.tile(np.arange(_KEYS), (size, 1)), axis=1)[:, :length] + self.letters["Ā"]
        values = random.integers(0, len(_VALUES), (size, length)) + self.letters[_VALUES[0]]
        there = np.arange(length) < lengths[:, None]
        order = np.argsort(np.where(there, random.random((size, length)), 2), axis=1)  # those that are there come first
        tokens = np.zeros((size, self.time(length)), np.int64)
        targets = np.full_like(tokens, NOTHING)
        tokens[:, 0] = self.letters[">"]
        tokens[:, 1 : 2 * length + 1 : 2] = np.where(there, keys, 0)
        tokens[:, 2 : 2 * length + 2 : 2] = np.where(there, values, 0)
        bar = 2 * lengths + 1
        tokens[np.arange(size), bar] = self.letters["|"]
        row, pair = np.nonzero(there)
        place = bar[row] + 1 + pair
        tokens[row, place] = keys[row, order[row, pair]]
        targets[row, place] = values[row, order[row, pair]]
        return Batch(tokens, targets)
