"""attention(), merge() and their gradients."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from .. import _core
from .._window import check_window
from . import ffi
from .arrays import (
    TYPES,
    Layout,
    Positions,
    array_of,
    check_shape,
    finite,
    flags_of,
    given_bits,
    is_time_first,
    laid,
    like,
    numbers_of,
    position_axes,
    positions_of,
    present,
    qkv_of,
    same_type,
    shape_of,
    tensor_of,
    threads_of,
    type_of,
    whole_of,
    with_axes,
    word_of,
)
from .encodings import arithmetic_of, check_encodings, parameter_axes, plan_of, serving
from .shards import Axes

Mask = Literal["none", "causal", "causal_top_left", "causal_bottom_right"]
MASKS = get_args(Mask)


class _Options(NamedTuple):
    """What is static in a call: the attributes of its handlers."""

    plan: str
    mask: str
    window_before: int
    window_after: int
    scaled: bool
    scale: float
    soft_cap: float
    out_dtype: Any
    regions: str
    band: str
    time_first: bool
    threads: int

    def attributes(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name != "out_dtype"}


class _Learned(NamedTuple):
    """The arrays of a call that have gradients."""

    q: jax.Array
    k: jax.Array
    v: jax.Array
    sinks: jax.Array | None
    parameters: tuple[jax.Array, ...]


class _Given(NamedTuple):
    """The arrays of a call that have no gradients."""

    q_positions: jax.Array | None
    k_positions: jax.Array | None
    k_lengths: jax.Array | None
    key_mask: jax.Array | None
    visible: jax.Array | None
    q_starts: jax.Array | None
    k_starts: jax.Array | None
    block_table: jax.Array | None


def attention(
    q: jax.typing.ArrayLike,
    k: jax.typing.ArrayLike,
    v: jax.typing.ArrayLike,
    encodings: Any = None,
    *,
    mask: Mask,
    window: tuple[int, int] | None = None,
    q_positions: Positions = None,
    k_positions: Positions = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    sinks: jax.typing.ArrayLike | None = None,
    k_lengths: jax.typing.ArrayLike | None = None,
    key_mask: jax.typing.ArrayLike | None = None,
    visible: jax.typing.ArrayLike | None = None,
    q_starts: jax.typing.ArrayLike | None = None,
    k_starts: jax.typing.ArrayLike | None = None,
    block_table: jax.typing.ArrayLike | None = None,
    layout: Layout = "bhtd",
    threads: int = 1,
    out_dtype: Any = None,
    return_lse: bool = False,
    regions: Any = None,
    band: _core.DistanceBand | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes softmax attention with any list of encodings. Its memory is linear in the lengths.

    ``s_ij = cap(c (T q_i)·(T k_j)) + terms``, ``o_i = sum_j softmax(s)_ij (v_j + V[rho(i, j)])``

    q [batch, heads, q_len, dim]: the queries; the first axes may be left out, in k and v as well. With layout "bthd"
        time comes before heads.
    k [batch, kv_heads, k_len, dim]: the keys, of q's type; kv_heads divides heads.
    v [batch, kv_heads, k_len, value_dim]: the values, of q's type.
    encodings: one of ``bearing``'s encodings, or a list of them. Their arrays may be traced. A RopeTable counts as
        RotaryRows of it, a Rope as those of its table, unless its frequencies depend on the length.
    mask: 'none', 'causal' by positions, 'causal_top_left' or 'causal_bottom_right' by indices, the latter back from the
        last key, which is where k_lengths says. It has no default. Of positions on several axes the first one decides, and
        where it is the same the next one: a patch sees those before it in its picture.
    window: (before, after) in tokens, on the first axis of positions; -1 for no limit. A model's sliding window of w keys
        is (w - 1, 0).
    q_positions: where queries stand: None for 0, 1, 2, …; a scalar p, traced or not, for p, p + 1, … (p keys are in the
        cache already); or an array [time], [batch, time] or [axes, batch, time]. A rotation of several axes takes one
        number for all of them in the first forms: patches of an image need the last one.
    k_positions: where keys stand, in the same forms.
    scale: c; None for 1/sqrt(dim).
    soft_cap: bounds c q·k before terms are added; 0 for no bound.
    sinks [heads]: a logit for each head that takes part in a row's sum and has no value.
    k_lengths [batch]: how many keys of each sequence count.
    key_mask [batch, k_len]: True for keys that may be seen.
    visible [batch, heads, q_len, k_len]: True for keys that the query may see; any shape that broadcasts to this one,
        which the program then writes out.
    q_starts [sequences + 1]: where packed sequences start among queries; given together with k_starts.
    k_starts [sequences + 1]: where they start among keys.
    block_table [batch, blocks]: a paged cache, with k and v [blocks, kv_heads, block_size, …]. It needs k_lengths and
        has no gradients.
    threads: how many threads the call may use; 0 for all.
    out_dtype: float32 keeps all bits of out where q has 16, for merge().

    regions: a ``bearing.DualChunk``, ``SelfExtend`` or ``ReRope``, or a list of ``Region``: rows are then turned at other
        positions from region to region of one softmax.
    band: a ``bearing.DistanceBand``: a query sees keys whose distance lies in it alone; not with regions.

    window, scale, soft_cap, layout, threads, regions and band are static. Returns out, of q's type. With return_lse it returns (out,
    lse): lse [batch, heads, q_len] has the logarithms of the rows' sums. It lacks the axes that q lacks.
    """
    time_first = is_time_first("attention", layout)
    if not isinstance(return_lse, bool):
        raise TypeError(f"[attention] return_lse: must be bool, got {return_lse!r}")
    word_of("attention", "mask", mask, MASKS, "; an array of what is seen goes to visible=")
    qs, ks, vs = qkv_of("attention", q, k, v, time_first)
    if block_table is not None:
        block_table = numbers_of("attention", "block_table", block_table)
    problem = _problem(qs, ks, vs, block_table, time_first)
    if sinks is not None:
        sinks = numbers_of("attention", "sinks", sinks, TYPES).astype(arithmetic_of(qs.dtype))
        check_shape("attention", "sinks", sinks, "[heads]", (problem.heads,))
    given = _Given(
        q_positions=positions_of("attention", "q_positions", q_positions, problem.q_len, problem.batch),
        k_positions=positions_of("attention", "k_positions", k_positions, problem.k_len, problem.batch),
        k_lengths=_lengths(k_lengths, problem, block_table),
        **_masks(key_mask, visible, problem),
        **_starts(q_starts, k_starts),
        block_table=block_table,
    )
    before, after = _window_of(window)
    plan = plan_of("attention", encodings, qs.dtype)
    check_encodings("attention", plan, qs.dtype, given.q_positions, given.k_positions, **problem._asdict())
    options = _Options(
        plan=plan.text,
        mask=mask,
        window_before=before,
        window_after=after,
        scaled=scale is not None,
        scale=finite("attention", "scale", 1.0 if scale is None else scale),
        soft_cap=_soft_cap_of(soft_cap),
        out_dtype=_result_type(qs.dtype, out_dtype),
        regions=_core._region_text("attention", regions),
        band=_band_of(band, regions),
        time_first=time_first,
        threads=threads_of("attention", threads),
    )
    out, lse = _compiled(options, _Learned(qs, ks, vs, sinks, plan.parameters), given)
    out = with_axes(out, jnp.ndim(q), time_first)
    return (out, lse.reshape(lse.shape[4 - jnp.ndim(q) :])) if return_lse else out


