"""docs/lab/: pages whose numbers, tables, answers and figures come from docs/lab/results.jsonl.

Between ``<!-- lab BLOCK QUESTION -->`` and ``<!-- end -->`` stands what BLOCKS writes; all else is written by hand. The
figures lie in docs/lab/figures/ as JSON, and `scripts/docs` draws them. The claims that only training can answer get
their sentences in src/inspect/trained.hpp.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bearing import Figure

from . import compared, figures, tables
from .grid import TASK_OF
from .papers import Paper
from .questions import CLAIMS, QUESTIONS, Question
from .results import read
from .summary import LONGEST, Row, Runs, groups, on_the_edge, said, verdict

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"^<!-- lab ([a-z_]+) ([a-z_]+)((?: [a-z0-9_.]+)*) -->$")
END = "<!-- end -->"
NONE = "There are no runs of this in `docs/lab/results.jsonl` yet."


@dataclass(frozen=True)
class Pages:
    """All that is written, from the rows of a folder."""

    root: Path
    rows: list[Row]

    def text_runs(self, question: Question) -> list[Runs]:
        """On text, in the question's order; all encodings, by their names, where it names none."""
        of = {"question": question.protocol, "task": TASK_OF[question.protocol]}
        found = {one.encoding: one for one in groups(self.rows, **of)}
        return [found[name] for name in (question.encodings or sorted(found)) if name in found]

    def task_runs(self) -> dict[str, list[Runs]]:
        tasks = sorted({row["setting"]["task"] for row in self.rows if row["setting"]["question"] == "tasks"})
        return {task: groups(self.rows, question="tasks", task=task) for task in tasks}

    def runs(self, question: Question) -> list[Runs]:
        """All that a question's page shows."""
        if question.protocol in TASK_OF:
            return self.text_runs(question)
        if question.protocol == "tasks":
            return [one for runs in self.task_runs().values() for one in runs]
        return groups(self.rows, compared.APART[question.protocol], question=question.protocol)

    def figure(self, question: Question) -> Figure | None:
        """The page's picture; None without runs."""
        runs = self.runs(question)
        if not runs:
            return None
        if question.protocol == "tasks":
            return compared.tasks_figure(question.asks, self.task_runs())
        if question.protocol == "extension":
            return compared.extension_figure(question.asks, runs)
        if question.protocol == "images":
            return compared.images_figure(question.asks, runs)
        if not question.about:
            return compared.leaderboard_figure(question.asks, runs)
        return figures.text_figure(runs, question.asks)

    def block(self, name: str, of: str, more: Sequence[str]) -> str:
        """What stands between a page's marks."""
        if name not in BLOCKS:
            raise ValueError(f"must be one of {', '.join(sorted(BLOCKS))}, got {name}")
        if of not in QUESTIONS:
            raise ValueError(f"the question must be one of {', '.join(sorted(QUESTIONS))}, got {of}")
        question = QUESTIONS[of]
        runs = self.runs(question)
        return BLOCKS[name](self, question, runs, more) if runs else NONE

    def page(self, path: Path) -> str:
        """A page with its blocks written anew."""
        lines: list[str] = []
        inside = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            inside = inside and line != END
            if inside:
                continue
            lines.append(line)
            if line.startswith("<!-- lab"):
                found = MARK.match(line)
                try:
                    if found is None:
                        raise ValueError("must be <!-- lab BLOCK QUESTION … -->, of a-z, 0-9, _ and .")
                    lines += ["", self.block(found[1], found[2], found[3].split()), ""]
                except ValueError as error:
                    raise ValueError(f"{path.name}, line {number}: {error}") from None
                inside = True
        if inside:
            raise ValueError(f"{path.name}: must have {END} behind each <!-- lab … -->")
        return "\n".join(lines) + "\n"

    def files(self) -> dict[Path, str]:
        """Every file that is written, with its text."""
        pages = self.root / "docs/lab"
        texts = {path: self.page(path) for path in sorted(pages.glob("*.md"))}
        for question in QUESTIONS.values():
            figure = self.figure(question)
            if figure is not None:
                texts[pages / "figures" / f"{question.name}.json"] = (
                    json.dumps(json.loads(figure.to_json()), ensure_ascii=False) + "\n"
                )
        texts[self.root / "src/inspect/trained.hpp"] = self.claims()
        return texts

    def claims(self) -> str:
        """The table of src/inspect/trained.hpp: what runs say of claims that only training can answer."""
        entries = []
        for claim in CLAIMS:
            runs = next((one for one in self.text_runs(QUESTIONS[claim.page]) if one.encoding == claim.runs), None)
            ratio = runs.ratio() if runs else None
            if runs is None or ratio is None:
                continue
            word = "holds" if verdict(runs) == claim.means else "fails"
            edge = ", by less than the interval" if on_the_edge(runs) else ""
            text = (
                f"{word} in our runs{edge}: in the last quarter of the places the perplexity at {LONGEST} times the trained length"
                f" is {said(ratio)} times that at the trained length ({tables.size_of([runs])})"
            )
            # As all that bearing says in a terminal, in ASCII.
            members = (claim.encoding, claim.says, text.replace("±", "+-"), f"docs/lab/{claim.page}.md")
            entries.append(f"    {{{', '.join(json.dumps(one) for one in members)}}},\n")
        body = "".join(entries)
        old = (self.root / "src/inspect/trained.hpp").read_text(encoding="utf-8")
        table = (
            f"inline constexpr std::array<Trained, {len(entries)}> trained = {{{{\n{body}}}}};" if entries else EMPTY
        )
        return re.sub(r"(?<=// clang-format off\n).*?(?=\n// clang-format on)", lambda _: table, old, flags=re.S)


