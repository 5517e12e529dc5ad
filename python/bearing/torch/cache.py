"""Caches of keys and values: keys that are rotated already move in place; new ones are written as they are rotated.

A cache is paged if slots are given: it is [blocks, kv_heads, block_size, head_dim] then, and token t of sequence b stands
in row ``slots[b, t] % block_size`` of block ``slots[b, t] // block_size``; −1 names no row.

Caches that share memory, with each other or between their own numbers, are refused before anything is written, and on the
CPU a slot below −1 or past the cache, and the same slot twice. On a GPU the numbers of slots are not looked at, as that
would wait for the device: slots below 0 name no row there, a slot past the cache is an access out of bounds, of two tokens
that are written to one slot it is not said which one stays, and a row that is moved in place and named twice may be moved
twice, or in part.
"""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from .. import _core
from .compiling import constant, constant_of
from .dispatch import count_writes, needs_op, with_or_without_numbers, written_op
from .encoding import HasEncoding, check_fixed, is_given, table_form, table_of, text_of_table
from .functional import HasTable, Layout, Positions, autocast, check_device, positions_of, tensor_given
from .in_place import is_distinct, share_memory
from .normed import check_weight, in_order, normed
from .ops import arithmetic_of, in_order_of
from .rows import of_one_length
from .triton import device

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)

FLOAT8 = torch.float8_e4m3fn
_WIDE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

Frequencies = Union["_core.RopeFrequencies", "_core.Rope", "_core.RopeTable", HasTable]
FrequenciesOrXpos = Union[Frequencies, "_core.Xpos", HasEncoding]
Slots = Union[Tensor, Sequence[Sequence[int]], np.ndarray]


def rebase(
    from_: FrequenciesOrXpos,
    old_positions: Positions,
    to: FrequenciesOrXpos,
    new_positions: Positions,
    k: Tensor,
    *,
    slots: Slots | None = None,
    layout: Layout = "bhtd",
) -> Tensor:
    """Moves cached keys, which are rotated already, in place: afterwards they are as if they had been rotated with `to` at
    the new positions from the start, except for one rounding.

    from_: the encoding that k was rotated with: a module, a table, resolved frequencies, or a spec whose frequencies are
        the same at every length. On the CPU also xPos, as a module or a spec.
    old_positions: where the keys stood, as :func:`bearing.torch.rotate` takes positions.
    to: the encoding that they shall have; the same as from_ if that is xPos.
    new_positions: where they shall stand.
    k [batch, kv_heads, time, head_dim]: the keys; with slots a paged cache [blocks, kv_heads, block_size, head_dim].
    slots [batch, time]: block · block_size + row of each token, as a tensor, a list or an array; no two are the same, except
        −1, which names none.
    layout: 'bhtd' or 'bthd'; a paged cache has its own.

    Returns k, the same tensor. Nothing has gradients. Raises ShapeError, RangeError or TypeError, whose text names the
    argument.
    """
    _check("rebase", k=k)
    slots = _slots_of("rebase", slots, k)
    sizes = _check_slots("rebase", k, slots, layout)
    old, old_first = positions_of("rebase", "old_positions", old_positions, sizes)
    new, new_first = positions_of("rebase", "new_positions", new_positions, sizes)
    before, after = _text_of_xpos(from_), _text_of_xpos(to)
    if before != after and not (before and after and _is_same_xpos(before, after)):
        raise TypeError(f"[rebase] to: must be what from_ is if one of them is xPos, got {to!r}")
    if not before:
        before, after = text_of("rebase", "from_", from_), text_of("rebase", "to", to)
    _run(_rebase, _rebase_now, [k], k, old, old_first, new, new_first, slots, before, after, layout)
    return k