def _soft_cap_of(soft_cap: Any) -> float:
    number = finite("attention", "soft_cap", soft_cap)
    if number < 0:
        raise _core.RangeError(f"[attention] soft_cap: must be positive, or 0 for none, got {number}")
    return number


def _band_of(band: Any, regions: Any) -> str:
    text = _core._band_text("attention", band)
    if text and regions is not None:
        raise _core.RangeError(
            f"[attention] band: must be None beside regions, as each region has its own, got {band!r}"
        )
    return text


def _window_of(window: Any) -> tuple[int, int]:
    if window is None:
        return -1, -1
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise TypeError(f"[attention] window: must be (before, after), got {window!r}")
    before, after = (whole_of("attention", "window", one) for one in window)
    check_window(before, after)
    return before, after


class _Problem(NamedTuple):
    batch: int
    heads: int
    kv_heads: int
    q_len: int
    k_len: int
    dim: int
    value_dim: int


def _problem(q: jax.Array, k: jax.Array, v: jax.Array, block_table: jax.Array | None, time_first: bool) -> _Problem:
    """The call's extents, if its tensors fit each other."""
    q_shape, k_shape, v_shape = (shape_of(x, time_first) for x in (q, k, v))
    check_fit("attention", q_shape, k_shape, v_shape, paged=block_table is not None)
    k_len = k_shape[2]
    if block_table is not None:
        k_len *= _blocks_of(block_table, q_shape[0])
    return _Problem(q_shape[0], q_shape[1], k_shape[1], q_shape[2], k_len, q_shape[3], v_shape[3])


