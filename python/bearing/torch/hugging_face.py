"""Hugging Face models with bearing's rotation in place of their own."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .. import _core
from . import ops
from .encoding import table_of
from .functional import check_device
from .rotary_probe import ROWS, Apply, Emission, Turn, apply_of, deinterleaved, emission_of, emit, turn_of

Model = TypeVar("Model", bound=nn.Module)

FEW = 2**15  # numbers, of some tokens: they fit the nearest caches


def replace_rotary(model: Model, *, angles: str = "as_float32") -> Model:
    """Gives a model of ``transformers`` bearing's rotary embedding, in place; returns the model.

    angles: "as_float32" keeps to the float32 order of operations that the model was trained with, so that logits are
    the same up to rounding; "exact" has each cosine and sine rounded once, which is better far into a sequence. Queries
    and keys are turned in one pass each, in float32 for bfloat16 and float16. Works in training, with caches and
    ``generate``, and under ``torch.compile`` where the model itself does.

    Serves whatever turns pairs by position times frequency: heads in halves or by neighbours, whole or in part, one
    embedding for each type of layers, several coordinates, vision towers. What an embedding does is measured on unit
    vectors, and compared with bearing, before it is replaced: if one is anything else, ValueError names it and says
    why, and the model is as it was. :func:`restore_rotary` undoes it.
    """
    found = [(name, module) for name, module in model.named_modules() if "Rotary" in type(module).__name__]
    found = [(name, module) for name, module in found if not isinstance(module, RotaryEmbedding)]
    if not found:
        raise ValueError(
            f"[replace_rotary] model: must have a rotary embedding as a module of its own, {type(model).__name__} has none"
        )
    functions = _functions(model)
    different = list({apply.key: apply for apply in functions.values()}.values())
    replacements = [(name, RotaryEmbedding(module, different, angles, name)) for name, module in found]
    for name, replacement in replacements:
        model.set_submodule(name, replacement)
    for (home, name), apply in functions.items():
        _dispatch(home, name, apply)
    return model


def restore_rotary(model: Model) -> Model:
    """Gives a model its own rotary embeddings back, in place; returns the model."""
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, RotaryEmbedding)]
    for name, module in found:
        model.set_submodule(name, module.original)
    return model


class Cosines:
    """A model's own cosines and sines, computed when something asks for them."""

    def __init__(self, embedding: nn.Module, given: tuple[Any, ...]) -> None:
        self.embedding = embedding
        self.given = given
        self.found: tuple[Tensor, ...] | None = None

    def __getitem__(self, place: int) -> Tensor:
        if self.found is None:
            self.found = emit(self.embedding, *self.given)
        return self.found[place]


