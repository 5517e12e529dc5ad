"""One way of sharing calls between four devices, over all calls: prints what went wrong, by call, as JSON.

python jax_shards_worker.py WAY, in a process that has four devices.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import bearing
import bearing.jax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_cases import close_trees
from jax_ways import Call, calls, functions, results

BATCH_AND_HEADS = P("b", "h")
# Each has a third of the encodings, which one has which by turns; BEARING_EVERY_WAY in the environment asks for all.
TURNS = ("auto", "manual", "explicit")
MOVES = re.compile(r" (all-gather|all-to-all|collective-permute)(-start)?\(")


def rows(x: jax.Array) -> P:
    """Batch along "b", and heads along "h" where there are some."""
    return P("b", "h") if x.ndim == 4 and x.shape[1] > 1 else P("b")


def positions(x: jax.Array) -> P:
    return P(None, "b") if x.ndim == 3 else P("b") if x.ndim > 0 else P()


def placed(call: Call, mesh: Mesh, whole: P) -> tuple[Any, Any, Any]:
    def put(tree: Any, spec: Callable[[jax.Array], P]) -> Any:
        def named(x: jax.Array) -> NamedSharding:
            return NamedSharding(mesh, P(*(axis if axis in mesh.axis_names else None for axis in spec(x))))

        return jax.tree.map(lambda x: jax.device_put(x, named(x)), tree)

    return put(call.cut, rows), put(call.whole, lambda x: whole), put(call.at, positions)


def auto(call: Call, wanted: Any) -> None:
    """The compiler decides: nothing is gathered, and results stay where their pieces were computed."""
    meshes = [Mesh(np.array(jax.devices()[:2]), ("b",))] if call.fixed_heads or call.whole_spec is None else []
    meshes.append(Mesh(np.array(jax.devices()).reshape(2, 2), ("b", "h")))
    for mesh in meshes:
        arguments = placed(call, mesh, P())
        program = jax.jit(results(call)).lower(*arguments).compile()
        gradients, out = program(*arguments)
        close_trees((gradients, out), wanted)
        if call.whole_spec is None or (call.fixed_heads and "h" in mesh.axis_names):
            continue
        moves = MOVES.findall(program.as_text())
        assert not moves, f"{moves} on {mesh}"
        for leaf in jax.tree.leaves(out) if call.cut else []:
            assert leaf.sharding.spec[0] == "b", leaf.sharding
            assert not leaf.is_fully_replicated


def manual(call: Call, wanted: Any, check: bool = True) -> None:
    """jax.shard_map over the batch; an encoding that holds all sequences is refused in our words."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("b",))
    specs = (
        jax.tree.map(lambda x: P("b"), call.cut),
        jax.tree.map(lambda x: call.whole_spec or P(), call.whole),
        jax.tree.map(positions, call.at),
    )
    several = bool(call.cut) or any(x.ndim == 3 for x in jax.tree.leaves(call.at))
    shared = jax.shard_map(
        call.function, mesh=mesh, in_specs=specs, out_specs=P("b") if several else P(), check_vma=check
    )
    if call.whole_spec is None:
        try:
            shared(call.cut, call.whole, call.at)
        except bearing.ShapeError as error:
            assert str(error).startswith("[attention] ")
            return
        raise AssertionError("pieces of another batch were accepted")
    close_trees(jax.jit(results(call, shared))(call.cut, call.whole, call.at), wanted)


def unchecked(call: Call, wanted: Any) -> None:
    manual(call, wanted, check=False)


def explicit(call: Call, wanted: Any) -> None:
    """Types say how arrays are cut, eagerly and compiled: results and gradients are cut alike."""
    mesh = jax.make_mesh((2, 2), ("b", "h"), axis_types=(AxisType.Explicit,) * 2)
    arguments = placed(call, mesh, P())
    with jax.set_mesh(mesh):
        out = call.function(*arguments)
        got = jax.jit(results(call))(*arguments)
        close_trees(got, wanted)
        close_trees(out, wanted[1])
        for leaf in jax.tree.leaves(out) if call.cut and call.whole_spec is not None else []:
            assert jax.typeof(leaf).sharding.spec[0] == "b", jax.typeof(leaf)
        for leaf, given in zip(jax.tree.leaves(got[0]), jax.tree.leaves(arguments[:2]), strict=True):
            assert jax.typeof(leaf) == jax.typeof(given)


