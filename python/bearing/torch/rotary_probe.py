"""What a rotary embedding of transformers and the functions that apply it do, found by letting them turn unit vectors.

Models differ in which elements turn together, in the part of a head that turns, in the axes of their positions and in
the shape of their cosines, and no config states all of that. The matrix that a function applies does.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import _core
from .compiling import constant
from .encoding import of_head_dim, of_length, table_form, table_of
from .functional import rotate

ROWS = 2048  # of a table: rows for other positions are computed when they are needed
FAR = [0, 1, 5, 100]  # where the replacement is compared with its original
# Sines of measured angles are float32; at position 100 an angle is off by 100 roundings of a frequency at most.
TOLERANCE, FAR_TOLERANCE = 1e-6, 1e-4
REFUSALS = (
    IndexError,
    RuntimeError,
    TypeError,
    ValueError,
)  # what calls raise that are given what they do not take


class Emission(NamedTuple):
    """How a rotary embedding takes positions and gives cosines."""

    axes: int
    order: str  # of the positions' axes: "bt", "abt", "ta" or "bta"; a: coordinates, b: batch, t: time
    dims: int  # of cosines: 3 with a batch, 2 without
    width: int  # their last axis
    complex: bool  # cosines and sines as one

    def of(self, points: Tensor) -> Tensor:
        """Points [axes, time] of one sequence, as the embedding takes them."""
        return {
            "bt": points,
            "abt": points[:, None],
            "ta": points.t(),
            "bta": points.t()[None],
        }[self.order]

    def takes(self, position_ids: Tensor) -> bool:
        """Whether a call's positions have the axes of this way."""
        shape = position_ids.shape
        if self.order == "bt":
            return len(shape) <= 2
        if self.order == "abt":
            return len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, self.axes))
        return len(shape) == len(self.order) and shape[-1] == self.axes

    def at(self, position_ids: Tensor) -> Tensor:
        """Positions as bearing takes them: [time], [batch, time] or [axes, batch, time]."""
        if self.order == "bt":
            return position_ids[0] if position_ids.dim() == 2 and position_ids.shape[0] == 1 else position_ids
        if self.order == "abt":
            return position_ids.expand(self.axes, -1, -1)
        return position_ids.t()[:, None] if self.order == "ta" else position_ids.permute(2, 0, 1)


class Apply(NamedTuple):
    """A function that applies cosines and sines: its parameters."""

    function: Callable[..., Any]
    key: str
    names: list[str]
    turned: list[str]  # those that are turned
    marks: list[str]  # those that are cosines and sines, in the function's order
    axis: int | None  # the default of unsqueeze_dim

    def layout(self, dims: int, axis: int) -> str:
        """The layout of what is turned, where cosines with so many axes get one more."""
        return "bhtd" if (axis if axis >= 0 else axis + dims + 1) <= dims - 2 else "bthd"


class Turn(NamedTuple):
    """What one function does with one embedding's cosines."""

    table: str  # of heads of head_dim
    head_dim: int
    partial: bool  # whether heads may be wider: what follows, or precedes, passes through
    deinterleaves: bool  # whether neighbours turn together but are returned in halves
    layout: str

    @property
    def axes(self) -> int:
        """Of positions, the first ones: those behind turn nothing."""
        return _axes_of(self.table)

    def table_of(self, head_dim: int) -> str | None:
        """The table for heads of so many dimensions."""
        if head_dim == self.head_dim or not self.partial:
            return self.table if head_dim == self.head_dim else None
        return of_head_dim(self.table, head_dim)


@constant
def _axes_of(table: str) -> int:
    return table_of(table, torch.float32).frequencies.axes


def deinterleaved(x: Tensor) -> Tensor:
    """Neighbours in halves: (0, 1, 2, 3, …) as (0, 2, …, 1, 3, …)."""
    return x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


def apply_of(name: str, function: Any) -> Apply | None:
    """The function's parameters, if it looks like one that applies cosines and sines."""
    if "rot" not in name or not inspect.isfunction(function):
        return None
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    marks = [name for name in names if name in ("cos", "sin", "freqs_cis")]
    if marks not in (["cos", "sin"], ["sin", "cos"], ["freqs_cis"]) or names.index(marks[0]) not in (
        1,
        2,
    ):
        return None
    axis = parameters["unsqueeze_dim"].default if "unsqueeze_dim" in names else None
    key = f"{function.__module__}.{function.__qualname__}"
    return Apply(function, key, names, names[: names.index(marks[0])], marks, axis)


