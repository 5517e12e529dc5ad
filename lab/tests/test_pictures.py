"""Images, held against answers that are read off their pixels again."""

from __future__ import annotations

import numpy as np
import pytest

from lab.pictures import PICTURES, Direction, SameRow
from lab.task import NOTHING

MARKS = {
    "": "0000 0000 0000 0000",
    "cross": "1001 0110 0110 1001",
    "ring": "1111 1001 1001 1111",
}
DIRECTIONS = ["above left", "above", "above right", "left", "right", "below left", "below", "below right"]


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def seen(image: np.ndarray) -> list[str]:
    """The mark of each patch: that which its pixels are nearest to."""
    marks = {name: np.array(list(rows.replace(" ", "")), float) for name, rows in MARKS.items()}
    return [min(marks, key=lambda name: ((patch - marks[name]) ** 2).sum()) for patch in image]


def direction(marks: list[str], side: int) -> int:
    (ring,) = [at for at, mark in enumerate(marks) if mark == "ring"]
    (cross,) = [at for at, mark in enumerate(marks) if mark == "cross"]
    down, right = cross // side - ring // side, cross % side - ring % side
    words = [
        "above" if down < 0 else "below" if down > 0 else "",
        "left" if right < 0 else "right" if right > 0 else "",
    ]
    return DIRECTIONS.index(" ".join(filter(None, words)))


def same_row(marks: list[str], side: int) -> int:
    assert marks.count("cross") == 6
    row = marks.index("ring") // side
    return marks[row * side : (row + 1) * side].count("cross")


SOLVERS = {"direction": direction, "same_row": same_row}


@pytest.mark.parametrize("side", [4, 8, 13])
@pytest.mark.parametrize("name", PICTURES)
def test_the_answer_stands_in_the_image(name, side):
    picture = PICTURES[name]
    patches, targets = picture.batch(random(), 100, side, True)
    assert patches.shape == (100, side * side, 16) and patches.dtype == np.float32
    assert targets.shape == (100, picture.time(side)) and targets.dtype == np.int64
    for image, asked in zip(patches, targets):
        marks = seen(image)
        assert marks.count("ring") == 1
        assert asked[marks.index("ring")] == SOLVERS[name](marks, side)
        assert (asked != NOTHING).sum() == 1


@pytest.mark.parametrize("name", PICTURES)
def test_answers_and_places_are_spread_evenly(name):
    picture = PICTURES[name]
    _, targets = picture.batch(random(), 8_000, 8, False)
    places, answers = np.nonzero(targets != NOTHING)[1], targets[targets != NOTHING]
    counts = np.bincount(answers, minlength=picture.answers)
    expected = 8_000 / picture.answers
    # 5 standard deviations of a binomial count
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected * (1 - 1 / picture.answers))
    assert set(places) == set(range(64))


@pytest.mark.parametrize("name", PICTURES)
def test_the_same_generator_gives_the_same_images(name):
    once, again, other = (PICTURES[name].batch(random(seed), 4, 8, True) for seed in (1, 1, 2))
    assert all(map(np.array_equal, once, again))
    assert not np.array_equal(once.tokens, other.tokens)


def test_impossible_images_are_refused():
    with pytest.raises(ValueError, match=r"\[batch\] length: must be at least 2 patches a side, got 1"):
        Direction().batch(random(), 2, 1, True)
    with pytest.raises(ValueError, match=r"\[batch\] length: must be at least 4 patches a side, got 3"):
        SameRow().batch(random(), 2, 3, True)
    with pytest.raises(ValueError, match=r"\[batch\] size: must be at least 1, got 0"):
        SameRow().batch(random(), 0, 8, True)
