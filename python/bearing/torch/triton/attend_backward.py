"""The backward of attention. Each sum is taken by one program in one order, so that its bits are the same on every run:
d_q by blocks of queries, d_k and d_v by blocks of keys. What belongs to distances is in ``attend_diagonals.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from .by_distance import mix_rows, picked_d_key, picked_d_mix, picked_d_query, picked_d_weights, picked_scores
from .rounding import rounded
from .tiles import LOG2E, key_block, lowest_of, positions, rows_of, scores, times, value_block


class Grads(NamedTuple):
    """What a backward starts from, beside the call: tensors [batch, heads, q_len, …]."""

    d_out: Any
    d_out_strides: tuple[int, int, int]
    lse: Any
    sums: Any  # of row_sums()


@triton.jit
def row_sums(call, out, out_strides, d_out, d_out_strides, d_lse, sums, KIND: tl.constexpr, HAS_D_LSE: tl.constexpr):
    """sums = d_o_i · o_i - d_lse_i, [batch, heads, q_len]: what is taken from every gradient of a weight."""
    count = tl.cdiv(call.q_len, KIND.rows)
    b = tl.program_id(0) // count // call.heads
    h = tl.program_id(0) // count % call.heads
    i = tl.program_id(0) % count * KIND.rows + tl.arange(0, KIND.rows)
    there = i < call.q_len
    o_rows = out + b.to(tl.int64) * out_strides[0] + h.to(tl.int64) * out_strides[1]
    d_rows = d_out + b.to(tl.int64) * d_out_strides[0] + h.to(tl.int64) * d_out_strides[1]
    o = rows_of(o_rows, i, out_strides[2], there, KIND.value_dim, KIND.value_width, False)
    d_o = rows_of(d_rows, i, d_out_strides[2], there, KIND.value_dim, KIND.value_width, False)
    found = tl.sum(o.to(tl.float32) * d_o.to(tl.float32), 1)
    to = (b.to(tl.int64) * call.heads + h) * call.q_len + i
    if HAS_D_LSE:
        found -= tl.load(d_lse + to, mask=there, other=0.0)
    tl.store(sums + to, found, mask=there)


@triton.jit
def query_block(call, grads, b, h, i, first, end, KIND: tl.constexpr, WHOLE: tl.constexpr):
    """A block of queries: rows of q, their numbers, rows of d_out, and what the softmax of each row was. Queries that see
    nothing are 0; with sinks and holes seeing() tells which these are.

    WHOLE: all are there and see something; then no load waits for another one.
    """
    some = first < end
    q_rows = call.q + b.to(tl.int64) * call.q_strides[0] + h.to(tl.int64) * call.q_strides[1]
    d_rows = grads.d_out + b.to(tl.int64) * grads.d_out_strides[0] + h.to(tl.int64) * grads.d_out_strides[1]
    q = rows_of(q_rows, i, call.q_strides[2], some, KIND.dim, KIND.width, WHOLE)
    d_o = rows_of(d_rows, i, grads.d_out_strides[2], some, KIND.value_dim, KIND.value_width, WHOLE)
    at = (b.to(tl.int64) * call.heads + h) * call.q_len + i
    if WHOLE:
        lse = tl.load(grads.lse + at)
        total = tl.load(grads.sums + at)
    else:
        lse = tl.load(grads.lse + at, mask=some, other=-float("inf"))
        total = tl.load(grads.sums + at, mask=some, other=0.0)
    sees = lse != -float("inf")
    lse = tl.where(lse == -float("inf"), float("inf"), lse * LOG2E)  # then no weight is above 0
    mix = mix_rows(call, b, h, i, some, KIND)
    if KIND.holes and not KIND.sinks:
        q, mix, d_o = kept(sees, q, mix, d_o, KIND)
    return q, mix, d_o, lse, total


@triton.jit
def kept(keep, q, mix, d_o, KIND: tl.constexpr):
    """The same rows, 0 where they are not kept: a product of NaN is NaN even with a weight of 0."""
    q = tl.where(keep[:, None], q, 0.0).to(q.dtype)
    d_o = tl.where(keep[:, None], d_o, 0.0).to(d_o.dtype)
    if KIND.mixed:
        mix = tl.where(keep[:, None], mix, 0.0).to(mix.dtype)
    return q, mix, d_o


@triton.jit
def seeing(s, AXIS: tl.constexpr):
    """Which queries see any key of a tile. AXIS: that of the keys."""
    return tl.max((s != -float("inf")).to(tl.int32), AXIS) > 0


@triton.jit
def weights(s, d_p, lse, total, WHOLE: tl.constexpr):
    """The weights of a tile, and the gradients of its scores. Where nothing is seen, neither is any NaN."""
    p = tl.exp2(s - lse)
    d_s = p * (d_p - total)
    if not WHOLE:
        hidden = s == -float("inf")
        p = tl.where(hidden, 0.0, p)
        d_s = tl.where(hidden, 0.0, d_s)
    return p, d_s


@triton.jit
def run_of(call, b, i, WHOLE: tl.constexpr):
    if WHOLE:
        return i * 0, i * 0  # nobody asks
    else:
        run = b.to(tl.int64) * call.run_stride + i
        first = tl.load(call.first + run, mask=i < call.q_len, other=0)
        return first, tl.load(call.end + run, mask=i < call.q_len, other=0)


@triton.jit
def _d_q_walk(
    acc,
    d_mix,
    begin,
    stop,
    lowest,
    last,
    q,
    mix,
    d_o,
    lse,
    total,
    b,
    h,
    i0,
    i,
    first,
    end,
    q_at,
    call,
    KIND: tl.constexpr,
    WHOLE: tl.constexpr,
):
    for start in tl.range(begin, stop, KIND.cols, num_stages=KIND.stages if WHOLE else 1):
        j, keep, k_at, k = key_block(call, b, h // KIND.group, start, lowest, last, KIND, WHOLE)
        v = value_block(call, b, h // KIND.group, j, keep, KIND, WHOLE)
        nothing = tl.full([KIND.rows, KIND.cols], 0.0, tl.float32)
        s, slope = scores(
            times(q, tl.trans(k), nothing, KIND), picked_scores(q, k, mix, h, i0, start, call, KIND, False), b, h, i0, start, i[:, None], j[None, :], first[:, None], end[:, None],
            keep[None, :], q_at[:, None], k_at[None, :], call, KIND, WHOLE,
        )  # fmt: skip
        d_p = picked_d_weights(times(d_o, tl.trans(v), nothing, KIND), d_o, h, i0, start, call, KIND, False)
        _, d_s = weights(s, d_p, lse[:, None], total[:, None], WHOLE)
        acc = picked_d_query(acc, d_s, h, i0, start, call, KIND)
        d_mix = picked_d_mix(d_mix, d_s, h, i0, start, call, KIND)
        d_s = d_s * slope
        acc = times(rounded(d_s, k.dtype), k, acc, KIND)
    return acc, d_mix


@triton.jit
def d_queries(call, grads, blocks, block_stride, d_q, d_q_strides, d_numbers, KIND: tl.constexpr):
    """Writes d_q, and d_numbers [batch, heads, q_len, numbers] where rows by distance are multiplied with such."""
    count = tl.cdiv(call.q_len, KIND.rows)
    at = count - 1 - tl.program_id(0) % count
    b = tl.program_id(0) // count // call.heads
    h = tl.program_id(0) // count % call.heads
    i0 = at * KIND.rows
    i = i0 + tl.arange(0, KIND.rows)
    first, end = run_of(call, b, i, False)
    q_at = positions(call.q_at, call.at_strides[0], b, i, call.q_len, KIND)
    q, mix, d_o, lse, total = query_block(call, grads, b, h, i, first, end, KIND, False)
    edges = blocks + b.to(tl.int64) * block_stride + at * 4
    begin, whole, holed, last = tl.load(edges), tl.load(edges + 1), tl.load(edges + 2), tl.load(edges + 3)
    lowest = lowest_of(first, end)
    acc = tl.full([KIND.rows, KIND.width], 0.0, tl.float32)
    d_mix = tl.full([KIND.rows, KIND.mix_width], 0.0, tl.float32)
    if KIND.one_loop:
        acc, d_mix = _d_q_walk(
            acc, d_mix, begin, last, lowest, last, q, mix, d_o, lse, total, b, h, i0, i, first, end, q_at, call, KIND, False
        )  # fmt: skip
    else:
        acc, d_mix = _d_q_walk(
            acc, d_mix, begin, whole, lowest, last, q, mix, d_o, lse, total, b, h, i0, i, first, end, q_at, call, KIND, False
        )  # fmt: skip
        acc, d_mix = _d_q_walk(
            acc,
            d_mix,
            whole,
            holed,
            lowest,
            last,
            q,
            mix,
            d_o,
            lse,
            total,
            b,
            h,
            i0,
            i,
            first,
            end,
            q_at,
            call,
            KIND,
            True,
        )
        acc, d_mix = _d_q_walk(
            acc,
            d_mix,
            holed,
            last,
            lowest,
            last,
            q,
            mix,
            d_o,
            lse,
            total,
            b,
            h,
            i0,
            i,
            first,
            end,
            q_at,
            call,
            KIND,
            False,
        )
    d = tl.arange(0, KIND.width)
    to = d_q + b.to(tl.int64) * d_q_strides[0] + h.to(tl.int64) * d_q_strides[1]
    to += i.to(tl.int64)[:, None] * d_q_strides[2] + d[None, :]
    keep = (i < call.q_len)[:, None] & (d[None, :] < KIND.dim)
    tl.store(to, rounded(acc * call.scale, d_q.dtype.element_ty), mask=keep)
    if KIND.mixed:
        u = tl.arange(0, KIND.mix_width)
        row = (b.to(tl.int64) * call.heads + h) * call.q_len + i
        keep = (i < call.q_len)[:, None] & (u[None, :] < KIND.mix_dim)
        tl.store(d_numbers + row[:, None] * KIND.mix_dim + u[None, :], d_mix, mask=keep)


@triton.jit
def _d_k_walk(
    d_k, d_v, begin, stop, k, v, b, h, j0, j, keep, k_at, call, grads, KIND: tl.constexpr, WHOLE: tl.constexpr
):
    for start in tl.range(begin, stop, KIND.rows, num_stages=KIND.stages if WHOLE else 1):
        i = start + tl.arange(0, KIND.rows)
        first, end = run_of(call, b, i, WHOLE)
        q_at = positions(call.q_at, call.at_strides[0], b, i, call.q_len, KIND)
        q, mix, d_o, lse, total = query_block(call, grads, b, h, i, first, end, KIND, WHOLE)
        nothing = tl.full([KIND.cols, KIND.rows], 0.0, tl.float32)
        s, slope = scores(
            times(k, tl.trans(q), nothing, KIND), picked_scores(q, k, mix, h, start, j0, call, KIND, True), b, h, start, j0, i[None, :], j[:, None], first[None, :], end[None, :],
            keep[:, None], q_at[None, :], k_at[:, None], call, KIND, WHOLE,
        )  # fmt: skip
        d_p = picked_d_weights(times(v, tl.trans(d_o), nothing, KIND), d_o, h, start, j0, call, KIND, True)
        p, d_s = weights(s, d_p, lse[None, :], total[None, :], WHOLE)
        if KIND.holes and KIND.sinks:
            q, mix, d_o = kept(seeing(s, 0), q, mix, d_o, KIND)
        d_k = picked_d_key(d_k, d_s, h, start, j0, call, KIND)
        d_v = times(rounded(p, d_o.dtype), d_o, d_v, KIND)
        d_k = times(rounded(d_s * slope, q.dtype), q, d_k, KIND)
    return d_k, d_v


@triton.jit
def d_keys(call, grads, blocks, block_stride, d_k, d_k_strides, d_v, d_v_strides, KIND: tl.constexpr):
    """Writes d_k and d_v: sums over the query heads of a key head, in their order."""
    count = tl.cdiv(call.k_len, KIND.cols)
    at = tl.program_id(0) % count
    key_heads = call.heads // KIND.group
    b = tl.program_id(0) // count // key_heads
    key_head = tl.program_id(0) // count % key_heads
    j0 = at * KIND.cols
    j, keep, k_at, k = key_block(call, b, key_head, j0, 0, call.k_len, KIND, False)
    v = value_block(call, b, key_head, j, keep, KIND, False)
    edges = blocks + b.to(tl.int64) * block_stride + at * 4
    begin, whole, holed, last = tl.load(edges), tl.load(edges + 1), tl.load(edges + 2), tl.load(edges + 3)
    sum_k = tl.full([KIND.cols, KIND.width], 0.0, tl.float32)
    sum_v = tl.full([KIND.cols, KIND.value_width], 0.0, tl.float32)
    for g in range(KIND.group):
        h = key_head * KIND.group + g
        if KIND.one_loop:
            sum_k, sum_v = _d_k_walk(
                sum_k, sum_v, begin, last, k, v, b, h, j0, j, keep, k_at, call, grads, KIND, False
            )  # fmt: skip
        else:
            sum_k, sum_v = _d_k_walk(
                sum_k, sum_v, begin, whole, k, v, b, h, j0, j, keep, k_at, call, grads, KIND, False
            )  # fmt: skip
            sum_k, sum_v = _d_k_walk(sum_k, sum_v, whole, holed, k, v, b, h, j0, j, keep, k_at, call, grads, KIND, True)
            sum_k, sum_v = _d_k_walk(sum_k, sum_v, holed, last, k, v, b, h, j0, j, keep, k_at, call, grads, KIND, False)
    _store_keys(d_k, d_k_strides, sum_k * call.scale, b, key_head, j, call.k_len, KIND.dim, KIND.width)
    _store_keys(d_v, d_v_strides, sum_v, b, key_head, j, call.k_len, KIND.value_dim, KIND.value_width)


@triton.jit
def _store_keys(to, strides, x, b, key_head, j, k_len, DIM: tl.constexpr, WIDTH: tl.constexpr):
    d = tl.arange(0, WIDTH)
    at = to + b.to(tl.int64) * strides[0] + key_head.to(tl.int64) * strides[1]
    at += j.to(tl.int64)[:, None] * strides[2] + d[None, :]
    tl.store(at, rounded(x, to.dtype.element_ty), mask=(j < k_len)[:, None] & (d[None, :] < DIM))
