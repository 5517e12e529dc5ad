"""The signatures of the extension's functions and methods: for ``inspect.signature``, and for calls that do not fit them."""

from __future__ import annotations

import ast
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _core

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


def wrong_call(function: Any, args: Sequence[Any], named: dict[str, Any]) -> str:
    """What must hold of a call that the extension does not take, as its own errors say it. Of several overloads that one
    speaks which fits best."""
    name = function.__qualname__.removesuffix(".__init__")
    found = [_signature(text, defaults or ()) for text, _, defaults in function.__nb_signature__]
    if type(function).__name__ == "nb_method":
        found = [one.replace(parameters=list(one.parameters.values())[1:]) for one in found]
        args = args[1:]
    refused = [_refused(list(one.parameters.values()), args, named) for one in found]
    return f"[{name}] " + max(refused, key=lambda one: one[0])[1]


def _refused(asked: Sequence[_Parameter], args: Sequence[Any], named: dict[str, Any]) -> tuple[int, str]:
    """How many arguments fit, and what is wrong with the first one that does not."""
    unnamed = [one for one in asked if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    by_name = {one.name: one for one in asked if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    kinds = {one.kind for one in asked}
    pairs = [*zip(unnamed, args, strict=False), *((by_name[key], x) for key, x in named.items() if key in by_name)]
    wrong = [(one, x) for one, x in pairs if not _fits(x, one)]
    fitting = len(pairs) - len(wrong)
    if len(args) > len(unnamed) and _Parameter.VAR_POSITIONAL not in kinds:
        return fitting, f"takes {_names(asked)}, got {len(args)} arguments"
    for key in named:
        if key not in by_name and _Parameter.VAR_KEYWORD not in kinds:
            return fitting, f"has no argument {key}; it takes {_names(asked)}"
        if key in {one.name for one in unnamed[: len(args)]}:
            return fitting, f"got its argument {key} twice"
    given = {one.name for one, _ in pairs}
    for one in by_name.values():
        if one.default is one.empty and one.name not in given:
            return fitting, f"{one.name}: must be given, {_plain(one.annotation)}"
    if wrong:
        one, x = wrong[0]
        return fitting, f"{one.name}: must be {_plain(one.annotation)}, got {_shown(x)}"
    types = [*(type(x).__name__ for x in args), *(f"{key}={type(x).__name__}" for key, x in named.items())]
    return fitting, f"takes {_names(asked, typed=True)}, got ({', '.join(types)})"


def _names(asked: Sequence[_Parameter], typed: bool = False) -> str:
    """(x, y, *, z), or with their types."""
    texts: list[str] = []
    for one in asked:
        if one.kind is one.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        texts.append(f"{one.name}: {_plain(one.annotation)}" if typed else one.name)
    return f"({', '.join(texts)})"


def _plain(annotation: Any) -> str:
    """Without the modules that names stand in."""
    named = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", str(annotation))
    return re.sub(r"Literal\[(.*?)\]", r"one of \1", named)


def _shown(x: Any) -> str:
    return repr(x) if x is None or isinstance(x, (bool, int, float, str)) else type(x).__name__


def _is_whole(x: Any) -> bool:
    try:
        return not _core._is_truth_value(x) and -(2**63) <= operator.index(x) < 2**63
    except TypeError:
        return False


_KINDS: dict[str, Callable[[Any], bool]] = {
    "int": _is_whole,
    "float": lambda x: (hasattr(x, "__float__") or hasattr(x, "__index__")) and not _core._is_truth_value(x),
    "str": lambda x: isinstance(x, str),
    "bool": lambda x: isinstance(x, bool),
    "list": lambda x: isinstance(x, list),
    "dict": lambda x: isinstance(x, dict),
    "Any": lambda x: True,
    "object": lambda x: True,
}


def _fits(x: Any, asked: _Parameter) -> bool:
    """Whether it is of the type that a signature states. Types that only the extension knows take anything but None."""
    if asked.annotation is asked.empty or (x is None and asked.default is None):
        return True
    return _fits_node(x, ast.parse(asked.annotation, mode="eval").body)


def _fits_node(x: Any, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _fits_node(x, node.left) or _fits_node(x, node.right)
    if isinstance(node, ast.Constant):
        return x is None if node.value is None else True
    of = node.value if isinstance(node, ast.Subscript) else node
    name = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    if name in _KINDS:
        return _KINDS[name](x)
    made = getattr(_core, name, None)
    return isinstance(x, made) if isinstance(made, type) else x is not None


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
