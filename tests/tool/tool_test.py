"""Tests of the command `bearing` as its users run it."""

import decimal
import json
import math
import os
import pathlib
import pty
import random
import re
import struct
import subprocess
import tempfile
import unittest

import npy

COMMAND = os.environ["BEARING_COMMAND"]
SOURCE = pathlib.Path(os.environ["BEARING_SOURCE_DIR"])
LLAMA = "examples/models/llama-3.1-8b.json"
GOLDEN = pathlib.Path(__file__).parent / "llama-3.1-8b.txt"

SMALL = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_hidden_layers": 2, "rope_theta": 100.0, "max_position_embeddings": 64}
SPEC = '{"head_dim": 4, "pairing": "half", "base": 100}'


def run(*arguments, **settings):
    """Runs the command in the source directory, without what the caller's terminal has set."""
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    environment.update(settings.pop("env", {}))
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

    def put(self, name, config):
        self.path(name).write_text(json.dumps(config))
        return self.path(name)

    def values(self, count):
        return [struct.unpack("<f", struct.pack("<f", self.random.gauss(0, 1)))[0] for _ in range(count)]

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


class Tool(Base):
    # help, version, completion

    def test_help_names_every_command_and_the_exit_status(self):
        for flag in ("--help", "-h"):
            result = run(flag)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for word in ("config", "rotate", "attend", "list", "check", "compare", "table", "completion", "--version", "Examples:", "Exit status:"):
                self.assertIn(word, result.stdout)

    def test_help_of_each_command_fits_eighty_columns(self):
        for command in ([], ["config"], ["rotate"], ["attend"], ["list"], ["check"], ["compare"], ["table"], ["completion"]):
            result = run(*command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("Usage: bearing", result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)

    def test_version_names_the_version_target_and_build(self):
        result = run("--version")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"\Abearing \d+\.\d+\.\d+\n  SIMD target  \S+ \(.* scalar\)\n"
                                        r"  build        (gcc|clang) \d+\.\d+\.\d+, \w+; threads: (oneTBB|none)\n\Z")

    def test_version_shows_a_forced_target(self):
        self.assertIn("SIMD target  scalar ", run("--version", env={"BEARING_TARGET": "scalar"}).stdout)

    def test_completion_knows_commands_and_options(self):
        script = run("completion", "bash").stdout
        for words, at, wanted in (("co", 1, "config compare completion"), ("check --d", 2, "--dim"),
                                   ("rotate --out", 2, "--out-q --out-k")):
            ask = f'COMP_WORDS=(bearing {words}); COMP_CWORD={at}; _bearing; echo "${{COMPREPLY[*]}}"'
            shell = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True)
            self.assertEqual(shell.stdout.strip(), wanted)
        self.assertIn("bashcompinit", run("completion", "zsh").stdout)
        self.assertIn("complete -c bearing", run("completion", "fish").stdout)

    # wrong command lines: exit status 2

    def test_a_wrong_command_line_exits_with_2(self):
        for pieces, arguments in (
            ("a command is needed: config, rotate, attend, list, check, compare, table, completion", []),
            ("'confg' is not a command; did you mean 'config'?", ["confg"]),
            ("'--verson' is not a command; did you mean '--version'?", ["--verson"]),
            ("FILE is required", ["config"]),
            ("config: '--layr' is not an option; did you mean '--layer'?", ["config", LLAMA, "--layr", "3"]),
            ("config: 'more' is one argument too many", ["config", LLAMA, "more"]),
            ("--layer needs a value", ["config", LLAMA, "--layer"]),
            ("--layer: must be a whole number from 0 to 31, got '32'", ["config", LLAMA, "--layer", "32"]),
            ("--seq-len: must be a whole number from 1 to 2147483648, got '8k'", ["config", LLAMA, "--seq-len", "8k"]),
            ("--seq-len: must be a whole number from 1 to", ["config", LLAMA, "--seq-len", "0"]),
            ("the shell must be bash, zsh or fish, got 'tcsh'", ["completion", "tcsh"]),
            ("one of --config and --rope must be given", ["rotate", "--q", "q", "--out-q", "o"]),
            ("one of --config and --rope", ["rotate", "--rope", SPEC, "--config", LLAMA, "--q", "q", "--out-q", "o"]),
            ("--q or --k must be given", ["rotate", "--rope", SPEC]),
            ("--q and --out-q go together", ["rotate", "--rope", SPEC, "--q", "q"]),
            ("--k and --out-k go together", ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--out-k", "p"]),
            ("must be different files",
             ["rotate", "--rope", SPEC, "--q", "q", "--k", "k", "--out-q", "o", "--out-k", "o"]),
            ("--positions and --offset exclude each other",
             ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--positions", "p", "--offset", "1"]),
            ("--layout: must be bhtd or bthd, got 'bdth'",
             ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--layout", "bdth"]),
            ("--layer needs --config", ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--layer", "1"]),
            ("--threads: must be a whole number from 0 to 1024, got '-1'",
             ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--threads", "-1"]),
            ("--offset: must be a whole number from -2147483648 to 2147483648, got '1e3'",
             ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--offset", "1e3"]),
        ):
            with self.subTest(arguments):
                self.expect_error(2, [pieces, "See 'bearing --help'."], *arguments)

    # bearing config

    def test_config_of_llama_is_what_it_was(self):
        result = run("config", LLAMA)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, GOLDEN.read_text())

    def test_config_is_the_same_in_every_locale(self):
        result = run("config", LLAMA, env={"LC_ALL": "de_DE.UTF-8"})
        self.assertEqual(result.stdout, GOLDEN.read_text())

    def test_config_fits_the_width_it_is_given(self):
        for width in (60, 80, 100, 132):
            for arguments in (["config", LLAMA], ["config", LLAMA, "--all"]):
                result = run(*arguments, env={"COLUMNS": str(width)})
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), width)

    def test_config_shows_every_pair_when_asked(self):
        pairs = re.findall(r"(?<!\S)(\d+) +[\d.e-]+ +[\d.,]+ +(kept|blended|scaled)", run("config", LLAMA, "--all").stdout)
        self.assertEqual(sorted(int(pair) for pair, _ in pairs), list(range(64)))
        cut = run("config", LLAMA).stdout
        self.assertIn("33 more", cut)
        self.assertNotRegex(cut, r"(?<!\S)20 +[\d.e-]+ +[\d.,]+ +kept")

    def test_config_has_no_colours_in_a_pipe_or_with_no_color(self):
        self.assertNotIn("\x1b", run("config", LLAMA).stdout)
        self.assertIn("\x1b[1m", self.on_a_terminal({}))
        self.assertNotIn("\x1b", self.on_a_terminal({"NO_COLOR": "1"}))

    def on_a_terminal(self, environment):
        leader, follower = pty.openpty()
        run("config", LLAMA, stdout=follower, env={"TERM": "xterm", **environment})
        os.close(follower)
        out = b""
        try:
            while chunk := os.read(leader, 65536):
                out += chunk
        except OSError:  # the other end is closed
            pass
        os.close(leader)
        return out.decode()

    def test_config_shows_layers_that_do_not_rotate(self):
        config = dict(SMALL, model_type="smollm3", no_rope_layers=[1, 0])
        text = run("config", self.put("nope.json", config)).stdout
        self.assertIn("\nlayer 0: rotary\n", text)
        self.assertIn("\nlayer 1: no encoding\n", text)
        text = run("config", self.put("bloom.json", {"model_type": "bloom", "hidden_size": 16, "n_head": 4, "n_layer": 2})).stdout
        self.assertIn("\nlayers 0-1: alibi\n", text)
        self.assertIn("slopes            0.25, 0.0625, 0.015625, 0.00390625\n", text)

    def test_config_shows_encoder_and_decoder_and_what_their_inputs_get(self):
        config = {"model_type": "whisper", "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
                  "max_target_positions": 32}
        text = run("config", self.put("whisper.json", config)).stdout
        self.assertIn("\ninput of the encoder: sinusoidal\n", text)
        self.assertIn("layout            tensor2tensor\n", text)
        self.assertIn("\ninput of the decoder: learned\n  length            32\n", text)
        self.assertIn("\nencoder layers 0-1: no encoding\n", text)
        self.assertIn("\ndecoder layer 2: no encoding\n", text)

    def test_config_says_where_numbers_are_not_read(self):
        text = run("config", self.put("sew.json", {"model_type": "sew-d", "hidden_size": 16, "num_hidden_layers": 2})).stdout
        self.assertIn("recognised by name, its numbers are not read", text)

    def test_config_can_show_one_group(self):
        config = self.put("nope.json", dict(SMALL, model_type="smollm3", no_rope_layers=[1, 0]))
        text = run("config", config, "--layer", "1").stdout
        self.assertIn("layer 1: no encoding", text)
        self.assertNotIn("layer 0", text)

    def test_a_warning_names_its_layers_unless_it_is_about_all_that_rotate(self):
        config = {**SMALL, "model_type": "gemma3_text", "head_dim": 4, "num_hidden_layers": 2, "rope_theta": 1e9,
                  "rope_local_base_freq": 1e9, "layer_types": ["sliding_attention", "full_attention"],
                  "sliding_window": 8, "max_position_embeddings": 131072}
        warnings = [warning["text"] for warning in self.report(self.put("w.json", config))["warnings"]]
        # Pair 1 has 2π·√10⁹ = 198,692 tokens; the window of layer 0 keeps it from angles that training never showed.
        self.assertIn("layer 1: pair 1 (1 of 2) turns less than once within the trained 131,072 tokens: longer "
                      "sequences reach angles that training at that length never showed", warnings)
        config.update(rope_local_base_freq=1e2, rope_theta=1e2, head_dim=8)  # θ_1 = 0.316, angles to 41,449
        warnings = [warning["text"] for warning in self.report(self.put("w.json", config))["warnings"]]
        self.assertEqual([text[:26] for text in warnings if "float32" in text], ["angles computed in float32"])

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self):
        config = self.put("x.json", dict(SMALL, model_type="a\x1b[31mb\nc"))
        result = run("config", config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("\x1b", result.stdout)
        self.assertIn("a\\x1b[31mb\\x0ac", result.stdout)

    def test_a_bad_config_exits_with_3(self):
        self.path("bad.json").write_text('{"model_type": "llama", }')
        self.expect_error(3, "bad.json", "config", self.path("bad.json"))
        self.expect_error(3, "missing.json", "config", self.path("missing.json"))
        self.expect_error(3, str(self.directory), "config", self.directory)

    def test_a_full_disk_or_a_closed_pipe_is_an_error(self):
        with open("/dev/full", "w") as full:
            self.expect_error(3, "standard output cannot be written: No space left", "config", LLAMA, stdout=full)
        reader, writer = os.pipe()
        os.close(reader)
        self.expect_error(3, "standard output cannot be written: Broken pipe", "config", LLAMA, stdout=writer)
        os.close(writer)

    # bearing config --json

    def report(self, *arguments, **settings):
        result = run("config", *arguments, "--json", **settings)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout, parse_constant=lambda word: self.fail(f"{word} is not JSON"))

    def test_json_has_the_documented_members(self):
        report = self.report(LLAMA)
        self.assertEqual(list(report), ["schema", "file", "model_type", "layers", "heads", "kv_heads", "head_dim",
                                        "trained_length", "context_length", "seq_len", "inputs", "groups", "warnings"])
        self.assertEqual(report["schema"], "bearing.config/1")
        self.assertEqual([report[key] for key in ("file", "model_type", "layers", "heads", "kv_heads", "head_dim")],
                         [LLAMA, "llama", 32, 32, 8, 128])
        self.assertEqual([report[key] for key in ("trained_length", "context_length", "seq_len")], [8192, 131072, 0])
        (group,) = report["groups"]
        self.assertEqual(list(group), ["layers", "part", "type", "window", "encoding", "pairing", "head_dim", "rotary_dim",
                                       "begin", "base", "scaling", "rope", "attention_factor", "softmax_scale_factor",
                                       "inv_freq", "wavelength", "change", "axes", "axis"])
        self.assertEqual(group["layers"], list(range(32)))
        self.assertEqual([group[key] for key in ("encoding", "pairing", "head_dim", "rotary_dim", "begin", "base")],
                         ["rope", "half", 128, 128, 0, 500000])
        self.assertEqual(group["scaling"]["type"], "llama3")
        self.assertEqual(group["scaling"]["factor"], 8)
        self.assertEqual((group["attention_factor"], group["softmax_scale_factor"]), (1, 1))
        self.assertEqual([group["change"].count(word) for word in ("kept", "blended", "scaled")], [29, 6, 29])
        self.assertEqual((group["axes"], group["axis"]), (1, [0] * 64))
        for warning in report["warnings"]:
            self.assertEqual(list(warning), ["pointer", "text"])

    def test_json_numbers_are_exact(self):
        (group,) = self.report(LLAMA)["groups"]
        for i, (theta, tokens) in enumerate(zip(group["inv_freq"], group["wavelength"])):
            base = 500000 ** (-i / 64)
            if i < 29:
                self.assertAlmostEqual(theta / base, 1, delta=1e-15)  # the power is within an ulp or two
            if i > 34:
                self.assertAlmostEqual(theta * 8 / base, 1, delta=1e-15)
            self.assertAlmostEqual(theta * tokens / (2 * math.pi), 1, delta=1e-15)
        # The shortest form that reads back is what Python writes too.
        text = run("config", LLAMA, "--json").stdout
        written = re.search(r'"inv_freq": \[(.*)\]', text).group(1).split(", ")
        self.assertEqual(list(map(float, written)), group["inv_freq"])
        for digits, value in zip(written, group["inv_freq"]):
            significant = [decimal.Decimal(text).normalize().as_tuple().digits for text in (digits, repr(value))]
            self.assertEqual(significant[0], significant[1])

    def test_json_is_the_same_in_every_locale(self):
        self.assertEqual(self.report(LLAMA), self.report(LLAMA, env={"LC_ALL": "de_DE.UTF-8"}))

    def test_json_has_null_for_the_wavelength_of_a_pair_that_does_not_turn(self):
        config = dict(SMALL, rope_parameters={"rope_type": "proportional", "rope_theta": 100.0, "partial_rotary_factor": 0.5})
        del config["rope_theta"]
        (group,) = self.report(self.put("p.json", config))["groups"]
        self.assertEqual((group["inv_freq"][1], group["wavelength"][1]), (0, None))
        self.assertIn("never", run("config", self.path("p.json")).stdout)

    def test_json_names_encodings_that_are_not_rotary(self):
        report = self.report(self.put("bloom.json", {"model_type": "bloom", "hidden_size": 16, "n_head": 4, "n_layer": 2}))
        self.assertEqual([(group["encoding"], group["layers"]) for group in report["groups"]], [("alibi", [0, 1])])
        self.assertEqual(report["groups"][0]["slopes"], [0.25, 0.0625, 0.015625, 0.00390625])

    def test_json_has_the_members_of_specs_and_inputs(self):
        config = {"model_type": "mpnet", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 10}
        report = self.report(self.put("mpnet.json", config))
        self.assertEqual(report["inputs"], [{"part": "", "encoding": "learned", "first_position": 0, "length": 8, "dim": 16,
                                             "offset": 2, "padding_row": 1}])
        (group,) = report["groups"]
        self.assertEqual((group["buckets"], group["max_distance"], group["direction"]), (32, 128, "bidirectional"))

    def test_json_says_none_for_layers_without_an_encoding(self):
        report = self.report(self.put("nope.json", dict(SMALL, model_type="smollm3", no_rope_layers=[1, 0])))
        self.assertEqual([(group["encoding"], group["layers"]) for group in report["groups"]],
                         [("rope", [0]), ("none", [1])])

    def test_json_serves_other_lengths(self):
        dynamic = dict(SMALL, rope_scaling={"type": "dynamic", "factor": 2.0})
        config = self.put("d.json", dynamic)
        at_rest, longer = self.report(config), self.report(config, "--seq-len", "256")
        self.assertEqual((at_rest["seq_len"], longer["seq_len"]), (0, 256))
        # base · (2·256/64 − 1)^(r/(r−2)) with r = 4: 100·49, so θ_1 = 1/√4900.
        self.assertAlmostEqual(at_rest["groups"][0]["inv_freq"][1], 0.1, delta=1e-16)
        self.assertAlmostEqual(longer["groups"][0]["inv_freq"][1] * 70, 1, delta=1e-15)
        self.assertTrue(any("must be rebased" in warning["text"] for warning in longer["warnings"]))

    def test_the_rope_of_the_report_rotates(self):
        """What config prints, rotate takes: the two agree with the model's own file."""
        (group,) = self.report(LLAMA)["groups"]
        npy.write(self.path("q.npy"), "<f4", (1, 2, 3, 128), self.values(768))
        for name, source in (("a", ["--config", LLAMA]), ("b", ["--rope", json.dumps(group["rope"])])):
            result = run("rotate", *source, "--q", self.path("q.npy"), "--offset", "100000", "--out-q",
                         self.path(name + ".npy"))
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(self.path("a.npy").read_bytes(), self.path("b.npy").read_bytes())
        self.assertNotEqual(self.path("a.npy").read_bytes(), self.path("q.npy").read_bytes())

    # bearing rotate

    def rotate(self, *arguments):
        """Rotates q.npy with SPEC and reads the result."""
        result = run("rotate", "--rope", SPEC, "--q", self.path("q.npy"), "--out-q", self.path("out.npy"), *arguments)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        return npy.read(self.path("out.npy"))

    def test_rotate_is_the_definition_in_every_dtype(self):
        values = self.values(2 * 3 * 5 * 4)
        positions = [[10, 11, 12, 13, 14]] * 2
        # A few roundings of the type each: 2^-53, 2^-24 and 2^-11 (float16's own values are taken as exact).
        for descr, relative in (("<f8", 4 * 2.0**-53), ("<f4", 4 * 2.0**-24), ("<f2", 2 * 2.0**-11)):
            item = npy.FORMATS[descr]
            exact = [struct.unpack(item, struct.pack(item, value))[0] for value in values]
            npy.write(self.path("q.npy"), descr, (2, 3, 5, 4), values)
            got = self.rotate("--offset", "10")
            self.assertEqual(got[:2], (descr, [2, 3, 5, 4]))
            self.expect_close(got[2], rotated(exact, (2, 3, 5), 4, positions, 100), relative)

    def test_rotate_takes_bfloat16_as_uint16(self):
        bits = [bfloat16(value) for value in self.values(24)]
        npy.write(self.path("q.npy"), "<u2", (1, 2, 3, 4), bits)
        descr, shape, got = self.rotate("--bf16", "--offset", "7")
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
                     self.path("k.npy"), "--out-q", self.path("q.npy"), "--out-k", self.path("k.npy"), "--offset", "-2")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.expect_close(npy.read(self.path("q.npy"))[2], rotated(q, (1, 4, 3), 4, [[-2, -1, 0]], 100), 1e-15)
        self.expect_close(npy.read(self.path("k.npy"))[2], rotated(k, (1, 2, 3), 4, [[-2, -1, 0]], 100), 1e-15)

    def test_backward_turns_back(self):
        values = self.values(24)
        npy.write(self.path("q.npy"), "<f8", (1, 2, 3, 4), values)
        got = self.rotate("--backward", "--offset", "9")[2]
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
        result = run(*arguments, "--offset", "62")
        self.assertEqual(result.returncode, 0)
        self.assertIn("dynamic depends on the sequence's length; the frequencies are those for 64 tokens", result.stderr)
        self.assertEqual(run(*arguments, "--offset", "61").stderr, "")
        self.assertEqual(run(*arguments, "--offset", "62", "--seq-len", "65").stderr, "")

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
            (["dim6.npy: the last extent must be the encoding's head_dim 4, got [1, 2, 3, 6]"],
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