class Angles:
    """What the replacement gives in place of cosines or sines: positions, and how each function is to turn by them.

    A model may put the tokens in another order, as Qwen2.5-VL's windows do: then positions are. Whatever else it does
    with its cosines gets them as they are, from ``cosines``.
    """

    def __init__(
        self, at: Tensor, kind: Kind, length: Length, cosines: Cosines, place: int, rows: Tensor | None = None
    ) -> None:
        moved = at if rows is None or rows.dim() != 1 else at[..., rows]
        self.at = None if rows is not None and rows.dim() != 1 else moved
        self.original = at
        self.kind = kind
        self.length = length
        self.cosines = cosines
        self.place = place
        self.rows = rows
        self.other: Angles | None = None

    @functools.cached_property
    def one(self) -> Tensor | int:
        """A single position as a number, which calls take sooner; others as they are."""
        return int(self.at) if self.at.numel() == 1 and not self.at.is_floating_point() else self.at

    def goes_with(self, other: Any) -> bool:
        """Whether the other has the sines of these cosines."""
        if other is self.other:
            return True
        if not isinstance(other, Angles) or other.cosines is not self.cosines or (self.place, other.place) != (0, 1):
            return False
        if self.rows is None or other.rows is None or not torch.equal(self.rows, other.rows):
            return False
        self.other = other
        return True

    def reshape(self, *shape: int) -> Any:
        """The tokens on other axes; or as the model's own, if that is more than that."""
        rows = self._rows()
        if rows is None or shape[-1] != -1 or math.prod(shape[:-1]) != rows.numel():
            return self.own().reshape(*shape)
        return self._moved(rows.reshape(shape[:-1]))

    def __getitem__(self, index: Any) -> Any:
        rows = self._rows()
        if rows is None or not isinstance(index, tuple) or len(index) != rows.dim() + 1:
            return self.own()[index]
        whole = isinstance(index[-1], slice) and index[-1] == slice(None)
        return self._moved(rows[index[:-1]]) if whole else self.own()[index]

    def _rows(self) -> Tensor | None:
        """Which row of the cosines is where, if tokens are all that they have rows for."""
        if self.rows is not None or self.kind.emission.dims != 2:
            return self.rows
        return torch.arange(self.original.shape[-1])

    def _moved(self, rows: Tensor) -> Angles:
        return Angles(self.original, self.kind, self.length, self.cosines, self.place, rows)

    def own(self) -> Tensor:
        """The model's own cosines or sines."""
        found = self.cosines[self.place]
        return found if self.rows is None else found[self.rows]

    def to(self, *args: Any, **given: Any) -> Any:
        """Itself for a device, which is the CPU; of another type, the model's own."""
        kept = not given and len(args) == 1 and isinstance(args[0], (torch.device, str))
        return self if kept else self.own().to(*args, **given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.own(), name)

    def __neg__(self) -> Tensor:
        return -self.own()

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(
            *(_own(x) for x in args),
            **{name: _own(x) for name, x in (kwargs or {}).items()},
        )


def _own(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_own(one) for one in x]
    return x.own() if isinstance(x, Angles) else x


class Kind(NamedTuple):
    """What a rotary embedding does in the layers of one type."""

    emission: Emission
    turns: dict[str, Turn]
    grows: bool  # dynamic NTK, past the trained length
    switches: bool  # LongRoPE, past the trained length
    trained_length: int
    plans: dict[Any, Plan]


class Length(NamedTuple):
    """What a table must serve, where that depends on the sequence."""

    rows: int
    seq_len: int
    long: Tensor | None = None  # in a compiled graph: whether the trained length is passed, and by which seq_len

    def table(self, of: str, trained_length: int) -> str:
        """The table that serves it, of one that serves the trained length."""
        rows = of.replace(f'"length": {ROWS},', f'"length": {self.rows},')
        return rows.replace(f'"seq_len": {trained_length}}}', f'"seq_len": {self.seq_len}}}')


TRAINED = Length(ROWS, 0)  # what tables serve as they are


class RotaryEmbedding(nn.Module):
    """Stands in for a model's rotary embedding. ``original`` is what it replaced."""

    def __init__(self, original: nn.Module, functions: list[Apply], angles: str, name: str = "") -> None:
        super().__init__()
        self.kinds = _kinds(original, functions, angles, name)
        self.longest = {layer_type: kind.trained_length for layer_type, kind in self.kinds.items()}
        self.original = original

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        """What attention layers hand on as cos and sin, or as one complex tensor."""
        kind = self.kinds[layer_type]
        at = kind.emission.at(position_ids)
        length = self._length(kind, layer_type, at) if kind.trained_length else TRAINED
        cosines = Cosines(self.original, (position_ids, layer_type, x.new_empty(0)))
        cos = Angles(at, kind, length, cosines, 0)
        if kind.emission.complex:
            return cos
        cos.other = Angles(at, kind, length, cosines, 1)
        return cos, cos.other

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
        # One new token needs one row, which no table keeps.
        return Length(seq_len if at.shape[-1] > 1 else 1, longest)


