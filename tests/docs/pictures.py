"""Which SVG files of a folder show another picture than the file of that name in an older one, or have none there:
pictures.py OLD NEW prints their names, one on each line.

The text must be the same, a place may be off by a pixel and a colour by two of 255: figures are sums, whose last bits
differ between processors.
"""

import base64
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tool"))
import png

PIXELS = 1.0
LEVELS = 2
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
IMAGE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=\s]+)")


def parts(svg: str) -> tuple[list[bytes], str, list[str], list[float]]:
    """Embedded images, words that must be equal, and the text between numbers with the numbers."""
    images = [base64.b64decode(one) for one in IMAGE.findall(svg)]
    text = IMAGE.sub("image", svg)
    words = "".join(re.findall(r"<(?:title|desc)[^>]*>.*?</|<text[^>]*>.*?</text>", text, re.S))
    words = re.sub(r"<[^>]*>", "|", words)
    return images, words, NUMBER.split(text), [float(one) for one in NUMBER.findall(text)]


def same_image(old: bytes, new: bytes) -> bool:
    if old == new:
        return True
    (width, height, rows), (other_width, other_height, other_rows) = png.read(old), png.read(new)
    if (width, height) != (other_width, other_height):
        return False
    pairs = ((a, b) for row, other in zip(rows, other_rows) for a, b in zip(row, other))
    return all(abs(x - y) <= LEVELS for a, b in pairs for x, y in zip(a, b))


def same(old: str, new: str) -> bool:
    if old == new:
        return True
    images, words, text, numbers = parts(old)
    other_images, other_words, other_text, other_numbers = parts(new)
    if words != other_words or text != other_text or len(images) != len(other_images):
        return False
    if any(abs(a - b) > PIXELS for a, b in zip(numbers, other_numbers)):
        return False
    return all(same_image(a, b) for a, b in zip(images, other_images))


if __name__ == "__main__":
    old, new = map(Path, sys.argv[1:])
    for drawn in sorted(new.glob("*.svg")):
        shown = old / drawn.name
        if not shown.exists() or not same(shown.read_text("utf-8"), drawn.read_text("utf-8")):
            print(drawn.name)
