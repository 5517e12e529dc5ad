"""Errors of functions that are made of others, in the words of the one that was called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P, R = ParamSpec("P"), TypeVar("R")


def in_words_of(function: str, *inner: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: errors that begin with "[one]", of one of the inner functions, or of any if none is
    named, begin with "[function]"."""

    def of(call: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(call)
        def renamed(*args: P.args, **named: P.kwargs) -> R:
            try:
                return call(*args, **named)
            except (TypeError, ValueError, IndexError) as error:
                own, text = str(error).partition("]")[::2]
                if not own.startswith("[") or (inner and own[1:] not in inner):
                    raise
                raise type(error)(f"[{function}]{text}") from None

        return renamed

    return of
