"""Functions around the ops: they check arguments, fill in defaults, and take encodings as modules or objects."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from .. import _core
from .._window import check_window
from . import direct, ops
from .compiling import constant_of
from .dispatch import is_transformed, needs_op
from .encoding import (
    KEPT,
    EncodingLike,
    Encodings,
    check_fixed,
    encoding_given,
    encodings_of,
    forms_of,
    geometry_form,
    is_given,
    table_form,
    tensors_of,
    text_of_table,
)
from .given_numbers import whole_number
from .given_tables import given_numbers
from .matrix_op import bias_matrix as matrix
from .ops import arithmetic_of
from .regions import Regions, text_of_regions
from .starting import check_local
from .triton import device
from .words import in_words_of

Positions = Union[Tensor, int, None]
ArrayLike = Union[Tensor, Sequence[Any], np.ndarray]
Layout = Literal["bhtd", "bthd"]
Mask = Literal["none", "causal", "causal_top_left", "causal_bottom_right"]
_MASKS, _LAYOUTS = get_args(Mask), get_args(Layout)
_OF_8_BITS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
_GIVEN = ("k_lengths", "key_mask", "visible", "q_starts", "k_starts", "block_table")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encodings: Encodings = None,
    *,
    mask: Mask,
    window: tuple[int, int] | None = None,
    q_positions: Positions = None,
    k_positions: Positions = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    sinks: Tensor | None = None,
    k_lengths: ArrayLike | None = None,
    key_mask: ArrayLike | None = None,
    visible: ArrayLike | None = None,
    q_starts: ArrayLike | None = None,
    k_starts: ArrayLike | None = None,
    block_table: ArrayLike | None = None,
    regions: Regions | str = None,
    band: _core.DistanceBand | str | None = None,
    layout: Layout = "bhtd",
    out_dtype: torch.dtype | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Computes softmax attention with any list of encodings. It is differentiable; its memory is linear in the lengths.

    ``s_ij = cap(c (T q_i)·(T k_j)) + terms``, ``o_i = sum_j softmax(s)_ij (v_j + V[rho(i, j)])``

    q [batch, heads, q_len, dim]: the queries; with layout "bthd" time comes before heads, and so in k and v.
    k [batch, kv_heads, k_len, dim]: the keys; kv_heads divides heads.
    v [batch, kv_heads, k_len, value_dim]: the values.
    encodings: modules of this package, ``bearing``'s own encodings, or a list of both. A ``bearing.RopeTable`` counts as
        ``RotaryRows`` of it, a ``bearing.Rope`` as the module :class:`Rope` of it, unless its frequencies depend on the
        length.
    block_table [batch, blocks]: a paged cache, with k and v [blocks, kv_heads, block_size, …]. Nothing has gradients
        then.
    regions: a ``bearing.DualChunk``, ``SelfExtend`` or ``ReRope``, a list of ``Region``, or the JSON of their
        ``to_dict()``, which ``torch.compile`` takes.
    band: a ``bearing.DistanceBand``, or the JSON of its ``to_dict()``: a query sees keys in the band alone, by positions; not
        with regions.
    k_lengths, key_mask, visible, q_starts, k_starts, block_table: tensors, or lists and arrays, which are copied.
    out_dtype: torch.float32 keeps all bits of out where q has 16.

    All other arguments are those of ``bearing.attention``. Gradients: of q, k, v, the sinks and every parameter.

    On GPUs a kernel in Triton takes biases and rows of tables by distance, and turns rows by a table before. Its sums are
    taken in one order: every run gives the same bits, also of gradients. :func:`bearing.torch.plan` says which path a call
    takes, and why.

    Under autocast q, k and v are cast to its type, as in PyTorch's own attention, unless they are float64. Sums and
    parameters stay float32.

    Returns out, which is contiguous. With return_lse it returns (out, lse): lse [batch, heads, q_len] has the
    logarithms of the rows' sums, in float64 for float64, else in float32.

    Raises ShapeError, RangeError, ValueError or TypeError, whose text names the argument.
    """
    usual = visible is q_starts is k_starts is block_table is regions is band is out_dtype is sinks is None
    if not (usual and k_lengths is key_mask is None) and isinstance(q, Tensor):
        arrays = (k_lengths, key_mask, visible, q_starts, k_starts, block_table)
        k_lengths, key_mask, visible, q_starts, k_starts, block_table = (
            tensor_given("attention", name, x, q.device) for name, x in zip(_GIVEN, arrays, strict=True)
        )
    given = None
    if usual:
        found, given = direct.attention(
            q,
            k,
            v,
            encodings,
            q_positions,
            k_positions,
            mask,
            window,
            scale,
            soft_cap,
            k_lengths,
            key_mask,
            layout,
            return_lse,
        )
        if found is not None:
            return found
    q, k, v = autocast("attention", q, k, v, kernels=True)
    check_options(mask, window, scale, sinks)
    given = encodings_of(encodings) if given is None else given
    for name, x in (("k", k), ("v", v)):
        if x.dtype in _OF_8_BITS and q.dtype not in _OF_8_BITS:  # of such a q the op says what it must be
            raise TypeError(
                f"[attention] {name}: must be of the type of q, {q.dtype}, got {x.dtype}: widen what the call reads, as "
                f"{name}.to(q.dtype) * {name}_scale does, of a paged cache the blocks that block_table names"
            )
    arithmetic = arithmetic_of(q.dtype)
    q_positions, q_first = positions_of("attention", "q_positions", q_positions, _batch(q, 4))
    k_positions, k_first = positions_of("attention", "k_positions", k_positions, _batch(k, 4))
    parameters, forms, text = tensors_of(given, arithmetic), forms_of(given), text_of_regions(regions, band=band)
    watching = [q, k, v, *parameters, *([] if sinks is None else [sinks])]
    watched = needs_op(watching)
    if watched and device.takes(q) and not torch.compiler.is_compiling():  # the op itself does not see what is learned
        ops.check_kernels(q, k, v, parameters, forms, (q_positions, k_positions), block_table, text)
    if block_table is not None and torch.is_grad_enabled() and any(t.requires_grad for t in watching):
        raise _core.ShapeError(ops.PAGED)
    call = (
        q,
        k,
        v,
        parameters,
        None if sinks is None else sinks.to(arithmetic),
        q_positions,
        k_positions,
        k_lengths,
        key_mask,
        visible,
        q_starts,
        k_starts,
        block_table,
        forms,
        mask,
        [-1, -1] if window is None else [window[0], window[1]],
        q_first,
        k_first,
        scale,
        soft_cap,
        layout,
        text,
        q.dtype if out_dtype is None else out_dtype,
    )
    out, lse = ops.attention(*call) if watched else ops.attention_now(*call, return_lse)
    return (out, lse) if return_lse else out


