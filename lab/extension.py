"""Longer context for a RoPE model that is trained: each method without and with tuning at the longer length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bearing
import bearing.torch as bt
import torch
from torch import nn

from . import training
from .attending import through_pytorch
from .following import Following
from .longrope import searched, stretched
from .measuring import longest, measure
from .model import Transformer, place_of
from .positions import Layer, Place
from .self_extend import SelfExtended, group_for
from .setting import Setting
from .tasks import TASKS
from .timing import attention_share
from .variants import Packed, RandomPositions

FACTORS = (2, 4, 8, 16)
TUNED_STEPS = 10  # tuning takes one in so many of training's steps
TUNED_RATE = 0.3  # of training's learning rate
WINDOW = 4  # Self-Extend's window is one part in so many of the trained length
SEARCHED = 8192  # tokens on which each of LongRoPE's candidates is tried


class Method(NamedTuple):
    """A way to extend a model. by_factor: it depends on how much longer the context is to be, without tuning too."""

    title: str
    source: str
    by_factor: bool = True
    tuned: bool = True  # whether it is tried with tuning


METHODS: dict[str, Method] = {
    "none": Method("as trained", "Su et al. 2021, arXiv 2104.09864", by_factor=False),
    "linear": Method("position interpolation", "Chen et al. 2023, arXiv 2306.15595"),
    "ntk": Method("NTK-aware", "bloc97 2023, r/LocalLLaMA"),
    "dynamic_ntk": Method("dynamic NTK", "emozilla 2023, r/LocalLLaMA", by_factor=False),
    "yarn": Method("YaRN", "Peng et al. 2023, arXiv 2309.00071"),
    "llama3": Method("Llama 3.1's scaling", "Llama team 2024, arXiv 2407.21783"),
    "longrope": Method("LongRoPE, searched", "Ding et al. 2024, arXiv 2402.13753"),
    "self_extend": Method("Self-Extend", "Jin et al. 2024, arXiv 2401.01325", tuned=False),
    "dropped": Method("RoPE dropped", "Gelberg et al. 2025, arXiv 2512.12167", by_factor=False),
}

VARIANTS = ("whole", "random", "packed")
VARIED = ("rope", "sinusoidal", "alibi")  # of which variants are trained: one of each site


def settings(base: Setting, encodings: Sequence[str], seeds: Sequence[int]) -> list[Setting]:
    """Every method without tuning, and with it where it is trained on at that length; then the variants of training.

    Of the encodings only RoPEs without a scaling can be extended, and those of VARIED have variants: "rope" itself, and
    all of VARIED, if none such is named.
    """
    ropes = [one for one in encodings if one.partition(":")[0] == "rope"] or ["rope"]
    varied = [one for one in encodings if one in VARIED] or VARIED
    found = []
    for seed in seeds:
        for one in ropes:
            found += _methods(base.replace(encoding=one, seed=seed))
        found += [base.replace(encoding=one, seed=seed, variant=variant) for one in varied for variant in VARIANTS]
    return list(dict.fromkeys(found))


def _methods(of: Setting) -> list[Setting]:
    tuned_steps = max(1, of.steps // TUNED_STEPS)
    found = []
    for name, method in METHODS.items():
        found += [of.replace(method=name, factor=f) for f in (FACTORS if method.by_factor else (1,))]
        if method.tuned:
            lengths = (1,) if name == "dropped" else FACTORS
            found += [of.replace(method=name, factor=f, tuned_steps=tuned_steps) for f in lengths]
    return found


def build(setting: Setting) -> nn.Module:
    """The setting's model, untrained, with positions given as its variant says."""
    if setting.variant not in VARIANTS:
        raise ValueError(f"[extension] variant: must be one of {', '.join(VARIANTS)}, got {setting.variant!r}")
    model = training.build(setting)
    if setting.variant == "random":
        return RandomPositions(model, setting.seed, TASKS[setting.task].time(longest(setting)))
    return Packed(model, setting.seed) if setting.variant == "packed" else model


