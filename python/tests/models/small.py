"""Every model of transformers with a rotary embedding, small enough to run in a moment."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

FOLDER = Path(transformers.__file__).parent / "models"

# What a member of a config becomes, whatever model it is of.
SIZES: dict[str, Any] = {
    **dict.fromkeys(["hidden_size", "d_model", "n_embd", "dim"], 64),
    **dict.fromkeys(["num_attention_heads", "n_heads", "n_head", "num_heads", "attention_heads"], 4),
    **dict.fromkeys(["num_hidden_layers", "n_layers", "n_layer", "num_layers", "depth"], 2),
    **dict.fromkeys(["vocab_size", "text_vocab_size", "vocab_size_per_layer_input"], 128),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"], 4),
    **dict.fromkeys(["num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k"], 2),
    **dict.fromkeys(["n_group", "topk_group", "num_expert_group", "n_groups"], 1),
    **dict.fromkeys(["qk_rope_head_dim"], 8),
    **dict.fromkeys(["qk_nope_head_dim", "v_head_dim", "kv_lora_rank", "head_dim", "projection_dim"], 16),
    **dict.fromkeys(["initializer_range", "init_std"], 0.2),
    "bos_token_id": 1,
    "eos_token_id": 2,
    "intermediate_size": 96,
    "ffn_hidden_size": 96,
    "ffn_dim": 96,
    "mlp_dim": 96,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "qk_head_dim": 24,
    "q_lora_rank": 24,
    "pad_token_id": 0,
    "sliding_window": 8,
    "out_hidden_size": 64,
    "patch_size": 4,
    "image_size": 32,
    "num_key_value_heads": 2,
}
# Set even where the usual value is None: others are computed of it.
FILLED = ("head_dim", "vocab_size")


# What else the models in a folder need to be small, or to run.
SPECIAL: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "clvp": {"projection_dim": 64},
    "codegen": {"rotary_dim": 8},
    "cohere_compass": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
            for kind in ("sliding_attention", "full_attention")
        }
    },
    "deepseek_ocr2": {"mlp_layer_types": ["dense", "sparse"]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {"n_input_layers": 1, "n_recurrent_layers": 1, "n_output_layers": 0},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "dots3_note": {"adapter_in_dim": 64, "adapter_input_size": 64},
    "eomt_dinov3": {"num_blocks": 1},
    "ernie4_5_vl_moe": {
        "moe_intermediate_size": [16, 16],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]},
    },
    "esm": {"position_embedding_type": "rotary", "mask_token_id": 3},
    "gemma3n": {
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        "num_kv_shared_layers": 1,
        "activation_sparsity_pattern": [0.0] * 3,
        "intermediate_size": [96] * 3,
    },
    "gptj": {"rotary_dim": 8},
    "gradium_phonon_tts": {"condition_dim": 64},
    "granitemoehybrid": {"position_embedding_type": "rope", "layer_types": ["mamba", "attention"]},
    "hy_v4_vl": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}},
    "inkling2": {"text_hidden_size": 64},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "llama4": {"intermediate_size": 256},  # four patches of the tower's
    "longcat_flash": {"expert_ffn_hidden_size": 16},
    "pocket_tts": {"condition_dim": 64},
    "qwen2_vl": {"embed_dim": 64},
    "qwen4_exp": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "seamless_m4t": {"position_embeddings_type": "rotary"},
    "step3p7": {"sliding_window": 8},
    "wav2vec2_bert": {"position_embeddings_type": "rotary"},
    "wav2vec2_conformer": {"position_embeddings_type": "rotary"},
    "zamba2": {"use_mem_rope": True, "layers_block_type": ["mamba", "hybrid"]},
    "zaya": {"num_experts_per_tok": 1},
}
MOST = 40_000_000  # parameters: what is larger is not small


@functools.cache
def types() -> list[str]:
    """The folders of transformers' models whose code has a class of a rotary embedding of its own."""
    return sorted(
        {
            file.parent.name
            for file in FOLDER.glob("*/modeling_*.py")
            if re.search(r"^class \w*Rotary\w*\(", file.read_text(), re.MULTILINE)
        }
    )


