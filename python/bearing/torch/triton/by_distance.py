"""Products with rows of a table by distance, and back, on a square tile of queries and keys.

A tile of n queries and n keys meets 2 n - 1 distances. What is multiplied with their rows has a column for each: column t is
for keys t - (n - 1) columns to the right of the query's own. A score takes its number from there, and the gradients of all
scores go back there, by the diagonal that they lie on.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .rounding import rounded
from .tiles import rows_of, times


@triton.jit
def met(table, stride, h, i0, j0, call, DIM: tl.constexpr, WIDTH: tl.constexpr, KIND: tl.constexpr):
    """The rows that the tile meets: [2 rows, WIDTH], 0 for distances that nobody asks for."""
    at = tl.arange(0, 2 * KIND.rows) + (j0 - i0 - (KIND.rows - 1) + call.zero)
    there = (at >= 0) & (at < call.distances)
    return rows_of(table + h.to(tl.int64) * stride, at, DIM, there, DIM, WIDTH, False)


@triton.jit
def _taken(x, row, column, ROWS: tl.constexpr, COLS: tl.constexpr, OF: tl.constexpr):
    """x [rows, OF] at row and column, [ROWS, COLS] each. As one axis: so compilers go through shared memory, and not through
    the registers of a warp, of which each holds a place of the axis."""
    flat = tl.reshape(x, [ROWS * OF])
    at = tl.reshape(row * OF + column, [ROWS * COLS])
    return tl.reshape(tl.gather(flat, at, 0), [ROWS, COLS])


@triton.jit
def by_score(u, KIND: tl.constexpr):
    """From [queries, 2 rows] to scores [queries, keys]."""
    t = tl.arange(0, KIND.rows)
    return _taken(u, t[:, None], t[None, :] - t[:, None] + (KIND.rows - 1), KIND.rows, KIND.rows, 2 * KIND.rows)


@triton.jit
def by_diagonal(s, KIND: tl.constexpr):
    """From scores [queries, keys] to [queries, 2 rows]: 0 where there is no key."""
    t = tl.arange(0, 2 * KIND.rows)
    row = tl.arange(0, KIND.rows)[:, None]
    source = t[None, :] + row - (KIND.rows - 1)
    inside = (source >= 0) & (source < KIND.rows)
    return tl.where(inside, _taken(s, row, tl.where(inside, source, 0), KIND.rows, 2 * KIND.rows, KIND.rows), 0.0)


@triton.jit
def by_score_of_keys(u, KIND: tl.constexpr):
    """From [keys, 2 rows] to transposed scores [keys, queries]."""
    t = tl.arange(0, KIND.rows)
    return _taken(u, t[:, None], t[:, None] - t[None, :] + (KIND.rows - 1), KIND.rows, KIND.rows, 2 * KIND.rows)


@triton.jit
def by_diagonal_of_keys(s, KIND: tl.constexpr):
    """From transposed scores [keys, queries] to [keys, 2 rows]: 0 where there is no query."""
    t = tl.arange(0, 2 * KIND.rows)
    row = tl.arange(0, KIND.rows)[:, None]
    source = row - t[None, :] + (KIND.rows - 1)
    inside = (source >= 0) & (source < KIND.rows)
    return tl.where(inside, _taken(s, row, tl.where(inside, source, 0), KIND.rows, 2 * KIND.rows, KIND.rows), 0.0)


@triton.jit
def _each(x, table, KIND: tl.constexpr):
    """Products of all rows of x with all rows of the table."""
    return times(x, tl.trans(table), tl.full([KIND.rows, 2 * KIND.rows], 0.0, tl.float32), KIND)


@triton.jit
def mix_rows(call, b, h, i, keep, KIND: tl.constexpr):
    """The numbers of queries i that rows by distance are multiplied with, [queries, MIX_WIDTH]; nothing to read where there
    are none. Those of queries that are not kept are 0."""
    if KIND.mixed:
        base = call.mix + (b.to(tl.int64) * call.heads + h) * call.q_len * KIND.mix_dim
        return rows_of(base, i, KIND.mix_dim, keep, KIND.mix_dim, KIND.mix_width, False)
    else:
        return i


@triton.jit
def picked_scores(q, k, mix, h, i0, j0, call, KIND: tl.constexpr, TRANSPOSED: tl.constexpr):
    """What rows by distance add to the scores of a tile [queries, keys], or transposed; a plain 0 if there are none."""
    if KIND.q_table or KIND.k_table or KIND.mixed:
        added = tl.full([KIND.rows, KIND.rows], 0.0, tl.float32)
        if KIND.q_table:
            of_query = by_score(
                _each(q, met(call.q_table, call.q_table_stride, h, i0, j0, call, KIND.dim, KIND.width, KIND), KIND),
                KIND,
            )
            added += tl.trans(of_query) if TRANSPOSED else of_query
        if KIND.k_table:
            of_key = by_score_of_keys(
                _each(k, met(call.k_table, call.k_table_stride, h, i0, j0, call, KIND.dim, KIND.width, KIND), KIND),
                KIND,
            )
            added += of_key if TRANSPOSED else tl.trans(of_key)
        added *= call.scale
        if KIND.mixed:
            rows = met(call.mix_table, call.mix_table_stride, h, i0, j0, call, KIND.mix_dim, KIND.mix_width, KIND)
            of_mix = by_score(_each(mix, rows, KIND), KIND)
            added += tl.trans(of_mix) if TRANSPOSED else of_mix
        return added
    else:
        return 0.0


@triton.jit
def picked_values(total, w, h, i0, j0, call, KIND: tl.constexpr):
    """total plus what weights [queries, keys] take of rows that are added to values."""
    if KIND.v_table:
        rows = met(call.v_table, call.v_table_stride, h, i0, j0, call, KIND.value_dim, KIND.value_width, KIND)
        return times(rounded(by_diagonal(w, KIND), rows.dtype), rows, total, KIND)
    else:
        return total


@triton.jit
def picked_d_weights(d_p, d_o, h, i0, j0, call, KIND: tl.constexpr, TRANSPOSED: tl.constexpr):
    """The gradients of weights, with those that flow through rows that are added to values."""
    if KIND.v_table:
        rows = met(call.v_table, call.v_table_stride, h, i0, j0, call, KIND.value_dim, KIND.value_width, KIND)
        found = by_score(_each(d_o, rows, KIND), KIND)
        return d_p + (tl.trans(found) if TRANSPOSED else found)
    else:
        return d_p


@triton.jit
def picked_d_query(d_q, d_s, h, i0, j0, call, KIND: tl.constexpr):
    """d_q plus what flows from the gradients of scores [queries, keys] through rows that queries are multiplied with."""
    if KIND.q_table:
        rows = met(call.q_table, call.q_table_stride, h, i0, j0, call, KIND.dim, KIND.width, KIND)
        return times(rounded(by_diagonal(d_s, KIND), rows.dtype), rows, d_q, KIND)
    else:
        return d_q


@triton.jit
def picked_d_key(d_k, d_s, h, i0, j0, call, KIND: tl.constexpr):
    """d_k plus what flows from transposed gradients [keys, queries] through rows that keys are multiplied with."""
    if KIND.k_table:
        rows = met(call.k_table, call.k_table_stride, h, i0, j0, call, KIND.dim, KIND.width, KIND)
        return times(rounded(by_diagonal_of_keys(d_s, KIND), rows.dtype), rows, d_k, KIND)
    else:
        return d_k


@triton.jit
def picked_d_mix(d_mix, d_s, h, i0, j0, call, KIND: tl.constexpr):
    """d_mix plus what flows from the gradients of scores [queries, keys] to the numbers of queries."""
    if KIND.mixed:
        rows = met(call.mix_table, call.mix_table_stride, h, i0, j0, call, KIND.mix_dim, KIND.mix_width, KIND)
        return times(rounded(by_diagonal(d_s, KIND), rows.dtype), rows, d_mix, KIND)
    else:
        return d_mix
