"""The lab's arguments. scripts/lab --help shows them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

OUT = Path("build/lab/results.jsonl")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "lab",
        description="Trains small transformers that differ in their positional encoding alone, measures them at 1 to 16 times "
        "the trained length, and keeps a row of each run. Runs whose rows are there are not done again.",
        epilog="scripts/lab --small --encodings 'rope alibi nope' --seeds 3",
    )
    size = made.add_mutually_exclusive_group()
    size.add_argument(
        "--quick",
        action="store_true",
        help="models so small that all ends in 3 minutes, and known contrasts are checked",
    )
    size.add_argument(
        "--small", action="store_true", help="models of about 0.1 million parameters, 25 s of one core each"
    )
    made.add_argument(
        "--question",
        action="append",
        metavar="NAME",
        help="text, encoders, tasks, extension or images; several times for several (default: text)",
    )
    made.add_argument(
        "--encodings",
        default="main",
        metavar="NAMES",
        help="main, all, or names of `bearing list`, with keys if wanted: 'rope:base=500,pairing=half nope'",
    )
    made.add_argument("--tasks", default="all", metavar="NAMES", help="of the question `tasks` (default: all)")
    made.add_argument("--seeds", default="3", metavar="N", help="how many seeds (default 3), or seeds: 0,1,4")
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another member of the setting: d_model=256, steps=20000, …",
    )
    made.add_argument("--text", metavar="FILE", help="a text in place of Python's documentation")
    made.add_argument("--out", type=Path, metavar="FILE", help=f"the file of results (default {OUT})")
    made.add_argument(
        "--processes", type=int, default=os.cpu_count(), metavar="N", help="runs at a time (default: one for each core)"
    )
    made.add_argument(
        "--device", default="cpu", help="cpu, or cuda: attention is then PyTorch's, with the same encodings"
    )
    what = made.add_argument_group("in place of running")
    what.add_argument(
        "--list", action="store_true", help="which encodings are in and which are out, and why; tasks; questions"
    )
    what.add_argument("--plan", action="store_true", help="the runs that are left, and their number")
    what.add_argument("--speed", action="store_true", help="a step with bearing's attention and with PyTorch's own")
    what.add_argument("--pages", action="store_true", help="write docs/lab from its file of results")
    what.add_argument("--check", action="store_true", help="with --pages: only say whether they are up to date")
    return made


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    if arguments.check and not arguments.pages:
        parser().error("--check must stand beside --pages")
    if arguments.pages:
        from .pages import write

        return write(arguments.check)
    try:
        return _main(arguments)
    except ValueError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nlab: stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _main(arguments: argparse.Namespace) -> int:
    from . import grid, listing, results, running, speed
    from .tasks import use_text

    if arguments.processes < 1:
        raise ValueError(f"[lab] processes: must be at least 1, got {arguments.processes}")
    if arguments.list:
        listing.show()
        return 0
    if arguments.text is not None:
        use_text(Path(arguments.text))
    preset = "quick" if arguments.quick else "small" if arguments.small else "default"
    if arguments.speed:
        running.prepare(arguments.text, os.cpu_count() or 1)
        speed.show(preset, grid.encodings_of(arguments.encodings))
        return 0
    if arguments.quick and not arguments.question:
        from . import quick

        return quick.run(arguments.out, arguments.processes)
    given = planned(arguments, preset)
    out = arguments.out or OUT
    if arguments.plan:
        left = [one for one in given if one.key not in results.keys(out)]
        print("\n".join([running.said(one) for one in left] + [f"{len(left)} runs"]))
        return 0
    return min(1, running.run_all(given, out, arguments.processes, arguments.device, arguments.text))


def planned(arguments: argparse.Namespace, preset: str) -> list[Any]:
    """The settings that the arguments ask for."""
    from . import grid
    from .tasks import TASKS

    tasks = list(TASKS) if arguments.tasks == "all" else arguments.tasks.replace(",", " ").split()
    if others := [task for task in tasks if task not in TASKS]:
        raise ValueError(f"[lab] tasks: must be among {', '.join(TASKS)}, got {', '.join(others)}")
    changes = dict(_changed(word) for word in arguments.set)
    encodings, seeds = grid.encodings_of(arguments.encodings), grid.seeds_of(arguments.seeds)
    questions = arguments.question or ["text"]
    return [one for question in questions for one in grid.settings(question, preset, encodings, tasks, seeds, changes)]


def _changed(word: str) -> tuple[str, Any]:
    """A member of the setting and its value."""
    import dataclasses
    import json

    from .setting import Setting

    name, equals, value = word.partition("=")
    known = {field.name: field for field in dataclasses.fields(Setting)}
    if not equals or name not in known:
        raise ValueError(f"[lab] set: must be NAME=VALUE with a name among {', '.join(known)}, got {word!r}")
    if known[name].type == "str":
        return name, value
    try:
        return name, json.loads(value)
    except ValueError:
        raise ValueError(f"[lab] set: {name} must be a number or a list of numbers, got {value!r}") from None


def interruptible() -> None:
    """SIGTERM ends the lab as Ctrl-C does, and Ctrl-C also ends it behind a shell's &."""
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.default_int_handler)


if __name__ == "__main__":
    interruptible()
    sys.exit(main())
