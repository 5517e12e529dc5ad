"""One way of sharing calls between four devices, over all calls: prints what went wrong, by call, as JSON.

python jax_shards_worker.py WAY, in a process that has four devices.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import bearing
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_cases import close_trees
from jax_ways import Call, calls, results

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


def main(way: str) -> None:
    problems = {}
    every = calls(np.random.default_rng(0))
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
