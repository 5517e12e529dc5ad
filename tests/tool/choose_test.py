"""Tests of `bearing choose` as its users run it."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import unittest

import support
from support import COMMAND, LLAMA, SOURCE, run, without_terminal

GOLDEN = {
    "choose-generate.txt": ["--task", "generate", "--trained", "512"],
    "choose-fused.txt": ["--task", "speech", "--trained", "512", "--wanted", "2k", "--no-tuning", "--kernel", "fused"],
    "choose-llama.txt": ["--from", f"@{LLAMA}", "--wanted", "256k"],
}


def without_times(text):
    """Numbers that another machine measures otherwise: times, and what rounding leaves of a sum."""
    text = re.sub(r"takes\s+[\d.]+\s+times", "takes N times", " ".join(text.split()))
    return re.sub(r"\d[\d.]*e-1\d", "EPS", text)


class Choose(support.Base):
    def report(self, *arguments):
        result = run("choose", *arguments, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout, parse_constant=lambda word: self.fail(f"{word} is not JSON"))

    def asked(self, answers, status=0):
        """What is written where somebody answers on a terminal: one answer after each question."""
        leader, follower = pty.openpty()

        def own_terminal():
            os.setsid()
            fcntl.ioctl(follower, termios.TIOCSCTTY, 0)

        command = subprocess.Popen([COMMAND, "choose"], stdin=follower, stdout=subprocess.PIPE, stderr=follower,
                                   cwd=SOURCE, env={**without_terminal(), "TERM": "dumb", "COLUMNS": "80"},
                                   preexec_fn=own_terminal)
        self.addCleanup(command.kill)
        os.close(follower)
        talk = b""
        for answer in answers:
            while not talk.endswith(b"] "):
                self.assertTrue(select.select([leader], [], [], 20)[0], f"no question after {talk}")
                talk += os.read(leader, 4096)
            talk += b"(answered)"
            os.write(leader, answer)
        out = command.communicate(timeout=30)[0].decode()
        self.assertEqual(command.returncode, status)
        try:
            while chunk := os.read(leader, 65536):
                talk += chunk
        except OSError:  # the other end is closed
            pass
        os.close(leader)
        return talk.decode().replace("\r\n", "\n"), out

    def test_choose_answers_as_it_did(self):
        for name, arguments in GOLDEN.items():
            with self.subTest(name):
                result = run("choose", *arguments, env={"COLUMNS": "80"})
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)
                self.assertTrue(result.stdout.isascii())
                file = SOURCE / "tests/tool" / name
                self.assertEqual(without_times(result.stdout), without_times(file.read_text()))

    def test_a_length_that_nobody_said_is_assumed(self):
        for arguments, assumed in ((["--task", "images"], True), (["--task", "images", "--trained", "2048"], False)):
            head = " ".join(run("choose", *arguments).stdout.split("\n\n")[0].split())
            self.assertEqual("trained on 2,048 patches, which is assumed (--trained)" in head, assumed, head)
            self.assertEqual(self.report(*arguments)["situation"]["assumed"], assumed)

    def test_choose_json_has_the_documented_members(self):
        report = self.report("--task", "generate", "--trained", "256", "--wanted", "1k")
        self.assertEqual(list(report), ["schema", "situation", "measured_length", "measured_heads", "timed_length",
                                        "options", "unknowns"])
        self.assertEqual(report["schema"], "bearing.choose/1")
        self.assertEqual(list(report["situation"]),
                         ["task", "trained", "assumed", "wanted", "longest", "window", "causal", "axes", "kernel", "learned", "tuning", "memory", "heads",
                          "dim", "from"])
        ranks = [option["rank"] for option in report["options"]]
        self.assertEqual((ranks[0], ranks.count("recommended")), ("recommended", 1))
        for option in report["options"]:
            self.assertEqual(list(option), ["rank", "encoding", "name", "reasons", "costs", "models", "unless"])
            self.assertTrue(option["reasons"])
            self.assertEqual(option["costs"] is None, option["rank"] == "avoid")
            self.assertLessEqual(len(option["models"]), 8)
        self.assertIn("bloom", " ".join(" ".join(option["models"]) for option in report["options"]))

    def test_choose_says_where_a_file_does_not_say_the_task(self):
        file = f"@{SOURCE}/tests/corpus/hf_config/valid/"
        for name, task in (("bert_base", "generate (not said: --task), causal"), ("swin_tiny", "images, not causal"),
                           ("deberta_base", "understand, not causal")):
            self.assertIn(f"For: {task}", run("choose", "--from", f"{file}{name}.json").stdout)

    def test_choose_takes_every_encoding_as_a_models(self):
        for name, time in (("gated_t5", True), ("relative_logits", True), ("gated_decay", True), ("angle_rows", True), ("bucket_bias", False)):
            (option, *_) = self.report("--from", name, "--trained", "64", "--heads", "2", "--dim", "16")["options"]
            self.assertEqual((option["name"], option["rank"], option["costs"]["time"] is not None), (name, "recommended", time))
        self.assertIn("attention is not timed", run("choose", "--from", "bucket_bias").stdout)

    def test_choose_says_how_a_scaling_gets_into_a_file(self):
        how = 'For config.json, in Python: bearing.hf_rope(bearing.encoding("rope_yarn:...'
        for arguments, said in ((["--from", f"@{LLAMA}", "--wanted", "256k"], True), (["--from", f"@{LLAMA}"], False),
                                (["--from", "rope", "--wanted", "8k"], False), (["--wanted", "8k"], False)):
            self.assertEqual(how in " ".join(run("choose", *arguments).stdout.split()), said, arguments)

    def test_choose_says_so_where_nothing_fits(self):
        arguments = ["--from", f"@{LLAMA}", "--wanted", "1024k", "--memory", "1024", "--kernel", "fused"]
        result = run("choose", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("Nothing that is known fits. To change that, allow more bytes (--memory), or ask for a shorter "
                      "length (--wanted), or take another kernel (--kernel).", " ".join(result.stdout.split()))
        self.assertEqual({option["rank"] for option in self.report(*arguments)["options"]}, {"avoid"})

    def test_what_choose_names_check_takes(self):
        for arguments in (["--wanted", "8k"], ["--task", "images"], ["--from", f"@{LLAMA}", "--wanted", "256k"]):
            for option in self.report(*arguments)["options"]:
                result = run("list", option["name"])
                self.assertEqual(result.returncode, 0, result.stderr)
                result = run("table", option["encoding"], "--kind", "logits", "--heads", "1", "--length", "16")
                self.assertEqual(result.returncode, 0, (option["encoding"], result.stderr))

    def test_choose_never_waits_where_nobody_can_answer(self):
        for stdin in (subprocess.DEVNULL, subprocess.PIPE):
            self.expect_error(2, "--task, --trained, --wanted, --kernel or --from: there is no terminal to ask on",
                              "choose", stdin=stdin)

    def test_choose_asks_one_question_at_a_time(self):
        talk, out = self.asked([b"transalte\n", b"translate\n", b"\n", b"4k\n", b"no\n", b"fused\n", b"\n"])
        for piece in ("What is it for? [generate]", "did you mean 'translate'?", "trained on? [2048]",
                      "wanted in the end? [2048]", "at that length? [yes]", "kernel of attention is at hand? [any]",
                      "learned numbers? [yes]"):
            self.assertIn(piece, talk)
        self.assertIn("translate, not causal, one axis, trained on 2,048 tokens, wanted 4,096 without training",
                      " ".join(out.split()))
        self.assertIn("kernel: fused", " ".join(out.split()))

    def test_choose_takes_every_default(self):
        talk, out = self.asked([b"\n"] * 5)
        self.assertEqual(talk.count("(answered)"), 5)
        self.assertIn("For: generate, causal, one axis, trained on 2,048 tokens; kernel: any", out)

    def test_choose_is_left_with_ctrl_c_and_at_the_end_of_answers(self):
        talk, out = self.asked([b"generate\n", b"\x03"], status=-signal.SIGINT)
        self.assertEqual(out, "")
        talk, out = self.asked([b"generate\n", b"\x04"], status=2)
        self.assertIn("the answers ended before the questions", talk)
        self.assertEqual(out, "")

    def test_wrong_situations_exit_with_2(self):
        for piece, arguments in (
            ("--task: must be generate, understand,", ["--task", "draw"]),
            ("--kernel: must be any, bias, fused or linear, got 'fast'", ["--kernel", "fast"]),
            ("--trained: must be a whole number from 2 to 1073741824, got '1'", ["--trained", "1"]),
            ("--axes: must be a whole number from 1 to 2, got '3'", ["--axes", "3"]),
            ("--causal and --no-causal exclude each other", ["--causal", "--no-causal"]),
            ("choose: dim: must be a multiple of 4, got 6", ["--dim", "6"]),
            ("choose: 'rop' is not an encoding; did you mean", ["--from", "rop"]),
        ):
            with self.subTest(arguments):
                self.expect_error(2, [piece, "See 'bearing choose --help'."], "choose", *arguments)


if __name__ == "__main__":
    unittest.main()
