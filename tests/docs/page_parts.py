"""The parts of a Markdown page that tests read: fenced blocks, headings, what stands between."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.M | re.S)
COMMENT = re.compile(r"<!-- (?P<kind>given|not compiled): (?P<text>.*?) -->\s*\Z", re.S)
GENERATED = re.compile(r"^<!-- bearing (?P<arguments>[^\n]*?) -->$(?P<text>.*?)^<!-- end -->$", re.M | re.S)


@dataclass
class Block:
    """A fenced block. `comment` is what a comment right before it says, which readers do not see."""

    page: Path
    kind: str
    text: str
    line: int  # of its first line
    comment: str  # "given", "not compiled" or ""
    said: str  # what the comment says
    output: str | None = None  # of the block: a ```text block right behind it


def pages() -> list[Path]:
    """README and all of docs/, without the decisions, which are history."""
    return [ROOT / "README.md", *(page for page in sorted(ROOT.glob("docs/**/*.md")) if "adr" not in page.parts)]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(text):
        between = text[end : fence.start()]
        comment = COMMENT.search(between)
        block = Block(
            page,
            fence["kind"].strip(),
            fence["text"],
            text.count("\n", 0, fence.start("text")) + 1,
            comment["kind"] if comment else "",
            comment["text"] if comment else "",
        )
        if block.kind == "text" and found and not between.strip():
            found[-1].output = block.text
        found.append(block)
        end = fence.end()
    return found


def generated(page: Path) -> list[tuple[str, str]]:
    """The arguments and the text of each generated part."""
    return [(part["arguments"], part["text"]) for part in GENERATED.finditer(page.read_text(encoding="utf-8"))]


def sections(page: Path) -> dict[str, str]:
    """The text below each heading of the second level, in order."""
    text = page.read_text(encoding="utf-8")
    fences = [(fence.start(), fence.end()) for fence in FENCE.finditer(text)]
    heads = [h for h in re.finditer(r"^## +(.+?) *$", text, re.M) if not any(a <= h.start() < b for a, b in fences)]
    ends = [h.start() for h in heads[1:]] + [len(text)]
    return {head[1]: text[head.end() : end].strip() for head, end in zip(heads, ends)}