def check_fit(function: str, q: list[int], k: list[int], v: list[int], *, paged: bool = False) -> None:
    """Raises ShapeError unless queries, keys and values fit each other, as every kind of attention needs them."""
    grouped = q[1] % k[1] == 0 if k[1] > 0 else q[1] == 0
    if (not paged and k[0] != q[0]) or k[3] != q[3] or not grouped:
        axes = "[blocks, kv_heads, block_size, dim]" if paged else "[batch, kv_heads, k_len, dim]"
        raise _core.ShapeError(
            f"[{function}] k: must be {axes}, kv_heads a divisor of heads, for queries "
            f"[batch, heads, q_len, dim] = {q}, got {k}"
        )
    if v[:3] != k[:3]:
        raise _core.ShapeError(f"[{function}] v: must have the first three extents of k, {k}, got {v}")


def _blocks_of(block_table: jax.Array, batch: int) -> int:
    """How many blocks a sequence has."""
    if block_table.ndim != 2 or block_table.shape[0] != batch:
        raise _core.ShapeError(
            f"[attention] block_table: must be [batch, blocks of a sequence] with batch = {batch}, "
            f"got {list(block_table.shape)}"
        )
    return block_table.shape[1]


def _result_type(dtype: Any, wanted: Any) -> Any:
    kind = dtype if wanted is None else type_of("attention", wanted, "out_dtype")
    if kind in (dtype, arithmetic_of(dtype)):
        return jnp.dtype(kind)
    or_sums = "" if dtype == arithmetic_of(dtype) else ", or float32, which sums are taken in"
    raise TypeError(f"[attention] out_dtype: must be {dtype}, as q is{or_sums}, got {kind}")


def _lengths(k_lengths: Any, problem: _Problem, block_table: jax.Array | None) -> jax.Array | None:
    if k_lengths is not None:
        k_lengths = numbers_of("attention", "k_lengths", k_lengths)
        check_shape("attention", "k_lengths", k_lengths, "[batch]", (problem.batch,))
    elif block_table is not None:
        raise _core.ShapeError("[attention] k_lengths: must be given for a paged cache")
    return k_lengths


def _masks(key_mask: Any, visible: Any, problem: _Problem) -> dict[str, jax.Array | None]:
    batch, heads, _, q_len, k_len, *_ = problem
    if key_mask is not None:
        key_mask = flags_of("attention", "key_mask", key_mask)
        check_shape("attention", "key_mask", key_mask, "[batch, k_len]", (batch, k_len))
    if visible is not None:
        visible = _with_all_axes(flags_of("attention", "visible", visible), (batch, heads, q_len, k_len))
    return {"key_mask": key_mask, "visible": visible}


