"""The completion scripts in the shells that they are for, driven by the options that `bearing help --json` lists."""

import os
import pty
import select
import subprocess
import tempfile
import time
import unittest

import support
from support import run


class Completion(support.Base):
    def known_words(self):
        """(the line so far, all words that may follow) wherever words are known."""
        names = [entry["name"] for entry in self.listed("list", "encodings")]
        known = {}
        for command, options in self.commands().items():
            for option in options:
                words = names if option["takes"] == "encoding" else option["words"]
                if words:
                    place = f"{option['name']} " if option["name"].startswith("-") else ""
                    known.setdefault(f"bearing {command} {place}", []).extend(words)
        return known.items()

    def shell(self, *command, script):
        result = subprocess.run([*command, script], capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def asked(self, lines):
        """What bash's function offers after each line, in the language of bash and of zsh's emulation of it."""
        asks = "".join(f"COMP_WORDS=({line} '') COMP_CWORD={len(line.split())}; _bearing; echo \"${{COMPREPLY[*]}}\"\n"
                       for line in lines)
        return asks

    def expect_words(self, answers, exact):
        places = list(self.known_words())
        self.assertEqual(len(answers), len(places) + 1)
        self.assertEqual(set(answers[0]) - {"--help", "--version"}, set(self.commands()))
        for (line, words), answer in zip(places, answers[1:]):
            with self.subTest(line):
                self.assertEqual([word for word in answer if exact is False or not word.startswith("-")], words)

    def test_bash_completes_commands_options_and_words(self):
        lines = ["bearing", *(line for line, _ in self.known_words())]
        out = self.shell("bash", "-c", script=run("completion", "bash").stdout + self.asked(lines))
        self.expect_words([line.split() for line in out.splitlines()], exact=True)

    def test_zsh_completes_commands_options_and_words(self):
        lines = ["bearing", *(line for line, _ in self.known_words())]
        script = run("completion", "zsh").stdout + "setopt ksharrays shwordsplit\n" + self.asked(lines)
        out = self.shell("zsh", "-f", "-c", script=script)
        self.expect_words([line.split() for line in out.splitlines()], exact=True)

    def test_fish_completes_commands_options_and_words_with_their_descriptions(self):
        lines = ["bearing ", *(line for line, _ in self.known_words())]
        script = run("completion", "fish").stdout
        script += "".join(f"complete -C '{line}'\necho END\n" for line in lines)
        out = self.shell("fish", "--no-config", "-c", script=script)
        answers = [[line.split("\t")[0] for line in block.splitlines()] for block in out.split("END\n")[:-1]]
        for (_, words), answer in zip(self.known_words(), answers[1:]):
            self.assertEqual(sorted(word for word in answer if not word.startswith("-")), sorted(words))
        self.assertEqual(set(answers[0]), set(self.commands()))
        self.assertIn("config\tShow what a model's config.json does with positions\n", out)

    KEYS = (
        ("bearing check t5:", ["buckets=", "max_distance=", "direction="]),
        ("bearing attend --encoding t5:", ["buckets=", "max_distance=", "direction=", "table="]),
        ("bearing compare rope_mixed:", ["head_dim=", "axes=", "pairing="]),
        ("bearing attend --encoding rope_mixed:g", ["group="]),
        ("bearing check t5:bu", ["buckets="]),
        ("bearing attend --encoding t5:buckets=64,di", ["direction="]),
        ("bearing table t5:direction=c", ["causal"]),
        ("bearing attend --encoding swin_v2:w", ["width=", "w1=", "w2="]),
        ("bearing attend --encoding xlnet:seg", ["seg_embed="]),
        ("bearing table t5:direction=", ["bidirectional", "causal"]),
        ("bearing check rope:pairing=half,angles", []),
    )

    def test_bash_completes_an_encodings_keys_and_their_words(self):
        script = run("completion", "bash").stdout
        for line, wanted in self.KEYS:
            begun = line.split(":")[1]
            broken = begun.split("=")[-1] or (begun and "=") or ":"  # bash breaks words at : and =
            before = broken[:broken.rfind(",") + 1]
            asks = f"COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({line.split()[0]} {line.split()[1]} '{broken}') COMP_CWORD=2; " \
                   "_bearing; echo \"${COMPREPLY[*]}\""
            with self.subTest(line):
                self.assertEqual(self.shell("bash", "-c", script=script + asks).split(), [before + one for one in wanted])

    def test_zsh_completes_keys_and_leaves_no_space_where_a_value_is_to_follow(self):
        script = run("completion", "zsh").stdout + "setopt ksharrays shwordsplit\n"
        for line, wanted in self.KEYS:
            word = line.split()[-1]
            asks = f"COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({line}) COMP_CWORD={len(line.split()) - 1}; " \
                   "_bearing_zsh; printf '%s\\n' \"${COMPREPLY[@]}\""
            before = word[:max(word.rfind(mark) for mark in ":,=") + 1]
            with self.subTest(line):
                out = self.shell("zsh", "-f", "-c", script=script + asks).splitlines()
                out = [one for one in out if one and one.startswith(word)]  # which zsh does where keys are pressed
                self.assertEqual(out, [before + one + ("" if one.endswith("=") else " ") for one in wanted])

    def typed(self, setup, line, wanted):
        """What stands on an interactive zsh's line once a tabulator was pressed after it, or after a while."""
        process, terminal = pty.fork()
        if process == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "COLUMNS": "200", "PS1": "? "})
        seen, until = "", time.monotonic() + 60
        for text, answer in ((f"{setup}; echo WAS\\ SET\n", "WAS SET"), (f"{line}\t", wanted)):
            os.write(terminal, text.encode())
            seen = ""
            while answer not in seen and time.monotonic() < until:
                if select.select([terminal], [], [], 1)[0]:
                    seen += os.read(terminal, 65536).decode(errors="replace")
        os.close(terminal)
        os.waitpid(process, 0)
        return seen

    def test_zsh_completes_from_a_folder_of_functions_and_from_a_script(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"{folder}/_bearing"
            run("completion", "zsh", "-o", script)
            for setup in (f"fpath=({folder} $fpath); autoload -U compinit; compinit -D -u", f"source {script}"):
                for line, wanted in (("bearing che", "bearing check "), ("bearing check t5:bu", "bearing check t5:buckets=")):
                    with self.subTest(f"{setup}; {line}"):
                        self.assertIn(wanted, self.typed(setup, line, wanted))

    def test_fish_shows_an_apostrophe_of_a_description(self):
        """With every description as the help has it, which would shift if one of them ended its quotes."""
        script = run("completion", "fish").stdout
        for command, options in self.commands().items():
            wanted = {(option["name"], " ".join(option["help"].split())) for option in options if option["name"].startswith("--")}
            out = self.shell("fish", "--no-config", "-c", script=script + f"complete -C 'bearing {command} --'")
            got = {tuple(line.split("\t")) for line in out.splitlines()}
            with self.subTest(command):
                self.assertEqual({(name, " ".join(text.split())) for name, text in got}, wanted)

    def test_fish_completes_an_encodings_keys_and_their_words(self):
        script = run("completion", "fish").stdout
        for line, wanted in self.KEYS:
            word = line.split()[-1]
            before = word[:max(word.rfind(mark) for mark in ":,=") + 1]
            with self.subTest(line):
                out = self.shell("fish", "--no-config", "-c", script=script + f"complete -C '{line}'")
                self.assertEqual(sorted(one.split("\t")[0] for one in out.splitlines()), sorted(before + one for one in wanted))

    def test_every_option_is_offered_in_every_shell(self):
        bash, fish = run("completion", "bash").stdout, run("completion", "fish").stdout
        for command, options in self.commands().items():
            asks = f"COMP_WORDS=(bearing {command} --) COMP_CWORD=2; _bearing; echo \"${{COMPREPLY[*]}}\""
            names = {option["name"] for option in options if option["name"].startswith("--")}
            self.assertEqual(set(self.shell("bash", "-c", script=bash + asks).split()), names | {"--help"})
            out = self.shell("fish", "--no-config", "-c", script=fish + f"complete -C 'bearing {command} --'")
            self.assertEqual({line.split("\t")[0] for line in out.splitlines()}, names)


if __name__ == "__main__":
    unittest.main()
