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
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

import bearing
import numpy as np
import source_table
import source_verdicts
import test_towers
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

transformers.logging.set_verbosity_error()

TOWERS = {*test_towers.HALF, *test_towers.NEIGHBOURS}
# Towers whose modules are called in ways of their own: test_towers.py has a test of each.
TESTED = {*test_towers.CENTRES, "llama4_vision_model"}
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


@functools.cache
def rows() -> dict[str, dict[str, Any]]:
    """The source's table, by the names of configuration classes."""
    return {row["class"]: row for row in source_table.rows(source_table.package())}


def class_of(model_type: str) -> Any:
    return getattr(transformers, CONFIG_MAPPING_NAMES[model_type])


def module_of(config: Any) -> Any:
    return importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))


def rotary_classes(config: Any) -> list[str]:
    """The rotary classes that a configuration's code has."""
    return rows().get(type(config).__name__, {}).get("rotaries", [])


def modules(config: Any) -> Iterator[Any]:
    """Its rotary modules, made from it. Those that need more than it, or cannot be made from it, are left out."""
    home = module_of(config)
    for name in rotary_classes(config):
        made_of = getattr(home, name, None)
        if made_of is None:
            continue
        try:
            yield made_of(config)
        except Exception:  # whatever it lacks
            continue


def parts(config: Any) -> Iterator[Any]:
    """The configuration and all that are inside it."""
    yield config
    for one in vars(config).values():
        if isinstance(one, transformers.PretrainedConfig):
            yield from parts(one)


def types() -> Iterator[tuple[str, Any, list[Any]]]:
    """A type, its default configuration, and those of its parts whose code has a rotary class."""
    for model_type in CONFIG_MAPPING_NAMES:
        try:
            config = class_of(model_type)()
        except Exception:  # some have no default
            continue
        rotary = [part for part in parts(config) if part.model_type not in UNUSED and rotary_classes(part)]
        if rotary:
            yield model_type, config, rotary


def frequencies(module: Any) -> dict[str, np.ndarray]:
    """By layer type, or under "" for all layers."""
    found = {}
    for name, value in [*module.named_buffers(), *vars(module).items()]:
        if isinstance(value, torch.Tensor) and name.endswith("inv_freq") and "original" not in name:
            found[name.removesuffix("inv_freq").rstrip("_")] = value.detach().double().numpy()
    return found


def factor(module: Any, layer_type: str) -> float:
    for name in (f"{layer_type}_attention_scaling", "attention_scaling"):
        scaling = getattr(module, name, None)
        if isinstance(scaling, (int, float)):
            return float(scaling)
    return 1.0


def axes_fault(module: Any, rope: Any, layer_type: str) -> str:
    """With a position for each axis: is each pair turned by the axis that turns it in the model's own module?"""
    read = bearing.resolve(rope)
    if max(read.axis) == 0:
        return ""
    places = torch.tensor([[3.0, 5.0], [7.0, 11.0], [13.0, 17.0]])[:, None]
    given = {"layer_type": layer_type} if "layer_type" in inspect.signature(module.forward).parameters else {}
    if max(read.axis) == 1:
        places = places[:2]
    cos, _ = module(torch.zeros(1, 2, 4), places, **given)
    angles = places[:, 0].numpy()[np.asarray(read.axis), :] * np.asarray(read.inv_freq)[:, None]
    want = np.cos(angles).T * read.attention_factor
    got = cos.reshape(-1, 2, cos.shape[-1])[0].double().numpy()
    # The module has each pair's cosine twice, side by side or in halves.
    halves, beside = got[:, : want.shape[1]], got[:, ::2]
    close = [np.allclose(one, want, atol=1e-4) for one in (halves, beside) if one.shape == want.shape]
    return "" if any(close) else "axes"


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


def fault(config: Any, model: Any) -> str:
    """What of a part is not as its own modules have it; "" if nothing is."""
    rotary = [layer for layer in model.layers if layer.name == "rope"]
    if config.model_type in TESTED:
        return "" if rotary else "nothing turns"
    if config.model_type in TOWERS:
        return tower_fault(config, rotary[-1]) if rotary else "nothing turns"
    own = [module for module in modules(config) if frequencies(module)]
    if not own:
        return "no module of it can be made"
    if not rotary:
        return "nothing turns"
    seen: list[Any] = []
    for layer in rotary:
        if (layer.encoding, layer.type) in seen:
            continue
        seen.append((layer.encoding, layer.type))
        said = bearing.resolve(layer.encoding)
        faults = []
        for module in own:
            theirs = frequencies(module)
            wanted = theirs.get(layer.type, theirs.get("", None))
            if wanted is None:
                faults.append(f"no frequencies for {layer.type}")
            elif len(wanted) != len(said.inv_freq) or not np.allclose(np.abs(said.inv_freq), wanted, rtol=2e-6, atol=0):
                faults.append(f"{len(said.inv_freq)} frequencies, not {len(wanted)} or others")
            elif not np.isclose(said.attention_factor, factor(module, layer.type), rtol=1e-6):
                faults.append(f"factor {said.attention_factor}, not {factor(module, layer.type)}")
            else:
                faults.append(axes_fault(module, layer.encoding, layer.type))
        if "" not in faults:
            return "; ".join(faults)
        row = rows()[type(config).__name__]
        if row.get("pairing") and layer.encoding.pairing not in row["pairing"]:
            return f"pairing {layer.encoding.pairing}, not {row['pairing']}"
    return ""


def verdict(config: Any, rotary: list[Any]) -> tuple[str, str]:
    """ "right", "named", "refused", "guessed" or "wrong", and why."""
    try:
        model = bearing.read_hf_config(config)
    except bearing.ConfigError as error:
        known = any(why in str(error) for why in (*source_verdicts.REFUSED, "must make an even number"))
        return ("refused" if known else "wrong"), str(error)
    if any("is not known" in warning.text and "read" in warning.text for warning in model.warnings):
        return "guessed", next(w.text for w in model.warnings if "is not known" in w.text)
    read = {one.model_type: one for one in (model, *model.towers)}
    named = ""
    for part in rotary:
        found = read.get(part.model_type)
        if found is None and part is config:
            found = model
        if found is None:
            return "wrong", f"{part.model_type} is not among {sorted(read)}"
        others = [layer for layer in found.layers if isinstance(layer.encoding, bearing.OtherEncoding)]
        if others and others[0].name == "unknown":
            why = others[0].encoding.why
            if not any(known in why for known in source_verdicts.REFUSED):
                return "wrong", f"{part.model_type}: {why}"
            named = f"{part.model_type}: {why}"
            continue
        none = all(layer.name == "none" for layer in found.layers)
        if others or (none and part.model_type in ("neucodec", "xcodec2")):
            named = f"{part.model_type}: " + (others[0].encoding.why if others else "the angles cancel")
            continue
        wrong = fault(part, found)
        if wrong:
            return "wrong", f"{part.model_type}: {wrong}"
    return ("named", named) if named else ("right", "")


def count() -> Iterator[tuple[str, str, str]]:
    for name, config, rotary in types():
        yield name, *verdict(config, rotary)


def main() -> None:
    only, kinds = set(sys.argv[1:]), collections.Counter()
    for name, kind, why in count():
        if only and name not in only:
            continue
        kinds[kind] += 1
        if kind != "right" or only:
            print(kind, name, why, sep="\t", flush=True)
    print(", ".join(f"{number} {kind}" for kind, number in kinds.items()), "of", kinds.total())


if __name__ == "__main__":
    main()
