"""Rows of every task, held against answers that are worked out again from what a row says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lab.task import NOTHING, PAD, Letters
from lab.tasks import TASKS, use_text
from lab.tasks import addition as addition_module
from lab.tasks.induction import Induction
from lab.tasks.masked import MASK
from lab.tasks.text import Text, documents

LETTERED = [name for name in TASKS if name not in ("text", "masked")]


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def answers_behind(row: str, sign: str, answer: str) -> list[str | None]:
    """What is asked of ``…sign…``: nothing before the sign, and from the sign on the answer, letter by letter."""
    before = row.index(sign)
    return [None] * before + list(answer) + [None] * (len(row) - before - len(answer))


def copy(row: str) -> list[str | None]:
    return answers_behind(row, "|", re.match(r">(.+?)\|", row)[1] + ".")


def reverse(row: str) -> list[str | None]:
    return answers_behind(row, "|", re.match(r">(.+?)\|", row)[1][::-1] + ".")


def sorting(row: str) -> list[str | None]:
    def rank(letter: str) -> tuple[bool, bool, str]:
        return not letter.isdigit(), letter.isupper(), letter

    return answers_behind(row, "|", "".join(sorted(re.match(r">(\w+)\|", row)[1], key=rank)) + ".")


def addition(row: str) -> list[str | None]:
    a, b = re.match(r">(\d+)\+(\d+)=", row).groups()
    assert str(int(a)) == a and str(int(b)) == b, "a number has no zeros before it"
    return answers_behind(row, "=", f"{int(a) + int(b)}.")


def parity(row: str) -> list[str | None]:
    return answers_behind(row, "|", "ny"[re.fullmatch(r">([01]+)\|", row)[1].count("1") % 2 == 0])


def summation(row: str) -> list[str | None]:
    return answers_behind(row, "|", str(sum(map(int, re.fullmatch(r">([1-9]+)\|", row)[1])))[-1])


def induction(row: str) -> list[str | None]:
    pairs, keys = re.fullmatch(r">(.+)\|(.+)", row).groups()
    value = {pairs[i]: pairs[i + 1] for i in range(0, len(pairs), 2)}
    assert len(value) == len(pairs) // 2 and sorted(value) == sorted(keys), (
        "each key stands once before the bar and once behind"
    )
    return [None] * (len(pairs) + 2) + [value[key] for key in keys]


def nth_back(row: str) -> list[str | None]:
    return [None] * 8 + [row[i - 8] for i in range(8, len(row))]


def brackets(row: str) -> list[str | None]:
    depths = [row[: i + 1].count("(") - row[: i + 1].count(")") for i in range(len(row))]
    assert 0 <= min(depths) and max(depths) <= 4
    return [str(depth) for depth in depths]


def needle(row: str) -> list[str | None]:
    number = re.match(r">[a-p]*#(\d{4})[a-p]*\?", row)[1]
    return answers_behind(row, "?", number)


SOLVERS = {
    one.__name__: one
    for one in (copy, reverse, sorting, addition, parity, summation, induction, nth_back, brackets, needle)
}
UNITS = {  # how long a row says it is
    "copy": lambda row: row.index("|") - 1,
    "reverse": lambda row: row.index("|") - 1,
    "sorting": lambda row: row.index("|") - 1,
    "addition": lambda row: max(row.index("+") - 1, row.index("=") - row.index("+") - 1),
    "parity": lambda row: len(row) - 2,
    "summation": lambda row: len(row) - 2,
    "induction": lambda row: (row.index("|") - 1) // 2,
    "nth_back": lambda row: len(row) - 8,
    "brackets": len,
    "needle": lambda row: row.index("?") - 6,
}


def said(task, targets: np.ndarray) -> list[str | None]:
    return [None if token == NOTHING else task.letters.letters[token] for token in targets]


@pytest.mark.parametrize("varied", [True, False])
@pytest.mark.parametrize("name", LETTERED)
def test_what_is_asked_is_the_answer(name, varied):
    task = TASKS[name]
    for length in (1, 2, task.trained, 16 * task.trained):
        tokens, targets = task.batch(random(length), 40, length, varied)
        for row, asked in zip(tokens, targets):
            spelt = task.spell(row)
            assert said(task, asked)[: len(spelt)] == SOLVERS[name](spelt), spelt
            assert (asked[len(spelt) :] == NOTHING).all(), "nothing is asked of a pad"


@pytest.mark.parametrize("name", LETTERED)
def test_rows_have_the_length_that_is_asked_for(name):
    task = TASKS[name]
    for length in (1, task.trained, 16 * task.trained):
        exact = [UNITS[name](task.spell(row)) for row in task.batch(random(), 64, length, varied=False).tokens]
        assert set(exact) == {length}
        varied = [UNITS[name](task.spell(row)) for row in task.batch(random(), 500, length, varied=True).tokens]
        assert min(varied) >= 1 and max(varied) <= length
        if length == task.trained:
            assert len(set(varied)) == length, "each length up to the trained one is drawn"


@pytest.mark.parametrize("name", TASKS)
def test_batches_are_what_the_task_says(name):
    task = TASKS[name]
    for varied in (True, False):
        for length in (1, task.trained, 16 * task.trained):
            tokens, targets = task.batch(random(), 16, length, varied)
            assert tokens.shape == targets.shape == (16, task.time(length))
            assert tokens.dtype == targets.dtype == np.int64
            assert tokens.flags.c_contiguous and targets.flags.c_contiguous
            assert tokens.min() >= PAD and tokens.max() < task.vocabulary
            assert targets.min() >= NOTHING and targets.max() < task.vocabulary
            assert ((targets != NOTHING).sum(axis=1) > 0).all(), "every row is asked something"
            if name in LETTERED:
                there = tokens != PAD
                assert (there == (np.arange(tokens.shape[1]) < there.sum(axis=1)[:, None])).all(), (
                    "pads are on the right"
                )
                assert (targets != PAD).all(), "no pad is ever asked for"


@pytest.mark.parametrize("name", TASKS)
def test_the_same_generator_gives_the_same_rows_and_another_gives_others(name):
    task = TASKS[name]
    for varied in (True, False):
        once, again, other = (task.batch(random(seed), 16, task.trained, varied) for seed in (1, 1, 2))
        assert all(map(np.array_equal, once, again))
        assert not np.array_equal(once.tokens, other.tokens)


@pytest.mark.parametrize("name", [name for name in TASKS if TASKS[name].for_encoders])
def test_what_an_encoder_may_be_asked_is_not_told_by_the_token_behind(name):
    """A decoder's answer is the next token. Where the tokens ahead tell the answer so, an encoder would be told it."""
    task = TASKS[name]
    tokens, targets = task.batch(random(), 400, task.trained, varied=True)
    asked = targets[:, :-1] != NOTHING
    told = (tokens[:, 1:] == targets[:, :-1])[asked].mean() if asked.any() else 0
    assert told < 0.2


