"""Sizes that no model has: refused by name, or served at once, whatever the spec and its member."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import bearing
import pytest
import spec_sizes


@pytest.fixture(scope="module")
def done() -> list[dict[str, Any]]:
    worker = Path(spec_sizes.__file__)
    ran = subprocess.run([sys.executable, worker], capture_output=True, text=True, timeout=120, check=False)
    last = ran.stdout.splitlines()[-1:]
    assert ran.returncode == 0, f"after {last}: {ran.stderr[-2000:]}"
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_every_spec_with_an_integer_is_used() -> None:
    specs = {
        name
        for name, one in vars(bearing).items()
        if hasattr(one, "from_dict") and (": int" in one.__init__.__doc__ or "Sequence[int]" in one.__init__.__doc__)
    }
    assert specs == {type(spec).__name__ for spec, _ in spec_sizes.CASES}
    for spec, _ in spec_sizes.CASES:
        signature = type(spec).__init__.__doc__
        assert len(spec_sizes.integer_members(spec)) == signature.count(": int") + signature.count("Sequence[int]")


def test_what_is_refused_is_refused_by_name(done: list[dict[str, Any]]) -> None:
    # The names of what follows from members: tables whose extents do not fit or that a spec has none of, positions that no
    # row is for.
    others = ["table", "bias", "key", "cos", "q_positions, k_positions"]
    for one in done:
        if not one["error"]:
            continue
        assert one["error"] in ("ShapeError", "RangeError"), one
        assert one["text"].startswith("["), one
        assert any(name in one["text"] for name in one["members"] + others), one


def test_most_of_it_is_refused(done: list[dict[str, Any]]) -> None:
    assert sum(bool(one["error"]) for one in done) > 0.5 * len(done) > 500


def test_nothing_takes_long(done: list[dict[str, Any]]) -> None:
    assert max(one["seconds"] for one in done) < 2
