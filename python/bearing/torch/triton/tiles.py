"""What the kernels of attention share: what a call gives them, rows of a tile, and its scores, in powers of two."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import triton
import triton.language as tl

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN2: tl.constexpr = tl.constexpr(0.6931471805599453)


class Call(NamedTuple):
    """What kernels read of a call: tensors, and numbers. Tensors come as [batch, heads, time, dim]; strides leave out the last
    axis."""

    q: Any
    k: Any
    v: Any
    first: Any  # the run of keys that each query sees: [batch or 1, q_len]; None where the kernel finds it …
    end: Any
    lengths: Any  # … by how many keys a sequence has [batch], or None, by `offset` and `chunks`
    bias: Any  # [heads, distances], or None; BESIDE numbers more on each side may be read, and are not used
    factors: Any  # what bias is by if it is in parts (bias_numbers.Parts), or None
    lines: Any  # of the bias in tiles of the kernel's size, [heads, lines, 2], or None (bias_lines.py)
    q_table: Any  # rows that queries are multiplied with, [heads or 1, distances, dim], or None; the same for keys
    k_table: Any
    v_table: Any  # rows that are added to values, [heads or 1, distances, value_dim], or None
    mix: Any  # numbers of queries, [batch, heads, q_len, numbers], or None
    mix_table: Any  # rows that these are multiplied with, outside the scale, [heads or 1, distances, numbers], or None
    key_mask: Any  # [batch, k_len], or None
    pairs: Any  # [batch, heads, q_len, k_len], or None
    q_at: Any  # positions [batch or 1, time], or None where they rise by one
    k_at: Any
    ranks: Any  # of keys, [batch or 1, k_len], or None (order.py); and which of these queries see, [batch or 1, q_len]
    first_rank: Any
    end_rank: Any
    pages: Any  # [batch, blocks of a sequence], or None: which blocks of k and v a sequence has

    q_strides: tuple[int, int, int]
    k_strides: tuple[int, int, int]
    v_strides: tuple[int, int, int]
    run_stride: int
    lengths_stride: int
    offset: int  # a query's place is so far to the right of its index
    chunks: tuple[int, int, int, int]  # runs_kernel.chunks_of()
    bias_stride: int
    factor_stride: int
    distances: int
    zero: int  # the number of distance 0; with positions that are tensors: of distance 0, too
    line_stride: int
    line_least: int  # the tile of the first line
    q_table_stride: int  # from head to head; 0 where all share one table
    k_table_stride: int
    v_table_stride: int
    mix_table_stride: int
    key_strides: tuple[int, int]
    pair_strides: tuple[int, int, int, int]
    at_strides: tuple[int, int]
    rank_strides: tuple[int, int]  # of keys, and of queries
    least: int  # the distances that a mask by positions shows
    most: int
    scale: float
    soft_cap: float
    batch: int
    heads: int
    q_len: int
    k_len: int
    blocks: int  # of the cache
    # Triton 3.6 forgets in a loop which number of an inner tuple is 1, unless a constant stands behind that tuple.
    constant: None = None


TENSORS = Call._fields.index("q_strides")  # these come first


@dataclass(frozen=True)
class Kind:
    """What kernels are compiled for. rows, cols: of a tile."""

    rows: int
    cols: int
    stages: int  # of the loops over whole tiles; where keys are hidden nothing is loaded ahead
    dim: int
    width: int
    value_dim: int
    value_width: int
    group: int  # query heads that share a key head
    biased: bool
    bias_is: str  # "numbers", "proportional" or "picked" (bias_numbers.Parts)
    one_query: bool  # whether a step of decoding has only one
    line_step: int  # between the tiles that have lines; 0: there are none
    straight: bool  # all of the bias is a line
    q_table: bool
    k_table: bool
    v_table: bool
    mixed: bool
    mix_dim: int  # numbers of a query
    mix_width: int
    capped: bool
    keys: bool
    pairs: bool
    placed: bool
    checked: bool
    ordered: bool
    sinks: bool
    page: int  # keys in a block of a paged cache; 0: it is none
    precision: str
    widened: bool
    finds_runs: bool  # whether the kernel finds runs itself, which depend on …
    lengths: bool
    own: bool  # … queries' places …
    by_end: bool  # … and these on the last key
    banded: bool  # … and chunks
    packed: bool = False  # whether a tile's rows are the queries of all heads that share a key head

    def of(self, rows: int, cols: int, stages: int = 1, lines: bool = False) -> Kind:
        """The same for other tiles. lines: whether a bias may be given by lines."""
        step = math.gcd(rows, cols) if lines and self.biased and not self.placed else 0
        return _changed(self, rows=rows, cols=cols, stages=stages, line_step=step)

    def in_packs(self, rows: int) -> Kind:
        """The same for tiles of so many rows, of all heads that share a key head."""
        return _changed(self, rows=rows, packed=True)

    @property
    def picks(self) -> bool:
        """Whether rows are picked by distance. Tiles are square then."""
        return self.q_table or self.k_table or self.v_table or self.mixed

    @property
    def holes(self) -> bool:
        """Whether keys inside a run may be hidden, so that no tile is seen whole."""
        return self.keys or self.pairs or self.checked or self.ordered

    @property
    def one_loop(self) -> bool:
        """Whether one loop serves all tiles, as none is seen whole, or as nearly all the work is in the rows it picks."""
        return self.holes or self.picks

    def mangle(self) -> str:
        """As a part of a function's name."""
        return "_".join(str(int(x)) if isinstance(x, (bool, int)) else x for x in vars(self).values())


