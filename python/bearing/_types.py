"""Types that stand in signatures.

Arrays may be of any kind: NumPy's, PyTorch's, JAX's and whatever else speaks DLPack. Only NumPy has to be installed, so
the types cannot be stricter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

ArrayLike: TypeAlias = Any
"""An array of float64, float32, bfloat16 or float16 in the CPU's memory."""

Array: TypeAlias = Any
"""The same, of the kind that the caller gave: NumPy's for NumPy's, a tensor for a tensor."""

Float64Array: TypeAlias = NDArray[np.float64]

DType: TypeAlias = Any
"""'float64', 'float32', 'bfloat16' or 'float16', or what NumPy, PyTorch and JAX call them."""

Positions: TypeAlias = Any
"""None for 0, 1, 2, …, an int for a cache of so many tokens, or [time], [batch, time] or [axes, batch, time]."""

Encodings: TypeAlias = Any
"""One encoding, a list or tuple of them, or None."""


class HasToDict(Protocol):
    """A configuration object of transformers."""

    def to_dict(self) -> dict[str, Any]: ...


ConfigSource: TypeAlias = Union[str, bytes, "os.PathLike[str]", Mapping[str, Any], HasToDict]
"""A config.json's path, its members, or transformers' own object."""

Layout: TypeAlias = Literal["bhtd", "bthd"]
