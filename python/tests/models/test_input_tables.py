"""Learned tables of inputs: as many numbers as the model's own parameter has, by default and with a longer file, and
found by load() under the parameter's name. `python test_input_tables.py [TYPE …]` looks for the tables of every type."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import numpy as np
import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

transformers.logging.set_verbosity_error()

# A type, the class that holds the table, and a member that makes the table longer.
TABLES = {
    "aimv2_vision_model": ("Aimv2VisionModel", "image_size", 448),
    "audioflamingo3_encoder": ("AudioFlamingo3Encoder", "max_source_positions", 1600),
    "blenderbot-small": ("BlenderbotSmallModel", "max_position_embeddings", 640),
    "bridgetower_text_model": ("BridgeTowerTextModel", "max_position_embeddings", 600),
    "clip_text_model": ("CLIPTextModel", "max_position_embeddings", 90),
    "clip_vision_model": ("CLIPVisionModel", "image_size", 448),
    "convbert": ("ConvBertModel", "embedding_size", 384),
    "dpr": ("DPRQuestionEncoder", "max_position_embeddings", 600),
    "flaubert": ("FlaubertModel", "emb_dim", 1024),
    "gemma4_vision": ("Gemma4VisionModel", "position_embedding_size", 512),
    "idefics_vision": ("IdeficsVisionTransformer", "image_size", 448),
    "internvl_vision": ("InternVLVisionModel", "image_size", [224, 448]),
    "kosmos_2_vision_model": ("Kosmos2VisionModel", "patch_size", 28),
    "mra": ("MraModel", "max_position_embeddings", 600),
    "mvp": ("MvpModel", "max_position_embeddings", 2048),
    "nystromformer": ("NystromformerModel", "max_position_embeddings", 600),
    "owlvit_vision_model": ("OwlViTVisionModel", "image_size", 384),
    "plbart": ("PLBartModel", "max_position_embeddings", 512),
    "qwen3_vl_vision": ("Qwen3VLVisionModel", "num_position_embeddings", 1024),
    "sam_vision_model": ("SamVisionModel", "image_size", 512),
    "siglip_vision_model": ("SiglipVisionModel", "hidden_size", 384),
    "xmod": ("XmodModel", "max_position_embeddings", 300),
}


def config_of(model_type: str, **members: Any) -> Any:
    return getattr(transformers, CONFIG_MAPPING_NAMES[model_type])(**members)


def holder_of(config: Any, name: str) -> Any:
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    return getattr(module, name, None) or getattr(importlib.import_module(module.__package__ + ".vision"), name)


def tables_of(holder: Any, config: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter for positions; on the meta device a large model is nothing."""
    with torch.device("meta"):
        model = holder(config)
    words = ("pos", "_embedder", "time_embeddings", "wpe")
    named = {n: tuple(p.shape) for n, p in model.named_parameters() if any(word in n for word in words)}
    return {name: shape for name, shape in named.items() if "norm" not in name and len(shape) > 1}


def parts_of(tensor: np.ndarray) -> list[np.ndarray]:
    """What may be one table: the whole, or one of two."""
    halves = list(tensor) if tensor.ndim == 3 and len(tensor) == 2 else []
    return [tensor.reshape(-1, tensor.shape[-1]), *halves]


def fault_of_load(folder: Path, config: Any, shapes: dict[str, tuple[int, ...]]) -> str:
    """What load() does not find of a file whose tensors are all different numbers, "" if it finds every table."""
    config.to_json_file(folder / "config.json")
    drawn = {name: np.random.default_rng(len(name)).random(shape, np.float32) for name, shape in shapes.items()}
    bearing.write_safetensors(folder / "model.safetensors", drawn)
    try:
        loaded = bearing.load(folder)
    except bearing.ConfigError as error:
        return str(error)
    for said, found in zip(loaded.model.inputs, loaded.inputs, strict=True):
        if isinstance(said.encoding, bearing.Learned):
            if found is None:
                return "; ".join(loaded.missing)
            table = np.asarray(found.parameters["table"])
            if not any(np.array_equal(table, one) for tensor in drawn.values() for one in parts_of(tensor)):
                return "no tensor has the numbers that it found"
    return ""


@pytest.mark.parametrize("model_type", TABLES)
def test_a_table_has_the_size_of_the_models_parameter(tmp_path: Path, model_type: str) -> None:
    name, key, value = TABLES[model_type]
    seen = []
    for config in (config_of(model_type), config_of(model_type, **{key: value})):
        inputs = [one.encoding for one in bearing.read_hf_config(config).inputs]
        assert inputs
        own = tables_of(holder_of(config, name), config)
        sizes = {part.size for shape in own.values() for part in parts_of(np.empty(shape))}
        for table in inputs:
            assert (table.length + table.offset) * table.dim in sizes
        seen.append([(table.length, table.dim) for table in inputs])
    assert seen[0] != seen[1]
    if model_type != "sam_vision_model":  # its layers have tables too
        assert fault_of_load(tmp_path, config, own) == ""


