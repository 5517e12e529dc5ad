"""Ways to extend a RoPE model, held against what they are by definition."""

from __future__ import annotations

import copy
import math

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch

from lab import extension, longrope, training
from lab.attending import through_pytorch
from lab.extension import METHODS, Extension
from lab.self_extend import SelfExtended, group_for
from lab.setting import Setting
from lab.variants import Packed, RandomPositions

TRAINED = 24  # tokens: 16 places asked of nth_back and 8 before
TINY = Setting(
    question="extension",
    encoding="rope",
    task="nth_back",
    seed=0,
    length=16,
    steps=3,
    batch=4,
    d_model=32,
    layers=2,
    heads=2,
    learning_rate=3e-3,
    warmup=1,
    measured=64,
    multiples=(1, 2, 4),
)


@pytest.fixture(autouse=True)
def short_searches(monkeypatch):
    monkeypatch.setattr(longrope, "ROUNDS", 1)
    monkeypatch.setattr(extension, "SEARCHED", 128)


def model_of(**changes) -> torch.nn.Module:
    return extension.build(TINY.replace(**changes)).eval()


def extended(method: str, factor: float = 4, model: torch.nn.Module | None = None) -> torch.nn.Module:
    setting = TINY.replace(method=method, factor=factor if METHODS[method].by_factor else 1)
    return Extension(setting).apply(model_of() if model is None else model)


def tokens(time: int, rows: int = 3) -> torch.Tensor:
    return torch.randint(1, 11, (rows, time), generator=torch.Generator().manual_seed(time))


@torch.no_grad()
def said(model: torch.nn.Module, given: torch.Tensor, *positions: torch.Tensor) -> torch.Tensor:
    return model(given, *positions)


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, atol=2e-5)


def test_position_interpolation_is_places_divided():
    given = tokens(80)
    at = torch.arange(80, dtype=torch.float64)[None] / 4
    assert alike(said(extended("linear"), given), said(model_of(), given, at))
    assert not alike(said(extended("linear"), given), said(model_of(), given))


def test_ntk_is_a_larger_base():
    dim = TINY.head_dim
    base = 10_000 * 4 ** (dim / (dim - 2))
    given = tokens(80)
    assert alike(said(extended("ntk"), given), said(model_of(encoding=f"rope:base={base},pairing=half"), given))


def test_dynamic_ntk_changes_nothing_up_to_the_trained_length():
    dynamic = extended("dynamic_ntk")
    assert alike(said(dynamic, tokens(TRAINED)), said(model_of(), tokens(TRAINED)))
    for times in (2, 4):
        given = tokens(times * TRAINED)
        assert alike(said(dynamic, given), said(extended("ntk", times), given))


@pytest.mark.parametrize("method", ["yarn", "llama3", "longrope"])
def test_frequencies_are_the_library_s(method):
    model = extended(method)
    for layer in model.blocks.positions.layers:
        rope = layer.module.spec
        slowed = np.array(bearing.resolve(rope.replace(scaling=bearing.NoScaling())).inv_freq)
        slowed /= bearing.resolve(rope).inv_freq
        assert rope.scaling.trained_length == TRAINED and rope.scaling.factor == 4
        assert slowed.min() >= 1 and slowed.max() <= 5 and (np.diff(slowed) >= -1e-9).all()
    if method != "longrope":
        assert slowed[-1] == pytest.approx(4), "the slowest pair is slowed by the whole factor"


def test_a_dropped_rope_is_no_encoding():
    """A model without an encoding has the same weights."""
    assert alike(said(extended("dropped"), tokens(40)), said(model_of(encoding="nope"), tokens(40)))


def test_the_base_model_is_left_as_it_was():
    model = model_of()
    before = said(model, tokens(40))
    for method in METHODS:
        extended(method, model=model)
    assert torch.equal(said(model, tokens(40)), before)


