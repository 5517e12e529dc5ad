"""Small images whose questions need places on two axes: what is asked has no answer without them.

An image is a grid of patches of 4 × 4 pixels: noise, and on it marks, a cross or a ring, each of which fills a patch.
One ring is the place where the model is asked. An image may have any number of patches a side, and the answer does not
depend on it, so that a model can be asked about larger images than it was trained on.
"""

from __future__ import annotations

import numpy as np

from .task import NOTHING, Batch

SIDE = 4  # pixels of a patch, a side
NOISE = 0.25  # standard deviation of every pixel
_CROSS = np.eye(SIDE) + np.eye(SIDE)[::-1]
_RING = np.pad(np.zeros((SIDE - 2, SIDE - 2)), 1, constant_values=1.0)


class Picture:
    """What all pictures share: a length is a side, in patches."""

    source = "this lab"
    unit = "patches a side"
    metric = "accuracy"

    def time(self, length: int) -> int:
        return length * length


class Direction(Picture):
    """In which direction the cross lies, seen from the ring.

    What it isolates: the sign of the offset on each axis, 0 included, at any distance. The eight directions are drawn
    evenly; a ring and a cross in the same row lie exactly in it.

    An image: a ring and a cross. Asked, at the ring's patch: one of 8 answers, 3 (dy + 1) + dx + 1 without the middle,
    where dy and dx are the signs of cross minus ring. Metric: accuracy, of which an eighth is had by guessing.
    """

    name = "direction"
    title = "Direction of a mark"
    answers = 8

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        """Images of length × length patches, whether varied or not: tokens float32 [size, patches, 16], targets
        [size, patches]."""
        _check(size, length, 2)
        answer = random.integers(0, self.answers, size)
        sign = np.stack(np.divmod(answer + (answer >= self.answers // 2), 3)) - 1  # [2, size]: of y and of x
        first = random.integers(0, length, (2, size))
        other = (first + random.integers(1, length, (2, size))) % length  # any but the first
        low, high = np.minimum(first, other), np.maximum(first, other)
        ring = np.where(sign == 0, first, np.where(sign > 0, low, high))
        cross = np.where(sign == 0, first, np.where(sign > 0, high, low))
        crosses = np.zeros((size, length * length), bool)
        crosses[np.arange(size), cross[0] * length + cross[1]] = True
        return _drawn(random, ring[0] * length + ring[1], crosses, answer)


class SameRow(Picture):
    """How many crosses lie in the ring's row.

    What it isolates: that two patches have one coordinate in common, whatever the other one is. A model that reads the
    patches as one long row does not see it.

    An image: a ring and six crosses, of which 0 to 3 stand in its row, drawn evenly, and the others anywhere else.
    Asked, at the ring's patch: how many. Metric: accuracy, of which a quarter is had by guessing.
    """

    name = "same_row"
    title = "Marks in the same row"
    answers = 4
    crosses = 6

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        """As :class:`Direction` has it."""
        _check(size, length, 4)
        answer = random.integers(0, self.answers, size)
        ring = random.integers(0, length * length, size)
        at = np.arange(length * length)
        in_row = (at // length == ring[:, None] // length) & (at != ring[:, None])
        elsewhere = at // length != ring[:, None] // length
        crosses = _chosen(random, in_row, answer) | _chosen(random, elsewhere, self.crosses - answer)
        return _drawn(random, ring, crosses, answer)


PICTURES = {one.name: one for one in (Direction(), SameRow())}


def _check(size: int, length: int, least: int) -> None:
    if size < 1:
        raise ValueError(f"[batch] size: must be at least 1, got {size}")
    if length < least:
        raise ValueError(f"[batch] length: must be at least {least} patches a side, got {length}")


def _chosen(random: np.random.Generator, of: np.ndarray, count: np.ndarray) -> np.ndarray:
    """That many of those that are True in each row of `of` [size, patches], drawn evenly."""
    order = np.argsort(np.where(of, random.random(of.shape), 2), axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(of.shape[1])[None], axis=1)
    return rank < count[:, None]


def _drawn(random: np.random.Generator, ring: np.ndarray, crosses: np.ndarray, answer: np.ndarray) -> Batch:
    """Pixels by patch, and the answer at the ring."""
    size, patches = crosses.shape
    pixels = random.standard_normal((size, patches, SIDE, SIDE), dtype=np.float32) * NOISE
    pixels[crosses] += _CROSS
    pixels[np.arange(size), ring] += _RING
    targets = np.full((size, patches), NOTHING)
    targets[np.arange(size), ring] = answer
    return Batch(pixels.reshape(size, patches, SIDE * SIDE), targets)
