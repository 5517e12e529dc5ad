"""Masked text: say the bytes that were hidden, from those on both sides."""

from __future__ import annotations

import numpy as np

from ..task import NOTHING, Batch
from .text import Text

HIDDEN = 0.15  # of the bytes
MASK = 256  # the token that stands in their place


class Masked:
    """Say the bytes that were hidden.

    Built after the masked language model of Devlin et al. 2019 (arXiv 1810.04805): 15 in 100 tokens are chosen, and asked.
    There 8 in 10 of these become a mask, 1 in 10 another token, and 1 in 10 stay; here all of them become a mask.

    What it isolates: what positions give to a model that sees both sides. Without them such a model sees a bag of bytes,
    where a causal model still knows what came before what.

    Rows are those of the task `text`, with its documents and its parts. Each row has a byte that is asked. Metric: loss,
    in nats per hidden byte.
    """

    name = "masked"
    title = "Hidden bytes of text"
    source = "Devlin et al. 2019, arXiv 1810.04805"
    unit = "bytes"
    vocabulary = 257
    trained = 128
    causal = False
    for_encoders = True
    metric = "loss"
    guessed = 0.0

    def __init__(self, text: Text) -> None:
        self._text = text

    @property
    def sha256(self) -> str:
        """That of its text."""
        return self._text.sha256

    @property
    def about(self) -> str:
        """Where the text is from."""
        return self._text.about

    def time(self, length: int) -> int:
        return length

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        told = self._text.batch(random, size, length, varied).tokens
        hidden = random.random(told.shape) < HIDDEN
        hidden[np.arange(size), random.integers(0, length, size)] = True
        return Batch(np.where(hidden, MASK, told), np.where(hidden, told, NOTHING))

    def spell(self, tokens: np.ndarray) -> str:
        return "".join("·" if token == MASK else self._text.spell(np.array([token])) for token in tokens)
