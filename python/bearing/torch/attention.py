"""Attention as a module, with any encodings, with and without projections."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from .._core import ShapeError
from .base import Device, EncodingModule, Rows, heads_of, placement
from .encoding import Encoding, EncodingLike, Encodings, check_needs, encoding_given, encodings_of, traits_of
from .functional import Layout, Mask, Positions, attention, check_layout, check_options, turn
from .given_numbers import check_scores, whole_number
from .regions import Regions, text_of_regions
from .rows import Rope
from .starting import start, whole


class Fixed(EncodingModule):
    """One of ``bearing``'s own encodings as a module. Its parameters become parameters, its other arrays buffers.

    encoding: as :func:`bearing.torch.encoding_of` takes it.

    ``reset_parameters()`` gives buffers the encoding's numbers again. Parameters are left to who made them.
    """

    def __init__(self, encoding: EncodingLike) -> None:
        nn.Module.__init__(self)
        self.form, tensors = encoding_given("[Fixed] encoding", encoding)
        rotary = self.kind in ("RotaryRows", "RotaryValues")
        for i, tensor in enumerate(tensors):
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(f"tensor_{i}", tensor)
            elif tensor.requires_grad:
                raise TypeError(
                    "[Fixed] tensors: must be nn.Parameters if they are to be learned, got one of another tensor"
                )
            else:
                # Calls share the copies of a given table's numbers, and a buffer may be loaded.
                self.register_buffer(f"tensor_{i}", tensor.clone() if rotary else tensor)
        self._names = tuple(f"tensor_{i}" for i in range(len(tensors)))
        if any(tensor.device.type == "meta" for tensor in tensors):
            with torch.device("cpu"):  # arrays that the context took the numbers of
                tensors = encoding_given("[Fixed] encoding", encoding).tensors
        self._kept = {name: one for name, one in zip(self._names, tensors, strict=True) if name in self._buffers}

    @torch.no_grad()
    def _fill(self) -> None:
        for name, numbers in self._kept.items():
            if numbers.device.type != "meta":
                getattr(self, name).copy_(numbers)

    @property
    def kind(self) -> str:
        """The name of the encoding's class."""
        return json.loads(self.form)["kind"]

    def encoding(self) -> Encoding:
        return Encoding(self.form, tuple(getattr(self, name) for name in self._names))

    def extra_repr(self) -> str:
        return self.kind if self.spec is None else f"{self.kind}({self.spec!r})"


