"""The library's handlers, registered with XLA, and how they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core

try:
    import jax
    import jaxlib
except ImportError as error:
    raise ImportError("bearing.jax needs JAX: pip install 'bearing-pe[jax]'") from error

REBUILD = "pip install --no-build-isolation --no-binary bearing-pe --force-reinstall --no-deps bearing-pe"


def register() -> None:
    """Makes the handlers known to XLA; ImportError where this build has none, or none that this JAX takes."""
    if not hasattr(_core, "_jax_handlers"):
        raise ImportError(
            "bearing was built without JAX's headers, so that it has no bearing.jax. Install jax, nanobind and "
            f"scikit-build-core, then build bearing again where they can be seen: {REBUILD}"
        )
    try:
        for name, handler in _core._jax_handlers().items():
            jax.ffi.register_ffi_target(f"bearing_{name}", handler, platform="cpu")
    except Exception as error:
        built = ".".join(str(number) for number in _core._jax_api_version())
        raise ImportError(
            f"bearing was built for version {built} of XLA's foreign functions, which jaxlib {jaxlib.__version__} "
            f"does not take. With jax, nanobind and scikit-build-core installed, build it for this one: {REBUILD}"
        ) from error


def call(name: str, results: Sequence[Any], rank: int, arrays: Sequence[Any], **attributes: Any) -> tuple[Any, ...]:
    """The results of a handler for row-major arrays. rank: how many axes its first result has.

    Under vmap all arrays get axes in front, of extent 1 where they are shared.
    """
    types = {bool: np.bool_, int: np.int64, float: np.float64, str: str}
    given = {key: types[type(value)](value) for key, value in attributes.items()}
    function = jax.ffi.ffi_call(f"bearing_{name}", tuple(results), vmap_method="expand_dims")
    return function(*arrays, rank=np.int64(rank), **given)


register()