EMPTY = "inline constexpr std::array<Trained, 0> trained = {};"


def answer(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    if question.protocol == "tasks":
        return tables.task_answer(pages.task_runs(), more[0] if more else "2")
    if question.protocol == "extension":
        return compared.extension_answer(runs)
    if question.protocol == "images":
        return compared.images_answer(runs)
    about = [one for one in runs if one.encoding in question.about]
    if not about:
        return compared.leaderboard_answer(runs) if not question.about else NONE
    if question.name in ("nope", "encoders"):
        return tables.nope_answer(about[0], [one for one in runs if one is not about[0]])
    return tables.text_answer(about)


def table(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    if question.protocol == "tasks":
        return tables.task_table(pages.task_runs(), *(more or ["2"]))
    if question.protocol == "extension":
        return compared.extension_tables(runs)
    if question.protocol == "images":
        return compared.images_table(runs)
    return tables.text_table(runs)


def ranking(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    return tables.ranking(runs, more[0], "perplexity")


def task_rankings(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    return compared.task_rankings(pages.task_runs(), more[0])


def tasks_asked(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    return tables.tasks_asked(pages.task_runs())


def settings(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    return tables.settings_table(runs)


def papers(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    by_encoding = {one.encoding: one for one in runs}

    def here(paper: Paper) -> str:
        if question.protocol == "extension":
            return compared.extension_here(paper, runs)
        return tables.found_here(paper, by_encoding)

    return tables.papers_table(question, here)


def limits(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    return tables.limits(runs)


def command(pages: Pages, question: Question, runs: Sequence[Runs], more: Sequence[str]) -> str:
    return f"```sh\n{compared.command_of(question, runs)}\n```"


BLOCKS: dict[str, Callable[[Pages, Question, Sequence[Runs], Sequence[str]], str]] = {
    "answer": answer,
    "table": table,
    "ranking": ranking,
    "task_rankings": task_rankings,
    "tasks_asked": tasks_asked,
    "settings": settings,
    "papers": papers,
    "limits": limits,
    "rule": lambda *_: tables.rule(),
    "command": command,
}


def write(check: bool = False, root: Path = ROOT) -> int:
    """Writes what has changed and says so; `check` writes nothing, and gives 1 if a file is stale."""
    stale = False
    for path, text in Pages(root, read(root / "docs/lab/results.jsonl")).files().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale = True
        name = path.relative_to(root)
        if check:
            print(f"lab: {name} is stale; scripts/lab --pages mends it", file=sys.stderr)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"lab: mended {name}")
    return 1 if check and stale else 0