def _with_all_axes(visible: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Four axes, of extent 1 where what is given serves all, as NumPy has it."""
    axes = "[batch, heads, q_len, k_len]"
    missing = 4 - visible.ndim
    if missing < 0:
        raise _core.ShapeError(
            f"[attention] visible: must be an array of at most 4 axes, {axes}, got shape {list(visible.shape)}"
        )
    if not all(n in (wanted, 1) for n, wanted in zip(visible.shape, shape[missing:], strict=True)):
        raise _core.ShapeError(
            f"[attention] visible: must be {axes} = {list(shape)}, or broadcast to it, got {list(visible.shape)}"
        )
    return jnp.expand_dims(visible, tuple(range(missing)))


def _written_out(learned: _Learned, given: _Given, time_first: bool) -> _Given:
    """With `visible` of all extents, as handlers take it."""
    if given.visible is None:
        return given
    batch, heads, _, q_len, k_len, *_ = _problem(learned.q, learned.k, learned.v, given.block_table, time_first)
    return given._replace(visible=jnp.broadcast_to(given.visible, (batch, heads, q_len, k_len)))


def _starts(q_starts: Any, k_starts: Any) -> dict[str, jax.Array | None]:
    if q_starts is None and k_starts is None:
        return {"q_starts": None, "k_starts": None}
    starts = [
        x if x is None else numbers_of("attention", name, x)
        for name, x in (("q_starts", q_starts), ("k_starts", k_starts))
    ]
    for one, other, missing in (("q", "k", starts[1]), ("k", "q", starts[0])):
        if missing is None:
            raise _core.ShapeError(f"[attention] {other}_starts: must be given together with {one}_starts, got none")
    shapes = [x.shape for x in starts]
    if shapes[0] != shapes[1] or len(shapes[0]) != 1 or shapes[0][0] < 2:
        raise _core.ShapeError(
            f"[attention] q_starts, k_starts: must both be [sequences + 1], got {list(shapes[0])} and {list(shapes[1])}"
        )
    return {"q_starts": starts[0], "k_starts": starts[1]}


def _optional(learned: _Learned, given: _Given) -> list[jax.Array | None]:
    """In the order of the handlers."""
    return [learned.sinks, *given]


def _axes(options: _Options, learned: _Learned, given: _Given) -> dict[str, list[str]]:
    """What may be cut in a call's arrays: batch and heads. A paged cache is whole, as any sequence may read any block."""
    paged = given.block_table is not None
    optional = {
        "sinks": "h",
        "q_positions": given.q_positions is not None and position_axes(given.q_positions),
        "k_positions": given.k_positions is not None and position_axes(given.k_positions),
        "k_lengths": "b",
        "key_mask": "b.",
        "visible": "bh..",
        "q_starts": ".",
        "k_starts": ".",
        "block_table": "b.",
    }
    given_too = zip(optional.values(), _optional(learned, given), strict=True)
    return {
        "q": [laid("bh..", options.time_first)],
        "kv": [laid(".k.." if paged else "bk..", options.time_first)] * 2,
        "lse": ["bh."],
        "sinks": [] if learned.sinks is None else ["h"],
        "optional": [text for text, array in given_too if array is not None],
        "parameters": parameter_axes(options.plan, learned.parameters),
    }


def _serves(options: _Options, learned: _Learned, given: _Given) -> Any:
    problem = _problem(learned.q, learned.k, learned.v, given.block_table, options.time_first)
    positions = given.q_positions, given.k_positions
    return serving("attention", options.plan, learned.parameters, learned.q.dtype, *positions, **problem._asdict())


def _attention(options: _Options, learned: _Learned, given: _Given) -> tuple[jax.Array, jax.Array]:
    q, v = learned.q, learned.v
    given = _written_out(learned, given, options.time_first)
    rows = (q.shape[0], q.shape[2], q.shape[1]) if options.time_first else q.shape[:3]
    results = [
        jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), options.out_dtype),
        jax.ShapeDtypeStruct(rows, arithmetic_of(q.dtype)),
    ]
    optional = _optional(learned, given)
    arrays = [learned.q, learned.k, learned.v, *present(optional), *learned.parameters]
    cut = _axes(options, learned, given)
    axes = Axes(
        (*cut["q"], *cut["kv"], *cut["optional"], *cut["parameters"]),
        (*cut["q"], *cut["lse"]),
        _serves(options, learned, given),
    )
    out, lse = ffi.call("attention", results, 4, arrays, axes, given=given_bits(optional), **options.attributes())
    return out, lse


def _forward(options: _Options, learned: _Learned, given: _Given) -> tuple[Any, Any]:
    if given.block_table is not None:
        raise _core.ShapeError(
            "[attention_backward] block_table: must be empty, as a paged cache has no gradients, got shape "
            f"{list(given.block_table.shape)}"
        )
    results = _attention(options, learned, given)
    return results, (learned, given, *results)


def _backward(options: _Options, kept: Any, gradients: Any) -> tuple[_Learned, None]:
    learned, given, out, lse = kept
    given = _written_out(learned, given, options.time_first)
    optional = _optional(learned, given)
    rows = [jax.ShapeDtypeStruct(x.shape, out.dtype) for x in (learned.q, learned.k, learned.v)]
    wanted = [*rows, *(like(x) for x in present([learned.sinks])), *(like(x) for x in learned.parameters)]
    arrays = [learned.q, learned.k, learned.v, out, lse, *gradients, *present(optional), *learned.parameters]
    cut = _axes(options, learned, given)
    tensors = [*cut["q"], *cut["kv"]]
    axes = Axes(
        (*tensors, *(cut["q"] + cut["lse"]) * 2, *cut["optional"], *cut["parameters"]),
        (*tensors, *cut["sinks"], *cut["parameters"]),
        _serves(options, learned, given),
        sums=True,
    )
    attributes = options.attributes() | {"given": given_bits(optional)}
    results = ffi.call("attention_backward", wanted, 4, arrays, axes, **attributes)
    d_q, d_k, d_v = (d.astype(learned.q.dtype) for d in results[:3])
    others = list(results[3:])
    d_sinks = None if learned.sinks is None else others.pop(0)
    return _Learned(d_q, d_k, d_v, d_sinks, tuple(others)), None