def _kinds(original: nn.Module, functions: list[Apply], angles: str, name: str) -> dict[str | None, Kind]:
    """What an embedding does in layers of each type, or ValueError that says why it cannot be replaced."""
    refused = f"[replace_rotary] model: {type(original).__name__} ({name}) cannot be replaced: it "
    parameters = list(inspect.signature(type(original).forward).parameters)[1:]
    if parameters[:2] != ["x", "position_ids"]:
        raise ValueError(f"{refused}is called with ({', '.join(parameters)}), not with positions")
    if next(original.parameters(), None) is not None:
        raise ValueError(f"{refused}has parameters, whose gradients would be lost")
    types: list[Any] = [name[: -len("_inv_freq")] for name in dir(original) if name.endswith("_inv_freq")]
    types = [kind for kind in types if not kind.endswith("original") and not kind.endswith("long")]
    if not types and not hasattr(original, "inv_freq"):
        raise ValueError(f"{refused}has no frequencies inv_freq")
    kinds = {}
    for layer_type in types or [None]:
        known = _known(original.config, layer_type) if hasattr(original, "config") else None
        emission = emission_of(_fresh(original), layer_type)
        if emission is None:
            raise ValueError(
                f"{refused}takes neither positions [batch, time] nor coordinates [axes, batch, time] or [time, axes]"
            )
        scaling = None if known is None else known.scaling
        grows = isinstance(scaling, _core.DynamicNtkScaling)
        switches = isinstance(scaling, _core.LongRopeScaling)
        trained = scaling.trained_length if grows or switches else 0
        turns = {
            apply.key: turn
            for apply in functions
            if (
                turn := turn_of(
                    _fresh(original),
                    layer_type,
                    emission,
                    apply,
                    known,
                    angles,
                    trained,
                )
            )
            is not None
        }
        if not turns:
            raise ValueError(
                f"[replace_rotary] model: {type(original).__name__} ({name}) cannot be replaced: no function of the "
                "model turns pairs of a head by positions times its frequencies"
            )
        kinds[layer_type] = Kind(emission, turns, grows, switches, trained, {})
    return kinds


def _fresh(original: nn.Module) -> nn.Module:
    """A copy to try things on. Frequencies that a cast has rounded are not what the model was trained with."""
    buffers = [buffer for name, buffer in original.named_buffers() if name.endswith("inv_freq")]
    if all(buffer.dtype is torch.float32 for buffer in buffers):
        return copy.deepcopy(original)
    return type(original)(original.config)


def _known(config: Any, layer_type: str | None) -> _core.Rope | None:
    """What the config states for layers of this type, if it states anything that bearing reads."""
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
        setattr(sys.modules[home], name, _taking_angles(apply))


def _taking_angles(apply: Apply) -> Callable[..., Any]:
    original, names, marks = apply.function, apply.names, apply.marks
    first, count = len(apply.turned), len(apply.turned) + len(marks)

    @functools.wraps(original)
    def taking_angles(*args: Any, **given: Any) -> Any:
        usual = len(args) >= count and isinstance(args[first], Angles) and isinstance(args[0], Tensor)
        if usual:
            key = (apply.key, args[0].shape[-1], args[0].dim(), *args[count:], *given.items())
            plan = args[first].kind.plans.get(key)
            if plan is not None and plan.serves(args):
                return plan.turn(args[:first], args[first])
        called = dict(zip(names, args, strict=False))
        called.update(given)
        if not any(isinstance(called.get(mark), Angles) for mark in marks):
            return original(*args, **given)
        plan = _plan(apply, called)
        if plan is None:
            return original(**{name: _own(x) for name, x in called.items()})
        if usual:
            args[first].kind.plans[key] = plan
        return plan.turn([called[name] for name in apply.turned], called[marks[0]])

    taking_angles.applies = original
    return taking_angles


