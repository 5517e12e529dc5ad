"""How many types of transformers that make rotary modules from their configuration are read right: `count`.

    python rotary_count.py [TYPE …]

takes the default configuration of each type as a file, reads it, and holds what is read against the model's own modules
made from the same configuration: frequencies, factor, pairing and axes, for the language model and every tower.
"""

from __future__ import annotations

import collections
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

import bearing
import numpy as np
import source_table
import test_towers
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

transformers.logging.set_verbosity_error()

TOWERS = {*test_towers.HALF, *test_towers.NEIGHBOURS}
# Towers whose modules are called in ways of their own: test_towers.py has a test of each.
TESTED = {*test_towers.CENTRES, "llama4_vision_model", "esmfold2_atoms"}
# Made for the parts of one class alone, though their composites' code has it too.
TAKEN_BY = {"EsmFold2RotaryEmbedding": "EsmFold2AtomEncoderConfig"}
# Types whose class is called otherwise than by its configuration, or is used by nobody.
UNUSED = {
    "moshi_depth": "its layers are made with use_rope=False",
    "zamba2": "use_mem_rope is false",
    "seamless_m4t": 'position_embeddings_type is "relative"',
    "wav2vec2-bert": 'position_embeddings_type is "relative_key"',
    "wav2vec2-conformer": 'position_embeddings_type is "relative"',
    "esm": 'position_embedding_type is "absolute"',
    "granitemoehybrid": "position_embedding_type is null",
    "clvp_decoder": "its layers are called without a rotation",
}
HALF_HEADS = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
SECTIONS = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [24, 20, 20]}
# What the defaults of a class leave out so that nothing turns, or its own code fails: why, and what is set.
SET: dict[str, tuple[str, dict[str, Any]]] = {
    "bamba": ("attn_layer_indices is empty: no layer has attention", {"attn_layer_indices": [9, 18, 27]}),
    "cohere_compass_text": (
        "rope_parameters has no dictionary for a layer type, and its module fails",
        {"rope_parameters": {"sliding_attention": SECTIONS, "full_attention": SECTIONS}},
    ),
    "glm4v_text": ("128 dimensions turn, and the sections of its class are for 64", {"rope_parameters": HALF_HEADS}),
    "glm_image_text": ("as glm4v_text", {"rope_parameters": HALF_HEADS}),
    "glm4v_moe_text": ("96 heads of 4096 // 96 dimensions: sections and pairs do not fit", {"head_dim": 128}),
    "qwen3_omni_moe_text": ("28 heads of 2048 // 28 = 73 dimensions: an odd number fails", {"head_dim": 128}),
}
# Types whose class has no default configuration: why, and what it is made with; None where nothing helps.
MADE_WITH: dict[str, tuple[str, dict[str, Any] | None]] = {
    "gemma4_assistant": (
        "all layers of its text model must share keys",
        {
            "text_config": {
                "model_type": "gemma4_text",
                "hidden_size_per_layer_input": 0,
                "vocab_size_per_layer_input": 0,
                "num_hidden_layers": 30,
                "num_kv_shared_layers": 30,
            }
        },
    ),
    "nougat": ("its encoder, donut_swin, is no type of the package", None),
}
# What DeepSeek-V4's module calls its frequencies, for each layer type.
CALLED = {
    "sliding_attention": "main",
    "compressed_sparse_attention": "compress",
    "heavily_compressed_attention": "compress",
}
# Parts that have no type of their own, and what their composite's file is read as there.
INSIDE = {
    "SaProtConfig": "esm",
    "EsmFold2AtomEncoderConfig": "esmfold2_atoms",
    "Qwen3OmniMoeCode2WavConfig": "qwen3_omni_moe_code2wav",
}
# They turn by the number of the head, the same for query and key.
CANCELS = {"neucodec", "xcodec2"}
# The file counts where the model's code does not read the key; the warning says both.
FILE_COUNTS = {"minimax_m3_vl_text": "rotary_dim"}


