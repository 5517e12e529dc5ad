"""Which encoding: choose()."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import bearing
import pytest

ROOT = Path(__file__).parents[2]


def test_an_answer_has_reasons_costs_and_models() -> None:
    advice = bearing.choose("generate", trained=512)
    best = advice.recommended
    assert best == advice.options[0] and best.rank == "recommended" and best.encoding == "rope:pairing=half"
    assert all(reason.text and isinstance(reason.source, str) for option in advice.options for reason in option.reasons)
    assert best.costs is not None and best.costs.parameters == 0 and best.costs.memory == "O(L)" and best.costs.time > 0
    assert "llama" in best.models and advice.unknowns and best.unless
    assert advice.measured_length == advice.timed_length == 512 and not advice.assumed
    assert bearing.choose("generate", heads=2, dim=16).assumed
    json.dumps(advice.to_dict())


@pytest.mark.parametrize(
    ("task", "kernel"), list(itertools.product(["understand", "images", "unordered"], ["any", "fused"]))
)
def test_what_is_named_can_be_said(task: str, kernel: str) -> None:
    for wanted in (64, 256):
        advice = bearing.choose(task, kernel=kernel, trained=64, wanted=wanted, heads=2, dim=16)
        for option in advice.options:
            assert bearing.check(option.encoding, heads=2, dim=16, length=64)


def test_what_is_measured_is_what_check_measures() -> None:
    advice = bearing.choose("generate", trained=256, wanted=1024, tuning=False)
    assert advice.recommended.encoding == "alibi"
    evidence = {p.name: p.evidence for p in bearing.check("alibi", length=256)}
    measured = [reason.text for reason in advice.recommended.reasons if reason.source == "measured"]
    assert [text.split(": ", 1)[1] for text in measured] == [evidence["relative"] + ".", evidence["decay"] + "."]


def test_a_model_at_hand_keeps_its_numbers() -> None:
    rope = bearing.Rope(head_dim=32, base=500_000, pairing="half")
    advice = bearing.choose(model=rope, trained=128, wanted=512)
    best = advice.recommended.encoding
    assert best == "rope_yarn:factor=4,trained_length=128,head_dim=32,base=500000,pairing=half"
    file = f"@{ROOT / 'examples/models/llama-3.1-8b.json'}"
    longer = bearing.choose(model=file, wanted=262144).recommended.encoding
    assert longer.startswith("rope_yarn:factor=32") and bearing.encoding(longer).pairing == "half"
    assert bearing.encoding(bearing.choose(model=rope, trained=128).recommended.encoding) == rope
    assert bearing.choose(model=file, wanted=131072).recommended.encoding == file


def test_an_object_that_is_no_encoding_is_named_by_its_type() -> None:
    class Config:
        def __repr__(self) -> str:
            return "Config {" + "many lines\n" * 100 + "}"

    text = (
        "[choose] model: must be an encoding's name or spec, or '@' with the path of a model's file, got an object of the "
        "type Config"
    )
    with pytest.raises(TypeError) as found:
        bearing.choose(model=Config())
    assert str(found.value) == text


def test_nothing_is_recommended_where_nothing_fits() -> None:
    advice = bearing.choose(model=f"@{ROOT / 'examples/models/llama-3.1-8b.json'}", wanted=2**20, memory=1024)
    assert advice.recommended is None
    assert {option.rank for option in advice.options} == {"avoid"}


def test_a_model_says_what_it_is_for() -> None:
    table = f"@{ROOT / 'tests/corpus/hf_config/valid/swin_tiny.json'}"
    grown = bearing.choose(model=table, wanted=256)
    assert grown.recommended.name == "rope_mixed"
    assert bearing.choose("generate", model=table, wanted=256, axes=1).recommended.name == "rope_yarn"


def test_layers_without_a_window_decide() -> None:
    file = f"@{ROOT / 'examples/models/gpt-oss-20b.json'}"
    assert bearing.choose(model=file, wanted=262144).recommended.encoding.startswith("rope_yarn:factor=64")
    assert bearing.choose(model=file, wanted=131072).recommended.encoding == file + "#1"


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (bearing.RangeError, r"\[choose\] trained: must be from 2 to \d+, got 1", {"trained": 1}),
        (bearing.RangeError, r"\[choose\] axes: must be from 1 to 2, got 3", {"axes": 3}),
        (bearing.ShapeError, r"\[choose\] dim: must be a multiple of 4, got 6", {"dim": 6}),
        (
            (TypeError, ValueError),
            r"\[choose\] task: must be 'generate', .*'speech' or 'unordered', got 'x'",
            {"task": "x"},
        ),
        ((TypeError, ValueError), r"\[choose\] kernel: must be 'any', .* got 'x'", {"kernel": "x"}),
    ],
)
def test_wrong_situations_are_refused(error: type, text: str, arguments: dict[str, object]) -> None:
    with pytest.raises(error, match=text):
        bearing.choose(**arguments)  # type: ignore[arg-type]
