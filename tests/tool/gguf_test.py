"""Tests of `bearing config` with GGUF files, as its users run it."""

import json
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time
import unittest

import npy
import support
from support import COMMAND, SOURCE, run

VALID = "tests/corpus/gguf/valid"


def number(value, width=8):
    return value.to_bytes(width, "little")


def text(word):
    return number(len(word)) + word.encode()


class Gguf(support.Base):
    def test_gguf_is_shown_as_a_config_is(self):
        result = run("config", f"{VALID}/gemma3.gguf")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for line in ("gemma3, 12 layers", "sliding_attention, window 1,024", "1,000,000 (rope.freq_base)", "linear: factor 8"):
            self.assertIn(line, result.stdout)

    def test_gguf_is_shown_as_json(self):
        report = json.loads(run("config", f"{VALID}/llama3.gguf", "--json").stdout)
        self.assertEqual((report["model_type"], report["layers"], report["head_dim"]), ("llama", 4, 64))
        config = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2,
                  "num_hidden_layers": 4, "rope_theta": 500000.0, "max_position_embeddings": 131072,
                  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                   "original_max_position_embeddings": 8192}}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text(json.dumps(config))
            same = json.loads(run("config", path, "--json").stdout)
        # The file holds divisors, rounded to float32, where the config has the numbers that they come from.
        for a, b in zip(report["groups"][0]["inv_freq"], same["groups"][0]["inv_freq"], strict=True):
            self.assertAlmostEqual(a / b, 1, delta=2.0**-23)

    def test_gguf_is_read_from_a_stream(self):
        wanted = run("config", f"{VALID}/llama3.gguf").stdout.split("\n", 1)
        file = SOURCE / VALID / "llama3.gguf"
        shells = {"standard input": ['"$0" config - < "$1"', 'cat "$1" | "$0" config -'],
                  "/dev/stdin": ['"$0" config /dev/stdin < "$1"', 'cat "$1" | "$0" config /dev/stdin']}
        for name, lines in shells.items():
            for line in lines:
                with self.subTest(line):
                    result = subprocess.run(["bash", "-c", line, COMMAND, file], capture_output=True, text=True)
                    self.assertEqual((result.returncode, result.stderr, result.stdout.split("\n", 1)), (0, "", [name, wanted[1]]))

    def test_a_gguf_stream_that_cannot_be_read_says_what_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            long = pathlib.Path(folder) / "long.gguf"
            shutil.copy(SOURCE / VALID / "llama3.gguf", long)
            with long.open("ab") as more:
                more.truncate(17 << 20)
            cut = pathlib.Path(folder) / "cut.gguf"
            cut.write_bytes(long.read_bytes()[:100])
            for line, file, text in (('cat "$1" | "$0" config -', long, "must have at most 16 MiB, got a longer GGUF file: give its path"),
                                     ('cat "$1" | "$0" config -', cut, "standard input: byte "),
                                     ('"$0" config - < "$1"', cut, "/dev/stdin: byte "),
                                     ('cat "$1" | "$0" config - --write v5', cut, "standard input: must be a config.json to be written, got a GGUF file"),
                                     ('"$0" config - --write v5 < "$1"', cut, "standard input: must be a config.json to be written, got a GGUF file")):
                with self.subTest(line):
                    result = subprocess.run(["bash", "-c", line, COMMAND, file], capture_output=True, text=True)
                    self.assertEqual((result.returncode, result.stdout), (3, ""))
                    self.assertIn(text, result.stderr)
            # Redirected, it is a file of any size.
            result = subprocess.run(["bash", "-c", '"$0" config - < "$1"', COMMAND, long], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_gguf_is_taken_where_a_config_is(self):
        file = f"{VALID}/gemma3.gguf"
        for arguments in (["check", f"@{file}#0"], ["compare", f"@{file}#0", "alibi"], ["list", f"@{file}"],
                          ["plot", "wavelengths", f"@{file}", "--json"]):
            with self.subTest(arguments[0]):
                result = run(*arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
        with tempfile.TemporaryDirectory() as folder:
            q, out = pathlib.Path(folder) / "q.npy", pathlib.Path(folder) / "out.npy"
            npy.write(q, "<f8", (1, 64), [1.0] * 64)
            result = run("rotate", "--config", file, "--layer", "0", "--q", q, "--out-q", out, "--positions", "3")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertTrue(out.exists())

    def test_folder_with_one_gguf_file_is_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one.gguf", "two.gguf"):
                shutil.copy(SOURCE / VALID / "llama3.gguf", pathlib.Path(folder) / name)
                result = run("config", folder)
                if name == "one.gguf":
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertIn("llama, 4 layers", result.stdout)
            self.assertEqual(result.returncode, 3)
            self.assertIn("must have a config.json or one GGUF file, got 2 GGUF files", result.stderr)
            self.assertEqual(run("check", f"@{folder}/one.gguf").returncode, 0)

    def test_gguf_that_is_bad_is_one_line_and_costs_little(self):
        whole = (SOURCE / VALID / "llama3.gguf").read_bytes()
        bad = {"cut": whole[:-1], "keys": whole[:16] + number(2**63) + whole[24:],
               "unknown": b"GGUF" + number(3, 4) + number(0) + number(1) + text("general.architecture") + number(8, 4)
               + text("none such")}
        with tempfile.TemporaryDirectory() as folder:
            for name, content in bad.items():
                path = pathlib.Path(folder) / f"{name}.gguf"
                path.write_bytes(content)
                with self.subTest(name):
                    result = run("config", path)
                    self.assertEqual((result.returncode, result.stdout), (3, ""))
                    self.assertEqual(result.stderr.count("\n"), 1)
                    self.assertIn(f"{path}: ", result.stderr)

    def test_gguf_of_thirty_gigabytes_is_read_in_little_memory(self):
        # A tensor of 15,000,000,000 half-precision numbers, of which the disk holds none.
        pairs = [text("general.architecture") + number(8, 4) + text("llama")]
        for key, value in {"block_count": 32, "context_length": 8192, "embedding_length": 4096, "attention.head_count": 32}.items():
            pairs.append(text(f"llama.{key}") + number(4, 4) + number(value, 4))
        tensor = text("a") + number(2, 4) + number(3000) + number(5_000_000) + number(1, 4) + number(0)
        head = b"GGUF" + number(3, 4) + number(1) + number(len(pairs)) + b"".join(pairs) + tensor
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "large.gguf"
            path.write_bytes(head)
            with path.open("r+b") as file:
                file.truncate(-(-len(head) // 32) * 32 + 30_000_000_000)
            start = time.monotonic()
            limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
            result = subprocess.run([COMMAND, "config", str(path)], capture_output=True, text=True, timeout=60, preexec_fn=limit)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("llama, 32 layers", result.stdout)
            self.assertLess(time.monotonic() - start, 10)  # the data, were they read, would take longer


if __name__ == "__main__":
    unittest.main()