def run(setting: Setting, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """A row: the base model, trained once for all methods, extended, tuned if the setting says so, and measured."""
    on_device = build if device == "cpu" else lambda of: through_pytorch(build(of), device)
    base = training.trained(base_of(setting), folder, on_device)
    share = attention_share(training.build(setting), _sample(setting), training.loss_of)
    extended = Extension(setting)
    found = base._replace(model=extended.apply(base.model))
    if setting.tuned_steps:
        found = _tuned(found.model, setting)
    random = training.generator(setting.seed, "measuring")
    measures, beyond = measure(found.model, TASKS[setting.task], setting, random)
    return training.row_of(setting, found, measures, beyond, share) | {"extension": extended.found}


def base_of(setting: Setting) -> Setting:
    """The setting of the training that all methods of a seed and variant begin from."""
    return setting.replace(method="none", factor=1, tuned_steps=0)


def _sample(setting: Setting) -> Any:
    random = training.generator(setting.seed, "timing")
    return TASKS[setting.task].batch(random, setting.batch, setting.length, False)


def _tuned(model: nn.Module, setting: Setting) -> training.Trained:
    """Trained on at the longer length, with as many tokens a step as before: a dropped RoPE at the trained length."""
    tuned = setting.replace(
        length=round(setting.length * setting.factor),
        batch=max(1, round(setting.batch / setting.factor)),
        learning_rate=TUNED_RATE * setting.learning_rate,
        warmup=max(1, setting.tuned_steps // 10),
    )
    batches = training.batches(TASKS[setting.task], tuned, "tuning")
    return training.train(model, batches, tuned, setting.tuned_steps)


class Extension:
    """A setting's method, and what it found for the model that it was applied to."""

    def __init__(self, setting: Setting) -> None:
        if setting.method not in METHODS:
            raise ValueError(f"[extension] method: must be one of {', '.join(METHODS)}, got {setting.method!r}")
        if METHODS[setting.method].by_factor and setting.factor <= 1:
            raise ValueError(f"[extension] factor: must be above 1 for {setting.method}, got {setting.factor:g}")
        self.setting = setting
        self.task = TASKS[setting.task]
        self.trained = self.task.time(setting.length)  # in tokens, as the longest
        self.place: Place = place_of(setting, self.trained, self.task.time(longest(setting)))
        self.found: dict[str, Any] = {}

    def apply(self, model: nn.Module) -> nn.Module:
        """A copy of the model, extended."""
        model = copy.deepcopy(model)
        name = self.setting.method
        if name == "none":
            return model
        if name == "dropped":
            return self._with(model, lambda: None)
        rope = model.blocks.positions.layers[0].module.spec
        if name == "self_extend":
            return self._self_extended(model, rope)
        return self._rescaled(model, self._scaled(model, rope))

    def _scaled(self, model: nn.Module, rope: bearing.Rope) -> bearing.Rope:
        factor, trained = float(self.setting.factor), self.trained
        if self.setting.method == "longrope":
            random = training.generator(self.setting.seed, "longrope")
            divisors = searched(rope, factor, trained, self._loss_on_text(model), random)
            self.found["divisors"] = [round(one, 6) for one in divisors]
            return stretched(rope, divisors, trained, factor)
        scalings: dict[str, Callable[[], Any]] = {
            "linear": lambda: bearing.LinearScaling(factor=factor),
            "ntk": lambda: bearing.NtkScaling(factor=factor),
            # With a factor of 1 the base grows by the sequence's length over the trained one, and by nothing else.
            "dynamic_ntk": lambda: bearing.DynamicNtkScaling(factor=1, trained_length=trained),
            "yarn": lambda: bearing.YarnScaling(factor=factor, trained_length=trained),
            "llama3": lambda: bearing.Llama3Scaling(factor=factor, trained_length=trained),
        }
        return rope.replace(scaling=scalings[self.setting.method]())

    def _rescaled(self, model: nn.Module, rope: bearing.Rope) -> nn.Module:
        if Following.follows(rope) and self.setting.method == "dynamic_ntk":
            return self._with(model, lambda: Following("RotaryRows", rope))
        return self._with(model, lambda: bt.Rope(rope, self.place.longest, seq_len=self.place.longest))

    def _with(self, model: nn.Module, encoding: Callable[[], nn.Module | None]) -> nn.Module:
        layers = model.blocks.positions.layers
        for i in range(len(layers)):
            layers[i] = Layer(encoding(), self.place)
        return model

    def _self_extended(self, model: nn.Module, rope: bearing.Rope) -> nn.Module:
        window = max(1, self.trained // WINDOW)
        longer = self.task.time(round(self.setting.length * self.setting.factor))
        group = group_for(longer, self.trained, window)
        self.found |= {"group": group, "window": window}
        turn = bt.Rope(rope, self.place.longest, seq_len=self.place.longest)
        for block in model.blocks.blocks:
            block.attention = SelfExtended(block.attention, turn, group, window)
        return self._with(model, lambda: None)

    def _loss_on_text(self, model: Transformer) -> Callable[[bearing.Rope], float]:
        """The mean loss of the longer rows that LongRoPE's search looks at, which come from what is trained on."""
        length = round(self.setting.length * self.setting.factor)
        size = max(1, SEARCHED // self.task.time(length))
        batch = self.task.batch(training.generator(self.setting.seed, "searching"), size, length, True)
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        model = copy.deepcopy(model).eval()

        @torch.no_grad()
        def loss(rope: bearing.Rope) -> float:
            return float(training.loss_of(self._rescaled(model, rope)(tokens), targets))

        return loss
