"""Every kind of array that somebody may hand over, in every argument that takes one: right, or refused by name.

The calls are those of test_error_names.py, which has every public function: the next one is covered without a line.
"""

from __future__ import annotations

import copy
import ctypes
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import bearing as b
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from test_error_names import CALLS, DIM, HEADS, MADE_OF, TIME, Call, rows
from torch._subclasses.fake_tensor import FakeTensorMode

NOT_READ = {"like"}  # only its kind and type are asked
KEEPS_GRADIENTS = {("apply_rope", "x")}


class Unfit(Exception):
    """A kind that arrays like this cannot have."""


class Kind(NamedTuple):
    """What an array becomes. refused: what the error says; None: it is taken, with the result of the same numbers in a
    plain array, or refused where that is refused too or for its type, order or layout."""

    name: str
    make: Callable[[np.ndarray], Any]
    refused: str | None = None


class Exporter:
    """Has nothing but DLPack."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


class OwnArray(np.ndarray):
    pass


class OwnTensor(torch.Tensor):
    pass


def floats(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iuf":
        raise Unfit
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def whole(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "i":
        raise Unfit
    return x


def real(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "f":
        raise Unfit
    return x


def tensor(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.copy())


def without_storage(x: np.ndarray, kept: int = 0) -> torch.Tensor:
    if x.size == 0:
        raise Unfit
    gone = torch.empty(x.shape, dtype=tensor(x).dtype).copy_(tensor(x))
    gone.untyped_storage().resize_(kept * x.nbytes // (2 * x.size))
    return gone


def view_without_storage(x: np.ndarray) -> torch.Tensor:
    gone = torch.cat([tensor(x).flatten(), tensor(x).flatten()])
    view = gone[x.size :].view(x.shape)
    gone.untyped_storage().resize_(0)
    return view


def negated(x: np.ndarray) -> torch.Tensor:
    view = torch.complex(torch.zeros(x.shape, dtype=tensor(floats(x)).dtype), -tensor(floats(x))).conj().imag
    assert view.is_neg() and np.array_equal(view.resolve_neg().numpy(), x)
    return view


def masked(x: np.ndarray) -> np.ma.MaskedArray:
    made = np.ma.masked_array(x.copy())
    made[(0,) * x.ndim] = np.ma.masked
    return made


def unaligned(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape)


def field(x: np.ndarray) -> np.ndarray:
    record = np.zeros(x.shape, [("x", x.dtype), ("flag", "u1")])
    record["x"] = x
    return record["x"]


def jax_array(x: np.ndarray) -> jax.Array:
    made = jnp.asarray(x)
    if x.dtype.kind == "f" and made.dtype != x.dtype:  # without float64 JAX rounds
        raise Unfit
    return made


def deleted(x: np.ndarray) -> jax.Array:
    made = jnp.asarray(x)
    made.delete()
    return made


def quantised(x: np.ndarray) -> torch.Tensor:
    return torch.quantize_per_tensor(tensor(real(x)).float(), 0.1, 0, torch.qint8)


def ctypes_array(x: np.ndarray) -> Any:
    if x.ndim == 0 or x.dtype == np.float16:
        raise Unfit
    return np.ctypeslib.as_ctypes(x.copy())


def frozen(x: np.ndarray) -> np.ndarray:
    made = x.copy()
    made.flags.writeable = False
    return made


KINDS = [
    Kind("torch", tensor),
    Kind("torch, strided", lambda x: torch.stack([tensor(x), tensor(x)], -1)[..., 0]),
    Kind("torch, a parameter", lambda x: torch.nn.Parameter(tensor(x), requires_grad=False)),
    Kind("torch, a class of one's own", lambda x: tensor(x).as_subclass(OwnTensor)),
    Kind("jax", jax_array),
    Kind("DLPack alone", lambda x: Exporter(x.copy())),
    Kind("ctypes", ctypes_array),
    Kind("memoryview", lambda x: memoryview(x.copy())),
    Kind("memoryview of ctypes", lambda x: memoryview(ctypes_array(x))),
    Kind("list", lambda x: x.tolist()),
    Kind("a class of one's own", lambda x: x.copy().view(OwnArray)),
    Kind("masked, nothing hidden", lambda x: np.ma.masked_array(x.copy())),
    Kind("read-only", frozen),
    Kind("reversed", lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1]),
    Kind("Fortran's order", np.asfortranarray),
    Kind("big-endian", lambda x: x.astype(x.dtype.newbyteorder(">"))),
    Kind("unaligned", unaligned),
    Kind("a record's field", field),
    Kind("objects", lambda x: x.astype(object)),
    Kind("float128", lambda x: floats(x).astype(np.longdouble)),
    Kind("int32", lambda x: whole(x).astype(np.int32)),
    Kind("masked", masked, "without masked elements"),
    Kind("datetime64", lambda x: x.astype(np.int64).view("M8[s]"), "datetime64"),
    Kind("one datetime64", lambda x: np.datetime64(1, "s"), "datetime64|got shape \\[\\]"),
    Kind("one timedelta64", lambda x: np.timedelta64(1, "s"), "timedelta64|got shape \\[\\]"),
    Kind("records", lambda x: np.zeros(x.shape, "i4,f4"), ""),
    Kind("storage freed", without_storage, "storage"),
    Kind("storage cut", lambda x: without_storage(x, kept=1), "storage"),
    Kind("view of freed storage", view_without_storage, "storage"),
    Kind("negated", negated, "resolve_neg"),
    Kind("conjugated", lambda x: torch.complex(tensor(floats(x)), -tensor(floats(x))).conj(), r"complex|j\)"),
    Kind("requires_grad", lambda x: tensor(real(x)).requires_grad_(), "requires_grad"),
    Kind("fake", lambda x: FakeTensorMode().from_tensor(tensor(x)), "FakeTensor"),
    Kind("meta", lambda x: tensor(x).to("meta"), "meta"),
    Kind("sparse", lambda x: tensor(x).to_sparse(), "sparse"),
    Kind("nested", lambda x: torch.nested.nested_tensor([tensor(real(x))]), "torch"),
    Kind("quantised", quantised, "qint8"),
    Kind("float8", lambda x: tensor(real(x)).to(torch.float8_e4m3fn), "float8"),
    Kind("deleted by JAX", deleted, "ArrayImpl"),
]  # fmt: skip


class Place(NamedTuple):
    """An array of a call: where it is, what errors call it, and the call's arguments with another one there."""

    name: str
    array: np.ndarray
    put: Callable[[dict[str, Any], Any], dict[str, Any]]


