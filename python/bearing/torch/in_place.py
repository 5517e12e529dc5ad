"""Rotation in place: the memory of queries and keys is the memory of the result."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from .. import _core
from . import direct, ops
from .dispatch import count_writes, is_profiled, is_transformed, needs_op, with_or_without_numbers, written_op
from .functional import Layout, Positions, RopeLike, check_device, positions_of, table_of_rope
from .triton import device
from .words import in_words_of

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)

_TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def rotate_(
    *xs: Tensor,
    rope: RopeLike,
    positions: Positions = None,
    layout: Layout = "bhtd",
) -> Tensor | tuple[Tensor, ...]:
    """Rotates queries, keys or any heads by RoPE in place: ``rotate_(q, k, rope=rope)``.

    xs [batch, heads, time, head_dim]: the tensors to rotate, one or more, with any strides. They have the same batch, time
        and head_dim, and each element has a place of its own in memory.
    rope, positions, layout: as :func:`bearing.torch.rotate` takes them.

    Returns xs, the same tensors, with the bits that ``rotate`` gives. Differentiable as PyTorch's own operations in place:
    autograd keeps nothing for the backward, and refuses a leaf that requires gradients, a view of one, views of chunk,
    split and unbind, and what was saved for a backward before. Where torch.compile, a transformation or a tracer looks on
    and gradients are wanted, the rotation is made beside xs and copied into them. Raises ShapeError, RangeError or
    TypeError before anything is written.

    On GPUs two tensors are turned in one launch.
    """
    if direct.rotate_(xs, rope, positions, layout):
        return xs[0] if len(xs) == 1 else xs
    check_device("rotate_", *xs, kernels=True)
    _check(xs, layout)
    positions, first = positions_of("rotate_", "positions", positions, xs[0].shape[0] if xs[0].dim() == 4 else 1)
    table, cos, sin = table_of_rope("rotate_", rope)
    rest = positions, first, table, layout, cos, sin
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in xs)
    if is_transformed() or torch.jit.is_tracing() or (learns and _observed(xs)):
        beside = ops.rotate if torch.compiler.is_compiling() else _rotate_beside
        for x, turned in zip(xs, beside(list(xs), positions, first, table, layout, False, cos, sin), strict=True):
            x.copy_(turned)
    elif not learns and needs_op(xs):
        if not torch.compiler.is_compiling() and is_profiled():
            _check_apart(xs)
        _rotate_(list(xs), *rest)
    else:
        if learns:
            _check_views(xs)
        _check_apart(xs)
        _turn(list(xs), *rest)
        for x in xs:
            if learns and x.requires_grad:
                _Turned.apply(x, *rest)  # tells autograd
            else:
                count_writes([x])
    return xs[0] if len(xs) == 1 else xs


_in_own_words = in_words_of("rotate_", "rotate")
_rotate_beside = _in_own_words(lambda *args: ops.rotate(*args))
_rotate_here = _in_own_words(_core._rotate_tensors)
_table_for = _in_own_words(ops.table_for)


def _turn(
    xs: Sequence[Tensor],
    positions: Optional[Tensor],
    first: int,
    table: str,
    layout: str,
    cos: Optional[Tensor],
    sin: Optional[Tensor],
) -> None:
    """R x of every x, in its own memory."""
    at = first if positions is None else positions
    if device.takes(xs[0]):
        from .triton.rotate import rotate as rotate_there  # here, as Triton need not be installed

        rotate_there(xs, at, table, layout, False, cos, sin, in_place=True)
        return
    for x in xs:
        _rotate_here(_table_for(table, x, cos, sin), [x.detach()], at, layout, torch.get_num_threads())


_rotate_ = written_op("rotate_", _turn, ["xs"])


@_rotate_.register_fake
@functools.partial(with_or_without_numbers, "rotate_")
def _(xs, positions, first, table, layout, cos, sin):
    return None


class _Turned(torch.autograd.Function):
    """One tensor that was turned in place. One, as autograd takes a view that is written to only from a function with one
    output; so the work itself, which takes several tensors at once, is done before."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, positions: Tensor | None, *rest: Any) -> Tensor:
        ctx.mark_dirty(x)
        first, table, layout, cos, sin = rest
        ctx.save_for_backward(positions, cos, sin)
        ctx.rest = first, table, layout
        return x

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        positions, cos, sin = ctx.saved_tensors
        (d_x,) = ops.rotate([d_y], positions, *ctx.rest, True, cos, sin)
        return d_x, *[None] * 6


def _observed(xs: Sequence[Tensor]) -> bool:
    """Whether somebody beside autograd watches."""
    if torch.compiler.is_compiling():
        return True
    with torch.no_grad():
        return needs_op(xs)


