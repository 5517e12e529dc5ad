"""Draws pictures of encodings with matplotlib: one function for each kind of ``bearing.figure_kinds()``.

    import bearing.plot

    ax = bearing.plot.curves("sinusoidal")                       # a new figure, whose axes are returned
    ax.figure.savefig("curves.png")
    axes = bearing.plot.curves("sinusoidal", "rope")             # an array: a panel for each
    bearing.plot.curves("rope", dims=[0, 2], ax=ax)              # in axes that exist already
    bearing.plot.draw(figure)                                    # any Figure
    bearing.plot.claim(bearing.claims()[0])                      # the picture that shows whether it holds

``ax`` is one axes, several (one for each panel), or a figure of matplotlib. Without it a new figure is made, which
pyplot does not show. ``bearing.plot.curves("rope", ax=plt.figure(layout="constrained"))`` draws into a figure that it
shows. Text, background and fonts follow matplotlib's style. All other options are those of ``bearing.figure()``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ._core import Claim
from ._figures import Figure, FigureKind, figure, figure_kinds


def draw(of: Figure, ax: Any = None) -> Any:
    """Draws a Figure and returns its axes: one, or an array with one for each panel.

    of: the figure.
    ax: one axes, one for each panel, or a figure of matplotlib; without it a new figure is made.

    Raises ShapeError if the number of axes differs from the number of panels, TypeError if ax is something else.
    """
    from ._matplotlib import drawn

    return drawn(of, ax)


def claim(of: Claim, ax: Any = None) -> Any:
    """Draws the picture of a claim of bearing.claims() and returns its axes, as draw() does.

    Raises ValueError if the claim has no picture.
    """
    picture = of.picture
    if picture is None:
        raise ValueError(f"[claim] of: must have a picture, got the claim {of.says!r} about {of.encoding}")
    return draw(figure(picture["kind"], *picture["encodings"], **picture["options"]), ax)


_OPTIONS = frozenset(inspect.signature(figure).parameters) - {"kind", "encodings"}


def _plotter(kind: FigureKind) -> Callable[..., Any]:
    def plot(*encodings: Any, ax: Any = None, **options: Any) -> Any:
        for name in options:
            if name not in _OPTIONS:
                raise TypeError(f"{kind.name}() got an unexpected keyword argument {name!r}")
        try:
            of = figure(kind.name, *encodings, **options)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("[figure]", f"[{kind.name}]")) from None
        return draw(of, ax)

    plot.__name__ = plot.__qualname__ = kind.name
    plot.__doc__ = _text(kind)
    plot.__signature__ = _signature(kind)  # type: ignore[attr-defined]
    plot.__annotations__ = {one.name: one.annotation for one in plot.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return plot


def _text(kind: FigureKind) -> str:
    many = f"{kind.fewest}" if kind.fewest == kind.most else f"{kind.fewest} to {kind.most}"
    of = f", of {many} encoding{'' if many == '1' else 's'}" if kind.most else ""
    return (
        f"Draws {kind.shows}{of}.\n\n"
        "encodings: as figure() takes them, and so are the other options.\n"
        "ax: one axes, one for each panel, or a figure of matplotlib; without it a new figure is made.\n\n"
        "Returns the axes: one, or an array with one for each panel."
    )


def _signature(kind: FigureKind) -> inspect.Signature:
    asked = inspect.signature(figure).parameters
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [
            inspect.Parameter("encodings", inspect.Parameter.VAR_POSITIONAL, annotation="Any"),
            inspect.Parameter("ax", keyword, default=None, annotation="Any"),
            *(asked[name] for name in kind.takes if name in asked),
            asked["threads"],
        ],
        return_annotation="Any",
    )


__all__ = ["claim", "draw"]
__all__ += [kind.name for kind in figure_kinds()]
globals().update({kind.name: _plotter(kind) for kind in figure_kinds()})


def __dir__() -> Sequence[str]:
    return __all__
