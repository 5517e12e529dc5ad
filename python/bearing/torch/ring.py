"""Attention over a sequence that several processes share. Each of them holds some of its queries and some of its keys.

Keys and values go round a ring of processes. Each process computes attention of its queries over the keys that are
there (``out`` and ``lse``, the logarithms of the rows' sums) and merges it with what it had. This is exact, see
``bearing.merge``. In the backward keys and values go round again, with their gradients, back to their owners.

Liu, Zaharia, Abbeel 2023, arXiv 2310.01889.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from .. import _core
from .compiling import eager
from .dispatch import is_transformed
from .encoding import Encodings, build, encodings_of, forms_of, gradients, tensors_of, traits_of
from .functional import Layout, Positions, autocast, check_layout, check_options, positions_of
from .given_numbers import check_scores
from .ops import _plain, _spread, arithmetic_of
from .ring_group import Extent, Pending, Ring, RingRefused, Shard
from .words import in_words_of

# Tags of messages; tensors of one message count up from them.
_keys_tag, _sums_tag, _home_tag = 0, 10, 20


@eager
def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encodings: Encodings = None,
    *,
    mask: str,
    q_positions: Positions,
    k_positions: Positions,
    window: tuple[int, int] | None = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    sinks: Tensor | None = None,
    key_mask: Tensor | None = None,
    layout: Layout = "bhtd",
    group: dist.ProcessGroup | None = None,
    sum_gradients: bool = True,
    out_dtype: torch.dtype | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Computes :func:`bearing.torch.attention` over the sequence that the processes of a group hold together, on the CPU.

    q [batch, heads, q_len, dim]: this process's queries.
    k [batch, kv_heads, k_len, dim]: this process's keys.
    v [batch, kv_heads, k_len, value_dim]: this process's values.
    encodings: as in :func:`bearing.torch.attention`. They go by position; those that count tokens are refused.
    mask: "none" or "causal", by position.
    q_positions: where this process's queries stand: a tensor [time], [batch, time] or [axes, batch, time], or an int p
        for p, p + 1, ….
    k_positions: where this process's keys stand.
    key_mask [batch, k_len]: which of this process's keys may be seen.
    group: the processes; None for all. Its backend must take tensors on the CPU, as gloo does.
    sum_gradients: False leaves each process its own queries' share of the gradients of sinks and parameters, for
        callers that sum all gradients of a model later, as DistributedDataParallel does.
    out_dtype: torch.float32 keeps all bits of out where q has 16.

    A shard may hold any tokens in any order, or none: see :func:`bearing.torch.shard`. Returns this process's rows of
    the result: what attention over all keys gives, up to rounding.

    Every process of the group calls it with the same encodings, parameters and options, and runs the backward too. An
    argument that one process refuses raises its own error there, which names the argument, and
    :class:`bearing.torch.RingRefused` on all others.

    Gradients of q, k and v are those of this shard, of the sum of all processes' losses. Each process holds a copy of
    the sinks and of the encodings' parameters. Their gradients are summed over the group in rank order, so that they
    have the same bits everywhere.

    Beside its own shard a process holds the keys and values of at most two others, and in the backward their gradients.
    Its memory is linear in the shard, whatever the sequence's length. float16 and bfloat16 travel as they are. Partial
    results and gradients are kept in float32 and rounded once, to the type of q, or for out to out_dtype. A shard stops
    where no further process sees it. Results have the same bits every time.
    """
    _check_watchers(q)
    ring = Ring(group)
    failure: Exception | None = None
    call, tensors = None, ()
    try:
        call, tensors = _prepare(q, k, v, encodings, mask, q_positions, k_positions, window, scale, soft_cap, sinks, key_mask, layout,
                                 sum_gradients, out_dtype)  # fmt: skip
    except Exception as error:
        failure = error
    try:
        shards = ring.agree(None if call is None else call.extents, {} if call is None else call.same(tensors))
    except Exception as error:  # also of a group whose backend takes no tensors on the CPU
        if failure is not None:
            raise failure from (None if isinstance(error, RingRefused) else error)
        raise
    route = Route(ring, shards, call.mask, call.window)
    out, lse = RingAttention.apply(ring, route, call, *tensors)
    return (out, lse) if return_lse else out


