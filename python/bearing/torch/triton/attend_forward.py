"""The forward of attention: a program for each block of queries of a head, which walks over blocks of keys. Where these
programs are few, several share the keys of a block of queries, and their results are merged in a fixed order. In a step of decoding
the queries of all heads that share a key head are one block, where they are few enough, so that keys are read once."""

from __future__ import annotations

import triton
import triton.language as tl

from .by_distance import mix_rows, picked_scores, picked_values
from .rounding import rounded
from .runs_kernel import run_of
from .tiles import LN2, LOG2E, along_keys, key_block, lowest_of, positions, rows_of, scores, times, value_block

MERGED = tl.constexpr(16)  # parts whose rows are asked for together


@triton.jit
def _walk(
    acc,
    m,
    total,
    begin,
    stop,
    lowest,
    last,
    q,
    mix,
    b,
    key_head,
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
    """Goes on over the keys begin … stop - 1; no query of the block sees key `last` or a later one."""
    for start in tl.range(begin, stop, KIND.cols, num_stages=KIND.stages if WHOLE else 1):
        j, keep, k_at, k = key_block(call, b, key_head, start, lowest, last, KIND, WHOLE)
        x = times(q, tl.trans(k), tl.full([KIND.rows, KIND.cols], 0.0, tl.float32), KIND)
        s, _ = scores(
            x, picked_scores(q, k, mix, h, i0, start, call, KIND, False), b, along_keys(h, KIND), i0, start, i[:, None], j[None, :], first[:, None], end[:, None], keep[None, :], q_at[:, None], k_at[None, :],
            call, KIND, WHOLE,
        )  # fmt: skip
        new_m = tl.maximum(m, tl.max(s, 1))
        base = tl.where(new_m == -float("inf"), 0.0, new_m)
        w = tl.exp2(s - base[:, None])
        shrink = tl.exp2(m - base)
        total = total * shrink + tl.sum(w, 1)
        v = value_block(call, b, key_head, j, keep, KIND, WHOLE)
        acc = times(rounded(w, v.dtype), v, acc * shrink[:, None], KIND)
        acc = picked_values(acc, w, h, i0, start, call, KIND)
        m = new_m
    return acc, m, total


@triton.jit
def forward(call, blocks, block_stride, sinks, out, out_strides, lse, share, KIND: tl.constexpr):
    """Writes out, and lse [batch, heads, q_len].

    blocks: of visible.key_blocks(); None for a step of decoding, whose queries are one block.
    share: how many keys a program has, a multiple of KIND.cols. The programs behind the first batch · heads · blocks (of key heads, if packed) have the
    keys after these, and write behind: out and lse are [parts · batch, …] then.
    """
    if KIND.packed:
        key_heads = call.heads // KIND.group
        place = tl.program_id(0) // key_heads
        key_head = tl.program_id(0) % key_heads
        at = 0
        i0 = 0
        row = tl.arange(0, KIND.rows)
        i = row // KIND.group
        h = key_head * KIND.group + row % KIND.group
    else:
        count = tl.cdiv(call.q_len, KIND.rows)
        place = tl.program_id(0) // count // call.heads
        h = tl.program_id(0) // count % call.heads
        key_head = h // KIND.group
        at = count - 1 - tl.program_id(0) % count  # what sees most keys under a causal mask comes first
        i0 = at * KIND.rows
        i = i0 + tl.arange(0, KIND.rows)
    b = place % call.batch
    part = place // call.batch
    there = i < call.q_len
    if KIND.finds_runs:
        first, end = run_of(
            b, i, call.lengths, call.lengths_stride, call.q_len, call.k_len, call.offset, call.least, call.most,
            call.chunks[0], call.chunks[1], call.chunks[2], call.chunks[3], KIND.lengths, KIND.own, KIND.by_end, KIND.banded,
        )  # fmt: skip
        first, end = tl.where(there, first, 0), tl.where(there, end, 0)
    else:
        run = b.to(tl.int64) * call.run_stride + i
        first = tl.load(call.first + run, mask=there, other=0)
        end = tl.load(call.end + run, mask=there, other=0)
    q_at = positions(call.q_at, call.at_strides[0], b, i, call.q_len, KIND)
    q_rows = call.q + b.to(tl.int64) * call.q_strides[0]
    if KIND.packed:
        row = h.to(tl.int64) * call.q_strides[1] + i.to(tl.int64) * call.q_strides[2]
        q = rows_of(q_rows, row, 1, first < end, KIND.dim, KIND.width, False)
    else:
        q_rows += h.to(tl.int64) * call.q_strides[1]
        q = rows_of(q_rows, i, call.q_strides[2], first < end, KIND.dim, KIND.width, False)
    mix = mix_rows(call, b, h, i, first < end, KIND)

    if blocks is None:
        last = tl.max(tl.where(first < end, end, 0))
        begin = tl.minimum(lowest_of(first, end), last) // KIND.cols * KIND.cols
        # From here to there all queries see all keys, if `some`.
        whole = tl.maximum(tl.cdiv(tl.max(tl.where(there, first, 0)), KIND.cols) * KIND.cols, begin)
        holed = tl.min(tl.where(there, end, last)) // KIND.cols * KIND.cols
        some = whole < holed
        whole, holed = tl.where(some, whole, begin), tl.where(some, holed, begin)
    else:
        edges = blocks + b.to(tl.int64) * block_stride + at * 4
        begin, whole, holed, last = tl.load(edges), tl.load(edges + 1), tl.load(edges + 2), tl.load(edges + 3)
    stop = part * share + share
    begin, whole = tl.minimum(tl.maximum(begin, part * share), stop), tl.minimum(tl.maximum(whole, part * share), stop)
    holed, last = tl.minimum(tl.maximum(holed, part * share), stop), tl.minimum(tl.maximum(last, part * share), stop)
    lowest = lowest_of(first, end)
    acc = tl.full([KIND.rows, KIND.value_width], 0.0, tl.float32)
    m = tl.full([KIND.rows], -float("inf"), tl.float32)
    total = tl.full([KIND.rows], 0.0, tl.float32)
    if KIND.one_loop:
        acc, m, total = _walk(
            acc, m, total, begin, last, lowest, last, q, mix, b, key_head, h, i0, i, first, end, q_at, call, KIND, False
        )
    else:
        acc, m, total = _walk(
            acc, m, total, begin, whole, lowest, last, q, mix, b, key_head, h, i0, i, first, end, q_at, call, KIND, False,
        )  # fmt: skip
        acc, m, total = _walk(
            acc, m, total, whole, holed, lowest, last, q, mix, b, key_head, h, i0, i, first, end, q_at, call, KIND, True
        )
        acc, m, total = _walk(
            acc, m, total, holed, last, lowest, last, q, mix, b, key_head, h, i0, i, first, end, q_at, call, KIND, False
        )
    if KIND.sinks:
        sink = tl.where(part == 0, tl.load(sinks + h).to(tl.float32) * LOG2E, -float("inf"))
        new_m = tl.maximum(m, sink)
        base = tl.where(new_m == -float("inf"), 0.0, new_m)
        shrink = tl.exp2(m - base)
        total = total * shrink + tl.exp2(sink - base)
        acc = acc * shrink[:, None]
        m = new_m

    alone = total == 0
    row = tl.where(alone[:, None], 0.0, acc / tl.where(alone, 1.0, total)[:, None])
    d = tl.arange(0, KIND.value_width)
    to = out + place.to(tl.int64) * out_strides[0] + along_keys(h, KIND).to(tl.int64) * out_strides[1]
    to = to + (i.to(tl.int64)[:, None] * out_strides[2] + d[None, :])
    tl.store(to, rounded(row, out.dtype.element_ty), mask=there[:, None] & (d[None, :] < KIND.value_dim))
    logs = tl.where(alone, -float("inf"), (m + tl.log2(tl.where(alone, 1.0, total))) * LN2)
    tl.store(lse + (place.to(tl.int64) * call.heads + h) * call.q_len + i, logs, mask=there)


@triton.jit
def merge_parts(
    parts, part_lse, count, batch, heads, q_len, out, out_strides, lse, VALUE_DIM: tl.constexpr, WIDTH: tl.constexpr,
    MOST: tl.constexpr,
):  # fmt: skip
    """Writes out and lse of the parts' [count · batch, …], as if their keys had been one set: the parts in a fixed order. A
    program has one row. MOST: of parts that there may be."""
    row = tl.program_id(0)
    i = row % q_len
    h = row // q_len % heads
    b = row // q_len // heads
    rows = batch * heads * q_len
    every = tl.arange(0, MOST).to(tl.int64)
    logs = tl.load(part_lse + every * rows + row, mask=every < count, other=-float("inf"))
    m = tl.max(logs, 0)
    base = tl.where(m == -float("inf"), 0.0, m)
    total = tl.sum(tl.exp2((logs - base) * LOG2E), 0)
    d = tl.arange(0, WIDTH)
    acc = tl.full([WIDTH], 0.0, tl.float32)
    for start in range(0, count, MERGED):
        part = (start + tl.arange(0, MERGED)).to(tl.int64)
        there = part < count
        w = tl.exp2((tl.load(part_lse + part * rows + row, mask=there, other=-float("inf")) - base) * LOG2E)
        from_part = parts + (part * rows + row)[:, None] * VALUE_DIM + d[None, :]
        acc += tl.sum(w[:, None] * tl.load(from_part, mask=there[:, None] & (d < VALUE_DIM)[None, :], other=0.0), 0)
    alone = total == 0
    to = out + b.to(tl.int64) * out_strides[0] + h.to(tl.int64) * out_strides[1] + i.to(tl.int64) * out_strides[2]
    found = acc / tl.where(alone, 1.0, total)
    tl.store(to + d, rounded(found, out.dtype.element_ty), mask=d < VALUE_DIM)
    tl.store(lse + row, tl.where(alone, -float("inf"), m + tl.log2(tl.where(alone, 1.0, total)) * LN2))