def parameter_of(encoding: Any, name: str) -> str:
    """What errors call a parameter: T5.table."""
    owner = type(encoding).__name__
    return rf"{re.sub('(Inputs|Rows|Bias|Term)$', '', owner)}\w*\.{name}"


def places(call: Call) -> Iterator[Place]:
    for argument, value in call.arguments.items():
        if isinstance(value, np.ndarray) and argument not in NOT_READ:
            yield Place(argument, value, lambda all_of_them, x, argument=argument: all_of_them | {argument: x})
        several = value if isinstance(value, list) else [value]
        for i, one in enumerate(several):
            for name, array in (one.parameters if isinstance(one, b.Encoding) else {}).items():

                def put(
                    all_of_them: dict[str, Any], x: Any, argument: str = argument, i: int = i, name: str = name
                ) -> dict[str, Any]:
                    old = all_of_them[argument]
                    new = list(old) if isinstance(old, list) else [old]
                    new[i] = new[i].replace(**{name: x})
                    return all_of_them | {argument: new if isinstance(old, list) else new[0]}

                yield Place(parameter_of(one, name), array, put)
        for i, one in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(one, np.ndarray):

                def put_one(
                    all_of_them: dict[str, Any], x: Any, argument: str = argument, i: int = i
                ) -> dict[str, Any]:
                    pair = all_of_them[argument]
                    return all_of_them | {argument: (*pair[:i], x, *pair[i + 1 :])}

                yield Place(argument, one, put_one)


def plain(result: Any) -> Any:
    """A result as NumPy's arrays and what they lie in."""
    if isinstance(result, Exporter):
        result = result.x
    if isinstance(result, torch.Tensor):
        result = result.detach().resolve_neg()
    if isinstance(result, (tuple, list)):
        return [plain(one) for one in result]
    if isinstance(result, dict):
        return {name: plain(one) for name, one in result.items()}
    return np.asarray(result)


