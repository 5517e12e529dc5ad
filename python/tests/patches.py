"""Which encodings of the catalog take the row and column of an image's patches."""

from __future__ import annotations

from typing import Any

import bearing


def on_two_axes(name: str, spec: Any, heads: int, dim: int, length: int) -> bool:
    """Whether positions of what the name stands for have two axes. ElementwiseRope's patches have further coordinates: see
    of_a_video()."""
    of_an_image = bearing.Specimen(name, heads=heads, dim=dim, length=length).width > 0
    return of_an_image and not isinstance(spec, bearing.ElementwiseRope)


def of_a_video(spec: Any) -> bool:
    """Whether positions of the spec must have three axes, as V-JEPA 2's; HunyuanVL's words stand at one position on all."""
    return isinstance(spec, bearing.ElementwiseRope) and spec.rope.axes.frequencies == "restarted"
