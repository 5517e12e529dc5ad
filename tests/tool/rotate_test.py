"""Tests of `bearing rotate` as its users run it."""

import os
import struct
import unittest

import npy
import support
from support import SMALL, SPEC, bfloat16, from_bfloat16, rotated, run


class Rotate(support.Base):
    # bearing rotate

    def rotate(self, *arguments):
        """Rotates q.npy with SPEC and reads the result."""
        result = run("rotate", "--rope", SPEC, "--q", self.path("q.npy"), "--out-q", self.path("out.npy"), *arguments)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        return npy.read(self.path("out.npy"))

    def test_an_empty_file_says_no_more_heads_and_tokens_than_there_can_be(self):
        for shape in ((2, 0, 3, 4), (1, 8, 0, 4)):
            npy.write(self.path("q.npy"), "<f4", shape, [])
            self.rotate()
            self.assertEqual(npy.read(self.path("out.npy"))[1], list(shape))
        for shape in ((1 << 15, 0, 1 << 15, 4), (1 << 26, 0, 1 << 26, 4)):
            npy.write(self.path("q.npy"), "<f4", shape, [])
            self.expect_error(3, "q.npy: has no numbers: the product of its other extents must be at most 2^24, got [", "rotate", "--rope",
                              SPEC, "--q", self.path("q.npy"), "--out-q", self.path("out.npy"))

    def test_rotate_is_the_definition_in_every_dtype(self):
        values = self.values(2 * 3 * 5 * 4)
        positions = [[10, 11, 12, 13, 14]] * 2
        # A few roundings of the type each: 2^-53, 2^-24 and 2^-11 (float16's own values are taken as exact).
        for descr, relative in (("<f8", 4 * 2.0**-53), ("<f4", 4 * 2.0**-24), ("<f2", 2 * 2.0**-11)):
            item = npy.FORMATS[descr]
            exact = [struct.unpack(item, struct.pack(item, value))[0] for value in values]
            npy.write(self.path("q.npy"), descr, (2, 3, 5, 4), values)
            got = self.rotate("--positions", "10")
            self.assertEqual(got[:2], (descr, [2, 3, 5, 4]))
            self.expect_close(got[2], rotated(exact, (2, 3, 5), 4, positions, 100), relative)

    def test_rotate_takes_bfloat16_as_uint16(self):
        bits = [bfloat16(value) for value in self.values(24)]
        npy.write(self.path("q.npy"), "<u2", (1, 2, 3, 4), bits)
        descr, shape, got = self.rotate("--bf16", "--positions", "7")
        self.assertEqual((descr, shape), ("<u2", [1, 2, 3, 4]))
        wanted = rotated([from_bfloat16(b) for b in bits], (1, 2, 3), 4, [[7, 8, 9]], 100)
        self.expect_close([from_bfloat16(b) for b in got], wanted, 1.01 * 2.0**-8)  # half an ulp at worst, and float32's

    def test_rotate_takes_positions_from_a_file(self):
        values = self.values(2 * 1 * 3 * 4)
        npy.write(self.path("q.npy"), "<f8", (2, 1, 3, 4), values)
        for descr, shape, flat, positions in (
            ("<i8", (3,), [5, 0, -2], [[5, 0, -2]] * 2),
            ("<i8", (2, 3), [5, 0, -2, 1, 1, 9], [[5, 0, -2], [1, 1, 9]]),
            ("<f8", (3,), [0.5, 1.25, -3], [[0.5, 1.25, -3]] * 2),
            ("<f8", (1, 2, 3), [0.5, 1.25, -3, 4, 5, 6], [[0.5, 1.25, -3], [4, 5, 6]]),
        ):
            npy.write(self.path("p.npy"), descr, shape, flat)
            _, _, got = self.rotate("--positions", self.path("p.npy"))
            self.expect_close(got, rotated(values, (2, 1, 3), 4, positions, 100), 1e-15)

    def test_rotate_knows_layouts_and_missing_axes(self):
        values = self.values(24)
        wanted = rotated(values, (1, 2, 3), 4, [[0, 1, 2]], 100)
        for shape in ((1, 2, 3, 4), (2, 3, 4)):
            npy.write(self.path("q.npy"), "<f8", shape, values)
            self.expect_close(self.rotate()[2], wanted, 1e-15)
        # [time, heads, dim] holds the same numbers elsewhere.
        swap = lambda flat, a, b: [flat[(j * a + i) * 4 + d] for i in range(a) for j in range(b) for d in range(4)]
        for shape in ((1, 3, 2, 4), (3, 2, 4)):
            npy.write(self.path("q.npy"), "<f8", shape, swap(values, 3, 2))
            self.assertEqual(self.rotate("--layout", "bthd")[1], list(shape))
            self.expect_close(swap(self.rotate("--layout", "bthd")[2], 2, 3), wanted, 1e-15)
        for layout in ("bhtd", "bthd"):
            npy.write(self.path("q.npy"), "<f8", (6, 4), values)
            self.expect_close(self.rotate("--layout", layout)[2], rotated(values, (1, 1, 6), 4, [range(6)], 100), 1e-15)

    def test_rotate_takes_keys_with_fewer_heads_and_an_output_may_replace_its_input(self):
        q, k = self.values(4 * 3 * 4), self.values(2 * 3 * 4)
        npy.write(self.path("q.npy"), "<f8", (1, 4, 3, 4), q)
        npy.write(self.path("k.npy"), "<f8", (1, 2, 3, 4), k)
        result = run("rotate", "--config", self.put("c.json", SMALL), "--q", self.path("q.npy"), "--k",
                     self.path("k.npy"), "--out-q", self.path("q.npy"), "--out-k", self.path("k.npy"), "--positions", "-2")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.expect_close(npy.read(self.path("q.npy"))[2], rotated(q, (1, 4, 3), 4, [[-2, -1, 0]], 100), 1e-15)
        self.expect_close(npy.read(self.path("k.npy"))[2], rotated(k, (1, 2, 3), 4, [[-2, -1, 0]], 100), 1e-15)

    def test_backward_turns_back(self):
        values = self.values(24)
        npy.write(self.path("q.npy"), "<f8", (1, 2, 3, 4), values)
        got = self.rotate("--backward", "--positions", "9")[2]
        self.expect_close(got, rotated(values, (1, 2, 3), 4, [[9, 10, 11]], 100, sign=-1), 1e-15)

    def test_threads_do_not_change_a_bit(self):
        npy.write(self.path("q.npy"), "<f4", (2, 8, 64, 4), self.values(4096))
        outputs = []
        for threads in ("1", "2", "7", "0"):
            self.rotate("--threads", threads)
            outputs.append(self.path("out.npy").read_bytes())
        self.assertEqual(outputs, outputs[:1] * 4)

    def test_layers_that_differ_must_be_named(self):
        config = {"model_type": "gemma3_text", "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "head_dim": 4, "num_hidden_layers": 2, "rope_theta": 1000000.0, "rope_local_base_freq": 100.0,
                  "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8,
                  "max_position_embeddings": 64}
        config = self.put("g.json", config)
        values = self.values(24)
        npy.write(self.path("q.npy"), "<f8", (1, 2, 3, 4), values)
        arguments = ["rotate", "--config", config, "--q", self.path("q.npy"), "--out-q", self.path("o.npy")]
        self.expect_error(2, "different encodings in layers 0; and in layers 1; say which", *arguments)
        for layer, base in ((0, 100), (1, 1e6)):
            self.assertEqual(run(*arguments, "--layer", layer).returncode, 0)
            self.expect_close(npy.read(self.path("o.npy"))[2], rotated(values, (1, 2, 3), 4, [[0, 1, 2]], base), 1e-15)

    def test_a_length_past_the_frequencies_is_pointed_out(self):
        config = self.put("d.json", dict(SMALL, rope_scaling={"type": "dynamic", "factor": 2.0}))
        npy.write(self.path("q.npy"), "<f4", (1, 1, 3, 4), self.values(12))
        arguments = ["rotate", "--config", config, "--q", self.path("q.npy"), "--out-q", self.path("o.npy")]
        result = run(*arguments, "--positions", "62")
        self.assertEqual(result.returncode, 0)
        self.assertIn("dynamic depends on the sequence's length; the frequencies are those for 64 tokens", result.stderr)
        self.assertEqual(run(*arguments, "--positions", "61").stderr, "")
        self.assertEqual(run(*arguments, "--positions", "62", "--length", "65").stderr, "")

    def test_bad_input_exits_with_3_and_writes_nothing(self):
        npy.write(self.path("q.npy"), "<f4", (1, 2, 3, 4), self.values(24))
        npy.write(self.path("k5.npy"), "<f4", (1, 2, 5, 4), self.values(40))
        npy.write(self.path("dim6.npy"), "<f4", (1, 2, 3, 6), self.values(36))
        npy.write(self.path("flat.npy"), "<f4", (4,), self.values(4))
        npy.write(self.path("whole.npy"), "<i8", (3, 4), range(12))
        npy.write(self.path("bits.npy"), "<u2", (3, 4), range(12))
        npy.write(self.path("p4.npy"), "<i8", (4,), range(4))
        npy.write(self.path("p32.npy"), "<i4", (3,), range(3))
        npy.write(self.path("far.npy"), "<i8", (3,), [0, 2**31 + 1, 0])
        npy.write(self.path("p4d.npy"), "<i8", (1, 1, 1, 3), range(3))
        npy.write(self.path("nan.npy"), "<f8", (3,), [0, float("nan"), 0])
        self.path("text.npy").write_text("hello")
        before = sorted(os.listdir(self.directory))
        out = ["--out-q", self.path("out.npy")]
        q = ["--q", self.path("q.npy")]
        rope = ["--rope", SPEC]
        for pieces, arguments in (
            (["text.npy: byte 0: not a .npy file"], rope + out + ["--q", self.path("text.npy")]),
            (["dim6.npy: must have a last extent of head_dim = 4, got [1, 2, 3, 6]"],
             rope + out + ["--q", self.path("dim6.npy")]),
            (["flat.npy: must be [batch, heads, time, dim]", "got [4]"], rope + out + ["--q", self.path("flat.npy")]),
            (["whole.npy: the dtype must be float16, float32 or float64", "got i8"],
             rope + out + ["--q", self.path("whole.npy")]),
            (["bits.npy: holds u2: if these are bfloat16, say --bf16"], rope + out + ["--q", self.path("bits.npy")]),
            (["q.npy: with --bf16 the dtype must be uint16", "got f4"], rope + out + q + ["--bf16"]),
            (["k5.npy: must have the batch and time of", "(1 and 3), got 1 and 5"],
             rope + out + q + ["--k", self.path("k5.npy"), "--out-k", self.path("out_k.npy")]),
            (["p4.npy: ", "positions: "], rope + out + q + ["--positions", self.path("p4.npy")]),
            (["far.npy: ", "2147483649"], rope + out + q + ["--positions", self.path("far.npy")]),
            (["nan.npy: ", "positions: "], rope + out + q + ["--positions", self.path("nan.npy")]),
            (["p4d.npy: must be [time], [batch, time] or [axes, batch, time], got [1, 1, 1, 3]"],
             rope + out + q + ["--positions", self.path("p4d.npy")]),
            (["p32.npy: the dtype must be int64 or float64 (i8, f8), got i4"],
             rope + out + q + ["--positions", self.path("p32.npy")]),
            (["--rope", "pairing"], ["--rope", '{"head_dim": 4}'] + out + q),
            (["cannot be written"], rope + q + ["--out-q", self.path("no/such/out.npy")]),
            (["exists and is not a regular file"], rope + q + ["--out-q", "/dev/full"]),
            (["cannot be written"], rope + out + q + ["--k", self.path("q.npy"), "--out-k", self.path("no/such.npy")]),
        ):
            with self.subTest(pieces[0]):
                self.expect_error(3, pieces, "rotate", *arguments)
                self.assertEqual(sorted(os.listdir(self.directory)), before)

    def test_a_layer_without_rotation_is_refused(self):
        config = self.put("nope.json", dict(SMALL, model_type="smollm3", no_rope_layers=[1, 0]))
        npy.write(self.path("q.npy"), "<f4", (3, 4), self.values(12))
        arguments = ["rotate", "--config", config, "--q", self.path("q.npy"), "--out-q", self.path("o.npy")]
        self.expect_error(3, "layer 1 has no rotary encoding: there is nothing to rotate", *arguments, "--layer", "1")
        self.assertEqual(run(*arguments).returncode, 0)  # the only rotary encoding needs no name
        config = self.put("bloom.json", {"model_type": "bloom", "hidden_size": 16, "n_head": 4, "n_layer": 2})
        arguments[2] = config
        self.expect_error(3, "no layer has a rotary encoding", *arguments)


if __name__ == "__main__":
    unittest.main()
