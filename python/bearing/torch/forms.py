"""Scores of encodings in PyTorch's own operations, by the form that their description names: no encoding has a line here.

The library itself makes the numbers, on the CPU: rows that are picked, tables by distance, whole matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .encoding import Encoding, traits_of
from .index_map import rows_at, shapes_of, stand_in
from .score_call import Call, Term
from .scores import add_scores
from .words import in_words_of

# Tables by distance reach so far where nothing tells the longest distance, and no further than `_MOST`: 32 MiB of rows.
_FARTHEST, _MOST = 2**17, 2**22

_scores_of = in_words_of("score_mod", "add_scores")(add_scores)
_checked = in_words_of("score_mod", "add_scores")(_core.add_scores)


def by_form(form: str, kind: str, spec: Any, named: dict[str, Tensor], call: Call) -> Term:
    """What an encoding adds to a score; ValueError where no modifier can."""
    traits = traits_of(kind)
    name = kind if spec is None else type(spec).__name__
    _refuse(kind, name, traits, named)
    extents = {p: of["extents"] for p, of in traits["parameters"].items() if p in named}
    for parameter, names in extents.items():
        if names == ("batch", "heads", "q_len", "k_len") and not traits["parameters"][parameter]["indices"]:
            return _matrix(named[parameter])
    own = _Own(form, name, spec, named, extents, call)
    if traits["form"] == "rows_by_index":
        return _rows_by_index(own)
    if traits["reads_content"] or traits["whole_rows"]:
        raise ValueError(
            f"[score_mod] encodings: must depend on one query and one key, got {kind}, whose score is of the form "
            f"{traits['form']} and looks at others: bearing.torch.attention() serves it"
        )
    picked = [p for p in named if traits["parameters"][p]["picked"]]
    if traits["form"] == "distance" and not call.is_real:
        return _picked_by_distance(own, picked[0]) if picked else _by_distance(own)
    return _picked(own, picked[0], traits["by_index"]) if picked else _matrix(own.scores())


def _refuse(kind: str, name: str, traits: dict[str, Any], named: dict[str, Tensor]) -> None:
    """ValueError for what acts elsewhere than on scores."""
    if not traits["scores"]:
        where = ": turn q and k before flex_attention" if traits["rows"] else ": add it to the input"
        raise ValueError(f"[score_mod] encodings: must be of scores, got {kind}{where}")
    of_values = [p for p in named if "value_dim" in traits["parameters"][p]["extents"]]
    if of_values:
        raise ValueError(f"[score_mod] encodings: must act on scores alone, got {name} with a table of values")


class _Own:
    """One encoding of a call, of which the library makes numbers."""

    def __init__(
        self, form: str, name: str, spec: Any, named: dict[str, Tensor], extents: dict[str, Any], call: Call
    ) -> None:
        self.form, self.name, self.spec, self.named, self.extents, self.call = form, name, spec, named, extents, call

    def size(self, extent: str) -> int | None:
        """An extent that a parameter or the spec tells."""
        for parameter, names in self.extents.items():
            shape = self.named[parameter].shape
            here = names[len(names) - len(shape) :]
            if extent in here and shape[here.index(extent)] > 1:
                return shape[here.index(extent)]
        return getattr(self.spec, extent, None)

    def heads(self) -> int:
        found = self.size("heads")
        return found or (1 if self.call.q is None else self.call.q.shape[1])

    def scores(self, tensors: dict[str, Tensor] | None = None, heads: int | None = None) -> Tensor:
        """[batch or 1, heads, q_len, k_len] of the call's own positions."""
        lengths = self.call.lengths()
        if lengths is None:
            raise TypeError(f"[score_mod] q, k: must be given, as {self.name} has a number for each pair of them")
        at = [x.cpu() if isinstance(x, Tensor) else x for x in (self.call.q_given, self.call.k_given)]
        batch = max([self.size("batch") or 1, *(x.shape[-2] for x in at if isinstance(x, Tensor) and x.dim() > 1)])
        return self.made((batch, heads or self.heads(), *lengths), *at, tensors)

    def made(self, shape: tuple[int, ...], q_at: Any, k_at: Any, tensors: dict[str, Tensor] | None = None) -> Tensor:
        """Scores by the library, on the call's device; gradients flow to the parameters."""
        given = tuple((self.named if tensors is None else tensors).values())
        dtype = torch.float64 if any(t.dtype is torch.float64 for t in given) else self.call.dtype
        zeros = torch.zeros(shape, dtype=dtype)
        found = _scores_of(Encoding(self.form, tuple(t.cpu() for t in given)), zeros, q_at, k_at)
        return found.to(self.call.device, self.call.dtype if tensors is None else dtype)

    def rows_at(self, parameter: str, shape: tuple[int, ...], q_at: Any, k_at: Any) -> Tensor:
        """Which row of a parameter [rows, heads] each score is, from 1 on; 0: none. The rows' numbers tell."""
        return self.made(shape, q_at, k_at, self.numbered(parameter, shape[1])).to(torch.int32)

    def numbered(self, parameter: str, heads: int) -> dict[str, Tensor]:
        rows = torch.arange(1, self.named[parameter].shape[0] + 1, dtype=torch.float64)
        return {p: rows[:, None].repeat(1, heads) if p == parameter else t for p, t in self.named.items()}


