"""Links within the pages lead somewhere, and the glossary is in order: links_test.py."""

import re
import unittest
from pathlib import Path

from page_parts import FENCE, ROOT, pages

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
LEAST = 300  # links in the pages: a pattern that finds none would pass otherwise


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        name, again = anchor(heading), 0
        while (f"{name}-{again}" if again else name) in found:
            again += 1
        found.add(f"{name}-{again}" if again else name)
    return found


def fault(page: Path, link: str) -> str:
    """What is wrong with a link of a page; empty if nothing is."""
    file, _, place = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if not target.exists():
        return f"{page}: no file is at {link}"
    if place and target.suffix == ".md" and place not in anchors(target):
        return f"{page}: no heading is at {link}"
    return ""


class Links(unittest.TestCase):
    def test_links_lead_to_files_and_headings(self):
        found = [(page, link) for page in pages() for link in LINK.findall(prose(page)) if "://" not in link]
        self.assertGreaterEqual(len(found), LEAST)
        wrong = [text for text in (fault(page, link) for page, link in found) if text]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_a_link_that_leads_nowhere_is_found(self):
        page = ROOT / "docs/guide/glossary.md"
        self.assertEqual(fault(page, "#m-and-n"), "")
        self.assertIn("no heading", fault(page, "#no-such-word"))
        self.assertIn("no file", fault(page, "no_such_page.md"))

    def test_headings_that_are_alike_have_anchors_of_their_own(self):
        self.assertEqual(anchor("`bearing --version`"), "bearing---version")
        self.assertEqual(anchor("[Masks](x.md): causal, packed"), "masks-causal-packed")


class Glossary(unittest.TestCase):
    def test_words_stand_in_order_and_lead_to_their_use(self):
        text = (ROOT / "docs/guide/glossary.md").read_text(encoding="utf-8")
        words = re.findall(r"^### (.+)\n\n((?:(?!#).*\n?)*)", text.split("\n## Words\n")[1], re.M)
        self.assertGreaterEqual(len(words), 60)
        names = [re.sub(r"[^a-z0-9]", "", name.lower()) for name, _ in words]
        self.assertEqual(names, sorted(names))
        for name, told in words:
            self.assertIn("](", told, f"{name}: must have a link to where it is used")


if __name__ == "__main__":
    unittest.main()