def shift(rope: Frequencies, by: int, k: Tensor, *, slots: Slots | None = None, layout: Layout = "bhtd") -> Tensor:
    """Moves cached keys, which are rotated already, by some tokens, in place (llama.cpp's K-shift).

    rope: the encoding that k was rotated with.
    by: how many tokens, the same for all; negative moves to earlier positions. :func:`rebase` moves each sequence by its own.
    k, slots, layout: as :func:`rebase` takes them.

    Returns k, the same tensor. Raises RangeError for angles as float32, whose roundings depend on both positions: :func:`rebase` takes them.
    """
    _check("shift", k=k)
    by = _whole_of(by)
    slots = _slots_of("shift", slots, k)
    _check_slots("shift", k, slots, layout)
    _run(_shift, _shift_now, [k], k, by, slots, text_of("shift", "rope", rope), layout)
    return k


def rotate_to_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Slots,
    *,
    rope: Frequencies,
    positions: Positions = None,
    layout: Layout = "bhtd",
    k_scale: float | Tensor = 1.0,
    v_scale: float | Tensor = 1.0,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Rotates queries and keys, and writes the keys and the values into a paged cache; on a GPU in one launch.

    q [batch, heads, time, head_dim], k [batch, kv_heads, time, head_dim], v [batch, kv_heads, time, value_dim].
    k_cache [blocks, kv_heads, block_size, head_dim], v_cache [blocks, kv_heads, block_size, value_dim]: written to, of the
        type of k and v, or both float8_e4m3fn: then turned keys are divided by k_scale and values by v_scale, and rounded once;
        what is larger than 448 after that becomes 448.
    slots [batch, time]: block · block_size + row of each token, as a tensor, a list or an array; no two are the same, except
        −1: that token is not kept.
    rope: as :func:`bearing.torch.rotate` takes it, except for a table of given numbers.
    positions, layout: as there.
    k_scale, v_scale: positive, a number or a tensor without axes, one for all heads; 1 unless the caches are float8_e4m3fn.
    q_weight, k_weight, eps: of norms before the rotation, as :func:`bearing.torch.norm_rotate` takes them; all or none.

    Under autocast q, k and v are cast to the type of the caches, or where these are float8_e4m3fn to autocast's own, unless
    they are float64.

    Returns q rotated, a new tensor. Nothing has gradients.

    Raises ShapeError, RangeError or TypeError, whose text names the argument; nothing is written then.
    """
    if slots is None:
        raise TypeError("[rotate_to_cache] slots: must be a tensor, a list or an array, got None")
    wide = isinstance(k_cache, Tensor) and k_cache.dtype in _WIDE
    q, k, v = autocast("rotate_to_cache", q, k, v, kernels=True, to=k_cache.dtype if wide else None)
    _check("rotate_to_cache", q=q, k=k, v=v, k_cache=k_cache, v_cache=v_cache)
    slots = _slots_of("rotate_to_cache", slots, k_cache)
    _check_caches(q, k, v, k_cache, v_cache, slots, layout)
    k_scale, v_scale = (
        _scale_of(name, one, k_cache.dtype) for name, one in (("k_scale", k_scale), ("v_scale", v_scale))
    )
    at, first = positions_of("rotate_to_cache", "positions", positions, slots.shape[0])
    form = text_of("rotate_to_cache", "rope", rope)
    _check_norms(q, q_weight, k_weight, eps)
    rest = k_cache, v_cache, slots, at, first, form, layout, k_scale, v_scale, q_weight, k_weight, eps
    return _run(_write, _write_now, [k_cache, v_cache], q, k, v, *rest)


def _run(op: Callable[..., Any], work: Callable[..., Any], written: Sequence[Tensor], *args: Any) -> Any:
    """An op; where nobody watches its work alone, as the op takes longer than a few tokens do."""
    if needs_op([x for x in args if isinstance(x, Tensor)]):
        return op(*args)
    out = work(*args)
    count_writes([x for x in written if device.takes(x)])  # the library and PyTorch count what they write
    return out


# The ops, which compilers take whole.


def _rebase_now(
    k: Tensor,
    old_positions: Optional[Tensor],
    old_first: int,
    new_positions: Optional[Tensor],
    new_first: int,
    slots: Optional[Tensor],
    from_: str,
    to: str,
    layout: str,
) -> None:
    _check_rows("rebase", slots, k)
    _check_memory("rebase", ("k", k))
    xpos = json.loads(from_).get("xpos")
    old = old_first if old_positions is None else old_positions
    new = new_first if new_positions is None else new_positions
    if xpos is not None:
        if device.takes(k):
            raise TypeError(f"[rebase] k: must be on the CPU for xPos, got {k.device}")
        spec = _core.Xpos.from_dict(xpos)
        return _in_cache(k, slots, layout, lambda rows, order: _core.rebase(spec, old, new, rows, layout=order))
    if device.takes(k):
        from .triton.cache import rebase as rebase_there

        return rebase_there(k, from_, old, to, new, slots, layout)
    before, after = _frequencies(from_), _frequencies(to)
    return _in_cache(k, slots, layout, lambda rows, order: _core.rebase(before, old, after, new, rows, layout=order))


def _shift_now(k: Tensor, by: int, slots: Optional[Tensor], form: str, layout: str) -> None:
    _check_rows("shift", slots, k)
    _check_memory("shift", ("k", k))
    if device.takes(k):
        from .triton.cache import shift as shift_there

        return shift_there(k, form, by, slots, layout)
    return _in_cache(k, slots, layout, lambda rows, order: _core.shift(_frequencies(form), by, rows, layout=order))


def _write_now(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    positions: Optional[Tensor],
    first: int,
    form: str,
    layout: str,
    k_scale: float,
    v_scale: float,
    q_weight: Optional[Tensor] = None,
    k_weight: Optional[Tensor] = None,
    eps: Optional[float] = None,
) -> Tensor:
    _check_rows("rotate_to_cache", slots, k_cache)
    _check_memory("rotate_to_cache", ("k_cache", k_cache), ("v_cache", v_cache))
    at = first if positions is None else positions
    scales, weights = (k_scale, v_scale), (q_weight, k_weight)
    if device.takes(q):
        if q_weight is not None:
            from .triton.norm_cache import norm_rotate_to_cache as norm_there

            return norm_there(q, k, v, k_cache, v_cache, slots, at, form, layout, scales, weights, eps)
        from .triton.cache import rotate_to_cache as write_there

        return write_there(q, k, v, k_cache, v_cache, slots, at, form, layout, scales)
    small = k_cache.dtype is FLOAT8
    if q_weight is None:
        given = (q.detach(), k.detach().to(arithmetic_of(k.dtype)) if small else k.detach())
    else:
        given = [normed(x, weight, eps) for x, weight in zip((q, k), weights, strict=True)]
    out, turned = (_core.rotate_to(_table(form, x), x, at, layout=layout) for x in given)
    if q_weight is not None:
        out, turned = in_order(out, q), turned if small else turned.to(k.dtype)
    for cache, rows, scale in ((k_cache, turned, k_scale), (v_cache, v, v_scale)):
        tokens = rows.transpose(1, 2) if layout == "bhtd" else rows
        blocks, places, kept = _places(cache, slots)
        new = float8(tokens[kept], scale) if small else tokens[kept]
        _bytes(cache.detach())[blocks, :, places] = _bytes(new)
    return out


_rebase = written_op("rebase_", _rebase_now, ["k"])
_shift = written_op("shift_", _shift_now, ["k"])
_write = written_op("rotate_to_cache", _write_now, ["k_cache", "v_cache"])


@_rebase.register_fake
@functools.partial(with_or_without_numbers, "rebase")
def _(k, old_positions, old_first, new_positions, new_first, slots, from_, to, layout):
    return None


@_shift.register_fake
@functools.partial(with_or_without_numbers, "shift")
def _(k, by, slots, form, layout):
    return None


@_write.register_fake
@functools.partial(with_or_without_numbers, "rotate_to_cache")
def _(q, k, v, k_cache, v_cache, slots, positions, first, form, layout, k_scale, v_scale,
      q_weight=None, k_weight=None, eps=None):  # fmt: skip
    return in_order_of(q)


def _frequencies(form: str) -> _core.RopeFrequencies:
    return table_of(form, torch.float32).frequencies


def _table(form: str, x: Tensor) -> _core.RopeTable:
    return table_of(form, torch.float64 if x.dtype is torch.float64 else torch.float32)


def _in_cache(k: Tensor, slots: Tensor | None, layout: str, move) -> None:
    """move(rows, layout) for a cache on the CPU: in place, or on copies of what slots name; those of 8 bits as float32."""
    k, small = k.detach(), k.dtype is FLOAT8
    if slots is None and not small:
        return move(k, layout)
    if slots is None:
        rows = k.float()
        move(rows, layout)
        k.copy_(float8(rows))
        return None
    blocks, places, kept = _places(k, slots)
    rows = torch.zeros(*slots.shape, k.shape[1], k.shape[3], dtype=torch.float32 if small else k.dtype)
    rows[kept] = _bytes(k)[blocks, :, places].view(k.dtype).to(rows.dtype)
    move(rows, "bthd")
    _bytes(k)[blocks, :, places] = _bytes(float8(rows[kept]) if small else rows[kept])
    return None


def float8(x: Tensor, scale: float = 1.0) -> Tensor:
    """x / scale as numbers of 8 bits; what is larger than the largest of them becomes that."""
    return (x.float() / scale).clamp(-448, 448).to(FLOAT8)


def _bytes(x: Tensor) -> Tensor:
    """Numbers of 8 bits as bytes, which PyTorch can pick by an index."""
    return x.view(torch.uint8) if x.dtype is FLOAT8 else x


def _places(cache: Tensor, slots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Blocks and rows of the tokens that have any, and which tokens these are."""
    kept = slots >= 0
    there = slots[kept].long()
    return there // cache.shape[2], there % cache.shape[2], kept


