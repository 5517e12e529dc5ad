"""Every encoding's page has the same sections, with what belongs there: skeleton_test.py COMMAND."""

import json
import subprocess
import sys
import unittest

from page_parts import ROOT, blocks, generated, sections

COMMAND = sys.argv.pop(1)
SECTIONS = [
    "In one sentence",
    "Use it when",
    "Picture",
    "Formula",
    "Python",
    "C++",
    "Command",
    "In models",
    "Properties as measured",
    "Traps",
    "Gradient",
    "Sources",
]
# What a section must hold that the command writes, by its first words.
GENERATED = {
    "In one sentence": ("list", "--by fact"),
    "Picture": ("plot", ""),
    "Command": ("list", "--by key"),
    "In models": ("list", "--by model"),
    "Properties as measured": ("check", "--markdown"),
}
CODE = {"Python": "python", "C++": "cpp", "Command": "console"}
LEAST = 30  # words in a page's own sentences on when to use it


def encodings() -> dict[str, list[str]]:
    """The names on each page."""
    listed = json.loads(subprocess.run([COMMAND, "list", "--json"], capture_output=True, check=True).stdout)
    pages: dict[str, list[str]] = {}
    for one in listed["encodings"]:
        pages.setdefault(one["page"], []).append(one["name"])
    return pages


class Skeleton(unittest.TestCase):
    def test_pages_have_the_sections_in_order(self):
        for name in encodings():
            with self.subTest(page=name):
                self.assertEqual(list(sections(ROOT / f"docs/encodings/{name}.md")), SECTIONS)

    def test_no_section_is_empty(self):
        for name in encodings():
            for heading, text in sections(ROOT / f"docs/encodings/{name}.md").items():
                with self.subTest(page=name, section=heading):
                    self.assertGreater(len(text.split()), 3)

    def test_when_to_use_it_is_said_in_words(self):
        for name in encodings():
            with self.subTest(page=name):
                text = sections(ROOT / f"docs/encodings/{name}.md").get("Use it when", "")
                self.assertGreater(len(text.split()), LEAST)

    def test_what_the_description_holds_is_generated(self):
        for name, names in encodings().items():
            page = ROOT / f"docs/encodings/{name}.md"
            parts = sections(page)
            for heading, (command, option) in GENERATED.items():
                with self.subTest(page=name, section=heading):
                    here = [a for a, _ in generated(page) if f"<!-- bearing {a} -->" in parts.get(heading, "")]
                    here = [a.split() for a in here if a.startswith(command) and option in a]
                    self.assertTrue(here, f"must have <!-- bearing {command} … {option} -->")
                    if command != "plot":
                        for one in names:
                            self.assertIn(one, here[0])

    def test_code_of_every_kind_is_shown(self):
        for name in encodings():
            page = ROOT / f"docs/encodings/{name}.md"
            parts = sections(page)
            for heading, kind in CODE.items():
                with self.subTest(page=name, section=heading):
                    self.assertIn(f"```{kind}\n", parts.get(heading, ""))
            self.assertTrue(blocks(page))

    def test_pages_are_those_of_encodings(self):
        # Pages about a part of RoPE, which have no name of their own.
        parts = {"rope_gradients", "rope_rebase", "rotary_rows"}
        there = {page.stem for page in ROOT.glob("docs/encodings/*.md")}
        self.assertEqual(there, set(encodings()) | parts)


if __name__ == "__main__":
    unittest.main()
