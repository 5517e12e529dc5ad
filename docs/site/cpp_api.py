"""The C++ reference as pages: what Doxygen found in the public headers, in their order, for Sphinx's domain of C++.

Sphinx's own breathe is not used: it sorts a header's declarations by name, cannot tell two headers of one name, and refuses
digits that are grouped by '.
"""

import re
import textwrap
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

from comment_text import to_rst

KINDS = {"function": "function", "variable": "var", "typedef": "type", "enum": "enum", "define": "macro"}
SCOPES = {"class": "class", "struct": "struct", "concept": "concept"}


@dataclass
class Symbol:
    """A declaration with its text, and what is declared inside."""

    kind: str  # of Sphinx's directive
    name: str  # with all its scopes
    signature: str
    text: str
    file: str
    line: int
    inside: list["Symbol"] = field(default_factory=list)

    @property
    def short(self) -> str:
        return self.name.rpartition("::")[2]


def _flat(element: xml.Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _comment(element: xml.Element) -> str:
    parts = [element.find(name) for name in ("briefdescription", "detaileddescription")]
    texts = [verbatim.text or "" for part in parts if part is not None for verbatim in part.iter("verbatim")]
    return "\n\n".join(re.sub(r"^\s*///<? ?", "", text.strip(), flags=re.M) for text in texts)


def _tidy(code: str) -> str:
    """C++ as it is written here rather than as Doxygen prints it."""
    code = re.sub(r"(?<=\d)\s*'(?=\d{3})", "", code)  # Sphinx does not read 10'000
    code = re.sub(r"(?<=\w)<\s+", "<", code)
    code = re.sub(r"\s+>(?![>=])", ">", code)
    return re.sub(r"\s+", " ", code).replace("=delete", "= delete").replace("=default", "= default").strip()


def _template(element: xml.Element) -> str:
    parameters = element.find("templateparamlist")
    if parameters is None:
        return ""
    parts = []
    for parameter in parameters.findall("param"):
        part = " ".join(filter(None, (_flat(parameter.find(name)) for name in ("type", "declname"))))
        default = _flat(parameter.find("defval"))
        parts.append(part + (f" = {default}" if default else ""))
    clause = _flat(element.find("requiresclause"))
    return f"template<{', '.join(parts)}> " + (f"requires {clause} " if clause and "requires" not in clause else "")


def _is_silent(member: xml.Element, scope: str) -> bool:
    """What every value has and nobody looks up: copies, moves, destructors, comparisons that are defaulted."""
    name, text = _flat(member.find("name")), _comment(member)
    arguments = _flat(member.find("argsstring"))
    short = scope.rpartition("::")[2]
    copies = name in (short, "operator=") and re.match(rf"\((const )?{short} ?&&?\w*\)", arguments.replace(" &", "&"))
    return not text and (name.startswith("~") or bool(copies) or re.search(r"=\s*default$", arguments) is not None)


def _signature(member: xml.Element, kind: str, scope: str) -> str:
    name, text = _flat(member.find("name")), _flat(member.find("type"))
    prefix = _template(member)
    if kind == "enum":
        return name
    if kind == "macro":
        return name
    if kind == "type":
        meant = re.sub(r"^.*?=\s*(typedef )?", "", _flat(member.find("definition")))
        return f"{prefix}{name} = {_tidy(meant)}"
    static = "static " if member.get("static") == "yes" and scope else ""
    if kind == "function":
        explicit = "explicit " if member.get("explicit") == "yes" else ""
        return _tidy(f"{prefix}{static}{explicit}{text} {name}{_flat(member.find('argsstring'))}")
    initial = re.sub(r"^=\s*", "", _flat(member.find("initializer")))
    initial = "" if "{." in initial.replace(" ", "") else initial  # Sphinx reads no designators
    array = _flat(member.find("argsstring"))
    return _tidy(f"{prefix}{static}{text} {name}{array}") + (f" = {_tidy(initial)}" if initial else "")


class Headers:
    """All public symbols by header, as Doxygen's XML in `folder` has them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.by_header: dict[str, list[Symbol]] = {}
        self.compounds = {file.stem: xml.parse(file).getroot()[0] for file in folder.glob("*.xml")
                          if file.stem not in ("index", "Doxyfile")}
        nested = {ref.get("refid") for compound in self.compounds.values() if compound.get("kind") in ("class", "struct")
                  for ref in compound.findall("innerclass")}
        seen: set[str] = set()
        for identifier, compound in self.compounds.items():
            kind = compound.get("kind")
            if kind in SCOPES and identifier not in nested and "<" not in _flat(compound.find("compoundname")):
                self._add(self._scope(compound))  # a specialisation is no name of its own
            elif kind in ("namespace", "file"):
                namespace = _flat(compound.find("compoundname")) if kind == "namespace" else ""
                for member in compound.iter("memberdef"):
                    if (kind == "namespace" or member.get("kind") == "define") and member.get("id") not in seen:
                        seen.add(member.get("id"))
                        symbol = self._member(member, namespace)
                        if symbol:
                            self._add(symbol)
        for symbols in self.by_header.values():
            symbols.sort(key=lambda symbol: symbol.line)

    def _add(self, symbol: Symbol) -> None:
        self.by_header.setdefault(symbol.file, []).append(symbol)

    def _place(self, element: xml.Element) -> tuple[str, int]:
        location = element.find("location")
        return location.get("file").removeprefix("include/"), int(location.get("line"))

    def _scope(self, compound: xml.Element) -> Symbol:
        kind, name = SCOPES[compound.get("kind")], _flat(compound.find("compoundname"))
        short = name.rpartition("::")[2]
        symbol = Symbol(kind, name, _template(compound) + short, _comment(compound), *self._place(compound))
        if kind == "concept":
            meant = "".join(compound.find("initializer").itertext())
            symbol.text += "\n\n" + textwrap.indent(textwrap.dedent(meant).strip(), "    ")
            symbol.signature = re.sub(r"\s+", " ", re.match(r"\s*(template\s*<.*?>)\s*concept", meant, re.S)[1]) + " " + short
            return symbol
        bases = [_tidy(_flat(base)) for base in compound.findall("basecompoundref") if base.get("prot") == "public"]
        symbol.signature += f" : public {', public '.join(bases)}" if bases else ""
        for member in compound.iter("memberdef"):
            if member.get("prot") == "public" and member.get("kind") != "friend" and not _is_silent(member, name):
                symbol.inside.append(self._member(member, name))
        for ref in compound.findall("innerclass"):
            inner = self.compounds[ref.get("refid")]
            if ref.get("prot") == "public" and (inner.find("sectiondef") is not None or _comment(inner)):
                symbol.inside.append(self._scope(inner))
        symbol.inside.sort(key=lambda inner: inner.line)
        return symbol

    def _member(self, member: xml.Element, scope: str) -> Symbol:
        kind, name = KINDS[member.get("kind")], _flat(member.find("name"))
        full = f"{scope}::{name}" if scope else name
        in_class = scope and member.get("id").startswith(("class", "struct"))
        symbol = Symbol(kind, full, _signature(member, kind, scope if in_class else ""), _comment(member), *self._place(member))
        if kind == "enum":
            symbol.kind = "enum-class" if member.get("strong") == "yes" else "enum"
            for value in member.findall("enumvalue"):
                short = _flat(value.find("name"))
                initial = _flat(value.find("initializer"))
                symbol.inside.append(Symbol("enumerator", f"{full}::{short}", f"{short} {initial}".strip(), _comment(value),
                                            symbol.file, symbol.line))
        return symbol


def own_words(header: Path) -> str:
    """What a header says of itself: its // comments outside of namespaces, except before an include or a macro."""
    runs, depth, run = [], 0, []
    for line in header.read_text(encoding="utf-8").splitlines():
        if re.match(r"//(?!/)", line) and depth == 0:
            run.append(line[3:] if line.startswith("// ") else line[2:])
            continue
        if run and not line.startswith("#"):
            runs.append("\n".join(run))
        run = []
        depth += bool(re.match(r"namespace [\w:]+ \{", line)) - bool(re.match(r"\}  // namespace", line))
    return "\n\n".join(runs)


def names(symbols: list[Symbol]) -> list[str]:
    return [name for symbol in symbols for name in (symbol.name, *names(symbol.inside))]


class Linker:
    """Links a word of code in a text to the symbol that it names, if one does."""

    def __init__(self, headers: Headers):
        known = [name for symbols in headers.by_header.values() for name in names(symbols)]
        self.full: dict[str, str] = {}
        for name in sorted(known, key=lambda name: (name.count("::"), "reference" in name)):
            for shortened in (name, name.removeprefix("bearing::"), name.removeprefix("bearing::inspect::")):
                self.full.setdefault(shortened, name)

    def __call__(self, word: str) -> str:
        plain = word.removesuffix("()")
        if plain not in self.full or re.fullmatch(r"[a-z]\w?", plain):
            return ""
        return f":cpp:any:`{word} <{self.full[plain]}>`"


def rst(symbol: Symbol, linker: Linker, prefix: str) -> str:
    """The symbol's directive; prefix is its scope, which the signature takes where it is not nested."""
    domain = "c" if symbol.kind == "macro" else "cpp"
    signature = symbol.signature
    inner = [to_rst(symbol.text, linker)] + [rst(one, linker, "") for one in symbol.inside]
    body = "\n\n".join(part for part in inner if part)
    return f".. {domain}:{symbol.kind}:: {signature}\n\n" + textwrap.indent(body, "   ") + ("\n" if body else "")


def section(header: str, symbols: list[Symbol], linker: Linker) -> str:
    """What stands on a page of a header: its declarations, by namespaces in turn."""
    out, now = [], None
    for symbol in symbols:
        namespace = symbol.name.rpartition("::")[0]
        if namespace != now:
            out.append(f".. cpp:namespace:: {namespace or 'NULL'}")
            now = namespace
        out.append(rst(symbol, linker, namespace))
    return "\n\n".join([*out, ".. cpp:namespace:: NULL"])