def rotate(
    *xs: Tensor,
    rope: RopeLike,
    positions: Positions = None,
    layout: Layout = "bhtd",
) -> Tensor | tuple[Tensor, ...]:
    """Rotates queries, keys or any heads by RoPE: ``rotate(q, k, rope=rope)`` gives both.

    xs [batch, heads, time, head_dim]: the tensors to rotate, one or more.
    rope: a :class:`bearing.torch.Rope`, a ``bearing.Rope`` whose frequencies are the same at every length, or a
        ``bearing.RopeTable``. The module is faster: for the other two every call makes a text, which the module keeps.
        Compiled code takes all three if ``bearing``'s own were made outside of it: it cannot call what makes these.
    positions: where tokens stand, as :func:`bearing.torch.attention` takes positions.
    layout: 'bhtd', or 'bthd' for tensors with time before heads.

    Returns one new tensor for each of xs, in its type and order of memory. Autocast changes nothing. Differentiable in
    xs, any number of times. Raises ShapeError, RangeError or TypeError, whose text names the argument.

    On GPUs a kernel in Triton turns xs, two in one launch, to the same bits. A position on the device that is past ±2^31,
    or that a given table does not have, makes NaN there, as nothing on a device can raise.
    """
    if not xs:
        raise TypeError("[rotate] xs: must be one tensor or more, got none")
    turned = direct.rotate(xs, rope, positions, layout)
    if turned is not None:
        return turned[0] if len(turned) == 1 else tuple(turned)
    check_device("rotate", *xs, kernels=True)
    positions, first = positions_of("rotate", "positions", positions, _batch(xs[0], 4))
    table, cos, sin = table_of_rope("rotate", rope)
    call = ops.rotate if needs_op(xs) else ops.rotate_now
    turned = call(list(xs), positions, first, table, layout, False, cos, sin)
    return turned[0] if len(turned) == 1 else tuple(turned)


