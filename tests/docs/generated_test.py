"""Tests that scripts/docs refuses what it cannot write: generated_test.py REPOSITORY (in a copy of a few files)."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
TABLE = "<!-- bearing list -->\n\nnames\n\n<!-- end -->\n"
PLOT = """<!-- bearing plot curves rope:base=2 --background none -o docs/pictures/rope.svg -->

![a \\[b\\] \\< c](pictures/rope.svg)

Drawn by `bearing plot curves rope:base=2`.

<!-- end -->
"""
SVG = '<svg><desc id="desc">a [b] &lt; c</desc>\n<path d="M10.00,20"/></svg>\n'


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
        self.write("tests/docs/pictures.py", "")
        self.write("tests/tool/png.py", "")
        for file in ("scripts/docs", "tests/docs/pictures.py", "tests/tool/png.py"):
            shutil.copy(ROOT / file, self.root / file)
        self.command("      *' t5 ') words='buckets=' ;;")

    def write(self, file, text):
        (self.root / file).parent.mkdir(parents=True, exist_ok=True)
        (self.root / file).write_text(text)

    def command(self, completion):
        """A command in bearing's place, which lists `names` and draws SVG into its last argument."""
        self.write("bearing", f"""#!/bin/sh
case $1 in
  list) echo names ;;
  plot) [ "$2" != decay ] || exit 1
    for last; do :; done; cat >"$last" <<"END"
{SVG}END
    ;;
  *) cat <<"END"
{completion}
END
esac
""")
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

    def picture(self, svg):
        self.write("docs/page.md", PLOT)
        self.write("docs/pictures/rope.svg", svg)
        return self.check()

    def test_a_picture_is_shown_as_it_is_drawn(self):
        self.assertEqual(self.picture(SVG), (0, ""))
        self.assertEqual(self.picture(SVG.replace("10.00", "10.75")), (0, ""), "less than a pixel")
        for old, new in (("10.00", "11.50"), ("a [b]", "a [c]"), ("path", "line"), ("M10.00,20", "M10.00,20,30")):
            with self.subTest(new):
                code, error = self.picture(SVG.replace(old, new))
                self.assertEqual((code, error), (1, "docs: docs/pictures/rope.svg is not what is drawn; scripts/docs mends it\n"))
        (self.root / "docs/pictures/rope.svg").unlink()
        self.assertEqual(self.check()[0], 1)

    def test_a_picture_that_no_page_shows_is_an_error(self):
        self.picture(SVG)
        self.write("docs/pictures/other.svg", SVG)
        code, error = self.check()
        self.assertEqual((code, error), (1, "docs: docs/pictures/other.svg is shown by no page; scripts/docs mends it\n"))

    def test_a_plot_says_which_picture_it_draws(self):
        for wrong, words in (("docs/pictures/rope.png", "must have -o docs/pictures/FILE.svg, got: docs/pictures/rope.png"),
                             ("rope.svg", "must have -o docs/pictures/FILE.svg, got: rope.svg")):
            self.write("docs/page.md", PLOT.replace("docs/pictures/rope.svg", wrong))
            code, error = self.check()
            self.assertEqual(code, 1)
            self.assertIn(words, error)
            self.assertIn("that plot stands in docs/page.md", error)
        self.write("docs/page.md", PLOT.replace("curves", "decay"))
        self.assertEqual(self.check()[0], 1, "a plot that fails")
        self.write("docs/page.md", PLOT + PLOT)
        code, error = self.check()
        self.assertEqual(code, 1)
        self.assertIn("docs/pictures/rope.svg is drawn by another plot too", error)

    def test_an_empty_dictionary_is_an_error(self):
        self.command("      words=(of another form)")
        code, error = self.check()
        self.assertEqual(code, 1)
        self.assertIn("completion has no keys and words that could be read", error)

    def test_blocks_see_an_encoding_that_bearing_hpp_does_not_include_yet(self):
        self.write("include/bearing/encodings/two.hpp", "")
        self.write("README.md", "\n```cpp\nint x = 0;\n```\n" * 45)
        for file in ("tests/docs/cpp_blocks.py", "tests/docs/page_parts.py"):
            shutil.copy(ROOT / file, self.root / file)
        written = self.root / "blocks.cc"
        subprocess.run([sys.executable, "-B", self.root / "tests/docs/cpp_blocks.py", written], check=True, timeout=60)
        self.assertIn("#include <bearing/encodings/two.hpp>\n", written.read_text())


if __name__ == "__main__":
    unittest.main()
