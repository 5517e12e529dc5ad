"""Encodings as pytrees, and the plans that compiled programs know them by."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core
from . import tables
from .arrays import array_of, as_array, type_of
from .tables import HeldTable, held, keep


class Static(NamedTuple):
    """All of an encoding except its arrays: what makes two calls the same program. Tables are held by their numbers."""

    kind: type[_core.Encoding]
    arguments: tuple[tuple[str, Any], ...]
    parameters: tuple[str, ...]

    def made(self, arrays: Sequence[Any]) -> Any:
        """The encoding with these arrays."""
        given = {name: value.table if isinstance(value, HeldTable) else value for name, value in self.arguments}
        return self.kind(**given, **dict(zip(self.parameters, arrays, strict=True)))

    def kept(self) -> Static:
        """The same with the tables that are kept for compiled programs."""
        pairs = ((name, keep(value) if isinstance(value, HeldTable) else value) for name, value in self.arguments)
        return self._replace(arguments=tuple(pairs))


class Plan(NamedTuple):
    """The encodings of a call: the text that its handlers find them by, and their arrays one after the other."""

    text: str
    parameters: tuple[jax.Array, ...]


def register() -> None:
    """Makes every encoding a pytree, whose leaves are its arrays by name. Specs and tables become pytrees without
    leaves.
    """

    def children(encoding: Any) -> tuple[list[tuple[Any, Any]], Static]:
        keyed = [(jax.tree_util.GetAttrKey(name), array) for name, array in encoding.parameters.items()]
        return keyed, static_of(encoding)

    def build(static: Static, arrays: Sequence[Any]) -> Any:
        # A tree of which only the structure counts may have no leaves.
        return static.made([() if array is None else array for array in arrays])

    tables.register()
    for kind in vars(_core).values():
        if inspect.isclass(kind) and issubclass(kind, _core.Encoding) and kind is not _core.Encoding:
            jax.tree_util.register_pytree_with_keys(kind, children, build)
        elif inspect.isclass(kind) and (hasattr(kind, "replace") or kind is _core.RopeFrequencies):
            jax.tree_util.register_static(kind)


def static_of(encoding: Any) -> Static:
    parameters = encoding.parameters
    arguments = tuple(
        (name, held(value) if isinstance(value, tables.KINDS) else value)
        for name, value in encoding.arguments.items()
        if name not in parameters
    )
    return Static(type(encoding), arguments, tuple(parameters))


def arithmetic_of(dtype: Any) -> Any:
    return jnp.float64 if dtype == jnp.float64 else jnp.float32


def turned_dim(encodings: Any, dim: int) -> int:
    """How long rows of `dim` are after the encodings have turned them."""
    for encoding in listed(encodings):
        if isinstance(encoding, _ROTARY):  # whose rows keep their length
            continue
        dim = _core._out_dim(type(encoding).__name__, encoding.spec, dim)
    return dim


def listed(encodings: Any) -> Sequence[Any]:
    """One encoding, a list or tuple of them, or None."""
    if encodings is None:
        return ()
    return encodings if isinstance(encodings, (list, tuple)) else (encodings,)


_ROTARY = (_core.Rope, _core.RopeTable)


def _encoding_of(function: str, given: Any, dtype: Any) -> Any:
    """An encoding as it is; RotaryRows of a table, or of a Rope whose frequencies are the same at every length."""
    if isinstance(given, _core.Encoding):
        return given
    if isinstance(given, _core.RopeTable):
        return _core.RotaryRows(given)
    if isinstance(given, _core.Rope) and not _core.depends_on_length(given.scaling):
        return _core.RotaryRows(tables.table_of(given, jnp.dtype(arithmetic_of(dtype)).name))
    made = "; RotaryRows(RopeTable(rope, length, seq_len=…)) makes an encoding of it"
    hint = made if isinstance(given, _core.Rope) else ""
    raise TypeError(f"[{function}] encodings: must be encodings, got {given!r}{hint}")


def plan_of(function: str, encodings: Any, dtype: Any) -> Plan:
    """The plan of a call whose arrays have a type."""
    encodings = [_encoding_of(function, one, dtype) for one in listed(encodings)]
    if len(encodings) > 8:
        raise TypeError(f"[{function}] encodings: must be at most 8 encodings, got {len(encodings)}")
    arrays = []
    for encoding in encodings:
        parameters = encoding.parameters
        for name, fewest, most in _core._jax_parameters(encoding):
            if name not in parameters:
                continue
            array = as_array(function, name, parameters[name])
            if not jnp.issubdtype(array.dtype, jnp.floating):
                raise TypeError(f"[{function}] {name}: must be an array of real numbers, got {array.dtype}")
            if not fewest <= array.ndim <= most:
                axes = f"{most} {'axis' if most == 1 else 'axes'}" if fewest == most else f"{fewest} to {most} axes"
                raise _core.ShapeError(
                    f"[{function}] {name}: must be an array of {axes}, got shape {list(array.shape)}"
                )
            arrays.append(array.astype(arithmetic_of(dtype)))
    return Plan(_register(tuple(static_of(encoding) for encoding in encodings)), tuple(arrays))


def wished_type(function: str, dtype: Any, encodings: Any) -> Any:
    """The type of a result that no array tells: dtype, or else that of the first parameter, or float32 without any."""
    if dtype is not None:
        return type_of(function, dtype)
    for one in listed(encodings):
        for value in one.parameters.values() if isinstance(one, _core.Encoding) else ():
            return array_of(function, "encodings", value).dtype
    return jnp.dtype(jnp.float32)


def check_encodings(
    function: str, plan: Plan, dtype: Any, q_positions: Any = None, k_positions: Any = None, **extents: int
) -> None:
    """Raises what shapes tell of a call's encodings while it is traced. What numbers tell is raised when it runs.

    extents: batch, heads, kv_heads, q_len, k_len, dim, value_dim, and masked, 0 where no key is hidden; those that do not
    matter may be left out.
    """
    shapes = tuple(one.shape for one in plan.parameters)
    _check_shapes(function, plan.text, shapes, dtype, q_positions, k_positions, extents)


def _check_shapes(
    function: str, text: str, shapes: Any, dtype: Any, q_positions: Any, k_positions: Any, extents: dict[str, int]
) -> None:
    asked = {"batch": 1, "heads": 1, "kv_heads": 1, "q_len": 0, "k_len": 0, "dim": 0, "value_dim": 0} | extents
    masked = asked.pop("masked", 1)
    axes = [at.shape[0] if at is not None and at.ndim == 3 else 0 for at in (q_positions, k_positions)]
    if all(isinstance(n, int) for shape in (*shapes, asked.values()) for n in shape):  # not symbols of a jax.export
        _check(function, text, dtype == jnp.float64, shapes, (*asked.values(), *axes, masked))


@functools.lru_cache(maxsize=4096)
def _check(*asked: Any) -> None:
    _core._jax_check(*asked)


@functools.cache
def xpos_text(xpos: _core.Xpos, dtype: str) -> str:
    """The text of the table that moves xPos' keys, registered; RangeError for keys that cannot be moved."""
    _core.rebase(xpos, None, None, np.empty((0, xpos.rope.head_dim)))  # refuses what cannot be moved
    text = f"XposTable:{xpos!r}:{dtype}:moves"
    _core._jax_add_table(text, _core.XposTable(xpos.replace(centre=0.0), 0, dtype=dtype).k)
    return text