def text_of(function: str, name: str, rope: Frequencies) -> str:
    """The text that an op takes for frequencies."""
    own = isinstance(rope, (_core.Rope, _core.RopeTable, _core.RopeFrequencies))
    return (_constant_text if own and torch.compiler.is_compiling() else _text_of)(function, name, rope)


def _text_of(function: str, name: str, rope: Frequencies) -> str:
    if isinstance(rope, _core.RopeFrequencies):
        return json.dumps({"frequencies": rope.__reduce__()[1], "length": 0, "memory": "compact"})
    if isinstance(rope, _core.RopeTable) and not is_given(rope):
        return text_of_table(rope)
    if isinstance(rope, _core.Rope):
        check_fixed(f"[{function}] {name}", rope)
        return table_form(rope, 0)
    if isinstance(getattr(rope, "table", None), str):
        return rope.table
    raise TypeError(
        f"[{function}] {name}: must be a bearing.torch.Rope, or a Rope, RopeTable or RopeFrequencies of bearing that is "
        f"no table of given numbers, got {rope!r}"
    )


def _text_of_xpos(rope: object) -> str:
    """The text that rebase() takes for xPos; nothing for another encoding."""
    if isinstance(rope, _core.Xpos):
        return (_constant_text_of_spec if torch.compiler.is_compiling() else _text_of_spec)(rope)
    form = getattr(rope, "form", None)
    return _text_of_form(form) if isinstance(form, str) else ""


