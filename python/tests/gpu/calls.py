"""Calls of attention that tests of its kernels make, and how they are compared with the library's."""

from __future__ import annotations

import functools
import math

import bearing
import bearing.torch as bt
import pytest
import torch
from bearing import _core
from bearing.torch.encoding import build, encodings_of, forms_of, tensors_of
from bearing.torch.triton import launches
from place import INTERPRETED

HEADS, KV_HEADS, Q_LEN, K_LEN, DIM, VALUE_DIM = 2, 1, 21, 29, 12, 10
LONGEST = Q_LEN + K_LEN  # no distance of these calls is longer
# A weight is off by the rounding of its score, here at most 16 in size, and of some operations: so many times 2^-24 of it.
ROUNDING = 32 * 2.0**-24
WIDE_ROUNDING = {torch.float32: ROUNDING, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Two tiles and a part of one along each axis. On a device, its own."""
    if INTERPRETED:
        tables = (launches._32_BITS, launches._16_BITS, launches._16_BITS_UNEVEN, launches._16_BITS_HOLED)
        for table in (*tables, launches._32_BITS_PICKED, launches._16_BITS_PICKED):
            for kernel in table:
                monkeypatch.setitem(table, kernel, ((16, 16, 4, 1),) * 3)


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Triton's interpreter replaces the functions of its language at each call of a function in a kernel, which is half of
    its time: once in a launch is enough. Half of the rest go to sums of int32, done once more in int64 for an assertion that
    only its option `debug` makes, and to types and shapes, made anew for every number."""
    if not INTERPRETED:
        yield
        return
    from triton.language import core, semantic
    from triton.runtime import interpreter

    patched = set()
    patch, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__

    def once(self, *args, **named):
        if self.fn not in patched:
            patched.add(self.fn)
            patch(self.fn)
        return self.rewrite()(*args, **named)

    def launched(self, *args, **named):
        patched.clear()
        launch(self, *args, **named)

    @functools.cache
    def shape_of(extents):
        shape = core.tuple([core.constexpr(extent) for extent in extents])
        return shape, core.constexpr(math.prod(extents))

    def tensor(self, handle, type):
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = shape_of(tuple(type.shape) if type.is_block() else ())

    numpy_type = interpreter._get_np_dtype
    kept = functools.cache(numpy_type)

    def type_of(type):
        scalar = type.scalar
        return (numpy_type if isinstance(scalar, core.pointer_type) else kept)(scalar)  # a pointer's type has no hash

    change = pytest.MonkeyPatch()
    change.setattr(interpreter.InterpretedFunction, "__call__", once)
    change.setattr(interpreter.GridExecutor, "__call__", launched)
    assert not interpreter.interpreter_builder.options.debug
    change.setattr(semantic.TritonSemantic, "binary_op_sanitize_overflow_impl", lambda *_: None)
    change.setattr(interpreter, "_get_np_dtype", type_of)
    change.setattr(core.tensor, "__init__", tensor)
    yield
    change.undo()


def rows(device, dtype=torch.float32, batch=1, heads=HEADS, kv_heads=KV_HEADS, q_len=Q_LEN, k_len=K_LEN):
    shapes = (heads, q_len, DIM), (kv_heads, k_len, DIM), (kv_heads, k_len, VALUE_DIM)
    return [torch.randn(batch, *shape).to(device, dtype).requires_grad_() for shape in shapes]


def doubled(x):
    """What the library gets on the CPU: in float64, where its own roundings do not show."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().cpu()
    return x.double() if x.is_floating_point() else x


class Reference:
    """The library's own results for a call, and how large what is summed in each of them may be."""

    def __init__(self, q, k, v, encodings, options, d_out, d_lse):
        given = encodings_of(encodings)
        terms = build(forms_of(given), [doubled(t) for t in tensors_of(given, torch.float64)], torch.float64)
        options = {name: doubled(value) for name, value in options.items()}
        q, k, v, d_out, d_lse = (doubled(x) for x in (q, k, v, d_out, d_lse))
        self.out, self.lse = _core.attention(q, k, v, terms, return_lse=True, **options)
        back = (q, k, v, self.out, self.lse)
        d_q, d_k, d_v, self.of_terms, d_sinks = _core.attention_backward(*back, d_out, terms, d_lse=d_lse, **options)
        ones = torch.ones_like(d_out)
        seen_by = _core.attention_backward(*back, ones, terms, **options)[2].max()  # sum_i p_ij, of the key with most
        norm = lambda x: x.nan_to_num(0).norm(dim=-1).max()
        scale = options.get("scale") or 1 / math.sqrt(q.shape[-1])
        self.score = 2 * norm(d_out) * norm(v) + d_lse.abs().max()  # bounds d_s / p
        self.grads = {
            "d_q": (d_q, scale * self.score * norm(k)),
            "d_k": (d_k, scale * self.score * norm(q) * seen_by),
            "d_v": (d_v, norm(d_out) * seen_by),
        }
        if d_sinks is not None:
            self.grads["d_sinks"] = d_sinks, self.score * q.shape[0] * Q_LEN
        self.largest = v.nan_to_num(0).abs().max()


def close(name, found, wanted, size, rounding):
    found = found.detach().cpu().double()
    assert found.shape == wanted.shape, name
    hidden = wanted.isinf()
    assert torch.equal(found[hidden], wanted[hidden].to(found)), name
    off = (found - wanted)[~hidden].abs().max() if (~hidden).any() else torch.zeros(())
    assert off <= rounding * float(size), f"{name}: off by {float(off):.3g} of {float(size):.3g}"


def agree(device, encodings=None, inputs=None, slope=LONGEST, **options):
    """Compares a call and its gradients with the library's. slope: bounds how a bias changes with a parameter."""
    q, k, v = rows(device) if inputs is None else inputs
    moved = encodings.to(device) if isinstance(encodings, torch.nn.Module) else encodings
    there = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in options.items()}
    learned = [p for p in (moved.parameters() if isinstance(moved, torch.nn.Module) else []) if p.requires_grad]
    if "sinks" in there:
        there["sinks"] = there["sinks"].detach().requires_grad_()
    assert bt.plan(q, k, v, moved, **there).path == "triton"
    out, lse = bt.attention(q, k, v, moved, return_lse=True, **there)
    d_out = torch.randn_like(out)
    d_lse = torch.where(lse.isinf(), 0, torch.randn_like(lse))
    leaves = [q, k, v, *([there["sinks"]] if "sinks" in there else []), *learned]
    found = torch.autograd.grad((out, lse), leaves, (d_out, d_lse))
    want = Reference(q, k, v, moved, options, d_out, d_lse)
    rounding = WIDE_ROUNDING[q.dtype]
    close("out", out, want.out, want.largest, rounding)
    close("lse", lse, want.lse, 16, ROUNDING)
    for (name, (wanted, size)), one in zip(want.grads.items(), found, strict=False):
        close(name, one, wanted, size, rounding)
    for parameter, one in zip(learned, found[len(want.grads) :], strict=True):
        (name,) = (n for n, p in moved.named_parameters() if p is parameter)
        close(name, one, want.of_terms[0][name], want.score * slope * q.shape[0] * Q_LEN, rounding)
    return [out, lse, *found]