class Attention(nn.Module):
    """Scaled attention with a list of encodings, without projections.

    encodings: modules of this package or ``bearing``'s own encodings, as :func:`bearing.torch.attention` takes them. Those
        of rows (Rope, …) turn queries and keys first, in their order. The others act on scores and values. Their
        parameters become this module's parameters. An encoding that needs more than queries and keys, such as gates or
        segments, is given to each call as ``more``.
    mask: as in :func:`bearing.torch.attention`, and so are window, scale, soft_cap and layout.
    regions: a ``bearing.DualChunk``, ``SelfExtend`` or ``ReRope``, or a list of ``Region``. Encodings of rows then turn
        queries and keys inside of attention, at other positions from region to region.
    band: as in :func:`bearing.torch.attention`; not with regions.
    sinks: how many heads learn a sink. A sink is a logit that takes part in a row's sum and has no value; it starts at
        0. None: there are no sinks.
    device, dtype: where the sinks are made, and of which type; encodings are where they were made.
    """

    def __init__(
        self,
        encodings: EncodingLike | Sequence[EncodingLike] = (),
        *,
        mask: Mask,
        window: tuple[int, int] | None = None,
        scale: float | None = None,
        soft_cap: float = 0.0,
        sinks: int = 0,
        regions: Regions = None,
        band: _core.DistanceBand | None = None,
        layout: Layout = "bhtd",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check("Attention", mask, window=window, scale=scale, soft_cap=soft_cap, layout=layout)
        sinks = _sinks_of("Attention", sinks)
        placed = placement("Attention", device, dtype)
        modules = _modules_of("Attention", encodings)
        # Regions change no weight, and so no name of one.
        self.rows = nn.ModuleList(one for one in modules if _is_of_rows(one))
        self.scores = nn.ModuleList(one for one in modules if not _is_of_rows(one))
        self._order = tuple(_is_of_rows(one) for one in modules)
        self.sinks = nn.Parameter(torch.zeros(sinks, **placed)) if sinks else None
        self.options = {"mask": mask, "window": window, "scale": scale, "soft_cap": soft_cap, "layout": layout}
        if regions is not None or band is not None:
            self.options["regions" if band is None else "band"] = text_of_regions(regions, "Attention", band=band)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Starts sinks and encodings again, as :meth:`Described.reset_parameters` does."""
        start(self.children())
        with whole(self):
            if self.sinks is not None:
                self.sinks.zero_()

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        q_positions: Positions = None,
        k_positions: Positions = None,
        more: Encodings = None,
        **given: Any,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Computes attention of q [batch, heads, q_len, dim] over k and v [batch, kv_heads, k_len, …].

        q_positions: where queries stand, as :func:`bearing.torch.attention` takes positions.
        k_positions: where keys stand; at 0, 1, 2, … if it is left out, as the keys of a cache do, wherever queries stand. So
            queries and keys of the same tokens need both, as those of packed sequences and of left padding. Rope and
            :class:`MultiHeadAttention` take q_positions for their keys as well.
        more: encodings of this call alone, such as ``gates.encoding(x)``.
        given: k_lengths, key_mask, visible, q_starts, k_starts and return_lse, as in :func:`bearing.torch.attention`.

        Returns what :func:`bearing.torch.attention` returns.
        """
        k_positions = 0 if k_positions is None and q_positions is not None else k_positions
        options = self.options
        if options["scale"] is None:  # of the rows that come, whatever encodings make of their width
            options = options | {"scale": 1 / math.sqrt(q.shape[-1])}
        layout = options["layout"]
        within = "regions" in options
        for rows in () if within else self.rows:
            if isinstance(rows, Fixed):
                q = turn(rows, q, q_positions, side="query", layout=layout)
                k = turn(rows, k, q_positions if k_positions is None else k_positions, side="key", layout=layout)
            else:
                q, k = rows(q, k, q_positions, k_positions, layout=layout)
        own = self._in_order() if within else self.scores
        encodings = [one.encoding() for one in own] + encodings_of(more, "Attention")
        return attention(
            q, k, v, encodings, q_positions=q_positions, k_positions=k_positions, sinks=self.sinks, **options, **given
        )

    def _in_order(self) -> list[Any]:
        """All encodings in the order in which they were given."""
        rows, scores = iter(self.rows), iter(self.scores)
        return [next(rows if of_rows else scores) for of_rows in self._order] + [*rows, *scores]

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items() if value)


_OPTIONS = ("window", "scale", "soft_cap", "sinks", "regions", "band")


def _check(
    function: str,
    mask: Any,
    *,
    window: Any = None,
    scale: Any = None,
    soft_cap: Any = 0.0,
    regions: Any = None,
    band: Any = None,
    layout: Any = "bhtd",
) -> None:
    """Raises what is wrong with a layer's options, before anybody calls it. function: its class."""
    check_options(mask, window, scale, None, function)
    check_scores(function, scale, soft_cap)
    text_of_regions(regions, function, band=band)
    check_layout(function, layout)


def _sinks_of(function: str, sinks: Any) -> int:
    """How many heads learn a sink."""
    return 0 if sinks is None else whole_number(function, "sinks", sinks, what="how many heads learn one")


def _modules_of(function: str, encodings: EncodingLike | Sequence[EncodingLike]) -> list[nn.Module]:
    """What a layer was given, as modules."""
    several = isinstance(encodings, (list, tuple, nn.ModuleList)) and not isinstance(encodings, Encoding)
    return [_module_of(f"[{function}] encodings", one) for one in (encodings if several else [encodings])]


def _module_of(argument: str, encoding: EncodingLike) -> nn.Module:
    if not isinstance(encoding, nn.Module):
        encoding_given(argument, encoding)  # its error names who was called
        return Rope(encoding) if isinstance(encoding, _core.Rope) else Fixed(encoding)
    if not hasattr(encoding, "encoding"):
        raise TypeError(f"{argument}: must be modules of bearing.torch or encodings of bearing, got {encoding}")
    check_needs(argument, encoding, "more=")
    return encoding


def _is_of_rows(module: nn.Module) -> bool:
    return isinstance(module, (Rope, Rows)) or (isinstance(module, Fixed) and traits_of(module.kind)["rows"])


