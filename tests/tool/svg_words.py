"""Where the words of a picture lie that gnuplot drew as SVG and the command finished."""

import re
import subprocess
import xml.etree.ElementTree as xml
from typing import NamedTuple

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {("12", False): "small", ("13", False): "usual", ("13", True): "bold", ("16", True): "title"}
ASCENT, DESCENT = 0.76, 0.24  # of a letter's height, over and under the line that it stands on
PLACE = re.compile(r"translate\(([-\d.]+),([-\d.]+)\)( rotate\(-?90(?:\.0+)?\))?")

# Drawn for a page of any colour, as its pictures are. A line of two points: axes have more.
LINE = re.compile(r"<path stroke='rgb\(128, 128, 128\)'[^>]* d='M([\d.]+),([\d.]+) L([\d.]+),([\d.]+)\s*'")


class Word(NamedTuple):
    """A text in pixels from the top left."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, left, top, right, bottom):
        return self.left < right and left < self.right and self.top < bottom and top < self.bottom


def size_of(group):
    return SIZES[f"{float(group.get('font-size')):g}", group.get("font-weight") == "bold"]


def words(picture, samples):
    """The texts of a picture, as wide as `samples`, the program of plot_samples.cc, says; and the picture's size."""
    tree = xml.fromstring(picture)
    groups = [(group, text) for group in tree.iter(SVG + "g") for text in group.findall(SVG + "text")]
    groups = [(group, "".join(text.itertext())) for group, text in groups]
    lines = "".join(f"{size_of(group)} {text}\n" for group, text in groups)
    said = subprocess.run([samples, "--widths"], input=lines, capture_output=True, text=True, check=True).stdout.split()
    found = [word(group, text, float(width)) for (group, text), width in zip(groups, said, strict=True)]
    width, height = map(float, tree.get("viewBox").split()[2:])
    return found, width, height


def word(group, text, width):
    x, y, upwards = PLACE.fullmatch(group.get("transform")).groups()
    x, y, high = float(x), float(y), float(group.get("font-size"))
    before = {"start": 0, "middle": width / 2, "end": width}[group.get("text-anchor", "start")]
    if upwards:
        return Word(text, x - ASCENT * high, y - width + before, x + DESCENT * high, y + before)
    return Word(text, x - before, y - ASCENT * high, x - before + width, y + DESCENT * high)


def outside(picture, samples):
    """The texts that leave the picture."""
    found, width, height = words(picture, samples)
    return [one.text for one in found if one.left < 0 or one.top < 0 or one.right > width or one.bottom > height]


def struck(picture, samples):
    """The texts that a straight line of the axes' colour goes through: a line of the grid, or a guide."""
    found, *_ = words(picture, samples)
    lines = [tuple(map(float, line)) for line in LINE.findall(picture)]
    return [one.text for one in found for x, y, to_x, to_y in lines
            if one.meets(min(x, to_x), min(y, to_y), max(x, to_x), max(y, to_y))]