def test_tasks_of_decoders_do_tell_it():
    """The check above can fail."""
    tokens, targets = TASKS["copy"].batch(random(), 400, 20, varied=True)
    asked = (targets[:, :-1] != NOTHING) & (tokens[:, 1:] != PAD)
    assert (tokens[:, 1:] == targets[:, :-1])[asked].all()


def test_sums_carry_through_nines():
    """Of numbers that have mostly nines and zeros, so that a carry runs far, stops, and is made again."""
    digits = random().choice([0, 0, 1, 9, 9, 9], (2, 500, 40))
    total, written = addition_module._sum(*digits)
    for a, b, found, length in zip(*digits, total, written):
        numbers = [int("".join(map(str, one[::-1]))) for one in (a, b, found)]
        assert numbers[0] + numbers[1] == numbers[2]
        assert len(str(numbers[2])) == length


def test_answers_are_spread_evenly():
    for name, ways in (("parity", 2), ("summation", 10)):
        targets = TASKS[name].batch(random(), 20_000, 8, varied=False).targets
        _, counts = np.unique(targets[targets != NOTHING], return_counts=True)
        assert len(counts) == ways
        # 5 standard deviations of a binomial count
        expected = 20_000 / ways
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected * (1 - 1 / ways))


def test_a_needle_lies_anywhere():
    task = TASKS["needle"]
    places = [task.spell(row).index("#") for row in task.batch(random(), 2_000, 32, varied=False).tokens]
    assert set(places) == set(range(1, 34))


@pytest.mark.parametrize("name", TASKS)
def test_impossible_batches_are_refused(name):
    task = TASKS[name]
    with pytest.raises(ValueError, match=r"\[batch\] length: must be at least 1, got 0"):
        task.batch(random(), 4, 0, True)
    with pytest.raises(ValueError, match=r"\[batch\] size: must be at least 1, got 0"):
        task.batch(random(), 0, 4, True)


def test_more_pairs_than_keys_are_refused():
    with pytest.raises(ValueError, match=r"\[Induction\] length: must be at most 256, as keys differ, got 257"):
        Induction().batch(random(), 2, 257, False)


