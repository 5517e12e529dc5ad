"""Custom ops: functional, with fake kernels and gradients, so that autograd, ``torch.compile`` and ``torch.export``
take them as they take PyTorch's own.

Every result is new and contiguous. Inputs may have any strides. Ops run on as many threads as
``torch.get_num_threads()`` says. Tensors of parameters have the arithmetic of the call: float64 for float64, else
float32.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Optional

import torch
from torch import Tensor

from .. import _core
from .dispatch import Op, op, with_or_without_numbers, written_op
from .encoding import build, gradients, table_of, table_of_numbers, turned_dim
from .regions import band_of, regions_of
from .triton import device
from .triton.plan import refusal
from .words import in_words_of

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)


def arithmetic_of(dtype: torch.dtype) -> torch.dtype:
    """float64 for float64, else float32."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def _bare(tensor: Tensor) -> Tensor:
    """Without its history; itself if it has none, as a new tensor takes longer than the question."""
    return tensor.detach() if tensor.requires_grad else tensor


def _at(positions: Tensor | None, first: int) -> Tensor | int:
    return first if positions is None else _bare(positions)


def _plain(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [_bare(t) for t in tensors]


def _optional(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _bare(tensor)


def _spread(found: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """Gradients in the places of the tensors that have any."""
    rest = iter(found)
    return [next(rest) if t.is_floating_point() else None for t in tensors]


def _like(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in tensors if t.is_floating_point()]


# Rotation.


_rotate_each = in_words_of("rotate", "rotate_to", "rotate_backward_to")(_core._rotate_each)


def rotate_now(
    xs: Sequence[Tensor],
    positions: Optional[Tensor],
    first: int,
    table: str,
    layout: str,
    transposed: bool,
    cos: Optional[Tensor],
    sin: Optional[Tensor],
) -> list[Tensor]:
    """R x of every x, or with ``transposed`` its transpose: each is the other's gradient. cos and sin: the numbers of a
    table that is made of them."""
    if xs and device.takes(xs[0]):
        from .triton.rotate import rotate as rotate_there  # here, as Triton need not be installed

        return rotate_there(xs, first if positions is None else positions, table, layout, transposed, cos, sin)
    rest = _at(positions, first), layout, torch.get_num_threads(), transposed
    kinds = [arithmetic_of(x.dtype) for x in xs]
    if len(set(kinds)) > 1:
        return [_rotate_each(table_for(table, x, cos, sin), [_bare(x)], *rest)[0] for x in xs]
    return _rotate_each(table_for(table, xs[0], cos, sin), [_bare(x) for x in xs], *rest) if xs else []


def table_for(table: str, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> _core.RopeTable:
    """The table of a text, in the arithmetic of x."""
    arithmetic = arithmetic_of(x.dtype)
    return table_of(table, arithmetic) if cos is None else table_of_numbers(table, cos, sin, arithmetic)


rotate = Op("rotate", rotate_now)
rotate_now = rotate.now


@rotate.register_fake
def _(xs, positions, first, table, layout, transposed, cos, sin):
    return [in_order_of(x) for x in xs]


def in_order_of(x):
    """A tensor like those that rotate_to() makes: dense, in the order of memory of one whose two axes are swapped."""
    other = x.transpose(-3, -2) if x.dim() > 2 else x
    if x.is_contiguous() or not other.is_contiguous():
        return x.new_empty(x.shape)
    return x.new_empty(other.shape).transpose(-3, -2)


def _rotate_context(ctx, inputs, output):
    _, positions, first, table, layout, transposed, cos, sin = inputs
    ctx.save_for_backward(positions, cos, sin)
    ctx.save_for_forward(positions, cos, sin)
    ctx.rest = first, table, layout, transposed


def _rotated(ctx, xs, transposed):
    positions, cos, sin = ctx.saved_tensors
    *rest, before = ctx.rest
    return rotate(list(xs), positions, *rest, before != transposed, cos, sin)


def _rotate_backward(ctx, d_ys):
    return _rotated(ctx, d_ys, True), *[None] * 7


def _rotate_tangent(ctx, xs, *_):
    """Rotations are linear: a tangent turns as what it belongs to."""
    return None if any(x is None for x in xs) else _rotated(ctx, xs, False)


rotate.register_autograd(_rotate_backward, setup_context=_rotate_context)
rotate.register_tangent(_rotate_tangent)


# Attention.


def check_kernels(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    encodings: str,
    at: Sequence[Tensor | None],
    block_table: Tensor | None,
    regions: str,
) -> bool:
    """Whether the kernels for GPUs take a call of attention. On a GPU nothing else does: TypeError if they do not. On the
    CPU, where Triton's interpreter runs them, the library takes what they do not."""
    if not device.takes(q):
        return False
    positions = [one for one in at if one is not None]
    why = refusal(q, k, v, parameters, encodings, positions, block_table, regions)
    if why and not q.is_cpu:
        raise TypeError(
            f"[attention] must be a call that the kernels for GPUs take: {why}. bearing.torch.plan() says which other path "
            "there is, such as FlexAttention with bearing.torch.score_mod(...)"
        )
    return not why


@functools.cache
def _in_triton(name: str) -> Any:
    """What launches the kernels, imported when a tensor needs them."""
    return import_module(f".triton.{name}", __package__)


def attention_now(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    sinks: Optional[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    k_lengths: Optional[Tensor],
    key_mask: Optional[Tensor],
    visible: Optional[Tensor],
    q_starts: Optional[Tensor],
    k_starts: Optional[Tensor],
    block_table: Optional[Tensor],
    encodings: str,
    mask: str,
    window: Sequence[int],
    q_first: int,
    k_first: int,
    scale: Optional[float],
    soft_cap: float,
    layout: str,
    regions: str,
    out_dtype: torch.dtype,
    return_lse: bool = True,
) -> tuple[Tensor, Tensor]:
    """out and the logarithms of the rows' sums, which a call that nobody watches may leave out."""
    if check_kernels(q, k, v, parameters, encodings, (q_positions, k_positions), block_table, regions):
        there = _in_triton("forward")
        options = there.Options(
            sinks, q_positions, k_positions, k_lengths, key_mask, visible, q_starts, k_starts, block_table, mask, window, q_first,
            k_first, scale, soft_cap, layout, band_of(regions),
        )  # fmt: skip
        return there.forward(_bare(q), _bare(k), _bare(v), _plain(parameters), encodings, options, out_dtype)
    found = _core.attention(
        _bare(q),
        _bare(k),
        _bare(v),
        build(encodings, _plain(parameters), arithmetic_of(q.dtype)),
        mask=mask,
        window=tuple(window),
        q_positions=_at(q_positions, q_first),
        k_positions=_at(k_positions, k_first),
        scale=scale,
        soft_cap=soft_cap,
        sinks=_optional(sinks),
        k_lengths=k_lengths,
        key_mask=key_mask,
        visible=visible,
        q_starts=q_starts,
        k_starts=k_starts,
        block_table=block_table,
        layout=layout,
        threads=torch.get_num_threads(),
        **regions_of(regions),
        out_dtype=out_dtype,
        return_lse=return_lse,
    )
    return found if return_lse else (found, None)


attention = Op("attention", attention_now, apart="return_lse")
attention_now = attention.now


@attention.register_fake
def _(q, k, v, parameters, sinks, q_positions, k_positions, k_lengths, key_mask, visible, q_starts, k_starts, block_table, encodings,
      mask, window, q_first, k_first, scale, soft_cap, layout, regions, out_dtype):  # fmt: skip
    rows = list(q.shape[:-1])
    out = q.new_empty((*rows, v.shape[-1]), dtype=out_dtype)
    if layout == "bthd" and len(rows) > 1:
        rows[-2:] = reversed(rows[-2:])
    return out, q.new_empty(rows, dtype=arithmetic_of(q.dtype))


@op("attention_backward")
def attention_backward(
    d_out: Tensor,
    d_lse: Optional[Tensor],
    out: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    sinks: Optional[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    k_lengths: Optional[Tensor],
    key_mask: Optional[Tensor],
    visible: Optional[Tensor],
    q_starts: Optional[Tensor],
    k_starts: Optional[Tensor],
    encodings: str,
    mask: str,
    window: Sequence[int],
    q_first: int,
    k_first: int,
    scale: Optional[float],
    soft_cap: float,
    layout: str,
    regions: str,
    learned: bool,
) -> list[Tensor]:
    """The gradients of q, k, v, of the sinks if there are any, and of the parameters. On a GPU those of the parameters may
    be 0 unless they are learned, as they take a kernel of their own."""
    if check_kernels(q, k, v, _plain(parameters), encodings, (q_positions, k_positions), None, regions):
        there = _in_triton("backward")
        options = there.Options(
            sinks, q_positions, k_positions, k_lengths, key_mask, visible, q_starts, k_starts, None, mask, window, q_first,
            k_first, scale, soft_cap, layout, band_of(regions),
        )  # fmt: skip
        rows = _plain([out, lse, q, k, v])
        return there.backward(_bare(d_out), _optional(d_lse), *rows, _plain(parameters), encodings, options, learned)
    d_q, d_k, d_v, found, d_sinks = _core.attention_backward(
        *_plain([q, k, v, out, lse, d_out]),
        build(encodings, _plain(parameters), arithmetic_of(q.dtype)),
        mask=mask,
        window=tuple(window),
        q_positions=_at(q_positions, q_first),
        k_positions=_at(k_positions, k_first),
        scale=scale,
        soft_cap=soft_cap,
        sinks=_optional(sinks),
        k_lengths=k_lengths,
        key_mask=key_mask,
        visible=visible,
        q_starts=q_starts,
        k_starts=k_starts,
        layout=layout,
        threads=torch.get_num_threads(),
        **regions_of(regions),
        d_lse=_optional(d_lse),
    )
    d_rows = [d if d.dtype is q.dtype else d.to(q.dtype) for d in (d_q, d_k, d_v)]  # they have d_out's type
    return [*d_rows, *([] if d_sinks is None else [d_sinks]), *gradients(encodings, parameters, found)]


@attention_backward.register_fake
def _(d_out, d_lse, out, lse, q, k, v, parameters, sinks, q_positions, k_positions, k_lengths, key_mask, visible, q_starts, k_starts,
      encodings, mask, window, q_first, k_first, scale, soft_cap, layout, regions, learned):  # fmt: skip
    return _like([q, k, v, *([] if sinks is None else [sinks]), *parameters])


def _attention_context(ctx, inputs, output):
    q, k, v, parameters, *rest = inputs
    # Sinks, positions, masks, a paged cache; then what is constant, except for out's type.
    tensors, ctx.settings = rest[:9], rest[9:-1]
    ctx.save_for_backward(*output, q, k, v, *tensors, *parameters)
    ctx.learned = any(t.requires_grad for t in parameters)
    ctx.set_materialize_grads(False)


def _attention_backward(ctx, d_out, d_lse):
    out, lse, q, k, v, *rest = ctx.saved_tensors
    (sinks, *masks, block_table), parameters = rest[:9], rest[9:]
    none = [None] * (9 + len(ctx.settings))
    if d_out is None and d_lse is None:
        return None, None, None, [None] * len(parameters), None, *none
    if block_table is not None:
        raise _core.ShapeError(PAGED)
    d_out = torch.zeros_like(out) if d_out is None else d_out
    d_q, d_k, d_v, *found = attention_backward(
        d_out, d_lse, out, lse, q, k, v, parameters, sinks, *masks, *ctx.settings, ctx.learned
    )
    d_sinks = None if sinks is None else found.pop(0)
    return d_q, d_k, d_v, _spread(found, parameters), d_sinks, *none


PAGED = "[attention] block_table: must not be given where gradients are wanted, as a paged cache has none"
attention.register_autograd(_attention_backward, setup_context=_attention_context)


# Query and key rows with parameters of their own.


@op("turn")
def turn(
    x: Tensor,
    parameters: Sequence[Tensor],
    positions: Optional[Tensor],
    first: int,
    encoding: str,
    side: str,
    layout: str,
) -> Tensor:
    """T x."""
    (one,) = build(encoding, _plain(parameters), arithmetic_of(x.dtype))
    return _core.turn(one, x.detach(), _at(positions, first), side=side, layout=layout, threads=torch.get_num_threads())


@turn.register_fake
def _(x, parameters, positions, first, encoding, side, layout):
    return x.new_empty((*x.shape[:3], turned_dim(encoding, x.shape[3])))


@op("turn_backward")
def turn_backward(
    d_y: Tensor,
    x: Tensor,
    parameters: Sequence[Tensor],
    positions: Optional[Tensor],
    first: int,
    encoding: str,
    side: str,
    layout: str,
) -> list[Tensor]:
    """The gradients of x and of the parameters; all sums in the call's arithmetic."""
    arithmetic = arithmetic_of(x.dtype)
    (one,) = build(encoding, _plain(parameters), arithmetic)
    d_x, found = _core.turn_backward(
        one, x.detach().to(arithmetic), d_y.detach().to(arithmetic), _at(positions, first), side=side, layout=layout,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return [d_x.to(x.dtype), *gradients(encoding, parameters, [found])]


@turn_backward.register_fake
def _(d_y, x, parameters, positions, first, encoding, side, layout):
    return _like([x, *parameters])


def _turn_context(ctx, inputs, output):
    x, parameters, positions, *ctx.rest = inputs
    ctx.save_for_backward(x, positions, *parameters)


def _turn_backward(ctx, d_y):
    x, positions, *parameters = ctx.saved_tensors
    d_x, *found = turn_backward(d_y, x, parameters, positions, *ctx.rest)
    return d_x, _spread(found, parameters), None, None, None, None, None


turn.register_autograd(_turn_backward, setup_context=_turn_context)


# Encodings of the input.


@op("add")
def add(x: Tensor, parameters: Sequence[Tensor], positions: Optional[Tensor], first: int, encoding: str) -> Tensor:
    """x + p."""
    (one,) = build(encoding, _plain(parameters), arithmetic_of(x.dtype))
    return _core.add(one, x.detach(), _at(positions, first), threads=torch.get_num_threads())


@add.register_fake
def _(x, parameters, positions, first, encoding):
    return x.new_empty(x.shape)


_add_in_place = in_words_of("add_", "add")(_core.add)


def add_in_place(
    x: Tensor, parameters: Sequence[Tensor], positions: Optional[Tensor], first: int, encoding: str
) -> None:
    """x += p, without gradients."""
    (one,) = build(encoding, _plain(parameters), arithmetic_of(x.dtype))
    x = x.detach()
    _add_in_place(one, x, _at(positions, first), out=x, threads=torch.get_num_threads())


add_ = written_op("add_", add_in_place, ["x"])


@add_.register_fake
@functools.partial(with_or_without_numbers, "add_")
def _(x, parameters, positions, first, encoding):
    return None


@op("add_backward")
def add_backward(
    d_x: Tensor, parameters: Sequence[Tensor], positions: Optional[Tensor], first: int, encoding: str
) -> list[Tensor]:
    """The gradients of the parameters; x's own is d_x itself."""
    arithmetic = arithmetic_of(d_x.dtype)
    (one,) = build(encoding, _plain(parameters), arithmetic)
    found = _core.add_backward(one, d_x.detach().to(arithmetic), _at(positions, first), threads=torch.get_num_threads())
    return gradients(encoding, parameters, [found])


@add_backward.register_fake
def _(d_x, parameters, positions, first, encoding):
    return _like(parameters)


def _add_context(ctx, inputs, output):
    _, parameters, positions, *ctx.rest = inputs
    ctx.save_for_backward(positions, *parameters)


def _add_backward(ctx, d_y):
    positions, *parameters = ctx.saved_tensors
    found = add_backward(d_y, parameters, positions, *ctx.rest) if parameters else []
    return d_y, _spread(found, parameters), None, None, None


add.register_autograd(_add_backward, setup_context=_add_context)
