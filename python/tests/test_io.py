"""Model files: paths, dictionaries and configuration objects in, layers out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import bearing
import pytest

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 2048,
}


def test_a_model_says_what_its_file_says(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    model = bearing.read_hf_config(path)
    assert model.file == str(path) and model.model_type == "llama"
    assert (model.heads, model.kv_heads, model.head_dim) == (4, 2, 64)
    assert len(model.layers) == 3 and model.layers[0].name == "rope"
    assert model.layers[0].encoding == bearing.Rope(head_dim=64, rotary_dim=64, pairing="half")
    assert model.inputs == () and model.context_length == 2048
    (group,) = model.layer_groups()
    assert group.layers == (0, 1, 2) and group.layer == model.layers[0]
    assert bearing.layer_groups(model) == (group,)


def test_a_tower_says_its_images() -> None:
    dino = bearing.read_hf_config({"model_type": "dinov3_vit", "image_size": [224, 448], "patch_size": 16}).layers[0]
    assert dino.grid == (14, 28) and dino.span == 2 * math.pi
    text = bearing.read_hf_config(LLAMA).layers[0]
    assert text.grid == (0, 0) and text.span == 0


def test_a_model_becomes_json() -> None:
    model = bearing.read_hf_config(LLAMA)
    members = json.loads(json.dumps(model.to_dict()))
    assert members["heads"] == 4
    assert bearing.Rope.from_dict(members["layers"][0]["encoding"]) == model.layers[0].encoding
    assert model == bearing.read_hf_config(LLAMA) and "llama" in repr(model)


@pytest.mark.parametrize(
    ("config", "name", "kind"),
    [
        ({"model_type": "t5", "num_layers": 2, "num_heads": 4, "d_model": 32, "d_kv": 8}, "t5", bearing.T5),
        ({"model_type": "bloom", "n_layer": 2, "n_head": 4, "hidden_size": 32}, "alibi", bearing.Alibi),
        (
            {
                "model_type": "deberta-v2",
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "hidden_size": 32,
                "relative_attention": True,
                "pos_att_type": ["p2c", "c2p"],
                "position_buckets": 16,
                "max_relative_positions": -1,
                "max_position_embeddings": 64,
            },
            "deberta",
            bearing.Deberta,
        ),
    ],
)
def test_encodings_of_all_kinds_are_specs(config: dict[str, Any], name: str, kind: type) -> None:
    model = bearing.read_hf_config(config)
    assert model.layers[0].name == name and isinstance(model.layers[0].encoding, kind)


def test_learned_positions_are_an_input() -> None:
    model = bearing.read_hf_config(
        {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "n_ctx": 32}
    )
    assert isinstance(model.inputs[0].encoding, bearing.Learned) and model.inputs[0].encoding.length == 32
    assert model.layers[0].encoding == bearing.NoPosition()
    with pytest.raises(bearing.ConfigError, match=r"\[from_config\] config: must have a rotary encoding"):
        bearing.Rope.from_config({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32})


def test_an_encoder_and_a_decoder_have_inputs_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "whisper.json"
    file.write_text(
        json.dumps({"model_type": "whisper", "d_model": 16, "max_source_positions": 1500, "max_target_positions": 448})
    )
    assert [(one.part, one.length) for one in bearing.read_hf_config(file).inputs] == [
        ("encoder", 1500),
        ("decoder", 0),
    ]
    assert isinstance(bearing.encoding(f"@{file}#encoder.input"), bearing.Sinusoidal)
    assert bearing.encoding(f"@{file}#decoder.input") == bearing.Learned(length=448, dim=16)
    with pytest.raises(bearing.ShapeError, match=r"must be one of @.*#encoder\.input, @.*#decoder\.input"):
        bearing.encoding(f"@{file}#input")
    drawn = bearing.figure("wavelengths", f"@{file}#encoder.input")
    assert drawn.panels[0].title == f"@{file}#encoder.input"


def test_inputs_of_one_part_have_labels(tmp_path: Path) -> None:
    file = tmp_path / "layoutlm.json"
    file.write_text(json.dumps({"model_type": "layoutlm", "hidden_size": 32, "num_hidden_layers": 2}))
    inputs = bearing.read_hf_config(file).inputs
    assert [one.label for one in inputs] == ["text", "x", "y", "height", "width"]
    assert inputs[3].to_dict()["label"] == "height"
    assert bearing.encoding(f"@{file}#height.input") == bearing.Learned(length=1024, dim=32)
    with pytest.raises(bearing.ShapeError, match=r"must be one of @.*#text\.input, @.*#x\.input"):
        bearing.encoding(f"@{file}#input")


def test_layers_that_differ_must_be_chosen() -> None:
    config = json.loads((Path(__file__).parents[2] / "tests/golden/hf_rope/gemma3_4b_local.json").read_text())["config"]
    layers = bearing.read_hf_config(config).layers
    assert len({layer.encoding for layer in layers}) == 2
    with pytest.raises(bearing.ConfigError, match=r"\[from_config\] layer: must be given"):
        bearing.Rope.from_config(config)
    for i in (0, 5):
        assert bearing.Rope.from_config(config, layer=i) == layers[i].encoding
    with pytest.raises(bearing.RangeError, match=r"\[from_config\] layer: must be from 0"):
        bearing.Rope.from_config(config, layer=len(layers))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "config.json:1:2"),
        ("[]", "must be"),
        (json.dumps({**LLAMA, "num_attention_heads": "four"}), "/num_attention_heads"),
        (json.dumps({**LLAMA, "rope_scaling": {"type": "longer", "factor": 2}}), "longer"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(bearing.ConfigError) as error:
        bearing.read_hf_config(path)
    assert says in str(error.value) and "config.json" in str(error.value)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("config", [None, 3, [], object(), dict])
def test_what_is_no_config_is_refused(config: Any) -> None:
    with pytest.raises(TypeError, match=r"config: must be a path, a dictionary or a transformers config"):
        bearing.read_hf_config(config)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(bearing.ConfigError, match="nothing.json"):
        bearing.read_hf_config(tmp_path / "nothing.json")
