"""The signatures of the extension's functions and methods, for ``inspect.signature``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_Parameter = inspect.Parameter


def of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, a method or a bound method. For several overloads: what they have in common."""
    found = [_signature(text, defaults or ()) for text, _, defaults in function.__nb_signature__]  # type: ignore[attr-defined]
    if type(function).__name__ == "nb_bound_method":
        found = [one.replace(parameters=list(one.parameters.values())[1:]) for one in found]
    return found[0] if len(found) == 1 else _common(found)


def _signature(text: str, defaults: Sequence[Any]) -> inspect.Signature:
    """From "def f(x: int = \\0) -> int", where \\0 stands for the first default."""
    (definition,) = ast.parse(re.sub(r"\\(\d+)", r"__default[\1]", text) + ": ...").body
    assert isinstance(definition, ast.FunctionDef)

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "__default":
            return defaults[ast.literal_eval(node.slice)]
        return ... if ast.unparse(node) == "..." else ast.literal_eval(node)

    def parameters() -> Iterator[_Parameter]:
        asked = definition.args
        named = [(_Parameter.POSITIONAL_ONLY, one) for one in asked.posonlyargs]
        named += [(_Parameter.POSITIONAL_OR_KEYWORD, one) for one in asked.args]
        ends: list[ast.expr | None] = [*[None] * (len(named) - len(asked.defaults)), *asked.defaults]
        for (kind, one), default in zip(named, ends, strict=True):
            yield made(kind, one, default)
        if asked.vararg:
            yield made(_Parameter.VAR_POSITIONAL, asked.vararg, None)
        for one, default in zip(asked.kwonlyargs, asked.kw_defaults, strict=True):
            yield made(_Parameter.KEYWORD_ONLY, one, default)
        if asked.kwarg:
            yield made(_Parameter.VAR_KEYWORD, asked.kwarg, None)

    def made(kind: Any, one: ast.arg, default: ast.expr | None) -> _Parameter:
        return _Parameter(
            one.arg,
            kind,
            default=_Parameter.empty if default is None else value(default),
            annotation=ast.unparse(one.annotation) if one.annotation else _Parameter.empty,
        )

    returns = ast.unparse(definition.returns) if definition.returns else inspect.Signature.empty
    return inspect.Signature(list(parameters()), return_annotation=returns)


def _common(all_of_them: Sequence[inspect.Signature]) -> inspect.Signature:
    """The arguments that all overloads begin with, then *args and **kwargs. help() shows each overload."""
    same: list[_Parameter] = []
    for each in zip(*(one.parameters.values() for one in all_of_them), strict=False):
        if any(one != each[0] for one in each) or each[0].kind != _Parameter.POSITIONAL_OR_KEYWORD:
            break
        same.append(each[0])
    rest = [_Parameter("args", _Parameter.VAR_POSITIONAL), _Parameter("kwargs", _Parameter.VAR_KEYWORD)]
    returns = {one.return_annotation for one in all_of_them}
    return inspect.Signature([*same, *rest], return_annotation=returns.pop() if len(returns) == 1 else "Any")
