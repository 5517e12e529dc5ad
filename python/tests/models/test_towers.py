"""Rotary towers: what bearing reads of a tower's file turns queries as the model's own module does."""

from __future__ import annotations

import importlib
import inspect
import os
from types import ModuleType
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import numpy as np
import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

transformers.logging.set_verbosity_error()

HALF = """qwen2_vl_vision qwen2_5_vl_vision qwen2_5_omni_vision_encoder qwen3_vl_vision qwen3_vl_moe_vision
    qwen3_omni_moe_vision_encoder qwen3_5_vision qwen3_5_moe_vision qwen4_exp_vision cohere_compass_vision
    exaone4_5_vision dots3_note_vision_encoder ernie4_5_vl_moe_vision glm4v_vision glm4v_moe_vision glm5_next_vision
    glm_ocr_vision lfm3_vl_vision mlcd_vision_model paddleocr_vl_vision video_llama_3_vision muse_glimmer_vision
    muse_spark_vision step3p5_vision kimi_k25_vision pixtral minimax_m3_vl_vision gemma4_vision""".split()
NEIGHBOURS = "inkling2_vision sam3_vit_model sam2_video edgetam_video sam3_tracker_video".split()
# Their modules take the position as (row, column) and put the column first, or the caller hands in columns first.
MODULE_SWAPS = {"kimi_k25_vision", "step3p5_vision", "inkling2_vision"}
CENTRES = ["dinov3_vit", "eomt_dinov3", "sapiens2"]


def module_of(config: Any) -> ModuleType:
    return importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))


def make(model_type: str) -> Any:
    return getattr(transformers, CONFIG_MAPPING_NAMES[model_type])()


def layer_of(config: Any) -> Any:
    layers = bearing.read_hf_config(config).layers
    return next(layer for layer in reversed(layers) if layer.name == "rope")


