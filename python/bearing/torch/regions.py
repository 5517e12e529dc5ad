"""Regions of attention, or a band of distances, as text, which ops take and ``torch.compile`` keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Union

from .. import _core
from .compiling import constant

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
            return _checked(function, "band", band)
        _check_band(function, band)
        return json.dumps(band.to_dict())
    if not regions and (regions is None or isinstance(regions, str)):
        return ""
    if isinstance(regions, str):
        return _checked(function, "regions", regions)
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
    name = "band" if members["type"] == "DistanceBand" else "regions"
    return {name: getattr(_core, members["type"]).from_dict(members)}


def band_of(text: str) -> tuple[int | None, int | None, int] | None:
    """The begin, the end and the chunk of a band; None for the text of anything else."""
    band = regions_of(text).get("band")
    return None if band is None else (band.begin, band.end, band.chunk)


@constant
def _checked(function: str, name: str, text: str) -> str:
    """The text, if it is of what the argument of this name takes. Raises ValueError, or RangeError for a band that cannot serve."""
    try:
        given = regions_of(text)[name]
        if name == "regions":
            _core._region_text(function, given)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        wanted = "a DistanceBand's" if name == "band" else "a spec's or regions'"
        raise ValueError(f"[{function}] {name}: must be JSON of {wanted} to_dict() as a text, got {text!r}") from error
    if name == "band":
        _check_band(function, given)
    return text


def _check_band(function: str, band: Any) -> None:
    """Raises TypeError for another object, and RangeError as the library does, which the kernels for GPUs do not ask."""
    _core._band_text(function, band)
    if band.chunk < 0:
        raise _core.RangeError(
            f"[{function}] band: must have chunks of at least 1 position, or 0 for none, got {band.chunk}"
        )
    if band.begin is not None and band.end is not None and band.begin > band.end:
        raise _core.RangeError(f"[{function}] band: must not end before it begins, got {band.begin} to {band.end}")
