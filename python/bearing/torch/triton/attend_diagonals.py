"""Gradients of what attention has by distance: a bias, and rows of tables. Each sum is taken by one program in one order.

A diagonal of tiles is all tiles with the same (block of keys - block of queries). The same place in each of them has the same
distance.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .attend_backward import kept, query_block, run_of, seeing, weights
from .by_distance import by_diagonal, by_diagonal_of_keys, picked_d_weights, picked_scores
from .rounding import rounded
from .tiles import key_block, lowest_of, scores, times, value_block


@triton.jit
def _tile(b, h, i0, j0, last, call, grads, KIND: tl.constexpr, CHECKED: tl.constexpr):
    """A tile's rows of queries, their numbers, rows of keys and of d_out, weights, and gradients of scores.

    CHECKED: rows that no mask shows are not read. Else all there are, so that no load waits for another one.
    """
    i = i0 + tl.arange(0, KIND.rows)
    first, end = run_of(call, b, i, False)
    if CHECKED:
        q, mix, d_o, lse, total = query_block(call, grads, b, h, i, first, end, KIND, False)
        j, keep, _, k = key_block(call, b, h // KIND.group, j0, lowest_of(first, end), last, KIND, False)
    else:
        q, mix, d_o, lse, total = query_block(call, grads, b, h, i, i, i * 0 + call.q_len, KIND, False)
        j, keep, _, k = key_block(call, b, h // KIND.group, j0, 0, call.k_len, KIND, False)
    v = value_block(call, b, h // KIND.group, j, keep, KIND, False)
    nothing = tl.full([KIND.rows, KIND.cols], 0.0, tl.float32)
    i, j = i[:, None], j[None, :]
    s, _ = scores(
        times(q, tl.trans(k), nothing, KIND), picked_scores(q, k, mix, h, i0, j0, call, KIND, False), b, h, i0, j0, i, j,
        first[:, None], end[:, None], keep[None, :], i, j, call, KIND, False,
    )  # fmt: skip
    d_p = picked_d_weights(times(d_o, tl.trans(v), nothing, KIND), d_o, h, i0, j0, call, KIND, False)
    p, d_s = weights(s, d_p, lse[:, None], total[:, None], False)
    if KIND.holes and KIND.sinks:
        q, mix, d_o = kept(seeing(s, 1), q, mix, d_o, KIND)
    return q, mix, k, d_o, p, d_s


@triton.jit(do_not_specialize=["lowest", "diagonals", "chunks"])
def d_distances(
    call, grads, blocks, block_stride, parts, lowest, diagonals, chunks, batch, KIND: tl.constexpr, CHECKED: tl.constexpr
):  # fmt: skip
    """Writes parts [chunks, heads, diagonals, 2 rows]: sums of d_s by distance over some tiles of a diagonal of tiles, the
    first of which is `lowest`. Whole tiles are added up, and the sum is taken apart by distance once.

    CHECKED: tiles may be hidden, and are left out. Else the rows of the next tile are loaded while one is worked on.
    """
    diagonal = tl.program_id(0) % diagonals
    h = tl.program_id(0) // diagonals % call.heads
    chunk = tl.program_id(0) // diagonals // call.heads
    right = diagonal + lowest
    top = tl.maximum(0, -right)  # the first block of queries whose tile there is
    count = tl.minimum(tl.cdiv(call.q_len, KIND.rows), tl.cdiv(call.k_len, KIND.rows) - right) - top
    tiles = batch * count
    share = tl.cdiv(tiles, chunks)
    acc = tl.full([KIND.rows, KIND.rows], 0.0, tl.float32)
    for tile in tl.range(
        chunk * share, tl.minimum(chunk * share + share, tiles), num_stages=1 if CHECKED else KIND.stages
    ):
        b = tile // count
        at = top + tile % count
        start = (at + right) * KIND.rows
        if CHECKED:
            edges = blocks + b.to(tl.int64) * block_stride + at * 4
            begin, last = tl.load(edges), tl.load(edges + 3)
            if (start + KIND.rows > begin) & (start < last):
                _, _, _, _, _, d_s = _tile(b, h, at * KIND.rows, start, last, call, grads, KIND, True)
                acc += d_s
        else:
            _, _, _, _, _, d_s = _tile(b, h, at * KIND.rows, start, 0, call, grads, KIND, False)
            acc += d_s
    t = tl.arange(0, 2 * KIND.rows)
    to = ((chunk.to(tl.int64) * call.heads + h) * diagonals + diagonal) * (2 * KIND.rows)
    tl.store(parts + to + t, tl.sum(by_diagonal(acc, KIND), 0))


@triton.jit(do_not_specialize=["lowest", "diagonals", "chunks"])
def d_tables(
    call, grads, blocks, block_stride, parts, lowest, diagonals, chunks, batch, shared, KIND: tl.constexpr, SIDE: tl.constexpr
):  # fmt: skip
    """Writes parts [chunks, heads / shared, diagonals, 2 rows, dim]: over some tiles of a diagonal, for each distance the sum of
    what is multiplied with its row, times the gradients of the products. `shared` heads have one table; theirs are added up.

    SIDE: which table: of queries, of keys, of values, whose products are with weights, or of the queries' numbers.
    """
    diagonal = tl.program_id(0) % diagonals
    table = tl.program_id(0) // diagonals % (call.heads // shared)
    chunk = tl.program_id(0) // diagonals // (call.heads // shared)
    count = tl.cdiv(call.q_len, KIND.rows)
    tiles = batch * shared * count
    share = tl.cdiv(tiles, chunks)
    DIM: tl.constexpr = KIND.value_dim if SIDE == "value" else KIND.mix_dim if SIDE == "mixed" else KIND.dim
    WIDTH: tl.constexpr = KIND.value_width if SIDE == "value" else KIND.mix_width if SIDE == "mixed" else KIND.width
    acc = tl.full([2 * KIND.rows, WIDTH], 0.0, tl.float32)
    for tile in range(chunk * share, tl.minimum(chunk * share + share, tiles)):
        b = tile // count // shared
        h = table * shared + tile // count % shared
        at = tile % count
        start = (at + diagonal + lowest) * KIND.rows
        edges = blocks + b.to(tl.int64) * block_stride + at * 4
        begin, last = tl.load(edges), tl.load(edges + 3)
        if (start + KIND.rows > begin) & (start < last):
            q, mix, k, d_o, p, d_s = _tile(b, h, at * KIND.rows, start, last, call, grads, KIND, True)
            if SIDE == "query":
                acc = times(tl.trans(rounded(by_diagonal(d_s, KIND), q.dtype)), q, acc, KIND)
            elif SIDE == "key":
                acc = times(tl.trans(rounded(by_diagonal_of_keys(tl.trans(d_s), KIND), k.dtype)), k, acc, KIND)
            elif SIDE == "mixed":
                acc = times(tl.trans(rounded(by_diagonal(d_s, KIND), mix.dtype)), mix, acc, KIND)
            else:
                acc = times(tl.trans(rounded(by_diagonal(p, KIND), d_o.dtype)), d_o, acc, KIND)
    t, d = tl.arange(0, 2 * KIND.rows), tl.arange(0, WIDTH)
    to = ((chunk.to(tl.int64) * (call.heads // shared) + table) * diagonals + diagonal) * (2 * KIND.rows * DIM)
    tl.store(parts + to + t[:, None] * DIM + d[None, :], acc, mask=(d < DIM)[None, :])