def _text_of_spec(xpos: _core.Xpos) -> str:
    return json.dumps({"xpos": xpos.to_dict()})


@constant
def _is_same_xpos(before: str, after: str) -> bool:
    """Whether specs are equal that are written in two ways, such as rotary_dim 0 and that of the whole head."""
    one, other = (_core.Xpos.from_dict(json.loads(text)["xpos"]) for text in (before, after))
    return one == other


@constant
def _text_of_form(form: str) -> str:
    members = json.loads(form)
    if members["kind"] != "XposRows":
        return ""
    settings = members["settings"]  # of a module the length alone
    if settings.get("angles", "exact") != "exact":
        raise _core.RangeError(f"[rebase] from_, to: must have exact angles for xPos, got {settings['angles']!r}")
    return _text_of_spec(of_one_length(_core.Xpos.from_dict(members["spec"]), settings.get("seq_len", 0)))


_constant_text_of_spec = constant_of(_text_of_spec)


def _check(function: str, **tensors: Tensor) -> None:
    check_device(function, *tensors.values(), kernels=True)
    for name, tensor in tensors.items():
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise TypeError(f"[{function}] {name}: must not require gradients, which would be lost")
        if tensor.device != next(iter(tensors.values())).device:
            raise TypeError(
                f"[{function}] {name}: must be on {next(iter(tensors.values())).device}, got {tensor.device}"
            )