class Turning(NamedTuple):
    """A configuration whose code turns, with the rotary modules that could be made from it, or why none could."""

    config: Any
    modules: list[Any]
    why: str = ""


@functools.cache
def row_of(config_class: type) -> dict[str, Any]:
    """The source's row for a configuration class. Most folders have no rotary class: they are not looked at further."""
    root = source_table.package()
    folder = Path(inspect.getfile(config_class)).parent
    if not any(source_table.ROTARY.search(path.read_text(encoding="utf-8")) for path in folder.glob("modeling_*.py")):
        return {}
    return source_table.row(root, config_class.model_type, config_class.__name__)


def class_of(model_type: str) -> Any:
    return getattr(transformers, CONFIG_MAPPING_NAMES[model_type])


def module_of(config: Any) -> Any:
    return importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))


def rotary_classes(config: Any) -> list[str]:
    """The rotary classes that a configuration's code has."""
    found = row_of(type(config)).get("rotaries", [])
    return [name for name in found if TAKEN_BY.get(name, type(config).__name__) == type(config).__name__]


def parts(config: Any) -> Iterator[Any]:
    """The configuration and all that are inside it."""
    yield config
    for one in vars(config).values():
        if isinstance(one, transformers.PretrainedConfig):
            yield from parts(one)


def default(model_type: str) -> Any:
    """A type's default configuration, with what its parts lack."""
    config = class_of(model_type)(**(MADE_WITH.get(model_type, ("", {}))[1] or {}))
    for part in parts(config):
        for name, value in SET.get(part.model_type, ("", {}))[1].items():
            setattr(part, name, value)
    return config


def made(home: Any, names: list[str], config: Any) -> tuple[dict[str, Any], str]:
    """Rotary modules of a configuration by their names, and why another cannot be made from it."""
    found, why = {}, ""
    for name in names:
        try:
            module = getattr(home, name)(config)
        except Exception as error:  # whatever it lacks
            why = why or f"{name} cannot be made: {type(error).__name__}: {error}"
            continue
        if frequencies(module):
            found[name] = module
    return found, why


def turning_parts(config: Any) -> list[Turning]:
    """A composite's code has the classes of its parts: those that a part makes are that part's alone."""
    inside = [one for one in vars(config).values() if isinstance(one, transformers.PretrainedConfig)]
    below = [turning for part in inside for turning in turning_parts(part)]
    names = rotary_classes(config)
    taken = {type(module).__name__ for turning in below for module in turning.modules}
    left = [name for name in names if name not in taken]
    modules, why = made(module_of(config), left, config) if left else ({}, "")
    for part in inside:  # T5Gemma's module takes what its composite's code has
        left = [name for name in left if name not in modules]
        tries = left and not rotary_classes(part)
        theirs = made(module_of(config), left, part)[0] if tries else {}
        if theirs:
            below.append(Turning(part, list(theirs.values())))
            left = [name for name in left if name not in theirs]
    if (modules or left) and config.model_type not in UNUSED:
        below.append(Turning(config, list(modules.values()), why))
    return below


def types(only: set[str]) -> Iterator[tuple[str, Any, list[Turning]]]:
    """A type (of these, if any are named), its default configuration, and those of its parts whose code turns."""
    for model_type in CONFIG_MAPPING_NAMES:
        if only and model_type not in only:
            continue
        if model_type in MADE_WITH and MADE_WITH[model_type][1] is None:
            continue
        config = default(model_type)
        rotary = turning_parts(config)
        if rotary:
            yield model_type, config, rotary


def frequencies(module: Any) -> dict[str, np.ndarray]:
    """By layer type, or under "" for all layers."""
    found = {}
    for name, value in [*module.named_buffers(), *vars(module).items()]:
        if isinstance(value, torch.Tensor) and name.endswith("inv_freq") and "original" not in name:
            found[name.removesuffix("inv_freq").rstrip("_")] = value.detach().double().numpy()
    if not found and hasattr(module, "embed_positions"):  # GPT-J: [sin, cos] of each position
        sin, cos = module.embed_positions[1].double().chunk(2)
        found[""] = torch.atan2(sin, cos).numpy()
    return found


