"""Wrong calls: refused by name, with the reason, and never a crash."""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
from typing import Any

import bearing
import jax.numpy as jnp
import numpy as np
import pytest
import torch

ROPE = bearing.Rope(head_dim=8, pairing="half")
TABLE = bearing.RopeTable(ROPE, 16)


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def read_only() -> np.ndarray:
    x = ones(2, 8)
    x.flags.writeable = False
    return x


def misaligned() -> np.ndarray:
    return np.zeros(1 + 2 * 8 * 4, np.uint8)[1:].view(np.float32).reshape(2, 8)


@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        (None, TypeError, r"\[rotate\] x: must be an array"),
        ([[1.0] * 8], TypeError, r"\[rotate\] x: must be an array"),
        ("text", TypeError, r"\[rotate\] x: must be an array"),
        (ones(2, 8, dtype=np.int64), TypeError, r"must be an array of float64, .* got int64"),
        (ones(2, 8, dtype=bool), TypeError, r"got bool"),
        (ones(2, 8, dtype=np.complex64), TypeError, r"got complex64"),
        (ones(2, 8, dtype=np.float32).astype(">f4"), TypeError, r"got >f4"),
        (np.array([[object()] * 8]), TypeError, r"got object"),
        (ones(2, 8, dtype=np.uint16), TypeError, r"got uint16"),
        (
            ones(2, 8, dtype=np.float64),
            TypeError,
            r"must be float32, bfloat16 or float16 for a float32 table, got float64",
        ),
        (ones(8), bearing.ShapeError, r"must be an array of 2 to 4 axes"),
        (ones(1, 1, 1, 2, 8), bearing.ShapeError, r"must be an array of 2 to 4 axes"),
        (ones(*[1] * 9), bearing.ShapeError, r"at most 8 axes"),
        (ones(2, 6), bearing.ShapeError, r"\[rotate\] x: .*8"),
        (read_only(), TypeError, r"may be written, got one that is read-only"),
        (ones(2, 0), bearing.ShapeError, r"\[rotate\] x"),
        (misaligned(), TypeError, "aligned"),
        (jnp.ones((2, 8)), TypeError, r"may be written, got a JAX array, which never may"),
        (torch.ones(2, 8, requires_grad=True), TypeError, r"without requires_grad"),
        (torch.ones(2, 8, device="meta"), TypeError, r"\[rotate\] x: must lie in host memory"),
        (torch.ones(2, 8, dtype=torch.int32), TypeError, r"got torch.int32"),
        (torch.ones(2, 8).to_sparse(), TypeError, r"\[rotate\] x: must be"),
    ],
)
def test_a_tensor_that_cannot_be_rotated_in_place_is_refused_by_name(x: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        bearing.rotate(TABLE, x)


def test_rows_that_share_memory_are_refused() -> None:
    x = np.lib.stride_tricks.as_strided(ones(8), (4, 8), (0, 4), writeable=True)
    with pytest.raises(bearing.ShapeError, match=r"\[rotate\]"):
        bearing.rotate(TABLE, x)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"positions": "text"}, TypeError, r"\[rotate\] positions: must be None, an int, or an array"),
        ({"positions": 1.5}, TypeError, r"positions: must be"),
        ({"positions": True}, TypeError, r"positions: must be"),
        ({"positions": np.float64(1.0)}, TypeError, r"positions: must be"),
        ({"positions": ones(1, 1, 1, 2)}, bearing.ShapeError, r"positions: must be None, an int, or an array"),
        ({"positions": ones(3, dtype=np.int64)}, bearing.ShapeError, r"\[rotate\]"),
        ({"positions": ones(2, dtype=np.float16)}, TypeError, r"16-bit floats cannot count past 2048"),
        ({"positions": 2**40}, bearing.RangeError, r"\[rotate\]"),
        ({"positions": np.array([0.0, np.nan])}, bearing.RangeError, r"\[rotate\]"),
        ({"layout": "bdth"}, ValueError, r"\[rotate\] layout: must be 'bhtd' or 'bthd', got 'bdth'"),
        ({"layout": 3}, ValueError, r"layout: must be"),
        ({"threads": -1}, bearing.RangeError, r"\[rotate\] threads: must be at least 0 \(0 for all\), got -1"),
        ({"threads": "two"}, TypeError, r"rotate"),
        ({"unknown": 1}, TypeError, r"rotate"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_nothing_is_written(options: Any, error: type, says: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 8), np.float32)
    before = x.copy()
    with pytest.raises(error, match=says):
        bearing.rotate(TABLE, x, **options)
    assert np.array_equal(x, before)


