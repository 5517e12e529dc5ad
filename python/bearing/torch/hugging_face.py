"""Models of Hugging Face with bearing's rotation in place of their own."""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .. import _core
from .rotary_angles import TRAINED, Angles, Cosines, Kind, Length, taking_angles
from .rotary_probe import REFUSALS, ROWS, Apply, Emission, apply_of, emissions_of, turn_of
from .rows import ANGLES

Model = TypeVar("Model", bound=nn.Module)


def replace_rotary(model: Model, *, angles: str = "as_float32") -> Model:
    """Gives a model of ``transformers`` bearing's rotary embedding, in place; returns the model.

    model: the model. Its rotary embeddings turn pairs by position times frequency: heads in halves or by neighbours,
        whole or in part, one embedding for each type of layers, several coordinates, vision towers.
    angles: "as_float32" keeps the float32 order of operations that the model was trained with, so that logits are the
        same up to rounding. "exact" rounds each cosine and sine once, which is better far into a sequence. "fixed_point" is
        as :class:`bearing.torch.Rope` has it.

    Queries and keys are turned in one pass each, for bfloat16 and float16 in float32 arithmetic. It works in training,
    with caches and ``generate``, and under ``torch.compile`` if the model itself does.

    Each embedding is measured on unit vectors and compared with bearing before any is replaced. If one does something
    else, the model stays as it was, and ValueError names the embedding and says why. :func:`restore_rotary` undoes the
    call, and a second call with other angles measures the model's own embeddings again.

    Frequencies and factors (``inv_freq``, ``attention_scaling``) of a replaced embedding cannot be set: restore, set,
    replace.
    """
    if angles not in ANGLES:
        raise ValueError(f"[replace_rotary] angles: must be one of {', '.join(map(repr, ANGLES))}, got {angles!r}")
    modules = dict(model.named_modules(remove_duplicate=False))
    own = {
        name: module.original if isinstance(module, RotaryEmbedding) else module
        for name, module in modules.items()
        if "Rotary" in type(module).__name__ and not (isinstance(module, RotaryEmbedding) and module.angles == angles)
    }
    if not own and not any(isinstance(module, RotaryEmbedding) for module in modules.values()):
        raise ValueError(
            f"[replace_rotary] model: must have a rotary embedding as a module of its own, {type(model).__name__} has none"
        )
    functions = _functions(model)
    different = list({apply.key: apply for apply in functions.values()}.values())
    replacements: dict[nn.Module, RotaryEmbedding] = {}
    for name, module in own.items():
        if module not in replacements:
            replacements[module] = _replacement(module, _config(model, name, module), different, angles, name)
            replacements[module].functions = list(functions)
    for name, module in own.items():
        model.set_submodule(name, replacements[module])
    for (home, name), apply in functions.items():
        _dispatch(home, name, apply)
    return model


def _config(model: nn.Module, name: str, embedding: nn.Module) -> Any:
    """The config of an embedding; of one without frequencies, the nearest around it."""
    part = embedding
    if not any(own.endswith("inv_freq") for own in dir(embedding)):
        while name and not hasattr(part, "config"):
            name = name.rpartition(".")[0]
            part = model.get_submodule(name)
    return getattr(part, "config", None)


def _replacement(original: nn.Module, config: Any, functions: list[Apply], angles: str, name: str) -> RotaryEmbedding:
    try:
        return RotaryEmbedding(original, config, functions, angles, name)
    except REFUSALS as error:
        if str(error).startswith("[replace_rotary]"):
            raise
        raise ValueError(
            f"[replace_rotary] model: {type(original).__name__} ({name}) cannot be replaced: measuring it failed: {error}"
        ) from error


def restore_rotary(model: Model) -> Model:
    """Gives a model its own rotary embeddings back, in place; returns the model."""
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, RotaryEmbedding):
            model.set_submodule(name, module.original)
    return model


