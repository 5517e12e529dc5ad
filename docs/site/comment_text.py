"""Comments of headers and docstrings as reStructuredText: paragraphs, lists, `code`, indented formulas and programs."""

import re
import textwrap
from collections.abc import Callable, Iterable

SPECIAL = re.compile(r"([\\*`_|<>])")
TYPE = re.compile(r"[A-Z][a-z]+[A-Z]\w+")
CODE = re.compile(r"(?::\w+:)?(``?)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
LIST = re.compile(r"^([-*]|\d+[.)]) ")
ARGUMENT = re.compile(r"([a-z][a-z_0-9]*)( \[[^\]]*\])?: ")
PROGRAM = re.compile(r";(\s*//.*|   .*)?$|\{$|^(import|from|def|with|for) .*|^\w+ = \w+[.(]|^\w+(\.\w+)+\(", re.M)


def _plain(text: str, name: Callable[[str], str]) -> str:
    """Words outside of code; those like ShapeError are linked as well."""
    out = []
    for part in re.split(r"(?<![^\s([])([A-Z][a-z]+[A-Z]\w+)(?![\w:{])", text):
        role = name(part) if TYPE.fullmatch(part) else ""
        out.append(f"{role}\\ " if role else SPECIAL.sub(r"\\\1", part))  # an escaped space parts a role from what follows
    return "".join(out)


def inline(text: str, name: Callable[[str], str]) -> str:
    """A paragraph; `name` may give what stands for a word of code: a role that links it."""
    out, at = [], 0
    for match in CODE.finditer(text):
        out.append(_plain(text[at : match.start()], name))
        word = " ".join(match[2].split())
        out.append(name(word) or f"``{word}``")
        out.append("\\ ")
        at = match.end()
    return "".join([*out, _plain(text[at:], name)])


def _blocks(text: str) -> Iterable[str]:
    """Paragraphs and indented blocks. A paragraph may go on with indented lines; a program that follows at once may not."""
    for block in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        lines = block.split("\n")
        indented = [line.startswith("    ") for line in lines]
        if not indented[0] and all(indented[1:]) and len(lines) > 1 and lines[0].endswith(":"):
            yield lines[0]
            yield "\n".join(lines[1:])
        else:
            yield block


def _joined(blocks: Iterable[str]) -> list[str]:
    out: list[str] = []
    for block in blocks:
        if out and block.startswith("    ") and out[-1].startswith("    "):
            out[-1] += "\n\n" + block
        else:
            out.append(block)
    return out


def to_rst(text: str, name: Callable[[str], str] = lambda _: "", language: str = "cpp") -> str:
    out = []
    for block in _joined(_blocks(text)):
        if not block.strip():
            continue
        if block.startswith("    "):
            code = textwrap.dedent(block)
            programs = PROGRAM.search(code) and not re.search(r"[Σ√∂∈←]", code)
            out.append(f".. code-block:: {language if programs else 'text'}\n   :force:\n\n{textwrap.indent(code, '   ')}")
        elif LIST.match(block):
            items = re.split(r"\n(?=(?:[-*]|\d+[.)]) )", block)
            parts = [LIST.match(item) for item in items]
            out.append("\n".join(f"{'-' if part[1] in '-*' else '#.'} " + inline(" ".join(item[part.end() :].split()), name)
                                 for part, item in zip(parts, items)))
        elif ARGUMENT.match(block):
            starts = [match.start() for match in re.finditer(f"^{ARGUMENT.pattern}", block, re.M)]
            items = [block[begin:end] for begin, end in zip(starts, [*starts[1:], len(block)])]
            parts = [ARGUMENT.match(item) for item in items]
            out.append("\n".join(f"- ``{part[1]}``{part[2] or ''}: " + inline(" ".join(item[part.end() :].split()), name)
                                 for part, item in zip(parts, items)))
        else:
            out.append(inline(" ".join(block.split()), name))
    return "\n\n".join(out)
