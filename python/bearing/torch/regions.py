"""Regions of attention as text, which ops take and ``torch.compile`` keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Union

from .. import _core

Regions = Union["_core.DualChunk", "_core.SelfExtend", "_core.ReRope", Sequence["_core.Region"], None]


def text_of_regions(regions: Regions | str, function: str = "attention") -> str:
    """The spec, or a list of them, as JSON; nothing for None. Such a text is returned as it is. Raises TypeError for another object.
    function: who was called, for errors."""
    if regions is None:
        return ""
    if isinstance(regions, str):
        if regions and not regions.lstrip().startswith(("{", "[")):
            raise ValueError(
                f"[{function}] regions: must be JSON of a spec's or regions' to_dict() as a text, got {regions!r}"
            )
        return regions
    _core._region_text(function, regions)  # raises TypeError for another object
    if isinstance(regions, (list, tuple)):
        return json.dumps([one.to_dict() for one in regions])
    return json.dumps(regions.to_dict())


@lru_cache(maxsize=64)
def regions_of(text: str) -> Regions:
    """The spec that :func:`text_of_regions` made the text of."""
    if not text:
        return None
    members = json.loads(text)
    if isinstance(members, list):
        return [_core.Region.from_dict(one) for one in members]
    return getattr(_core, members["type"]).from_dict(members)