def turn(
    encoding: EncodingLike,
    x: Tensor,
    positions: Positions = None,
    *,
    side: Literal["query", "key"],
    layout: Layout = "bhtd",
) -> Tensor:
    """Returns T x for an encoding T of query and key rows.

    x [batch, heads, time, dim]: queries or keys, as side says.
    positions: where tokens stand, as :func:`bearing.torch.attention` takes positions.
    side: 'query' or 'key'.

    Gradients: of x and the parameters.
    """
    check_device("turn", x)
    positions, first = positions_of("turn", "positions", positions, _batch(x, 4))
    one = encoding_given("[turn] encoding", encoding)
    return ops.turn(x, tensors_of([one], arithmetic_of(x.dtype)), positions, first, forms_of([one]), side, layout)


def add(encoding: EncodingLike, x: Tensor, positions: Positions = None) -> Tensor:
    """Returns x + p for an encoding p of the input; x is [batch, time, dim]. Gradients: of x and the parameters."""
    check_device("add", x)
    positions, first = positions_of("add", "positions", positions, _batch(x, 3))
    one = encoding_given("[add] encoding", encoding)
    return ops.add(x, tensors_of([one], arithmetic_of(x.dtype)), positions, first, forms_of([one]))


def add_(encoding: EncodingLike, x: Tensor, positions: Positions = None) -> Tensor:
    """Adds an encoding of the input to x in place, otherwise as :func:`add`; returns x.

    Without gradients it needs no memory. With them the sum is computed beside x and copied into it.
    """
    check_device("add_", x)
    positions, first = positions_of("add_", "positions", positions, _batch(x, 3))
    one = encoding_given("[add_] encoding", encoding)
    parameters = tensors_of([one], arithmetic_of(x.dtype))
    if (
        is_transformed()
        or torch.jit.is_tracing()
        or (torch.is_grad_enabled() and any(t.requires_grad for t in (x, *parameters)))
    ):
        beside = ops.add if torch.compiler.is_compiling() else _add_beside
        return x.copy_(beside(x, parameters, positions, first, forms_of([one])))
    write = ops.add_ if needs_op((x, *parameters)) else ops.add_in_place
    write(x, parameters, positions, first, forms_of([one]))
    return x


_add_beside = in_words_of("add_", "add")(lambda *args: ops.add(*args))


