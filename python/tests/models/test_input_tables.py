"""Learned tables of inputs: as many numbers as the model's own parameter has, by default and with a longer file."""

from __future__ import annotations

import importlib
import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
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
    "flaubert": ("FlaubertModel", "emb_dim", 1024),
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


def sizes_of_tables(config: Any, name: str) -> set[int]:
    """How many numbers each parameter for positions has; on the meta device a large model is nothing."""
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    holder = getattr(module, name, None) or getattr(importlib.import_module(module.__package__ + ".vision"), name)
    with torch.device("meta"):
        model = holder(config)
    return {p.numel() for n, p in model.named_parameters() if "pos" in n and "norm" not in n}


@pytest.mark.parametrize("model_type", TABLES)
def test_a_table_has_the_size_of_the_models_parameter(model_type: str) -> None:
    name, key, value = TABLES[model_type]
    seen = []
    for config in (config_of(model_type), config_of(model_type, **{key: value})):
        inputs = [one.encoding for one in bearing.read_hf_config(config).inputs]
        assert inputs
        own = sizes_of_tables(config, name)
        for table in inputs:
            assert (table.length + table.offset) * table.dim in own
        seen.append([(table.length, table.dim) for table in inputs])
    assert seen[0] != seen[1]