@pytest.mark.parametrize("method", METHODS)
def test_pytorch_s_attention_says_the_same(method):
    """As on other devices: the model's own attention is exchanged before it is extended."""
    exchanged = extended(method, model=through_pytorch(model_of()))
    assert alike(said(exchanged, tokens(60)), said(extended(method), tokens(60)))


def test_self_extend_is_one_softmax_over_near_and_far_distances():
    torch.manual_seed(0)
    own = bt.MultiHeadAttention(32, 2, mask="causal")
    rope = bt.Rope(bearing.Rope(head_dim=16, pairing="half"))
    window, group, time = 5, 3, 23
    x = torch.randn(2, time, 32)
    q, k, v = (project(x).unflatten(-1, (2, 16)).transpose(1, 2) for project in (own.q, own.k, own.v))
    scores = torch.full((2, 2, time, time), -torch.inf)
    for i in range(time):
        for j in range(i + 1):
            far = i // group + window - window // group - j // group
            distance = i - j if i - j < window else far
            turned = bt.rotate(q[:, :, i : i + 1], rope=rope, positions=distance)  # the key at 0
            scores[:, :, i, j] = (turned * k[:, :, j : j + 1]).sum((-1, -2)) / math.sqrt(16)
    expected = own.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    assert alike(SelfExtended(own, rope, group, window)(x), expected)
    assert not alike(SelfExtended(own, rope, group + 1, window)(x), expected)


def test_self_extend_changes_nothing_within_its_window():
    window = TRAINED // extension.WINDOW
    assert alike(said(extended("self_extend"), tokens(window)), said(model_of(), tokens(window)))


@pytest.mark.parametrize(
    ("length", "trained", "window"), [(2048, 128, 32), (15_800, 4096, 1024), (128, 128, 32), (129, 128, 1)]
)
def test_the_group_is_the_smallest_that_reaches(length, trained, window):
    group = group_for(length, trained, window)
    reach = [(trained - window) * g + window for g in (group - 1, group)]
    assert reach[1] >= length and (group == 1 or reach[0] < length)


def test_a_window_that_is_no_part_of_the_trained_length_is_refused():
    with pytest.raises(ValueError, match=r"\[self_extend\] window: must be from 1 to 23, .*, got 24"):
        group_for(48, 24, 24)


def test_longrope_s_search_finds_what_is_better_and_keeps_order(monkeypatch):
    monkeypatch.setattr(longrope, "ROUNDS", 6)
    rope = bearing.Rope(head_dim=16, pairing="half")
    wanted = np.array([1, 1, 1, 1.5, 2, 3, 4, 4])
    tried = []

    def loss(one: bearing.Rope) -> float:
        tried.append(np.array(one.scaling.long_factor))
        return float(((tried[-1] - wanted) ** 2).sum())

    found = longrope.searched(rope, 4, 128, loss, np.random.default_rng(0))
    assert loss(longrope.stretched(rope, found, 128, 4)) == min(((one - wanted) ** 2).sum() for one in tried)
    known = [((np.array(one) - wanted) ** 2).sum() for one in longrope.starts(rope, 4, 128)]
    assert ((np.array(found) - wanted) ** 2).sum() < min(known)
    for one in tried[len(known) :]:
        assert (np.diff(one) >= 0).all() and one.min() >= 1 and one.max() <= 5
    assert found == longrope.searched(rope, 4, 128, loss, np.random.default_rng(0))


@pytest.mark.parametrize("encoding", ["rope", "sinusoidal"])  # by distances, and by places
def test_a_piece_of_a_packed_row_is_as_it_is_alone(encoding):
    model = model_of(encoding=encoding)
    packed = Packed(model, seed=3).train()
    given = tokens(30, rows=5)
    with torch.no_grad():
        found = packed(given)
    packed.train()  # the same draws again
    starts = packed._starts(5, 30).tolist()
    assert starts[0] == 0 and starts[-1] == 150 and set(range(0, 151, 30)) <= set(starts) and len(starts) > 6
    flat = given.flatten()
    for begin, end in zip(starts, starts[1:]):
        alone = said(model, flat[None, begin:end])[0]
        assert alike(found.flatten(0, 1)[begin:end], alone)
    assert torch.equal(said(packed.eval(), given), said(model, given)), "what is measured is not cut"