def _check_watchers(q: Tensor) -> None:
    """RuntimeError for what would lose the messages between processes, or derivatives."""
    if is_transformed() or torch.jit.is_tracing() or get_proxy_mode() is not None or isinstance(q, FakeTensor):
        raise RuntimeError(
            "[ring_attention] runs eagerly alone, with autograd: it can neither be traced, nor be given to torch.func "
            "or forward-mode derivatives, as processes exchange messages within it"
        )


class Call(NamedTuple):
    """What is constant in a call: positions and masks of this process's shard, and options."""

    q_positions: Tensor
    k_positions: Tensor
    key_mask: Tensor | None
    extents: Shard
    forms: str
    mask: str
    window: tuple[int, int]
    scale: float | None
    soft_cap: float
    layout: str
    sum_gradients: bool
    out_dtype: torch.dtype

    @property
    def time(self) -> int:
        return 1 if self.layout == "bthd" else 2

    def same(self, tensors: Sequence[Tensor | None]) -> dict[str, object]:
        """What must be alike on all processes."""
        q, k, v, sinks, *parameters = tensors
        wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
        return {
            "q": self._but_time(q),
            "k": self._but_time(k),
            "v": self._but_time(v),
            "dtype": q.dtype,
            "k_positions": (tuple(self.k_positions.shape[:-1]), self.k_positions.dtype),
            "key_mask": None if self.key_mask is None else tuple(self.key_mask.shape[:-1]),
            "encodings": self.forms,
            "parameters": [(tuple(p.shape), p.requires_grad, _bits(p)) for p in parameters],
            "sinks": None if sinks is None else (tuple(sinks.shape), sinks.requires_grad, _bits(sinks)),
            "mask": self.mask,
            "window": self.window,
            "scale": self.scale,
            "soft_cap": self.soft_cap,
            "layout": self.layout,
            "sum_gradients": self.sum_gradients,
            "out_dtype": self.out_dtype,
            "whether gradients are wanted": wanted,
        }

    def _but_time(self, x: Tensor) -> tuple[int, ...]:
        return tuple(n for axis, n in enumerate(x.shape) if axis != self.time)

    def options(self, keys: Keys, sinks: Tensor | None = None) -> dict[str, object]:
        """The arguments of bearing's own functions for some keys."""
        return {
            "mask": self.mask,
            "window": self.window,
            "q_positions": self.q_positions,
            "k_positions": keys.at,
            "scale": self.scale,
            "soft_cap": self.soft_cap,
            "sinks": None if sinks is None else sinks.detach(),
            "key_mask": keys.mask,
            "layout": self.layout,
            "threads": torch.get_num_threads(),
        }


class Keys(NamedTuple):
    """Keys and values with their positions: what goes round."""

    k: Tensor
    v: Tensor
    at: Tensor
    mask: Tensor | None

    def tensors(self) -> list[Tensor]:
        return [t for t in self if t is not None]

    def room(self, length: int, time: int) -> Keys:
        """Room for as many of another shard, contiguous."""
        return Keys(
            self.k.new_empty(_with_length(self.k, time, length)),
            self.v.new_empty(_with_length(self.v, time, length)),
            self.at.new_empty(_with_length(self.at, -1, length)),
            None if self.mask is None else self.mask.new_empty(_with_length(self.mask, -1, length)),
        )

    def none(self, time: int) -> Keys:
        """No keys at all."""
        return self.room(0, time)


class Route:
    """Which process needs which shard of keys, and where a shard goes: the same on all processes."""

    def __init__(self, ring: Ring, shards: Sequence[Shard], mask: str, window: tuple[int, int]) -> None:
        self.ring = ring
        self.lengths = [shard.k.length for shard in shards]
        world = ring.world
        self._needs = [[_may_see(q.q, k.k, mask, window) for k in shards] for q in shards]
        # The last step in which anybody needs a shard; its owner has it in step 0.
        self._last = [
            max((step for step in range(world) if self._needs[(owner + step) % world][owner]), default=0)
            for owner in range(world)
        ]

    def needs(self, owner: int) -> bool:
        """Whether this process's queries may see a key of that shard."""
        return self._needs[self.ring.rank][owner]

    def last(self, owner: int) -> int:
        """The steps that a shard travels."""
        return self._last[owner]


