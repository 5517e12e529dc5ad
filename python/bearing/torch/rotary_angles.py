"""Angles in place of cosines and sines, and what lets functions of transformers take them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import _core
from . import ops
from .dispatch import needs_op
from .encoding import of_length, table_of
from .functional import check_device
from .rotary_probe import ROWS, Apply, Emission, Turn, deinterleaved, emit, first_axes
from .triton import device

FEW = 2**15  # numbers, of some tokens: they fit the nearest caches


class Cosines:
    """A model's own cosines and sines in its embedding's order, computed when something asks for them."""

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
        self,
        at: Tensor,
        kind: Kind,
        length: Length,
        cosines: Cosines,
        place: int,
        rows: Tensor | None = None,
        moves: tuple[Any, ...] = (),
    ) -> None:
        moved = at if rows is None or rows.dim() != 1 else at[..., rows]
        self.at = None if rows is not None and rows.dim() != 1 else moved
        self.original = at
        self.kind = kind
        self.length = length
        self.cosines = cosines
        self.place = place
        self.rows = rows
        self.moves = moves  # how tokens came to these rows
        self.other: Angles | None = None

    @functools.cached_property
    def one(self) -> Tensor | int:
        """A single position as a number, which calls take sooner; others as they are."""
        whole = self.at.is_cpu and not self.at.is_floating_point()
        return int(self.at) if self.at.numel() == 1 and whole else self.at

    def goes_with(self, other: Any) -> bool:
        """Whether the other has the sines of these cosines; where sines come first, the cosines of these sines."""
        if other is self.other:
            return True
        if not isinstance(other, Angles) or other.cosines is not self.cosines or (self.place, other.place) != (0, 1):
            return False
        if self.original.device != other.original.device:
            return False
        if self.rows is None or other.rows is None:
            return self.rows is other.rows
        # Whoever moves both alike need not read the rows, which may be on a GPU.
        if not (_alike(self.moves, other.moves) or torch.equal(self.rows, other.rows)):
            return False
        self.other = other
        return True

    def reshape(self, *shape: int) -> Any:
        """The tokens on other axes; or as the model's own, if that is more than that."""
        rows = self._rows()
        if rows is None or shape[-1] != -1 or math.prod(shape[:-1]) != rows.numel():
            return self.own().reshape(*shape)
        return self._moved(rows.reshape(shape[:-1]), shape)

    def __getitem__(self, index: Any) -> Any:
        rows = self._rows()
        if rows is None or not isinstance(index, tuple) or len(index) != rows.dim() + 1:
            return self.own()[index]
        whole = isinstance(index[-1], slice) and index[-1] == slice(None)
        return self._moved(rows[index[:-1]], index) if whole else self.own()[index]

    def _rows(self) -> Tensor | None:
        """Which row of the cosines is where, if tokens are all that they have rows for."""
        if self.rows is not None or self.kind.emission.dims != 2:
            return self.rows
        return torch.arange(self.original.shape[-1], device=self.original.device)

    def _moved(self, rows: Tensor, by: tuple[Any, ...]) -> Angles:
        return Angles(self.original, self.kind, self.length, self.cosines, self.place, rows, (*self.moves, by))

    def own(self) -> Tensor:
        """The model's own cosines or sines."""
        found = self.cosines[self.place].to(self.original.device)
        return found if self.rows is None else found[self.rows]

    def to(self, *args: Any, **given: Any) -> Any:
        """The same on a device, itself if it is there; of another type, the model's own."""
        where, *rest = args or (given.get("device"),)
        typed = any(isinstance(x, (torch.dtype, Tensor)) for x in (*rest, *given.values()))
        if typed or not isinstance(where, (torch.device, str, int)):
            return self.own().to(*args, **given)
        at = self.original.to(where, non_blocking=bool(given.get("non_blocking")))
        if at.device == self.original.device:
            return self
        rows, long = (x if x is None else x.to(at.device) for x in (self.rows, self.length.long))
        length = self.length if long is None else self.length._replace(long=long)
        return Angles(at, self.kind, length, self.cosines, self.place, rows, self.moves)

    def cuda(self, device: Any = None, non_blocking: bool = False, **_: Any) -> Any:
        """The same on a GPU."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def cpu(self, **_: Any) -> Any:
        """The same on the CPU."""
        return self.to("cpu")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.own(), name)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(
            *(_own(x) for x in args),
            **{name: _own(x) for name, x in (kwargs or {}).items()},
        )


def _of_own(name: str) -> Callable[..., Any]:
    """An operator of the model's own cosines or sines."""

    def call(self: Angles, *others: Any) -> Any:
        return getattr(self.own(), name)(*(_own(x) for x in others))

    return call


