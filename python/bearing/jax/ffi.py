"""The library's handlers, registered with XLA, and how they are called."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
from jax.custom_batching import custom_vmap
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from .. import _core
from .shards import Axes, as_given, as_varying, run, types_of, varying_of

# Of the checkout, as no package index has the distribution: whatever stood there under its name would be somebody else's.
REBUILD = "in its checkout, pip install --no-build-isolation --force-reinstall --no-deps ."


def register() -> None:
    """Makes the handlers known to XLA. Raises ImportError if this build has none, or none that this JAX takes."""
    if not hasattr(_core, "_jax_handlers"):
        raise ImportError(
            "bearing was built without JAX's headers, so that it has no bearing.jax. Install jax, nanobind and "
            f"scikit-build-core, then build bearing again where they can be seen: {REBUILD}"
        )
    # XLA would refuse handlers of another major version when it starts, and then not start at all. They adapt to older
    # minor versions.
    built, here = _core._jax_api_version(), interface_version()
    if built[0] != here[0]:
        raise ImportError(
            f"bearing was built for version {built[0]}.{built[1]} of XLA's foreign functions, jaxlib "
            f"{jaxlib.__version__} has {here[0]}.{here[1]}. With jax, nanobind and scikit-build-core installed, build "
            f"it for this one: {REBUILD}"
        )
    for name, handler in _core._jax_handlers(here[1]).items():
        jax.ffi.register_ffi_target(f"bearing_{name}", handler, platform="cpu")


def export_checks() -> list[jax.export.DisabledSafetyCheck]:
    """Returns what jax.export must be told to keep programs that call this library: its ``disabled_checks``.

        exported = jax.export.export(function, disabled_checks=bearing.jax.export_checks())(x)

    JAX asks for it because handlers may change from version to version. A program runs with the version of bearing that
    it was exported with. The process that runs it imports bearing.jax and makes the program's encodings and tables
    known once: it traces the function, or another one with the same encodings, with ``jax.eval_shape(function, x)``.
    """
    # Loaded when it is asked for: not every program is exported.
    from jax.export import DisabledSafetyCheck

    handlers = _core._jax_handlers(interface_version()[1])
    return [DisabledSafetyCheck.custom_call(f"bearing_{name}") for name in handlers]


def interface_version() -> tuple[int, int]:
    """The version of XLA's foreign functions that the installed jaxlib has, as its own header says."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    major, minor = (re.search(rf"#define XLA_FFI_API_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR"))
    return int(major), int(minor)


def call(
    name: str, results: Sequence[Any], rank: int, arrays: Sequence[Any], axes: Axes, **attributes: Any
) -> tuple[Any, ...]:
    """The results of a handler for row-major arrays. rank: how many axes its first result has.

    Under vmap all arrays get axes in front, of extent 1 where they are shared. On several devices each has the pieces
    that `axes` allows. Not differentiable: who calls has gradients of its own.
    """
    types = {bool: np.bool_, int: np.int64, float: np.float64, str: str}
    given = {key: types[type(value)](value) for key, value in attributes.items()}

    def handler(shapes: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        arrays = [_on_cpu.bind(one, function=name.removesuffix("_backward")) for one in arrays]
        function = jax.ffi.ffi_call(f"bearing_{name}", tuple(shapes), vmap_method="expand_dims")
        return as_varying(function(*arrays, rank=np.int64(rank), **given), frozenset().union(*map(varying_of, arrays)))

    @jax.custom_jvp
    def once(*arrays: Any) -> tuple[Any, ...]:
        return _mapped(handler, axes, results)(*arrays)

    @once.defjvp
    def refuse(*_: Any) -> Any:
        function = name.removesuffix("_backward")
        raise TypeError(f"[{function}] gradients: must be taken once, in reverse mode; they have none of their own")

    return once(*arrays)


# What a handler is given, as it is. Another platform than the CPU cannot compile it, and says so in words of this library's.
_on_cpu = Primitive("bearing_on_cpu")
_on_cpu.def_impl(lambda x, *, function: x)
_on_cpu.def_abstract_eval(lambda x, *, function: x)
batching.defvectorized(_on_cpu)
mlir.register_lowering(_on_cpu, lambda context, x, *, function: [x], platform="cpu")


def _refused(context: Any, x: Any, *, function: str) -> Any:
    (platform, *_) = [one for one in context.platforms or context.module_context.platforms if one != "cpu"]
    raise TypeError(
        f"[{function}] arrays: must be on the CPU, got a program for {platform}: set JAX_PLATFORMS=cpu before JAX is "
        'imported, or call it under jax.default_device(jax.devices("cpu")[0]) with arrays from there'
    )


mlir.register_lowering(_on_cpu, _refused)


def _mapped(handler: Any, axes: Axes, results: Sequence[Any]) -> Any:
    """The handler over all pieces, and under vmap over all instances."""

    @custom_vmap
    def function(*arrays: Any) -> tuple[Any, ...]:
        return run(handler, axes, results, arrays)

    @function.def_vmap
    def of_instances(size: int, in_batched: Sequence[bool], *arrays: Any) -> Any:
        shapes = [jax.ShapeDtypeStruct((size, *one.shape), one.dtype) for one in results]
        given = [one if mapped else one[None] for one, mapped in zip(arrays, in_batched, strict=True)]
        return _mapped(handler, axes.mapped(in_batched), shapes)(*given), (True,) * len(results)

    return function


def differentiable(
    statics: int, function: Callable[..., Any], forward: Callable[..., Any], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """function(*static, *arrays), compiled, with gradients: forward gives (results, kept), backward(*static, kept, d)
    the arrays' gradients."""
    own = jax.custom_vjp(function, nondiff_argnums=tuple(range(statics)))

    def keep(*arguments: Any) -> Any:
        results, kept = forward(*arguments)
        return results, (kept, types_of(arguments[statics:]))

    def pull_back(*arguments: Any) -> Any:
        *static, (kept, types), d = arguments
        return as_given(backward(*static, kept, d), types)

    own.defvjp(keep, pull_back)

    @functools.partial(jax.jit, static_argnums=tuple(range(statics)))
    def compiled(*arguments: Any) -> Any:
        return own(*arguments[:statics], *as_varying(arguments[statics:]))

    return compiled


register()
