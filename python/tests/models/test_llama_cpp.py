"""What bearing reads of a GGUF file is what llama.cpp computes from it: in every architecture that can be built small, each
layer's rotation, who sees whom, ALiBi and the factor on the scores."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import bearing
import llama_cpp
import llama_cpp_files as files
import numpy as np
import pytest
from llama_cpp import Rotation, Seen, Value

# ggml multiplies angles pair by pair in float32: at position 8,200 they lose 2^-10 of a turn.
NEAR = 2e-3
START = {"llama4": 8_188}  # where its chunks meet
UNSCALED = {"deepseek2-ocr"}  # its code wants the base 10000, and refuses others
INDEXERS = ("indexer", "lid_", "csa_", "hca_")

# Everything at once: where an architecture's code takes less, its layers show it.
SCALED: dict[str, Value] = {
    "rope.freq_base": 50000.0, "rope.freq_base_swa": 20000.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 128, "rope.scaling.attn_factor": 1.25,
}  # fmt: skip


def both(
    path: Path, architecture: str, keys: dict[str, Value], tensors: dict[str, np.ndarray]
) -> tuple[Any, Seen, range]:
    path.write_bytes(llama_cpp.gguf_bytes(architecture, files.keys_of(architecture) | keys, tensors))
    start = START.get(architecture, 300)
    positions = range(start, start + 8)
    return bearing.read_gguf(path), llama_cpp.run(path, positions, tensors), positions


def turned(rope: bearing.Rope, rotation: Rotation, positions: range, context: int) -> np.ndarray:
    """llama.cpp's input, turned by bearing. Of latent attention it is the part that turns, alone."""
    x = np.moveaxis(rotation.x, 0, 1)[None].astype(np.float64)
    numbers = bearing.resolve(rope, context)
    part = slice(0, rope.head_dim)
    if x.shape[-1] != rope.head_dim:
        assert x.shape[-1] == numbers.rotary_dim
        part = slice(numbers.begin, numbers.begin + numbers.rotary_dim)
    whole = np.zeros((*x.shape[:-1], rope.head_dim))
    whole[..., part] = x
    at = np.array(positions) if numbers.axes == 1 else np.tile(np.array(positions), (numbers.axes, 1, 1))
    table = bearing.RopeTable(numbers, positions.stop, dtype="float64")
    return np.moveaxis(bearing.rotate_to(table, whole, at)[0, ..., part], 0, 1)


def compare(model: Any, seen: Seen, positions: range, context: int = 512) -> None:
    rotations = [one for one in seen.rotations if len(one.x) == len(positions) and not one.name.startswith(INDEXERS)]
    turning = [i for i, layer in enumerate(model.layers) if isinstance(layer.encoding, bearing.Rope)]
    reached = set()
    for i, rotation in enumerate(rotations):
        named = re.search(r"-(\d+)$", rotation.name)
        layer = int(named[1]) if named else turning[i // 2]
        reached.add(layer)
        assert layer in turning, f"layer {layer} turns"
        wanted = turned(model.layers[layer].encoding, rotation, positions, context)
        np.testing.assert_allclose(rotation.y, wanted, atol=NEAR * np.abs(wanted).max(), err_msg=rotation.name)
    assert reached == set(turning)
    for softmax in seen.softmaxes:
        named = re.fullmatch(r"kq_soft_max-(\d+)", softmax.name)
        if named:
            compare_softmax(model, model.layers[int(named[1])], softmax, positions)


def compare_softmax(model: Any, layer: Any, softmax: llama_cpp.Softmax, positions: range) -> None:
    alibi = isinstance(layer.encoding, bearing.Alibi)
    assert (softmax.alibi > 0) == alibi
    if alibi:
        steepest = 2 ** (-softmax.alibi / model.heads)
        assert layer.encoding.slopes[0] == pytest.approx(steepest)
    rope = layer.encoding if isinstance(layer.encoding, bearing.Rope) else None
    factor = 1 if rope is None else bearing.resolve(rope).softmax_scale_factor
    if rope and factor != 1:
        assert softmax.scale == pytest.approx(factor / rope.head_dim**0.5)
    # Encoders have no cache, and DeepSeek-V4's holds compressed keys too.
    if softmax.mask is None or softmax.mask.shape[-1] == len(positions) or model.model_type == "deepseek4":
        return
    seeing = np.isfinite(softmax.mask).sum(axis=-1)[: len(positions)]
    at = np.array(positions)
    if layer.type == "chunked_attention":
        wanted = np.minimum(np.arange(len(positions)), at % layer.window) + 1
    else:
        wanted = np.minimum(np.arange(len(positions)) + 1, layer.window or len(positions))
    np.testing.assert_array_equal(seeing, wanted)


@pytest.mark.parametrize("architecture", files.architectures())
def test_every_architecture_turns_as_its_code_does(tmp_path: Path, architecture: str) -> None:
    if architecture in files.LEFT_OUT:
        pytest.skip(files.LEFT_OUT[architecture])
    keys = {} if architecture in UNSCALED else SCALED
    compare(*both(tmp_path / "x.gguf", architecture, keys, {}))


DIVISORS = {"rope_freqs.weight": np.linspace(1, 8, 32)}
FACTORS = {"rope_factors_long.weight": np.linspace(1, 40, 32), "rope_factors_short.weight": np.linspace(1, 2, 32)}
YARN: dict[str, Value] = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 8.0,
    "rope.scaling.original_context_length": 64,
}


