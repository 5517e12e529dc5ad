"""Settings and their keys."""

from __future__ import annotations

import dataclasses
import json

import pytest

from lab.setting import Setting

TINY = Setting("text", "rope", "text", 0, 16, 4, 2, 16, 2, 2, 1e-3, 1)


def changed(value):
    """Another value of the same type."""
    if isinstance(value, str):
        return {"causal": "encoder"}.get(value, value + "x")
    return (1, 3) if isinstance(value, tuple) else value * 2 + 1 if value != 2 else 1


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Setting)])
def test_every_member_changes_the_key(name):
    value = 48 if name == "d_model" else changed(getattr(TINY, name))
    other = TINY.replace(**{name: value})
    assert other != TINY and other.key != TINY.key


def test_a_setting_goes_through_json():
    assert Setting.from_dict(json.loads(json.dumps(TINY.to_dict()))) == TINY


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": 0}, r"^\[Setting\] steps: must be at least 1, got 0$"),
        ({"d_model": 18}, r"^\[Setting\] d_model: must give each of 2 heads an even number of dimensions, got 18$"),
        ({"kind": "both"}, r"^\[Setting\] kind: must be causal or encoder, got 'both'$"),
    ],
)
def test_wrong_members_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        TINY.replace(**changes)


def test_a_whole_number_is_one_however_it_is_written():
    assert TINY.replace(multiples=[1.0, 2.0, 1.5]).key == TINY.replace(multiples=(1, 2, 1.5)).key


def test_a_row_of_another_time_is_refused():
    with pytest.raises(ValueError, match=r"^\[Setting\] members: must be among .*, got flavour$"):
        Setting.from_dict(TINY.to_dict() | {"flavour": 1})
