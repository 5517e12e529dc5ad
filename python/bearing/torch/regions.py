"""Regions of attention as text, which ops take and ``torch.compile`` keeps."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Union

from .. import _core

Regions = Union["_core.DualChunk", "_core.SelfExtend", "_core.ReRope", None]


def text_of_regions(regions: Regions | str) -> str:
    """The spec as JSON; nothing for None. Such a text is returned as it is. Raises TypeError for another object."""
    if regions is None:
        return ""
    if isinstance(regions, str):
        return regions
    if not isinstance(regions, (_core.DualChunk, _core.SelfExtend, _core.ReRope)):
        raise TypeError(
            f"[attention] regions: must be a bearing.DualChunk, SelfExtend, ReRope or None, got {regions!r}"
        )
    return json.dumps(regions.to_dict())


@lru_cache(maxsize=64)
def regions_of(text: str) -> Regions:
    """The spec that :func:`text_of_regions` made the text of."""
    if not text:
        return None
    members = json.loads(text)
    return getattr(_core, members["type"]).from_dict(members)
