"""What a module that learns an encoding's parameters is: its name, its arguments and its text, read from the
description.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _core

SITES = ("Bias", "Term", "Rows", "Inputs")
MISSING = inspect.Parameter.empty


class Argument(NamedTuple):
    """An argument of a module's constructor. role: what it is: a spec, a size, a setting, a start, a place, …."""

    role: str
    name: str
    annotation: str
    default: Any = MISSING
    by_name: bool = False


class ModuleInfo(NamedTuple):
    """A class that is to be made. base: Input, Rows, Bias or Described."""

    name: str
    kind: str
    base: str
    arguments: tuple[Argument, ...]
    given: tuple[tuple[str, bool], ...]  # what a model computes for each call, and whether it may be left out
    parameters: tuple[str, ...]
    text: str

    @property
    def signature(self) -> inspect.Signature:
        kinds = {True: inspect.Parameter.KEYWORD_ONLY, False: inspect.Parameter.POSITIONAL_OR_KEYWORD}
        return inspect.Signature(
            [
                inspect.Parameter(a.name, kinds[a.by_name], default=a.default, annotation=a.annotation)
                for a in self.arguments
            ]
        )


def modules() -> list[ModuleInfo]:
    """The modules of all encodings whose tables are not made by hand."""
    found = [kind for kind in vars(_core).values() if isinstance(kind, type) and issubclass(kind, _core.Encoding)]
    kinds = sorted(kind.__name__ for kind in found if kind is not _core.Encoding)
    return [_info(kind, traits) for kind in kinds if not (traits := _core._traits(kind))["by_hand"]]


def _info(kind: str, traits: dict[str, Any]) -> ModuleInfo:
    arguments = tuple(sorted(_arguments(traits), key=lambda a: (a.by_name, a.default is not MISSING)))
    parameters = traits["parameters"]
    given = tuple((name, of["optional"]) for name, of in parameters.items() if not of["learned"])
    learned = tuple(name for name, of in parameters.items() if of["learned"])
    text = "\n".join([_text(traits), *_text_of_sizes(arguments, learned)])
    return ModuleInfo(_name(kind, traits), kind, _base(traits, given), arguments, given, learned, text)


def _name(kind: str, traits: dict[str, Any]) -> str:
    own = [spec for spec in traits["specs"] if kind in [spec + site for site in SITES]]
    return traits["module"] or (own[0] if own else kind)


def _base(traits: dict[str, Any], given: tuple[Any, ...]) -> str:
    if traits["inputs"]:
        return "Input"
    if given:
        return "Described"
    if traits["rows"]:
        return "Rows"
    return "Described" if traits["reads_content"] or traits["values"] else "Bias"


def _arguments(traits: dict[str, Any]) -> Iterator[Argument]:
    """The arguments in their order; those that must be given come first."""
    specs, optional = " | ".join(f"_core.{name}" for name in traits["specs"]), traits["spec_optional"]
    learned = {name: of for name, of in traits["parameters"].items() if of["learned"]}
    if specs and not optional:
        yield Argument("spec", "spec", specs)
    sizes = _sizes(learned.values())
    for name, must in sizes.items():
        if must:
            yield Argument("size", name, "int")
    for name, annotation, default, _ in traits["settings"]:
        if name != "group" or not learned:  # heads share sets of parameters evenly
            yield Argument("setting", name, annotation, default)
    for name, default in dict(of["start"][1:] for of in learned.values() if of["start"][1]).items():
        yield Argument("start", name, "float" if default else "float | None", default or None)
    if traits["values"]:
        yield Argument("size", "value_dim", "int | None", None)
        yield Argument("values", "values", "bool", True)
    for name, must in sizes.items():
        if not must and name != "value_dim":
            yield Argument("size", name, "int | None", None)
    if optional:
        yield Argument("spec", "spec", f"{specs} | None", None, True)
    for name, of in learned.items():
        if of["beside_spec"]:
            yield Argument("learn", f"learn_{name}", "bool", False, True)
    if learned:
        yield Argument("place", "device", "torch.device | str | int | None", None, True)
        yield Argument("place", "dtype", "torch.dtype | None", None, True)


def _sizes(parameters: Any) -> dict[str, bool]:
    """The sizes that a spec does not tell, and whether they must be given. A set of parameters serves a head."""
    found: dict[str, bool] = {}
    for of in parameters:
        for name, asked in zip(of["extents"], of["asked"], strict=True):
            if asked != "told":
                called = "heads" if name == "sets" else name
                found[called] = found.get(called, False) or asked == "must"
    return found


def _text(traits: dict[str, Any]) -> str:
    lines = [traits["text"], ""]
    for name, of in traits["parameters"].items():
        lines.append(f"{name} [{', '.join(of['extents'])}]: {of['text']}" + ("" if of["learned"] else _COMPUTED))
        if of["learned"] and of["start"][0]:
            lines.append(f"    Starts {of['start'][0]}.")
    lines += [f"{name}: {text}" for name, _, _, text in traits["settings"] if text]
    return "\n".join(lines).rstrip()


def _text_of_sizes(arguments: tuple[Argument, ...], learned: tuple[str, ...]) -> Iterator[str]:
    """What is said of arguments that are no settings."""
    sizes = [one.name for one in arguments if one.role == "size"]
    if len(sizes) > 1:
        yield f"{', '.join(sizes)}: sizes, in this order, or by their names."
    if learned:
        yield "device, dtype: where parameters are made, and of which type; PyTorch's defaults if not given."


_COMPUTED = " The model computes it and gives it to encoding()."