# Python looks operators up in a class alone.
for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv mod pow rpow matmul neg pos abs lt le gt ge len float bool".split()
):  # fmt: skip
    setattr(Angles, f"__{_name}__", _of_own(f"__{_name}__"))


def _alike(one: Any, other: Any) -> bool:
    """Whether moves are the same, by the same tensors of indices."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return one is other or (not isinstance(one, Tensor) and not isinstance(other, Tensor) and one == other)


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


TRAINED = Length(ROWS, 0)  # what tables serve as they are


def taking_angles(apply: Apply) -> Callable[..., Any]:
    """The function, taking Angles too. Other arguments go where they went."""
    original, names, marks = apply.function, apply.names, apply.marks
    first, count = len(apply.turned), len(apply.turned) + len(marks)

    @functools.wraps(original)
    def taking(*args: Any, **given: Any) -> Any:
        usual = len(args) >= count and isinstance(args[first], Angles) and isinstance(args[0], Tensor)
        if usual and not torch.compiler.is_compiling():
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
        if usual and not torch.compiler.is_compiling():
            args[first].kind.plans[key] = plan
        return plan.turn([called[name] for name in apply.turned], called[marks[0]])

    taking.applies = original
    return taking


class Plan(NamedTuple):
    """How one function turns heads of one shape: found once, as all layers and steps ask for the same."""

    count: int  # of tensors to turn
    marks: int  # of cosines and sines
    head_dim: int
    table: str
    layout: str
    deinterleaves: bool
    axes: int  # of positions

    def serves(self, args: Sequence[Any]) -> bool:
        """Whether these are tensors to turn, and one embedding's cosines and sines for them."""
        angles, first = args[self.count], args[0]
        for x in args[: self.count]:
            if not isinstance(x, Tensor) or x.dim() != first.dim() or x.shape[-1] != self.head_dim:
                return False
            if not _suits(x, angles.at, self.layout) or (x.dim() == 4 and x.shape[0] != first.shape[0]):
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
        table = self.table
        if length is not TRAINED:
            table = of_length(table, length.rows, length.seq_len)
        if needs_op(xs):
            at = self._at(angles, xs[0].shape[0])
            turned = ops.rotate(xs, at, 0, table, self.layout, False, None, None)
            if length.long is None:
                return turned
            short = ops.rotate(xs, at, 0, self.table, self.layout, False, None, None)
            return [torch.where(length.long, x, y) for x, y in zip(turned, short, strict=True)]
        if device.takes(xs[0]) or sum(x.numel() for x in xs) > FEW or xs[0].dtype is not xs[-1].dtype:
            return ops.rotate_now(xs, self._at(angles, xs[0].shape[0]), 0, table, self.layout, False, None, None)
        # In place on copies, as one call: what calls cost is more than what so few numbers do.
        turned = [x.clone() for x in xs]
        numbers = table_of(table, ops.arithmetic_of(xs[0].dtype))
        at = angles.one if isinstance(angles.one, int) else self._at(angles, xs[0].shape[0])
        _core.rotate(numbers, *turned, at, layout=self.layout, threads=torch.get_num_threads())
        return turned

    def _at(self, angles: Angles, batch: int) -> Tensor:
        """Positions for so many sequences."""
        at = first_axes(angles.at, self.axes)
        return at.expand(*at.shape[:-2], batch, -1) if at.dim() > 1 and at.shape[-2] != batch else at


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
    check_device("rotate", *(x for x in xs if isinstance(x, Tensor)), kernels=True)
    plan = Plan(len(xs), len(apply.marks), xs[0].shape[-1], table, layout, turn.deinterleaves, turn.axes)
    return plan if angles.place == 0 and plan.serves([*xs, angles, *other]) else None


def _suits(x: Tensor, at: Tensor | None, layout: str) -> bool:
    """Whether positions are those of x, not of some of it."""
    if at is None or x.shape[-2 if layout == "bhtd" else -3] != at.shape[-1]:
        return False
    return at.dim() == 1 or at.shape[-2] == 1 or (x.dim() == 4 and x.shape[0] == at.shape[-2])
