"""Configs in other spellings and words: written as transformers 4 or 5, and the positions of diffusion transformers."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import bearing
import numpy as np
import pytest

SCALING = {"rope_type": "linear", "factor": 8.0}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "rope_theta": 500_000.0,
    "rope_scaling": SCALING,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
}


def test_a_file_goes_to_the_newer_spelling_and_back(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA, indent=2))
    newer = bearing.spell_hf_config(path, "v5")
    assert json.loads(newer.text)["rope_parameters"] == {**SCALING, "rope_theta": 500_000.0}
    assert "rope_theta" not in json.loads(newer.text)
    (warning,) = newer.warnings
    assert "takes base 10000, where the file says 500000" in warning.text
    assert bearing.older_reader_warnings(json.loads(newer.text)) == newer.warnings
    path.write_text(newer.text)
    older = bearing.spell_hf_config(path, "v4")
    assert older.text == json.dumps(LLAMA, indent=2) and older.warnings == ()
    assert bearing.older_reader_warnings(path) == newer.warnings


def test_a_written_config_is_a_record() -> None:
    written = bearing.spell_hf_config(LLAMA, "v4")
    assert written == bearing.spell_hf_config(LLAMA, "v4") and "SpelledConfig" in repr(written)
    assert json.loads(json.dumps(written.to_dict()))["warnings"] == []
    assert copy.deepcopy(written) is written
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(written)


def test_transformers_reads_what_is_written() -> None:
    transformers = pytest.importorskip("transformers")
    written = json.loads(bearing.spell_hf_config(LLAMA, "v5").text)
    for config in (LLAMA, written):
        read = transformers.LlamaConfig(**config)
        parameters = {key: read.rope_parameters[key] for key in ("rope_type", "rope_theta", "factor")}
        assert parameters == {"rope_theta": 500_000.0, **SCALING}


def test_what_a_spelling_cannot_say_is_refused() -> None:
    types = {"full_attention": {"rope_theta": 500_000.0}, "sliding_attention": {"rope_theta": 20_000.0}}
    config = {key: value for key, value in LLAMA.items() if not key.startswith("rope")}
    config |= {"rope_parameters": types, "layer_types": list(types), "sliding_window": 8}
    with pytest.raises(bearing.ConfigError, match="base 500000 in place of 20000 in layer 1"):
        bearing.spell_hf_config(config, "v4")
    with pytest.raises(TypeError, match=r"\[spell_hf_config\] spelling: must be 'v4' or 'v5', got 'v6'"):
        bearing.spell_hf_config(LLAMA, "v6")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="config: must be a path"):
        bearing.older_reader_warnings(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("spelling", ["v4", "v5"])
def test_a_spec_becomes_the_members_of_a_config(spelling: Any) -> None:
    scaling = bearing.YarnScaling(factor=4, trained_length=32_768)
    rope = bearing.Rope(head_dim=64, rotary_dim=64, base=1e6, pairing="half", scaling=scaling)
    members = bearing.hf_rope(rope, spelling)
    assert ("rope_parameters" in members) == (spelling == "v5")
    config = {key: value for key, value in LLAMA.items() if not key.startswith("rope")}
    assert bearing.Rope.from_config({**config, **members}) == rope
    given = bearing.ExplicitFrequencies(inv_freq=[0.5] * 32)
    with pytest.raises(bearing.ConfigError, match=r"\[hf_rope\] scaling: must be one of transformers"):
        bearing.hf_rope(rope.replace(scaling=given), spelling)


def test_what_is_written_of_hunyuans_alpha_is_what_transformers_takes() -> None:
    hunyuan = pytest.importorskip("transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense")
    rope = bearing.Rope(head_dim=64, rotary_dim=64, pairing="half", scaling=bearing.AlphaScaling(alpha=1000))
    members = bearing.hf_rope(rope, "v5")
    config = hunyuan.HunYuanDenseV1Config(hidden_size=128, num_attention_heads=2, head_dim=64, **members)
    assert bearing.Rope.from_config(config) == rope
    theirs = hunyuan.HunYuanDenseV1RotaryEmbedding(config).inv_freq.numpy()
    np.testing.assert_allclose(theirs, bearing.resolve(rope).inv_freq, rtol=1e-5)  # a power in float32


@pytest.mark.parametrize("spelling", ["v4", "v5"])
def test_static_ntk_is_written_as_its_base(spelling: Any) -> None:
    rope = bearing.Rope(head_dim=64, rotary_dim=64, pairing="half", scaling=bearing.NtkScaling(factor=4))
    config = {key: value for key, value in LLAMA.items() if not key.startswith("rope")}
    read = bearing.Rope.from_config({**config, **bearing.hf_rope(rope, spelling)})
    assert read.scaling == bearing.NoScaling()
    np.testing.assert_allclose(bearing.resolve(read).inv_freq, bearing.resolve(rope).inv_freq, rtol=2**-50)


def test_positions_of_a_picture_turn_its_queries() -> None:
    at = bearing.picture_positions("QwenImageTransformer2DModel", (1, 4, 5), text=2)
    assert at.shape == (3, 22) and at.dtype == np.float64
    assert at[:, 0].tolist() == [2, 2, 2] and at[:, 2].tolist() == [0, -2, -3]
    config = {"_class_name": "QwenImageTransformer2DModel", "num_layers": 1, "num_attention_heads": 2}
    config |= {"attention_head_dim": 16, "axes_dims_rope": [4, 6, 6]}
    rope = bearing.Rope.from_config(config)
    q = np.random.default_rng(0).standard_normal((1, 2, 22, 16))
    turned = q.copy()
    bearing.rotate(bearing.RopeTable(rope, 32, dtype="float64"), turned, at[:, None])
    # The second pair of the row's axis, of the first patch: -2 * 10000^(-2/6).
    angle = -2 * 10_000 ** (-1 / 3)
    u, v = q[0, 1, 2, 6:8]
    assert turned[0, 1, 2, 6] == pytest.approx(u * np.cos(angle) - v * np.sin(angle), abs=1e-14)


def test_a_request_without_a_place_is_refused() -> None:
    with pytest.raises(bearing.ConfigError, match="must be one of FluxTransformer2DModel"):
        bearing.picture_positions("AutoencoderKL", (1, 2, 2))
    with pytest.raises(bearing.RangeError, match="the prompt of WanTransformer3DModel stands in another attention"):
        bearing.picture_positions("WanTransformer3DModel", (1, 2, 2), text=3)
    two = bearing.picture_positions("Flux2Transformer2DModel", (1, 1, 1), references=[(1, 1, 1), (1, 1, 1)])
    assert two[0].tolist() == [0, 10, 20]


def test_other_files_are_read_where_configs_are() -> None:
    params = {"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 8, "rope_theta": 20_000.0}
    assert bearing.Rope.from_config(params) == bearing.Rope(
        head_dim=32, rotary_dim=32, base=20_000, pairing="interleaved"
    )
    with pytest.raises(bearing.ConfigError, match='got "AutoencoderKL"'):
        bearing.read_hf_config({"_class_name": "AutoencoderKL"})
