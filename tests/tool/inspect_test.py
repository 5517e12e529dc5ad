"""Tests of `bearing list`, `check`, `compare` and `table` as their users run them."""

import json
import math
import re
import unittest

import npy
import support
from support import run

SMALL = ("--heads", "2", "--dim", "8", "--length", "32")


class Inspect(support.Base):
    def report(self, *arguments):
        result = run(*arguments, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout, parse_constant=lambda word: self.fail(f"{word} is not JSON"))

    # wrong command lines: exit status 2

    def test_inspection_of_what_is_not_there_exits_with_2(self):
        for pieces, arguments in (
            ("check: 'alib' is not an encoding; did you mean 'alibi', 'alibi_learned', 'alibi_shifted'?", ["check", "alib"]),
            ("compare: 'xxxxx' is not an encoding; 'bearing list' shows all", ["compare", "rope", "xxxxx"]),
            ("table: 'shw' is not an encoding; did you mean 'shaw'?", ["table", "shw"]),
            ("ENCODING is required", ["check"]),
            ("check: head_dim: must be even", ["check", "rope", "--dim", "7"]),
            ("--heads: must be a whole number from 1 to 1024, got '0'", ["check", "rope", "--heads", "0"]),
            ("--length: must be a whole number from 1 to 65536, got 'x'", ["compare", "--length", "x"]),
            ("--require: 'relativ' is not a property; did you mean 'relative'? Properties are unique, relative, ",
             ["check", "nope", *SMALL, "--require", "norm,relativ"]),
            ("--require: 'x' is not a property; properties are unique, relative, ", ["check", "nope", *SMALL, "--require", "x"]),
            ("table: alibi has no rows: it acts on score", ["table", "alibi", "--kind", "rows"]),
            ("--kind: must be rows, scores or logits, got 'row'", ["table", "alibi", "--kind", "row"]),
            ("--format: must be npy, csv, json or text, got 'png'", ["table", "alibi", "--format", "png"]),
            ("--format npy needs --out FILE", ["table", "alibi", "--format", "npy"]),
            ("--head: must be a whole number from 0 to 1, got '2'", ["table", "alibi", *SMALL, "--head", "2"]),
            ("table: heads, length and dim make more than 2^27 numbers",
             ["table", "alibi", "--length", "8192"]),
            ("table: ", ["table", "swin", *SMALL, "--positions", "-3"]),
            ("list: 'more' is not an encoding", ["list", "more"]),
            ("check: t5: 'bucket' is not a key; did you mean 'buckets'?", ["check", "t5:bucket=3"]),
            ("check: buckets: must leave each direction at least 2, and be at most 2^20, got -1", ["check", "t5:buckets=-1"]),
            ("check: t5: 'table' is not a key; it takes buckets, max_distance, direction", ["check", "t5:table=t5.npy"]),
            ("table: @examples/models/gemma-3-4b.json says several: must be one of @examples/models/gemma-3-4b.json#0, ",
             ["table", "@examples/models/gemma-3-4b.json"]),
        ):
            with self.subTest(arguments):
                self.expect_error(2, [pieces, f"See 'bearing {arguments[0]} --help'."], *arguments)

    def test_an_encoder_and_a_decoder_are_measured_under_their_names_at_their_lengths(self):
        whisper = self.put("whisper.json", {"model_type": "whisper", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
                                            "encoder_attention_heads": 2, "max_source_positions": 96, "max_target_positions": 40})
        names = [f"@{whisper}#encoder.input", f"@{whisper}#decoder.input"]
        encoder, decoder = self.report("check", f"@{whisper}")
        self.assertEqual([encoder["encoding"], decoder["encoding"]], names)
        self.assertEqual([encoder["length"], decoder["length"]], [96, 40])
        self.assertEqual([one["name"] for one in self.report("compare", f"@{whisper}")["encodings"]], names)
        self.assertEqual(run("table", names[0], "--length", "2").returncode, 0)
        drawn = run("plot", "wavelengths", names[0])
        self.assertEqual((drawn.returncode, drawn.stderr), (0, ""))
        self.expect_error(2, f"says several: must be one of {names[0]}, {names[1]}", "table", f"@{whisper}#input")

    def test_a_layer_keeps_the_number_that_was_asked_for(self):
        gemma = "@examples/models/gemma-3-4b.json#7"
        self.assertEqual(self.report("check", gemma, "--length", "32")["encoding"], gemma)
        self.assertEqual(self.report("plot", "curves", gemma)["panels"][0]["title"][:len(gemma)], gemma)

    def test_a_layer_whose_input_has_the_encoding_is_not_called_nope(self):
        vit = self.put("vit.json", {"model_type": "vit", "num_hidden_layers": 6})
        text = run("check", f"@{vit}#5", "--length", "32", env={"COLUMNS": "200"}).stdout
        self.assertEqual(text.splitlines()[0], f"@{vit}#5: no encoding of its own: it is in the input")

    def test_models_of_several_sizes_are_compared_with_their_sizes(self):
        files = [self.put(f"{heads}.json", {"model_type": "llama", "hidden_size": 16 * heads, "num_attention_heads": heads,
                                            "num_hidden_layers": 1, "max_position_embeddings": 32 * heads})
                 for heads in (2, 4)]
        subjects = ["compare", "nope", *(f"@{file}" for file in files)]
        lines = run(*subjects, env={"COLUMNS": "200"}).stdout.splitlines()
        self.assertEqual(lines[0], "each at its own size, seed 1")
        self.assertEqual(lines[2].split()[:4], ["encoding", "heads", "dim", "length"])
        self.assertEqual([line.split()[:4] for line in lines[3:6]],
                         [["nope", "2", "16", "64"], [f"@{files[0]}", "2", "16", "64"], [f"@{files[1]}", "4", "16", "128"]])
        rows = self.report(*subjects)["encodings"]
        self.assertEqual([(row["heads"], row["dim"], row["length"]) for row in rows], [(2, 16, 64), (2, 16, 64), (4, 16, 128)])
        self.assertIn("| heads | dim | length |", run(*subjects, "--markdown").stdout.splitlines()[0])
        alike = run(*subjects, "--heads", "2", "--length", "32").stdout.splitlines()
        self.assertEqual((alike[0], alike[2].split()[:2]), ("2 heads of 16, length 32, seed 1", ["encoding", "learned"]))

    def test_inspection_fits_the_width_it_is_given(self):
        for width in (40, 60, 80, 120):
            for arguments in (["list"], ["check", "t5", *SMALL], ["compare", "t5", "nope", *SMALL]):
                result = run(*arguments, env={"COLUMNS": str(width)})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), width, result.stdout)
                self.assertTrue(result.stdout.isascii())
            for arguments in (["table", "alibi", *SMALL], ["table", "sinusoidal", *SMALL]):
                text = self.on_a_terminal({"COLUMNS": str(width), "NO_COLOR": "1"}, *arguments)
                self.assertLessEqual(max(map(len, text.splitlines())), width, text)

    # bearing list

    def test_list_has_every_encoding_once(self):
        names = [entry["name"] for entry in self.report("list")["encodings"]]
        self.assertEqual(len(names), len(set(names)))
        text = run("list").stdout
        for name in names:
            self.assertRegex(text, rf"(?m)^{name} ")
        for name in ("learned", "sinusoidal", "rope", "rope_yarn", "xpos", "alibi", "t5", "nope"):
            self.assertIn(name, names)

    def test_list_json_has_the_documented_members(self):
        report = self.report("list")
        self.assertEqual(report["schema"], "bearing.list/1")
        for entry in report["encodings"]:
            self.assertEqual(list(entry), ["name", "title", "authors", "year", "source", "does", "sites", "learned",
                                           "causal", "aliases", "page", "form", "members", "parameters"])
        (alibi,) = [entry for entry in report["encodings"] if entry["name"] == "alibi"]
        self.assertEqual((alibi["source"], alibi["sites"], alibi["learned"]), ("arXiv 2108.12409", "score", False))

    def test_list_says_what_is_known_of_an_encoding(self):
        text = run("list", "T5-causal").stdout
        for line in (r"t5_causal: T5 buckets, causal \(Raffel et al\. 2020, arXiv 1910\.10683\)", "acts on: score; form: distance; causal",
                     r"buckets +32 +", r"direction +causal +bidirectional or causal\.", r"table +\[buckets, heads\]\. .* Starts normal,"):
            self.assertRegex(text, rf"(?m)^{line}")
        self.assertRegex(run("list", "rope").stdout, r"(?m)^pairing +must be given +interleaved or half\.")
        (alibi,) = self.report("list", "alibi")["encodings"]
        self.assertEqual([member["name"] for member in alibi["members"]], ["slopes", "form"])
        self.assertEqual(alibi["members"][1]["words"], ["symmetric", "causal"])
        (shaw,) = self.report("list", "shaw:clip=3")["encodings"]
        self.assertEqual([(one["name"], one["extents"], one["optional"]) for one in shaw["parameters"]],
                         [("key", ["heads", "2 clip + 1", "dim"], True), ("value", ["heads", "2 clip + 1", "value_dim"], True)])

    def test_list_shows_the_members_of_a_record_in_place_of_a_key_that_takes_no_value(self):
        for name, keys, without in (("swin_v2", ["height", "width", "class_token", "trained_height"], "window"),
                                    ("xpos", ["head_dim", "pairing", "scaling", "where", "order", "gamma"], "rope")):
            text = run("list", name).stdout
            shown = [key for key in re.findall(r"(?m)^(\w+)  ", text) if key in [*keys, without]]
            self.assertEqual(shown, keys)

    def test_deberta_is_measured_with_one_table(self):
        for term in ("c2p", "p2c"):
            both, one = (self.report("check", f"deberta:terms={terms}", *SMALL) for terms in ("both", term))
            number = lambda report: [of["number"] for of in report["properties"] if of["name"] == "parameters"]
            self.assertEqual([2 * each for each in number(one)], number(both))
            self.report("table", f"deberta:terms={term}", *SMALL)

    def test_list_says_which_keys_only_attend_takes(self):
        for name, key in (("rope_mixed", "group"), ("alibi_learned", "form"), ("forgetting", "past")):
            with self.subTest(name):
                self.assertRegex(" ".join(run("list", name).stdout.split()), rf" {key} .* Only attend takes it\.")
                self.expect_error(2, f"'{key}' is not a key", "check", f"{name}:{key}=1")
        self.assertNotIn("Only attend", run("list", "alibi").stdout)

    def test_list_says_what_a_parameter_is_computed_from_and_what_stands_beside_it(self):
        for name, wanted in (
            ("swin_v2", [("w1", False), ("b1", False), ("w2", False)]),
            ("xlnet", [("w_r", False), ("r", True), ("u", False), ("v", False), ("seg_embed", True), ("r_s", True),
                       ("q_segments", True), ("k_segments", True)]),
        ):
            (entry,) = self.report("list", name)["encodings"]
            self.assertEqual([(one["name"], one["optional"]) for one in entry["parameters"]], wanted)

    def test_an_encoding_is_said_alike_everywhere(self):
        size = ("--heads", "2", "--dim", "8", "--length", "32")
        by_key = self.report("table", "rope:base=100", *size)["numbers"]
        self.assertNotEqual(by_key, self.report("table", "rope", *size)["numbers"])
        spec = '{"head_dim": 8, "pairing": "half", "base": 100}'
        self.path("rope.json").write_text(spec)
        for text in (f"rope:{spec}", spec, self.path("rope.json"), "RoPE:base=100"):
            self.assertEqual(self.report("table", text, *size)["numbers"], by_key)
        rows = self.report("compare", "t5:buckets=4", "t5", *size)["encodings"]
        self.assertEqual([(row["name"], row["parameters"]) for row in rows], [("t5:buckets=4", 8), ("t5", 64)])
        report = self.report("check", "ALIBI", *size)
        self.assertEqual(report["encoding"], "alibi")

    def test_a_model_is_measured_at_its_sizes(self):
        config = self.put("config.json", {**support.SMALL, "max_position_embeddings": 128})
        report = self.report("check", f"@{config}")
        self.assertEqual([report[key] for key in ("encoding", "heads", "dim", "length")], [f"@{config}", 4, 4, 128])
        self.assertEqual(self.report("check", f"@{config}", "--length", "32")["length"], 32)
        rows = self.report("compare", f"@{config}", "alibi")
        self.assertEqual([rows[key] for key in ("heads", "dim", "length")], [4, 4, 128])
        kinds = self.report("check", "@examples/models/gemma-3-4b.json", "--heads", "1", "--length", "32")
        self.assertEqual([kind["encoding"] for kind in kinds],
                         [f"@examples/models/gemma-3-4b.json#{layer}" for layer in (0, 5)])
        result = run("compare", "@examples/models/llama-3.1-8b.json", "--dim", "128", "--heads", "512")
        self.assertRegex(result.stderr, r"^bearing: @\S+: measured over 256 of its 8,192 tokens; --heads and --length say")
        result = run("check", "@examples/models/llama-3.1-8b.json", "--length", "65536")
        self.assertRegex(result.stderr, r"^bearing: @\S+: measured with 2 of its 32 heads; --heads and --length say otherwise$")
        self.assertIn("\nacts on: query/key; 2 heads of 128, length 65536, seed 1\n", result.stdout)

    def test_notes_show_the_signs_of_a_files_name(self):
        config = self.put("a\x1b[31m\nb.json", {**support.SMALL, "max_position_embeddings": 131072})
        result = run("check", f"@{config}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("a\\x1b[31m\\x0ab.json: measured", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertNotIn("\x1b", result.stderr)

    def test_reports_show_the_signs_of_a_files_name(self):
        config = self.put("a\x1b[31m\u009b2J\u202e\nb.json", support.SMALL)
        for arguments in (["check", f"@{config}", "--length", "32"], ["compare", f"@{config}", "--length", "32"], ["table", f"@{config}"],
                          ["choose", "--task", "generate", "--from", f"@{config}"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotRegex(result.stdout + result.stderr, "[\x1b\u009b\u202e]")
            self.assertIn("a\\x1b[31m", "".join(result.stdout.split()))
            if arguments[0] in ("check", "compare"):
                shown = self.on_a_terminal({}, *arguments, stream="stderr")
                self.assertNotRegex(shown.replace("\r\x1b[K", ""), "[\x1b\u009b\u202e]")

    def test_a_files_name_is_code_in_markdown(self):
        config = f"@{self.put('a`|``<b>[x](y).json', support.SMALL)}"
        for command in ("check", "compare"):
            result = run(command, config, "alibi", "--length", "32", "--markdown")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(" ``` " + config.replace("|", "\\|") + " ``` |", result.stdout)

    def test_a_spec_is_measured_at_its_own_width_or_refused_by_it(self):
        for spec in ("sinusoidal:dim=6144", "rope:head_dim=6144"):
            report = self.report("check", spec, "--heads", "1", "--length", "16")
            self.assertEqual(report["dim"], 6144)
        wide = self.put("wide.json", {**support.SMALL, "hidden_size": 65536, "num_attention_heads": 1, "num_key_value_heads": 1})
        wanted = ["wide.json: head_dim must be at most 16384 where an example is made, got 65536"]
        for command in (["check"], ["compare"], ["table"], ["plot", "wavelengths"]):
            self.expect_error(3, wanted, *command, f"@{wide}")
        self.expect_error(2, "rope: head_dim must be at most 16384", "check", "rope:head_dim=65536")

    def test_one_head_is_no_heads(self):
        for command in ("check", "compare"):
            text = run(command, "alibi", "--heads", "1", "--dim", "8", "--length", "32").stdout
            self.assertIn("1 head of 8, length 32, seed 1\n", text)
        text = run("check", "alibi", "--heads", "1", "--dim", "8", "--length", "32", "--markdown").stdout
        self.assertIn("Measured on 1 head of 8, length 32, seed 1:\n", text)

    def test_list_prints_tables_in_markdown_whose_links_lead_to_pages(self):
        entries = self.report("list")["encodings"]
        rows = run("list", "--markdown").stdout.splitlines()
        self.assertEqual(len(rows), 2 + len(entries))
        self.assertEqual(rows[:2], ["| encoding | name | acts on | what it does | paper |", "|---|---|---|---|---|"])
        for row, entry in zip(rows[2:], entries):
            self.assertTrue(row.startswith(f"| [{entry['title']}](docs/encodings/{entry['page']}.md) | `{entry['name']}` | "))
            self.assertTrue((support.SOURCE / "docs/encodings" / f"{entry['page']}.md").is_file(), row)
        pages = run("list", "--markdown", "--by", "page", "--pages", "encodings").stdout
        self.assertEqual(pages.count("\n"), 2 + len({entry["page"] for entry in entries}))
        self.assertIn("| [alibi](encodings/alibi.md) | ALiBi; ALiBi with learned slopes; ALiBi, shifted by row | score |\n", pages)
        self.assertEqual(run("list", "t5", "--markdown", "--by", "name").stdout.count("\n"), 3)
        self.expect_error(2, "--pages needs --markdown", "list", "--pages", "encodings")
        self.expect_error(2, "--by needs --markdown", "list", "--by", "page")
        self.expect_error(2, "--json and --markdown exclude each other", "list", "--json", "--markdown")

    def test_list_writes_what_stands_on_an_encodings_page(self):
        def lines(*arguments):
            return run("list", *arguments, "--markdown").stdout.splitlines()

        self.assertEqual(lines("kerple_log", "--by", "fact"),
                         ["| name | acts on | what it does | paper |", "|---|---|---|---|",
                          "| `kerple_log`, `kerple` | score | a score loses by the logarithm of distance | "
                          "Chi et al. 2022, arXiv 2205.09921 |"])
        # Keys and parameters that all have alike stand there once, and whose others are is said.
        alike = lines("t5", "t5_causal", "--by", "key")
        self.assertEqual(alike[0], "| key | default | what it is | of |")
        self.assertIn("| `buckets` | 32 |", alike[2])
        self.assertTrue(alike[2].endswith(" | all |"), alike[2])
        directions = [line for line in alike if line.startswith("| `direction` |")]
        self.assertEqual([line.rsplit(" | ", 1)[1] for line in directions], ["`t5` |", "`t5_causal` |"])
        self.assertIn("| parameter | what it is |", alike)
        self.assertEqual(lines("nope", "--by", "key"), ["There are no keys and no parameters."])
        models = lines("alibi", "learned", "--by", "model")
        self.assertTrue(models[2].startswith("| `alibi` | `bloom`, "), models[2])
        self.assertIn("`gpt2`", models[3])
        self.assertEqual(lines("cope", "--by", "model"), ["No `model_type` that *bearing* reads has it by its name alone."])

    def test_check_measures_several(self):
        self.assertEqual([report["encoding"] for report in self.report("check", "t5", "nope", *SMALL)], ["t5", "nope"])
        lines = run("check", "t5", "rope", *SMALL, "--markdown").stdout.splitlines()
        self.assertRegex(lines[0], r"^Measured on \d+ heads of \d+, length \d+, seed 1:$")
        self.assertEqual(lines[2], "| property | `t5` | `rope` |")
        self.assertIn("| relative | yes | yes |", lines)
        self.assertEqual(len(lines), 4 + 11)
        # Grids have whole rows, so that lengths may differ.
        lines = run("check", "rope", "swin", "--heads", "2", "--dim", "8", "--length", "20", "--markdown").stdout.splitlines()
        self.assertRegex(lines[4], r"^\| length \| 20 \| \d+ \|$")
        self.assertEqual(run("check", "t5", *SMALL, "--markdown").stdout.splitlines()[2], "| property | verdict |")
        self.expect_error(2, "--json and --markdown exclude each other", "check", "t5", "--markdown", "--json")

    def test_every_encoding_is_known_to_every_door(self):
        """Besides: its six files (registry_test), JSON (say_test), Python (test_registry.py)."""
        entries = self.report("list")["encodings"]
        names = [entry["name"] for entry in entries]
        told = run("list", *names).stdout
        scripts = {shell: run("completion", shell).stdout for shell in ("bash", "zsh", "fish")}
        readme, index, properties = ((support.SOURCE / page).read_text()
                                     for page in ("README.md", "docs/README.md", "docs/guide/properties.md"))
        self.assertEqual([row["name"] for row in self.report("compare", *names, "--heads", "2", "--dim", "8", "--length", "16")
                          ["encodings"]], names)
        for entry in entries:
            name, page = entry["name"], entry["page"]
            with self.subTest(name):
                self.assertRegex(told, rf"(?m)^{name}: ")
                for shell, script in scripts.items():
                    self.assertRegex(script, rf"[ ']{name}[ ']", shell)
                    if entry["members"]:
                        self.assertIn(f"' {name} ')" if shell != "fish" else f" {name} '\n", script, shell)
                self.assertIn(f"(docs/encodings/{page}.md) | `{name}` |", readme)
                self.assertIn(f"| [{page}](encodings/{page}.md) |", index)
                self.assertIn(f"\n| {name} |", properties)

    # bearing check

    def test_check_shows_verdicts_with_evidence(self):
        text = run("check", "rope", *SMALL).stdout
        self.assertTrue(text.startswith("rope: RoPE (Su et al. 2021, arXiv 2104.09864)\n"
                                        "acts on: query/key; 2 heads of 8, length 32, seed 1\n\nproperty "), text)
        for property_, verdict in (("unique", "yes"), ("relative", "yes"), ("norm", "yes"), ("parameters", "no")):
            self.assertRegex(text, rf"(?m)^{property_} +{verdict} +\S")
        self.assertIn("fails  rope: claim \"the rotation is its own transpose", text)

    def test_check_json_has_the_documented_members(self):
        report = self.report("check", "alibi", "--heads", "1", "--dim", "8", "--length", "4096")
        self.assertEqual(list(report), ["schema", "encoding", "sites", "causal", "heads", "dim", "length", "seed",
                                        "properties", "claims"])
        self.assertEqual(report["schema"], "bearing.check/1")
        self.assertEqual([property_["name"] for property_ in report["properties"]],
                         ["unique", "relative", "decay", "extensible", "deterministic", "bounded", "norm", "symmetric",
                          "shift map", "parameters", "memory"])
        for property_ in report["properties"]:
            self.assertEqual(list(property_), ["name", "verdict", "number", "evidence"])
            self.assertIn(property_["verdict"], ("yes", "no", "partly", "learned", "n/a"))
        self.assertIn("769 in bfloat16", report["properties"][0]["evidence"])
        self.assertEqual(report["properties"][6]["number"], None)  # no norm to measure
        for claim in report["claims"]:
            self.assertEqual(list(claim), ["encoding", "claim", "holds", "number", "measured", "trained", "picture"])
            self.assertEqual(claim["encoding"], "alibi")

    def test_what_is_required_and_missing_exits_with_1(self):
        self.assertEqual(run("check", "rope", *SMALL, "--require", "relative,norm").returncode, 0)
        result = run("check", "learned", *SMALL, "--require", "unique,extensible,relative")
        self.assertEqual(result.returncode, 1)
        for spelling in ("shift map", "shift-map"):
            self.assertIn("required: shift map (", run("check", "alibi", *SMALL, "--require", spelling).stderr)
        self.assertEqual(result.stderr, "bearing: learned does not have what is required: relative (no), "
                                        "extensible (no)\n")
        self.assertIn("property", result.stdout)

    # bearing compare

    def test_compare_is_a_table_of_measurements(self):
        lines = run("compare", "learned", "t5", "alibi", "rope", *SMALL).stdout.splitlines()
        self.assertEqual(lines[0], "2 heads of 8, length 32, seed 1")
        self.assertEqual(lines[2].split(), ["encoding", "learned", "past", "length", "relative", "decay", "memory"])
        self.assertEqual(lines[3].split()[:4], ["learned", "256", "error", "no"])
        self.assertEqual(lines[4].split()[:2] + lines[4].split()[-1:], ["t5", "64", "O(1)"])
        self.assertEqual(lines[5].split(), ["alibi", "-", "unseen", "values", "yes", "yes", "O(1)"])
        self.assertEqual(lines[6].split()[0:5], ["rope", "-", "unseen", "values", "yes"])
        self.assertIn("Often said, and not so:", lines)
        self.assertTrue(any('t5: claim "memory O(L^2)"' in line for line in lines))

    def test_a_length_that_is_no_grid_is_told(self):
        told = r"^bearing: swin: 25 tokens are taken, not 30: patches fill a grid, which the encoding states, or else a square$"
        size = ("--heads", "2", "--dim", "8", "--length", "30")
        for command in ("check", "table"):
            self.assertRegex(run(command, "swin", *size).stderr.rstrip("\n"), told)
        compared = run("compare", "swin", "t5", *size)
        self.assertRegex(compared.stderr.rstrip("\n"), told)
        lines = compared.stdout.splitlines()
        self.assertEqual(lines[0], "2 heads of 8, each at its own length, seed 1")
        self.assertEqual([line.split()[:2] for line in lines[2:5]], [["encoding", "length"], ["swin", "25"], ["t5", "30"]])
        self.assertTrue(run("plot", "heatmap", "swin", *size).stdout.startswith("What is added to scores: swin (25 tokens, not 30)\n"))
        stated = run("table", "swin:height=3,width=4", *size)
        self.assertIn("12 tokens are taken, not 30", stated.stderr)
        self.assertIn("[12, 12]", stated.stdout)
        self.assertEqual(run("compare", "swin", "t5", *size[:-1], "25").stderr, "")

    def test_compare_json_has_the_documented_members(self):
        report = self.report("compare", "rope", "nope", *SMALL)
        self.assertEqual(list(report), ["schema", "heads", "dim", "length", "seed", "encodings", "claims"])
        self.assertEqual(report["schema"], "bearing.compare/1")
        for row in report["encodings"]:
            self.assertEqual(list(row), ["name", "sites", "learnable", "parameters", "extensible", "past_length",
                                         "relative", "decay", "memory", "heads", "dim", "length"])
        self.assertEqual([row["name"] for row in report["encodings"]], ["rope", "nope"])
        self.assertEqual({claim["encoding"] for claim in report["claims"]}, {"rope"})

    def test_compare_prints_its_table_in_markdown(self):
        lines = run("compare", "t5", "rope", *SMALL, "--markdown").stdout.splitlines()
        self.assertEqual(lines[0], "| encoding | learned | past length | relative | decay | memory |")
        self.assertEqual(lines[1], "|---|---|---|---|---|---|")
        self.assertEqual([line.split(" | ")[0] for line in lines[2:]], ["| t5", "| rope"])
        self.expect_error(2, "--json and --markdown exclude each other", "compare", "t5", "--markdown", "--json")

    def test_compare_takes_all_when_none_is_named(self):
        report = self.report("compare", "--heads", "2", "--dim", "8", "--length", "16")
        names = [entry["name"] for entry in self.report("list")["encodings"]]
        self.assertEqual([row["name"] for row in report["encodings"]], names)

    def test_compare_leaves_out_what_cannot_have_the_size_unless_it_is_named(self):
        size = ("--heads", "1", "--dim", "6", "--length", "64")
        result = run("compare", *size)
        self.assertEqual(result.returncode, 0)
        self.assertIn("bearing: sinusoidal_2d is left out: compare: dim: must be a positive multiple "
                      "of 4, at most 65536, got 6\n", result.stderr)
        self.assertNotIn("sinusoidal_2d", result.stdout)
        self.assertRegex(result.stdout, "(?m)^rope ")
        self.expect_error(2, "compare: dim", "compare", "rope", "sinusoidal_2d", *size)

    def test_a_size_that_would_fill_the_memory_is_refused(self):
        large = ("--heads", "1024", "--dim", "4096", "--length", "65536")
        for command in ("check", "compare"):
            self.expect_error(2, "their product must be at most 2^24", command, "rope", *large)
        self.expect_error(2, "2^27 numbers", "table", "learned", "--dim", "4096", "--length", "65536")
        self.expect_error(2, "2^27 numbers", "table", "dense_bias", "--length", "65536")
        self.expect_error(2, "--length: must be a whole number from 1 to 65536", "check", "rope", "--length", "10000000")

    def test_every_encoding_is_checked_at_a_length_of_one_and_three(self):
        for entry in self.report("list")["encodings"]:
            for length in ("1", "3"):
                checked = run("check", entry["name"], "--heads", "1", "--dim", "8", "--length", length, "--json")
                told = checked.stderr == "" or (length == "3" and "1 token is taken, not 3" in checked.stderr)
                self.assertTrue(checked.returncode == 0 and told, checked.stderr)
                self.assertEqual(len(json.loads(checked.stdout)["properties"]), 11)

    def test_reports_are_the_same_for_any_number_of_threads(self):
        for arguments in (["check", "pope", *SMALL], ["compare", "rope", "t5", "cope", "swin", *SMALL[:-1], "36"]):
            one = self.report(*arguments)
            for threads in ("0", "1", "2", "5"):
                self.assertEqual(self.report(*arguments, "--threads", threads), one)
        for command in ("check", "compare"):
            self.expect_error(2, "--threads: must be a whole number from 0 to 1024, got '-1'",
                              command, "rope", "--threads", "-1")

    def test_a_terminal_shows_how_far_the_work_is_and_keeps_nothing_of_it(self):
        for arguments, shown in (
            (["check", "rope", *SMALL], ["rope: examples (1 of 12)", "rope: decay (4 of 12)", "rope: memory (12 of 12)"]),
            (["compare", "rope", "t5", *SMALL], ["rope (1 of 2)", "t5 (2 of 2)"]),
        ):
            text = self.on_a_terminal({}, *arguments, stream="stderr")
            self.assertEqual([text.count(line) for line in shown], [1] * len(shown), text)
            lines = text.split("\r\x1b[K")
            self.assertEqual((lines[0], lines[-1]), ("", ""))
            self.assertNotIn("\n", text)
            self.assertEqual(self.on_a_terminal({"TERM": "dumb"}, *arguments, stream="stderr"), "")
        self.assertEqual(run("compare", "rope", "t5", *SMALL).stderr, "")

    # bearing table

    def test_table_writes_the_sinusoidal_table(self):
        file = self.path("sinusoidal.npy")
        result = run("table", "sinusoidal", "--dim", "8", "--length", "5", "--positions", "100", "-o", file)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        descr, shape, got = npy.read(file)
        self.assertEqual((descr, shape), ("<f8", [5, 8]))
        for p in range(5):
            for i in range(4):
                angle = (100 + p) * 10000 ** (-2 * i / 8)
                # An angle of 104 is off by up to 2^-46 in Python's own product and power.
                self.assertAlmostEqual(got[8 * p + 2 * i], math.sin(angle), delta=2.0**-44)
                self.assertAlmostEqual(got[8 * p + 2 * i + 1], math.cos(angle), delta=2.0**-44)

    def test_table_writes_a_bias_matrix_as_csv(self):
        lines = run("table", "alibi", "--heads", "2", "--length", "3", "--format", "csv").stdout.splitlines()
        self.assertEqual(lines[0], "head,query,0,1,2")
        self.assertEqual(len(lines), 7)
        for line in lines[1:]:
            head, query, *row = line.split(",")
            wanted = [-(2.0 ** (-4 * (int(head) + 1))) * abs(int(query) - key) for key in range(3)]
            self.assertEqual(list(map(float, row)), wanted)

    def test_a_table_is_cut_on_a_terminal_alone_and_says_so(self):
        size = ("--heads", "2", "--length", "64")
        text = self.on_a_terminal({"NO_COLOR": "1", "COLUMNS": "80"}, "table", "alibi", *size, "--head", "1")
        self.assertIn("head 1 of 2; query down, key across: [64, 64]\n", text)
        self.assertIn("40 more rows, 58 more columns: --all, a pipe or a file gets them all\n", text)
        text = self.on_a_terminal({"NO_COLOR": "1", "COLUMNS": "80"}, "table", "alibi", "--heads", "1", "--length", "7")
        self.assertIn("\n1 more column: --all", text)
        whole = run("table", "alibi", *size).stdout
        self.assertEqual(self.on_a_terminal({"NO_COLOR": "1"}, "table", "alibi", *size, "--all"), whole)
        run("table", "alibi", *size, "-o", self.path("x.txt"))
        self.assertEqual(self.path("x.txt").read_text(), whole)
        self.assertEqual({len(line.split()) for line in whole.splitlines()[3:]}, {65})
        self.assertEqual(len(whole.splitlines()), 67)

    def test_a_table_says_where_its_numbers_come_from(self):
        for contents, arguments in (
            ("rope: keys drawn from seed 3, turned\n", ["rope", "--seed", "3"]),
            ("sinusoidal: what is added to the input\n", ["sinusoidal"]),
            ("learned: what is added to the input; what is learned is drawn from seed 1\n", ["learned"]),
            ("alibi: what is added to the scores\n", ["alibi"]),
            ("t5: what is added to the scores; what is learned is drawn from seed 1\n", ["t5"]),
            ("shaw: what is added to the scores, of queries and keys drawn from seed 1; what\nis learned is drawn", ["shaw"]),
            ("nope: scores of queries and keys drawn from seed 1\n", ["nope"]),
        ):
            text = run("table", *arguments, *SMALL).stdout
            self.assertTrue(text.startswith(contents), text[:200])

    def test_table_json_has_the_documented_members(self):
        report = self.report("table", "alibi", "--heads", "2", "--length", "3")
        self.assertEqual(list(report), ["schema", "encoding", "kind", "contents", "row", "column", "positions", "numbers"])
        self.assertEqual(report["numbers"][1][2], [-(2.0**-8) * 2, -(2.0**-8), 0])
        self.assertEqual(run("table", "alibi", "--heads", "2", "--length", "3", "-o", self.path("x.json")).stdout, "")
        self.assertEqual(json.loads(self.path("x.json").read_text()), report)

    def test_table_takes_positions_from_a_file(self):
        places = [7, -2, 4096]
        npy.write(self.path("p.npy"), "<i8", [3], places)
        report = self.report("table", "alibi", "--heads", "1", "--positions", self.path("p.npy"))
        self.assertEqual(report["positions"], places)
        self.assertEqual(report["numbers"], [[[-(2.0**-8) * abs(i - j) for j in places] for i in places]])
        whole = self.report("table", "sinusoidal", "--dim", "8", "--length", "9")["numbers"][0]
        some = self.report("table", "sinusoidal", "--dim", "8", "--positions", self.path("p.npy"))["numbers"][0]
        self.assertEqual(some[0], whole[7])
        self.assertEqual(self.report("table", "rope", "--dim", "8", "--heads", "1", "--length", "3", "--positions", "-2")["positions"], [-2, -1, 0])
        self.expect_error(2, "--positions: must be a number for an encoding that goes by a grid", "table", "swin", "--positions",
                          self.path("p.npy"))
        npy.write(self.path("f.npy"), "<f8", [3], places)
        self.expect_error(3, "f.npy: must be int64 (i8) of one axis, got f8 [3]", "table", "alibi", "--positions", self.path("f.npy"))
        npy.write(self.path("none.npy"), "<i8", [0], [])
        self.expect_error(3, "must have a position at least", "table", "alibi", "--positions", self.path("none.npy"))

    def test_every_encoding_has_a_table(self):
        for entry in self.report("list")["encodings"]:
            self.assertEqual(run("table", entry["name"], "--heads", "1", "--dim", "8", "--length", "16").stderr, "")

    def test_a_table_that_cannot_be_written_exits_with_3(self):
        for name in ("no/such.npy", "no/such.csv"):
            self.expect_error(3, "cannot be written: No such file or directory", "table", "alibi", *SMALL, "-o", self.path(name))


if __name__ == "__main__":
    unittest.main()