def _matrix(bias: Tensor) -> Term:
    """A number for each pair; extents of 1 serve all."""
    bias = bias.reshape(*[1] * (4 - bias.dim()), *bias.shape)
    one = [extent == 1 for extent in bias.shape]

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return bias[tuple(x * 0 if alone else x for x, alone in zip((b, h, i, j), one, strict=True))]

    return term


def _picked(own: _Own, parameter: str, by_index: bool) -> Term:
    """Rows of a table that pairs pick, whose numbers the library tells for each pair."""
    heads = own.heads() if by_index else 1
    return _from_table(own, parameter, _matrix(own.scores(own.numbered(parameter, heads), heads).to(torch.int32)))


def _distances(own: _Own, otherwise: int | None) -> Tensor:
    """Those of a table: from the longest one before a query to the longest one after it."""
    found = own.call.farthest()
    farthest = otherwise if found is None else found
    if farthest is None:
        raise TypeError(
            f"[score_mod] q, k (or longest, in their place): must be given, as {own.name} becomes a table by distance"
        )
    if not 0 <= farthest <= _MOST:
        raise _core.RangeError(
            f"[score_mod] longest, q_positions, k_positions: must be of distances up to {_MOST}, as {own.name} becomes "
            f"a table by distance, got {farthest}"
        )
    return torch.arange(-farthest, farthest + 1)


def _picked_by_distance(own: _Own, parameter: str) -> Term:
    """Rows of a table that distances pick."""
    at, distance = _distances(own, _FARTHEST), own.call.distance()
    rows, zero = own.rows_at(parameter, (1, 1, 1, len(at)), 0, at).flatten(), len(at) // 2
    # Distances beyond the table are as those at its ends: no index may wrap.
    return _from_table(own, parameter, lambda b, h, i, j: rows[(distance(b, i, j) + zero).clamp(0, 2 * zero)])


def _from_table(own: _Own, parameter: str, row: Term) -> Term:
    table = own.named[parameter]
    table = torch.cat([table.new_zeros(1, table.shape[1]), table])  # row 0 is for pairs to which nothing is added
    return lambda b, h, i, j: table[row(b, h, i, j), h]


def _by_distance(own: _Own) -> Term:
    """A table by distance of every head, by the library."""
    at, distance = _distances(own, None), own.call.distance()
    table, zero = own.made((1, own.heads(), 1, len(at)), 0, at)[0, :, 0], len(at) // 2
    # Distances beyond the table are NaN, which is seen; without these columns they would wrap.
    table = torch.nn.functional.pad(table, (1, 1), value=math.nan)
    return lambda b, h, i, j: table[h, (distance(b, i, j) + zero + 1).clamp(0, 2 * zero + 2)]


# Products with rows that an index picks.


