"""What a task is: rows of tokens, and what is asked at each place.

A task makes rows and knows the answers; it sees no model. A row is said in letters, so that it can be read:
``spell`` gives it back as text.

Where a task asks for an answer of several tokens, the model is shown the right tokens before each (teacher forcing).
That all of them are right is the same as that greedy decoding gives the whole answer and stops after it, because both
go wrong at the same place: at the first token that is not the likeliest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

PAD = 0  # the token behind the end of a row, in every task
NOTHING = -1  # the target where nothing is asked


class Batch(NamedTuple):
    """Rows of tokens, padded on the right, and what is asked."""

    tokens: np.ndarray  # int64 [size, time]
    targets: np.ndarray  # int64 [size, time]: the token to say at each place, NOTHING where nothing is asked


class Task(Protocol):
    """Where rows come from."""

    name: str
    title: str  # a few words for a table or a picture
    source: str  # the paper that it is built after, with its arXiv number
    unit: str  # what a length counts: "digits", "items", …
    vocabulary: int  # tokens, pad included
    trained: int  # the length that models are trained up to, unless a setting says another
    causal: bool  # made for causal models
    for_encoders: bool  # a model that sees the whole row may be asked too: no answer stands in it
    metric: str  # the measure that speaks for the task: "exact", "accuracy" or "loss"
    guessed: float  # the share of answers that are right in all their tokens by guessing, nearly 0 where they are long

    def time(self, length: int) -> int:
        """How many tokens the rows of a batch have, pads included."""

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        """Rows to train on (varied) or to measure with.

        varied: each row's length is drawn from 1 to `length`; else every row has exactly `length`. Text does not vary
        its lengths: varied rows come from the part to train on, the others from the part that is held out.
        """

    def spell(self, tokens: np.ndarray) -> str:
        """A row as text, without its pads."""


class Letters:
    """The letters of a task as tokens: their places in a text, of which the first is the pad."""

    def __init__(self, letters: str) -> None:
        if len(set(letters)) != len(letters):
            raise ValueError(f"[Letters] letters: must differ from each other, got {letters!r}")
        self.letters = letters
        self._tokens = {letter: token for token, letter in enumerate(letters)}

    def __len__(self) -> int:
        return len(self.letters)

    def __getitem__(self, letter: str) -> int:
        """The token of a letter. Digits, and other letters that follow each other, have tokens that do."""
        return self._tokens[letter]

    def spell(self, tokens: np.ndarray) -> str:
        """Tokens as text, without pads."""
        return "".join(self.letters[token] for token in tokens if token != PAD)


class Part(NamedTuple):
    """One stretch of every row: its tokens, which of them the row has, and whether the model is asked for them."""

    tokens: np.ndarray  # [size, width]
    there: np.ndarray  # bool [size, width]
    asked: bool = False


def one(size: int, token: int, asked: bool = False) -> Part:
    """A stretch of one token, the same in every row."""
    return Part(np.full((size, 1), token), np.ones((size, 1), bool), asked)


def some(tokens: np.ndarray, lengths: np.ndarray, asked: bool = False) -> Part:
    """A stretch of the first `lengths` tokens of each row."""
    return Part(tokens, np.arange(tokens.shape[1]) < lengths[:, None], asked)


def rows(parts: Sequence[Part], time: int) -> Batch:
    """Rows of these stretches, one behind the other, padded to `time` tokens; targets are the tokens that follow.

    A row's last token has nothing behind it: it is a target only, and the row ends before it.
    """
    tokens = np.concatenate([part.tokens for part in parts], axis=1)
    there = np.concatenate([part.there for part in parts], axis=1)
    asked = np.concatenate([np.full(part.there.shape, part.asked) for part in parts], axis=1)
    lengths = there.sum(axis=1)
    filled = np.arange(tokens.shape[1]) < lengths[:, None]
    row = np.full(tokens.shape, PAD)
    follow = np.full(tokens.shape, NOTHING)
    row[filled] = tokens[there]
    follow[filled] = np.where(asked, tokens, NOTHING)[there]
    row[np.arange(len(row)), lengths - 1] = PAD
    return Batch(np.ascontiguousarray(row[:, :time]), np.ascontiguousarray(follow[:, 1 : time + 1]))


def draw_lengths(random: np.random.Generator, size: int, length: int, varied: bool) -> np.ndarray:
    """The lengths of the rows of a batch: [size]."""
    for name, number in (("size", size), ("length", length)):
        if number < 1:
            raise ValueError(f"[batch] {name}: must be at least 1, got {number}")
    return random.integers(1, length + 1, size) if varied else np.full(size, length)


class Lettered:
    """What all tasks made of letters share."""

    letters: Letters
    causal = True
    for_encoders = False
    guessed = 0.0

    @property
    def vocabulary(self) -> int:
        return len(self.letters)

    def spell(self, tokens: np.ndarray) -> str:
        return self.letters.spell(tokens)
