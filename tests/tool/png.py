"""Reads PNG files of 8 bits, as gnuplot writes them: rows of (red, green, blue) and what shows through."""

import struct
import zlib


def read(data):
    """(width, height, rows); a row is a list of (red, green, blue, alpha)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height, kind, colours = 8, b"", 0, 0, 0, []
    while at < len(data):
        (length,), name = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + length]
        at += 12 + length
        if name == b"IHDR":
            width, height, bits, kind = struct.unpack(">IIBB", body[:10])
            assert bits == 8 and body[12] == 0, "no other depth, and not interlaced"
        elif name == b"PLTE":
            colours = [tuple(body[i:i + 3]) for i in range(0, length, 3)]
        elif name == b"IDAT":
            packed += body
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    lines = unfiltered(zlib.decompress(packed), width * channels, channels)
    return width, height, [pixels(line, kind, colours) for line in lines]


def unfiltered(data, stride, step):
    above = bytearray(stride)
    for at in range(0, len(data), stride + 1):
        kind, line = data[at], bytearray(data[at + 1:at + 1 + stride])
        if kind == 1:
            for i in range(step, stride):
                line[i] = (line[i] + line[i - step]) & 255
        elif kind == 2:
            line = bytearray((a + b) & 255 for a, b in zip(line, above))
        elif kind == 3:
            for i in range(stride):
                line[i] = (line[i] + ((line[i - step] if i >= step else 0) + above[i]) // 2) & 255
        elif kind == 4:
            for i in range(stride):
                a, c = (line[i - step], above[i - step]) if i >= step else (0, 0)
                b = above[i]
                pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
                line[i] = (line[i] + (a if pa <= pb and pa <= pc else b if pb <= pc else c)) & 255
        yield line
        above = line


def pixels(line, kind, colours):
    if kind == 3:
        return [(*colours[i], 255) for i in line]
    if kind == 0:
        return [(i, i, i, 255) for i in line]
    if kind == 4:
        return [(line[i], line[i], line[i], line[i + 1]) for i in range(0, len(line), 2)]
    step = 3 if kind == 2 else 4
    return [(*line[i:i + 3], line[i + 3] if step == 4 else 255) for i in range(0, len(line), step)]