def _check(xs: Sequence[Tensor], layout: str) -> None:
    """Refuses what would be seen only when the first of xs is written already."""
    if not xs:
        raise TypeError("[rotate_] xs: must be one tensor or more, got none")
    if layout not in ("bhtd", "bthd"):
        raise ValueError(f"[rotate_] layout: must be 'bhtd' or 'bthd', got {layout!r}")
    for x in xs:
        if x.layout is not torch.strided:
            raise TypeError(f"[rotate_] xs: must be dense tensors, got a tensor of {x.layout}")
        if x.dtype not in _TYPES:
            raise TypeError(f"[rotate_] xs: must be float64, float32, bfloat16 or float16, got {x.dtype}")
        if x.device != xs[0].device:
            raise TypeError(f"[rotate_] xs: must be on one device, got {xs[0].device} and {x.device}")
        if tokens_of(x, layout) != tokens_of(xs[0], layout):
            raise _core.ShapeError(
                f"[rotate_] xs: must have the same axes, batch, time and head_dim, got {list(xs[0].shape)} and "
                f"{list(x.shape)}"
            )
        if not is_distinct(x):
            raise _core.ShapeError(
                f"[rotate_] xs: must have a place in memory for each element, got strides {list(x.stride())} for "
                f"{list(x.shape)}"
            )


def tokens_of(x: Tensor, layout: str) -> list[int]:
    """All extents except heads."""
    heads = x.dim() - (2 if layout == "bthd" else 3)
    return [x.dim(), *(size for axis, size in enumerate(x.shape) if axis != heads or x.dim() < 3)]


def _check_views(xs: Sequence[Tensor]) -> None:
    """Refuses what autograd would refuse after it is written: leaves, and views that it cannot follow."""
    plain = torch._C._autograd.CreationMeta.DEFAULT
    for x in xs:
        if x.requires_grad and x._is_view() and torch._C._autograd._get_creation_meta(x) != plain:
            raise RuntimeError(
                "[rotate_] xs: must be no views of chunk, split or unbind, or made without gradients, as autograd follows "
                "none of them in place: take slices such as x[..., :n], or rotate()"
            )
        owner = x._base if x._is_view() else x
        if x.requires_grad and owner is not None and owner.is_leaf and owner.requires_grad:
            raise RuntimeError(
                "[rotate_] xs: must be no leaf that requires gradients, and no view of one, as its own numbers would be "
                "lost: rotate() returns a new tensor"
            )


def _check_apart(xs: Sequence[Tensor]) -> None:
    """Refuses tensors that share memory. Those whose memory is interwoven, as queries and keys of one projection, do not."""
    for j, y in enumerate(xs):
        for i, x in enumerate(xs[:j]):
            if share_memory(x, y):
                raise _core.ShapeError(
                    f"[rotate_] xs: must share no memory, got tensors {i} and {j} of {list(x.shape)} and {list(y.shape)} that do"
                )


def is_distinct(x: Tensor) -> bool:
    """Whether each axis steps over all that the axes with smaller strides span, as the library asks."""
    if x.is_contiguous():
        return True
    axes = [(step, size) for step, size in zip(x.stride(), x.shape, strict=True) if size != 1]
    for i, (step, _) in enumerate(axes):  # which is not sorted, as compiled code cannot
        inner = [(n - 1) * other for j, (other, n) in enumerate(axes) if other < step or (other == step and j > i)]
        if step < 1 + sum(inner):
            return x.numel() == 0
    return True


def share_memory(x: Tensor, y: Tensor, max_work: int | None = None) -> bool:
    """Whether two tensors have a byte in common, on any device. max_work: steps of a search, after which the answer is no."""
    if not x.numel() or not y.numel():
        return False
    at_x, at_y = x.data_ptr(), y.data_ptr()
    return at_x < at_y + _bytes(y) and at_y < at_x + _bytes(x) and _meet(_lie(x), _lie(y), at_y - at_x, max_work)


def _bytes(x: Tensor) -> int:
    """From the first to the last of its elements."""
    return (1 + sum([(n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)])) * x.element_size()


def _lie(x: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and strides in bytes, with the bytes of an element as the last axis."""
    size = x.element_size()
    return (*x.shape, size), (*[step * size for step in x.stride()], 1)


class _Place:
    """Memory as NumPy takes it, which is not read."""

    def __init__(self, at: int, lie: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "data": (at, False),
            "shape": lie[0],
            "strides": lie[1],
        }


@functools.lru_cache(maxsize=256)
def _meet(one: Any, other: Any, apart: int, max_work: int | None) -> bool:
    """Whether memory that lies so shares a byte with other that begins so many bytes later."""
    middle = 1 << 46
    places = [np.asarray(_Place(at, lie)) for at, lie in ((middle, one), (middle + apart, other))]
    try:
        return np.shares_memory(*places, max_work=max_work)
    except RuntimeError:  # it takes longer to find out
        return False
