"""Tests of `bearing config` as its users run it."""

import decimal
import json
import math
import pathlib
import re
import subprocess
import unittest

import npy
import support
from support import COMMAND, LLAMA, SMALL, SOURCE, run

GOLDEN = pathlib.Path(__file__).parent / "llama-3.1-8b.txt"


class Config(support.Base):
    # bearing config

    def test_of_many_kinds_of_layers_the_first_are_shown_and_the_others_counted(self):
        bases = {**SMALL, "model_type": "granite_swa", "num_hidden_layers": 300, "layer_rope_theta": [10000 + i for i in range(300)]}
        config = self.put("many.json", bases)
        said = "172 more kinds of layers are neither measured nor shown: bearing config --all has them"
        self.assertIn(said, " ".join(run("config", config).stdout.split()))
        report = json.loads(run("config", config, "--json").stdout)
        self.assertEqual((len(report["groups"]), report["warnings"][0]["text"]), (128, said))
        self.assertEqual(len(json.loads(run("config", config, "--json", "--all").stdout)["groups"]), 300)
        self.assertEqual(json.loads(run("config", config, "--json", "--layer", "299").stdout)["groups"][0]["layers"], [299])
        self.assertIn("172 more", " ".join(run("config", config, config).stdout.split()))
        page = self.path("r.html")
        self.assertEqual(run("report", config, "--no-pictures", "-o", page).returncode, 0)
        self.assertEqual(page.read_text().count("It could not be measured: a page has pictures and measurements of the first 32 "), 96)
        wide = {str(i): {"head_dim": 65536 - 2 * i} for i in range(10)}
        config = self.put("wide.json", {**SMALL, "model_type": "newmodel", "head_dim": 64, "num_hidden_layers": 10, "per_layer_config": wide})
        self.assertIn("9 more kinds of layers", run("config", config).stdout)

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
        self.assertIn("\x1b[1m", self.on_a_terminal({}, "config", LLAMA))
        self.assertNotIn("\x1b", self.on_a_terminal({"NO_COLOR": "1"}, "config", LLAMA))

    def test_config_does_not_say_that_heads_have_no_dimensions(self):
        text = run("config", self.put("mobilevit.json", {"model_type": "mobilevit", "num_attention_heads": 4})).stdout
        self.assertIn("4 query, 4 key/value, dimensions not stated", text)

    def test_config_counts_the_positions_of_patches(self):
        for model_type, unit in (("pixtral", "rad/patch"), ("dinov3_vit", "rad/unit"), ("llama", "rad/token")):
            self.assertIn(unit, run("config", self.put("model.json", {"model_type": model_type})).stdout)

    def test_config_says_the_images_of_training(self):
        file = self.put("tower.json", {"model_type": "sapiens2", "image_size": [1024, 768], "patch_size": 16})
        self.assertIn("\n  trained image     64 x 48 patches\n", run("config", file).stdout)
        self.assertNotIn("trained image", run("config", self.put("tower.json", {"model_type": "qwen2_vl_vision"})).stdout)

    def test_config_shows_layers_that_do_not_rotate(self):
        config = dict(SMALL, model_type="smollm3", no_rope_layers=[1, 0])
        text = run("config", self.put("nope.json", config)).stdout
        self.assertIn("\nlayer 0: rotary\n", text)
        self.assertIn("\nlayer 1: no encoding\n", text)
        text = run("config", self.put("bloom.json", {"model_type": "bloom", "hidden_size": 16, "n_head": 4, "n_layer": 2})).stdout
        self.assertIn("\nlayers 0-1: alibi\n", text)
        self.assertIn("slopes            0.25, 0.0625, 0.015625, 0.00390625\n", text)

    def test_config_says_what_has_no_attention(self):
        text = run("config", self.put("mamba.json", {"model_type": "mamba", "hidden_size": 16, "num_hidden_layers": 2})).stdout
        self.assertIn("\n  attention         no attention (recurrent)\n"
                      "  positions         none: it takes tokens one after the other, in their order\n", text)
        linear = {"model_type": "qwen3_next", "num_hidden_layers": 4}
        text = run("config", self.put("linear.json", linear)).stdout
        self.assertIn("\n  attention         linear_attention\n"
                      "  positions         none: it takes tokens one after the other, in their order\n", text)

    def test_config_shows_encoder_and_decoder_and_what_their_inputs_get(self):
        config = {"model_type": "whisper", "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
                  "max_target_positions": 32}
        text = run("config", self.put("whisper.json", config)).stdout
        self.assertIn("\ninput of the encoder: sinusoidal\n", text)
        self.assertIn("layout            tensor2tensor\n", text)
        self.assertIn("\n  length            1,500\n", text)  # of the encoder; the class has it where the file does not
        self.assertEqual(json.loads(run("config", self.put("whisper.json", config), "--json").stdout)["inputs"][0]["length"], 1500)
        self.assertIn("\ninput of the decoder: learned\n  length            32\n", text)
        self.assertIn("\nencoder layers 0-1: no encoding\n", text)
        self.assertIn("\ndecoder layer 2: no encoding\n", text)

    def test_config_says_where_the_base_comes_from(self):
        said = self.put("said.json", SMALL)
        self.assertIn("  base              100 (rope_theta)\n", run("config", said).stdout)
        self.assertEqual(self.report(said)["groups"][0]["base_from"], "rope_theta")
        misspelt = {"rope_teta" if key == "rope_theta" else key: value for key, value in SMALL.items()}
        misspelt = self.put("misspelt.json", misspelt)
        text = run("config", misspelt).stdout
        self.assertIn("  base              10,000 (default of llama)\n", text)
        self.assertEqual(self.report(misspelt)["groups"][0]["base_from"], "default of llama")
        self.assertIn("warning: /rope_theta: not in the file; 10000 is the default of llama\n", text)
        # A Gemma 3's text_config leaves out what is its class' default: that is no reason to warn.
        text = run("config", "examples/models/gemma-3-4b.json").stdout
        self.assertIn("  base              1,000,000 (default of gemma3_text)\n", text)
        self.assertNotIn("rope_theta", text)

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
        config.update(rope_local_base_freq=1e2, rope_theta=1e2, head_dim=8,  # θ_1 = 0.316, angles to 331,590
                      max_position_embeddings=1048576)
        warnings = [warning["text"] for warning in self.report(self.put("w.json", config))["warnings"]]
        self.assertEqual([text[:26] for text in warnings if "float32" in text], ["angles computed in float32"])

    def test_config_and_plot_count_the_same_unfinished_pairs(self):
        for file, count, reach in (("llama-3.1-8b", 29, "65,536"), ("qwen2.5-7b-yarn", 24, "131,072"), ("gpt-oss-20b", None, None),
                                   ("smollm3-3b", None, None)):
            with self.subTest(file):
                file = f"examples/models/{file}.json"
                warnings = " ".join(warning["text"] for warning in self.report(file)["warnings"])
                said = re.search(r"\((\d+) of (\d+)\) turns? less than once", warnings).groups()
                drawn = json.loads(run("plot", "wavelengths", f"@{file}", "--json").stdout)["text"]
                self.assertIn(" of ".join(said) + " pairs complete no turn in the trained", drawn)
                if count:
                    self.assertEqual(said[0], str(count))
                    self.assertIn(f"as scaled, sequences longer than {reach} tokens reach angles", warnings)

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self):
        config = self.put("x.json", dict(SMALL, model_type="a\x1b[31mb\nc"))
        result = run("config", config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("\x1b", result.stdout)
        self.assertIn("a\\x1b[31mb\\x0ac", result.stdout)

    def test_marks_that_a_terminal_obeys_do_not_reach_it(self):
        """C1 controls, separators, marks of direction; in the report, in JSON, in errors, in names of files."""
        marks = "\x7f\x80\x9b\x9f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"
        config = self.put("x.json", dict(SMALL, model_type=f"a{marks}\u00e9b"))
        for arguments in ([config], [config, "--json"]):
            result = run("config", *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertFalse(set(result.stdout) & set(marks), ascii(result.stdout))
            self.assertIn("\\u009b", result.stdout)
            self.assertIn("\u00e9b", result.stdout)
        self.assertEqual(self.report(config)["model_type"], f"a{marks}\u00e9b")
        for broken in ({"model_type": marks}, {marks: 1}, dict(SMALL, rope_scaling={"type": marks})):
            result = run("config", self.put("y.json", broken))
            self.assertEqual(result.returncode, 3)
            self.assertFalse(set(result.stderr) & set(marks), ascii(result.stderr))
        self.expect_error(3, "\\u202e", "config", self.path("\u202e.json"))

    # where a config comes from

    def test_a_folder_a_pipe_and_standard_input_are_read(self):
        text = (SOURCE / LLAMA).read_text()
        wanted = run("config", LLAMA).stdout.split("\n", 1)[1]
        self.path("config.json").write_text(text)
        for arguments, given in (([self.directory], None), (["-"], text), (["/dev/stdin"], text)):
            got = run("config", *arguments, input=given)
            self.assertEqual((got.returncode, got.stdout.split("\n", 1)[1]), (0, wanted), got.stderr)
        shell = f'cat {SOURCE / LLAMA} | "$0" config - --json | head -c 40; "$0" config <(cat {SOURCE / LLAMA}) | tail -n +2'
        out = subprocess.run(["bash", "-c", shell, COMMAND], capture_output=True, text=True)
        self.assertEqual((out.stdout[-len(wanted):], out.stderr), (wanted, ""))
        self.expect_error(3, "standard input:1:", "config", "-", input="{")
        self.expect_error(3, "standard input: must have at most 16 MiB", "config", "-", input=" " * (17 << 20))

    def test_several_files_are_reported_one_after_the_other_if_asked_for(self):
        other = "examples/models/smollm3-3b.json"
        self.assertEqual(run("config", LLAMA, other, "--apart").stdout,
                         run("config", LLAMA).stdout + "\n" + run("config", other).stdout)
        both = json.loads(run("config", LLAMA, other, "--json").stdout)
        self.assertEqual(both, [self.report(LLAMA), self.report(other)])
        self.expect_error(3, "none.json", "config", LLAMA, "none.json")

    def test_several_files_stand_beside_each_other(self):
        """A column each, a row for each fact; as many columns as fit, the others below."""
        files = [f"examples/models/{name}.json" for name in ("llama-3.1-8b", "gemma-3-4b", "smollm3-3b")]
        for columns in (50, 80, 160):
            text = run("config", *files, env={"COLUMNS": str(columns)}).stdout
            self.assertLessEqual(max(map(len, text.splitlines())), columns)
            self.assertEqual(text.count("\ntrained length "), {50: 3, 80: 1, 160: 1}[columns])
            self.assertEqual(text.count("\nbase "), text.count("\ntrained length "))
        rows = {line[:18].strip(): line[20:] for line in text.splitlines() if line[:1].strip()}
        self.assertRegex(rows["model"], r"^llama, 32 layers +gemma3_text, 34 layers +smollm3, 36 layers$")
        self.assertRegex(rows["base"], r"^500,000 \(rope_theta\) +10,000 \(default of gemma3_text\) \| 1,000,000 +5,000,000 \(rope_theta\)$")
        self.assertNotIn("rad/token", text)

    # what it says

    def test_the_length_that_a_factor_reaches_is_said(self):
        """YaRN by 4 from 32,768 tokens serves 131,072, whatever max_position_embeddings says."""
        yarn = "examples/models/qwen2.5-7b-yarn.json"
        self.assertEqual(self.report(yarn)["scaled_length"], 131072)
        text = run("config", yarn, env={"COLUMNS": "160"}).stdout
        self.assertIn("scaled length     131,072 tokens\n", text)
        self.assertIn("\nwarning: YaRN x 4 of 32,768 serves 131,072 tokens; the file says 32,768", text)
        first = self.report(yarn)["warnings"][0]["text"]
        self.assertTrue(first.startswith("YaRN x 4 of 32,768 serves 131,072 tokens; the file says 32,768: "), first)
        agreeing = run("config", "examples/models/gpt-oss-20b.json").stdout
        self.assertNotIn("scaled length", agreeing)
        self.assertNotIn(" serves ", agreeing)

    def test_layers_at_even_steps_and_equal_tables_are_said_once(self):
        text = run("config", "examples/models/gpt-oss-20b.json").stdout
        self.assertIn("\nlayers 0, 2, ..., 22: rotary\n", text)
        self.assertIn("\n  table             that of layers 0, 2, ..., 22\n", text)
        self.assertEqual(text.count("rad/token"), 1)
        self.assertEqual(run("config", "examples/models/gemma-3-4b.json").stdout.count("rad/token"), 4)  # two in two blocks

    def test_factors_have_six_digits_in_prose_and_all_in_json(self):
        text = run("config", "examples/models/deepseek-v3.json").stdout
        self.assertIn("softmax factor    1.87385\n", text)
        self.assertNotRegex(text, r"1\.873854")
        (group,) = self.report("examples/models/deepseek-v3.json")["groups"]
        self.assertEqual(f"{group['softmax_scale_factor']:.10f}", "1.8738542071")

    def test_float32_angles_are_warned_of_where_contexts_are_very_long(self):
        for length, warned in ((131072, False), (1048576, True)):
            config = self.put("f.json", dict(SMALL, head_dim=32, rope_theta=500000.0, max_position_embeddings=length))
            self.assertEqual("float32" in run("config", config).stdout, warned)

    def test_a_bad_config_exits_with_3(self):
        self.path("bad.json").write_text('{"model_type": "llama", }')
        self.expect_error(3, "bad.json", "config", self.path("bad.json"))
        self.expect_error(3, "missing.json", "config", self.path("missing.json"))
        weights = self.path("model.safetensors")
        weights.write_bytes((2).to_bytes(8, "little") + b"{}")
        for form in [], ["--write", "v5"]:
            self.expect_error(3, ["must be a config.json", "got a safetensors file", "give the model's folder"], "config",
                              weights, *form)
        self.expect_error(3, [str(self.directory), "config.json"], "config", self.directory)

    # bearing config --json

    def report(self, *arguments, **settings):
        result = run("config", *arguments, "--json", **settings)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout, parse_constant=lambda word: self.fail(f"{word} is not JSON"))

    def test_json_has_the_documented_members(self):
        report = self.report(LLAMA)
        self.assertEqual(list(report), ["schema", "file", "model_type", "layers", "heads", "kv_heads", "head_dim",
                                        "trained_length", "context_length", "scaled_length", "seq_len", "inputs", "groups", "warnings",
                                        "part", "towers"])
        self.assertEqual(report["schema"], "bearing.config/2")
        self.assertEqual([report[key] for key in ("file", "model_type", "layers", "heads", "kv_heads", "head_dim")],
                         [LLAMA, "llama", 32, 32, 8, 128])
        self.assertEqual([report[key] for key in ("trained_length", "context_length", "seq_len")], [8192, 131072, 0])
        (group,) = report["groups"]
        self.assertEqual(list(group), ["layers", "part", "type", "window", "window_after", "encoding", "pairing", "head_dim", "rotary_dim",
                                       "begin", "base", "base_from", "scaling", "rope", "attention_factor", "softmax_scale_factor",
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
        at_rest, longer = self.report(config), self.report(config, "--length", "256")
        self.assertEqual((at_rest["seq_len"], longer["seq_len"]), (0, 256))
        # base · (2·256/64 − 1)^(r/(r−2)) with r = 4: 100·49, so θ_1 = 1/√4900.
        self.assertAlmostEqual(at_rest["groups"][0]["inv_freq"][1], 0.1, delta=1e-16)
        self.assertAlmostEqual(longer["groups"][0]["inv_freq"][1] * 70, 1, delta=1e-15)
        self.assertTrue(any("must be rebased" in warning["text"] for warning in longer["warnings"]))

    def test_json_members_are_documented(self):
        report = self.report(SOURCE / "tests/corpus/hf_config/valid/qwen2_5_7b_1m.json")
        page = (SOURCE / "docs/guide/config-json-schema.md").read_text()
        for member in [*report, *report["groups"][0]]:
            self.assertIn(f"`{member}`", page)

    # bearing config --write

    def test_a_file_is_written_in_the_other_spelling_and_back(self):
        written = run("config", "--write", "v5", LLAMA)
        self.assertEqual(written.returncode, 0)
        self.assertIn("takes base 10000, where the file says 500000", written.stderr)
        newer = json.loads(written.stdout)
        self.assertEqual((newer["rope_parameters"]["rope_theta"], "rope_theta" in newer), (500000, False))
        self.path("newer.json").write_text(written.stdout)
        back = run("config", "--write", "v4", self.path("newer.json"), "-o", self.path("older.json"))
        self.assertEqual((back.returncode, back.stdout), (0, ""))
        self.assertIn("before 4.43", back.stderr)
        self.assertEqual(json.loads(self.path("older.json").read_text()), json.loads((SOURCE / LLAMA).read_text()))
        self.assertEqual(run("config", "--write", "v5", "-", input=written.stdout).stdout, written.stdout)

    def test_what_an_older_reader_makes_of_a_newer_file_is_said_last_of_what_the_file_says(self):
        self.path("newer.json").write_text(run("config", "--write", "v5", LLAMA).stdout)
        warnings = [warning["text"] for warning in self.report(self.path("newer.json"))["warnings"]]
        self.assertEqual(sum("as transformers before 5, takes base 10000" in text for text in warnings), 1)
        self.assertFalse(any("before 5" in warning["text"] for warning in self.report(LLAMA)["warnings"]))

    def test_write_is_refused_where_it_has_no_words_or_no_place(self):
        gemma = SOURCE / "tests/corpus/hf_config/valid/gemma4.json"
        self.expect_error(3, ["must be default, linear", 'got "proportional"'], "config", "--write", "v4", gemma)
        self.expect_error(2, ["--write takes one FILE"], "config", "--write", "v4", LLAMA, LLAMA)
        self.expect_error(2, ["--write prints the file and no report"], "config", "--write", "v4", LLAMA, "--json")
        self.expect_error(2, ["--write: must be v4, v5 or gguf"], "config", "--write", "v6", LLAMA)

    def test_write_gguf_is_read_back(self):
        out = self.path("rope.gguf")
        for name in ("qwen2_5_7b_1m", "qwen3_8b", "llama3_1_8b", "gemma3_4b"):
            config = SOURCE / f"tests/corpus/hf_config/valid/{name}.json"
            written = run("config", config, "--write", "gguf", "-o", out)
            if name == "qwen2_5_7b_1m":
                self.assertEqual(written.returncode, 3)
                self.assertIn("got regions of one softmax", written.stderr)
                continue
            self.assertEqual(written.returncode, 0, written.stderr)
            self.assertEqual("must be reordered" in written.stderr, name.startswith("llama"))
            wanted, got = (json.loads(run("config", one, "--json").stdout) for one in (config, out))
            self.assertEqual([g["layers"] for g in wanted["groups"]], [g["layers"] for g in got["groups"]])
            for ours, theirs in zip(wanted["groups"], got["groups"], strict=True):
                self.assertEqual(ours["window"], theirs["window"])
                for a, b in zip(ours["inv_freq"], theirs["inv_freq"], strict=True):
                    self.assertAlmostEqual(a / b, 1, delta=2.0**-22)

    def test_write_gguf_is_refused_where_llama_cpp_does_otherwise(self):
        out = self.path("rope.gguf")
        self.expect_error(2, ["--write gguf needs -o FILE"], "config", "--write", "gguf", LLAMA)
        self.expect_error(2, ["--architecture goes with --write gguf alone"], "config", "--architecture", "llama", LLAMA)
        self.expect_error(2, ["--architecture goes with --write gguf alone"], "config", "--write", "v5",
                          "--architecture", "llama", LLAMA)
        self.expect_error(3, ["must be one that llama.cpp has", 'got "lama"'], "config", LLAMA, "--write", "gguf",
                          "--architecture", "lama", "-o", out)
        smollm = SOURCE / "examples/models/smollm3-3b.json"
        self.expect_error(3, ["llama.cpp's code for llama turns in the same way", "got layer 3: none where its code has rope"],
                          "config", smollm, "--write", "gguf", "--architecture", "llama", "-o", out)
        self.assertFalse(out.exists())

    def test_files_in_other_words_are_read_or_refused(self):
        folder = SOURCE / "tests/corpus/dialects"
        for file in sorted((folder / "valid").glob("*.json")):
            self.assertEqual(run("config", file).returncode, 0, file)
            self.assertEqual(run("config", file, "--json").returncode, 0, file)
        for file in sorted((folder / "malformed").glob("*.json")):
            self.expect_error(3, [file.name], "config", file)

    def test_the_rope_of_the_report_rotates(self):
        """What config prints, rotate takes: the two agree with the model's own file."""
        (group,) = self.report(LLAMA)["groups"]
        npy.write(self.path("q.npy"), "<f4", (1, 2, 3, 128), self.values(768))
        for name, source in (("a", ["--config", LLAMA]), ("b", ["--rope", json.dumps(group["rope"])])):
            result = run("rotate", *source, "--q", self.path("q.npy"), "--positions", "100000", "--out-q",
                         self.path(name + ".npy"))
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(self.path("a.npy").read_bytes(), self.path("b.npy").read_bytes())
        self.assertNotEqual(self.path("a.npy").read_bytes(), self.path("q.npy").read_bytes())


if __name__ == "__main__":
    unittest.main()