class Plan(NamedTuple):
    """How one function turns heads of one shape: found once, as all layers and steps ask for the same."""

    count: int  # of tensors to turn
    marks: int  # of cosines and sines
    head_dim: int
    table: str
    layout: str
    deinterleaves: bool

    def serves(self, args: Sequence[Any]) -> bool:
        """Whether these are tensors to turn, and one embedding's cosines and sines for them."""
        angles = args[self.count]
        for x in args[: self.count]:
            if not isinstance(x, Tensor) or x.shape[-1] != self.head_dim or not _suits(x, angles.at, self.layout):
                return False
        return self.marks == 1 or angles.goes_with(args[self.count + 1])

    def turn(self, xs: Sequence[Tensor], angles: Angles) -> Any:
        """What the function gives."""
        if xs[0].dim() == 3:
            turned = self._rotated([x[None] for x in xs], angles)
            turned = [y[0] for y in turned]
        else:
            turned = self._rotated(list(xs), angles)
        if self.deinterleaves:
            turned = [deinterleaved(y) for y in turned]
        return turned[0] if self.count == 1 else tuple(turned)

    def _rotated(self, xs: list[Tensor], angles: Angles) -> list[Tensor]:
        length = angles.length
        table = self.table if length is TRAINED else length.table(self.table, angles.kind.trained_length)
        if ops.needs_op(xs):
            at = spread(angles.at, xs[0].shape[0])
            turned = ops.rotate(xs, at, 0, table, self.layout, False)
            if length.long is None:
                return turned
            short = ops.rotate(xs, at, 0, self.table, self.layout, False)
            return [torch.where(length.long, x, y) for x, y in zip(turned, short, strict=True)]
        if sum(x.numel() for x in xs) > FEW or len(xs) > 2:
            return ops.rotate_now(xs, spread(angles.at, xs[0].shape[0]), 0, table, self.layout, False)
        # In place on copies, as one call: what calls cost is more than what so few numbers do.
        turned = [x.clone() for x in xs]
        numbers = table_of(table, ops.arithmetic_of(xs[0].dtype))
        at = angles.one if xs[0].shape[0] == 1 else spread(angles.at, xs[0].shape[0])
        _core.rotate(numbers, *turned, at, layout=self.layout, threads=torch.get_num_threads())
        return turned


def _plan(apply: Apply, called: dict[str, Any]) -> Plan | None:
    """How to turn what the function is called with; None if only the model's own formula does that."""
    angles, *other = [called.get(mark) for mark in apply.marks]
    xs = [called.get(name) for name in apply.turned]
    others = [name for name, x in called.items() if x is not None and name not in (*apply.turned, *apply.marks)]
    turn = angles.kind.turns.get(apply.key) if isinstance(angles, Angles) else None
    if turn is None or others not in ([], ["unsqueeze_dim"]) or not isinstance(xs[0], Tensor):
        return None
    layout = apply.layout(angles.kind.emission.dims, called["unsqueeze_dim"]) if others else turn.layout
    table = turn.table_of(xs[0].shape[-1])
    if table is None or xs[0].dim() not in (3, 4):
        return None
    check_device("rotate", *(x for x in xs if isinstance(x, Tensor)))
    plan = Plan(len(xs), len(apply.marks), xs[0].shape[-1], table, layout, turn.deinterleaves)
    return plan if angles.place == 0 and plan.serves([*xs, angles, *other]) else None


def _suits(x: Tensor, at: Tensor | None, layout: str) -> bool:
    """Whether positions are those of x, not of some of it."""
    if at is None or x.shape[-2 if layout == "bhtd" else -3] != at.shape[-1]:
        return False
    return at.dim() == 1 or at.shape[-2] == 1 or (x.dim() == 4 and x.shape[0] == at.shape[-2])


def spread(at: Tensor, batch: int) -> Tensor:
    """Positions of one sequence for a whole batch."""
    return at.expand(*at.shape[:-2], batch, -1) if at.dim() > 1 and at.shape[-2] != batch else at
