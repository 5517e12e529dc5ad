"""How devices share a call: which axes are independent of each other, and what must be added up.

Every array of a call has a text with one letter per axis. Axes with the same letter are cut into the same pieces, one
per
device: ``b`` batch, ``h`` heads, ``k`` heads of keys (cut as h is), ``t`` tokens if they are independent, digits for
axes that vmap maps. An axis ``.`` is whole on every device.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Spec = tuple[tuple[str, ...], ...]
"""The mesh axes that each axis of an array is cut along."""


class Axes(NamedTuple):
    """What may be cut in a call: a text per array and per result."""

    arrays: tuple[str, ...]
    results: tuple[str, ...]
    serves: Callable[[dict[str, int]], bool] | None = None
    """Whether the call's encodings serve pieces of which there are so many per letter."""
    sums: bool = False
    """Results are gradients: where the call is cut along what a result has not, it is the sum of all pieces' results."""

    def of(self, arrays: Sequence[Any], shapes: Sequence[Any]) -> Axes:
        """Without those of extent 1, which serve all pieces."""

        def longer(text: str, one: Any) -> str:
            return "".join("." if n == 1 else letter for letter, n in zip(text, one.shape, strict=True))

        return self._replace(
            arrays=tuple(map(longer, self.arrays, arrays)), results=tuple(map(longer, self.results, shapes))
        )

    def mapped(self, in_batched: Sequence[bool]) -> Axes:
        """With an axis in front that vmap maps; arrays that are shared have it with extent 1."""
        letter = str(sum(one.isdigit() for one in self.results[0]))
        arrays = tuple((letter if one else ".") + text for one, text in zip(in_batched, self.arrays, strict=True))
        return self._replace(arrays=arrays, results=tuple(letter + text for text in self.results))


def varying_of(array: Any) -> frozenset[str]:
    """The manual axes of jax.shard_map along which an array varies."""
    kind = jax.typeof(array) if hasattr(jax, "typeof") else None
    kind = getattr(kind, "manual_axis_type", kind)
    return getattr(kind, "varying", getattr(kind, "vma", frozenset()))


