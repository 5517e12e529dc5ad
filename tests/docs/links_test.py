"""Every link of every Markdown file of the repository leads somewhere: links_test.py REPOSITORY. Fetches nothing.

A relative link must name a file or folder of the repository, its anchor a heading of that page (or a line of a source:
#L12), and every page of docs/ must be linked by another page. A heading is at most one level below the one before it, else
the site's build warns.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from links import COMMENT, HEADING, anchors, links, without_blocks

ROOT = Path(sys.argv.pop(1)).resolve()
LEAST = 250  # links: a pattern that finds none would pass otherwise


def files(root: Path) -> set[Path]:
    """The repository's files, also those that are not committed yet."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {root / name for name in listed.split("\0") if name and (root / name).exists()}


def skipped(text: str) -> list[str]:
    """Headings that are more than one level below the one before."""
    headings = [(len(found[1]), found[2]) for found in HEADING.finditer(without_blocks(COMMENT.sub("", text)))]
    return [name for (above, _), (level, name) in zip(headings, headings[1:]) if level > above + 1]


class Repository:
    def __init__(self, root: Path):
        self.root, self.files = root, files(root)
        self.folders = {folder for file in self.files for folder in file.parents}
        self.pages = sorted(file for file in self.files if file.suffix == ".md")
        self.texts = {page: page.read_text(encoding="utf-8") for page in self.pages}
        self.anchors = {page: anchors(text) for page, text in self.texts.items()}
        self.number, self.linked = 0, set()

    def complaint(self, page: Path, path: str, anchor: str) -> str:
        """Why a link leads nowhere, or nothing."""
        target = Path(self.root, path[1:]) if path.startswith("/") else Path(page.parent, path) if path else page
        target = Path(*target.parts).resolve()
        if target in self.folders:
            self.linked.add(target / "README.md")
            return "" if not anchor else "a folder has no anchors"
        if target not in self.files:
            return "there is no such file in the repository"
        if target != page:
            self.linked.add(target)
        if not anchor:
            return ""
        if target in self.anchors:
            return "" if anchor in self.anchors[target] else "that page has no such heading"
        lines = target.read_text(encoding="utf-8").count("\n")
        numbered = anchor[0] == "L" and anchor[1:].isdigit() and 1 <= int(anchor[1:]) <= lines
        return "" if numbered else f"the anchor of a source must be L1 to L{lines}"

    def broken(self) -> list[str]:
        found = []
        for page, text in self.texts.items():
            for link in links(text):
                self.number += 1
                why = "" if link.is_external else self.complaint(page, *link.parts())
                if why:
                    line = text.count("\n", 0, link.start) + 1
                    found.append(f"{page.relative_to(self.root)}:{line}: {link.target}: {why}")
        return found

    def lonely(self) -> list[str]:
        """Pages of docs/ that no other page links; broken() was called before."""
        pages = [page for page in self.pages if page.is_relative_to(self.root / "docs")]
        return [str(page.relative_to(self.root)) for page in pages if page not in self.linked]


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        repository = Repository(ROOT)
        self.assertEqual([], repository.broken())
        self.assertEqual([], repository.lonely(), "no page links these")
        self.assertGreaterEqual(repository.number, LEAST)

    def test_no_heading_skips_a_level(self):
        texts = Repository(ROOT).texts
        self.assertEqual({}, {page.name: skipped(text) for page, text in texts.items() if skipped(text)})


class Mistakes(unittest.TestCase):
    """What is wrong is found, and what only looks like a link is not."""

    def test_of_headings(self):
        self.assertEqual(["C"], skipped("# A\n\n## B\n\n#### C\n"))
        self.assertEqual([], skipped("# A\n\n## B\n\n### C\n\n## D\n\n```sh\n#### e\n```\n"))

    def broken(self, text: str, **others: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            subprocess.run(["git", "init", "-q", folder], check=True)
            for name, content in {"page": text, **others}.items():
                (root / f"{name}.md").write_text(content, encoding="utf-8")
            (root / "source.cc").write_text("one\ntwo\n")
            (root / "docs").mkdir()
            (root / "docs/lonely.md").write_text("# Nobody links this\n")
            repository = Repository(root)
            found = [line.split(": ", 1)[1] for line in repository.broken()]
            self.assertEqual(["docs/lonely.md"], repository.lonely())
            return found

    def test_of_links(self):
        for wrong in ("[a](gone.md)", "![a](gone.svg)", "[a](#gone)", "[a](other.md#gone)", "[a](../page.md)", "[a]: gone.md",
                      '[a](gone.md "title")', "<img src='gone.png'>", "[a](docs#gone)", "[a](source.cc#L3)", "[a](source.cc#x)",
                      "- item\n\n    [a](gone.md)", "`code` [a](gone.md)", "[![a](gone.svg)](other.md)"):
            self.assertEqual(1, len(self.broken(f"# Page\n\n{wrong}\n", other="# Other\n")), wrong)

    def test_that_are_none(self):
        for right in ("[a](other.md)", "[a](#page)", "[a](other.md#a-b-c)", "[a](other.md#twice-1)", "[a](docs)", "[a](docs/)",
                      "[a](source.cc#L2)", "[a](https://example.org/gone.md)", "[a](/other.md)", "`[a](gone.md)`",
                      "```text\n[a](gone.md)\n```", "    f[i](gone)", "<!-- [a](gone.md) -->", "[a](mailto:a@b.c)"):
            self.assertEqual([], self.broken(f"# Page\n\n{right}\n", other="# A `b`: C?\n\n## Twice\n\n## Twice\n"), right)


if __name__ == "__main__":
    unittest.main()