def _check_slots(function: str, k: Tensor, slots: Tensor | None, layout: str) -> int:
    """Returns the number of sequences."""
    if slots is None:
        return k.shape[0] if k.dim() == 4 else 1
    if k.dim() != 4 or layout != "bhtd":
        raise _core.ShapeError(
            f"[{function}] k: must be [blocks, kv_heads, block_size, head_dim] with slots, and layout 'bhtd', got "
            f"{list(k.shape)} and {layout!r}"
        )
    _check_blocks(function, "k", k)
    _check_slot_numbers(function, slots, k)
    return slots.shape[0]


def _check_blocks(function: str, name: str, cache: Tensor) -> None:
    if cache.shape[2] == 0:
        raise _core.ShapeError(f"[{function}] {name}: must have rows in its blocks, got {list(cache.shape)}")


def _check_slot_numbers(function: str, slots: Tensor, cache: Tensor) -> None:
    if slots.dim() != 2 or slots.dtype not in (torch.int64, torch.int32) or slots.device != cache.device:
        raise _core.ShapeError(
            f"[{function}] slots: must be int32 or int64 [batch, time] on {cache.device}, got {slots.dtype} "
            f"{list(slots.shape)} on {slots.device}"
        )


def _slots_of(function: str, slots: Slots | None, cache: Tensor) -> Tensor | None:
    """Slots as a tensor."""
    return tensor_given(function, "slots", slots, cache.device)


def _check_rows(function: str, slots: Tensor | None, cache: Tensor) -> None:
    """Raises RangeError for slots on the CPU that name no row of the cache, or one twice. Those on a GPU are not looked at."""
    if slots is None or not slots.is_cpu:
        return
    rows, all_of = cache.shape[0] * cache.shape[2], slots.flatten()
    wrong = all_of[(all_of < -1) | (all_of >= rows)]
    if len(wrong):
        raise _core.RangeError(
            f"[{function}] slots: must be from 0 to {rows - 1}, the cache's rows, or -1 for none, got {int(wrong[0])}"
        )
    kept = all_of[all_of >= 0].sort().values
    twice = kept[1:][kept[1:] == kept[:-1]]
    if len(twice):
        raise _core.RangeError(f"[{function}] slots: must name each row once, got {int(twice[0])} twice")


def _check_memory(function: str, *caches: tuple[str, Tensor]) -> None:
    """Raises ShapeError if two numbers of caches that are written share memory, which are a key and a value at once, or a
    key that would move twice. Their places say so, on every device."""
    for name, cache in caches:
        if not is_distinct(cache):
            raise _core.ShapeError(
                f"[{function}] {name}: no two elements may share memory, got strides {list(cache.stride())} for shape "
                f"{list(cache.shape)}"
            )
    if len(caches) == 2 and share_memory(caches[0][1], caches[1][1], _MOST_WORK):
        raise _core.ShapeError(f"[{function}] v_cache: must share no memory with k_cache, got caches that overlap")


_MOST_WORK = 100_000  # a millisecond or so


def _whole_of(by: object) -> int:
    """What shift() moves by. Raises TypeError unless it is one whole number."""
    if isinstance(by, (int, torch.SymInt)) and not isinstance(by, bool):
        return by
    try:
        if not isinstance(by, (bool, Tensor)):
            return operator.index(by)
    except TypeError:
        pass
    got = f"a tensor {list(by.shape)}" if isinstance(by, Tensor) else repr(by)
    raise TypeError(
        f"[shift] by: must be a whole number of tokens, by which all move, got {got}: rebase() moves each sequence, or "
        "each token, by its own amount, from old to new positions"
    )


