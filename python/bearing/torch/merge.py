"""Joins results of attention over slices of the keys: a custom op with gradients, and the function that calls it."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _core
from .dispatch import Op, needs_op
from .functional import check_device


def merge(part: Tensor, part_lse: Tensor, out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Combines results of attention over disjoint sets of keys, as if they had been one set: returns (out, lse).

    ``lse' = ln(exp lse + exp part_lse)``, ``out' = exp(lse − lse') out + exp(part_lse − lse') part``

    part [batch, heads, q_len, value_dim]: one result, as :func:`bearing.torch.attention` returns it with return_lse.
        The first axes may be left out.
    part_lse [batch, heads, q_len]: the logarithms of its rows' sums.
    out [batch, heads, q_len, value_dim]: the other result.
    lse [batch, heads, q_len]: the logarithms of its rows' sums.

    Both results are new tensors, and nothing is written to the arguments: ``bearing.merge`` of NumPy's arrays writes to its
    out and lse. A row that has seen no key (−inf) leaves the other side as it is. Differentiable in
    all four, any number of times. Raises ShapeError unless the shapes are equal.
    """
    check_device("merge", part, part_lse, out, lse)
    _check_shape("part", part, out.shape, "of the shape of out")
    for name, x in (("part_lse", part_lse), ("lse", lse)):
        _check_shape(name, x, out.shape[:-1], "[batch, heads, q_len]")
    watched = needs_op([part, part_lse, out, lse])
    return (_merge if watched else _merge.now)(part, part_lse, out, lse)


def _check_shape(name: str, x: Tensor, shape: torch.Size, wanted: str) -> None:
    if x.shape != shape:
        raise _core.ShapeError(f"[merge] {name}: must be {wanted}, {list(shape)}, got {list(x.shape)}")


def _merge_now(part: Tensor, part_lse: Tensor, out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    merged, sums = (x.detach().clone(memory_format=torch.contiguous_format) for x in (out, lse))
    _core.merge(part.detach(), part_lse.detach(), merged, sums, threads=torch.get_num_threads())
    return merged, sums


_merge = Op("merge", _merge_now)


@_merge.register_fake
def _(part, part_lse, out, lse):
    return out.new_empty(out.shape), lse.new_empty(lse.shape)


def _context(ctx, inputs, output):
    ctx.save_for_backward(*inputs, *output)


def _backward(ctx, d_merged, d_sums):
    """In PyTorch's own operations. A row's share in the sum is a = exp(lse − lse'): d_out = a d_out' and
    d_lse = a (d_lse' + d_out'·(out − out'))."""
    part, part_lse, out, lse, merged, sums = ctx.saved_tensors
    of_none = sums == -torch.inf
    d_merged, merged = d_merged.to(sums.dtype), merged.to(sums.dtype)

    def of(one: Tensor, one_lse: Tensor) -> tuple[Tensor, Tensor]:
        share = torch.exp(one_lse - sums.masked_fill(of_none, 0)).unsqueeze(-1)  # 0 where there are no keys at all
        apart = torch.where(share > 0, one.to(sums.dtype) - merged, 0)  # whatever lies there
        d_lse = share.squeeze(-1) * (d_sums + (d_merged * apart).sum(-1))
        return (share * d_merged).to(one.dtype), d_lse

    return *of(part, part_lse), *of(out, lse)


_merge.register_autograd(_backward, setup_context=_context)
