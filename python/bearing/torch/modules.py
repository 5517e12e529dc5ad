"""Modules of all encodings, and functions beside them. They are made from descriptions, or stand in a file of layers/.

Type checkers read modules.pyi in its place. It is written when the package is installed (see python/torch_stub.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from .._modules import ModuleInfo, modules
from .base import Bias, Described, Input, Rows
from .encoding import Encoding, traits_of
from .layers import classes, functions

_BASES: dict[str, tuple[type, ...]] = {
    "Input": (Input,),
    "Rows": (Rows,),
    "Bias": (Described, Bias),
    "Described": (Described,),
}
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


def _made(info: ModuleInfo) -> type[Described]:
    members: dict[str, Any] = {"__doc__": info.text, "__module__": __package__, "__init__": _constructor(info)}
    if info.given:
        members["encoding"] = _encoding(info)
    return type(info.name, _BASES[info.base], members)


def _constructor(info: ModuleInfo) -> Callable[..., None]:
    signature = info.signature

    def __init__(self: Described, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"[{info.name}] {error}; it takes {signature}") from None
        given = set(bound.arguments)
        bound.apply_defaults()
        roles: dict[str, dict[str, Any]] = {}
        for one in info.arguments:
            if one.role == "setting" and bound.arguments.get("spec") is not None and one.name not in given:
                if hasattr(bound.arguments["spec"], one.name):
                    continue  # the spec states it
            roles.setdefault(one.role, {})[one.name] = bound.arguments[one.name]
        sizes = {name: size for name, size in roles.get("size", {}).items() if size is not None}
        spec, start = bound.arguments.get("spec"), roles.get("start", {})
        if info.base == "Rows":
            called = {"sets" if name == "heads" else name: size for name, size in sizes.items()}
        else:
            called = sizes
        Described.__init__(
            self,
            info.kind,
            spec,
            without=_left_out(info, roles),
            settings=roles.get("setting"),
            start=start,
            **roles.get("place", {}),
            **called,
        )
        for name, value in ({"heads": getattr(spec, "heads", 1), "sets": 1} | sizes | called | start).items():
            if not hasattr(self, name):
                setattr(self, name, value)

    return _as_signed(__init__, inspect.Signature([_SELF, *signature.parameters.values()], return_annotation=None))


def _left_out(info: ModuleInfo, roles: dict[str, dict[str, Any]]) -> list[str]:
    """The parameters that nobody learns: beside the spec, unless asked for, and of values, where these are not wanted."""
    left_out = [name.removeprefix("learn_") for name, wanted in roles.get("learn", {}).items() if not wanted]
    if roles.get("values", {}).get("values", True):
        return left_out
    of = traits_of(info.kind)["parameters"]
    return [*left_out, *(name for name in of if "value_dim" in of[name]["extents"])]


def _encoding(info: ModuleInfo) -> Callable[..., Encoding]:
    def encoding(self: Described, *given: Tensor, **named: Tensor | None) -> Encoding:
        """What the model computes for this call is given to it."""
        return Described.encoding(self, *given, **named)

    asked = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None if optional else inspect.Parameter.empty
        )
        for name, optional in info.given
    ]
    return _as_signed(encoding, inspect.Signature([_SELF, *asked]))


def _as_signed(function: Any, signature: inspect.Signature) -> Any:
    function.__signature__ = signature
    return function


_classes = classes()
for _info in modules():
    if _info.name not in _classes:
        _classes[_info.name] = _made(_info)
_classes = dict(sorted(_classes.items()))
_public = _classes | functions()
globals().update(_public)
__all__ = list(_public)
