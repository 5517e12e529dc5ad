"""What the page of model files says of types that make rotary modules is what is counted."""

from __future__ import annotations

import collections
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
import rotary_count

PAGE = Path(__file__).parents[3] / "docs/guide/model-files.md"


@pytest.fixture(scope="module")
def counted() -> dict[str, tuple[str, str]]:
    return {name: (kind, why) for name, kind, why in rotary_count.count()}


def test_none_is_wrong_and_none_is_guessed(counted: dict[str, tuple[str, str]]) -> None:
    assert {name: why for name, (kind, why) in counted.items() if kind in ("wrong", "guessed")} == {}


def test_the_page_has_the_count(counted: dict[str, tuple[str, str]]) -> None:
    text = PAGE.read_text(encoding="utf-8").split("### Counted", 1)[1]
    said = {word: int(number) for word, number in re.findall(r"^\| (\w+) \|.*\| (\d+) \|$", text, re.MULTILINE)}
    kinds = collections.Counter(kind for kind, _ in counted.values())
    assert said == dict(kinds) | {"together": len(counted)}


def test_a_wrong_reading_is_seen() -> None:
    """The check can fail: another base, another factor and another pairing are each found."""
    config = rotary_count.class_of("llama")()
    model = rotary_count.bearing.read_hf_config(config)
    assert rotary_count.fault(config, model) == ""
    config.rope_parameters["rope_theta"] = 20_000.0
    assert "frequencies" in rotary_count.fault(config, model)
    other = rotary_count.bearing.read_hf_config(config.to_dict() | {"model_type": "cohere"})
    assert rotary_count.fault(config, other).startswith("pairing")
