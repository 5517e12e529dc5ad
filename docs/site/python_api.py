"""The Python reference: signatures and texts of the installed package's stubs, for Sphinx's domain of Python.

Nothing is imported, so that PyTorch and JAX may be missing; griffe reads the stubs.
"""

import ast
import logging
import textwrap
from dataclasses import dataclass
from pathlib import Path

import griffe
from comment_text import to_rst

# Of any value; their texts are Python's own.
SILENT = {"__eq__", "__ne__", "__hash__", "__repr__", "__str__", "__reduce__", "__getstate__", "__setstate__", "__copy__",
          "__deepcopy__", "__init__", "__new__", "__replace__", "__match_args__", "__slots__"}


@dataclass
class Name:
    """A public name of a module."""

    module: str  # where it is imported from: bearing, bearing.torch, …
    name: str
    object: griffe.Object

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


class Package:
    def __init__(self, folder: Path):
        """`folder` has the folder `bearing`, with its stubs."""
        if not (folder / "bearing/_core.pyi").exists():
            raise SystemExit(f"site: {folder} must have the package bearing with its stubs; bearing/_core.pyi is missing")
        self.folder = folder
        logging.getLogger("griffe").setLevel(logging.ERROR)  # it warns of lists of names that are made while they are imported
        self.root = griffe.load("bearing", search_paths=[folder], allow_inspection=False, resolve_aliases=True)
        self.modules = {name: self._names(name) for name in ("bearing", "bearing.torch", "bearing.jax", "bearing.plot")}
        self.paths = {one.path for names in self.modules.values() for one in names}
        self.inside = {f"{one.path}.{member}" for names in self.modules.values() for one in names if one.object.is_class
                       for member in _members(one.object)}

    def _names(self, module: str) -> list[Name]:
        found = [Name(module, name, self._object(*place)) for name, place in self._public(module).items()]
        return sorted(found, key=lambda one: (one.object.is_function, one.name.lower()))

    def _object(self, module: str, name: str) -> griffe.Object:
        home = self.root if module == "bearing" else self.root[module.removeprefix("bearing.")]
        item = _members(home)[name]
        return item.final_target if item.is_alias else item

    def _public(self, module: str) -> dict[str, tuple[str, str]]:
        """What a module offers: its names, each with the module and the name of its definition. In a package a function
        hides the file of that name, which griffe's members would show."""
        path = self.folder / module.replace(".", "/")
        files = [path / "__init__.pyi", path / "__init__.py", path.with_suffix(".pyi"), path.with_suffix(".py")]
        file = next(file for file in files if file.exists())
        package = module if file.stem == "__init__" else module.rpartition(".")[0]
        found: dict[str, tuple[str, str]] = {}
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                home = f"{package}.{node.module}"
                for one in node.names:
                    if one.name == "*":
                        found |= self._public(home)
                    elif file.suffix == ".py" or one.asname == one.name:  # a stub offers what it imports `as` itself
                        found[one.asname or one.name] = (home, one.name)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = (module, node.name)
        return {name: place for name, place in found.items() if not name.startswith("_")}

    def text_of(self, module: str) -> str:
        home = self.root if module == "bearing" else self.root[module.removeprefix("bearing.")]
        return home.docstring.value if home.docstring else ""

    def types(self) -> dict[str, str]:
        """What signatures call their arguments, with its text."""
        found = {name: item for name, item in self.root["_types"].members.items() if not item.is_alias}
        return {name: item.docstring.value for name, item in found.items() if item.docstring}

    def link(self, word: str) -> str:
        """A role that links a word of code, if it names something here; bearing's own names come first."""
        plain = word.removesuffix("()")
        for path in (plain, *(f"{module}.{plain}" for module in self.modules)):
            if path in self.paths:
                return f":py:obj:`{word} <{path}>`"
            if path in self.inside:
                return f":py:obj:`{word} <{path}>`"
        return ""