def factor(module: Any, layer_type: str) -> float:
    for name in (f"{layer_type}_attention_scaling", "attention_scaling"):
        scaling = getattr(module, name, None)
        if isinstance(scaling, (int, float)):
            return float(scaling)
    return 1.0


def forward_fault(module: Any, rope: Any, layer_type: str) -> str:
    """With a position of its own for each axis, is the cosine of each pair that of the model's module?"""
    read = bearing.resolve(rope)
    axes = 3 if getattr(module, "mrope_section", None) else max(read.axis) + 1
    places = torch.tensor([[3.0, 5.0], [7.0, 11.0], [13.0, 17.0]])[:axes, None]
    given = {"layer_type": layer_type} if "layer_type" in inspect.signature(module.forward).parameters else {}
    cos, _ = module(torch.zeros(1, 2, 4), places, **given)
    angles = places[:, 0].double().numpy()[np.asarray(read.axis), :] * np.asarray(read.inv_freq)[:, None]
    want = np.cos(angles).T * read.attention_factor
    got = cos.reshape(-1, 2, cos.shape[-1])[0].double().numpy()
    # The module has each pair's cosine twice, side by side or in halves.
    beside = [got[:, : want.shape[1]], got[:, ::2]]
    # Angles up to 17 in float32.
    close = [np.allclose(one, want, rtol=0, atol=17 * 2.0**-21) for one in beside if one.shape == want.shape]
    return "" if any(close) else "other cosines where the axes' positions differ"