def _scale_of(name: str, scale: float | Tensor, dtype: torch.dtype) -> float:
    if isinstance(scale, Tensor) and scale.dim() == 0 and scale.device.type != "meta":
        scale = scale.item()
    if isinstance(scale, bool) or not (isinstance(scale, Real) and 0 < scale < math.inf):
        of_heads = "; there are no scales for each head" if isinstance(scale, Tensor) else ""
        got = f"a tensor {list(scale.shape)}" if of_heads else repr(scale)
        raise TypeError(f"[rotate_to_cache] {name}: must be a number larger than 0, got {got}{of_heads}")
    if scale != 1 and dtype is not FLOAT8:
        raise TypeError(
            f"[rotate_to_cache] {name}: must be 1 unless the caches are {FLOAT8}, got {scale!r} for {dtype}"
        )
    return float(scale)


def _check_norms(q: Tensor, q_weight: Tensor | None, k_weight: Tensor | None, eps: float | None) -> None:
    given = {"q_weight": q_weight, "k_weight": k_weight, "eps": eps}
    missing = [name for name, one in given.items() if one is None]
    if len(missing) == 3:
        return
    if missing:
        others = " and ".join(name for name in given if name not in missing)
        raise TypeError(f"[rotate_to_cache] {missing[0]}: must be given beside {others}, got None")
    if isinstance(eps, bool) or not isinstance(eps, Real):
        raise TypeError(f"[rotate_to_cache] eps: must be a number, got {eps!r}")
    _check("rotate_to_cache", q=q, q_weight=q_weight, k_weight=k_weight)
    check_weight("rotate_to_cache", "q_weight", q_weight, q)
    check_weight("rotate_to_cache", "k_weight", k_weight, q)


def _check_caches(
    q: Tensor, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor, layout: str
) -> None:
    function, time, heads = "rotate_to_cache", (2, 1) if layout == "bhtd" else (1, 2), None
    for name, x in (("q", q), ("k", k), ("v", v)):
        axes = [x.shape[0], x.shape[time[0]]] if x.dim() == 4 else None
        if axes != list(slots.shape):
            raise _core.ShapeError(
                f"[{function}] {name}: must have 4 axes, and batch and time of slots {list(slots.shape)}, got "
                f"{list(x.shape)} in layout {layout!r}"
            )
    if q.dtype not in _WIDE:
        raise TypeError(f"[{function}] q: must be one of {', '.join(map(str, _WIDE))}, got {q.dtype}")
    for name, x, cache in (("k_cache", k, k_cache), ("v_cache", v, v_cache)):
        heads = x.shape[time[1]]
        if x.dtype is not q.dtype:
            raise TypeError(f"[{function}] {name[0]}: must be {q.dtype}, as q is, got {x.dtype}")
        if cache.dtype not in (q.dtype, FLOAT8) or cache.dtype is not k_cache.dtype:
            raise TypeError(
                f"[{function}] {name}: must be {q.dtype}, as q is, or both caches {FLOAT8}, got {cache.dtype}"
            )
        if cache.dim() != 4 or cache.shape[1] != heads or cache.shape[3] != x.shape[3]:
            raise _core.ShapeError(
                f"[{function}] {name}: must be [blocks, {heads}, block_size, {x.shape[3]}], got {list(cache.shape)}"
            )
    if k_cache.shape[:3] != v_cache.shape[:3]:
        raise _core.ShapeError(
            f"[{function}] v_cache: must have the blocks of k_cache, {list(k_cache.shape[:3])}, got "
            f"{list(v_cache.shape[:3])}"
        )
    _check_blocks(function, "k_cache", k_cache)
    _check_slot_numbers(function, slots, k_cache)


_constant_text = constant_of(_text_of)
