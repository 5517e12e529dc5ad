"""Tests of `bearing plot`: in the terminal, by gnuplot, as JSON; with the command's kinds and with samples that use everything."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as xml

import npy
import png
import support
import svg_words
from support import COMMAND, run, without_terminal

SAMPLES = os.environ["BEARING_PLOT_SAMPLES"]
LLAMA = "@examples/models/llama-3.1-8b.json"
UTF8 = {"LC_ALL": "C.UTF-8"}
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GROUNDS = {"white": (255, 255, 255), "dark": (13, 17, 23)}


def luminance(pixel):
    """As WCAG 2 defines it."""
    parts = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in pixel[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class Plot(support.Base):
    def sample(self, name, form, width=900, background="white", **environment):
        result = subprocess.run([SAMPLES, name, form, str(width), background], capture_output=True, timeout=60,
                                cwd=self.directory, env={**without_terminal(), **environment})
        self.assertEqual((result.returncode, result.stderr), (0, b""), name)
        return result.stdout if form in ("png", "pdf") else result.stdout.decode()

    def samples(self):
        return subprocess.run([SAMPLES], capture_output=True, text=True, check=True).stdout.split()

    def kinds(self):
        result = run("plot", "--list", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def with_gnuplot(self, script):
        """A PATH with a gnuplot of our own."""
        folder = self.path("bin")
        folder.mkdir(exist_ok=True)
        (folder / "gnuplot").write_text("#!/bin/sh\n" + script)
        (folder / "gnuplot").chmod(0o755)
        return {"PATH": f"{folder}:/usr/bin:/bin"}

    # pictures

    def expect_good_pixels(self, data, width, background):
        """Something is drawn, nothing reaches the edge, and words can be read on their ground."""
        ground = GROUNDS[background]
        wide, high, rows = png.read(data)
        self.assertEqual(wide, width)
        edge = [pixel for row in (*rows[:4], *rows[-4:]) for pixel in row]
        edge += [pixel for row in rows for pixel in (*row[:4], *row[-4:])]
        self.assertEqual({pixel[:3] for pixel in edge}, {ground}, "something is cut off")
        drawn = [pixel for row in rows for pixel in row if pixel[:3] != ground]
        self.assertGreater(len(drawn), wide * high / 100)
        title = [pixel for row in rows[10:36] for pixel in row[:wide // 2] if pixel[:3] != ground]
        self.assertGreater(max(contrast(pixel, ground) for pixel in title), 10)

    def test_samples_are_drawn_whole_on_white_and_on_dark(self):
        for name in self.samples():
            for background in GROUNDS:
                with self.subTest(name=name, background=background):
                    self.expect_good_pixels(self.sample(name, "png", 600, background), 600, background)

    def test_svg_holds_every_sign_of_a_name(self):
        name = self.path("a@2{3}$4%5`6'7&8<9~0_^.json")
        name.write_text(json.dumps(support.SMALL))
        run("plot", "curves", f"@{name}#0", "--width", "2000", "-o", self.path("a.svg"))
        texts = ["".join(text.itertext()) for text in xml.parse(self.path("a.svg")).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn(f"@{name}#0", texts)

    def test_figures_of_the_documents_are_drawn_whole(self):
        for document in sorted({figure["document"] for figure in self.kinds()["documents"]}):
            folder = self.path(document)
            result = run("plot", document, "-o", folder, "--width", "500")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            wanted = [f"{document}-{figure['name']}.png" for figure in self.kinds()["documents"] if figure["document"] == document]
            self.assertEqual([pathlib.Path(line.split("  ")[0]).name for line in result.stdout.splitlines()], wanted)
            self.assertEqual(sorted(file.name for file in folder.iterdir()), sorted(wanted))
            for file in folder.iterdir():
                with self.subTest(file.name):
                    self.expect_good_pixels(file.read_bytes(), 500, "white")

    def test_every_kind_is_drawn_whole_in_any_width(self):
        for kind in self.kinds()["kinds"]:
            for encodings in ([], ["sinusoidal"], ["rope"], ["t5"], ["tupe"])[kind["fewest"] > 0:]:
                if run("plot", kind["name"], *encodings, "--json").returncode == 0:
                    break
            else:
                self.fail(f"{kind['name']} draws none of these")
            with self.subTest(kind["name"]):
                run("plot", kind["name"], *encodings, "--width", "700", "--dark", "-o", self.path("a.png"))
                self.expect_good_pixels(self.path("a.png").read_bytes(), 700, "dark")
                for width in (60, 80, 200):
                    for environment in (UTF8, {"LC_ALL": "C"}):
                        text = run("plot", kind["name"], *encodings, "--width", width, env=environment).stdout
                        self.assertLessEqual(max(map(len, text.splitlines())), width)
                        self.assertGreater(len(text.splitlines()), 10)
                        self.assertEqual(text.isascii(), environment is not UTF8)

    def test_a_picture_without_ground_lets_the_page_through(self):
        _, _, rows = png.read(self.sample("everything", "png", 600, "none"))
        self.assertEqual({pixel[3] for pixel in rows[0]}, {0})
        words = [pixel for row in rows[10:36] for pixel in row[:300] if pixel[3] == 255]
        for ground in GROUNDS.values():
            self.assertGreater(contrast(words[0], ground), 4)

    def test_svg_has_text_that_can_be_selected_and_the_pictures_own_words(self):
        for name in self.samples():
            with self.subTest(name):
                tree = xml.fromstring(self.sample(name, "svg"))
                space = {"": "http://www.w3.org/2000/svg"}
                figure = json.loads(self.sample(name, "json"))
                self.assertEqual(len(tree.findall(".//title", space)), 1)
                self.assertNotIn("\x1b", "".join(tree.itertext()))
                words = {text.text for text in tree.findall(".//text", space)}
                if name != "hostile":
                    self.assertEqual(tree.find("title", space).text, figure["title"])
                    self.assertEqual(tree.find("desc", space).text, figure["text"])
                    for panel in figure["panels"] if name != "many" else []:
                        self.assertLessEqual({panel["title"], panel["x"]["title"], *(one["label"] for one in panel["series"])}, words)
                self.assertIn("width", tree.attrib)

    def test_axes_are_as_high_as_their_names_need(self):
        words = {text.text for text in xml.fromstring(self.sample("names", "svg", 600)).iter("{http://www.w3.org/2000/svg}text")}
        self.assertLessEqual({f"name {n}" for n in range(40)}, words)

    def test_long_names_leave_room_for_all_ticks_and_the_colours_numbers(self):
        for width in (300, 600, 900):
            with self.subTest(width):
                svg = self.sample("long_names", "svg", width)
                self.assertEqual(svg_words.outside(svg, SAMPLES), [])
                said = [word.text for word in svg_words.words(svg, SAMPLES)[0]]
                self.assertEqual([said.count(text) for text in ("1×", "1.5×", "2×", "weight")], [2, 2, 2, 1 if width == 900 else 2])

    def test_no_line_goes_through_a_text(self):
        for name in self.samples():
            for width in (500, 900):
                with self.subTest(name=name, width=width):
                    self.assertEqual(svg_words.struck(self.sample(name, "svg", width, "none"), SAMPLES), [])

    def test_panels_side_by_side_say_the_same_names_once(self):
        said = [word.text for word in svg_words.words(self.sample("long_names", "svg", 900), SAMPLES)[0]]
        self.assertEqual(said.count("an encoding (with=options,and=values) (of the kind 7)"), 1)

    def test_what_a_text_says_is_never_a_command(self):
        for form in ("png", "svg", "pdf"):
            self.sample("hostile", form)
        self.path("hostile.gp").write_text(self.sample("hostile", "gp"))
        drawn = subprocess.run(["gnuplot", "-d", "hostile.gp"], capture_output=True, cwd=self.directory, timeout=60)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertEqual([file.name for file in self.directory.iterdir()], ["hostile.gp"])
        for form in ("text", "gp", "svg"):
            self.assertNotIn("\x1b", self.sample("hostile", form, 80 if form == "text" else 900))

    def test_formats_go_by_the_files_ending(self):
        begins = {"a.png": b"\x89PNG", "a.svg": b"<?xml", "a.pdf": b"%PDF", "a.json": b"{", "a.gp": b"# ", "a.txt": b"Dimensions"}
        for name, begin in begins.items():
            result = run("plot", "curves", "sinusoidal", "-o", self.path(name))
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
            self.assertTrue(self.path(name).read_bytes().startswith(begin), name)
        run("plot", "curves", "sinusoidal", "-o", self.path("b.dat"), "--format", "svg")
        self.assertEqual(self.path("b.dat").read_bytes(), self.path("a.svg").read_bytes())
        self.assertEqual(run("plot", "curves", "sinusoidal", "--format", "svg").stdout, self.path("a.svg").read_text())

    def test_a_kept_script_draws_the_picture_again(self):
        self.assertEqual(run("plot", "curves", "rope", "-o", self.path("a.png"), "--script", "--width", "640").returncode, 0)
        before = png.read(self.path("a.png").read_bytes())
        self.path("a.png").unlink()
        subprocess.run(["gnuplot", "-d", "a.gp"], check=True, cwd=self.directory, timeout=60)
        self.assertEqual(png.read(self.path("a.png").read_bytes()), before)

    # gnuplot's process

    def test_without_gnuplot_the_command_says_what_to_do(self):
        nothing = {"PATH": str(self.path("none"))}
        self.expect_error(3, "gnuplot is missing: apt-get install gnuplot-nox, or use --format text, or bearing.plot in Python",
                          "plot", "curves", "rope", "-o", self.path("a.png"), env=nothing)
        self.assertEqual(list(self.directory.iterdir()), [])
        for form in ("text", "json", "gp"):
            self.assertEqual(run("plot", "curves", "rope", "--format", form, env=nothing).returncode, 0)

    def test_what_gnuplot_says_is_shown_and_the_old_file_stays(self):
        self.path("a.png").write_text("old")
        for script in ("cat > /dev/null; echo no such terminal >&2; echo half; exit 1",
                       "echo no such terminal >&2; exit 1", "exec 0<&-; echo no such terminal >&2; kill -9 $$"):
            self.expect_error(3, "gnuplot failed: no such terminal", "plot", "curves", "rope", "-o", self.path("a.png"),
                              env=self.with_gnuplot(script))
            self.assertEqual(self.path("a.png").read_text(), "old")
        self.expect_error(3, "gnuplot failed: nothing was drawn", "plot", "curves", "rope", "-o", self.path("a.png"),
                          env=self.with_gnuplot("cat > /dev/null"))

    def test_a_signal_ends_gnuplot_too(self):
        environment = {**without_terminal(), **self.with_gnuplot(f"echo $$ > {self.path('id')}; exec sleep 60")}
        for number in (signal.SIGINT, signal.SIGTERM):
            command = subprocess.Popen([COMMAND, "plot", "curves", "rope", "-o", self.path("a.png")], env=environment)
            while not self.path("id").exists() or not self.path("id").read_text().strip():
                time.sleep(0.01)
            begin = time.monotonic()
            command.send_signal(number)
            self.assertEqual(command.wait(timeout=30), -number)
            self.assertLess(time.monotonic() - begin, 5)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(self.path("id").read_text()), 0)
            self.path("id").unlink()
            self.assertFalse(self.path("a.png").exists())

    # text

    def test_text_fits_the_width_and_has_whole_labels(self):
        for name in self.samples():
            for width in (60, 80, 200):
                for environment in (UTF8, {"LC_ALL": "C"}):
                    with self.subTest(name=name, width=width, environment=environment):
                        text = self.sample(name, "text", width, **environment)
                        self.assertLessEqual(max(map(len, text.splitlines())), width)
                        self.assertEqual(text.isascii(), environment is not UTF8)
                        self.assertGreater(len(set(text)), 15)
                        if name in ("everything", "strokes", "logarithms"):
                            flat = " ".join(text.split())
                            panels = json.loads(self.sample(name, "json"))["panels"]
                            for panel in panels:
                                for words in (panel["title"], panel["y"]["title"], *(one["label"] for one in panel["series"]),
                                              *(guide["text"] for guide in panel["guides"])):
                                    self.assertIn(words, flat)

    def test_the_command_fits_the_terminal(self):
        for width in (60, 80, 200):
            for settings in ({}, {"NO_COLOR": "1"}, UTF8, {**UTF8, "COLORTERM": "truecolor"}):
                text = self.on_a_terminal({"COLUMNS": str(width), "LC_ALL": "C", **settings}, "plot", "curves", "rope", "sinusoidal")
                lines = ESCAPE.sub("", text).splitlines()
                self.assertLessEqual(max(map(len, lines)), width)
                self.assertGreater(max(map(len, lines)), width * 2 / 3)
                self.assertEqual("\x1b" in text, "NO_COLOR" not in settings)
                self.assertEqual("38;2;" in text, "COLORTERM" in settings)
        self.assertNotIn("\x1b", run("plot", "curves", "rope", env={**UTF8, "COLORTERM": "truecolor"}).stdout)
        self.assertEqual(max(map(len, run("plot", "curves", "rope", "--width", "100").stdout.splitlines())), 100)

    def test_names_of_guides_leave_curves_whole(self):
        figure = json.loads(run("plot", "wavelengths", "rope", "rope_yarn", "rope_llama3:factor=8", "--json").stdout)
        for panel in figure["panels"]:
            panel["notes"] = []
        self.path("named.json").write_text(json.dumps(figure))
        for guide in (guide for panel in figure["panels"] for guide in panel["guides"]):
            guide["text"] = ""
        self.path("plain.json").write_text(json.dumps(figure))
        named, plain = (run("plot", "--figure", self.path(name), "--width", "80", env={"LC_ALL": "C"}).stdout.splitlines()
                        for name in ("named.json", "plain.json"))
        self.assertEqual(len(named), len(plain), "a name found no room beside its guide")
        over = [old for line, before in zip(named, plain) for new, old in zip(line, before.ljust(len(line))) if new != old]
        self.assertGreater(len(over), 30)
        self.assertEqual(set(over) & set("abcd"), set())

    def test_lines_are_told_apart_without_colours(self):
        text = self.sample("everything", "text", 80, **UTF8)
        area = "\n".join(line[6:] for line in text.splitlines() if "│" in line or "┤" in line)
        for letter, number in zip("abcd", range(4)):
            self.assertIn(f"{letter}  series {number}", text)
            self.assertIn(letter, re.sub("[a-z]{2,}", "", area))

    # data

    def test_json_holds_the_numbers(self):
        result = run("plot", "curves", "sinusoidal", "--json", "--length", "10", "--dims", "0,3")
        figure = json.loads(result.stdout, parse_constant=lambda word: self.fail(f"{word} is not JSON"))
        self.assertEqual(list(figure), ["schema", "kind", "title", "text", "columns", "panels"])
        self.assertEqual((figure["schema"], figure["kind"]), ("bearing.figure/1", "curves"))
        (panel,) = figure["panels"]
        self.assertEqual(list(panel), ["title", "round", "x", "y", "cells", "bands", "guides", "series", "notes"])
        self.assertEqual([one["label"] for one in panel["series"]], ["dimension 0", "dimension 3"])
        self.expect_close(panel["series"][0]["y"], [math.sin(p) for p in range(10)], 1e-12)
        maps = json.loads(self.sample("maps", "json"))["panels"]
        self.assertIsNone(maps[0]["cells"]["values"][0][1])  # a gap
        self.assertEqual([len(maps[0]["cells"]["values"]), maps[1]["cells"]["map"]], [16, "diverging"])

    def test_a_figure_is_drawn_from_its_file(self):
        for name in self.samples():
            with self.subTest(name):
                text = self.sample(name, "json")
                self.path("a.json").write_text(text)
                self.assertEqual(run("plot", "--figure", self.path("a.json"), "--json").stdout, text)
                again = run("plot", "--figure", self.path("a.json"), "--format", "svg").stdout
                self.assertEqual(again, self.sample(name, "svg"))
        self.path("a.json").write_text(run("plot", "curves", "rope", "--json").stdout)
        for arguments in (["--format", "gp"], ["--width", "100"], ["--dark", "--format", "svg"]):
            self.assertEqual(run("plot", "--figure", self.path("a.json"), *arguments).stdout,
                             run("plot", "curves", "rope", *arguments).stdout)

    def test_a_figure_that_is_none_is_refused_with_its_place(self):
        good = json.loads(self.sample("everything", "json"))
        for change, said in ((lambda f: f.pop("schema"), '/schema: must be there ("bearing.figure/1"), got nothing'),
                             (lambda f: f["panels"][0]["series"][1]["y"].pop(), "/panels/0/series/1/y: must have as many numbers as x, "),
                             (lambda f: f["panels"][0].update(seris=[]), "/panels/0/seris: must be one of: title, ")):
            figure = json.loads(json.dumps(good))
            change(figure)
            self.path("bad.json").write_text(json.dumps(figure))
            self.expect_error(3, ["bad.json: ", said], "plot", "--figure", self.path("bad.json"), "-o", self.path("a.svg"))
            self.assertFalse(self.path("a.svg").exists())
        large = json.loads(self.sample("large", "json"))
        large["panels"] *= 2
        self.path("large.json").write_text(json.dumps(large, separators=(",", ":")))
        self.expect_error(3, "must have at most 2000000 values and keys", "plot", "--figure", self.path("large.json"))
        self.expect_error(3, "must be a readable file", "plot", "--figure", self.path("none.json"))

    def drawn(self, form, panel, **members):
        """A figure of one panel, with axes from 0 to 1, drawn in a form."""
        axis = {"first": 0, "last": 1}
        self.path("a.json").write_text(json.dumps({"schema": "bearing.figure/1", "panels": [{"x": axis, "y": axis, **panel}], **members}))
        result = run("plot", "--figure", self.path("a.json"), "--format", form)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_an_axis_whose_ends_differ_by_few_doubles_has_few_ticks(self):
        for ends in ({"first": 1e17, "last": 1e17 + 32}, {"first": 1e17 + 32, "last": 1e17}, {"first": -1e300, "last": 1e300}):
            for axis in ("x", "y"):
                self.assertLess(len(self.drawn("gp", {axis: ends})), 20_000)

    def test_a_word_is_broken_into_lines_and_a_long_curve_and_a_narrow_matrix_are_drawn(self):
        self.assertIn("aaaa", self.drawn("gp", {}, title="a" * 10_000))
        zigzag = [i % 2 for i in range(200_000)]
        self.assertIn("here", self.drawn("gp", {"series": [{"x": zigzag, "y": zigzag}], "notes": [{"x": 0.5, "y": 0.5, "text": "here"}]}))
        svg = self.drawn("svg", {"cells": {"values": [[0, 1] * 5_000]}})
        self.assertLess(len(svg), 1 << 22)

    def test_a_models_picture_has_the_models_sizes(self):
        figure = json.loads(run("plot", "curves", LLAMA, "--json").stdout)
        self.assertEqual(figure["panels"][0]["series"][-1]["label"], "dimension 127")

    def test_wavelengths_are_those_of_any_length(self):
        phi = "@examples/models/phi-3.5-mini.json"
        own = json.loads(run("plot", "wavelengths", phi, "--json").stdout)
        self.assertIn("in a sequence of 131072 tokens a turn takes 6.786 to ", own["text"])
        self.assertIn("pairs 0 to 47 are divided by 1.08 to 64.84", own["text"])
        self.assertEqual(json.loads(run("plot", "wavelengths", phi, "--length", "128k", "--json").stdout)["panels"], own["panels"])
        short = json.loads(run("plot", "wavelengths", phi, "--length", "4k", "--json").stdout)
        self.assertIn("in a sequence of 4096 tokens a turn takes 6.283 to 147287 tokens", short["text"])
        self.assertIn("pairs 0 to 0 are kept; pairs 1 to 47 are divided by 1.0", short["text"])

    def test_masks_have_the_window_of_the_model(self):
        config = self.put("sw.json", {**support.SMALL, "model_type": "mistral", "sliding_window": 8})
        drawn = json.loads(run("plot", "masks", f"@{config}", "--length", "32", "--json").stdout)
        self.assertEqual(drawn["title"], "What a query sees: causal, window 8")
        self.assertIn("seen: 228;", drawn["text"])
        drawn = json.loads(run("plot", "masks", f"@{config}", "--length", "32", "--window", "4", "--json").stdout)
        self.assertEqual(drawn["title"], "What a query sees: causal, window 4")

    def test_a_picture_of_given_numbers_takes_them_from_files(self):
        for name, shape in (("words", [5, 4]), ("w_q", [4, 3]), ("w_k", [4, 3])):
            npy.write(self.path(f"{name}.npy"), "<f8", shape, self.values(shape[0] * shape[1]))
        files = ["--words", self.path("words.npy"), "--w-q", self.path("w_q.npy"), "--w-k", self.path("w_k.npy")]
        panels = json.loads(run("plot", "correlations", "sinusoidal", "--json", *files).stdout)["panels"]
        words, w_q, w_k = (npy.read(self.path(f"{name}.npy"))[2] for name in ("words", "w_q", "w_k"))
        times = lambda x, w, i: [sum(x[4 * i + d] * w[3 * d + e] for d in range(4)) for e in range(3)]
        dot = lambda i, j: sum(a * b for a, b in zip(times(words, w_q, i), times(words, w_k, j)))
        got = panels[0]["cells"]["values"]
        scale = got[0][0] / dot(0, 0)  # that of the scores
        for i in range(5):
            self.expect_close(got[i], [scale * dot(i, j) for j in range(5)], 1e-9)
        npy.write(self.path("line.npy"), "<f8", [3], [0, 1, 2])
        self.expect_error(3, "must be float64 or float32 (f8, f4) of two axes, got ", "plot", "correlations", "sinusoidal",
                          "--words", self.path("line.npy"))

    def test_the_list_says_all_kinds_and_fits_the_width(self):
        kinds = self.kinds()
        words = next(option["words"] for option in self.commands()["plot"] if option["name"] == "KIND")
        documents = sorted({figure["document"] for figure in kinds["documents"]})
        self.assertEqual(words, [kind["name"] for kind in kinds["kinds"]] + documents + ["all"])
        options = {option["name"] for option in self.commands()["plot"]}
        for kind in kinds["kinds"]:
            self.assertLessEqual(set(kind["takes"]), options)
        for width in (60, 80, 120):
            text = run("plot", "--list", env={"COLUMNS": str(width)}).stdout
            self.assertLessEqual(max(map(len, text.splitlines())), width)
            for kind in kinds["kinds"]:
                self.assertIn(kind["name"], text)

    def test_of_a_models_encodings_those_are_drawn_that_have_something_to_show(self):
        whisper = self.put("whisper.json", {"model_type": "whisper", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
                                            "encoder_attention_heads": 2})
        drawn = run("plot", "wavelengths", f"@{whisper}", "--json")
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertEqual([panel["title"] for panel in json.loads(drawn.stdout)["panels"]], [f"@{whisper}#encoder.input"])
        self.assertRegex(drawn.stderr, "^bearing: @.*#decoder.input is left out: must have frequencies .*, got one that acts on input\n$")
        bert = self.put("bert.json", {"model_type": "bert"})
        self.expect_error(2, "#input: must have frequencies", "plot", "wavelengths", f"@{bert}")

    def test_wrong_command_lines_exit_with_2(self):
        out = self.path("a.png")
        for pieces, arguments in (
            ("plot: a kind is needed: ", []),
            ("feature, or 000, 001, 002 or all for the figures of a founding document; --list says what they show", []),
            ("or all for the figures of a founding document, got 'wavelength'; did you mean 'wavelengths'?", ["wavelength"]),
            ("KIND: must be ", ["curve", "rope"]),
            ("plot: 'rop' is not an encoding", ["curves", "rop"]),
            ("--heads: curves takes ", ["curves", "rope", "--heads", "3"]),
            ("--sink-tokens: curves takes ", ["curves", "rope", "--sink-tokens", "3"]),
            ("--dims: must be from 0 to 63, got 64", ["curves", "rope", "--dims", "0,64"]),
            ("--dims: must be a whole number from 0", ["curves", "rope", "--dims", "0,,1"]),
            ("plot: curves takes 1 to 8 encodings, got 0", ["curves"]),
            ("--causal and --no-causal exclude each other", ["curves", "rope", "--causal", "--no-causal"]),
            ("--dark and --background none exclude each other", ["curves", "rope", "--dark", "--background", "none"]),
            ("--json and --format svg exclude each other", ["curves", "rope", "--json", "--format", "svg"]),
            ("--format png needs --out FILE", ["curves", "rope", "--format", "png"]),
            ("--out: must end in .png, .svg, .pdf, .txt, .json or .gp, or say --format; got '", ["curves", "rope", "-o", self.path("a.jpg")]),
            ("--width: must be a whole number from 300 to 4000, got '5'", ["curves", "rope", "-o", out, "--width", "5"]),
            ("--script: must stand with a picture", ["curves", "rope", "--script"]),
            ("plot: the figures of 000 have their encodings: name none", ["000", "rope"]),
            ("--length: the figures of 000 have their options", ["000", "--length", "7"]),
            ("--figure: the file says what to draw: name no kind, got curves", ["curves", "rope", "--figure", "a.json"]),
            ("--length: the figure of a file has its numbers", ["--figure", "a.json", "--length", "7"]),
        ):
            with self.subTest(arguments):
                self.expect_error(2, [pieces, "See 'bearing plot --help'."], "plot", *arguments)
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_what_cannot_be_a_folder_is_refused(self):
        self.path("file").write_text("old")
        self.expect_error(3, "file", "plot", "000", "-o", self.path("file"))
        self.expect_error(3, "no/such", "plot", "000", "-o", self.path("no/such"))
        self.assertEqual(self.path("file").read_text(), "old")


if __name__ == "__main__":
    unittest.main()