def tower_fault(config: Any, layer: Any) -> str:
    axes = 3 if config.model_type == "minimax_m3_vl_vision" else 2
    positions = np.stack([np.arange(12) % 5, np.arange(12) // 2, (np.arange(12) * 7) % 11][:axes], axis=1)
    x = test_towers.random_rows(12, layer.encoding.head_dim)
    given = torch.from_numpy(positions)
    if config.model_type in test_towers.MODULE_SWAPS:
        given = given.flip(-1)
    want = test_towers.theirs(config.model_type, config, torch.from_numpy(x), given)
    got = test_towers.ours(layer, x, positions.astype(np.float64))
    return "" if np.allclose(got, want.numpy(), atol=2e-5) else "its rotation"


def module_fault(module: Any, layer: Any) -> str:
    """What of a layer is not as one module has it."""
    said, theirs = bearing.resolve(layer.encoding), frequencies(module)
    wanted = next((theirs[name] for name in (layer.type, CALLED.get(layer.type), "") if name in theirs), None)
    if wanted is None:
        return f"no frequencies for {layer.type}"
    if not np.isclose(said.attention_factor, factor(module, layer.type), rtol=1e-6):
        return f"factor {said.attention_factor}, not {factor(module, layer.type)}"
    if len(wanted) != len(said.inv_freq):
        return f"{len(said.inv_freq)} frequencies, not {len(wanted)}"
    if max(said.axis) > 0 or getattr(
        module, "mrope_section", None
    ):  # its module may have the frequencies in another order
        return forward_fault(module, layer.encoding, layer.type)
    return "" if np.allclose(np.abs(said.inv_freq), wanted, rtol=2e-6, atol=0) else "other frequencies"


def fault(turning: Turning, model: Any) -> str:
    """What of a part is not as its own modules have it; "" if nothing is."""
    config = turning.config
    rotary = [layer for layer in model.layers if layer.name == "rope"]
    if not rotary:
        return "nothing turns"
    if model.model_type in TESTED:
        return ""
    if config.model_type in TOWERS:
        return tower_fault(config, rotary[-1])
    if not turning.modules:
        return turning.why or "it has no rotary module"
    pairing = row_of(type(config)).get("pairing", [])
    seen: list[Any] = []
    for layer in rotary:
        if (layer.encoding, layer.type) in seen:
            continue
        seen.append((layer.encoding, layer.type))
        faults = [module_fault(module, layer) for module in turning.modules]
        if "" not in faults:
            return "; ".join(dict.fromkeys(faults))
        if pairing and layer.encoding.pairing not in pairing:
            return f"pairing {layer.encoding.pairing}, not {pairing}"
    return ""


def named(model: Any) -> str:
    """Why a part's numbers are not read, "" if they are."""
    others = [layer.encoding for layer in model.layers if isinstance(layer.encoding, bearing.OtherEncoding)]
    return others[0].why if others and others[0].name != "unknown" else ""


def heads_cancel(turning: Turning) -> bool:
    """Whether scores are those of rows that do not turn, with the number of the head for a position, as its decoder does."""
    home, (rotary,) = module_of(turning.config), turning.modules
    heads = turning.config.num_attention_heads
    q, k = torch.randn(2, 1, heads, 7, 2 * rotary.inv_freq.numel(), dtype=torch.float64)
    cos, sin = rotary(q, torch.arange(heads)[None])
    turned_q, turned_k = home.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=2)
    moved = not torch.allclose(turned_q, q, atol=0.1)
    # Sums of 2 · 64 products to 2^4, with cosines in float32.
    return moved and torch.allclose(turned_q @ turned_k.mT, q @ k.mT, rtol=0, atol=2**-10)


def all_of(model: Any) -> Iterator[Any]:
    yield model
    for tower in model.towers:
        yield from all_of(tower)


def part_verdict(turning: Turning, config: Any, model: Any) -> tuple[str, str]:
    kind = turning.config.model_type or INSIDE[type(turning.config).__name__]
    read = {one.model_type: one for one in all_of(model)}
    found = read.get(kind, model if turning.config is config else None)
    if found is None:
        return "wrong", f"{kind} is not among {sorted(read)}"
    if turning.config is config and kind not in read:  # a composite that turns what stands between its parts
        inputs = [one.encoding for part in all_of(model) for one in part.inputs]
        why = next((one.why for one in inputs if isinstance(one, bearing.OtherEncoding) and one.name == "rope"), "")
        if why:
            return "named", f"{kind}: {why}"
    if why := named(found):
        return "named", f"{kind}: {why}"
    if kind in CANCELS and all(layer.name == "none" for layer in found.layers):
        return ("right", "") if heads_cancel(turning) else ("wrong", f"{kind}: it turns")
    if wrong := fault(turning, found):
        key, says = FILE_COUNTS.get(kind), [(warning.pointer, warning.text) for warning in model.warnings]
        warned = [text for at, text in says if key and at.endswith(f"/{key}") and "does not read it" in text]
        if warned:
            return "warned", f"{kind}: {warned[0]}"
        return "wrong", f"{kind}: {wrong}"
    return "right", ""


KINDS = ("right", "warned", "named", "refused", "guessed", "wrong")  # a type is as bad as the worst of its parts


def verdict(config: Any, rotary: list[Turning]) -> tuple[str, str]:
    """One of KINDS, and why."""
    try:
        model = bearing.read_hf_config(config)
    except bearing.ConfigError as error:
        return "refused", str(error)
    if guessed := [w.text for w in model.warnings if "is not known" in w.text and "read" in w.text]:
        return "guessed", guessed[0]
    return max((part_verdict(turning, config, model) for turning in rotary), key=lambda one: KINDS.index(one[0]))


def count(only: set[str] | None = None) -> Iterator[tuple[str, str, str]]:
    for name, config, rotary in types(only or set()):
        yield name, *verdict(config, rotary)


def main() -> None:
    only, kinds = set(sys.argv[1:]), collections.Counter()
    for name, kind, why in count(only):
        kinds[kind] += 1
        if kind != "right" or only:
            print(kind, name, why, sep="\t", flush=True)
    print(", ".join(f"{number} {kind}" for kind, number in kinds.items()), "of", kinds.total())


if __name__ == "__main__":
    main()