def bias_matrix(
    encodings: Encodings,
    q_positions: Positions = None,
    k_positions: Positions = None,
    *,
    heads: int,
    q_len: int | None = None,
    k_len: int | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Makes the scores of encodings that look at neither queries nor keys: [heads, q_len, k_len].

    q_positions: where queries stand, as :func:`bearing.torch.attention` takes positions.
    k_positions: where keys stand.
    q_len: how many queries; it may be left out where q_positions is a tensor.
    k_len: how many keys; it may be left out where k_positions is a tensor.
    dtype: the type of the result. If not given, it is the parameters' own, of several types the wider one, or float32 where
        there are no parameters.

    Gradients: of the parameters.
    """
    given = encodings_of(encodings, "bias_matrix")
    if dtype is None:
        kinds = [t.dtype for one in given for t in one.tensors if t.is_floating_point()]
        dtype = functools.reduce(torch.promote_types, kinds) if kinds else torch.float32
    q_positions, q_first = positions_of("bias_matrix", "q_positions", q_positions)
    k_positions, k_first = positions_of("bias_matrix", "k_positions", k_positions)
    return matrix(
        tensors_of(given, arithmetic_of(dtype)),
        q_positions,
        k_positions,
        q_first,
        k_first,
        forms_of(given),
        heads,
        _length("q_len", q_len, q_positions),
        _length("k_len", k_len, k_positions),
        dtype,
    )


def positions_of(function: str, name: str, positions: Positions, batch: int = 1) -> tuple[Tensor | None, int]:
    """Positions as ops take them: a tensor, or the first position. A tensor for one sequence serves the whole batch."""
    if positions is None:
        return None, 0
    if isinstance(positions, bool):
        raise TypeError(f"[{function}] {name}: must be a tensor, an int or None, got {type(positions)}")
    if isinstance(positions, (int, torch.SymInt)):
        # A compiler takes a size that changes for an int, and would make a constant of it.
        if type(positions) is int and not torch.compiler.is_compiling() and positions.bit_length() > 63:
            raise TypeError(f"[{function}] {name}: must be a whole number of 64 bits, got {positions}")
        return None, positions
    try:
        at = positions if isinstance(positions, Tensor) else _copied(positions)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"[{function}] {name}: must be a tensor, an int or None, got {type(positions)}") from error
    if at is not positions and at.dim() == 0 and at.is_floating_point():
        raise TypeError(
            f"[{function}] {name}: must be a tensor, an int or None, got {positions!r}: places between tokens are a tensor"
        )
    if at.requires_grad:
        raise TypeError(f"[{function}] {name}: must be a tensor without requires_grad: positions have no gradient")
    if at.dim() > 1 and at.shape[-2] == 1 and batch != 1:
        at = at.expand(*at.shape[:-2], batch, -1)
    return at, 0


def tensor_given(function: str, name: str, given: ArrayLike | None, device: torch.device) -> Tensor | None:
    """Whole numbers or truth values of a call as a tensor: lists and arrays are copied to the device."""
    if given is None or isinstance(given, Tensor):
        return given
    if not isinstance(given, (list, tuple, np.ndarray)):
        raise TypeError(f"[{function}] {name}: must be a tensor, a list or an array, got {type(given)}")
    try:
        return _copied(given).to(device)
    except (TypeError, ValueError, RuntimeError) as error:
        wanted = "numbers with one length along each axis"
        if isinstance(given, np.ndarray):
            wanted = f"of a type that PyTorch has, which {given.dtype} is not"
        raise TypeError(f"[{function}] {name}: must be {wanted}, got {given!r}") from error


def _copied(given: Any) -> Tensor:
    """A list, an array or a number as a tensor of its own memory: what is written to an array later changes no gradient. A
    list of nothing is of whole numbers."""
    if isinstance(given, np.ndarray):
        return torch.from_numpy(np.array(given))
    found = torch.tensor(given)
    return found.long() if isinstance(given, (list, tuple)) and not found.numel() else found


def _batch(x: Tensor, axes: int) -> int:
    """How many sequences a tensor has whose first axes may be left out."""
    return x.shape[0] if x.dim() == axes else 1


def check_device(function: str, *tensors: Tensor, kernels: bool = False) -> None:
    """Raises TypeError unless all are local tensors on the CPU (or on the meta device). kernels: whether the function has
    kernels for GPUs, which take theirs."""
    for t in tensors:
        if type(t) is Tensor and t.is_cpu:
            continue
        if not isinstance(getattr(t, "device", None), torch.device):
            raise TypeError(f"[{function}] must be given tensors, got {type(t)}: bearing.{function} takes other arrays")
        if type(t) not in (Tensor, Parameter):
            check_local(function, (t,))
        if kernels and isinstance(t, Tensor) and device.takes(t):
            if device.MISSING:
                raise TypeError(f"[{function}] tensors: on {t.device} need kernels in Triton, but {device.MISSING}")
            continue
        if t.device.type not in ("cpu", "meta"):
            raise TypeError(
                f"[{function}] must be given tensors on the CPU, got one on {t.device}: there FlexAttention takes "
                "these encodings as bearing.torch.score_mod(...)"
            )


def table_of_rope(function: str, rope: RopeLike) -> tuple[str, Tensor | None, Tensor | None]:
    """The table of a module; for a spec one of 2,048 rows, as other rows are computed when they are needed. Also cos
    and sin, if they were given.
    """
    if isinstance(rope, str):
        return rope, None, None
    if isinstance(rope, (_core.Rope, _core.RopeTable)):
        return (_constant_table if torch.compiler.is_compiling() else _table)(function, rope)
    if not hasattr(rope, "table"):
        raise TypeError(
            f"[{function}] rope: must be a bearing.torch.Rope, or a Rope or RopeTable of bearing, got {rope!r}"
        )
    return rope.table, None, None


def _table(function: str, rope: _core.Rope | _core.RopeTable) -> tuple[str, Tensor | None, Tensor | None]:
    if isinstance(rope, _core.Rope):
        check_fixed(f"[{function}] rope", rope)
        return table_form(rope, KEPT), None, None
    if is_given(rope):
        return geometry_form(rope), *given_numbers(rope)
    return text_of_table(rope), None, None


_constant_table = constant_of(_table)


def autocast(
    function: str, *tensors: Tensor, kernels: bool = False, to: torch.dtype | None = None
) -> tuple[Tensor, ...]:
    """Queries, keys and values in the type of autocast, or in `to`, if it is at work; those of float64 as they are."""
    check_device(function, *tensors, kernels=kernels)
    kind = tensors[0].device.type if kernels and device.takes(tensors[0]) else "cpu"
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = to or torch.get_autocast_dtype(kind)
    return tuple(t if t.dtype is torch.float64 else t.to(dtype) for t in tensors)


def check_options(mask: object, window: object, scale: object, sinks: object, function: str = "attention") -> None:
    """Refuses options that the op's schema would refuse in its own words, or take without their gradient. function: who
    was called, for errors."""
    if not isinstance(mask, str) or mask not in _MASKS:
        words = ", ".join(map(repr, _MASKS))
        if hasattr(mask, "shape"):
            words += "; a tensor of what is seen goes to visible="
            raise ValueError(f"[{function}] mask: must be one of {words}, got {type(mask)} of shape {list(mask.shape)}")
        raise ValueError(f"[{function}] mask: must be one of {words}, got {mask!r}")
    if window is not None and not (
        isinstance(window, (tuple, list)) and len(window) == 2 and all(hasattr(type(n), "__index__") for n in window)
    ):
        raise TypeError(f"[{function}] window: must be (before, after), got {window!r}")
    if window is not None:
        check_window(*window, function=function)
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise TypeError(f"[{function}] scale: must not require gradients, which would be lost: multiply q by it")
    if not (sinks is None or isinstance(sinks, Tensor)):
        raise TypeError(f"[{function}] sinks: must be a tensor [heads], got {type(sinks)}")


def check_layout(function: str, layout: object) -> None:
    """Raises ValueError for an order of axes that there is none of."""
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise ValueError(f"[{function}] layout: must be one of {', '.join(map(repr, _LAYOUTS))}, got {layout!r}")


def _length(name: str, given: int | None, positions: Tensor | None) -> int:
    if given is not None:
        return given
    if positions is None:
        raise TypeError(f"[bias_matrix] {name}: must be given, unless positions are a tensor, got None")
    return positions.shape[-1]


class HasTable:
    """A module that holds a rotary table: see :class:`bearing.torch.Rope`."""

    table: str


RopeLike = Union["_core.Rope", "_core.RopeTable", HasTable, str]


def window_positions(height: int, width: int) -> Tensor:
    """Makes the positions of a window's tokens, row by row: [2, 1, height * width], y then x.

    Raises RangeError for extents below 0.
    """
    height = whole_number("window_positions", "height", height)
    width = whole_number("window_positions", "width", width)
    return torch.cartesian_prod(torch.arange(height), torch.arange(width)).T.contiguous().unsqueeze(1)
