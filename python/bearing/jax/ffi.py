"""The library's handlers, registered with XLA, and how they are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
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


def interface_version() -> tuple[int, int]:
    """The version of XLA's foreign functions that the installed jaxlib has, as its own header says."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    major, minor = (re.search(rf"#define XLA_FFI_API_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR"))
    return int(major), int(minor)


def call(name: str, results: Sequence[Any], rank: int, arrays: Sequence[Any], **attributes: Any) -> tuple[Any, ...]:
    """The results of a handler for row-major arrays. rank: how many axes its first result has.

    Under vmap all arrays get axes in front, of extent 1 where they are shared.
    """
    types = {bool: np.bool_, int: np.int64, float: np.float64, str: str}
    given = {key: types[type(value)](value) for key, value in attributes.items()}
    function = jax.ffi.ffi_call(f"bearing_{name}", tuple(results), vmap_method="expand_dims")
    return function(*arrays, rank=np.int64(rank), **given)


register()
