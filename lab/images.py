"""Images: encoders with places on two axes, trained on one grid of patches and asked about larger ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bearing
import bearing.torch as bt
import torch
from torch import Tensor, nn

from . import training
from .attending import through_pytorch
from .grids import OF_A_GRID, fitted, make, serving
from .measuring import measured
from .model import Blocks, place_of
from .pictures import PICTURES, SIDE
from .setting import Setting
from .task import Batch
from .timing import attention_ms, step_ms

GRID = 8  # patches a side in training
MULTIPLES = (1, 1.5, 2)  # of the side: 8, 12 and 16 patches
MEASURED = 8  # times as many patches as tokens of text: only one of an image is asked
METHODS = {"none": "places counted", "stretched": "places stretched to the trained grid"}
# Heo et al. 2024 (arXiv 2403.13298) give images this base, as a grid has few patches a side.
KEYS = {"rope_axial": "base=100,pairing=half"}


def settings(base: Setting, encodings: Sequence[str], seeds: Sequence[int]) -> list[Setting]:
    """Both pictures with each encoding, with places counted and stretched.

    Of the encodings those that serve images; all that do, if no other than "nope" is among them.
    """
    names = serving()
    wanted = [one for one in encodings if one.partition(":")[0] in names]
    if not set(wanted) - {"nope"}:
        wanted = names
    wanted = [f"{one}:{KEYS[one]}" if one in KEYS else one for one in wanted]
    of = base.replace(
        kind="encoder", length=GRID, grid=GRID, multiples=MULTIPLES, measured=MEASURED * base.measured, data=""
    )
    return [
        of.replace(task=task, encoding=one, method=method, seed=seed)
        for seed in seeds
        for task in PICTURES
        for one in wanted
        for method in METHODS
        if method == "none" or one not in ("nope", "cape_2d")  # which have no places, or their own
    ]


class ImageModel(nn.Module):
    """Patches to answers: [batch, patches, pixels] -> [batch, patches, answers]. The blocks are those of all models."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.trained, self.stretched = setting.grid, False
        width, longest = setting.d_model, math.ceil(setting.grid * max(setting.multiples))
        place = place_of(setting, setting.grid, longest)
        self.blocks = Blocks(setting, place, make)
        self.embed = nn.Linear(SIDE * SIDE, width)
        self.head = nn.Linear(width, PICTURES[setting.task].answers)
        generator = torch.Generator().manual_seed(setting.seed)
        for linear in (self.embed, self.head):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5, generator=generator)
            nn.init.zeros_(linear.bias)

    def forward(self, patches: Tensor) -> Tensor:
        x = self.embed(patches.to(self.embed.weight.device))
        return self.head(self.blocks(x, self.places(math.isqrt(patches.shape[1]))))

    def places(self, side: int) -> Tensor:
        """[2, 1, patches]: y and x, counted from 0, or such that the grid's edges are those of the trained one."""
        at = bt.window_positions(side, side).double()
        return (at + 0.5) * (self.trained / side) - 0.5 if self.stretched else at

    def clamp(self) -> None:
        self.blocks.clamp()

    def on(self, side: int, method: str) -> ImageModel:
        """A copy for images of that side, with what was learned."""
        made = copy.deepcopy(self)
        stretched = method == "stretched"
        fits = [isinstance(part, OF_A_GRID) for layer in made.blocks.positions.layers for part in layer.parts]
        made.stretched = stretched and not any(fits)
        if any(fits) and side != self.trained:
            for layer in made.blocks.positions.layers:
                layer.parts = nn.ModuleList(fitted(part, self.trained, side, stretched) for part in layer.parts)
        return made


def run(setting: Setting, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """A row: the setting's model, trained once for all methods, and measured on every grid."""
    if setting.method not in METHODS:
        raise ValueError(f"[images] method: must be one of {', '.join(METHODS)}, got {setting.method!r}")
    picture = PICTURES[setting.task]
    build = ImageModel if device == "cpu" else lambda of: through_pytorch(ImageModel(of), device)
    found = training.trained(setting.replace(method="none"), folder, build, lambda of: _batches(picture, of))
    random = training.generator(setting.seed, "measuring")
    measures: dict[str, Any] = {}
    beyond: dict[str, str] = {}
    for multiple in setting.multiples:
        side = round(setting.grid * multiple)
        model = found.model.on(side, setting.method).eval()
        try:
            measures[f"{multiple:g}"] = measured(model, picture, side, setting.measured, random)
        except (bearing.RangeError, bearing.ShapeError) as error:
            beyond[f"{multiple:g}"] = str(error)
    return training.row_of(setting, found, measures, beyond, _share(found.model, picture, setting))


def _batches(picture: Any, setting: Setting) -> Iterator[Batch]:
    """Training's images without end: the same for every encoding."""
    random = training.generator(setting.seed, "training")
    while True:
        yield picture.batch(random, setting.batch, setting.grid, True)


def _share(model: ImageModel, picture: Any, setting: Setting) -> float:
    """The share of a step that is attention with its encoding."""
    batch = picture.batch(training.generator(setting.seed, "timing"), setting.batch, setting.grid, False)
    at = model.places(setting.grid)
    attention = attention_ms(model.blocks, *batch.targets.shape, q_positions=at, k_positions=at)
    return min(1.0, attention / step_ms(model, batch, training.loss_of))