def _may_see(q: Extent, k: Extent, mask: str, window: tuple[int, int]) -> bool:
    """Whether a query might see a key, of their positions' ranges."""
    before, after = window
    if q.length == 0 or k.length == 0:
        return False
    if mask == "causal" and k.first > q.last:
        return False
    if before >= 0 and k.last < q.first - before:
        return False
    return after < 0 or k.first <= q.last + after


def _prepare(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encodings: Encodings,
    mask: str,
    q_positions: Positions,
    k_positions: Positions,
    window: tuple[int, int] | None,
    scale: float | None,
    soft_cap: float,
    sinks: Tensor | None,
    key_mask: Tensor | None,
    layout: Layout,
    sum_gradients: bool,
    out_dtype: torch.dtype | None,
) -> tuple[Call, tuple[Tensor | None, ...]]:
    """The arguments of one process, checked: a Call, and the tensors that have gradients."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        device = getattr(x, "device", None)
        if isinstance(device, torch.device) and device.type not in ("cpu", "meta"):
            raise TypeError(f"[ring_attention] {name}: must be on the CPU, where alone it runs, got one on {device}")
    q, k, v = autocast("ring_attention", q, k, v)
    if not isinstance(mask, str) or mask not in ("none", "causal"):
        raise ValueError(f"[ring_attention] mask: must be 'none' or 'causal', which go by position, got {mask!r}")
    check_options(mask, window, scale, sinks, "ring_attention")
    check_scores("ring_attention", scale, soft_cap)
    check_layout("ring_attention", layout)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise _core.ShapeError(f"[ring_attention] {name}: must have 4 axes, got {x.ndim}")
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise TypeError(f"[ring_attention] {name}: must be {q.dtype}, as q, got {x.dtype}")
    given = encodings_of(encodings, "ring_attention")
    for one in given:
        kind = json.loads(one.form)["kind"]
        # A part of the keys does not tell enough of a token's place in its tensor, nor of all keys at once.
        if traits_of(kind)["by_index"] or traits_of(kind)["whole_rows"]:
            raise ValueError(f"[ring_attention] encodings: must go by position, got {kind}, which counts tokens")
    arithmetic, time = arithmetic_of(q.dtype), 1 if layout == "bthd" else 2
    if out_dtype not in (None, q.dtype, arithmetic):
        raise TypeError(
            f"[ring_attention] out_dtype: must be {q.dtype}, as q is, or {arithmetic}, which sums are taken in, got "
            f"{out_dtype}"
        )
    q_positions, k_positions = (
        _explicit("q_positions", q_positions, q.shape[time]),
        _explicit("k_positions", k_positions, k.shape[time]),
    )
    if key_mask is not None:
        key_mask = key_mask.detach().contiguous()
    call = Call(q_positions, k_positions, key_mask, Shard(Extent.of(q_positions), Extent.of(k_positions)), forms_of(given), mask,
                (-1, -1) if window is None else (window[0], window[1]), scale, soft_cap, layout,
                sum_gradients, q.dtype if out_dtype is None else out_dtype)  # fmt: skip
    sinks = None if sinks is None else sinks.to(arithmetic)
    tensors = (q, k, v, sinks, *tensors_of(given, arithmetic))
    _check(call, tensors)
    return call, tensors


def _explicit(name: str, positions: Positions, length: int) -> Tensor:
    """Positions as a tensor of int64 or float64, [..., time]."""
    if positions is None:
        raise TypeError(f"[ring_attention] {name}: must be given, as a shard may hold any tokens, got None")
    at, first = positions_of("ring_attention", name, positions)
    if at is None:
        return torch.arange(first, first + length)
    if not 1 <= at.ndim <= 3:
        raise _core.ShapeError(
            f"[ring_attention] {name}: must be [time], [batch, time] or [axes, batch, time], got {at.ndim} axes"
        )
    return at.detach().to(torch.float64 if at.is_floating_point() else torch.int64).contiguous()


@in_words_of("ring_attention", "attention")
def _check(call: Call, tensors: Sequence[Tensor | None]) -> None:
    """Lets bearing refuse now what it would refuse later: all keys without queries, and all queries without keys."""
    q, k, v, sinks, *parameters = tensors
    arithmetic = arithmetic_of(q.dtype)
    encodings = build(call.forms, _plain(parameters), arithmetic)
    keys = Keys(k.detach(), v.detach(), call.k_positions, call.key_mask)
    no_queries = q.detach().narrow(call.time, 0, 0)
    options = call.options(keys) | {"q_positions": call.q_positions[..., :0]}
    _core.attention(no_queries, keys.k, keys.v, encodings, **options)
    none = keys.none(call.time)
    _core.attention(q.detach(), none.k, none.v, encodings, **call.options(none, sinks))


def _bits(x: Tensor) -> str:
    """A digest of a tensor's bits in their order, which copies of it share."""
    return hashlib.blake2b(x.detach().flatten().view(torch.uint8).numpy(), digest_size=8).hexdigest()


