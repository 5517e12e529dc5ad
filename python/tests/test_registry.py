"""What the library describes, as Python has it: every spec, function and encoding, without a line for any of them."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import zlib
from typing import Any

import bearing
import numpy as np
import pytest
from bearing import _core
from patches import of_a_video, on_two_axes
from support import described_specs, made

SPECS = described_specs()
ENCODINGS = [
    kind
    for kind in vars(bearing).values()
    if isinstance(kind, type) and issubclass(kind, bearing.Encoding) and kind is not bearing.Encoding
]
HEADS, TIME, DIM = 4, 4, 8
SIZES = {"batch": 1, "heads": HEADS, "kv_heads": HEADS, "q_len": TIME, "k_len": TIME, "dim": DIM, "value_dim": DIM}

each_spec = pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
each_encoding = pytest.mark.parametrize("kind", ENCODINGS, ids=lambda kind: kind.__name__)


def numbers(kind: str, spec: Any) -> dict[str, np.ndarray]:
    """A parameter's numbers where training starts."""
    found = {}
    for name, info in _core._traits(kind)["parameters"].items():
        sizes = zip(info["extents"], _core._extents(kind, spec, name, SIZES), strict=True)
        others = {"sets": HEADS, "offsets": 2 * TIME, "time": TIME}
        shape = [others.get(extent, TIME + 1) if size is None else size for extent, size in sizes]
        if info["indices"]:
            found[name] = np.zeros(shape, np.int64)
        else:
            found[name] = _core._start(kind, spec, name, shape, zlib.crc32(name.encode()))
    return found


def ways(kind: str, spec: Any) -> list[dict[str, Any]]:
    """The arguments of an encoding with all of its parameters, and with those alone that must be given."""
    given, all_of_them = {} if spec is None else {"spec": spec}, numbers(kind, spec)
    optional = {name for name, info in _core._traits(kind)["parameters"].items() if info["optional"]}
    first = [name for name in optional if name in ("index", "slopes")]  # one of which must be there
    sets = [all_of_them, {n: x for n, x in all_of_them.items() if n not in optional}]
    sets += [{n: x for n, x in all_of_them.items() if n not in optional or n in first}]
    return [given | one for one in sets]


def served(kind: str, spec: Any, call: Any) -> list[Any]:
    """What those ways give that the encoding serves: at least one."""
    found = []
    for arguments in ways(kind, spec):
        try:
            found.append(call(getattr(bearing, kind)(**arguments)))
        except bearing.ShapeError as error:
            refused = error
    if not found:
        raise refused
    return found


def test_the_registry_is_not_empty():
    assert len(SPECS) > 30 and len(ENCODINGS) > 25


@each_spec
def test_every_member_method_and_constant_of_a_spec_has_a_text(kind):
    assert len(kind.__doc__) > 20
    for name, member in vars(kind).items():
        if not name.startswith("_"):
            text = kind.__doc__ if isinstance(member, (int, float)) else member.__doc__
            assert text and (not isinstance(member, (int, float)) or f"{name}:" in text), name


@each_spec
def test_a_spec_goes_everywhere_and_back(kind):
    spec = made(kind)
    assert kind.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert eval(repr(spec), vars(bearing)) == spec
    assert copy.copy(spec) is spec and spec.replace() == spec and hash(spec.replace()) == hash(spec)


@each_spec
def test_a_spec_refuses_what_is_no_member(kind):
    with pytest.raises(AttributeError):
        made(kind).height_and_width = 1
    with pytest.raises(TypeError, match="has no height_and_width; it has "):
        made(kind).replace(height_and_width=1)


@each_encoding
def test_every_parameter_of_an_encoding_has_a_text(kind):
    for name in inspect.signature(kind).parameters:
        assert name in ("spec", "table", "scale") or f"{name}:" in kind.__doc__, name
        if name in _core._traits(kind.__name__)["parameters"]:
            assert f"\n{name}: " in kind.__doc__, name


@pytest.mark.parametrize(("name", "kind", "spec"), _core._named(HEADS, DIM, TIME), ids=lambda one: str(one)[:24])
def test_every_encoding_is_made_from_its_start_and_called(name, kind, spec):
    assert name in {entry.name for entry in bearing.catalog()}
    traits = _core._traits(kind)
    if hasattr(spec, "first_offset"):
        spec = spec.replace(first_offset=1 - TIME)
    on_grid = on_two_axes(name, spec, HEADS, DIM, TIME)
    patches = np.array([[[0, 0, 1, 1]], [[0, 1, 0, 1]]])
    at = patches if on_grid else None
    if of_a_video(spec):
        at = np.concatenate([np.zeros_like(patches[:1]), patches])
    q, k, v = np.random.default_rng(3).standard_normal((3, 1, HEADS, TIME, DIM))

    def call(encoding: Any) -> np.ndarray:
        if traits["inputs"]:
            return bearing.add(encoding, np.zeros((1, TIME, DIM)), at)
        if traits["rows"]:
            assert bearing.turn(encoding, q, at, side="query").shape[-1] == _core._out_dim(kind, spec, DIM)
        return bearing.attention(q, k, v, [encoding], q_positions=at, k_positions=at, mask="causal")

    if kind in ("RotaryRows", "RotaryValues", "XposRows"):
        if kind == "XposRows":
            table = bearing.XposTable(spec, TIME, dtype="float64")
        else:
            table = bearing.RopeTable(spec, TIME, dtype="float64", seq_len=TIME)
        found = [call(getattr(bearing, kind)(table))]
    else:
        found = served(kind, spec, call)
    assert all(np.isfinite(one).all() for one in found)


def test_functions_refuse_arguments_by_name():
    t5 = bearing.T5(direction="causal")
    with pytest.raises(TypeError, match=r"^\[t5_bucket\] distance: must be int, got 1.5$"):
        bearing.t5_bucket(t5, 1.5)
    with pytest.raises(TypeError, match=r"^\[t5_bucket\] spec: must be T5, got 3$"):
        bearing.t5_bucket(3, 1)
    with pytest.raises(TypeError, match=r"^\[t5_bucket\] has no argument at; it takes \(spec, distance\)$"):
        bearing.t5_bucket(t5, at=1)
    with pytest.raises(TypeError, match=r"^\[t5_bucket\] distance: must be given, got None$"):
        bearing.t5_bucket(t5)
