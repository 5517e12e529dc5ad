"""The rotary part of a GGUF file, written: what llama.cpp must know, as Python's own values and as a file."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import bearing
import gguf
import numpy as np
import pytest

MODELS = Path(__file__).parents[2] / "examples/models"
LLAMA3 = bearing.Llama3Scaling(factor=8, low_freq_factor=1, high_freq_factor=4, trained_length=8192)


def read_back(tmp_path: Path, written: bearing.GgufModel) -> bearing.Model:
    path = tmp_path / "rope.gguf"
    path.write_bytes(bearing.gguf_bytes(written))
    return bearing.read_gguf(path)


def test_keys_have_their_types_and_values() -> None:
    rope = bearing.Rope(head_dim=128, base=500_000.0, pairing="interleaved", scaling=LLAMA3)
    part = bearing.gguf_rope(rope, "llama")
    assert part.metadata == {
        "llama.attention.key_length": 128,
        "llama.rope.dimension_count": 128,
        "llama.rope.scaling.type": "none",
        "llama.rope.scaling.original_context_length": 8192,
        "llama.rope.freq_base": 500_000.0,
    }
    assert part.types["llama.rope.freq_base"] == "f32" and part.types["llama.rope.scaling.type"] == "string"
    assert part.types.keys() == part.metadata.keys()
    (factors,) = part.tensors.values()
    assert factors.dtype == np.float32 and factors.shape == (64,) and factors[0] == 1 and factors[-1] == 8
    assert "llama.rope.freq_base f32 500000\n" in str(part)


def test_sections_are_a_list() -> None:
    rope = bearing.Rope(
        head_dim=128, base=1e6, pairing="half", axes=bearing.RopeAxes(pairs=(16, 24, 24), order="contiguous")
    )
    part = bearing.gguf_rope(rope, "qwen2vl")
    assert part.metadata["qwen2vl.rope.dimension_sections"] == [16, 24, 24, 0]
    assert part.types["qwen2vl.rope.dimension_sections"] == "i32[]"


def test_a_model_is_written_and_read_again(tmp_path: Path) -> None:
    model = bearing.read_hf_config(MODELS / "llama-3.1-8b.json")
    written = bearing.gguf_model(model)
    assert written.architecture == "llama" == bearing.gguf_architecture_of(model.model_type)
    assert any("turns neighbours" in warning.text for warning in written.warnings)
    again = read_back(tmp_path, written)
    assert (again.heads, again.kv_heads, again.head_dim) == (model.heads, model.kv_heads, model.head_dim)
    assert len(again.layers) == len(model.layers)
    wanted = bearing.resolve(model.layers[0].encoding)
    np.testing.assert_allclose(bearing.resolve(again.layers[0].encoding).inv_freq, wanted.inv_freq, rtol=1e-6)


def test_the_formats_own_library_reads_the_file(tmp_path: Path) -> None:
    written = bearing.gguf_model(bearing.read_hf_config(MODELS / "llama-3.1-8b.json"))
    path = tmp_path / "rope.gguf"
    path.write_bytes(bearing.gguf_bytes(written))
    reader = gguf.GGUFReader(path)
    found: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
    for key, value in written.part.metadata.items():
        assert found[key] == (np.float32(value) if isinstance(value, float) else value), key
    assert {tensor.name: tensor.data.tolist() for tensor in reader.tensors} == {
        name: values.tolist() for name, values in written.part.tensors.items()
    }


def test_a_gguf_file_is_no_config_and_an_encoding_in_words(tmp_path: Path) -> None:
    model = bearing.read_hf_config(MODELS / "deepseek-v3.json")
    path = tmp_path / "rope.gguf"
    path.write_bytes(bearing.gguf_bytes(bearing.gguf_model(model)))
    with pytest.raises(bearing.ConfigError, match=r"got a GGUF file, which read_gguf\(\) reads"):
        bearing.read_hf_config(path)
    assert bearing.encoding(f"@{path}").head_dim == 192 == model.layers[0].encoding.head_dim


def test_what_llama_cpp_cannot_do_is_refused() -> None:
    rope = bearing.Rope(head_dim=128, pairing="half")
    with pytest.raises(bearing.ConfigError, match=r"\[gguf_rope\] rope: llama.cpp's code for llama turns neighbours"):
        bearing.gguf_rope(rope, "llama")
    with pytest.raises(bearing.ConfigError, match=r"architecture: must be known, got \"llamma\""):
        bearing.gguf_rope(rope, "llamma")
    with pytest.raises(bearing.ConfigError, match="got layer 3: none where its code has rope"):
        bearing.gguf_model(bearing.read_hf_config(MODELS / "smollm3-3b.json"), "llama")


def test_architectures_have_names() -> None:
    names = bearing.gguf_architectures()
    assert names == sorted(names) and "llama" in names and len(names) > 150
    assert bearing.gguf_architecture_of("mistral") == "llama" and bearing.gguf_architecture_of("nothing") == ""


def test_what_is_written_is_a_record() -> None:
    model = bearing.read_hf_config(MODELS / "llama-3.1-8b.json")
    written = bearing.gguf_model(model)
    assert written == bearing.gguf_model(model) and "GgufModel(architecture='llama'" in repr(written)
    assert json.loads(json.dumps(written.to_dict()))["part"]["types"]["llama.rope.freq_base"] == "f32"
    assert copy.deepcopy(written) is written
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(written)