@functools.lru_cache(maxsize=256)
def _changed(kind: Kind, **named: Any) -> Kind:
    return replace(kind, **named)


@triton.jit
def rows_of(x, row, stride, keep, DIM: tl.constexpr, WIDTH: tl.constexpr, WHOLE: tl.constexpr):
    """Rows of x as [rows, WIDTH]: 0 past DIM, and in rows that are not kept. WHOLE: all are."""
    d = tl.arange(0, WIDTH)
    at = x + row.to(tl.int64)[:, None] * stride + d[None, :]
    if WHOLE:
        if DIM == WIDTH:
            return tl.load(at)
        else:
            return tl.load(at, mask=d[None, :] < DIM, other=0.0)
    else:
        if DIM == WIDTH:
            return tl.load(at, mask=keep[:, None], other=0.0)
        else:
            return tl.load(at, mask=keep[:, None] & (d[None, :] < DIM), other=0.0)


@triton.jit
def times(a, b, total, KIND: tl.constexpr):
    """a b + total. Triton's interpreter has no products of bfloat16: there in float32, which is exact as well."""
    if KIND.widened:
        tl.static_assert(a.dtype == b.dtype, "both are of one type, as compilers ask")
        return tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision=KIND.precision)
    else:
        return tl.dot(a, b, total, input_precision=KIND.precision)


@triton.jit
def tanh(x):
    """To a few roundings, also near 0, where 1 - e^(-2x) would cancel: there by its series."""
    size = tl.abs(x)
    t = tl.exp2(size * (-2 * LOG2E))
    far = (1 - t) / (1 + t)
    z = x * x
    near = 62.0 / 2835.0 + z * (-1382.0 / 155925.0)
    near = -17.0 / 315.0 + z * near
    near = 2.0 / 15.0 + z * near
    near = -1.0 / 3.0 + z * near
    return tl.where(size < 0.35, x + x * z * near, tl.where(x < 0, -far, far))


@triton.jit
def positions(at, stride, b, token, count, KIND: tl.constexpr):
    """Positions of tokens; 0 where they rise by one."""
    if KIND.placed:
        return tl.load(at + b.to(tl.int64) * stride + token, mask=token < count, other=0)
    else:
        return token * 0


@triton.jit
def along_keys(h, KIND: tl.constexpr):
    """The head of a tile, or those of its rows [rows, 1]."""
    if KIND.packed:
        return h[:, None]
    else:
        return h