def test_random_places_rise_and_come_again():
    model = RandomPositions(model_of(), seed=1, longest=50)
    seen = []
    model.model.forward = lambda given, at: seen.append(at) or given
    for mode in (True, True, False):
        model.train(mode)
        model(tokens(40)), model(tokens(40))
    for at in seen:
        assert at.shape == (1, 40) and (at.diff() > 0).all() and at.min() >= 0 and at.max() < 100
    assert torch.equal(seen[0], seen[2]) and torch.equal(seen[1], seen[3])
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[4])
    with pytest.raises(ValueError, match=r"\[RandomPositions\] tokens: must be at most 100 long, got 101"):
        model(tokens(101))


def test_every_row_of_a_question_can_be_had(tmp_path):
    base = TINY.replace(encoding="nope")
    asked = [one for one in extension.settings(base, ["nope", "t5"], [0]) if one.factor in (1, 4)]
    assert {one.method for one in asked} == set(METHODS) and {one.variant for one in asked} == set(extension.VARIANTS)
    assert len({one.key for one in asked}) == len(asked)
    for setting in asked:
        row = extension.run(setting, tmp_path)
        assert row["key"] == setting.key and set(row["measures"]) == {"1", "2", "4"} and not row["beyond"]
        assert all(np.isfinite(one["loss"]) for one in row["measures"].values())
    trained = len(extension.VARIED) * len(extension.VARIANTS)
    assert len(list(tmp_path.glob("*.pt"))) == trained, "each variant is trained once for all methods"


def test_a_run_can_be_had_again(tmp_path):
    """A variant's draws too: of a model that was just trained, and of one that was kept."""
    for setting in (TINY.replace(variant="random"), TINY.replace(method="linear", factor=2, tuned_steps=2)):
        rows = [extension.run(setting, tmp_path / folder) for folder in ("here", "here", "there")]
        assert rows[0]["measures"] == rows[1]["measures"] == rows[2]["measures"]


def test_tuning_goes_on_from_the_base_model(tmp_path):
    base = training.trained(TINY, tmp_path, extension.build).model
    setting = TINY.replace(method="linear", factor=2, tuned_steps=1)
    tuned = extension._tuned(Extension(setting).apply(base), setting)
    changes = [(one - other).abs().max() for one, other in zip(tuned.model.parameters(), base.parameters())]
    # AdamW's first step moves each number by about the rate, 0.3 of training's.
    assert 0 < max(changes) < 2 * 0.3 * TINY.learning_rate
    fresh = training.trained(TINY, tmp_path, extension.build).model
    assert all(map(torch.equal, fresh.parameters(), base.parameters()))


def test_longer_rows_come_in_smaller_batches(monkeypatch):
    seen = []
    monkeypatch.setattr(training, "train", lambda model, given, setting, steps: seen.append(next(given).tokens.shape))
    for factor in (1, 2, 4):
        extension._tuned(model_of(), TINY.replace(factor=factor, tuned_steps=1))
    assert seen == [(4, 24), (2, 40), (1, 72)]


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match=r"\[extension\] method: must be one of none, linear, .*, got 'stretch'"):
        Extension(TINY.replace(method="stretch"))
    with pytest.raises(ValueError, match=r"\[extension\] factor: must be above 1 for yarn, got 1"):
        Extension(TINY.replace(method="yarn"))
    with pytest.raises(ValueError, match=r"\[extension\] variant: must be one of whole, random, packed, got 'torn'"):
        extension.build(TINY.replace(variant="torn"))
    copy.deepcopy(
        RandomPositions(model_of(), 0, 8)
    )  # a wrapped model is copied, as every model is before it is extended
