"""The file of results, and means over seeds."""

from __future__ import annotations

import json
import math

import pytest

from lab import results


def test_the_interval_is_students():
    mean, half, count = results.interval([1.0, 2.0, 3.0])
    assert (mean, count) == (2.0, 3)
    assert half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)  # a table's t of 2 degrees of freedom, deviation 1


def test_one_seed_has_no_interval_and_none_no_mean():
    assert math.isnan(results.interval([5.0]).half)
    with pytest.raises(ValueError, match="must be at least one"):
        results.interval([])


def test_rows_come_back_and_the_last_of_a_key_counts(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    assert results.read(path) == []
    for key, loss in (("a", 1), ("b", 2), ("a", 3)):
        results.append(path, {"key": key, "loss": loss})
    assert results.read(path) == [{"key": "a", "loss": 3}, {"key": "b", "loss": 2}]
    assert results.keys(path) == {"a", "b"}


def test_a_line_that_was_cut_off_spoils_nothing(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"key": "a"}) + "\n" + '{"key": "b", "lo')
    assert results.keys(path) == {"a"}
    results.append(path, {"key": "c"})
    assert results.keys(path) == {"a", "c"}


def test_a_broken_line_between_others_is_an_error(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key": "a"}\nnothing\n{"key": "b"}\n')
    with pytest.raises(ValueError, match="line 2: must be a row of JSON with a key"):
        results.read(path)


def test_no_number_that_json_does_not_have(tmp_path):
    with pytest.raises(ValueError):
        results.append(tmp_path / "rows.jsonl", {"key": "a", "loss": float("nan")})
