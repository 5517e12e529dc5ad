"""What the page of model files says of types that make rotary modules is what is counted."""

from __future__ import annotations

import collections
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import bearing
import pytest
import rotary_count
import torch

PAGE = Path(__file__).parents[3] / "docs/guide/model-files.md"


@pytest.fixture(scope="module")
def counted() -> dict[str, tuple[str, str]]:
    return {name: (kind, why) for name, kind, why in rotary_count.count()}


def test_none_is_wrong_and_none_is_guessed(counted: dict[str, tuple[str, str]]) -> None:
    assert {name: why for name, (kind, why) in counted.items() if kind in ("wrong", "guessed")} == {}


def test_the_page_has_the_count(counted: dict[str, tuple[str, str]]) -> None:
    text = PAGE.read_text(encoding="utf-8").split("### Counted\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    said = {word: int(number) for word, number in re.findall(r"^\| (\w+) \|.*\| (\d+) \|$", text, re.MULTILINE)}
    kinds = collections.Counter(kind for kind, _ in counted.values())
    assert said == {kind: kinds[kind] for kind in rotary_count.KINDS} | {"together": len(counted)}


def test_none_is_refused_or_left_out(counted: dict[str, tuple[str, str]]) -> None:
    assert {name: why for name, (kind, why) in counted.items() if kind == "refused"} == {}
    assert len(counted) >= 350


def test_97_of_a_hundred_are_right(counted: dict[str, tuple[str, str]]) -> None:
    others = {name: why for name, (kind, why) in counted.items() if kind != "right"}
    assert len(others) <= 0.03 * len(counted), others


@pytest.mark.parametrize("model_type", [*rotary_count.MADE_WITH, *rotary_count.SET])
def test_what_is_set_beside_a_default_is_needed(model_type: str) -> None:
    """Without it the class cannot be made, its module cannot or fails, nothing turns, or its sizes are refused."""
    with pytest.raises(Exception):  # noqa: B017 - whatever the class says
        config = rotary_count.class_of(model_type)()
        (turning,) = rotary_count.turning_parts(config)
        assert turning.modules
        assert "rope" in {layer.name for layer in bearing.read_hf_config(config).layers}
        turning.modules[0](torch.zeros(1, 2, 4), torch.ones(3, 1, 2))


def test_a_wrong_reading_is_seen() -> None:
    """The check can fail: another base, factor, pairing, order of axes and part of a head are each found."""
    config = rotary_count.class_of("llama")()
    (turning,) = rotary_count.turning_parts(config)
    model = bearing.read_hf_config(config)
    assert rotary_count.fault(turning, model) == ""
    file = config.to_dict()
    parameters = file["rope_parameters"]
    others = {
        "other frequencies": {"rope_parameters": parameters | {"rope_theta": 20_000.0}},
        "factor": {"rope_parameters": parameters | {"rope_type": "yarn", "factor": 4.0}},
        "pairing": {"model_type": "cohere"},
        "32 frequencies, not 64": {"head_dim": 64},
        "nothing turns": {"model_type": "gpt2"},
    }
    for said, changed in others.items():
        assert said in rotary_count.fault(turning, bearing.read_hf_config(file | changed)), said
    sections = rotary_count.class_of("ernie4_5_vl_moe_text")()
    (turning,) = rotary_count.turning_parts(sections)
    file = sections.to_dict() | {"model_type": "qwen2_vl_text"}
    file["rope_parameters"] = file["rope_parameters"] | {"mrope_section": [22, 22, 20]}
    assert "axes" in rotary_count.fault(turning, bearing.read_hf_config(file))
