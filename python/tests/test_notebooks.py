"""What notebooks show: plain HTML of specs, tables, encodings, models and figures."""

from __future__ import annotations

import html.parser
import re
from pathlib import Path
from typing import Any

import bearing
import numpy as np
import pytest
from figure_samples import everything

GEMMA = Path(__file__).parents[2] / "examples/models/gemma-3-4b.json"


class Tags(html.parser.HTMLParser):
    """That what is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + " "


def shown(of: Any) -> Tags:
    text = of._repr_html_()
    assert len(text) < 20_000 or "<img" in text
    assert not re.search(r"colou?r\s*[:=]|background|<script|https?:", text)
    return Tags(text)


def test_notebooks_show_a_spec_with_its_members_formula_and_source() -> None:
    found = shown(bearing.T5(direction="causal"))
    assert "table" in found.seen and "pre" in found.seen
    for part in ("T5 buckets, causal", "max_distance", "128", "table[bucket(n - m), h]", "arXiv 1910.10683"):
        assert part in found.words, part
    assert "YaRN" in shown(bearing.YarnScaling(factor=2, trained_length=64)).words


@pytest.mark.parametrize("name", [entry.name for entry in bearing.catalog()])
def test_notebooks_show_every_spec(name: str) -> None:
    try:
        spec = bearing.encoding(name, heads=4, dim=8)
    except ValueError as error:
        assert "has no spec" in str(error) or "must be given" in str(error)
        return
    found = shown(spec)
    assert all(member in found.words for member in spec.to_dict() if member != "type")


def test_notebooks_show_tables_encodings_and_models() -> None:
    table = shown(bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 4096))
    assert "4,096" in table.words and "6.283 to " in table.words
    bias = bearing.T5Bias(bearing.T5(direction="causal"), np.zeros((32, 4), np.float32))
    assert "array (32, 4)" in shown(bias).words
    model = bearing.read_hf_config(GEMMA)
    found = shown(model)
    for part in ("0-4, 6-10, 12-16", "sliding_attention", "1024", "LinearScaling(factor=8.0)", "Warnings"):
        assert part in found.words, part
    assert model.warnings[0].text in found.words
    assert "64 before, 64 after" in shown(bearing.read_hf_config({"model_type": "modernbert"})).words
    assert "chunks of 8192" in shown(bearing.read_hf_config({"model_type": "llama4_text"})).words
    assert "chunks of 20000, 128 before" in shown(bearing.read_hf_config({"model_type": "seamless_m4t_v2"})).words


def test_what_a_file_says_is_no_html() -> None:
    config = {"model_type": "<script>alert(1)</script>", "hidden_size": 64, "num_attention_heads": 4,
              "num_hidden_layers": 1, "rope_theta": 1e4, "max_position_embeddings": 128}  # fmt: skip
    found = shown(bearing.read_hf_config(config))
    assert "script" not in found.seen and "<script>alert(1)</script>" in found.words
    one = bearing.Figure("none", '"><script>', '"><script>', everything().panels)
    assert set(shown(one).seen) == {"img"}


def test_notebooks_show_a_figure_as_a_picture_with_its_text() -> None:
    text = bearing.figure("curves", "sinusoidal")._repr_html_()
    assert text.startswith('<img alt="sinusoidal: values from') and "data:image/png;base64," in text