def longrope(original: int) -> dict[str, Value]:
    return {
        "rope.scaling.type": "longrope", "rope.scaling.original_context_length": original, "rope.scaling.attn_factor": 1.19,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "keys", "tensors"),
    [
        pytest.param("llama", {}, DIVISORS, id="divisors of Llama 3"),
        pytest.param("llama", longrope(128), FACTORS, id="LongRoPE, long"),
        pytest.param("llama", longrope(1024), FACTORS, id="LongRoPE, short"),
        pytest.param("phi3", longrope(128), FACTORS, id="Phi-3, long"),
        pytest.param("phi3", longrope(1024), FACTORS, id="Phi-3, short"),
        pytest.param("qwen2", {"rope.scaling.factor": 2.0}, {}, id="a factor without a type"),
        pytest.param("qwen2", {"rope.scale_linear": 4.0}, {}, id="the older key of a factor"),
        pytest.param("qwen2", {"rope.scaling.type": "none", "rope.scaling.factor": 2.0}, {}, id="none, with a factor"),
        pytest.param("qwen2", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}, {}, id="YaRN of context_length"),
        pytest.param("stablelm", {"rope.dimension_count": 16} | YARN, {}, id="a part of a head"),
        pytest.param("granite", {"rope.scaling.finetuned": False}, {}, id="Granite's switch"),
        pytest.param("hunyuan_vl", {"rope.scaling.alpha": 1000.0}, {}, id="Hunyuan's alpha"),
        pytest.param("grok", YARN | {"rope.scaling.yarn_beta_slow": 2.0, "rope.scaling.yarn_attn_factor": 1.5}, {}, id="Grok's ramp"),
        pytest.param("mistral3", YARN | {"rope.scaling.yarn_beta_fast": 16.0, "rope.scaling.yarn_log_multiplier": 1.0}, {}, id="Mistral's ramp"),
        pytest.param("deepseek2", YARN | {"rope.scaling.yarn_log_multiplier": 0.1}, {}, id="DeepSeek's softmax factor"),
        pytest.param("gemma4", {}, {"rope_freqs.weight": np.array([1.0] * 16 + [1e30] * 16)}, id="pairs that do not turn"),
    ],
)  # fmt: skip
def test_every_key_means_what_it_means_there(
    tmp_path: Path, architecture: str, keys: dict[str, Value], tensors: dict[str, np.ndarray]
) -> None:
    compare(*both(tmp_path / "x.gguf", architecture, {"rope.freq_base": 50000.0} | keys, tensors))
