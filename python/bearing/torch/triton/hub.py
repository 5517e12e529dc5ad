"""The rotation as a kernel of its own, without the library: in the place of transformers' ``apply_rotary_pos_emb``, with
cosines and sines as the model makes them. It trains: the backward is the transpose of the rotation.

``scripts/hub`` copies this file, and those that it needs, into the folders that the package ``kernels`` loads.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .device import for_good, kept
from .launch import Geometry, Launch, Source, prepared

# One name for each copy that is loaded, as ops are kept by name.
_NAME = "bearing_rotary::turn_" + re.sub(r"\W", "_", __name__)


def apply_rotary_transformers(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """Rotates queries and keys: pairs (i, i + rotary_dim / 2) of each head, by cosines and sines of the model.

    q [batch, heads, time, head_dim], k [batch, kv_heads, time, head_dim]; with unsqueeze_dim 2 time comes before heads.
    cos, sin [batch or 1, time, rotary_dim]: both halves of the last axis are the same. Dimensions of a head past
        rotary_dim pass through.

    Returns two new tensors, in the types of q and k. Arithmetic is float32 (float64 for float64), rounded once, whatever
    the type of cos and sin. Differentiable in q and k.

    A rotary_dim of half of head_dim is refused: gpt-oss gives cosines of that width for whole heads, and is served by
    apply_rotary_half_width.
    """
    return _applied("apply_rotary_transformers", q, k, cos, sin, unsqueeze_dim, False)


def apply_rotary_half_width(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """The same for cosines and sines that are there once for each pair, [batch or 1, time, rotary_dim / 2], as gpt-oss
    makes them."""
    return _applied("apply_rotary_half_width", q, k, cos, sin, unsqueeze_dim, True)


def _applied(
    function: str, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int, once: bool
) -> tuple[Tensor, Tensor]:
    """once: cosines are there once for each pair."""
    if unsqueeze_dim not in (1, 2):
        raise ValueError(f"[{function}] unsqueeze_dim: must be 1 or 2, got {unsqueeze_dim}")
    rotary_dim = cos.shape[-1] * (1 + once)
    for name, x in (("q", q), ("k", k)):
        if x.dim() != 4 or x.shape[-1] < rotary_dim:
            of_cos = "twice what cos has" if once else "as cos has"
            raise ValueError(
                f"[{function}] {name}: must have 4 axes, the last at least {rotary_dim}, {of_cos}, got {list(x.shape)}"
            )
    if not once and q.shape[-1] == 2 * rotary_dim > 0:
        raise ValueError(
            f"[{function}] cos: must not be half as wide as heads of {q.shape[-1]}, got {list(cos.shape)}: if it has a cosine "
            "for each pair of a whole head, as gpt-oss gives them, the function is apply_rotary_half_width; if half of a "
            f"head turns, give q and k as x[..., :{rotary_dim}]"
        )
    if cos.shape != sin.shape or cos.dim() != 3 or rotary_dim % 2:
        axes = "[batch or 1, time, rotary_dim / 2]" if once else "[batch or 1, time, rotary_dim], rotary_dim even"
        raise ValueError(f"[{function}] cos and sin: must be {axes}, got {list(cos.shape)} and {list(sin.shape)}")
    time_axis = 2 if unsqueeze_dim == 1 else 1
    time = q.shape[time_axis]
    if (k.shape[0], k.shape[time_axis], k.shape[3]) != (q.shape[0], time, q.shape[3]):
        raise ValueError(
            f"[{function}] k: must have batch {q.shape[0]}, time {time} and head_dim {q.shape[3]} as q has, "
            f"got {list(k.shape)}"
        )
    for name, x in (("k", k), ("cos", cos), ("sin", sin)):
        if x.device != q.device:
            raise TypeError(f"[{function}] {name}: must be on the device of q, {q.device}, got {x.device}")
    if cos.shape[1] != time or cos.shape[0] not in (1, q.shape[0]):
        raise ValueError(
            f"[{function}] cos: must have {q.shape[0]} or 1 sequences of {time} tokens, got {list(cos.shape)}"
        )
    if torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad):
        raise ValueError(f"[{function}] cos and sin: must not require gradients, which would be lost")
    return _turn(q, k, cos, sin, unsqueeze_dim == 2, False, once)


@torch.library.custom_op(_NAME, mutates_args=())
def _turn(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, time_first: bool, transposed: bool, once: bool
) -> tuple[Tensor, Tensor]:
    """Both rotated, or by the opposite angles."""
    outs = [torch.empty_like(x, memory_format=torch.preserve_format) for x in (q, k)]
    half = cos.shape[-1] if once else cos.shape[-1] // 2
    if half:
        # The kernel reads both by the strides of one, and each row densely.
        cos, sin = (x.detach().contiguous()[..., :half] for x in (cos, sin))
        heads = [_heads(x, time_first) for x in (q, outs[0], k, outs[1])]
        kinds = tuple([(x.shape, x.stride(), x.dtype) for x in (*heads, cos, sin)])
        for which, made in _launches(kinds, q.device, transposed):
            made.run([heads[i] for i in which], None, None, None, cosines=(cos, sin))
    else:
        for out, x in zip(outs, (q, k), strict=True):
            out.copy_(x)
    return outs[0], outs[1]


@kept(256)
def _launches(
    kinds: tuple[tuple[Sequence[int], Sequence[int], torch.dtype], ...], device: torch.device, transposed: bool
) -> list[tuple[tuple[int, ...], Launch]]:
    """kinds: extents, strides and types of the heads of q, of q's result, of k and of k's result, then of cos and sin. Returns
    launches, each with the places of its tensors among those four."""
    *heads, cos, sin = (torch.empty_strided(*kind[:2], dtype=kind[2], device="meta") for kind in kinds)
    nothing = _nothing(device)
    shape = Geometry(heads[0].shape[-1], cos.shape[-1], 0, "half", "exact", 1, nothing, nothing, nothing)
    prepare = functools.partial(
        prepared, copied=None, shape=shape, source=Source("table", None, cos=cos, sin=sin), transposed=transposed
    )
    q, k = (heads[0], heads[1]), (heads[2], heads[3])
    if q[0].dtype is k[0].dtype:
        launches = [((0, 1, 2, 3, 0, 1), prepare(q, k))]
    else:
        launches = [((0, 1) * 3, prepare(q, None)), ((2, 3) * 3, prepare(k, None))]
    return [(which, made) for which, made in launches if made]


@kept(16)
def _nothing(device: torch.device) -> Tensor:
    """In the place of frequencies, of which nothing is read where cosines are given."""
    return for_good(lambda: [torch.zeros(1)], device)[0]


@_turn.register_fake
def _(q, k, cos, sin, time_first, transposed, once):
    return torch.empty_like(q), torch.empty_like(k)


def _context(ctx, inputs, output):
    _, _, cos, sin, ctx.time_first, ctx.transposed, ctx.once = inputs
    ctx.save_for_backward(cos, sin)


def _backward(ctx, d_q, d_k):
    cos, sin = ctx.saved_tensors
    d_q, d_k = _turn(d_q, d_k, cos, sin, ctx.time_first, not ctx.transposed, ctx.once)
    return d_q, d_k, *[None] * 5


_turn.register_autograd(_backward, setup_context=_context)


def _heads(x: Tensor, time_first: bool) -> Tensor:
    return x.detach().transpose(1, 2) if time_first else x.detach()


class _ApplyRotary(nn.Module):
    """The function as a layer, which is what the package kernels puts in a model's place."""

    can_torch_compile = True
    has_backward = True

    def forward(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        return apply_rotary_transformers(q, k, cos, sin, unsqueeze_dim)


class _ApplyRotaryHalfWidth(nn.Module):
    """The same for cosines that are there once for each pair."""

    can_torch_compile = True
    has_backward = True

    def forward(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        return apply_rotary_half_width(q, k, cos, sin, unsqueeze_dim)