@triton.jit
def lowest_of(first, end):
    """The first key that any query of a block sees."""
    return tl.min(tl.where(first < end, first, 2147483647))


@triton.jit
def shown(call, b, j, lowest, last, KIND: tl.constexpr):
    """Which of the keys from `lowest` to `last` - 1 no mask hides. Others may hold anything: they are not read."""
    keep = (j >= lowest) & (j < last)
    if KIND.keys:
        at = call.key_mask + b.to(tl.int64) * call.key_strides[0] + j.to(tl.int64) * call.key_strides[1]
        keep = keep & (tl.load(at, mask=keep, other=0) != 0)
    return keep


@triton.jit
def key_rows(
    x,
    strides,
    call,
    b,
    key_head,
    j,
    keep,
    KIND: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Rows j of keys or of values. In a paged cache a block that does not exist is not read, and makes its keys NaN."""
    if KIND.page > 0:
        per = tl.cdiv(call.k_len, KIND.page)
        block = tl.load(call.pages + b.to(tl.int64) * per + j // KIND.page, mask=keep, other=0).to(tl.int64)
        there = (block >= 0) & (block < call.blocks)
        row = tl.where(there, block, 0) * strides[0] + (j % KIND.page).to(tl.int64) * strides[2]
        rows = rows_of(x + key_head.to(tl.int64) * strides[1], row, 1, keep & there, DIM, WIDTH, False)
        return tl.where((keep & (there == 0))[:, None], float("nan"), rows).to(rows.dtype)
    else:
        base = x + b.to(tl.int64) * strides[0] + key_head.to(tl.int64) * strides[1]
        return rows_of(base, j, strides[2], keep, DIM, WIDTH, WHOLE)


@triton.jit
def key_block(call, b, key_head, start, lowest, last, KIND: tl.constexpr, WHOLE: tl.constexpr):
    """What a loop over keys begins with: the block's keys, which of them may be read, where they stand, and their rows."""
    j = start + tl.arange(0, KIND.cols)
    keep = shown(call, b, j, lowest, last, KIND)
    k_at = positions(call.k_at, call.at_strides[1], b, j, call.k_len, KIND)
    k = key_rows(call.k, call.k_strides, call, b, key_head, j, keep, KIND, KIND.dim, KIND.width, WHOLE)
    return j, keep, k_at, k


@triton.jit
def value_block(call, b, key_head, j, keep, KIND: tl.constexpr, WHOLE: tl.constexpr):
    """The rows of values of a block of keys."""
    return key_rows(call.v, call.v_strides, call, b, key_head, j, keep, KIND, KIND.value_dim, KIND.value_width, WHOLE)


@triton.jit
def _with_line(s, first, slope, i, j):
    """Scores with a bias on a line. By rows and by columns: so few numbers stay in registers. The scalars stand apart: of a
    product and a sum of both LLVM makes an instruction that AMD's GPUs do not have."""
    return (s + first) + slope * j.to(tl.float32) - slope * i.to(tl.float32)


@triton.jit
def _listed(x, keep, KIND: tl.constexpr):
    """Where positions are tensors a place may be none of the list, and has 0 then."""
    if KIND.placed:
        return tl.load(x, mask=keep, other=0)
    else:
        return tl.load(x)


@triton.jit
def _looked_up(call, h, at, keep, KIND: tl.constexpr):
    """The bias at places of the list of distances."""
    if KIND.bias_is == "proportional":
        return tl.load(call.factors + h).to(tl.float32) * _listed(call.bias + at, keep, KIND)
    elif KIND.bias_is == "picked":
        row = _listed(call.bias + at, keep, KIND)
        return tl.load(call.factors + (row - 1) * call.factor_stride + h, mask=row > 0, other=0.0).to(tl.float32)
    else:
        return _listed(call.bias + h.to(tl.int64) * call.bias_stride + at, keep, KIND)


@triton.jit
def _with_numbers(s, seen, h, i0, j0, i, j, q_at, k_at, call, KIND: tl.constexpr, WHOLE: tl.constexpr):
    """Scores with the bias of each place, which is looked up."""
    if KIND.placed:
        at = k_at - q_at + call.zero
        keep = (at >= 0) & (at < call.distances)
        if not WHOLE:
            keep = keep & seen
        return s + _looked_up(call, h, at, keep, KIND) * LOG2E
    else:
        # A number for the tile, and small ones for the places in it: so a thread has one address and constants beside it.
        at = (j - j0).to(tl.int64) + (j0 - i0 + call.zero)
        if not KIND.one_query:
            at -= (i - i0).to(tl.int64)
        return s + _looked_up(call, h, at, True, KIND) * LOG2E


@triton.jit
def _in_range(call, b, i, j):
    """Which keys have ranks that queries see."""
    rank = tl.load(call.ranks + b.to(tl.int64) * call.rank_strides[0] + j, mask=j < call.k_len, other=0)
    at = b.to(tl.int64) * call.rank_strides[1] + i
    first = tl.load(call.first_rank + at, mask=i < call.q_len, other=0)
    return (rank >= first) & (rank < tl.load(call.end_rank + at, mask=i < call.q_len, other=0))


@triton.jit
def scores(x, added, b, h, i0, j0, i, j, first, end, keep, q_at, k_at, call, KIND: tl.constexpr, WHOLE: tl.constexpr):
    """log2 e times the scores of a tile, and how fast they change with what the soft cap bounds.

    x: products of rows; added: what rows by distance add. i0, j0: the first query and the first key of the tile. h (if it
    is more than one), i, first, end, q_at stand along the queries' axis; j, keep, k_at along that of the keys.
    """
    slope = 1.0
    if KIND.capped:
        y = tanh(x * (call.scale / call.soft_cap))
        slope = 1 - y * y
        s = y * (call.soft_cap * LOG2E)
    else:
        s = x * (call.scale * LOG2E)
    if KIND.q_table or KIND.k_table or KIND.mixed:
        s += added * LOG2E
    seen = True
    if not WHOLE:
        seen = (j >= first) & (j < end)
        if KIND.keys:
            seen = seen & keep
        if KIND.pairs:
            pairs = call.pairs + b.to(tl.int64) * call.pair_strides[0] + h.to(tl.int64) * call.pair_strides[1]
            pairs += i.to(tl.int64) * call.pair_strides[2] + j.to(tl.int64) * call.pair_strides[3]
            seen = seen & (tl.load(pairs, mask=seen, other=0) != 0)
        if KIND.checked:
            seen = seen & (k_at - q_at >= call.least) & (k_at - q_at <= call.most)
        if KIND.ordered:
            seen = seen & _in_range(call, b, i, j)
    if KIND.line_step > 0:
        line = call.lines + (h * call.line_stride + (j0 - i0 - call.line_least) // KIND.line_step * 2)
        slope_of_line = tl.load(line + 1)
        if KIND.straight:
            s = _with_line(s, tl.load(line), slope_of_line, i - i0, j - j0)
        elif slope_of_line == slope_of_line:
            s = _with_line(s, tl.load(line), slope_of_line, i - i0, j - j0)
        else:
            s = _with_numbers(s, seen, h, i0, j0, i, j, q_at, k_at, call, KIND, WHOLE)
    elif KIND.bias_is == "proportional":  # a number for a column, which all rows share: copied ahead
        s = _with_numbers(s, seen, h, i0, j0, i, j, q_at, k_at, call, KIND, WHOLE)
    elif KIND.biased:
        if call.distances > 0:  # it is: inside a branch these loads are not copied ahead, each to an address of its own
            s = _with_numbers(s, seen, h, i0, j0, i, j, q_at, k_at, call, KIND, WHOLE)
    if not WHOLE:
        s = tl.where(seen, s, -float("inf"))
        if KIND.capped:
            slope = tl.where(seen, slope, 0.0)  # a key that nobody sees may be NaN, and a query that sees none
    return s, slope