def _with_length(x: Tensor, axis: int, length: int) -> list[int]:
    shape = list(x.shape)
    shape[axis] = length
    return shape


def _travel(ring: Ring, route: Route, mine: Keys, time: int, visit: Callable[[int, int, Keys], None]) -> None:
    """Passes every shard on and calls ``visit(step, owner, keys)`` for those that come by, this process's own first.

    The next shard arrives while visit works on this one; so there are two of them at a time.
    """
    here: Keys | None = mine
    for step in range(ring.world):
        owner, coming = ring.after(-step), ring.after(-step - 1)
        pending, there = Pending(), None
        if step + 1 < ring.world and route.last(coming) > step:
            there = mine.room(route.lengths[coming], time)
            ring.receive(there.tensors(), ring.after(-1), _keys_tag, pending)
        if here is not None and route.last(owner) > step:
            ring.send(here.tensors(), ring.after(1), _keys_tag, pending)
        if here is not None:
            visit(step, owner, here)
        pending.wait()
        here = there


def _forward(ring: Ring, route: Route, call: Call, tensors: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """out and lse in the arithmetic of the call."""
    q, k, v, sinks, *parameters = tensors
    q, arithmetic = q.detach(), arithmetic_of(q.dtype)
    encodings = build(call.forms, _plain(parameters), arithmetic)
    mine = Keys(k.detach().contiguous(), v.detach().contiguous(), call.k_positions, call.key_mask)
    by_heads = (lambda x: x.transpose(1, 2)) if call.layout == "bthd" else (lambda x: x)

    def part(keys: Keys, sinks: Tensor | None = None) -> tuple[Tensor, Tensor]:
        options = call.options(keys, sinks)
        return _core.attention(q, keys.k, keys.v, encodings, out_dtype=arithmetic, return_lse=True, **options)

    # No keys at all: the sinks, once.
    out, lse = part(mine.none(call.time), sinks)

    def visit(step: int, owner: int, keys: Keys) -> None:
        if route.needs(owner):
            one, one_lse = part(keys)
            _core.merge(by_heads(one), one_lse, by_heads(out), lse, threads=torch.get_num_threads())

    _travel(ring, route, mine, call.time, visit)
    return out, lse


class _Sums:
    """Gradients of this process's queries, sinks and parameters, and of the shards of keys on their way."""

    def __init__(
        self,
        ring: Ring,
        route: Route,
        call: Call,
        tensors: Sequence[Tensor | None],
        results: Sequence[Tensor | None],  # out, lse, d_out, d_lse
    ) -> None:
        self.ring, self.route, self.call = ring, route, call
        q, k, v, self.sinks, *self.parameters = tensors
        self.arithmetic = arithmetic_of(q.dtype)
        self.out, self.lse, self.d_out, self.d_lse = (None if t is None else t.detach() for t in results)
        self.q = q.detach()
        self.mine = Keys(k.detach().contiguous(), v.detach().contiguous(), call.k_positions, call.key_mask)
        self.encodings = build(call.forms, _plain(self.parameters), self.arithmetic)
        self.d_q = torch.zeros_like(self.q, dtype=self.arithmetic, memory_format=torch.contiguous_format)
        self.d_parameters = [torch.zeros_like(p) for p in self.parameters if p.is_floating_point()]
        self.d_sinks: Tensor | None = None
        self.own: list[Tensor] = []  # of this process's own keys and values
        self.sent = Pending()

    def part(self, keys: Keys, sinks: Tensor | None = None) -> list[Tensor]:
        """Adds what these keys give to this process's gradients; returns d_k and d_v."""
        d_q, d_k, d_v, found, d_sinks = _core.attention_backward(
            self.q,
            keys.k,
            keys.v,
            self.out,
            self.lse,
            self.d_out,
            self.encodings,
            d_lse=self.d_lse,
            **self.call.options(keys, sinks),
        )
        self.d_q += d_q
        for total, one in zip(self.d_parameters, gradients(self.call.forms, self.parameters, found), strict=True):
            total += one
        if sinks is not None:
            self.d_sinks = d_sinks
        return [d_k, d_v]

    def zeros(self, keys: Keys) -> list[Tensor]:
        return [torch.zeros_like(t, dtype=self.arithmetic) for t in (keys.k, keys.v)]

    def visit(self, step: int, owner: int, keys: Keys) -> None:
        """The sum of a shard's gradients comes from the process before, grows and goes on: the owner's part first."""
        ring, last = self.ring, self.route.last(owner)
        coming, before = Pending(), []
        if step > 0:
            before = [torch.empty_like(t, dtype=self.arithmetic) for t in (keys.k, keys.v)]
            ring.receive(before, ring.after(-1), _sums_tag, coming)
        found = self.part(keys) if self.route.needs(owner) else []
        coming.wait()
        self.sent.wait()
        if before and found:
            for total, one in zip(before, found, strict=True):
                total += one
        found = before or found or self.zeros(keys)
        if step < last:
            ring.send(found, ring.after(1), _sums_tag, self.sent)
        elif step > 0:
            ring.send(found, owner, _home_tag, self.sent)
        else:
            self.own = found

    def run(self) -> None:
        """All of it."""
        ring, home = self.ring, Pending()
        last = self.route.last(ring.rank)
        if last > 0:  # from the beginning, as the sender may wait for it before it does what this process waits for
            self.own = [torch.empty_like(t, dtype=self.arithmetic) for t in (self.mine.k, self.mine.v)]
            ring.receive(self.own, ring.after(last), _home_tag, home)
        if self.sinks is not None:
            self.part(self.mine.none(self.call.time), self.sinks)
        _travel(ring, self.route, self.mine, self.call.time, self.visit)
        home.wait()
        self.sent.wait()
        if self.call.sum_gradients:
            shared = [*self.d_parameters, *([] if self.d_sinks is None else [self.d_sinks])]
            shared = ring.sum(shared)
            if self.d_sinks is not None:
                self.d_sinks = shared.pop()
            self.d_parameters = shared


class RingAttention(torch.autograd.Function):
    """ring_attention() after its checks: (ring, route, call, q, k, v, sinks, parameters…) -> out, lse."""

    @staticmethod
    def forward(ctx, ring, route, call, *tensors):
        out, lse = _forward(ring, route, call, tensors)
        ctx.ring, ctx.route, ctx.call = ring, route, call
        ctx.save_for_backward(out, lse, *tensors)
        ctx.set_materialize_grads(False)
        return out.to(call.out_dtype), lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out, d_lse):
        out, lse, *tensors = ctx.saved_tensors
        q, k, v, _, *parameters = tensors
        d_out = torch.zeros_like(out) if d_out is None else d_out.to(out.dtype)
        sums = _Sums(ctx.ring, ctx.route, ctx.call, tensors, (out, lse, d_out, d_lse))
        sums.run()
        d_k, d_v = sums.own
        return (None, None, None, sums.d_q.to(q.dtype), d_k.to(k.dtype), d_v.to(v.dtype), sums.d_sinks,
                *_spread(sums.d_parameters, parameters))  # fmt: skip
