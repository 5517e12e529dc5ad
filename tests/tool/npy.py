"""Just enough of the .npy format for the tests, written apart from the library's own reader."""

import ast
import struct

FORMATS = {"<f4": "f", "<f8": "d", "<f2": "e", "<u2": "H", "<i8": "q", "<i4": "i", "|b1": "?"}


def write(path, descr, shape, values):
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{len(values)}{FORMATS[descr]}", *values))


def read(path):
    """Returns (descr, shape, values)."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert (10 + length) % 64 == 0 and header["fortran_order"] is False
    body = data[10 + length :]
    item = FORMATS[header["descr"]]
    count = len(body) // struct.calcsize(item)
    return header["descr"], list(header["shape"]), list(struct.unpack(f"<{count}{item}", body))