def _members(home: griffe.Module | griffe.Class) -> dict[str, griffe.Object]:
    """Members in the order of the source, with functions that a stub states as overloads alone, which griffe keeps apart."""
    found = dict(home.members)
    for name, variants in home.overloads.items():
        if name not in found and variants:
            found[name] = variants[-1]
            variants[-1].overloads = list(variants)
    return dict(sorted(found.items(), key=lambda item: 0 if item[1].is_alias else item[1].lineno or 0))


def _annotation(value: object) -> str:
    text = str(value)
    return text[1:-1] if text[0] == text[-1] == "'" and text.count("'") == 2 else text


def _parameters(function: griffe.Function, method: bool) -> str:
    out, star = [], False
    kinds = griffe.ParameterKind
    parameters = list(function.parameters)
    if method and parameters and "staticmethod" not in function.labels:
        parameters = parameters[1:]
    for number, parameter in enumerate(parameters):
        if parameter.kind is kinds.keyword_only and not star:
            out.append("*")
            star = True
        star = star or parameter.kind is kinds.var_positional
        mark = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(parameter.kind, "")
        text = mark + parameter.name + (f": {_annotation(parameter.annotation)}" if parameter.annotation is not None else "")
        if parameter.default is not None and not mark:
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        out.append(text)
        follows = parameters[number + 1].kind if number + 1 < len(parameters) else None
        if parameter.kind is kinds.positional_only and follows is not kinds.positional_only:
            out.append("/")
    returns = f" -> {_annotation(function.returns)}" if function.returns is not None else ""
    return f"({', '.join(out)})" + ("" if function.name in ("__init__", "__new__") else returns)


def _variants(function: griffe.Function) -> list[griffe.Function]:
    return list(function.overloads or [function])


def _directive(kind: str, signatures: list[str], options: list[str], body: str) -> str:
    lead = f".. py:{kind}:: "
    head = lead + ("\n" + " " * len(lead)).join(signatures)
    return "\n".join([head, *(f"   {option}" for option in options), "", textwrap.indent(body, "   "), ""])


def _text(item: griffe.Object, package: Package) -> str:
    variants = item.overloads if item.is_function and item.overloads else []
    texts = [one.docstring.value for one in [*variants, item] if one.docstring]
    return "\n\n".join(to_rst(text, package.link, "python") for text in dict.fromkeys(texts))


def _member(item: griffe.Object, package: Package) -> str:
    if item.is_function:
        options = [f":{label}:" for label in ("staticmethod", "classmethod") if label in item.labels]
        return _directive("method", [item.name + _parameters(one, True) for one in _variants(item)], options, _text(item, package))
    kind = "property" if "property" in item.labels else "attribute"
    options = [f":type: {_annotation(item.annotation)}"] if item.annotation is not None else []
    if kind == "attribute" and item.value is not None and len(str(item.value)) < 60:
        options.append(f":value: {item.value}")
    return _directive(kind, [item.name], options, _text(item, package))


def rst(one: Name, package: Package) -> str:
    item = one.object
    if item.is_function:
        return _directive("function", [one.name + _parameters(variant, False) for variant in _variants(item)], [],
                          _text(item, package))
    if not item.is_class:
        return _member(item, package).replace(".. py:attribute::", ".. py:data::", 1)
    members = _members(item)
    made = members.get("__init__")
    signatures = [one.name + _parameters(variant, True) for variant in _variants(made)] if made else [one.name]
    parts = [_text(item, package)]
    if item.bases:
        parts.append("Bases: " + ", ".join(f"``{base}``" for base in item.bases))
    if made and made.docstring:
        parts.append(_text(made, package))
    for name, member in members.items():
        if name in SILENT or (name.startswith("_") and not name.startswith("__")) or member.is_alias:
            continue
        parts.append(_member(member, package))
    return _directive("class", signatures, [], "\n\n".join(part for part in parts if part))


def section(module: str, names: list[Name], package: Package) -> str:
    return "\n\n".join([f".. py:currentmodule:: {module}", *(rst(one, package) for one in names), ".. py:currentmodule:: None"])