def ours(layer: Any, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """x [tokens, dim] turned by every rotation of the layer; positions [tokens, axes] in the spec's order.

    Of several rotations with one coordinate the first takes the first, the second the second.
    """
    y = x[None, None].copy()
    for i, rope in enumerate([layer.encoding, *layer.also]):
        axes = 1 + max(bearing.RopeTable(rope, 1).frequencies.axis)
        given = np.ascontiguousarray(positions.T[:, None])
        bearing.rotate(rope, y, given if axes > 1 else given[i])
    return y[0, 0]


def rotary_class(module: ModuleType) -> Any:
    for _, member in inspect.getmembers(module, inspect.isclass):
        if member.__module__ == module.__name__ and hasattr(member, "compute_axial_rope_parameters"):
            return member
    raise AssertionError(module.__name__)


def by_half(module: ModuleType, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    turned = cos.shape[-1]
    rotated = x[:, :turned] * cos + module.rotate_half(x[:, :turned]) * sin
    return torch.cat([rotated, x[:, turned:]], dim=-1)


def theirs(model_type: str, config: Any, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    module = module_of(config)
    rotary = rotary_class(module)(config)
    if model_type == "gemma4_vision":
        cos, sin = rotary(x, positions[None])
        return module.apply_multidimensional_rope(x[None, :, None], cos, sin, positions[None])[0, :, 0]
    cos, sin = rotary(x, positions)
    cos, sin = cos.reshape(len(x), -1), sin.reshape(len(x), -1)
    if model_type in NEIGHBOURS:
        return x * cos + module.rotate_pairwise(x) * sin
    return by_half(module, x, cos, sin)


def random_rows(count: int, dim: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal((count, dim))


@pytest.mark.parametrize("model_type", [*HALF, *NEIGHBOURS])
def test_a_tower_turns_as_its_module(model_type: str) -> None:
    config = make(model_type)
    layer = layer_of(config)
    axes = 3 if model_type == "minimax_m3_vl_vision" else 2
    positions = np.stack([np.arange(12) % 5, np.arange(12) // 2, (np.arange(12) * 7) % 11][:axes], axis=1)
    x = random_rows(12, layer.encoding.head_dim)
    given = torch.from_numpy(positions)
    want = theirs(model_type, config, torch.from_numpy(x), given.flip(-1) if model_type in MODULE_SWAPS else given)
    np.testing.assert_allclose(ours(layer, x, positions.astype(np.float64)), want.numpy(), atol=2e-5)
    # Rows and columns are not alike: with the axes swapped the same comparison fails.
    swapped = ours(layer, x, positions[:, ::-1].astype(np.float64))
    assert np.abs(swapped - want.numpy()).max() > 0.1


@pytest.mark.parametrize("model_type", CENTRES)
def test_centres_of_patches(model_type: str) -> None:
    config = make(model_type)
    module = module_of(config)
    name = next(n for n, m in inspect.getmembers(module, inspect.isclass) if "Rotary" in n or "RopePosition" in n)
    rotary = getattr(module, name)(config).eval()
    layer = layer_of(config)
    high, wide = 3, 4
    pixels = torch.zeros(1, 3, high * config.patch_size, wide * config.patch_size)
    cos, sin = rotary(pixels)
    x = random_rows(high * wide, layer.encoding.head_dim)
    rows, columns = ((np.arange(n) + 0.5) / n * 2 - 1 for n in (high, wide))
    grid = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2) * 2 * np.pi
    want = by_half(module, torch.from_numpy(x), cos, sin).numpy()
    np.testing.assert_allclose(ours(layer, x, grid), want, atol=2e-5)


def test_llama_4s_tower_counts_from_1() -> None:
    config = make("llama4_vision_model")
    module = module_of(config)
    layer = layer_of(config)
    side = config.image_size // config.patch_size
    angles = torch.view_as_real(module.Llama4VisionRotaryEmbedding._compute_freqs_ci(config))[:, 0]
    x = random_rows(side * side + 1, layer.encoding.head_dim)
    index = np.arange(side * side)
    positions = np.concatenate([np.stack([index % side + 1, index // side + 1], axis=1), [[0, 0]]])
    pairs = torch.view_as_complex(torch.from_numpy(x).reshape(len(x), -1, 2))
    want = torch.view_as_real(pairs * torch.view_as_complex(angles.double().contiguous())).flatten(1)
    np.testing.assert_allclose(ours(layer, x, positions.astype(np.float64)), want.numpy(), atol=2e-5)


def test_a_composite_has_its_towers() -> None:
    model = bearing.read_hf_config(make("qwen2_5_vl"))
    assert (model.part, model.model_type) == ("", "qwen2_5_vl_text")
    (tower,) = model.towers
    assert (tower.part, tower.model_type, len(tower.layers)) == ("vision tower", "qwen2_5_vl_vision", 32)
    assert {layer.type for layer in tower.layers} == {"window_attention", "full_attention"}
    assert tower.layers[0].positions == "row and column of the patch, from 0"


@pytest.mark.parametrize("inside", [False, True])
def test_esmfold2s_atoms_turn_by_where_they_are(inside: bool) -> None:
    config = make("esmfold2")
    name = "structure head, atom encoder" if inside else "atom encoder"
    atoms = config.structure_head.diffusion_module.atom_encoder if inside else config.atom_encoder
    (tower,) = [one for one in bearing.read_hf_config(config).towers if one.part == name]
    assert len(tower.layers) == atoms.num_hidden_layers
    layer = tower.layers[0]
    x, places = random_rows(12, layer.encoding.head_dim), 9 * random_rows(12, 3)
    at = np.concatenate([places, np.arange(12.0)[:, None]], axis=1)
    module = module_of(config)
    rotary = module.EsmFold2RotaryEmbedding(atoms)
    cos, sin = rotary(torch.from_numpy(places)[None], torch.arange(12)[None], torch.float64)
    want = by_half(module, torch.from_numpy(x), cos[0], sin[0]).numpy()
    # Angles to 30 in float32, rows to 4.
    np.testing.assert_allclose(ours(layer, x, at), want, rtol=0, atol=2**-16)


@pytest.mark.parametrize(("index", "heads", "part"), [(0, 16, "encoder"), (24, 12, "predictor")])
def test_v_jepa_2s_elements_turn_as_its_own_attention_turns_them(index: int, heads: int, part: str) -> None:
    from transformers.models.vjepa2.modeling_vjepa2 import VJEPA2RopeAttention

    config = transformers.VJEPA2Config(crop_size=48, frames_per_clip=4)  # 3 x 3 patches of 2 frames
    layer = bearing.read_hf_config(config).layers[index]
    assert layer.part == part
    attention = VJEPA2RopeAttention(config, 64 * 16 if part == "encoder" else 384, heads)
    head_dim = attention.attention_head_size
    x = torch.randn(1, heads, 18, head_dim, dtype=torch.float64, requires_grad=True)
    at = attention.get_position_ids(torch.zeros(1, 18, 1))
    theirs = attention.apply_rotary_embeddings(x, at)
    positions = torch.stack(at)[:, None].numpy()
    rows = bearing.ElementwiseRows(layer.encoding)
    found = bearing.turn(rows, x.detach().numpy(), positions, side="query")
    np.testing.assert_allclose(found, theirs.detach().numpy(), rtol=0, atol=1e-13)


def test_hunyuan_vls_members_turn_by_axes_of_their_own() -> None:
    from transformers.models.hunyuan_vl import modeling_hunyuan_vl as hunyuan

    sections = [2, 1, 3, 2]
    for parameters in ({"rope_type": "default"}, {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}):
        config = hunyuan.HunYuanVLTextConfig(
            hidden_size=32,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=16,
            rope_parameters={**parameters, "rope_theta": 10000.0, "mrope_section": sections},
        )
        layer = bearing.read_hf_config(config).layers[0]
        positions = torch.randint(0, 40, (4, 1, 7))
        cos, sin = hunyuan.HunYuanVLRotaryEmbedding(config)(torch.zeros(1), positions)
        x = torch.randn(1, 2, 7, 16)
        theirs, _ = hunyuan.apply_rotary_pos_emb(x, x, cos, sin)
        rows = bearing.ElementwiseRows(layer.encoding)
        found = bearing.turn(rows, x.numpy(), positions.numpy(), side="query")
        # Angles up to 40 in float32.
        np.testing.assert_allclose(found, theirs.numpy(), rtol=0, atol=40 * 2.0**-21)