def as_varying(arrays: Any, along: frozenset[str] | None = None) -> Any:
    """Arrays that all vary along the axes that one of them varies along, or along these.

    Its transpose is the sum: gradients of what is the same on all devices are added up.
    """
    if along is None:
        along = frozenset().union(*(varying_of(one) for one in jax.tree.leaves(arrays)))

    def vary(array: Any) -> Any:
        axes = tuple(sorted(along - varying_of(array)))
        if not axes:
            return array
        return jax.lax.pcast(array, axes, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(array, axes)

    return jax.tree.map(vary, arrays) if along else arrays


def explicit_sharding(array: Any) -> NamedSharding | None:
    """How the type of an array says that it is cut, or None."""
    sharding = getattr(jax.typeof(array), "sharding", None) if hasattr(jax, "typeof") else None
    if not isinstance(sharding, NamedSharding) or not _explicit_axes(sharding.mesh):
        return None
    return sharding


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Types:
    """How the types of a call's arguments say that they are cut, in the order of their leaves."""

    shardings: tuple[tuple[NamedSharding | None, ...], ...]


def types_of(arguments: Sequence[Any]) -> Types:
    return Types(tuple(tuple(explicit_sharding(leaf) for leaf in jax.tree.leaves(one)) for one in arguments))


def as_given(gradients: Sequence[Any], types: Types) -> tuple[Any, ...]:
    """Gradients cut as arguments are."""

    def cut(gradient: Any, shardings: tuple[NamedSharding | None, ...]) -> Any:
        leaves, tree = jax.tree.flatten(gradient)
        given = [
            leaf if sharding is None else jax.sharding.reshard(leaf, sharding)
            for leaf, sharding in zip(leaves, shardings, strict=False)  # positions have no gradients
        ]
        return tree.unflatten(given)

    return tuple(cut(one, shardings) for one, shardings in zip(gradients, types.shardings, strict=True))


def _explicit_axes(mesh: Any) -> set[str]:
    kinds = zip(mesh.axis_names, getattr(mesh, "axis_types", ()) or (), strict=False)
    return {name for name, kind in kinds if kind == jax.sharding.AxisType.Explicit}


def run(call: Callable[..., Any], axes: Axes, shapes: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """call(shapes of results, arrays), each device's piece of it on that device. shapes: of the whole results."""
    axes = axes.of(arrays, shapes)
    known = all(isinstance(n, int) for one in (*arrays, *shapes) for n in one.shape)  # no symbols of a jax.export
    if not known or not any(letter != "." for text in axes.arrays for letter in text) or _devices() == 1:
        return call(shapes, arrays)
    shardings = [explicit_sharding(array) for array in arrays]
    mesh = next((one.mesh for one in shardings if one is not None), None)
    if mesh is not None:
        return _run_explicit(call, axes, shapes, arrays, mesh)
    current = jax.sharding.get_abstract_mesh() if hasattr(jax.sharding, "get_abstract_mesh") else None
    if current is not None and current.axis_names and not getattr(current, "auto_axes", True):
        return call(shapes, arrays)  # all of its axes are manual
    return _run_auto(call, axes, shapes, arrays)


def _devices() -> int:
    return jax.device_count("cpu")


def _run_explicit(
    call: Callable[..., Any], axes: Axes, shapes: Sequence[Any], arrays: Sequence[Any], mesh: Any
) -> tuple[Any, ...]:
    """Under explicit sharding types tell how arrays are cut, and shard_map does it."""
    names = _explicit_axes(mesh)
    given = [_spec_of(explicit_sharding(array), array.ndim, names) for array in arrays]
    cut = _cuts(axes, arrays, shapes, given, (), mesh)
    if not cut:
        return call(shapes, [_resharded(array, None, mesh) for array in arrays])
    placed = [_resharded(one, _spec(text, cut), mesh) for text, one in zip(axes.arrays, arrays, strict=True)]
    shared = jax.shard_map(
        lambda *pieces: tuple(_piece(call, axes, shapes, cut, mesh, pieces)),
        mesh=mesh,
        in_specs=tuple(_spec(text, cut) for text in axes.arrays),
        out_specs=tuple(_spec(text, cut) for text in axes.results),
        axis_names={name for names in cut.values() for name in names},
        check_vma=False,
    )
    # Around this one there may be a shard_map by hand, over other axes.
    return as_varying(shared(*placed), frozenset().union(*map(varying_of, arrays)))


def _resharded(array: Any, spec: PartitionSpec | None, mesh: Any) -> Any:
    return jax.sharding.reshard(array, NamedSharding(mesh, PartitionSpec() if spec is None else spec))


def _run_auto(call: Callable[..., Any], axes: Axes, shapes: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Where the compiler decides how arrays are cut, it is told how they may be."""

    @custom_partitioning
    def whole(*arrays: Any) -> tuple[Any, ...]:
        return tuple(call(shapes, arrays))

    def cuts_of(mesh: Any, given: Any, results: Any) -> dict[str, tuple[str, ...]]:
        if mesh.empty:
            return {}
        names = set(mesh.axis_names)
        specs = [[_spec_of(one.sharding, len(one.shape), names) for one in some] for some in (given, results)]
        return _cuts(axes, given, shapes, *specs, mesh)

    def partition(mesh: Any, given: Any, results: Any) -> Any:
        cut = cuts_of(mesh, given, results)
        if mesh.empty:  # of no names: whole on all devices
            mesh = Mesh(sorted(given[0].sharding.device_set, key=lambda device: device.id), ("all",))

        def shardings(texts: tuple[str, ...]) -> tuple[NamedSharding, ...]:
            return tuple(NamedSharding(mesh, _spec(text, cut)) for text in texts)

        def piece(*pieces: Any) -> tuple[Any, ...]:
            return tuple(_piece(call, axes, shapes, cut, mesh, pieces))

        return mesh, piece, shardings(axes.results), shardings(axes.arrays)

    def infer(mesh: Any, given: Any, results: Any) -> Any:  # where Shardy does not do it
        cut = cuts_of(mesh, given, ())
        return tuple(NamedSharding(mesh, _spec(text, cut)) for text in axes.results)

    rule, sizes = _rule(axes, arrays, shapes)
    whole.def_partition(partition, infer_sharding_from_operands=infer, sharding_rule=rule, **sizes)
    return whole(*arrays)


def _rule(axes: Axes, arrays: Sequence[Any], shapes: Sequence[Any]) -> tuple[str, dict[str, int]]:
    """Shardy's rule, and the extents that it cannot infer."""
    texts, every = (*axes.arrays, *axes.results), (*arrays, *shapes)
    extents = {letter: n for text, one in zip(texts, every, strict=True) for letter, n in zip(text, one.shape)}
    groups = extents["h"] // extents["k"] if extents.get("k") and "h" in extents else 1
    words = {"h": "(hk hg)", "k": "hk"} if groups > 1 else {"h": "h", "k": "h"}
    unique = iter(range(10**6))

    def words_of(text: str) -> str:
        return " ".join(f"w{next(unique)}" if one == "." else words.get(one, f"m{one}") for one in text)

    sides = [", ".join(words_of(text) for text in some) for some in (axes.arrays, axes.results)]
    return " -> ".join(sides), {"hg": groups} if groups > 1 else {}


def _spec_of(sharding: Any, rank: int, names: set[str]) -> Spec:
    """The mesh axes of these names along which each axis of an array is cut."""
    parts = tuple(sharding.spec) if isinstance(sharding, NamedSharding) else ()
    parts += (None,) * (rank - len(parts))
    each = [() if part is None else part if isinstance(part, tuple) else (part,) for part in parts]
    return tuple(tuple(name for name in one if name in names) for one in each)


def _spec(text: str, cut: dict[str, tuple[str, ...]]) -> PartitionSpec:
    return PartitionSpec(*(cut.get(letter) for letter in _letters(text)))


def _letters(text: str) -> str:
    """Heads of keys are cut as heads are."""
    return text.replace("k", "h")


def _cuts(
    axes: Axes,
    arrays: Sequence[Any],
    shapes: Sequence[Any],
    given: Sequence[Spec],
    wanted: Sequence[Spec],
    mesh: Any,
) -> dict[str, tuple[str, ...]]:
    """The mesh axes that each letter is cut along: as arrays are, or else as results are wanted.

    Where encodings do not serve the pieces, heads are kept together, then tokens, then the batch.
    """
    cut: dict[str, tuple[str, ...]] = {}
    extents: dict[str, list[int]] = {}
    for text, one in zip((*axes.arrays, *axes.results), (*arrays, *shapes), strict=True):
        for letter, extent in zip(_letters(text), one.shape, strict=True):
            extents.setdefault(letter, []).append(extent)
    for text, spec in zip((*axes.arrays, *axes.results), (*given, *wanted), strict=False):
        for letter, names in zip(_letters(text), spec, strict=True):
            pieces = _pieces(names, mesh)
            taken = {name for some in cut.values() for name in some}
            even = all(extent % pieces == 0 and extent > 0 for extent in extents[letter])
            if letter != "." and letter not in cut and pieces > 1 and even and not taken & set(names):
                cut[letter] = names
    for dropped in ("", "h", "t", "ht", "b", "bh", "bt", "bht"):
        left = {letter: names for letter, names in cut.items() if letter not in dropped}
        if axes.serves is None or axes.serves({letter: _pieces(names, mesh) for letter, names in left.items()}):
            break
    return left


def _pieces(names: tuple[str, ...], mesh: Any) -> int:
    return math.prod(mesh.shape[name] for name in names)


def _piece(
    call: Callable[..., Any], axes: Axes, shapes: Sequence[Any], cut: dict[str, tuple[str, ...]], mesh: Any, pieces: Any
) -> list[Any]:
    """One device's piece of a call; what it has only a part of is added up."""
    local = []
    for text, one in zip(axes.results, shapes, strict=True):
        parts = [_pieces(cut.get(letter, ()), mesh) for letter in _letters(text)]
        local.append(jax.ShapeDtypeStruct([n // p for n, p in zip(one.shape, parts, strict=True)], one.dtype))
    results = call(local, pieces)
    if not axes.sums:
        return list(results)
    added = []
    for text, one in zip(axes.results, results, strict=True):
        over = tuple(name for letter, names in cut.items() if letter not in _letters(text) for name in names)
        added.append(jax.lax.psum(one, over) if over else one)
    return added