MASKS = {
    "none": {"mask": "none"},
    "causal": {"mask": "causal", "q_positions": K_LEN - Q_LEN, "k_positions": 0},
    "causal, queries before keys": {"mask": "causal", "q_positions": 0, "k_positions": 5},
    "causal_top_left": {"mask": "causal_top_left"},
    "causal_bottom_right": {"mask": "causal_bottom_right"},
    "window": {"mask": "none", "window": (5, 3), "q_positions": 4, "k_positions": 0},
    "window, causal": {"mask": "causal", "window": (6, -1), "q_positions": 8, "k_positions": 0},
    "window, by index": {"mask": "causal_bottom_right", "window": (4, 0)},
}


BANDS = [
    bearing.DistanceBand(begin=0, end=1, chunk=7),
    bearing.DistanceBand(begin=-2, end=9),
    bearing.DistanceBand(begin=1, end=3, chunk=4),
    bearing.DistanceBand(begin=5),
    bearing.DistanceBand(end=0, chunk=11),
]


HOLES = {
    "k_lengths": {"mask": "none", "k_lengths": torch.tensor([29, 3])},
    "k_lengths, causal by index": {"mask": "causal_bottom_right", "k_lengths": torch.tensor([11, 29])},
    "key_mask": {"mask": "causal", "q_positions": 8, "k_positions": 0, "key_mask": torch.arange(29) % 5 > 0},
    "visible": {
        "mask": "none",
        "visible": torch.rand(1, 1, Q_LEN, K_LEN, generator=torch.Generator().manual_seed(3)) > 0.6,
    },
    "packed": {
        "mask": "none",
        "q_starts": torch.tensor([0, 4, 4, 17, 21]),
        "k_starts": torch.tensor([0, 6, 9, 9, 29]),
    },
    "packed, causal": {
        "mask": "causal_bottom_right",
        "window": (7, 0),
        "q_starts": torch.tensor([0, 9, 21]),
        "k_starts": torch.tensor([0, 3, 29]),
    },
}


def padded(device, dtype=torch.float32):
    """Rows of two sequences, padded in front with queries that are NaN and with keys that a mask hides, which is the option.
    Under a causal mask such a query sees no key."""
    q, k, v = rows(device, dtype, batch=2)
    shown = torch.ones(2, K_LEN, dtype=torch.bool)
    with torch.no_grad():
        for b, count in enumerate((7, 18)):
            q[b, :, :count], shown[b, :count] = math.nan, False
            k[b, :, :count], v[b, :, :count] = math.nan, math.nan
    return [q, k, v], {"mask": "causal", "q_positions": 0, "k_positions": 0, "key_mask": shown}