@functools.cache
def frequencies_text(before: _core.RopeFrequencies, after: _core.RopeFrequencies) -> str:
    """The text of the frequencies that keys are moved from and to, registered; ShapeError if they do not fit."""
    _core.rebase(before, None, after, None, np.empty((0, before.head_dim)))
    digest = hashlib.sha256(f"{before.to_dict()} {after.to_dict()}".encode())
    text = "RopeFrequencies:" + digest.hexdigest()
    _core._jax_add_frequencies(text, before, after)
    return text


_extents_of_plans: dict[str, tuple[Sequence[str], ...]] = {}


def parameter_axes(plan: str, parameters: Sequence[jax.Array], heads: str = "h") -> list[str]:
    """What may be cut in a call's parameters (see shards): as many letters as each has axes. Axes go with the batch, or
    with heads, whose letter may be that of the keys' heads; others are whole wherever a call runs.
    """
    letters = {"heads": heads, "batch": "b"}
    texts = ["".join(letters.get(name, ".") for name in extents) for extents in _extents_of_plans[plan]]
    pairs = zip(texts, parameters, strict=True)
    return [text.rjust(array.ndim, ".")[-array.ndim or None :] for text, array in pairs]


def serving(
    function: str,
    plan: str,
    parameters: Sequence[jax.Array],
    dtype: Any,
    q_positions: Any = None,
    k_positions: Any = None,
    **extents: int,
) -> Callable[[dict[str, int]], bool]:
    """Whether a call's encodings serve pieces of it: those with fixed heads, or sequences, refuse fewer."""
    axes = parameter_axes(plan, parameters)
    shapes = [one.shape for one in parameters]

    def serves(pieces: dict[str, int]) -> bool:
        def cut(n: int, letter: str) -> int:
            return n if n == 1 else n // pieces.get(letter, 1)

        own = {"batch": "b", "heads": "h", "kv_heads": "h", "q_len": "t"}
        local = {name: cut(n, own.get(name, ".")) for name, n in extents.items()}
        pairs = zip(shapes, axes, strict=True)
        parts = tuple(tuple(cut(n, letter) for n, letter in zip(shape, text, strict=True)) for shape, text in pairs)
        try:
            _check_shapes(function, plan, parts, dtype, q_positions, k_positions, local)
        except ValueError:
            return False
        return True

    return serves


# Handlers point to these encodings for as long as the process lives. They have no arrays.
_kept: list[Any] = []
_texts: dict[tuple[Static, ...], str] = {}


def _register(statics: tuple[Static, ...]) -> str:
    text = _texts.get(statics)
    return _register_first(tuple(static.kept() for static in statics)) if text is None else text


def _register_first(statics: tuple[Static, ...]) -> str:
    text = "[" + ", ".join(_text(static) for static in statics) + "]"
    bare = [static.made([()] * len(static.parameters)) for static in statics]
    _kept.append(bare)
    _extents_of_plans[text] = tuple(_extents_of(s.kind.__name__, name) for s in statics for name in s.parameters)
    _core._jax_add_encodings(text, bare)
    _texts[statics] = text
    return text


def _extents_of(kind: str, parameter: str) -> Sequence[str]:
    extents: Sequence[str] = _core._traits(kind)["parameters"][parameter]["extents"]
    return extents


def _text(static: Static) -> str:
    given = [(name, value) for name, value in static.arguments if value is not None]
    arguments = [f"{name}={value.text if isinstance(value, HeldTable) else repr(value)}" for name, value in given]
    return f"{static.kind.__name__}({', '.join([*arguments, *static.parameters])})"