def encoder_decoder(text: str) -> Any:
    encoder, decoder = config_of("bert"), config_of(text)
    return config_of("encoder-decoder", encoder=encoder.to_dict(), decoder=decoder.to_dict())


# Composites whose parts are models of one kind, and the module that has each part's table.
ALIKE = {
    "depth_pro": (
        lambda: config_of("depth_pro", use_fov_model=True),
        "DepthProForDepthEstimation",
        {"image model": "image_encoder", "patch model": "patch_encoder", "fov model": "fov_encoder"},
    ),
    "bert and bert": (lambda: encoder_decoder("bert"), "EncoderDecoderModel", {"decoder": "decoder", "encoder": "encoder"}),
    "bert and gpt2": (lambda: encoder_decoder("gpt2"), "EncoderDecoderModel", {"decoder": "decoder", "encoder": "encoder"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_parts_that_are_alike_have_their_own_tables(tmp_path: Path, name: str) -> None:
    make, holder, modules = ALIKE[name]
    config = make()
    config.to_json_file(tmp_path / "config.json")
    shapes = tables_of(holder_of(config, holder), config)
    assert len(shapes) == len(modules)
    drawn = {
        tensor: np.random.default_rng(i).random(shape, np.float32) for i, (tensor, shape) in enumerate(shapes.items())
    }
    bearing.write_safetensors(tmp_path / "model.safetensors", drawn)
    loaded = bearing.load(tmp_path)
    parts = {part.model.part: part for part in (loaded, *loaded.towers)}
    assert parts.keys() == modules.keys()
    for part, module in modules.items():
        (found,) = parts[part].inputs
        (own,) = (numbers for tensor, numbers in drawn.items() if module in tensor.split("."))
        np.testing.assert_array_equal(np.asarray(found.parameters["table"]), own.reshape(-1, own.shape[-1]))


def halves_of_a_grid(side: int, dim: int, first: str) -> np.ndarray:
    spec = bearing.Sinusoidal2d(dim=dim, first=first, layout="concatenated")
    return bearing.inputs(bearing.Sinusoidal2dInputs(spec), bearing.grid_positions(side, side))[0]


def test_maes_fresh_table_has_x_first() -> None:
    config = config_of(
        "vit_mae", image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    embeddings = holder_of(config, "ViTMAEEmbeddings")(config)
    embeddings.initialize_weights()
    own = embeddings.position_embeddings[0, 1:].detach().numpy()
    np.testing.assert_allclose(halves_of_a_grid(4, 16, "x"), own, atol=1e-6)
    assert bearing.Sinusoidal2d.mae(16).first == "x"
    assert abs(halves_of_a_grid(4, 16, "y") - own).max() > 0.5


def test_mocos_table_has_y_first() -> None:
    # vits.py of MoCo v3, build_2d_sincos_position_embedding
    grid_w, grid_h = torch.meshgrid(torch.arange(3.0), torch.arange(3.0), indexing="ij")
    omega = 1 / 10_000 ** (torch.arange(2) / 2)
    out_w, out_h = (torch.einsum("m,d->md", grid.flatten(), omega) for grid in (grid_w, grid_h))
    own = torch.cat([torch.sin(out_w), torch.cos(out_w), torch.sin(out_h), torch.cos(out_h)], 1).numpy()
    np.testing.assert_allclose(halves_of_a_grid(3, 8, "y"), own, atol=1e-6)


def every_type() -> None:
    """The first class of each type that can be made and has tables whose number is right."""
    for model_type in sys.argv[1:] or CONFIG_MAPPING_NAMES:
        try:
            config = config_of(model_type)
            inputs = [one.encoding for one in bearing.read_hf_config(config).inputs]
        except Exception:  # no default; other tests look at these
            continue
        if not any(isinstance(one, bearing.Learned) for one in inputs):
            continue
        module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
        said = "no class of its own"
        for _, holder in sorted(inspect.getmembers(module, inspect.isclass), key=lambda one: len(one[0])):
            if getattr(holder, "config_class", None) is not type(config) or holder.__name__.endswith("PreTrainedModel"):
                continue
            try:
                shapes = tables_of(holder, config)
            except Exception:  # a class that takes more, or other packages
                continue
            if not shapes:
                continue
            with tempfile.TemporaryDirectory() as folder:
                said = fault_of_load(Path(folder), config, shapes)
            break
        print(model_type, said or "found", sep="\t", flush=True)


if __name__ == "__main__":
    every_type()
