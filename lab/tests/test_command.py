"""scripts/lab's arguments, the line of progress, and the verdicts of --quick."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import __main__ as command
from lab import grid, progress, quick, results

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--seeds none", r"\[lab\] seeds: must be a number of seeds, or seeds with commas between them, got 'none'"),
        ("--seeds 0", r"seeds: must be a number of seeds"),
        ("--tasks copy,fly", r"\[lab\] tasks: must be among copy, .*, got fly"),
        (
            "--question why --plan",
            r"\[lab\] question: must be one of text, encoders, tasks, extension, images, got 'why'",
        ),
        ("--set colour=3", r"\[lab\] set: must be NAME=VALUE with a name among question, .*, got 'colour=3'"),
        ("--set steps=many", r"\[lab\] set: steps must be a number or a list of numbers, got 'many'"),
        ("--set d_model=3", r"\[Setting\] d_model: must give each of 4 heads an even number of dimensions, got 3"),
        ("--processes 0", r"\[lab\] processes: must be at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_said(words, says, capsys, tmp_path):
    import re

    assert command.main([*words.split(), "--out", str(tmp_path / "rows.jsonl")]) == 2
    assert re.search(says, capsys.readouterr().err)


def test_a_plan_names_the_runs_that_are_left(capsys, tmp_path):
    out = tmp_path / "rows.jsonl"
    words = ["--small", "--plan", "--encodings", "rope,nope", "--seeds", "2", "--set", "steps=5", "--out", str(out)]
    assert command.main(words) == 0
    assert capsys.readouterr().out.split("\n")[-2] == "4 runs"
    done = grid.settings("text", "small", ["rope"], [], [1], {"steps": 5})[0]
    results.append(out, {"key": done.key})
    assert command.main(words) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[:4] == ["text rope seed 0", "text nope seed 0", "text nope seed 1", "3 runs"]


def test_the_list_has_every_encoding_and_says_why_some_are_out(capsys):
    import bearing

    assert command.main(["--list"]) == 0
    out = capsys.readouterr().out
    assert all(f" {one.name} " in out for one in bearing.catalog())
    assert "its index must come with the data" in out and "Kazemnejad" in out


@pytest.mark.parametrize(
    ("preset", "question", "task", "changes"),
    [
        ("small", "text", "text", {}),
        ("default", "tasks", "copy", {}),
        ("small", "tasks", "copy", {"steps": 7, "length": 9}),
    ],
)
def test_the_words_of_a_size_give_it_again(preset, question, task, changes):
    setting = grid.base_of(preset, question, task, changes)
    words = grid.preset_of(setting.to_dict())
    assert (f"--{preset}" in words) == (preset != "default") and len(words) == len(changes) + (preset != "default")
    arguments = command.parser().parse_args([*words, "--question", question, "--tasks", task, "--seeds", "1"])
    again = command.planned(arguments, "small" if arguments.small else "default")
    assert setting.key in {one.replace(encoding="nope").key for one in again}


def test_the_line_says_how_far_it_is():
    file = io.StringIO()
    line = progress.Progress(4, file)
    line.advance("first")
    line.advance("second")
    assert file.getvalue().splitlines()[1].startswith("[" + "#" * 15 + "." * 15 + "] 2/4, 0 s left: second")
    assert [progress.duration(seconds) for seconds in (45, 700, 11100)] == ["45 s", "12 min", "3 h 05 min"]


def row(task: str, encoding: str, **measures: float) -> dict:
    numbers = {multiple: {"perplexity": x, "accuracy": x} for multiple, x in measures.items()}
    return {"training": [[1, 5.0], [9, 1.0]], "measures": numbers, "setting": {"task": task, "encoding": encoding}}


def rows() -> quick.Rows:
    """As they come out."""
    known = {"nope": (14, 17), "sinusoidal": (14, 18), "rope": (11, 19), "alibi": (14, 16)}
    found = {("text", name): row("text", name, **{"1": a, "16": b}) for name, (a, b) in known.items()}
    found["text", "learned"] = row("text", "learned", **{"1": 14})
    found["nth_back", "nope"] = row("nth_back", "nope", **{"1": 0.3, "16": 0.1})
    found["nth_back", "rope"] = row("nth_back", "rope", **{"1": 1.0, "16": 0.5})
    return found


def test_what_is_known_holds():
    assert quick.judged(rows()) == 0


@pytest.mark.parametrize("contrast", range(len(quick.CONTRASTS)))
def test_every_contrast_can_fail(contrast, capsys):
    one = quick.CONTRASTS[contrast]
    same = {key: row(*key, **{"1": 1.0, "16": 1.0}) for key in rows()}
    assert not one.less(same) < one.more(same) and one.less(rows()) < one.more(rows())


def test_a_loss_that_does_not_fall_and_a_table_that_serves_all_are_seen(capsys):
    flat, served = rows(), rows()
    flat["text", "rope"]["training"] = [[1, 5.0], [9, 4.9]]
    served["text", "learned"]["measures"]["16"] = {"perplexity": 15.0}
    assert quick.judged(flat) == 1 and quick.judged(served) == 1
    assert capsys.readouterr().out.count("FAILS") == 2


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_is_done(tmp_path, signal_sent):
    """Two runs of which the second has no end."""
    out = tmp_path / "rows.jsonl"
    common = "lambda seed, steps: Setting('tasks', 'nope', 'copy', seed, 4, steps, 4, 8, 1, 1, 1e-2, 1, multiples=(1,), measured=16)"
    code = (
        "import sys\nfrom pathlib import Path\nfrom lab import __main__ as command, running\nfrom lab.setting import Setting\n"
        f"made = {common}\ngiven = [made(0, 1), made(1, 10**9)]\ncommand._main = lambda arguments: "
        f"running.run_all(given, Path({str(out)!r}), 1, 'cpu', None)\ncommand.interruptible()\nsys.exit(command.main([]))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": "."}
    )
    deadline = time.monotonic() + 300
    while child.poll() is None and not results.keys(out) and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(signal_sent)
    said = child.communicate(timeout=300)[1].decode()
    assert child.returncode == 130 and "the same command goes on from here" in said
    assert len(results.read(out)) == 1