def _rows_by_index(own: _Own) -> Term:
    """All products with the rows that may be picked, and which of them each pair picks."""
    encoding = stand_in(own.form, shapes_of(own.named.values()))
    products = _core._rows_by_index(encoding)
    by_position = any(one["q_segments"] is None for one in products)
    if by_position and own.call.is_real:
        raise TypeError(
            f"[score_mod] q_positions, k_positions: must be tensors of whole numbers, as {own.name} picks rows by them"
        )
    own.call.need(own.name, "q", *["k"] * any(one["of_key"] for one in products))
    if by_position:
        _check_ends(own.call, encoding)
    terms = [_product(own, one) for one in products]

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return sum((one(b, h, i, j) for one in terms[1:]), terms[0](b, h, i, j))

    return term


def _check_ends(call: Call, encoding: Any) -> None:
    """The library's own errors for positions that it has no rows for: it looks at the ends of every sequence alone."""
    found = [call.ends(x, at) for x, at in ((call.q, call.q_given), (call.k, call.k_given))]
    if None in found:
        return
    heads, dim, batch = call.q.shape[1], call.q.shape[3], max(at.shape[-2] for at in found)
    q_at, k_at = (at.expand(*at.shape[:-2], batch, 2).contiguous() for at in found)
    rows = torch.zeros(batch, heads, 2, dim)
    _checked([encoding], torch.zeros(batch, heads, 2, 2), q_at, k_at, q=rows, k=rows, scale=1.0)


def _place(own: _Own, at: tuple[str, int, tuple[int, ...], tuple[int, ...]]) -> Tensor:
    """A part of a parameter, as the library looks at it."""
    parameter, first, shape, strides = at
    return own.named[parameter].contiguous().as_strided(shape, strides, first)


def _product(own: _Own, one: dict[str, Any]) -> Term:
    rows, of_key = _place(own, one["table"]), one["of_key"]
    products = own.call.by_key(rows) if of_key else own.call.by_query(rows)
    if one["shift"] is not None:
        products = products + _place(own, one["shift"]).unsqueeze(1) @ rows.transpose(1, 2)
    if one["scaled"]:
        products = own.call.scale * products
    row = _segments(own, one) if one["q_segments"] is not None else _row_of(own, one)
    if rows.shape[1] == 1:
        products = products.squeeze(-1)
        added: Term = (lambda b, h, i, j: products[b, h, j]) if of_key else (lambda b, h, i, j: products[b, h, i])
    elif of_key:
        added = lambda b, h, i, j: products[b, h, j, row(b, i, j)]
    else:
        added = lambda b, h, i, j: products[b, h, i, row(b, i, j)]
    return _within(own, one, added)


def _within(own: _Own, one: dict[str, Any], added: Term) -> Term:
    """Nothing for distances before `from` and after `to`."""
    least, most = one["from"], one["to"]
    distance = own.call.distance(one["axis"])
    if least is not None and most is not None:
        outside: Callable[[Tensor], Tensor] = lambda d: (d < least) | (d > most)
    elif least is not None or most is not None:
        outside = (lambda d: d < least) if most is None else (lambda d: d > most)
    else:
        return added
    return lambda b, h, i, j: torch.where(outside(distance(b, i, j)), 0.0, added(b, h, i, j))


def _segments(own: _Own, one: dict[str, Any]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    q_segments, k_segments = _place(own, one["q_segments"]), _place(own, one["k_segments"])
    return lambda b, i, j: torch.where(q_segments[b, i] == k_segments[b, j], 0, 1)


def _row_of(own: _Own, one: dict[str, Any]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """``zero + step · clip(bucket(Δ), least, most)``; buckets by a table of whole numbers."""
    zero, step, least, most = (one[name] for name in ("zero", "step", "least", "most"))
    distance = own.call.distance(one["axis"])
    if not one["thresholds"] and least is None and most is None:
        last = one["table"][2][1] - 1
        return lambda b, i, j: (zero + step * distance(b, i, j)).clamp(0, last)
    if not one["thresholds"]:
        return lambda b, i, j: zero + step * distance(b, i, j).clamp(least, most)
    far = one["thresholds"][-1]
    rows = rows_at(one, torch.arange(-far, far + 1)).clamp(min=0).to(own.call.device)
    return lambda b, i, j: rows[distance(b, i, j).clamp(-far, far) + far]
