"""Every function of bearing.jax in every way in which JAX looks at a call on one device: right, or a clear refusal.

Ways over several devices are in test_jax_shards.py. A new function is a line in jax_ways.py, a new way a function here.
"""

import functools
import re
import warnings

import bearing.jax
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import close_trees
from jax_ways import Call, functions, results
from support import ROUNDING, to_numpy

CALLS = functions(np.random.default_rng(0))
# Linear in what they turn: any number of derivatives.
LINEAR = {name for name in CALLS if name.startswith(("rotate", "rebase", "shift"))}
# Sums that nothing is rounded to: not of 16 bits.
WIDE = {"add_scores", "add_values"}


@functools.cache
def wanted(name: str):
    call = CALLS[name]
    with jax.enable_x64(True):  # whichever test asks first
        return results(call)(call.cut, call.whole, call.at)


def arguments(call: Call):
    return call.cut, call.whole, call.at


def jit(name: str, call: Call) -> None:
    close_trees(jax.jit(results(call))(*arguments(call)), wanted(name))


def interpreted(name: str, call: Call) -> None:
    with jax.disable_jit():
        close_trees(results(call)(*arguments(call)), wanted(name))


def mapped(name: str, call: Call) -> None:
    cut, whole, at = jax.tree.map(lambda x: jnp.stack([x, x]), arguments(call))
    two = (jax.tree.map(lambda x: x.at[1].multiply(0.5), cut), whole, at)
    got = jax.jit(jax.vmap(results(call)))(*two)
    for i in range(2):
        alone = results(call)(*jax.tree.map(lambda x, i=i: x[i], two))
        close_trees(jax.tree.map(lambda x, i=i: x[i], got), alone)


def scanned(name: str, call: Call) -> None:
    two = jax.tree.map(lambda x: jnp.stack([x, x]), arguments(call))
    _, got = jax.lax.scan(lambda carry, one: (carry, results(call)(*one)), 0, two)
    for i in range(2):
        close_trees(jax.tree.map(lambda x, i=i: x[i], got), wanted(name))


def rematerialised(name: str, call: Call) -> None:
    close_trees(jax.jit(results(call, jax.checkpoint(call.function)))(*arguments(call)), wanted(name))


def shapes(name: str, call: Call) -> None:
    got = jax.eval_shape(results(call), *arguments(call))
    assert jax.tree.structure(got) == jax.tree.structure(wanted(name))
    of = [[(x.shape, x.dtype) for x in jax.tree.leaves(some)] for some in (got, wanted(name))]
    assert of[0] == of[1]


def traced(name: str, call: Call) -> None:
    jaxpr, shapes = jax.make_jaxpr(results(call), return_shape=True)(*arguments(call))
    leaves = jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *jax.tree.leaves(arguments(call)))
    close_trees(jax.tree.unflatten(jax.tree.structure(shapes), leaves), wanted(name))


def exported(name: str, call: Call) -> None:
    # Encodings are no part of what JAX can write down: leaves are.
    leaves, tree = jax.tree.flatten(arguments(call))
    program = jax.jit(lambda *leaves: jax.tree.leaves(results(call)(*jax.tree.unflatten(tree, leaves))))
    kept = jax.export.export(program, disabled_checks=bearing.jax.export_checks())(*leaves).serialize()
    got = jax.export.deserialize(kept).call(*leaves)
    close_trees(jax.tree.unflatten(jax.tree.structure(wanted(name)), got), wanted(name))


def donated(name: str, call: Call) -> None:
    given = jax.tree.map(jnp.array, call.cut)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX finds no use for some
        close_trees(jax.jit(results(call), donate_argnums=0)(given, call.whole, call.at), wanted(name))


def one_device_each(name: str, call: Call) -> None:
    one = jax.tree.map(lambda x: x[None], arguments(call))
    got = jax.pmap(results(call), devices=jax.devices()[:1])(*one)
    close_trees(jax.tree.map(lambda x: x[0], got), wanted(name))


def forward_mode(name: str, call: Call) -> None:
    primals = call.cut, call.whole
    with pytest.raises(TypeError, match="forward-mode.*custom_vjp"):
        jax.jvp(lambda cut, whole: call.function(cut, whole, call.at), primals, primals)


def twice(name: str, call: Call) -> None:
    def slope(cut, whole):
        gradients, _ = results(call)(cut, whole, call.at)
        return sum((x**2).sum() for x in jax.tree.leaves(gradients))

    def again():
        return jax.grad(slope, (0, 1))(call.cut, call.whole)

    if name in LINEAR:
        assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(again()))
        return
    function = re.match(r"\w+", name)[0]
    with pytest.raises(TypeError, match=r"\[\w+\] gradients: must be taken once") as error:
        again()
    assert function in ("merge", "inputs", "add", "bias_matrix") or str(error.value).startswith(f"[{function}]")


WAYS = [
    jit,
    interpreted,
    mapped,
    scanned,
    rematerialised,
    shapes,
    traced,
    exported,
    donated,
    one_device_each,
    forward_mode,
    twice,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_function_is_right_in_every_way(way):
    problems = {}
    for name, call in CALLS.items():
        try:
            way(name, call)
        except Exception as error:
            problems[name] = f"{type(error).__name__}: {error}"[:1000]
    assert problems == {}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_every_function_serves_every_type_without_64_bits(dtype):
    with jax.enable_x64(False):
        for name, call in functions(np.random.default_rng(0), dtype).items():
            if name in WIDE and dtype != "float32":
                with pytest.raises(TypeError, match=rf"\[{name}\] \w+: must be float64 or float32"):
                    call.function(*arguments(call))
                continue
            got = jax.jit(results(call))(*arguments(call))
            types = [[x.dtype for x in jax.tree.leaves(some)] for some in (got[0], arguments(call)[:2])]
            assert types[0] == types[1], name
            _near(name, got, wanted(name), dtype)


def _near(name, got, want, dtype: str) -> None:
    """Arguments, results and the weights of the loss are rounded: 64 roundings of the largest number of each array."""
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        largest = np.max(np.abs(to_numpy(other)), initial=1.0)
        np.testing.assert_allclose(
            to_numpy(one), to_numpy(other), rtol=0, atol=64 * ROUNDING[dtype] * largest, err_msg=name
        )