def nested() -> dict[str, Callable[[], Any]]:
    """Ways within ways, for attention with a bias: all give its gradients."""
    rng = np.random.default_rng(0)
    x, spec = jnp.asarray(rng.standard_normal((4, 4, 8, 8))), bearing.T5(direction="causal")
    bias = bearing.T5Bias(spec, jnp.asarray(rng.standard_normal((32, 4))))
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("b", "h"))
    typed = jax.make_mesh((2, 2), ("b", "h"), axis_types=(AxisType.Explicit,) * 2)
    mixed = jax.make_mesh((2, 2), ("b", "h"), axis_types=(AxisType.Explicit, AxisType.Auto))

    def plain(x: Any, bias: Any) -> Any:
        return bearing.jax.attention(x, x, x, bias, mask="causal")

    def slope(function: Any) -> Any:
        return jax.jit(jax.grad(lambda x, bias: (function(x, bias) ** 2).sum(), (0, 1)))

    def of_batch(**options: Any) -> Any:
        return jax.shard_map(plain, in_specs=(P("b"), P()), out_specs=P("b"), axis_names={"b"}, **options)

    def scanned(x: Any, bias: Any) -> Any:
        return jax.lax.scan(jax.checkpoint(lambda carry, _: (carry, plain(x, bias))), 0, None, length=1)[1]

    mapped = jax.vmap(plain, (0, None))

    def on(mesh: Mesh, function: Any, rows: P = BATCH_AND_HEADS) -> Any:
        given = jax.device_put(x, NamedSharding(mesh, rows)), jax.device_put(bias, NamedSharding(mesh, P()))
        if AxisType.Explicit not in mesh.axis_types:
            return slope(function)(*given)
        with jax.set_mesh(mesh):
            return slope(function)(*given)

    def by_pmap() -> Any:
        d_x, d_bias = jax.pmap(slope(plain), in_axes=(0, None))(x[:, None], bias)
        return d_x.reshape(x.shape), jax.tree.map(lambda d: d.sum(0), d_bias)

    return {
        "one device": lambda: slope(plain)(x, bias),
        "manual batch, automatic heads": lambda: on(mesh, of_batch(mesh=mesh)),
        "the same, unchecked": lambda: on(mesh, of_batch(mesh=mesh, check_vma=False)),
        "manual batch, typed heads": lambda: on(typed, of_batch()),
        "typed batch, automatic heads": lambda: on(mixed, plain),
        "automatic, mapped": lambda: on(mesh, mapped),
        "automatic, scanned": lambda: on(mesh, scanned),
        "automatic, tokens cut": lambda: on(mesh, plain, P("b", None, "h")),
        "typed, mapped": lambda: on(typed, mapped),
        "typed, scanned": lambda: on(typed, scanned),
        "typed, tokens cut": lambda: on(typed, plain, P("b", None, "h")),
        "one device each": by_pmap,
    }


def ways_within_ways() -> None:
    ways = nested()
    wanted = ways["one device"]()
    problems = {}
    for name, way in ways.items():
        try:
            close_trees(way(), wanted)
        except Exception as error:
            problems[name] = f"{type(error).__name__}: {error}"[:2000]
    print(json.dumps({"checked": len(ways), "problems": problems}))


def main(way: str) -> None:
    if way == "nested":
        return ways_within_ways()
    problems = {}
    rng = np.random.default_rng(0)
    # What check_vma changes has nothing to do with encodings.
    every = functions(rng) if way == "unchecked" else calls(rng)
    if way in TURNS and "BEARING_EVERY_WAY" not in os.environ:
        encodings = [*every][len(functions(rng)) :]
        mine = encodings[TURNS.index(way) :: len(TURNS)]
        every = {name: call for name, call in every.items() if name not in encodings or name in mine}
    for name, call in every.items():
        wanted = jax.jit(results(call))(call.cut, call.whole, call.at)
        try:
            {"auto": auto, "manual": manual, "unchecked": unchecked, "explicit": explicit}[way](call, wanted)
        except Exception as error:
            problems[name] = f"{type(error).__name__}: {error}"[:2000]
    print(json.dumps({"checked": len(every), "problems": problems}))


if __name__ == "__main__":
    assert jax.device_count() == 4 and jnp.ones(1).dtype == jnp.float64
    main(sys.argv[1])
