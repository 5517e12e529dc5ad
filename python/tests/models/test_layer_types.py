"""The type of each layer, as the configuration classes of transformers have it: of every type's default, and of hybrids
whose files say it in keys of their own."""

from __future__ import annotations

import os
import warnings
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import pytest
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.utils.logging.set_verbosity_error()

# Older words, and the newer ones that mean the same.
NEWER = {
    "mamba": "linear_attention",
    "attention": "full_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
# Types whose default is told otherwise here, and why.
STATES = "a state mixes all tokens, and the reader calls that recurrent"
STAGES = "the word of a convolutional net's stages"
OTHERWISE = dict.fromkeys(("falcon_mamba", "mamba", "mamba2"), STATES) | dict.fromkeys(
    "bit d_fine deimv2 pp_doclayout_v2 pp_doclayout_v3 regnet resnet rt_detr rt_detr_resnet rt_detr_v2".split(), STAGES
)

HYBRIDS: list[dict[str, Any]] = [
    {"model_type": "jamba", "num_hidden_layers": 20},
    {"model_type": "jamba", "num_hidden_layers": 9, "attn_layer_period": 4, "attn_layer_offset": 3},
    {"model_type": "zamba", "num_hidden_layers": 20},
    {"model_type": "zamba", "num_hidden_layers": 12, "attn_layer_period": 3, "attn_layer_offset": 0},
    {"model_type": "zamba", "num_hidden_layers": 2, "layers_block_type": ["mamba", "hybrid"]},
    {"model_type": "nemotron_h"},
    {"model_type": "nemotron_h", "num_hidden_layers": 7, "hybrid_override_pattern": "ME*-M*E"},
    {"model_type": "nemotron_h", "num_hidden_layers": 9, "hybrid_override_pattern": "M*E"},
    {"model_type": "nemotron_h", "layers_block_type": ["mamba", "mlp", "attention", "moe"]},
    {"model_type": "nemotron_h", "layers_block_type": ["mamba", "mlp"], "hybrid_override_pattern": "M*E"},
    {"model_type": "kimi_linear", "num_hidden_layers": 11},
    {
        "model_type": "kimi_linear",
        "num_hidden_layers": 5,
        "linear_attn_config": {"full_attn_layers": [2, 5], "kda_layers": [1, 3, 4]},
    },
    {"model_type": "kimi_linear", "num_hidden_layers": 5, "linear_attn_config": {"full_attn_layers": [2, 5]}},
    {"model_type": "bamba", "num_hidden_layers": 6, "attn_layer_indices": [2, 4]},
    {"model_type": "lfm2", "num_hidden_layers": 6},
    {"model_type": "lfm2", "num_hidden_layers": 6, "full_attn_idxs": [1, 5]},
    {"model_type": "granitemoehybrid", "num_hidden_layers": 3},
    {"model_type": "granitemoehybrid", "num_hidden_layers": 2, "layer_types": ["mamba", "attention"]},
    {
        "model_type": "granitemoehybrid",
        "num_hidden_layers": 2,
        "layer_types": ["mamba", "attention"],
        "position_embedding_type": "rope",
    },
]


def types_of(config: Any) -> list[str] | None:
    words = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    return None if words is None else [NEWER.get(word, word) for word in words]


def read(file: dict[str, Any]) -> list[str]:
    return [NEWER.get(layer.type, layer.type) for layer in bearing.read_hf_config(file).layers]


@pytest.mark.parametrize("file", HYBRIDS, ids=lambda file: file["model_type"])
def test_layers_of_a_hybrid_are_those_of_its_class(file: dict[str, Any]) -> None:
    config = CONFIG_MAPPING[file["model_type"]].from_dict(dict(file))
    assert read(file) == types_of(config)


def test_layers_of_every_default_are_those_of_its_class() -> None:
    compared, wrong = 0, {}
    for model_type, config_class in CONFIG_MAPPING.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted = types_of(config_class())
            except Exception:  # a class without a default, as a composite of others
                continue
        if wanted is None:
            continue
        try:
            got = read({"model_type": model_type})
        except bearing.ConfigError:  # sizes of a class that do not fit together
            continue
        compared += 1
        if got != wanted:
            wrong[model_type] = (got, wanted)
    assert compared > 60
    assert set(wrong) == set(OTHERWISE), wrong