def code_of_positions(kind: str) -> frozenset[str]:
    """The rotary embeddings of a folder's code, what rotates, and the arguments that both are called with: without
    comments and without the model's name."""
    found: set[str] = set()
    for file in (FOLDER / kind).glob("modeling_*.py"):
        text = re.sub(r'(?s:""".*?""")|#.*', "", file.read_text())
        blocks = re.findall(
            r"^(?:class|def) \w*(?:[Rr]otary|rotate)\w*\(.*?(?=^[^\s)])", text + "\n.", re.MULTILINE | re.DOTALL
        )
        found |= {re.sub(r"\b[A-Z]\w*?(?=(?:Text|Vision)?Rotary|Config\b)", "", block) for block in blocks}
        found |= {"".join(given.split()) for given in re.findall(r"rotary\w*\(([^)]*)\)", text)}
    return frozenset(found)


@functools.cache
def distinct_types() -> list[str]:
    """The first folder of each code of positions: the others have the same code under other names."""
    return sorted({code_of_positions(kind): kind for kind in reversed(types())}.values())


def modeling(kind: str) -> Iterator[Any]:
    for file in sorted((FOLDER / kind).glob("modeling_*.py")):
        yield importlib.import_module(f"transformers.models.{kind}.{file.stem}")


def own_rotaries(kind: str) -> set[str]:
    """The rotary embeddings that a folder's code defines."""
    return {
        name
        for file in (FOLDER / kind).glob("modeling_*.py")
        for name in re.findall(r"^class (\w*Rotary\w*)\(", file.read_text(), re.MULTILINE)
    }


def models(kind: str) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """Models in a folder that run, with what they take, until each of its rotary embeddings was in one of them: those
    that generate first, then parts before what is made of them."""
    covered: set[str] = set()
    for one in sorted(classes(kind), key=lambda one: not one.__name__.endswith("ForCausalLM")):
        try:
            made = config(one.config_class, SPECIAL.get(kind, {}))
            with torch.device("meta"):
                empty = one(made)
        except Exception:  # whatever a config or a model of other sizes says
            continue
        inside = rotaries(empty)
        if inside <= covered or sum(p.numel() for p in empty.parameters()) > MOST:
            continue
        torch.manual_seed(0)
        model = one(made).eval()
        given = taken(model)
        if given is not None:
            covered |= inside
            yield model, given


def taken(model: nn.Module) -> dict[str, Any] | None:
    """What a model runs on, found by trying."""
    for given in ways(model):
        try:
            with torch.no_grad():
                run(model, given)
        except Exception:  # it takes something else
            continue
        return given
    return None


def classes(kind: str) -> list[type]:
    """The models in a folder, in the order in which the code has them."""
    return [
        one
        for home in modeling(kind)
        for one in vars(home).values()
        if inspect.isclass(one)
        and issubclass(one, transformers.PreTrainedModel)
        and one.__module__ == home.__name__
        and getattr(one, "config_class", None) is not None
    ]


def config(made_of: type, special: dict[str, Any]) -> Any:
    """A small config of a class, with what is special about its model."""
    kind = made_of.__module__.split(".")[-2]
    sections = any("mrope_section" in file.read_text() for file in (FOLDER / kind).glob("modeling_*.py"))
    return made_of(**shrunk(made_of, special, sections))


def shrunk(made_of: type, special: dict[str, Any], sections: bool) -> dict[str, Any]:
    usual = made_of()
    members: dict[str, Any] = {}
    own = {name: value for name, value in vars(usual).items() if not name.startswith("_")}
    layers = next((own[n] for n in ("num_hidden_layers", "n_layers", "n_layer") if isinstance(own.get(n), int)), None)
    kept = kept_layers(own, layers)
    for name, value in own.items():
        if isinstance(value, transformers.PretrainedConfig):
            members[name] = {"model_type": value.model_type} | shrunk(type(value), special, sections)
        elif name == "num_key_value_heads" and value is None:
            members[name] = 4
        elif isinstance(value, list) and layers and len(value) == layers and layers > 2:
            members[name] = [value[i] for i in kept]
        elif name in SIZES and (value is not None or name in FILLED):
            members[name] = SIZES[name]
    for name in ("num_hidden_layers", "n_layers", "n_layer"):
        if name in members:
            members[name] = len(kept)
    if own.get("num_key_value_heads") is not None and own["num_key_value_heads"] == own.get("num_attention_heads"):
        members["num_key_value_heads"] = 4
    if own.get("num_key_value_heads") == 1:
        members["num_key_value_heads"] = 1
    if own.get("qk_rope_head_dim") is not None and own.get("head_dim") == own["qk_rope_head_dim"]:
        members["head_dim"] = SIZES["qk_rope_head_dim"]
    rope = own.get("rope_parameters")
    if isinstance(rope, dict):
        members["rope_parameters"] = shrunk_rope(rope, sections and "vocab_size" in own)
    return members | {name: value for name, value in special.items() if name in own}


