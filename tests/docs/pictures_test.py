"""Tests of the pictures that pages show: pictures_test.py REPOSITORY SAMPLES (the program of tests/tool/plot_samples.cc)."""

import json
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tool"))
import svg_words

SAMPLES = sys.argv.pop()
DOCS = Path(sys.argv.pop()) / "docs"
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))
FIGURES = sorted((DOCS / "lab/figures").glob("*.json"))


def texts_of(panel):
    """What a reader needs of a panel: titles, the ticks that it names, the label of its colours."""
    for axis in (panel["x"], panel["y"]):
        yield axis["title"]
        yield from (tick["text"] for tick in axis["ticks"])
    yield panel["title"]
    yield from (series["label"] for series in panel["series"])
    if panel["cells"]:
        yield panel["cells"]["title"]


class Pictures(unittest.TestCase):
    def test_no_text_leaves_a_picture(self):
        self.assertGreater(len(PICTURES), 50)
        for file in PICTURES:
            with self.subTest(file.name):
                self.assertEqual(svg_words.outside(file.read_text("utf-8"), SAMPLES), [])

    def test_no_line_goes_through_a_text(self):
        for file in PICTURES:
            with self.subTest(file.name):
                self.assertEqual(svg_words.struck(file.read_text("utf-8"), SAMPLES), [])

    def test_no_text_of_a_figure_is_missing(self):
        # gnuplot leaves out a text whose place is not in the picture. A title may stand in several lines.
        self.assertGreater(len(FIGURES), 5)
        for file in FIGURES:
            with self.subTest(file.name):
                found, *_ = svg_words.words((DOCS / f"pictures/lab-{file.stem}.svg").read_text("utf-8"), SAMPLES)
                shown = {word for one in found for word in one.text.split()}
                panels = json.loads(file.read_text("utf-8"))["panels"]
                asked = {word for panel in panels for text in texts_of(panel) for word in text.split()}
                self.assertEqual(asked - shown, set())


if __name__ == "__main__":
    unittest.main()