_compiled = ffi.differentiable(1, _attention, _forward, _backward)


def merge(
    part: jax.typing.ArrayLike,
    part_lse: jax.typing.ArrayLike,
    out: jax.typing.ArrayLike,
    lse: jax.typing.ArrayLike,
    *,
    threads: int = 1,
) -> tuple[jax.Array, jax.Array]:
    """Combines results of attention over disjoint sets of keys, as if they had been one set: returns (out, lse).

    part [batch, heads, q_len, value_dim]: one result, as attention() returns it with return_lse. The first axes may be
        left out.
    part_lse [batch, heads, q_len]: the logarithms of its rows' sums.
    out [batch, heads, q_len, value_dim]: the other result.
    lse [batch, heads, q_len]: the logarithms of its rows' sums.

    Differentiable in all four.
    """
    rows = [tensor_of("merge", name, x, False) for name, x in (("part", part), ("out", out))]
    same_type("merge", "part", rows[0], rows[1], "out")
    shape = rows[1].shape
    check_shape("merge", "part", rows[0], "of the shape of out", shape)
    sums = [_sums_of("merge", name, x, rows[1]) for name, x in (("part_lse", part_lse), ("lse", lse))]
    merged, logs = _merge_compiled(threads_of("merge", threads), rows[0], sums[0], rows[1], sums[1])
    return merged.reshape(shape[4 - jnp.ndim(out) :]), logs.reshape(shape[4 - jnp.ndim(out) : 3])


def _sums_of(function: str, name: str, value: Any, rows: jax.Array) -> jax.Array:
    """Logarithms of sums [batch, heads, q_len], of which the first axes may be left out."""
    sums = array_of(function, name, value)
    if sums.dtype != arithmetic_of(rows.dtype):
        raise TypeError(f"[{function}] {name}: must be {jnp.dtype(arithmetic_of(rows.dtype))}, got {sums.dtype}")
    if not 1 <= sums.ndim <= 3:
        raise _core.ShapeError(f"[{function}] {name}: must be an array of 1 to 3 axes, got shape {list(sums.shape)}")
    sums = sums.reshape((1,) * (3 - sums.ndim) + sums.shape)
    check_shape(function, name, sums, "[batch, heads, q_len]", rows.shape[:3])
    return sums


def _merge(threads: int, *arrays: jax.Array) -> tuple[jax.Array, jax.Array]:
    _, _, out, lse = arrays
    axes = Axes(("bht.", "bht") * 2, ("bht.", "bht"))
    merged, sums = ffi.call("merge", [like(out), like(lse)], 4, arrays, axes, threads=threads)
    return merged, sums


def _merge_backward(threads: int, kept: Any, gradients: Any) -> tuple[jax.Array, ...]:
    """out' = a out + b part with a = exp(lse - lse'), b = exp(part_lse - lse'), lse' = ln(exp lse + exp part_lse)."""
    part, part_lse, out, lse, merged, sums = kept
    d_merged, d_sums = (x.astype(sums.dtype) for x in gradients)

    def of(one: jax.Array, one_lse: jax.Array) -> tuple[jax.Array, jax.Array]:
        share = jnp.where(one_lse == -jnp.inf, 0, jnp.exp(one_lse - sums))
        apart = jnp.where(share[..., None] > 0, one.astype(sums.dtype) - merged.astype(sums.dtype), 0)
        d_lse = share * (d_sums + (d_merged * apart).sum(-1))
        return (share[..., None] * d_merged).astype(one.dtype), d_lse

    return *of(part, part_lse), *of(out, lse)


def _merge_forward(threads: int, *arrays: jax.Array) -> tuple[Any, Any]:
    results = _merge(threads, *arrays)
    return results, (*arrays, *results)


_merge_compiled = ffi.differentiable(1, _merge, _merge_forward, _merge_backward)
