"""Runs: what they give, that they can be had again, and that a grid goes on where it was left."""

from __future__ import annotations

import json
import math

import pytest
import torch

from lab import grid, results, running, training
from lab.setting import Setting
from lab.tasks import TASKS

TINY = Setting("tasks", "rope", "copy", 1, 4, 30, 8, 16, 1, 2, 1e-2, 3, multiples=(1, 2), measured=64)
OF_THE_CLOCK = ("seconds", "step_ms", "attention_share")


def test_a_row_has_what_pages_read(tmp_path):
    row = training.run(TINY, tmp_path)
    assert row["key"] == TINY.key and Setting.from_dict(row["setting"]) == TINY
    assert set(row["measures"]) == {"1", "2"} and row["beyond"] == {}
    assert row["measures"]["2"]["length"] == 8
    assert row["measures"]["1"]["perplexity"] == pytest.approx(math.exp(row["measures"]["1"]["loss"]))
    assert [step for step, _ in row["training"]] == list(range(1, 31))
    assert row["training"][-1][1] < row["training"][0][1]
    assert 0 < row["attention_share"] <= 1 and row["step_ms"] > 0
    assert row["parameters"] == training.parameters(training.build(TINY))
    json.dumps(row, allow_nan=False)


def test_the_same_seed_gives_the_same_numbers_and_another_others(tmp_path):
    torch.use_deterministic_algorithms(True)
    rows = [training.run(one, tmp_path) for one in (TINY, TINY, TINY.replace(seed=2))]
    same = [{name: row[name] for name in row if name not in OF_THE_CLOCK} for row in rows]
    assert same[0] == same[1] and same[0]["measures"] != same[2]["measures"]


def test_what_an_encoding_has_no_row_for_is_said(tmp_path):
    row = training.run(TINY.replace(encoding="learned", steps=2), tmp_path)
    assert set(row["measures"]) == {"1"} and "the length of the learned table" in row["beyond"]["2"]


def test_an_encoder_is_asked_only_where_no_answer_stands_in_the_row(tmp_path):
    with pytest.raises(ValueError, match=r"^\[lab\] kind: must be causal for copy, whose rows hold their answers"):
        training.run(TINY.replace(kind="encoder"), tmp_path)
    open_to_both = next(name for name, task in TASKS.items() if task.for_encoders)
    row = training.run(TINY.replace(kind="encoder", task=open_to_both, steps=2), tmp_path)
    assert set(row["measures"]) == {"1", "2"}


def test_a_model_is_trained_once_and_kept(tmp_path):
    first, again = training.trained(TINY, tmp_path), training.trained(TINY, tmp_path)
    assert first.curve == again.curve and first.seconds == again.seconds
    for a, b in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_rate_rises_and_falls_to_a_tenth():
    rates = [training.rate(step, 100, 10) for step in range(1, 101)]
    assert rates[0] == 0.1 and max(rates) == rates[9] == 1 and rates[-1] == pytest.approx(0.1)


def test_parameters_stay_where_their_encoding_wants_them(tmp_path):
    setting = TINY.replace(encoding="kerple_log", learning_rate=10.0, steps=3)
    model = training.trained(setting, tmp_path).model
    for layer in model.blocks.positions.layers:
        assert (layer.module.r1 > 0).all() and (layer.module.r2 > 0).all()


def test_a_grid_goes_on_where_it_was_left(tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    given = [TINY.replace(steps=2, seed=seed) for seed in range(3)]
    assert running.run_all(given[:1], out, 1, "cpu", None) == 0
    first = out.read_text()
    assert running.run_all(given, out, 2, "cpu", None) == 0
    assert out.read_text().startswith(first) and results.keys(out) == {one.key for one in given}
    assert "1 of 3 runs have their rows" in capsys.readouterr().err
    assert running.run_all(given, out, 2, "cpu", None) == 0
    assert len(results.read(out)) == len(out.read_text().splitlines()) == 3


def test_ranks_share_the_runs_and_none_is_done_twice(tmp_path, monkeypatch):
    out = tmp_path / "rows.jsonl"
    given = [TINY.replace(steps=1, seed=seed) for seed in range(3)]
    monkeypatch.setattr(running.results, "keys", lambda path: set())  # both ranks begin together
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        assert running.run_all(given, out, 1, "cpu", None) == 0
    assert sorted(json.loads(line)["key"] for line in out.read_text().splitlines()) == sorted(one.key for one in given)


def test_a_run_that_fails_is_said_and_the_others_are_done(tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    given = [TINY.replace(steps=1, encoding=one) for one in ("swin", "nope")]
    assert running.run_all(given, out, 1, "cpu", None) == 1
    assert [row["setting"]["encoding"] for row in results.read(out)] == ["nope"]
    assert "copy swin seed 1 failed: ValueError: [lab] encoding: must serve sequences" in capsys.readouterr().err


def test_the_grid_has_every_combination_once():
    found = grid.settings("tasks", "small", ["rope", "nope"], list(TASKS), range(2), {"steps": 7})
    assert len({one.key for one in found}) == len(found) == 2 * 2 * (len(TASKS) - 2)
    assert {one.steps for one in found} == {7} and {one.task for one in found} == set(TASKS) - {"text", "masked"}
    assert {one.length for one in found if one.task == "copy"} == {TASKS["copy"].trained}
    assert grid.settings("text", "small", ["rope"], [], [0], {})[0].data == TASKS["text"].sha256
    with pytest.raises(ValueError, match=r"^\[lab\] question: must be one of text, encoders, tasks"):
        grid.settings("why", "small", ["rope"], [], [0], {})


def test_every_encoding_of_the_main_grid_serves():
    from lab.positions import serving

    assert set(grid.MAIN) <= set(serving()) and len(grid.MAIN) == len(set(grid.MAIN))
