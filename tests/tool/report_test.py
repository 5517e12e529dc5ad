"""Tests of `bearing report`: the page's structure, its numbers, and what files may hold."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
import unittest

import page
import reports
import support
from reports import GEMMA, SIZES
from support import COMMAND, LLAMA, SMALL, run, without_terminal


class Report(reports.Base):
    # structure

    def expect_good_structure(self, made):
        (html,) = [child for child in made.root.children if isinstance(child, page.Element)]
        self.assertEqual((html.tag, html.attributes["lang"]), ("html", "en"))
        self.assertTrue(made.one("title").text() if not made.all("svg") else made.all("title")[0].text())
        for landmark in ("header", "nav", "main", "footer"):
            made.one(landmark)
        levels = [int(heading.tag[1]) for heading in made.all("h1", "h2", "h3", "h4")]
        self.assertEqual(levels[0], 1)
        self.assertEqual(levels.count(1), 1)
        for above, below in zip(levels, levels[1:]):
            self.assertLessEqual(below, above + 1)
        ids = [element.attributes["id"] for element in made.all() if "id" in element.attributes]
        self.assertEqual(len(ids), len(set(ids)))
        for element in made.all():
            for name in ("href", "xlink:href"):
                address = element.attributes.get(name, "data:")
                self.assertTrue(address.startswith("data:") or address[0] == "#" and address[1:] in ids, address)
            self.assertNotIn("onclick", element.attributes)
            for name in ("aria-labelledby", "aria-describedby"):
                self.assertLessEqual(set(element.attributes.get(name, "").split()), set(ids))
        for table in made.all("table"):
            self.assertTrue(table.one("caption").text())
            headings = [cell.text() for cell in table.one("thead").all("th")]
            for row in table.one("tbody").all("tr"):
                self.assertEqual([cell.attributes["data-label"] for cell in row.all("th", "td")], headings)

    def expect_good_pictures(self, made, most, least):
        figures = made.all("figure")
        self.assertTrue(least <= len(figures) <= most, len(figures))
        for figure in figures:
            caption = figure.one("figcaption").text()
            self.assertRegex(caption, r"\d")
            drawings = list(figure.all("svg"))
            self.assertEqual(len(drawings), 2)  # for wide and for narrow pages
            for svg in drawings:
                self.assertEqual(svg.attributes["role"], "img")
                words = {element.attributes["id"]: element.text() for element in svg.all("title", "desc")}
                self.assertEqual([words[id] for id in svg.attributes["aria-labelledby"].split()][1], caption)
                self.assertGreater(len(list(svg.all("path"))), 3)
                self.assertGreater(len(list(svg.all("text"))), 5)

    def test_a_report_of_a_model_is_a_whole_page(self):
        made = self.page(GEMMA)
        self.expect_good_structure(made)
        self.expect_good_pictures(made, 10, 8)  # of two kinds of layers
        titles = [heading.text() for heading in made.all("h2")]
        self.assertEqual(titles, ["One warning", "In short", "Layers 0-4, 6-10, 12-16, 18-22, 24-28, 30-33: rotary",
                                  "Layers 5, 11, ..., 29: rotary"])
        text = made.one("main").text()
        for piece in ("34 layers", "8 query heads and 4 key/value heads of 256 dimensions", "promises 131,072 tokens",
                      "sliding_attention, window 1,024", "base 1,000,000", "scaling linear: factor 8"):
            self.assertIn(piece, text)
        self.assertEqual([link.text() for link in made.one("nav").all("a")], titles)

    def test_a_summary_says_what_is_added_to_the_input_in_a_sentence(self):
        whisper = {"model_type": "whisper", "d_model": 8, "encoder_layers": 2, "decoder_layers": 1,
                   "encoder_attention_heads": 2, "max_target_positions": 32}
        text = self.page(self.put("whisper.json", whisper), "--no-pictures", *SIZES).one("main").text()
        self.assertIn("Sinusoidal positions are added to the input of the encoder.", text)
        self.assertIn("Learned positions are added to the input of the decoder.", text)
        self.assertNotIn("nothing to draw", text)

    def test_each_of_several_inputs_is_shown(self):
        layoutlm = {"model_type": "layoutlm", "hidden_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 64,
                    "max_2d_position_embeddings": 64}
        made = self.page(self.put("layoutlm.json", layoutlm), "--no-pictures", *SIZES)
        text = made.one("main").text()
        self.assertNotIn("nothing to draw", text)
        headings = [heading.text() for heading in made.all("h2")]
        for label in ("text", "x", "y", "height", "width"):
            self.assertIn(f"Learned positions are added to the input ({label}).", text)
            self.assertIn(f"Input ({label}): learned", headings)

    def test_a_summary_names_axes_and_towers(self):
        text = self.page("examples/models/qwen2-vl-7b.json", "--no-pictures", "--length", "64").one("main").text()
        self.assertIn("dimensions all 128 of a head; 3 axes of 16 + 24 + 24 pairs, in sections; pairing half;", text)
        self.assertIn("The file has a vision tower too (qwen2_vl_vision, 32 layers, 16 heads of 80 dimensions), which "
                      "bearing config shows.", text)

    def test_reports_of_encodings_are_whole_pages(self):
        for encodings in (["t5"], ["sinusoidal", "rope", "alibi"], ["nope"], ["swin", "learned"]):
            with self.subTest(encodings):
                made = self.page(*encodings, *SIZES)
                self.expect_good_structure(made)
                self.expect_good_pictures(made, 8, 0 if encodings == ["nope"] else 2)

    def test_every_model_has_a_report(self):
        files = sorted((support.SOURCE / "tests/corpus/hf_config/valid").glob("*.json"))
        self.assertGreater(len(files), 50)
        for file in files[::6]:
            with self.subTest(file.name):
                made = self.page(file, "--no-pictures", "--length", "64")
                self.expect_good_structure(made)
                config = json.loads(run("config", file, "--json").stdout)
                self.assertEqual(len(made.all("h2")), len(config["groups"]) + len(config["inputs"]) + 1 +
                                 (len(config["warnings"]) > 0))

    def test_a_report_asks_for_nothing(self):
        text = self.report(LLAMA, "alibi", *SIZES)
        self.assertIn("default-src 'none'", text)
        names = re.findall(r'(?:xmlns|xmlns:xlink)="[^"]*"', text)
        for name in set(names):
            text = text.replace(name, "")
        self.assertNotRegex(text, r"https?:|src=|@import|url\((?!#)")

    # numbers

    def shown_check(self, made):
        """What the page shows as measured, beside what its own command line gives."""
        tables = [table for table in made.all("table") if table.one("caption").text() == "Properties"]
        commands = [code.text() for code in made.all("code")]
        self.assertEqual(len(tables), len(commands))
        for table, command in zip(tables, commands):
            words = shlex.split(command)
            self.assertEqual(words[0], "bearing")
            rows = [[cell.text() for cell in row.all("th", "td")] for row in table.one("tbody").all("tr")]
            yield rows, json.loads(run(*words[1:]).stdout)

    def test_what_is_measured_is_what_check_measures(self):
        for arguments in (["t5", *SIZES], ["rope:base=500"], [self.put("config.json", SMALL)]):
            with self.subTest(arguments[0]):
                made = self.page(*arguments, "--no-pictures")
                (rows, check), = self.shown_check(made)
                self.assertEqual(rows, [[one["name"], one["verdict"], one["evidence"]] for one in check["properties"]])
                self.assertIn(f"{check['heads']} heads of {check['dim']} dimensions over {check['length']:,} tokens, seed "
                              f"{check['seed']}", made.one("main").text())
                verdicts = {"yes": "holds", "no": "fails"}
                found = [one["measured"] + (f". Trained: {one['trained']}" if one["trained"] else "") for one in check["claims"]]
                self.assertEqual(made.table("What is often said") if check["claims"] else [],
                                 [[one["claim"], verdicts.get(one["holds"], "open"), text]
                                  for one, text in zip(check["claims"], found)])

    def test_kinds_of_layers_share_the_time_and_say_their_sizes(self):
        made = self.page(GEMMA, "--no-pictures")
        shown = list(self.shown_check(made))
        self.assertEqual(len(shown), 2)
        for rows, check in shown:
            self.assertEqual(check["length"], 32768)
            self.assertEqual([row[2] for row in rows], [one["evidence"] for one in check["properties"]])
            self.assertIn("1 head of 256 dimensions over 32,768 tokens", made.one("main").text())

    def test_the_table_of_pairs_is_that_of_config(self):
        made = self.page(LLAMA, "--no-pictures", "--length", "64")
        config = json.loads(run("config", LLAMA, "--json").stdout)
        rows = made.table("All 64 pairs")
        group = config["groups"][0]
        self.assertEqual([row[3] for row in rows], group["change"])
        for row, frequency, wavelength in zip(rows, group["inv_freq"], group["wavelength"]):
            self.assertEqual(row[1], f"{frequency:.6g}")
            self.assertLessEqual(abs(float(row[2].replace(",", "")) - wavelength), max(0.005, 0.5 * (wavelength >= 1000)))
        facts = {row.one("dt").text(): row.one("dd").text() for row in made.all("div") if list(row.all("dt"))}
        self.assertEqual(facts["pairs"], "0-28 kept, 29-34 blended, 35-63 scaled")
        for warning in config["warnings"]:
            self.assertIn(warning["text"], made.one("main").text())

    def test_what_an_encoding_is_has_the_size_that_is_asked_for(self):
        made = self.page("rope", "alibi", *SIZES, "--no-pictures")
        self.assertEqual(len(made.table("All 8 pairs")), 8)
        self.assertIn("all 16 of a head", made.one("main").text())
        self.assertIn("0.0625, 0.00390625", made.one("main").text())  # ALiBi's slopes of two heads

    def test_the_comparison_is_that_of_compare(self):
        encodings = ["rope", "alibi", "learned", "t5"]
        made = self.page(*encodings, *SIZES, "--no-pictures")
        compare = json.loads(run("compare", *encodings, *SIZES, "--json").stdout)
        self.assertEqual(made.table("Measured with"), [
            [one["name"], one["sites"], f"{one['parameters']:,}" if one["learnable"] else "-", one["extensible"],
             one["past_length"], one["relative"], one["decay"], one["memory"]] for one in compare["encodings"]])
        self.assertEqual([row[1] for row in made.table("What is often said")],
                         [one["claim"] for one in compare["claims"]])

    def test_pictures_are_those_of_plot(self):
        made = self.page("alibi", "t5")
        captions = [caption.text() for caption in made.all("figcaption")]
        for kind in ("decay", "similarity", "heatmap"):
            self.assertIn(json.loads(run("plot", kind, "alibi", "t5", "--json").stdout)["text"], captions)

    # what files may hold, and what may go wrong

    def test_what_a_file_says_stays_text(self):
        folder = self.nasty_model()
        for arguments in ([folder], [folder, "rope"], [f"@{folder}#1"], [f"@{folder}#0", "alibi", "t5"]):
            made = self.page(*arguments, *SIZES)
            self.expect_good_structure(made)
            self.assertEqual([element for element in made.all("script") if "broken" in element.text()], [])
            self.assertEqual(made.all("img"), [])
            self.assertIn("window.broken = 1", made.one("main").text())

    def test_a_picture_that_cannot_be_drawn_is_an_error(self):
        empty = {"PATH": str(self.directory)}
        self.expect_error(3, "gnuplot is missing: apt-get install gnuplot-nox, or use --no-pictures", "report", "alibi",
                          *SIZES, "-o", self.path("a.html"), env=empty)
        self.assertFalse(self.path("a.html").exists())
        self.assertEqual(self.page("alibi", *SIZES, "--no-pictures", env=empty).all("figure"), [])

    def test_a_model_that_cannot_be_measured_has_a_report(self):
        many = self.put("config.json", {"model_type": "bloom", "hidden_size": 8192, "n_head": 2048, "n_layer": 1})
        made = self.page(many, "--no-pictures")  # an example has at most 1,024 heads
        self.assertIn("It could not be measured: ", made.one("main").text())
        self.expect_error(2, "head_dim", "report", "rope:head_dim=7", "-o", self.path("a.html"))

    def test_a_model_is_not_written_over(self):
        file = self.put("config.json", SMALL)
        before = file.read_bytes()
        self.expect_error(2, "--out: must be another file than the model's", "report", self.directory, "-o", file)
        self.assertEqual(file.read_bytes(), before)

    def test_a_report_that_is_interrupted_leaves_nothing(self):
        folder = self.path("bin")
        folder.mkdir()
        (folder / "gnuplot").write_text(f"#!/bin/sh\necho $$ > {self.path('pid')}\nexec sleep 60\n")
        (folder / "gnuplot").chmod(0o755)
        command = subprocess.Popen([COMMAND, "report", "alibi", *SIZES, "-o", self.path("a.html")],
                                   env={**without_terminal(), "PATH": f"{folder}:/usr/bin:/bin"})
        while not (self.path("pid").exists() and self.path("pid").read_text().strip()):
            time.sleep(0.01)
        began = time.monotonic()
        command.send_signal(signal.SIGINT)
        self.assertEqual(command.wait(timeout=20), -signal.SIGINT)
        self.assertLess(time.monotonic() - began, 5)
        self.assertFalse(self.path("a.html").exists())
        self.assertFalse(os.path.exists(f"/proc/{int(self.path('pid').read_text())}"))


if __name__ == "__main__":
    unittest.main()