def test_errors_of_rotate_say_positions_where_the_caller_does() -> None:
    q = ones(1, 1, 2, 8)
    for positions, error in [(np.arange(3), bearing.ShapeError), (2**40, bearing.RangeError)]:
        with pytest.raises(error, match=r"^\[rotate\] positions: "):
            bearing.rotate(TABLE, q, q.copy(), positions)
    with pytest.raises(bearing.ShapeError, match=r"^\[rotate\] positions: "):
        bearing.rotate(TABLE, q, ones(1, 1, 3, 8), np.arange(2))
    with pytest.raises(bearing.ShapeError, match=r"^\[rotate\] k_positions: "):
        bearing.rotate(TABLE, q, q.copy(), np.arange(2), k_positions=np.arange(3))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: bearing.RopeTable(TABLE.frequencies, -1), bearing.RangeError, "length"),
        (lambda: bearing.RopeTable(bearing.Rope(head_dim=7, pairing="half"), 4), bearing.ShapeError, "rotary_dim|even"),
        (lambda: bearing.RopeTable("rope", 4), TypeError, r"\[RopeTable\] rope: must be a RopeFrequencies"),
        (lambda: bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 4, dtype="float16"), TypeError, "dtype"),
        (lambda: bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 4, memory="none"), ValueError, "memory"),
        (lambda: bearing.RotaryRows(None), TypeError, r"\[RotaryRows\] table: must be a RopeTable, got None"),
        (lambda: bearing.XposRows(TABLE), TypeError, r"\[XposRows\] table: must be an XposTable"),
        (lambda: bearing.resolve(bearing.Rope(head_dim=8, base=-1.0, pairing="half")), bearing.RangeError, "base"),
        (lambda: bearing.Rope(head_dim=8.5, pairing="half"), TypeError, r"\[Rope\] head_dim: must be int, got 8.5"),
        (lambda: bearing.Rope(head_dim=True, pairing="half"), TypeError, r"\[Rope\] head_dim: must be int, got True"),
        (
            lambda: bearing.Rope(head_dim=8, base=True, pairing="half"),
            TypeError,
            r"\[Rope\] base: must be float, got Tr",
        ),
        (lambda: bearing.Rope(head_dim=8, base=np.True_, pairing="half"), TypeError, r"\[Rope\] base: must be float"),
        (lambda: bearing.RopeTable(TABLE.frequencies, True), TypeError, r"\[RopeTable\] length: must be int, got True"),
        (lambda: bearing.rotary_embedding(True, 4), TypeError, r"\[rotary_embedding\] seq_len: must be int, got True"),
        (lambda: bearing.cos_sin(TABLE, length=True), TypeError, r"\[cos_sin\] length: must be int, got True"),
        (
            lambda: bearing.cos_sin(TABLE, length=-1),
            bearing.RangeError,
            r"\[cos_sin\] length: must be at least 0, got -",
        ),
        (lambda: bearing.cos_sin(TABLE), TypeError, r"\[cos_sin\] length: must be given, unless positions are an arr"),
        (lambda: bearing.resolve(ROPE, True), TypeError, r"\[resolve\] seq_len: must be int, got True"),
        (lambda: bearing.resolve(ROPE, torch.tensor(True)), TypeError, r"\[resolve\] seq_len: must be int, got Tensor"),
        (lambda: bearing.shift(TABLE, True, ones(2, 8)), TypeError, r"\[shift\] by: must be int, got True"),
        (lambda: bearing.bias_matrix([], heads=True, q_len=1, k_len=1), TypeError, "heads: must be int, got True"),
        (
            lambda: bearing.bias_matrix([], heads=1, q_len=-1, k_len=1),
            bearing.RangeError,
            "q_len: must be at least 0",
        ),
        (lambda: bearing.Rope(head_dim=8, pairing="half", scaling=4.0), TypeError, r"\[Rope\] scaling: must be"),
        (
            lambda: bearing.Rope.from_dict(
                {"type": "Rope", "head_dim": 8, "pairing": "half", "scaling": {"type": "x"}}
            ),
            ValueError,
            "x",
        ),
        (lambda: bearing.apply_rope([1.0, 2.0]), TypeError, r"\[apply_rope\] x: must be an array"),
        (
            lambda: bearing.apply_rope(np.float32(1)),
            bearing.ShapeError,
            r"\[apply_rope\] x: must be an array of 1 to 4",
        ),
        (lambda: bearing.alibi_bias(4, 0), bearing.RangeError, "heads"),
    ],
)
def test_what_cannot_be_made_says_why(make: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        make()


def test_methods_of_one_class_refuse_objects_of_another() -> None:
    alibi, rope = bearing.Alibi.published(2), bearing.Rope(head_dim=8, pairing="half")
    with pytest.raises(TypeError, match=r"\[rows\] self: must be a BertRelative, got Alibi"):
        bearing.BertRelative.rows(alibi)
    with pytest.raises(TypeError, match=r"\[to_json\] self: must be a Rope, got Alibi"):
        bearing.Rope.to_json(alibi)
    with pytest.raises(TypeError, match=r"\[table\] self: must be an encoding with table, got AlibiBias"):
        bearing.T5Bias.table.fget(bearing.AlibiBias(alibi))
    objects = [alibi, rope, bearing.AlibiBias(alibi), TABLE, TABLE.frequencies, bearing.NoPosition()]
    called = 0
    for owner in [one for one in vars(bearing).values() if isinstance(one, type)]:
        for name, member in inspect.getmembers(owner):
            if name.startswith("__") and name not in ("__eq__", "__hash__", "__repr__", "__reduce__", "__copy__"):
                continue
            call = member.fget if isinstance(member, property) else member
            for given in objects if callable(call) else ():
                called += 1
                with contextlib.suppress(Exception):  # what is refused is refused; nothing may crash
                    call(given)
    assert called > 5_000


RANDOM_CALLS = '''
import inspect, random, sys
import numpy as np
import ml_dtypes
import torch
import jax.numpy as jnp
import bearing

random.seed(int(sys.argv[1]))
# What would fill the memory or the time when asked for in earnest, or changes the process for those after it.
public = [
    getattr(bearing, name)
    for name in bearing.__all__
    if name not in ("claims", "use_simd_target") and callable(getattr(bearing, name))
]

def array():
    shape = [random.choice([0, 1, 2, 3, 4, 8]) for _ in range(random.randrange(0, 6))]
    dtype = random.choice(["f4", "f4", "f4", "f8", "f2", "i8", "i4", "u1", "?", "c8", "O", ">f4", ml_dtypes.bfloat16])
    x = np.ones(shape, dtype)
    if x.ndim and random.random() < 0.3:
        x = x[..., ::-1]
    if x.ndim and random.random() < 0.2:
        x = np.broadcast_to(x[:1], x.shape) if x.shape[0] else x
    if random.random() < 0.1:
        x.flags.writeable = False
    if random.random() < 0.3 and x.dtype.kind == "f" and x.dtype.byteorder != ">":
        try:
            return random.choice([torch.tensor, jnp.asarray])(np.ascontiguousarray(x))
        except (TypeError, ValueError):
            pass
    return x


class Strange:
    """Has what arrays have, and none of it is right."""

    shape, dtype, ndim, requires_grad = (1, -2), "float32", 10**30, "yes"

    def __dlpack__(self, *args, **kwargs):
        return random.choice([None, 3, object()])

    def __dlpack_device__(self):
        return random.choice([None, (1, 0), (2, 0), ("cpu",), 7])

    def to_dict(self):
        return random.choice([None, [], {"model_type": self}])

    def __iter__(self):
        return iter([self])


kept = [bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 16)]
words = ["bhtd", "bthd", "half", "interleaved", "causal", "none", "float32", "float64", "rope", "alibi", "query", "", "\\0"]


def value():
    return random.choice([
        array, array, array, lambda: None, lambda: random.choice([-1, 0, 1, 2, 8, 2**31, -(2**63), 2**63, 10**30]),
        lambda: random.choice([0.0, -1.5, float("nan"), float("inf"), 1e308]), lambda: random.choice(words),
        lambda: random.choice(kept), lambda: random.choice(kept), lambda: random.choice(public), Strange,
        lambda: [value() for _ in range(random.randrange(3))], lambda: {random.choice(words): value()}, object,
        lambda: (1, 2), lambda: b"bytes", lambda: memoryview(b"12345678"), lambda: True,
    ])()


refused = taken = 0
names = ["positions", "positions", "layout", "threads", "mask", "dtype", "like", "side", "heads", "k_positions", "q_positions", "length",
         "head_dim", "dim", "pairing", "spec", "table", "encoding", "axes", "scaling", "base"]
for n in range(1000):
    function = random.choice(public)
    if random.random() < 0.3:
        owner = random.choice(kept)
        found = [getattr(type(owner), m) for m in dir(type(owner)) if not m.startswith("__") or m in ("__eq__", "__repr__")]
        found = [m for m in found if callable(m)]
        function = random.choice(found) if found else function
    args = [value() for _ in range(random.randrange(0, 6))]
    kwargs = {random.choice(names): value() for _ in range(random.randrange(0, 3))}
    try:
        result = function(*args, **kwargs)
        taken += 1
        if len(kept) < 200 and type(result).__module__.startswith("bearing"):
            kept.append(result)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, MemoryError, RuntimeError) as error:
        refused += 1
        if isinstance(error, RuntimeError) and type(error).__module__ == "builtins":
            assert str(error), function
print("alive", refused, taken)
'''


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_wrong_calls_never_crash(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", RANDOM_CALLS, str(seed)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    word, refused, _ = done.stdout.split()
    assert word == "alive" and int(refused) > 500