class RotaryEmbedding(nn.Module):
    """Stands in for a model's rotary embedding. ``original`` is what it replaced."""

    def __init__(self, original: nn.Module, config: Any, functions: list[Apply], angles: str, name: str) -> None:
        super().__init__()
        self.angles = angles
        self.functions: list[tuple[str, str]] = []  # that take its Angles: modules and names
        with torch.device("cpu"), torch.no_grad():
            self.kinds = _kinds(original, config, functions, angles, name)
        self.longest = {layer_type: kinds[0].trained_length for layer_type, kinds in self.kinds.items()}
        self.original: nn.Module
        object.__setattr__(self, "original", original)  # no module of this one: names in the model's state stay

    def __getattr__(self, name: str) -> Any:
        """Whatever else a model asks of its embedding, such as its config, the original has."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "original" not in self.__dict__:
                raise
        return getattr(self.original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What the original was measured by cannot change behind it."""
        if name.endswith(("inv_freq", "attention_scaling")):
            raise AttributeError(
                f"[replace_rotary] {name}: must be set before the embedding is replaced, as the model turns by what was "
                "measured: call restore_rotary(model), set it, and call replace_rotary(model) again"
            )
        super().__setattr__(name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also in a process where no model was replaced yet, functions take Angles.

        Models of an older version name no functions, and another transformers may lack some.
        """
        super().__setstate__(state)
        self.functions = self.__dict__.get("functions", [])
        for home, name in self.functions:
            function = getattr(importlib.import_module(home), name, None)
            apply = None if function is None else apply_of(name, function)
            if apply is not None:
                _dispatch(home, name, apply)

    def _apply(self, function: Any, recurse: bool = True) -> RotaryEmbedding:
        self.original._apply(function, recurse)
        return super()._apply(function, recurse)

    def _save_to_state_dict(self, *given: Any) -> None:
        self.original._save_to_state_dict(*given)

    def _load_from_state_dict(self, *given: Any) -> None:
        self.original._load_from_state_dict(*given)

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        """What attention layers hand on as cosines and sines, in the embedding's order, or as one complex tensor."""
        kind = next((kind for kind in self.kinds[layer_type] if kind.emission.takes(position_ids)), None)
        if kind is None:  # as no model of transformers has them: its own numbers
            return self.original(x, position_ids) if layer_type is None else self.original(x, position_ids, layer_type)
        at = kind.emission.at(position_ids)
        length = self._length(kind, layer_type, at) if kind.trained_length else TRAINED
        cosines = Cosines(self.original, (position_ids, layer_type, x.new_empty(0)))
        first = Angles(at, kind, length, cosines, 0)
        if kind.emission.complex:
            return first
        first.other = Angles(at, kind, length, cosines, 1)
        return first, first.other

    def _length(self, kind: Kind, layer_type: str | None, at: Tensor) -> Length:
        trained = kind.trained_length
        if kind.switches and torch.compiler.is_compiling():
            return Length(ROWS, trained + 1, at.max() >= trained)
        seq_len = int(at.max()) + 1
        if kind.switches:
            return Length(ROWS, trained + (seq_len > trained))
        # As transformers does: the longest that was seen counts, until one fits the trained length again.
        longest = max(seq_len, self.longest[layer_type] if seq_len >= trained else trained)
        self.longest[layer_type] = longest
        if longest == trained:
            return Length(ROWS, trained)
        # Each length has frequencies of its own, so tables are many: they keep few rows, and none for one new token.
        return Length(min(seq_len, ROWS) if at.shape[-1] > 1 else 0, longest)


def _kinds(
    original: nn.Module, config: Any, functions: list[Apply], angles: str, name: str
) -> dict[str | None, list[Kind]]:
    """What an embedding does in layers of each type, or ValueError that says why it cannot be replaced."""
    refused = f"[replace_rotary] model: {type(original).__name__} ({name}) cannot be replaced: it "
    parameters = list(inspect.signature(type(original).forward).parameters)[1:]
    if parameters[:2] != ["x", "position_ids"]:
        raise ValueError(f"{refused}is called with ({', '.join(parameters)}), not with positions")
    state = [name for name in original.state_dict() if not name.endswith("inv_freq")]
    if state:
        raise ValueError(f"{refused}has numbers of its own in the model's state: {', '.join(state)}")
    types: list[Any] = [name[: -len("_inv_freq")] for name in dir(original) if name.endswith("_inv_freq")]
    types = [kind for kind in types if not kind.endswith("original") and not kind.endswith("long")]
    if not types and not hasattr(original, "inv_freq") and _known(config, None) is None:
        raise ValueError(f"{refused}has no frequencies inv_freq, and no config states them")
    kinds = {}
    for layer_type in types or [None]:
        emissions = emissions_of(_fresh(original, config), layer_type)
        if not emissions:
            raise ValueError(
                f"{refused}takes neither positions [batch, time] nor coordinates [axes, batch, time] or [time, axes]"
            )
        found = [_kind(original, config, functions, angles, layer_type, emission, refused) for emission in emissions]
        kinds[layer_type] = [kind for kind in found if kind is not None]
        if not kinds[layer_type]:
            raise ValueError(
                f"[replace_rotary] model: {type(original).__name__} ({name}) cannot be replaced: no function of the "
                "model turns pairs of a head by positions times its frequencies"
            )
    return kinds


def _kind(
    original: nn.Module,
    config: Any,
    functions: list[Apply],
    angles: str,
    layer_type: str | None,
    emission: Emission,
    refused: str,
) -> Kind | None:
    """What an embedding does with positions of one form; None if no function of the model turns by them."""
    known = _known(config, layer_type)
    scaling = None if known is None else known.scaling
    grows, switches = isinstance(scaling, _core.DynamicNtkScaling), isinstance(scaling, _core.LongRopeScaling)
    rope_type = getattr(original, "rope_type", "default")
    if not isinstance(rope_type, str):
        rope_type = rope_type.get(layer_type, " ".join(rope_type.values()))
    if ("dynamic" in rope_type) != grows or ("longrope" in rope_type) != switches:
        raise ValueError(f"{refused}changes with the length, as {rope_type}, otherwise than its config says")
    trained = scaling.trained_length if grows or switches else 0
    turns = {}
    for apply in functions:
        turn = turn_of(_fresh(original, config), layer_type, emission, apply, known, angles, trained)
        if turn is not None:
            turns[apply.key] = turn
    return Kind(emission, turns, grows, switches, trained, {}) if turns else None


def _fresh(original: nn.Module, config: Any) -> nn.Module:
    """A copy to try things on. Frequencies, or a table, that a cast has rounded are not what the model was trained
    with, and elsewhere nothing can be tried."""
    buffers = [buffer for buffer in original.buffers() if buffer.is_floating_point()]
    if all(buffer.dtype is torch.float32 and buffer.device.type == "cpu" for buffer in buffers):
        return copy.deepcopy(original)
    return type(original)(config)


def _known(config: Any, layer_type: str | None) -> _core.Rope | None:
    """What the config states for layers of this type, if it states anything that bearing reads."""
    if config is None:
        return None
    try:
        if layer_type is None:
            return _core.Rope.from_config(config)
        return _core.Rope.from_config(config, layer=config.layer_types.index(layer_type))
    except (ValueError, AttributeError):
        return None


def _functions(model: nn.Module) -> dict[tuple[str, str], Apply]:
    """All functions that the sources of a model's modules apply cosines with, by source and name."""
    homes = {type(module).__module__ for module in model.modules()}
    found = {}
    for home in sorted(homes):
        for name, function in vars(sys.modules[home]).items():
            apply = apply_of(name, getattr(function, "applies", function))
            if apply is not None:
                found[home, name] = apply
    return found


def _dispatch(home: str, name: str, apply: Apply) -> None:
    """Lets a function take Angles too. Other arguments go where they went: other models keep theirs."""
    if not hasattr(getattr(sys.modules[home], name), "applies"):
        setattr(sys.modules[home], name, taking_angles(apply))
