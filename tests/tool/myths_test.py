"""Tests of `bearing myths`: what is often said of encodings, measured, with pictures."""

import html
import json
import os
import pathlib
import re
import shlex
import unittest
import xml.etree.ElementTree as xml

import support
from support import run

RANKS = {"no": 0, "n/a": 1, "yes": 2}
WORDS = {"no": "fails", "n/a": "open ", "yes": "holds"}


def numbers(text):
    return {float(word) for word in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?", text.replace(",", " "))}


class Myths(support.Base):
    def claims(self, *arguments):
        result = run("myths", "--json", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        report = json.loads(result.stdout)
        self.assertEqual(list(report), ["schema", "claims"])
        self.assertEqual(report["schema"], "bearing.myths/1")
        return report["claims"]

    def line_of(self, picture):
        """What a shell is told to draw it, word for word."""
        flag = {"sinks": "--sink-tokens"}
        words = ["bearing", "plot", picture["kind"], *picture["encodings"]]
        for name, value in picture["options"].items():
            if isinstance(value, bool):
                words.append(f"--{'' if value else 'no-'}{name}")
            else:
                words += [flag.get(name, f"--{name}"), ",".join(map(str, value)) if isinstance(value, list) else str(value)]
        return words

    def test_myths_says_what_fails_first_with_the_line_of_each_picture(self):
        claims = self.claims()
        ranks = [RANKS[claim["holds"]] for claim in claims]
        self.assertEqual(ranks, sorted(ranks))
        self.assertEqual(set(ranks), {0, 1, 2})
        text = run("myths", env={"COLUMNS": "300"}).stdout.replace("\\\n", " ")
        self.assertTrue(text.startswith(f"{len(claims)} things that are often said, measured: {ranks.count(0)} fail, "
                                        f"{ranks.count(2)} hold, {ranks.count(1)} no measurement decides.\n"))
        blocks = [block.splitlines() for block in text.split("\n\n")[1:]]
        self.assertEqual(len(blocks), len(claims))
        for claim, block in zip(claims, blocks):
            with self.subTest(claim=claim["claim"]):
                self.assertEqual(block[0], f"  {WORDS[claim['holds']]}  {claim['encoding']}: claim \"{claim['claim']}\"")
                self.assertEqual(block[1], f"         measured: {claim['measured']}")
                lines = [shlex.split(line) for line in block[2:] if line.strip().startswith("bearing ")]
                trained = " ".join(" ".join(block[2:len(block) - len(lines)]).split())
                self.assertEqual(trained, f"trained: {claim['trained']}" if claim["trained"] else "")
                self.assertEqual(lines, [self.line_of(claim["picture"])] if claim["picture"] else [])

    def test_what_trained_models_did_stands_where_nothing_else_decides_with_its_page(self):
        claims = [claim for claim in self.claims() if claim["trained"]]
        self.assertLessEqual({claim["holds"] for claim in claims}, {"n/a"})
        for claim in claims:
            with self.subTest(claim["claim"]):
                self.assertRegex(claim["trained"], r"^(holds|fails) in our runs.*: .*; docs/lab/[a-z]+\.md$")
                page = pathlib.Path(os.environ["BEARING_SOURCE_DIR"], claim["trained"].rsplit("; ", 1)[1])
                self.assertTrue(page.exists())
                self.assertIn(f"trained: {claim['trained']}", " ".join(run("check", claim["encoding"]).stdout.split()))

    def test_lines_that_are_broken_are_whole_for_a_shell(self):
        def lines(text):
            return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines() if line.strip().startswith("bearing ")]
        wide = lines(run("myths", env={"COLUMNS": "300"}).stdout)
        text = run("myths", env={"COLUMNS": "60"}).stdout
        self.assertEqual(lines(text), wide)
        self.assertLessEqual({line.strip().split("{")[0] for line in text.splitlines() if len(line) > 60}, {"'rope:"})

    def test_every_picture_can_be_drawn_and_shows_something(self):
        for claim in self.claims():
            if not claim["picture"]:
                continue
            with self.subTest(claim=claim["claim"]):
                result = run(*self.line_of(claim["picture"])[1:], "--json")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                figure = json.loads(result.stdout)
                self.assertTrue(figure["title"] and figure["text"])
                for panel in figure["panels"]:
                    drawn = [y for series in panel["series"] for y in series["y"]]
                    drawn += panel["cells"]["values"] if panel.get("cells") else []
                    self.assertGreater(len([y for y in drawn if y is not None]), 1)

    def test_pictures_say_the_number_that_decided(self):
        """Where the picture's own words can hold it."""
        for encoding, claim, picked in (
            ("sinusoidal", "decreases smoothly", None),
            ("sinusoidal", "reflects their distance", None),
            ("sinusoidal", "wavelengths reach", None),
            ("rope", "has theta", lambda theta: 2 * 3.141592653589793 / theta),
            ("rope", "base 500000", lambda rate: 2 * 3.141592653589793 / rate),
            ("shaw", "T x 2", None),
        ):
            (found,) = [one for one in self.claims(encoding) if claim in one["claim"]]
            figure = json.loads(run(*self.line_of(found["picture"])[1:], "--json").stdout)
            number = (picked or float)(found["number"])
            with self.subTest(claim):
                self.assertTrue(any(abs(said - number) <= 5e-4 * abs(number) for said in numbers(figure["text"])),
                                f"{number} in {figure['text']}")

    def test_claims_about_some_encodings_are_asked_for_as_everywhere(self):
        self.assertEqual({claim["encoding"] for claim in self.claims("alibi", "rope:base=500000", "RoPE")}, {"alibi", "rope"})
        self.assertEqual(len(self.claims("rope", "rope")), len(self.claims("rope")))
        self.assertEqual(self.claims("nope"), [])
        self.assertIn("Nothing that is often said", run("myths", "nope").stdout)

    def test_any_number_of_threads_gives_the_same(self):
        self.assertEqual(run("myths", "--threads", "0").stdout, run("myths").stdout)

    def test_pictures_in_the_terminal_stand_below_their_claims(self):
        text = run("myths", "shaw", "--picture", env={"LC_ALL": "C.UTF-8"}).stdout
        plain = run("myths", "shaw").stdout
        self.assertTrue(text.startswith(plain))
        picture = run(*shlex.split(plain.splitlines()[-1])[1:], env={"LC_ALL": "C.UTF-8"}).stdout
        self.assertEqual(text, plain + "\n" + picture)

    def test_a_folder_has_each_picture(self):
        claims = [claim for claim in self.claims() if claim["picture"]]
        folder = self.path("myths")
        result = run("myths", "-o", folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        files = [pathlib.Path(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(set(files)), len(files))
        self.assertEqual(set(files), set(folder.iterdir()))
        pictures = [file for file in files if file.suffix == ".svg"]
        self.assertEqual(len(pictures), len(claims))
        for claim, file in zip(claims, pictures):
            self.assertTrue(file.name.startswith(claim["encoding"] + "-"))
            self.assertRegex(file.name, r"\A[a-z0-9_-]+\.svg\Z")
            tree = xml.fromstring(file.read_text())
            figure = json.loads(run(*self.line_of(claim["picture"])[1:], "--json").stdout)
            self.assertEqual(tree.find("{http://www.w3.org/2000/svg}desc").text, figure["text"])

    def test_the_folders_page_shows_all_and_needs_no_other_file(self):
        result = run("myths", "t5", "shaw", "-o", self.path("myths"), "--format", "png")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        pictures = [file for file in self.path("myths").iterdir() if file.suffix == ".png"]
        self.assertTrue(all(file.read_bytes().startswith(b"\x89PNG") for file in pictures))
        page = self.path("myths") / "index.html"
        text = page.read_text()
        claims = self.claims("t5", "shaw")
        self.assertEqual(len(pictures), sum(claim["picture"] is not None for claim in claims))
        self.assertEqual(text.count("<figure>"), len(pictures))
        at = 0
        for claim in claims:  # in order, each with what was measured and the line that draws it
            for words in (claim["claim"], claim["measured"], *([shlex.join(self.line_of(claim["picture"]))] if claim["picture"] else [])):
                at = text.find(html.escape(words), at)
                self.assertGreater(at, 0, words)
        addresses = re.findall(r"(?:href|src)=[\"']([^\"']*)", text)
        self.assertEqual([address for address in addresses if not address.startswith(("#", "data:"))], [])
        ids = re.findall(r"\sid=[\"']([^\"']*)", text)
        self.assertEqual(len(ids), len(set(ids)))
        for verdict, title in (("fails", "What fails"), ("open", "What no measurement decides"), ("holds", "What holds")):
            self.assertIn(f'<h2 id="{verdict}-title">{title}</h2>', text)

    def test_wrong_command_lines_of_myths(self):
        for pieces, arguments in (
            ("--json and --picture exclude each other", ["--json", "--picture"]),
            ("--json and --format exclude each other", ["--json", "--format", "png"]),
            ("--picture and --out exclude each other", ["--picture", "-o", "folder"]),
            ("--format needs --out FOLDER", ["--format", "png"]),
            ("--format: must be svg, png or pdf, got 'text'", ["-o", "folder", "--format", "text"]),
            ("nothing that is often said of these encodings", ["nope", "-o", "folder"]),
            ("'ropee' is not an encoding", ["ropee"]),
        ):
            with self.subTest(arguments=arguments):
                self.expect_error(2, pieces, "myths", *arguments)

    def test_without_gnuplot_nothing_is_written(self):
        result = run("myths", "t5", "-o", self.path("folder"), env={"PATH": "/nowhere"})
        self.assertEqual(result.returncode, 3)
        self.assertIn("gnuplot is missing: apt-get install gnuplot-nox", result.stderr)
        self.assertFalse(self.path("folder").exists())


if __name__ == "__main__":
    unittest.main()
