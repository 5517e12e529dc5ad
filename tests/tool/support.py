"""What tests of the command `bearing` share: running it as its users do, and the definitions to hold it to."""

import json
import math
import os
import pathlib
import pty
import random
import struct
import subprocess
import tempfile
import unittest

COMMAND = os.environ["BEARING_COMMAND"]
SOURCE = pathlib.Path(os.environ["BEARING_SOURCE_DIR"])
LLAMA = "examples/models/llama-3.1-8b.json"

SMALL = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_hidden_layers": 2, "rope_theta": 100.0, "max_position_embeddings": 64}
SPEC = '{"head_dim": 4, "pairing": "half", "base": 100}'


def without_terminal():
    return {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}


def run(*arguments, **settings):
    """Runs the command in the source directory, without what the caller's terminal has set."""
    environment = {**without_terminal(), **settings.pop("env", {})}
    settings.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([COMMAND, *map(str, arguments)], stderr=subprocess.PIPE, text=True, cwd=SOURCE,
                          env=environment, timeout=60, **settings)


def bfloat16(value):
    """Rounded to nearest, ties to even; the bits."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def from_bfloat16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def rotated(values, shape, dim, positions, base, sign=1):
    """The definition, for half pairs, on contiguous [batch, heads, time, dim]; positions [batch][time]."""
    out = list(values)
    batch, heads, time = shape
    for b in range(batch):
        for h in range(heads):
            for t in range(time):
                at = ((b * heads + h) * time + t) * dim
                for i in range(dim // 2):
                    angle = sign * positions[b][t] * base ** (-2 * i / dim)
                    u, v = values[at + i], values[at + i + dim // 2]
                    out[at + i] = u * math.cos(angle) - v * math.sin(angle)
                    out[at + i + dim // 2] = u * math.sin(angle) + v * math.cos(angle)
    return out


class Base(unittest.TestCase):
    """What tests of the command share."""

    def setUp(self):
        self.random = random.Random(7)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def path(self, name):
        return self.directory / name

    def listed(self, command, member):
        """A list of a command's JSON."""
        result = run(command, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)[member]

    def commands(self):
        """What the command says of itself: the options of each command, by name."""
        if not hasattr(self, "known"):
            self.known = {command["name"]: command["options"] for command in self.listed("help", "commands")}
        return self.known

    def put(self, name, config):
        self.path(name).write_text(json.dumps(config))
        return self.path(name)

    def values(self, count):
        return [struct.unpack("<f", struct.pack("<f", self.random.gauss(0, 1)))[0] for _ in range(count)]

    def on_a_terminal(self, environment, *arguments, stream="stdout"):
        """What the command writes to a stream that is a terminal; the other one is none."""
        leader, follower = pty.openpty()
        streams = {"stdout": subprocess.DEVNULL, "stderr": None, stream: follower}
        command = subprocess.Popen([COMMAND, *map(str, arguments)], **streams, cwd=SOURCE,
                                   env={**without_terminal(), "TERM": "xterm", **environment})
        os.close(follower)
        out = b""
        try:
            while chunk := os.read(leader, 65536):
                out += chunk
        except OSError:  # the other end is closed
            pass
        os.close(leader)
        self.assertEqual(command.wait(timeout=60), 0)
        return out.decode().replace("\r\n", "\n")

    def expect_error(self, status, pieces, *arguments, **settings):
        """Exit status, every piece of text in stderr, nothing on stdout, and one line of error (two for usage)."""
        result = run(*arguments, **settings)
        self.assertEqual(result.returncode, status, result.stderr)
        if result.stdout is not None:
            self.assertEqual(result.stdout, "")
        for piece in [pieces] if isinstance(pieces, str) else pieces:
            self.assertIn(piece, result.stderr)
        self.assertTrue(result.stderr.startswith("bearing: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 2 if status == 2 else 1, result.stderr)

    def expect_close(self, got, wanted, relative):
        """Each element within `relative` of the largest one: the pairs' norms are of its size."""
        self.assertEqual(len(got), len(wanted))
        largest = max(map(abs, wanted))
        for g, w in zip(got, wanted):
            self.assertLessEqual(abs(g - w), relative * largest)
