"""Regions of attention, or a band of distances, as text, which ops take and ``torch.compile`` keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Union

from .. import _core

Regions = Union["_core.DualChunk", "_core.SelfExtend", "_core.ReRope", Sequence["_core.Region"], None]


def text_of_regions(
    regions: Regions | str, function: str = "attention", *, band: _core.DistanceBand | str | None = None
) -> str:
    """The spec, or a list of them, as JSON; nothing for None. Such a text is returned as it is. Raises TypeError for another object.
    function: who was called, for errors. band: in place of regions; RangeError if both are given."""
    if band is not None:
        if regions is not None:
            raise _core.RangeError(
                f"[{function}] band: must be None beside regions, as each region has its own, got {band!r}"
            )
        if isinstance(band, str):
            if not is_band(band):
                raise ValueError(
                    f"[{function}] band: must be JSON of a DistanceBand's to_dict() as a text, got {band!r}"
                )
            return band
        _core._band_text(function, band)  # raises TypeError for another object
        return json.dumps(band.to_dict())
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
def regions_of(text: str) -> dict[str, Any]:
    """What :func:`text_of_regions` made the text of, as the arguments of ``bearing.attention``."""
    if not text:
        return {}
    members = json.loads(text)
    if isinstance(members, list):
        return {"regions": [_core.Region.from_dict(one) for one in members]}
    name = "band" if is_band(text) else "regions"
    return {name: getattr(_core, members["type"]).from_dict(members)}


def is_band(text: str) -> bool:
    """Whether the text is of a band."""
    return text.startswith("{") and '"DistanceBand"' in text  # which compilers can read