def test_letters_differ():
    with pytest.raises(ValueError, match=r"\[Letters\] letters: must differ from each other, got 'aa'"):
        Letters("aa")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_says_what_it_is(name):
    task = TASKS[name]
    assert task.name == name and task.metric in ("exact", "accuracy", "loss")
    assert re.search(r"\d{4}, arXiv \d{4}\.\d{5}$", task.source)
    words = type(task).__doc__
    assert "What it isolates:" in words and "Metric:" in words
    if name in LETTERED:
        assert "Asked" in words


def test_the_rows_of_docstrings_are_right():
    """Each example in a docstring is a row as the task makes it, and its answer is what the docstring says."""
    shown = {name: re.search(r"A row: ``(.+?)``", type(TASKS[name]).__doc__)[1] for name in LETTERED}
    for name, row in shown.items():
        assert all(letter in TASKS[name].letters.letters for letter in row), name
        SOLVERS[name](row)
    assert copy(shown["copy"])[5:] == list("abca.") and reverse(shown["reverse"])[5:] == list("acba.")
    assert sorting(shown["sorting"])[5:] == list("1aac.")
    assert addition(shown["addition"])[5:] == list("105.")
    assert parity(shown["parity"])[-1] == "y" and summation(shown["summation"])[-1] == "4"
    assert induction(shown["induction"])[-3:] == ["c", "a", "b"]
    assert nth_back(shown["nth_back"])[8:] == list("abcd")
    assert brackets(shown["brackets"]) == list("1212")
    assert needle(shown["needle"])[-4:] == list("1729")


def test_text_is_cut_by_document():
    train, held_out = (part.tobytes().split(b"\f") for part in TASKS["text"].parts)
    assert len(train) + len(held_out) == sum(1 for _ in documents())
    assert not set(train) & set(held_out)
    assert b"The Zen" not in held_out[0]


def test_text_that_is_held_out_suffices():
    train, held_out = TASKS["text"].parts
    assert len(held_out) > 16 * 128 * 64
    assert len(train) > 3 * len(held_out)
    assert len(TASKS["text"].sha256) == 64


def test_text_comes_from_its_part():
    task = TASKS["text"]
    for part, varied in zip(task.parts, (True, False)):
        whole = part.tobytes()
        for row, asked in zip(*task.batch(random(), 8, 200, varied)):
            assert np.array_equal(row[1:], asked[:-1])
            assert bytes([*row.tolist(), int(asked[-1])]) in whole


def test_hidden_bytes_are_those_of_the_text():
    told = TASKS["text"].batch(random(), 200, 64, True).tokens
    tokens, targets = TASKS["masked"].batch(random(), 200, 64, True)
    hidden = tokens == MASK
    assert np.array_equal(hidden, targets != NOTHING) and np.array_equal(np.where(hidden, targets, tokens), told)
    assert 0.14 < hidden.mean() < 0.18
    assert TASKS["masked"].spell(np.array([72, MASK, 33])) == "H·!"


def test_a_file_serves_both_tasks_of_text(tmp_path, monkeypatch):
    for name in ("text", "masked"):
        monkeypatch.setitem(TASKS, name, TASKS[name])  # put back behind the test
    file = tmp_path / "file.txt"
    file.write_bytes(b"abcdef" * 50)
    use_text(file)
    assert TASKS["text"].sha256 == TASKS["masked"].sha256 and TASKS["masked"].about == "file.txt"


def test_a_file_is_text_too(tmp_path):
    file = tmp_path / "file.txt"
    file.write_bytes(bytes(range(65, 91)) * 40)
    task = Text(file)
    assert [len(part) for part in task.parts] == [867, 173]
    assert task.about == "file.txt" and task.sha256 != TASKS["text"].sha256
    assert task.spell(task.batch(random(), 1, 3, True).tokens[0]) in "ABCDEFGHIJKLMNOPQRSTUVWXYZAB"
    with pytest.raises(ValueError, match=r"must be less than the 173 bytes of the part held out, got 173"):
        task.batch(random(), 1, 173, False)
    file.write_bytes(b"short")
    with pytest.raises(ValueError, match=r"\[Text\] file: must have at least 6 bytes, got 5"):
        _ = Text(file).parts
    file.write_bytes(b"abc\0defgh")
    with pytest.raises(ValueError, match=r"\[Text\] file: must be text, without a byte of 0, got one at 3"):
        _ = Text(file).parts