def emit(
    module: nn.Module,
    position_ids: Tensor,
    layer_type: str | None,
    like: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Cosines and sines in the embedding's order, or both as one complex tensor; of a tensor's type, or float32."""
    x = torch.empty(0, dtype=torch.float32) if like is None else like
    found = module(x, position_ids) if layer_type is None else module(x, position_ids, layer_type)
    return found if isinstance(found, tuple) else (found,)


def emissions_of(module: nn.Module, layer_type: str | None) -> list[Emission]:
    """The ways in which the embedding takes positions, found by trying; none if in no way that is known here.

    One, except where coordinates come last: such an embedding may take two of them and three, as its model has them.
    """
    ways = [(axes, "abt", (axes, 6, 5)) for axes in (3, 2, 4)]
    for axes, order, shape in [*ways, (1, "bt", (6, 5))]:
        found = _emission(module, layer_type, axes, order, shape)
        if found is not None:
            return [found]
    last = [(2, "ta", (5, 2)), (3, "ta", (5, 3)), (2, "bta", (6, 5, 2)), (3, "bta", (6, 5, 3))]
    return [found for way in last if (found := _emission(module, layer_type, *way)) is not None]


def _emission(
    module: nn.Module, layer_type: str | None, axes: int, order: str, shape: tuple[int, ...]
) -> Emission | None:
    try:
        cos = emit(module, torch.ones(shape, dtype=torch.long), layer_type)[0]
    except REFUSALS:
        return None
    if cos.shape[:-1] in [(5,), (1, 5)] if order == "ta" else cos.shape[:-1] == (6, 5):
        return Emission(axes, order, cos.dim(), cos.shape[-1], cos.is_complex())
    return None


def turn_of(
    module: nn.Module,
    layer_type: str | None,
    emission: Emission,
    apply: Apply,
    known: _core.Rope | None,
    angles: str,
    trained_length: int,
) -> Turn | None:
    """What the function does with the embedding's cosines; None if it is no rotation, or not by the frequencies of
    the embedding. known: what the config states, if anything; trained_length: where frequencies start to change."""
    one = torch.eye(emission.axes, dtype=torch.long)
    near = emission.of(torch.cat([one, torch.ones_like(one[:, :1]), torch.zeros_like(one[:, :1])], 1))
    cosines = emit(module, near, layer_type)
    for layout, rotary_dim, head_dim in _shapes(emission, apply):
        matrices = _matrices(apply, layout, head_dim, cosines)
        for geometry in _geometries(rotary_dim, head_dim) if matrices is not None else ():
            measured = _measure(matrices, geometry)
            rope = measured and _rope(module, layer_type, geometry, *measured, known, trained_length)
            if rope:
                deinterleaves = not torch.equal(geometry.into, geometry.out)
                table = table_form(rope, ROWS, angles, trained_length)
                turn = Turn(table, head_dim, head_dim > rotary_dim, deinterleaves, layout)
                if _agrees(module, layer_type, emission, apply, turn, trained_length):
                    return turn
    return None


class Geometry(NamedTuple):
    """Which elements turn: pairs [2, pairs] as they come in and as they come out."""

    head_dim: int
    pairing: str
    begin: int
    into: Tensor
    out: Tensor


def _shapes(emission: Emission, apply: Apply) -> Iterator[tuple[str, int, int]]:
    layouts = ["bhtd", "bthd"] if apply.axis is None else [apply.layout(emission.dims, apply.axis)]
    for layout, turned, more in itertools.product(layouts, (emission.width, 2 * emission.width), (4, 0)):
        if turned % 2 == 0:
            yield layout, turned, turned + more


def _geometries(rotary_dim: int, head_dim: int) -> Iterator[Geometry]:
    halves = torch.arange(rotary_dim).reshape(2, -1)
    neighbours = torch.arange(rotary_dim).reshape(-1, 2).t()
    for begin in sorted({0, head_dim - rotary_dim}):
        yield Geometry(head_dim, "half", begin, halves + begin, halves + begin)
        yield Geometry(head_dim, "interleaved", begin, neighbours + begin, neighbours + begin)
        yield Geometry(head_dim, "interleaved", begin, neighbours + begin, halves + begin)


def _matrices(apply: Apply, layout: str, head_dim: int, cosines: tuple[Any, ...]) -> Tensor | None:
    """The matrices that the function applies, [time, out, in]; None if it takes no such heads."""
    time = cosines[0].shape[-2]
    heads = torch.eye(head_dim, dtype=torch.float32)[None, :, None].expand(-1, -1, time, -1)
    x = heads if layout == "bhtd" else heads.transpose(1, 2)
    try:
        found = apply.function(*(x for _ in apply.turned), *cosines)
        found = found if isinstance(found, Tensor) else found[-1]
    except REFUSALS:
        return None
    if found.shape != x.shape:
        return None
    return found[0].permute(1, 2, 0) if layout == "bhtd" else found[0].transpose(1, 2)


def _measure(matrices: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor, float] | None:
    """Frequencies [pairs], the axis of each pair and the attention factor, if that is what the matrices do."""
    (u, v), (u_out, v_out) = geometry.into, geometry.out
    cos, sin = matrices[:, u_out, u].double(), matrices[:, v_out, u].double()
    expected = torch.eye(geometry.head_dim, dtype=torch.float64).repeat(len(matrices), 1, 1)
    expected[:, torch.cat([u_out, v_out]), :] = 0
    expected[:, u_out, u] = expected[:, v_out, v] = cos
    expected[:, v_out, u], expected[:, u_out, v] = sin, -sin
    if not torch.allclose(matrices.double(), expected, rtol=0, atol=TOLERANCE):
        return None
    angles = torch.atan2(sin, cos)[:-2]  # the last two are at (1, …, 1) and at 0
    axis = angles.abs().argmax(0)
    found = angles.gather(0, axis[None])[0]
    alone = angles.abs().sum(0) - found.abs() <= TOLERANCE
    return (found, axis, cos[-1].mean().item()) if alone.all() else None


def _rope(
    module: nn.Module,
    layer_type: str | None,
    geometry: Geometry,
    found: Tensor,
    axis: Tensor,
    factor: float,
    known: _core.Rope | None,
    trained_length: int,
) -> _core.Rope | None:
    """The spec of measured frequencies: as the config states it if it does, else with those in the embedding."""
    own = getattr(module, f"{layer_type}_inv_freq" if layer_type else "inv_freq", None)
    frequencies = None if own is None else _nearest(own.flatten().double(), found)
    if own is not None and frequencies is None:
        return None
    factor = _factor(module, layer_type, factor)
    rotary_dim = 2 * len(found)
    part = _core.RotaryPart(where="last" if geometry.begin else "first")
    if known is not None:
        numbers = _core.RopeTable(known, 1, seq_len=trained_length).frequencies
        theta = torch.as_tensor(numbers.inv_freq).double()
        if (
            theta.shape == found.shape
            and torch.allclose(theta, found, rtol=0, atol=TOLERANCE)
            and tuple(numbers.axis) == tuple(axis.tolist())
        ):
            more = {}
            if not math.isclose(numbers.attention_factor, factor, abs_tol=TOLERANCE):
                more = {"attention_factor": known.attention_factor * factor / numbers.attention_factor}
            return known.replace(
                head_dim=geometry.head_dim,
                rotary_dim=rotary_dim,
                pairing=geometry.pairing,
                part=part,
                **more,
            )
    if frequencies is None or trained_length:
        return None
    return _core.Rope(
        head_dim=geometry.head_dim,
        rotary_dim=rotary_dim,
        pairing=geometry.pairing,
        part=part,
        scaling=_core.ExplicitFrequencies(inv_freq=frequencies),
        axes=_core.RopeAxes.listed(axis.tolist()) if axis.any() else _core.RopeAxes(),
        attention_factor=factor,
    )


def _factor(module: nn.Module, layer_type: str | None, found: float) -> float:
    """The attention factor: as the embedding states it, if that is what was measured."""
    own = getattr(module, f"{layer_type}_attention_scaling" if layer_type else "attention_scaling", None)
    for stated in (1.0, own):
        if isinstance(stated, (int, float)) and math.isclose(stated, found, abs_tol=TOLERANCE):
            return float(stated)
    return found


def _nearest(own: Tensor, found: Tensor) -> list[float] | None:
    """The embedding's own frequencies for those that were measured; None if it lacks one."""
    nearest = (own - found.abs()[:, None]).abs().min(1)
    if (nearest.values > TOLERANCE).any():
        return None
    return torch.copysign(own[nearest.indices], found).tolist()


def _agrees(
    module: nn.Module,
    layer_type: str | None,
    emission: Emission,
    apply: Apply,
    turn: Turn,
    trained_length: int,
) -> bool:
    """Whether bearing turns unit vectors as the function does, farther away and past the trained length."""
    end = trained_length or getattr(module, "max_positions", FAR[-1] + 1)  # of a table of cosines
    far = torch.tensor(FAR).clamp(max=end - 1)
    sequences = [(far, turn.table)]
    if trained_length:
        longer = torch.tensor([0, 1, trained_length, 2 * trained_length - 1])
        sequences.append((longer, of_length(turn.table, ROWS, 2 * trained_length)))
    for points, table in sequences:
        at = emission.of(points * torch.tensor([1, 2, 3, 1])[: emission.axes, None])
        expected = _matrices(apply, turn.layout, turn.head_dim, emit(module, at, layer_type))
        units = torch.eye(turn.head_dim, dtype=torch.float32)[None, :, None].expand(-1, -1, len(points), -1)
        got = rotate(units, rope=table, positions=first_axes(emission.at(at), turn.axes))
        got = deinterleaved(got) if turn.deinterleaves else got
        allowed = FAR_TOLERANCE * max(1, int(points.max()) / FAR[-1])
        if expected is None or not torch.allclose(expected, got[0].permute(1, 2, 0), rtol=0, atol=allowed):
            return False
    return True


def first_axes(at: Tensor, axes: int) -> Tensor:
    """Positions [axes, batch, time] without the axes that turn nothing; others as they are."""
    return at[:axes] if at.dim() == 3 and at.shape[0] > axes else at