class MultiHeadAttention(nn.Module):
    """Attention over x [batch, time, d_model], with the four projections of a transformer's layer.

    d_model: how many features a token has; a multiple of heads unless head_dim is given.
    heads: how many heads queries have.
    kv_heads: how many heads keys and values have, fewer for grouped queries; as many as heads if not given.
    head_dim: how many dimensions a head has; d_model / heads if not given.
    bias: whether the projections have biases.

    device, dtype: where projections and sinks are made, and of which type; encodings are where they were made.

    All other arguments are those of :class:`Attention`, except layout. Raises ShapeError if d_model or kv_heads does
    not fit heads, or an encoding is for other heads.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        encodings: EncodingLike | Sequence[EncodingLike] = (),
        *,
        mask: Mask,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        for name in options:
            if name not in _OPTIONS:
                raise TypeError(
                    f"[MultiHeadAttention] has no argument {name}; beside mask it takes {', '.join(_OPTIONS)}"
                )
        _check("MultiHeadAttention", mask, **{name: one for name, one in options.items() if name != "sinks"})
        options["sinks"] = _sinks_of("MultiHeadAttention", options.get("sinks"))
        placed = placement("MultiHeadAttention", device, dtype)
        d_model = whole_number("MultiHeadAttention", "d_model", d_model, 1)
        heads = whole_number("MultiHeadAttention", "heads", heads, 1)
        kv_heads = heads if kv_heads is None else whole_number("MultiHeadAttention", "kv_heads", kv_heads, 1)
        if head_dim is not None:
            head_dim = whole_number("MultiHeadAttention", "head_dim", head_dim, 1)
        if head_dim is None and d_model % heads:
            raise ShapeError(f"[MultiHeadAttention] d_model: must be a multiple of {heads} heads, got {d_model}")
        if heads % kv_heads:
            raise ShapeError(f"[MultiHeadAttention] kv_heads: must divide {heads} heads, got {kv_heads}")
        modules = _modules_of("MultiHeadAttention", encodings)
        for one in modules:
            own = heads_of(one)
            if own not in (None, 1, heads):
                kind = one.kind if isinstance(one, Fixed) else type(one).__name__
                raise ShapeError(f"[MultiHeadAttention] encodings: must be for {heads} heads, got {kind} of {own}")
        self.d_model, self.heads, self.head_dim = d_model, heads, head_dim or d_model // heads
        kv_dim = kv_heads * self.head_dim
        self.q = nn.Linear(d_model, heads * self.head_dim, bias=bias, **placed)
        self.k = nn.Linear(d_model, kv_dim, bias=bias, **placed)
        self.v = nn.Linear(d_model, kv_dim, bias=bias, **placed)
        self.out = nn.Linear(heads * self.head_dim, d_model, bias=bias, **placed)
        self.attention = Attention(modules, mask=mask, layout="bthd", **options, **placed)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Starts projections, sinks and encodings again, as :meth:`Described.reset_parameters` does."""
        start([self.attention, self.q, self.k, self.v, self.out])  # encodings were made first

    def forward(self, x: Tensor, context: Tensor | None = None, **given: Any) -> Tensor | tuple[Tensor, Tensor]:
        """Computes the layer's output [batch, time, d_model].

        x [batch, time, d_model]: the input; queries are made of it.
        context [batch, k_len, d_model]: what keys and values are made of; x if not given.
        given: what :meth:`Attention.forward` takes. Without a context keys are made of the same tokens as queries: they
            stand at q_positions, and their packed sequences start at q_starts, unless k_positions and k_starts say
            otherwise. With return_lse the logarithms of the rows' sums are returned as well.
        """
        if context is None:
            context = x
            for of_queries, of_keys in (("q_positions", "k_positions"), ("q_starts", "k_starts")):
                if given.get(of_keys) is None:
                    given[of_keys] = given.get(of_queries)
        for name, one in (("x", x), ("context", context)):
            if one.dim() != 3 or one.shape[-1] != self.d_model:
                raise ShapeError(
                    f"[MultiHeadAttention] {name}: must be [batch, time, d_model = {self.d_model}], got {list(one.shape)}"
                )
        q, k, v = (
            project(of).unflatten(-1, (-1, self.head_dim))
            for project, of in ((self.q, x), (self.k, context), (self.v, context))
        )
        found = self.attention(q, k, v, **given)
        out, *lse = found if isinstance(found, tuple) else (found,)
        projected = self.out(out.flatten(2))
        return (projected, *lse) if lse else projected
