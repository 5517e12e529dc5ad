"""Encodings of places on two axes: how each stands in a model of images, and what becomes of it on another grid."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import bearing
import bearing.torch as bt
import torch
from bearing import _core
from torch import Tensor, nn

from .positions import WITH_OTHER_COORDINATES, Place, Positions

MOVED = bearing.CapeAugmentation(max_global_shift=0.5, max_local_shift=0.5, max_global_scale=1.4)  # CAPE's, in training


def serving() -> list[str]:
    """The encodings of the catalog that take places on two axes, and none at all."""
    found = [one.name for one in bearing.catalog() if one.name != "nope" and _specimen(one.name).width]
    # Images here have no class token, and without one BEiT's bias is Swin's. They are no frames of a video or parts of a
    # text, which others count too.
    return ["nope", *(name for name in found if name not in ("beit", *WITH_OTHER_COORDINATES))]


def _specimen(name: str) -> bearing.Specimen:
    return bearing.Specimen(name, heads=2, dim=8, length=16)


class GridLayer(nn.Module):
    """An encoding in one layer: a module, or one for each axis."""

    def __init__(self, parts: Sequence[nn.Module], heads: int) -> None:
        super().__init__()
        self.parts, self.heads = nn.ModuleList(parts), heads

    def encodings(self, x: Tensor) -> list[bt.Encoding]:
        """For the layer's input, at which no encoding of a grid looks."""
        return [one.encoding(**self._asked(one)) for one in self.parts]

    def _asked(self, part: nn.Module) -> dict[str, int]:
        return {"heads": self.heads} if "heads" in inspect.signature(part.encoding).parameters else {}


class Cape2d(nn.Module):
    """CAPE adds waves at places of its own: each image spans from −1 to 1, whatever its grid, and training moves it."""

    def __init__(self, spec: bearing.Cape2d) -> None:
        super().__init__()
        self.made = spec.replace(augmentation=MOVED)
        self.form = bt.encoding_of(bearing.Cape2dInputs(self.made))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x [batch, patches, dim]; positions are those of the grid."""
        side = int(positions.max()) + 1
        seed = int(torch.randint(2**62, ())) if self.training else None
        batch = len(x) if self.training else 1
        return bt.add(
            self.form, x, torch.as_tensor(bearing.cape_positions(self.made, side, side, batch=batch, training=seed))
        )


def make(encoding: str, place: Place, layers: int) -> Positions:
    """As lab.positions has it, for a grid: the place's lengths count patches a side."""
    name = encoding.partition(":")[0]
    if name not in serving():
        raise ValueError(f"[lab] encoding: must be one of {', '.join(serving())}, got {encoding!r}")
    nothing = [GridLayer((), place.heads) for _ in range(layers)]
    if name == "nope":
        return Positions(None, nothing, None)
    of_input = "input" in _specimen(name).sites
    spec = _spec(encoding, place.heads, place.d_model if of_input else place.dim, place.trained)
    if of_input:
        return Positions(_module(spec, place), nothing, None)
    if hasattr(spec, "window"):
        window = spec.window.replace(height=place.trained, width=place.trained)
        spec = spec.replace(window=window, trained_height=place.trained, trained_width=place.trained)
    elif hasattr(spec, "height"):
        spec = spec.replace(height=place.trained, width=place.trained)
    # An encoding of one axis is taken once for each.
    specs = [spec.replace(axis=axis) for axis in range(2)] if hasattr(spec, "axis") else [spec]
    made = [GridLayer([_module(one, place) for one in specs], place.heads) for _ in range(layers)]
    return Positions(None, made, None)


def _spec(encoding: str, heads: int, dim: int, side: int) -> Any:
    """The catalog's own spec for such a model, or with the keys that are given."""
    specs = {name: spec for name, _, spec in _core._named(heads, dim, side * side)}
    return specs[encoding] if encoding in specs else bearing.encoding(encoding, heads=heads, dim=dim)


def _module(spec: Any, place: Place) -> nn.Module:
    """What learns the spec's numbers."""
    if isinstance(spec, bearing.Rope):
        return bt.Rope(spec, place.longest, seq_len=place.longest)
    if isinstance(spec, bearing.Cape2d):
        return Cape2d(spec)
    cls = getattr(bt, type(spec).__name__)
    sizes = {"heads": place.heads, "dim": place.dim}
    asked = inspect.signature(cls).parameters
    return cls(spec, **{name: size for name, size in sizes.items() if name in asked})


OF_A_GRID = (bt.Swin, bt.SwinV2, bt.Sam, bt.T5Axis)  # these count offsets of patches; others take places as given


def fitted(part: nn.Module, trained: int, side: int, stretched: bool) -> nn.Module:
    """One of those for a grid of another side, with what it learned on the trained one.

    A bias of Swin or Segment Anything has a number for each offset of its grid. Stretched, its tables are resampled, as
    those models' users do; else it stays, and has none for larger offsets. Swin V2 computes the table of any grid: as
    its authors have it, or stretched as if it had been trained there. T5's bias on an axis slows its offsets down.
    """
    spec = part.spec
    if isinstance(part, bt.SwinV2):
        of = side if stretched else trained
        window = spec.replace(height=side, width=side)
        made = bt.SwinV2(bearing.SwinV2(window=window, trained_height=of, trained_width=of), part.heads)
        made.load_state_dict(part.state_dict())
        return made
    if not stretched:
        return part
    if isinstance(part, bt.T5Axis):
        made = bt.T5Axis(spec.replace(multiplier=trained / side), part.heads)
        made.load_state_dict(part.state_dict())
        return made
    return _resampled(part, spec.replace(height=side, width=side))


@torch.no_grad()
def _resampled(part: bt.Swin | bt.Sam, spec: Any) -> nn.Module:
    """With tables for the spec's grid: offsets go from 1 − side to side − 1."""
    before, after = 2 * part.spec.height - 1, 2 * spec.height - 1
    made: nn.Module
    if isinstance(part, bt.Swin):
        made = bt.Swin(spec, part.heads)
        tables = {"table": bearing.resize_grid(part.table.numpy(), (before, before), (after, after), how="cubic")}
    else:
        made = bt.Sam(spec, part.dim)
        names = ("height_table", "width_table")
        tables = {name: bearing.resize(getattr(part, name).numpy(), after, how="linear") for name in names}
    for name, table in tables.items():
        getattr(made, name).copy_(torch.as_tensor(table))
    return made
