"""Mutated files of every family that transformers has: what bearing reads is what its rotary modules compute, or bearing says so.

A mutation renames a key, sets another spelling beside it, or uses a word that nobody knows. Where the frequencies, their
number or the factor differ from those of the model's own module, bearing must have refused the file or must give a warning
that it does not give for the plain file.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import os
import re
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import numpy as np
import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING

IO = Path(__file__).parents[2] / "io"
FAMILIES = re.findall(
    r'^    \{"([^"]+)", (?:half|interleaved),', (IO / "hf_families.cc").read_text(encoding="utf-8"), re.M
)
NEWER = re.findall(r'model_type = "([^"]+)"', (IO / "hf_newer_families.cc").read_text(encoding="utf-8"))
# Newer families that are not mutated here, by the reason.
NOT_MUTATED = {
    "their code turns nothing": "glm5_next_text jamba kimi_linear moshi_depth nemotron_h zamba",
    "their sizes depend on each other": "dots3_note_audio_encoder gradium_phonon_tts moonshine pocket_tts zamba2",
    "their rotary class is another part's, or is told apart by no name": (
        "evolla granite4_vision_text higgs_audio_v2 pe_audio_encoder pe_audio_video_encoder"
        " pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder"
    ),
    "test_deepseek_v4.py has it": "deepseek_v4",
    "it is a part without a class of its own": "qwen3_omni_moe_code2wav",
    "its class has no dictionary for a layer type, and fails": "cohere_compass_text",
}
# internlm3's class has no code in transformers; fuyu keeps its language model in a text_config: persimmon, which is here.
KNOWN = [name for name in FAMILIES if name in CONFIG_MAPPING and name not in ("internlm3", "fuyu")]
TYPES = ["sliding_attention", "full_attention"]
SHAPE = {
    "hidden_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
}
OLD_SHAPE = {"n_embd": 512, "n_head": 4, "n_layer": 2, "n_positions": 128}
SHAPES = {
    "gptj": OLD_SHAPE,
    "codegen": OLD_SHAPE,
    "dbrx": {"d_model": 512, "n_heads": 4, "n_layers": 2, "max_seq_len": 128, "attn_config": {"kv_n_heads": 4}},
    "minicpm3": {key: value for key, value in SHAPE.items() if key != "head_dim"},
}
for latent in (
    "axk1",
    "axk2",
    "hy_v4",
    "hy_v4_vl_text",
    "mistral_large4_text",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "longcat_flash",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "mistral4",
    "youtu",
    "sarvam_mla",
):
    SHAPES[latent] = SHAPES["minicpm3"]
LAYERED = (
    "gemma3_text",
    "gemma3n_text",
    "gemma4_text",
    "gemma4_unified_text",
    "olmo3",
    "modernbert",
    "modernbert-decoder",
)
for layered in LAYERED:
    SHAPES[layered] = SHAPE | {"layer_types": TYPES}
for linear in (
    "qwen3_next",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "qwen4_exp_text",
    "olmo_hybrid",
):  # whose first layers have no positions
    SHAPES[linear] = SHAPE | {"layer_types": ["linear_attention", "full_attention"]}
# On their default bases versions disagree, and a warning says so.
for base in ("qwen3_vl_text", "qwen3_vl_moe_text", "persimmon", "cohere", "falcon_h1"):
    SHAPES[base] = SHAPE | {"rope_theta": 20000.0}
SHAPES["olmo3"]["rope_parameters"] = {name: {"rope_type": "default", "rope_theta": 20000.0} for name in TYPES}
SHAPES["falcon"] = {key: value for key, value in SHAPE.items() if key != "head_dim"}
SHAPES["granitemoehybrid"] = SHAPE | {"position_embedding_type": "rope", "layer_types": ["attention", "attention"]}
SHAPES["esm"] = SHAPES["falcon"] | {"position_embedding_type": "rotary"}
SHAPES["bailing_hybrid"] = SHAPES["minicpm3"] | {"layer_group_size": 2}
SHAPES["lfm3"] = SHAPE | {"layer_types": ["conv", "full_attention"]}
SHAPES["bamba"] = SHAPE | {"attn_layer_indices": [0, 1]}
SHAPES["recurrent_gemma"] = SHAPE | {"block_types": ["attention"]}
SHAPES["flint"] = SHAPE | {"layer_types": TYPES, "sliding_window": 8}
SHAPES["smollm3"] = SHAPES["llama4_text"] = SHAPE | {"no_rope_layers": [1, 1]}

LINEAR = {"rope_type": "linear", "factor": 2.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 64}
ONES = [1.0 + i for i in range(64)]
LONG = {"rope_type": "longrope", "short_factor": ONES, "long_factor": ONES, "factor": 4.0}
GROUPS = {name: {"rope_type": "default", "rope_theta": 500.0} for name in TYPES}

# name → keys that the file gets; None takes a key away. Of two spellings the order is that of the file.
MUTATIONS = {
    **{key: {key: 0.5} for key in ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction")},
    "rotary_dim": {"rotary_dim": 32},
    "two fractions": {"partial_rotary_factor": 0.5, "rotary_pct": 0.75},
    "fraction and dimensions": {"partial_rotary_factor": 0.5, "rotary_dim": 32},
    "fraction in the dictionary": {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "fraction in both": {
        "partial_rotary_factor": 0.75,
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
    },
    "fraction and linear": {"partial_rotary_factor": 0.5, "rope_scaling": LINEAR},
    # Of a head of latent attention a third or a quarter turns.
    **{f"{share:.2f}": {"partial_rotary_factor": share} for share in (1 / 3, 0.25)},
    **{f"{share:.2f} and yarn": {"partial_rotary_factor": share, "rope_scaling": YARN} for share in (1 / 3, 0.25)},
    "1 and yarn": {"partial_rotary_factor": 1.0, "rope_scaling": YARN},
    "a third and yarn in the dictionary": {
        "rope_parameters": YARN | {"rope_theta": 1e4, "partial_rotary_factor": 1 / 3},
    },
    **{key: {key: 777.0} for key in ("rope_theta", "rotary_emb_base", "global_rope_theta", "local_rope_theta")},
    "rope_local_base_freq": {"rope_local_base_freq": 777.0},
    "two bases": {"rope_theta": 777.0, "rotary_emb_base": 333.0},
    "two bases, turned": {"rotary_emb_base": 333.0, "rope_theta": 777.0},
    "a base in both": {"rope_theta": 777.0, "rope_parameters": {"rope_type": "default", "rope_theta": 333.0}},
    "a base without a dictionary": {"rope_theta": 777.0, "rope_parameters": None},
    "a base beside groups without one": {
        "sliding_window": 8,
        "layer_types": TYPES,
        "rope_theta": 777.0,
        "rope_parameters": {"full_attention": GROUPS["full_attention"], "sliding_attention": {"rope_type": "default"}},
    },
    "a base beside a scaling": {"rope_theta": 777.0, "rope_parameters": None, "rope_scaling": LINEAR},
    "a base in attn_config": {"attn_config": {"kv_n_heads": 4, "rope_theta": 777.0}},
    "a wrong base": {"rope_thata": 777.0},
    **{f"{key} for heads": {"num_attention_heads": None, key: 8} for key in ("n_head", "n_heads", "num_heads")},
    **{f"{key} beside heads": {"num_attention_heads": 4, key: 8} for key in ("n_head", "n_heads", "num_heads")},
    **{f"{key} for width": {"hidden_size": None, "head_dim": None, key: 256} for key in ("n_embd", "d_model", "dim")},
    **{f"{key} for head_dim": {"head_dim": None, key: 64} for key in ("attention_head_dim", "kv_channels")},
    "kv_channels beside head_dim": {"kv_channels": 64},
    "linear": {"rope_scaling": LINEAR},
    "linear by its old name": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "linear by both names": {"rope_scaling": {"rope_type": "linear", "type": "dynamic", "factor": 2.0}},
    "linear, misspelt": {"rope_scaling": {"rope_type": "linaer", "factor": 2.0}},
    "a misspelt factor": {"rope_scaling": {"rope_type": "linear", "facter": 2.0}},
    "two dictionaries": {"rope_scaling": LINEAR, "rope_parameters": {"rope_type": "default", "rope_theta": 333.0}},
    "yarn": {"rope_scaling": YARN},
    "yarn with a factor": {"rope_scaling": YARN | {"attention_factor": 1.5}},
    "yarn with mscale": {"rope_scaling": YARN | {"mscale": 0.7}},
    "yarn with mscale_all_dim": {"rope_scaling": YARN | {"mscale_all_dim": 0.7}},
    "yarn with both": {"rope_scaling": YARN | {"mscale": 0.7, "mscale_all_dim": 1.0}},
    "yarn, not truncated": {"rope_scaling": YARN | {"truncate": False}},
    "yarn, its length elsewhere": {"rope_scaling": YARN, "original_max_position_embeddings": 64},
    "llama3": {"rope_scaling": LLAMA3},
    "longrope": {"rope_scaling": LONG | {"original_max_position_embeddings": 32}},
    "longrope, its length elsewhere": {"rope_scaling": LONG, "original_max_position_embeddings": 64},
    "a layer type": {"sliding_window": 8, "layer_types": ["full_attention", "sliding_atention"]},
    "groups": {"sliding_window": 8, "layer_types": TYPES, "rope_parameters": GROUPS},
    "a misspelt group": {
        "sliding_window": 8,
        "layer_types": TYPES,
        "rope_parameters": {"full_attention": GROUPS["full_attention"], "sliding_atention": LINEAR},
    },
    "fraction in groups": {
        "sliding_window": 8,
        "layer_types": TYPES,
        "rope_parameters": {name: group | {"partial_rotary_factor": 0.5} for name, group in GROUPS.items()},
    },
    "heads of one layer": {"layer_types": TYPES, "sliding_window": 8, "per_layer_config": {"0": {"head_dim": 64}}},
}

# (family, mutation) that differ without a word, and why. One that differs no more must go.
EXCEPTIONS: dict[tuple[str, str], str] = {}


def mutated(name: str, mutation: dict) -> dict:
    file = {"model_type": name} | copy.deepcopy(SHAPES.get(name, SHAPE))
    for key, value in copy.deepcopy(mutation).items():
        file.pop(key, None)
        if value is not None:
            file[key] = value
    return file


def rotary_class(config: transformers.PreTrainedConfig) -> type:
    home = type(config).__module__.replace("configuration", "modeling")
    if importlib.util.find_spec(home) is None:  # a type that has the code of another
        home = MODEL_MAPPING[type(config)].__module__
    module = importlib.import_module(home)
    others = ("Vision", "Audio", "DiT", "Talker", "Code2Wav")
    found = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and "RotaryEmbedding" in name and not any(other in name for other in others)
    ]
    own = [value for value in found if value.__module__ == module.__name__]
    return next((value for value in own if "Text" in value.__name__), own[0])


def angles(sin_cos: torch.Tensor) -> torch.Tensor:
    """The frequencies of a row [sin | cos] at position 1, as none is above 1."""
    sin, cos = sin_cos.double().chunk(2)
    return torch.atan2(sin, cos)


def expected(name: str, file: dict) -> dict[str, tuple[np.ndarray, float]]:
    """Of each layer type, or "" for all: the frequencies of the model's own module, and its factor."""
    config = CONFIG_MAPPING[name].from_dict(copy.deepcopy(file))
    if name in ("gptj", "codegen"):
        module = importlib.import_module(type(config).__module__.replace("configuration", "modeling"))
        return {"": (angles(module.create_sinusoidal_positions(2, config.rotary_dim)[1]).numpy(), 1.0)}
    if name == "roformer":
        module = importlib.import_module("transformers.models.roformer.modeling_roformer")
        table = module.RoFormerSinusoidalPositionalEmbedding(2, config.hidden_size // config.num_attention_heads)
        return {"": (angles(table.create_weight()[1]).numpy(), 1.0)}
    module = rotary_class(config)(config)
    out = {}
    for key, buffer in module.named_buffers():
        if key.endswith("original_inv_freq") or not key.endswith("inv_freq"):
            continue
        layer_type = key.removesuffix("inv_freq").removesuffix("_")
        factor = getattr(module, f"{layer_type}_attention_scaling" if layer_type else "attention_scaling", 1.0)
        out[layer_type] = (buffer.double().numpy(), float(factor))
    return out


def same(layer: bearing.Layer, frequencies: np.ndarray, factor: float) -> bool:
    got = bearing.resolve(layer.encoding)
    if len(got.inv_freq) != len(frequencies):
        return False
    # The module's numbers are float32: their exponents' rounding times ln(base) stays below 1e-5. Orders of pairs, and
    # the way in which NanoChat turns them, are other tests' matter.
    ours, theirs = np.sort(np.abs(got.inv_freq)), np.sort(frequencies)
    return np.allclose(ours, theirs, rtol=1e-5, atol=0) and abs(got.attention_factor - factor) < 1e-5 * factor


def agrees(model: bearing.Model, wanted: dict[str, tuple[np.ndarray, float]]) -> bool:
    rotary = [layer for layer in model.layers if layer.name == "rope"]
    assert rotary
    return all(same(layer, *wanted[layer.type if layer.type in wanted else next(iter(wanted))]) for layer in rotary)


def outcome(name: str, mutation: dict, usual: set) -> str:
    """ "same", "refused", "said" or "silent"; "theirs" where transformers takes no such file."""
    file = mutated(name, mutation)
    try:
        wanted = expected(name, file)
    except Exception:  # of any kind: a crash within their code is no number to compare with
        wanted = None
    try:
        model = bearing.read_hf_config(file)
    except bearing.ConfigError:
        return "refused"
    if wanted is None:
        return "theirs"
    if agrees(model, wanted):
        return "same"
    said = {(warning.pointer, warning.text) for warning in model.warnings} - usual
    return "said" if said else "silent"


@pytest.fixture(autouse=True)
def quiet():
    transformers.utils.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_the_families_are_those_of_the_table():
    assert len(FAMILIES) > 110 and len(KNOWN) > 90
    assert set(" ".join(NOT_MUTATED.values()).split()) <= set(NEWER)
    assert {name for name, _ in EXCEPTIONS} <= set(KNOWN) | set(NEWER) and {key for _, key in EXCEPTIONS} <= set(
        MUTATIONS
    )


def outcomes_of(name: str) -> dict[str, str]:
    plain = bearing.read_hf_config(mutated(name, {}))
    assert agrees(plain, expected(name, mutated(name, {})))
    usual = {(warning.pointer, warning.text) for warning in plain.warnings}
    return {key: outcome(name, mutation, usual) for key, mutation in MUTATIONS.items()}


def silent(outcomes: dict[str, str]) -> set[str]:
    return {key for key, what in outcomes.items() if what == "silent"}


@pytest.mark.parametrize("name", KNOWN)
def test_a_mutated_file_is_read_as_its_model_does_or_a_word_is_said(name):
    outcomes = outcomes_of(name)
    assert silent(outcomes) == {key for family, key in EXCEPTIONS if family == name}
    assert outcomes["a layer type"] == "refused"
    assert list(outcomes.values()).count("same") > 5


@pytest.mark.parametrize("name", [name for name in NEWER if name not in " ".join(NOT_MUTATED.values()).split()])
def test_a_mutated_file_of_a_newer_family_is_too(name):
    assert silent(outcomes_of(name)) == {key for family, key in EXCEPTIONS if family == name}