def kept_layers(own: dict[str, Any], layers: int | None) -> list[int]:
    """Two layers, or one of each type if there are more."""
    types = own.get("layer_types")
    if not isinstance(types, list) or not layers or len(types) != layers:
        return [0, 1]
    first = [types.index(kind) for kind in dict.fromkeys(types)]
    return first if len(first) > 1 else [0, 1]


def shrunk_rope(rope: dict[str, Any], sections: bool) -> dict[str, Any]:
    """For heads of 16; with the pairs of each coordinate, where the model's code asks for them."""
    if any(isinstance(value, dict) for value in rope.values()):
        return {n: shrunk_rope(value, sections) if isinstance(value, dict) else value for n, value in rope.items()}
    made = dict(rope)
    pairs = int(8 * (made.get("partial_rotary_factor") or 1.0))
    if made.get("mrope_section") is not None or (sections and pairs > 2):
        made["mrope_section"] = [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]
    for name in ("short_factor", "long_factor"):
        if made.get(name) is not None:
            made[name] = list(made[name])[:pairs]
    return made


def ways(model: nn.Module) -> Iterator[dict[str, Any]]:
    """What a model may take, the likeliest first."""
    ids = torch.randint(4, 100, (2, 12))
    rows = torch.randn(2, 12, 64)
    image = torch.randn(1, 3, 32, 32)
    vision = getattr(model.config, "vision_config", None) or model.config
    numbers = [
        getattr(vision, name, None) for name in ("in_channels", "num_channels", "temporal_patch_size", "patch_size")
    ]
    channels = numbers[0] if isinstance(numbers[0], int) else numbers[1] or 3
    temporal, patch = (
        numbers[2] or getattr(vision, "patch_temporal", 1),
        numbers[3] if isinstance(numbers[3], int) else 4,
    )
    patches = torch.randn(64, channels * temporal * patch * patch)
    grid = torch.tensor([[1, 8, 8]])
    own = {
        "input_ids": [
            {"input_ids": ids},
            {"input_ids": ids, "decoder_input_ids": ids},
            {"input_ids": ids[:, :, None].expand(-1, -1, 8)},
        ],
        "pixel_values": [
            {"pixel_values": image},
            {"pixel_values": patches, "grid_thw": grid},
            {"pixel_values": patches, "image_grid_thw": grid},
        ],
    }
    yield from own.get(model.main_input_name, [])
    yield {"hidden_states": patches, "grid_thw": grid}
    yield {"pixel_values": patches, "image_grid_thw": grid}
    yield {"pixel_values": image}
    yield {"inputs_embeds": rows}
    yield {"inputs_embeds": rows, "position_ids": torch.arange(12)[None].expand(2, -1)}
    yield {"hidden_states": rows}
    yield {"input_ids": ids, "pixel_values": image[None].expand(2, -1, -1, -1, -1)}
    spots = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    yield {"pixel_values": torch.randn(1, 64, channels * patch * patch), "pixel_position_ids": spots[None]}
    yield {"past_values": torch.randn(2, 64), "past_values_padding": torch.zeros(2, 64, dtype=torch.long)}
    yield {"noise_embeds": rows, "context_hidden_states": rows}
    yield {"input_values": torch.randn(1, 1, 6400), "input_features": torch.randn(1, 20, 160)}
    yield {"input_features": torch.randn(1, 64, 128)}
    yield {"input_features": torch.randn(1, 128, 64)}
    yield {"input_features": torch.randn(1, 64, 80)}
    yield {"input_features": torch.randn(1, 64, 160)}
    yield {"input_values": torch.randn(1, 4000)}
    yield {"input_values": torch.randn(1, 1, 4000)}
    for one in own.values():
        yield from one


def run(model: nn.Module, given: dict[str, Any]) -> Tensor:
    """The first of the numbers that come out."""
    found = model(**given)
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(found, name, None), Tensor):
            return getattr(found, name)
    values = list(found.values()) if isinstance(found, dict) else [found]
    return next(x for x in flat(values) if isinstance(x, Tensor) and x.is_floating_point())


def flat(values: Any) -> Iterator[Any]:
    for one in values:
        if isinstance(one, (list, tuple)):
            yield from flat(one)
        else:
            yield one


def rotaries(model: nn.Module) -> frozenset[str]:
    return frozenset(type(x).__name__ for x in model.modules() if "Rotary" in type(x).__name__)
