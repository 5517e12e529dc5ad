"""Tests of the command `bearing` as its users run it: help, wrong command lines, streams."""

import os
import signal
import unittest

import support
from support import LLAMA, SPEC, run


class Tool(support.Base):
    # help, version

    def test_help_names_every_command_and_the_exit_status(self):
        for words in (["--help"], ["-h"], ["help"]):
            result = run(*words)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for word in (*self.commands(), "--version", "Examples:", "Exit status:"):
                self.assertIn(word, result.stdout)

    def test_help_of_each_command_fits_eighty_columns_and_names_its_options(self):
        self.assertLessEqual(max(map(len, run("help").stdout.splitlines())), 80)
        for command, options in self.commands().items():
            result = run(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn(f"Usage: bearing {command}", result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)
            for option in options:
                self.assertIn(option["name"], result.stdout)
            self.assertEqual(run("help", command).stdout, result.stdout)
        self.expect_error(2, ["COMMAND: must be config, rotate,", "did you mean 'rotate'?"], "help", "rotat")

    def test_version_is_a_command_and_an_option(self):
        self.assertEqual(len({run(word).stdout for word in ("version", "--version", "-V")}), 1)

    # one scheme of names

    def test_options_that_mean_one_thing_have_one_name(self):
        names = {}
        for command, options in self.commands().items():
            for option in options:
                names.setdefault(option["name"], {})[command] = option
        self.assertEqual(set(names["--offset"]), {"plot"})  # of a map, not the first token's position
        for gone in ("--first", "--seq-len", "--q-at", "--k-at"):
            self.assertNotIn(gone, names)
        self.assertEqual(set(names["--positions"]), {"rotate", "table", "plot"})
        self.assertEqual(set(names["--length"]), {"config", "rotate", "attend", "check", "compare", "table", "plot", "report"})
        self.assertEqual(set(names["--out"]), set(self.commands()) - {"rotate", "version"})
        self.assertEqual(set(names["--json"]), set(self.commands()) - {"rotate", "report", "completion", "version"})
        for name, where in names.items():  # everywhere the same kind of value
            own_words = name == "--format"  # a table's, a picture's
            self.assertEqual(len({(option["takes"], () if own_words else tuple(option["words"]))
                                  for option in where.values() if name != "FILE"} or {0}), 1, name)

    def test_an_empty_value_is_a_wrong_command_line(self):
        for command, options in self.commands().items():
            required = {option["name"]: (option["words"] or ["x"])[0] for option in options
                        if option["required"] or (option["words"] and not option["name"].startswith("-"))}
            for option in options:
                if option["takes"] == "nothing":
                    continue
                others = [word for name, value in required.items() if name != option["name"]
                          for word in ([name] if name.startswith("-") else []) + [value]]
                dashed = option["name"].startswith("-")
                ways = [[option["name"], ""], [f"{option['name']}="]] if dashed else [[""]]
                for way in ways:
                    with self.subTest(command=command, way=way):
                        self.expect_error(2, f"{option['name']}: must not be empty", command, *others, *way)

    def test_lengths_can_be_said_in_k_and_m(self):
        for short, long in (("128k", "131072"), ("1M", "1048576")):
            self.assertEqual(run("config", LLAMA, "--json", "--length", short).stdout,
                             run("config", LLAMA, "--json", "--length", long).stdout)
        self.expect_error(2, "got '9999999999999999M'", "config", LLAMA, "--length", "9999999999999999M")

    def test_version_names_the_version_target_and_build(self):
        result = run("--version")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"\Abearing \d+\.\d+\.\d+\n  SIMD target  \S+ \(.* scalar\)\n"
                                        r"  build        (gcc|clang) \d+\.\d+\.\d+, \w+; threads: (oneTBB|none)\n\Z")

    def test_version_shows_a_forced_target(self):
        self.assertIn("SIMD target  scalar ", run("--version", env={"BEARING_TARGET": "scalar"}).stdout)

    # wrong command lines: exit status 2

    def test_a_wrong_command_line_exits_with_2(self):
        for pieces, arguments in (
            ("a command is needed: config, rotate, attend, list, check, compare, choose, table, plot, report, myths, completion, help, version", []),
            ("'confg' is not a command; did you mean 'config'?", ["confg"]),
            ("'--verson' is not a command; did you mean '--version'?", ["--verson"]),
            ("FILE is required", ["config"]),
            ("config: '--layr' is not an option; did you mean '--layer'?", ["config", LLAMA, "--layr", "3"]),
            ("version: 'more' is one argument too many", ["version", "more"]),
            ("--layer needs a value", ["config", LLAMA, "--layer"]),
            ("--layer: must be a whole number from 0 to 31, got '32'", ["config", LLAMA, "--layer", "32"]),
            ("--length: must be a whole number from 1 to 2147483648, got '8K': the suffixes are k (1024) and M (1024k)", ["config", LLAMA, "--length", "8K"]),
            ("--length: must be a whole number from 1 to", ["config", LLAMA, "--length", "0"]),
            ("SHELL: must be bash, zsh or fish, got 'tcsh'", ["completion", "tcsh"]),
            ("--config or --rope must be given, and not both", ["rotate", "--q", "q", "--out-q", "o"]),
            ("--config or --rope must be given, and not both", ["rotate", "--rope", SPEC, "--config", LLAMA, "--q", "q", "--out-q", "o"]),
            ("--q or --k must be given", ["rotate", "--rope", SPEC]),
            ("--q and --out-q must be given together", ["rotate", "--rope", SPEC, "--q", "q"]),
            ("--k and --out-k must be given together", ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--out-k", "p"]),
            ("must be different files",
             ["rotate", "--rope", SPEC, "--q", "q", "--k", "k", "--out-q", "o", "--out-k", "o"]),
            ("rotate: --offset is called --positions now", ["rotate", "--offset", "1"]),
            ("table: --first is called --positions now", ["table", "alibi", "--first=1"]),
            ("config: --seq-len is called --length now", ["config", LLAMA, "--seq-len", "5"]),
            ("attend: --q-at is called --q-positions now", ["attend", "--q-at", "5"]),
            ("--length is there more than once", ["config", LLAMA, "--length", "5", "--length", "6"]),
            ("--layout: must be bhtd or bthd, got 'bdth'",
             ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--layout", "bdth"]),
            ("--layer needs --config", ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--layer", "1"]),
            ("--threads: must be a whole number from 0 to 1024, got '-1'",
             ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--threads", "-1"]),
            ("--positions: must be a whole number from -2147483648 to 2147483648, got '99999999999'",
             ["rotate", "--rope", SPEC, "--q", "q", "--out-q", "o", "--positions", "99999999999"]),
        ):
            with self.subTest(arguments):
                known = arguments and arguments[0] in self.commands()
                self.expect_error(2, [pieces, f"See 'bearing {arguments[0] + ' ' if known else ''}--help'."], *arguments)

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            self.expect_error(3, "standard output cannot be written: No space left", "config", LLAMA, stdout=full)

    def test_a_reader_that_has_seen_enough_is_no_error(self):
        """As of any program that writes to `head`: it ends by SIGPIPE, without a word."""
        reader, writer = os.pipe()
        os.close(reader)
        result = run("config", LLAMA, stdout=writer)
        os.close(writer)
        self.assertEqual((result.returncode, result.stderr), (-signal.SIGPIPE, ""))


if __name__ == "__main__":
    unittest.main()
