"""Links and anchors of Markdown as GitHub reads it: for the test of all links, and for the site, which rewrites them."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

FENCE = re.compile(r"^ {0,3}(?:[-*+>] +)*(`{3,}|~{3,})")
ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)]) +")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
TARGET = re.compile(
    r"\]\(\s*(?:<([^<>\n]*)>|([^\s()]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)"  # [text](target "title")
    r"|^ {0,3}\[[^\]\n]+\]:[ \t]+<?([^\s<>]+)>?"  # [label]: target
    r"|<(?:a|img)\b[^<>]*?\b(?:href|src)=[\"']([^\"']*)[\"']",
    re.M,
)
HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$", re.M)
NAMED = re.compile(r"<[a-z0-9]+\b[^<>]*?\b(?:id|name)=[\"']([^\"']+)[\"']")


class Link(NamedTuple):
    start: int  # of the target in the page's text
    end: int
    target: str

    @property
    def is_external(self) -> bool:
        return re.match(r"[a-z][a-z0-9+.-]*:|//", self.target, re.I) is not None

    def parts(self) -> tuple[str, str]:
        """The path and the anchor; either may be empty."""
        path, _, anchor = self.target.partition("#")
        return unquote(path), unquote(anchor)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def without_blocks(text: str) -> str:
    """The text with blanks in place of fenced and indented code, so that every character stays where it was."""
    lines, fence, in_list, may_indent = [], "", False, True
    for line in text.split("\n"):
        begins = FENCE.match(line)
        if fence:
            if begins and begins[1].startswith(fence) and not line[begins.end() :].strip():
                fence = ""
            lines.append(" " * len(line))
        elif begins:
            fence = begins[1]
            lines.append(" " * len(line))
        elif line.startswith("    ") and line.strip() and may_indent and not in_list:
            lines.append(" " * len(line))
        else:
            if ITEM.match(line):
                in_list = True
            elif line.strip() and not line.startswith(" "):
                in_list = in_list and not may_indent
            may_indent = not line.strip()
            lines.append(line)
    return "\n".join(lines)


def _prose(text: str) -> str:
    found = COMMENT.sub(lambda match: _blank(match[0]), without_blocks(text))
    return CODE.sub(lambda match: _blank(match[0]), found)


def links(text: str) -> Iterator[Link]:
    """Every link and picture, in the order of the page."""
    for match in TARGET.finditer(_prose(text)):
        group = next(index for index in range(1, 5) if match[index] is not None)
        start, end = match.span(group)
        yield Link(start, end, text[start:end])


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    plain = re.sub(r"(?<![\w*])[*_]{1,2}(\S(?:.*?\S)?)[*_]{1,2}(?![\w*])", r"\1", plain)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """What may stand after the # of a link to the page."""
    found: dict[str, int] = {}
    names = set()
    for match in HEADING.finditer(COMMENT.sub(lambda comment: _blank(comment[0]), without_blocks(text))):
        name = slug(match[2])
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names | {match[1] for match in NAMED.finditer(_prose(text))}
