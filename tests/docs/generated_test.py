"""Tests that scripts/docs refuses what it cannot write: generated_test.py REPOSITORY (in a copy of a few files)."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
TABLE = "<!-- bearing list -->\n\nnames\n\n<!-- end -->\n"


class Generated(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for file, text in (("page.md", TABLE), ("docs/page.md", ""), ("docs/guide/page.md", ""),
                           ("tests/fuzz/encoding_spec.dict", '# Names\n"buckets="\n"t5"\n')):
            self.write(file, text)
        for folder in ("encodings", "reference"):
            self.write(f"include/bearing/{folder}/one.hpp", "")
        for header, folder in (("bearing", "encodings"), ("reference", "reference")):
            self.write(f"include/bearing/{header}.hpp", f"#include <bearing/{folder}/one.hpp>\n")
        self.write("scripts/docs", "")
        shutil.copy(ROOT / "scripts/docs", self.root / "scripts/docs")
        self.command("      *' t5 ') words='buckets=' ;;")

    def write(self, file, text):
        (self.root / file).parent.mkdir(parents=True, exist_ok=True)
        (self.root / file).write_text(text)

    def command(self, completion):
        """A command in bearing's place, which lists `names`."""
        self.write("bearing", f'#!/bin/sh\nif [ "$1" = list ]; then echo names; else cat <<"END"\n{completion}\nEND\nfi\n')
        (self.root / "bearing").chmod(0o755)

    def check(self):
        result = subprocess.run([self.root / "scripts/docs", "--check"], capture_output=True, text=True, timeout=60,
                                env={"PATH": "/usr/bin:/bin", "BEARING_COMMAND": str(self.root / "bearing")})
        return result.returncode, result.stderr

    def test_what_is_written_is_fresh(self):
        self.assertEqual(self.check(), (0, ""))
        self.write("page.md", TABLE.replace("names", "name"))
        code, error = self.check()
        self.assertEqual(code, 1)
        self.assertIn("page.md is stale", error)

    def test_a_marker_that_cannot_be_read_is_an_error(self):
        for marker in ("<!-- bearing list --Markdown -->", "<!--bearing list -->", "<!-- bearing list --> x",
                       " <!-- bearing list -->", "<!-- bearing list"):
            with self.subTest(marker):
                self.write("docs/page.md", TABLE.replace("<!-- bearing list -->", marker))
                code, error = self.check()
                self.assertEqual(code, 1)
                self.assertIn("docs/page.md: must be <!-- bearing ARGUMENTS --> alone on a line, ", error)
                self.assertIn(marker, error)

    def test_an_empty_dictionary_is_an_error(self):
        self.command("      words=(of another form)")
        code, error = self.check()
        self.assertEqual(code, 1)
        self.assertIn("completion has no keys and words that could be read", error)


if __name__ == "__main__":
    unittest.main()