def same(a: Any, c: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(c) and all(map(same, a, c))
    if isinstance(a, dict):
        return a.keys() == c.keys() and all(same(a[name], c[name]) for name in a)
    return a.shape == c.shape and (np.array_equal(a, c, equal_nan=True) if a.dtype.kind in "fc" else (a == c).all())


def done(call: Call, place: Place, x: Any) -> Any:
    """The result of the call with x there, and x after it."""
    arguments = place.put(copy.deepcopy(call.arguments), x)
    result = operator.attrgetter(call.name)(b)(**arguments)
    if isinstance(result, b.RopeTable):
        result = result.cos, result.sin
    return plain((result, x)) if place.name in call.arguments else plain(result)


def refusal(call: Call, place: Place, x: Any) -> str:
    try:
        done(call, place, x)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def named(call: Call, place: Place, text: str) -> bool:
    functions = "|".join({call.name} | MADE_OF.get(call.name, {call.name.replace(".", "::"), call.name.split(".")[-1]}))
    if "." in place.name and re.match(rf"\[\w+\] {place.name.split('.')[-1]}: ", text):
        return True  # of the encoding, when it is made
    return re.match(rf"\[({functions})\] ({place.name}|\w+\.{place.name}): ", text) is not None


def more_calls() -> Iterator[Call]:
    """Arrays that are no arguments of a function: in pairs, of a static method, members of specs."""
    state = (rows(1, HEADS, DIM, DIM), rows(1, HEADS, DIM))
    linear = {"q": rows(), "k": rows(), "v": rows(), "mask": "none", "feature_map": "elu_plus_one"}
    yield Call("linear_attention", linear | {"state": state})
    yield Call("linear_attention", linear | {"state": state, "return_state": True})
    yield Call("linear_attention_backward", linear | {"d_out": rows(), "start": state, "d_state": state})
    rope = b.Rope(head_dim=DIM, pairing="half")
    yield Call("RopeTable.from_cos_sin", {"rope": rope, "cos": rows(4, DIM // 2), "sin": rows(4, DIM // 2)})
    yield Call("Alibi", {"slopes": rows(HEADS)})
    yield Call("ExplicitFrequencies", {"inv_freq": rows(DIM // 2)})
    yield Call("LongRopeScaling", {"short_factor": rows(DIM // 2), "long_factor": rows(DIM // 2)})


ARRAYS = [call for call in (*CALLS, *more_calls()) if any(True for _ in places(call))]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_array_of_any_kind_is_taken_rightly_or_refused_by_name(kind: Kind) -> None:
    taken = refused = 0
    for call in ARRAYS:
        for place in places(call):
            try:
                x = kind.make(place.array)
            except Unfit:
                continue
            where = (kind.name, call.name, place.name)
            if kind.refused is None:
                # In its own type where that counts: numbers are the same, roundings may differ.
                text = refusal(call, place, x)
                if text:
                    refused += 1
                    assert named(call, place, text), (*where, text)
                else:
                    taken += 1
                    usual = done(call, place, np.array(place.array))
                    assert same(done(call, place, kind.make(place.array)), usual), where
            elif kind.name == "requires_grad" and (call.name, place.name) in KEEPS_GRADIENTS:
                assert refusal(call, place, x) == ""
            else:
                refused += 1
                text = refusal(call, place, x)
                assert named(call, place, text) and re.search(kind.refused, text), (*where, text)
    assert refused + taken > 10


def test_a_broadcast_array_counts_as_its_copy_and_is_never_written() -> None:
    for call in ARRAYS:
        for place in places(call):
            if place.array.ndim == 0 or place.array.shape[0] == 0:
                continue
            x = np.broadcast_to(place.array[:1], place.array.shape)
            text = refusal(call, place, x)
            try:
                usual = done(call, place, x.copy())
            except ValueError:  # starts that do not rise
                assert text
                continue
            if text:
                assert named(call, place, text), (call.name, place.name, text)
            else:
                assert same(done(call, place, x), usual), (call.name, place.name)


@pytest.mark.parametrize("how", ["vmap", "grad", "jit"])
def test_what_a_transformation_hands_over_is_refused_by_name(how: str) -> None:
    for call in ARRAYS:
        for place in places(call):
            if place.array.dtype.kind != "f" or call.name == "apply_rope":
                continue
            found = []

            def ask(x: Any, call: Call = call, place: Place = place, found: list[str] = found) -> Any:
                found.append(refusal(call, place, x))
                return x.sum()

            if how == "vmap":
                torch.func.vmap(ask)(tensor(place.array)[None])
            elif how == "grad":
                torch.func.grad(ask)(tensor(place.array))
            else:
                jax.jit(ask)(place.array)
            (text,) = found
            assert named(call, place, text), (call.name, place.name, text)


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "uint8", "uint32", "uint64", "float32", "int64", "float64"]
)
def test_positions_of_a_wrong_shape_are_refused_at_once_however_large_they_say_they_are(dtype: str) -> None:
    """Of 2^40 rows one alone lies in memory: copying them all would take a minute and more memory than there is."""
    x = rows()
    table = b.RopeTable(b.Rope(head_dim=x.shape[-1], pairing="half"), 16)
    wide = np.broadcast_to(np.arange(TIME, dtype=dtype), (2**40, TIME))
    with pytest.raises(b.ShapeError, match=r"\[rotate_to\] positions: must have 1 sequence, got 1099511627776"):
        b.rotate_to(table, x, wide)
    overlapping = np.lib.stride_tricks.sliding_window_view(np.arange(2**16, dtype=dtype), 2**15)
    with pytest.raises(b.ShapeError, match=r"\[rotate_to\] positions: must have"):
        b.rotate_to(table, x, overlapping)
    np.testing.assert_array_equal(
        b.rotate_to(table, x, np.lib.stride_tricks.sliding_window_view(np.arange(TIME, dtype=dtype), TIME)),
        b.rotate_to(table, x, 0),
    )
    with pytest.raises((b.ShapeError, TypeError), match=r"k_lengths"):
        b.attention(x, x, x, mask="none", k_lengths=np.broadcast_to(np.ones((), dtype), (2**40,)))


class Elsewhere:
    """Says by DLPack that it lies on a device; its memory is NumPy's, which a test may see unwritten."""

    def __init__(self, x: np.ndarray, kind: int, index: int = 0) -> None:
        class Contents(ctypes.Structure):  # DLManagedTensor, of DLPack 0.8
            _fields_ = [
                ("data", ctypes.c_void_p),
                ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64),
                ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p),
            ]

        code = {"i": 0, "f": 2}[x.dtype.kind]
        self.x, self.shape = x, (ctypes.c_int64 * x.ndim)(*x.shape)
        self.device, self.dtype = (kind, index), x.dtype
        self.contents = Contents(x.ctypes.data, kind, index, x.ndim, code, x.itemsize * 8, 1, self.shape)

    def __dlpack__(self, **options: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.contents), b"dltensor", None)

    def __dlpack_device__(self) -> Any:
        return self.device


@pytest.mark.parametrize(("kind", "device"), [(2, "cuda:1"), (10, "rocm:1"), (8, "metal:1"), (99, "device:1")])
def test_an_array_on_another_device_is_refused_as_a_view_of_it_is(kind: int, device: str) -> None:
    table = b.RopeTable(b.Rope(head_dim=8, pairing="half"), 16)
    x, at = np.ones((3, 8), np.float32), np.arange(3)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("[rotate] x", lambda: b.rotate(table, Elsewhere(x, kind, 1))),
        ("[rotate] positions", lambda: b.rotate(table, x, positions=Elsewhere(at, kind, 1))),
        ("[attention] k", lambda: b.attention(x, Elsewhere(x, kind, 1), x, mask="none")),
        ("[attention] k_lengths", lambda: b.attention(x, x, x, mask="none", k_lengths=Elsewhere(at, kind, 1))),
    ]
    for argument, call in calls:
        with pytest.raises(
            TypeError, match="^" + re.escape(f"{argument}: must lie in host memory, got memory on {device}")
        ):
            call()
    assert np.array_equal(x, np.ones_like(x))


def test_memory_of_the_host_that_is_pinned_for_a_device_is_taken() -> None:
    table = b.RopeTable(b.Rope(head_dim=8, pairing="half"), 16)
    x = np.random.default_rng(0).standard_normal((3, 8), np.float32)
    wanted = x.copy()
    b.rotate(table, wanted)
    for kind in (1, 3, 11):  # the host's, CUDA's and ROCm's
        turned = x.copy()
        b.rotate(table, Elsewhere(turned, kind))
        assert np.array_equal(turned, wanted)


def test_an_empty_tensor_has_been_given() -> None:
    x = rows()
    for empty in (np.empty(0, np.float32), torch.empty(0)):
        with pytest.raises(b.ShapeError, match=r"\[attention\] sinks: "):
            b.attention(x, x, x, mask="none", sinks=empty)
    out, lse = b.attention(x, x, x, mask="none", return_lse=True)
    for nothing in (np.empty((0, 2, 3), np.float32), torch.empty(0, 2, 3)):
        with pytest.raises(b.ShapeError, match=r"\[attention_backward\] d_lse: "):
            b.attention_backward(x, x, x, out, lse, out, mask="none", d_lse=nothing)


def test_a_table_freed_after_its_encoding_took_it_is_refused_at_the_next_call() -> None:
    table = torch.randn(65536, 512)
    encoding = b.LearnedInputs(b.Learned(length=65536, dim=512), table)
    b.inputs(encoding, time=4)
    table.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match=r"\[inputs\] Learned.table: must be a tensor whose storage holds it"):
        b.inputs(encoding, time=65536)
