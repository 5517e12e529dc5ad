"""Rows that an index map picks for a query and a key: which products an encoding's score is made of, and which row each
distance has. Everything comes from the library, as numbers."""

from __future__ import annotations

import atexit
import functools
import json
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .encoding import build, traits_of
from .words import in_words_of

HOST = torch.device("cpu")  # where the library reads, whatever torch.set_default_device says
Shapes = tuple[tuple[tuple[int, ...], bool], ...]  # of an encoding's tensors, and whether they hold real numbers


def shapes_of(tensors: Any) -> Shapes:
    """What a stand-in for these tensors needs."""
    return tuple((tuple(t.shape), t.is_floating_point()) for t in tensors)


def stand_in(form: str, shapes: Shapes) -> _core.Encoding:
    """An encoding of that form and of tensors of these shapes, whose numbers nobody set."""
    tensors = [
        torch.empty(shape, dtype=torch.float32, device=HOST)
        if real
        else torch.zeros(shape, dtype=torch.int64, device=HOST)
        for shape, real in shapes
    ]
    (encoding,) = build(f"[{form}]", tensors, torch.float32)
    return encoding


@functools.lru_cache(maxsize=256)
def products_of(form: str, shapes: Shapes) -> tuple[dict[str, Any], ...]:
    """The products that an encoding's score is made of: ``_core._rows_by_index`` says what is in each."""
    return tuple(_core._rows_by_index(stand_in(form, shapes)))


def rows_at(product: dict[str, Any], distances: Tensor) -> Tensor:
    """The row that a product takes at each distance, key minus query; -1 where it takes none.

    ``zero + step · clip(bucket(Δ), least, most)``, and none before `from` and after `to`
    """
    bucket = distances
    if product["thresholds"]:
        wide = product["linear"] + torch.bucketize(
            distances.abs(), torch.tensor(product["thresholds"], device=distances.device), right=True
        )
        bucket = torch.where(distances.abs() > product["linear"], distances.sign() * wide, distances)
    if product["least"] is not None or product["most"] is not None:
        bucket = bucket.clamp(product["least"], product["most"])
    row = product["zero"] + product["step"] * bucket
    row = torch.where(_outside(product, distances), -1, row)
    # Where a map has no bound, the positions of a call may go past the table's end: the library refuses them before.
    return torch.where(row < product["table"][2][1], row, -1)


def _outside(product: dict[str, Any], distances: Tensor) -> Tensor:
    least, most = product["from"], product["to"]
    outside = torch.zeros_like(distances, dtype=torch.bool)
    if least is not None:
        outside |= distances < least
    return outside if most is None else outside | (distances > most)


@functools.lru_cache(maxsize=64)
def value_rows(form: str, name: str, shapes: Shapes, least: int, count: int) -> Tensor:
    """The row of the table `name` that is added to values at `count` distances from `least` on; -1 where none is.

    The library adds up rows that hold their own numbers.
    """
    names = json.loads(form)["tensors"]
    (shape,) = (shape for one, (shape, _) in zip(names, shapes, strict=True) if one == name)
    numbered = torch.arange(1, shape[-2] + 1, dtype=torch.float64, device=HOST)[:, None].clone()
    given = [numbered if one == name else torch.zeros(1, dtype=torch.float32, device=HOST) for one in names]
    alone = json.dumps(json.loads(form) | {"tensors": [name]})
    (encoding,) = build(f"[{alone}]", [t for one, t in zip(names, given, strict=True) if one == name], torch.float64)
    found = torch.zeros(1, 1, count, 1, dtype=torch.float64, device=HOST)
    from_key = -torch.arange(least, least + count, device=HOST)[None]
    ones = torch.ones(1, 1, count, 1, dtype=torch.float64, device=HOST)
    _core.add_values([encoding], ones, found, from_key, torch.zeros(1, 1, dtype=torch.int64, device=HOST))
    return found.flatten().long() - 1


def _by_query(form: str, shapes: Shapes) -> list[tuple[int, int]]:
    """Tensors that have something for each query, and on which axis."""
    names, parameters = json.loads(form)["tensors"], traits_of(json.loads(form)["kind"])["parameters"]
    axes = [(i, parameters[name]["extents"]) for i, name in enumerate(names)]
    return [(i, of.index("q_len") - len(of) + len(shapes[i][0])) for i, of in axes if "q_len" in of]


@functools.lru_cache(maxsize=256)
def check_ends(
    form: str,
    shapes: Shapes,
    sizes: tuple[int, int, int],
    dims: tuple[int, int],
    q_ends: tuple[int, int],
    k_ends: tuple[int, int],
) -> None:
    """The library's own errors for heads, rows and positions that an encoding does not serve. It looks at the first and the
    last position alone.

    sizes: batch, heads and q_len.
    """
    batch, heads, q_len = sizes
    by_query = _by_query(form, shapes)
    of_queries, of_keys = (torch.tensor([ends], device=HOST) for ends in (q_ends, k_ends))
    if not by_query:
        return _check(form, shapes, (1, heads), dims, of_queries, of_keys)
    if all(shapes[i][0][axis] == q_len for i, axis in by_query):
        two = [list(shape) for shape, _ in shapes]
        for i, axis in by_query:
            two[i][axis] = 2
        of_two = tuple((tuple(shape), real) for shape, (_, real) in zip(two, shapes, strict=True))
        try:
            return _check(form, of_two, (batch, heads), dims, of_queries, of_keys)
        except (TypeError, ValueError, IndexError):
            pass  # its words are those for all queries
    all_queries = torch.arange(q_ends[0], q_ends[0] + q_len, device=HOST)[None]
    return _check(form, shapes, (batch, heads), dims, all_queries, of_keys)


@in_words_of("attention", "add_scores", "add_values")
def _check(
    form: str, shapes: Shapes, sizes: tuple[int, int], dims: tuple[int, int], q_at: Tensor, k_at: Tensor
) -> None:
    """Positions [1, time]."""
    encoding = stand_in(form, shapes)
    zeros = lambda *extents: torch.zeros(*sizes, *extents, dtype=torch.float32, device=HOST)
    q, k = (zeros(at.shape[1], dims[0]) for at in (q_at, k_at))
    weights = zeros(q_at.shape[1], k_at.shape[1])
    _core.add_scores([encoding], weights.clone(), q_at, k_at, q=q, k=k, scale=1.0)
    _core.add_values([encoding], weights, zeros(q_at.shape[1], dims[1]), q_at, k_at)


atexit.register(products_of.cache_clear)
atexit.register(value_rows.cache_clear)
