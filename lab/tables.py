"""Runs as the tables and sentences of pages. Every number comes from the rows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .figures import title_of
from .papers import PAPERS, Paper
from .questions import Question
from .results import Interval
from .summary import EXTRAPOLATES, FAILS, LONGEST, SOLVED, Row, Runs, on_the_edge, said, tied, verdict


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def and_list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def size_of(runs: Sequence[Runs]) -> str:
    """How small the models are, in words: it belongs to every answer."""
    parameters = [row["parameters"] for one in runs for row in one.rows]
    low, high = (f"{number / 1e6:.2g}" for number in (min(parameters), max(parameters)))
    seeds = sorted({len(one.rows) for one in runs})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"models of {low if low == high else f'{low} to {high}'} million parameters, {count} seed{'s' if seeds[-1] > 1 else ''}"


# text


def text_sentence(runs: Runs) -> str:
    """What one encoding did on text, with the ratio that decides."""
    name, trained = title_of(runs.encoding), runs.length("1")
    here = said(runs.measure("1", "perplexity"))
    begin = f"{name}: perplexity {here} at the trained length of {trained} bytes"
    ratio = runs.ratio()
    if ratio is None:
        return f"{begin}. Beyond it cannot be asked: `{runs.beyond(LONGEST)}`." if runs.beyond(LONGEST) else f"{begin}."
    there = said(runs.measure(LONGEST, "perplexity"))
    edge = " The interval reaches over a limit of the rule: more seeds could change that." if on_the_edge(runs) else ""
    return (
        f"{begin}, {there} at {LONGEST} times that length. In the last quarter of the places it is {said(ratio)} times that"
        f" at the trained length: **{verdict(runs)}**.{edge}"
    )


def text_answer(about: Sequence[Runs]) -> str:
    """The verdict first, then a sentence for each encoding."""
    if len(about) == 1:
        words = {"extrapolates": "Yes", "partly": "In part", "does not extrapolate": "No", "cannot be asked": "No"}
        word = words.get(verdict(about[0]), "Not known")
        return f"**{word}**, in these runs ({size_of(about)}). {text_sentence(about[0])}"
    kinds: dict[str, list[str]] = {}
    for one in about:
        kinds.setdefault(verdict(one), []).append(title_of(one.encoding))
    parts = [f"{len(names)} of {len(about)}: {kind} ({and_list(names)})" for kind, names in sorted(kinds.items())]
    edge = [title_of(one.encoding) for one in about if on_the_edge(one)]
    more = (
        f" The intervals of {and_list(edge)} reach over a limit of the rule: more seeds could change those."
        if edge
        else ""
    )
    return f"In these runs ({size_of(about)}), {'; '.join(parts)}.{more}"


def nope_answer(nope: Runs, others: Sequence[Runs]) -> str:
    """Whether it keeps up at the trained length, against each of the others, and what it does beyond."""
    own = nope.measure("1", "perplexity")
    parts = []
    for one in others:
        its = one.measure("1", "perplexity")
        if own is None or its is None:
            continue
        tie = tied(nope, one, "1", "perplexity")
        order = "as well as, within the interval," if tie else "better than" if own.mean < its.mean else "worse than"
        parts.append(f"{order} {title_of(one.encoding)} ({said(its)})")
    worse = sum(part.startswith("worse") for part in parts)
    if nope.setting["kind"] == "causal":
        kind = "a causal model"
        word = "Yes" if worse == 0 else "It learns, but less" if worse == len(parts) else "It learns as well as some"
    else:
        kind = "an encoder"
        word = f"With {worse} of {len(parts)} encodings an encoder learns more than without positions"
    return (
        f"**{word}**, in these runs ({size_of([nope])}). At the trained length {kind} without positions does"
        f" {and_list(parts)}. {text_sentence(nope)}"
    )


def text_table(runs: Sequence[Runs]) -> str:
    """Perplexity at each multiple, the ratio and the verdict."""
    multiples = sorted({one for group in runs for one in group.multiples}, key=float)
    head = ["encoding", *(f"{one}×" for one in multiples), f"last quarter, {LONGEST}× over 1×", "verdict"]
    rows = []
    for one in runs:
        cells = [said(one.measure(multiple, "perplexity")) for multiple in multiples]
        rows.append([title_of(one.encoding), *cells, said(one.ratio()), verdict(one)])
    return f"Perplexity per byte, mean ± 95 % over seeds:\n\n{table(head, rows)}"


# rankings


def ranked(runs: Sequence[Runs], multiple: str, name: str) -> list[tuple[Runs, Interval]]:
    """The best first, by a measure at a multiple of the trained length; those without it are left out."""
    found = [(one, number) for one in runs if (number := one.measure(multiple, name)) is not None]
    return sorted(found, key=lambda pair: pair[1].mean, reverse=name in ("accuracy", "exact"))


def best_of(order: Sequence[tuple[Runs, Interval]], multiple: str, name: str) -> list[Runs]:
    """The first, and those whose order with it is not known."""
    first = order[0][0]
    return [one for one, _ in order if one is first or tied(first, one, multiple, name)]


def ranking(runs: Sequence[Runs], multiple: str, name: str) -> str:
    """Places 1, 2 …; "=" where the order with the place before is not known."""
    order = ranked(runs, multiple, name)
    rows = []
    for place, (one, number) in enumerate(order, 1):
        equal = place > 1 and tied(order[place - 2][0], one, multiple, name)
        rows.append([f"{place}{'=' if equal else ''}", title_of(one.encoding), said(number)])
    return table(["place", "encoding", f"{name} at {multiple}×"], rows)


# tasks


def solved_by(runs: Sequence[Runs], multiple: str) -> list[str]:
    order = ranked(runs, multiple, "exact")
    return [title_of(one.encoding) for one, number in order if number.mean >= SOLVED]


def tasks_asked(by_task: dict[str, list[Runs]]) -> str:
    """What each task asks, with a row of it and what guessing gives, from its own words."""
    from .tasks import TASKS  # which needs NumPy alone, but reads the text

    rows = []
    for name in by_task:
        about = inspect.getdoc(TASKS[name]) or ""
        asks, example = (
            about.partition("\n")[0],
            re.search(r"^A row: (.*?)\. (?:Whether|A length|Metric)", about, re.M | re.S),
        )
        if example is None:
            raise ValueError(f"the docstring of {name} must have a paragraph that begins with 'A row: ', got none")
        row = " ".join(example[1].split()).replace("``", "`").replace("|", "\\|")
        guessed = TASKS[name].guessed
        rows.append([name, asks, row, f"{guessed:g}" if guessed else "nearly 0"])
    return table(["task", "asks", "a row", "exact match by guessing"], rows)


def task_answer(by_task: dict[str, list[Runs]], multiple: str) -> str:
    """Who solves what at a multiple, task by task."""
    from .tasks import TASKS

    every = [one for runs in by_task.values() for one in runs]
    lines = [f"At {multiple} times the trained length, in these runs ({size_of(every)}):", ""]
    for task, runs in by_task.items():
        learnt, solved = solved_by(runs, "1"), solved_by(runs, multiple)
        if solved:
            lines.append(f"- **{task}** is solved by {and_list(solved)}.")
            continue
        best = ranked(runs, multiple, "exact")
        guessed = TASKS[task].guessed
        names = "none could be asked"
        if best:
            first, number = best[0]
            names = (
                "none gets an input right"
                if not number.mean
                else f"none is known to do better than guessing, which gives {guessed:g} (the highest is {said(number)})"
                if guessed and number.mean - number.half <= guessed
                else f"the best is {title_of(first.encoding)} with {said(number)}"
            )
        base = (
            f"{len(learnt)} of {len(runs)} solve it at the trained length"
            if learnt
            else "none solves it even at the trained length"
        )
        lines.append(f"- **{task}** is solved by none: {names}; {base}.")
    return "\n".join(
        [*lines, "", f"A task is solved where exact match is at least {SOLVED} on average over the seeds."]
    )


def task_table(by_task: dict[str, list[Runs]], multiple: str, name: str = "exact") -> str:
    encodings = sorted(
        {one.encoding for runs in by_task.values() for one in runs}, key=lambda name: title_of(name).lower()
    )
    rows = []
    for encoding in encodings:
        cells = []
        for runs in by_task.values():
            found = [one for one in runs if one.encoding == encoding]
            cells.append(said(found[0].measure(multiple, name)) if found else "–")
        rows.append([title_of(encoding), *cells])
    return table(["encoding", *by_task], rows)


# settings, papers

PER_RUN = {"seed", "encoding", "task"}


def settings_table(runs: Sequence[Runs]) -> str:
    """All that decides the runs; where they differ, every value."""
    values: dict[str, list[str]] = {}
    for one in runs:
        for row in one.rows:
            members: dict[str, Any] = {
                **row["setting"],
                **{name: row.get(name) for name in ("parameters", "bearing", "torch", "machine")},
            }
            for name, value in members.items():
                known = values.setdefault(name, [])
                text = f"{value:,}" if name == "parameters" and isinstance(value, int) else str(value)
                if text not in known:
                    known.append(text)
    seconds = [row["seconds"] for one in runs for row in one.rows]
    rows = []
    for name, texts in values.items():
        if name in ("", None) or texts in ([""], ["None"]):
            continue
        shown = sorted(texts, key=lambda text: (len(text), text)) if name in PER_RUN or name == "parameters" else texts
        rows.append([f"`{name}`", ", ".join(shown) if len(shown) <= 12 else f"{len(shown)} values"])
    rows.append(["seconds a run", f"{min(seconds):.0f} to {max(seconds):.0f}"])
    rows.append(["runs", str(sum(len(one.rows) for one in runs))])
    return table(["setting", "value"], rows)


def found_here(paper: Paper, here: dict[str, Runs]) -> str:
    """What the runs say to a paper's finding: the ratio of the rule, and whether that is the same."""
    found = [one for one in (*paper.encodings, *paper.ahead_of) if one in here]
    ours = "; ".join(
        f"{title_of(one)}: {verdict(here[one])}, {said(here[one].ratio())} times in the last quarter" for one in found
    )
    if not found:
        return "see above"
    if paper.verdict:
        same = all(verdict(here[one]) == paper.verdict for one in found)
        return f"{ours}: {'the same' if same else '**not the same**'}"
    if not paper.ahead_of:
        return ours
    first, *others = (here[one] for one in found)
    ratios = [one.ratio() for one in (first, *others)]
    if ratios[0] is None:
        return ours
    better = [
        one is not None and ratios[0].mean < one.mean and not tied(first, other, LONGEST, "tail")
        for other, one in zip(others, ratios[1:], strict=True)
    ]
    word = "the same" if all(better) else "**not the same**" if not any(better) else "**the same of some alone**"
    return f"{ours}: {word}"


def papers_table(question: Question, here: Callable[[Paper], str]) -> str:
    """What papers report, beside what was found here, with both settings."""
    rows = []
    for paper in PAPERS:
        if paper.page != question.name:
            continue
        link = f"[{paper.cite}](https://arxiv.org/abs/{paper.arxiv})"
        rows.append([link, paper.setting, paper.finding, here(paper)])
    if not rows:
        raise ValueError(f"there must be papers on {question.name} in lab/papers.py, got none")
    return table(["paper", "its setting", "it reports", "here"], rows)


def rule() -> str:
    """How verdicts are made; the limits are those of lab/summary.py."""
    return table(
        [f"perplexity of the last quarter, {LONGEST}× over 1×", "verdict"],
        [
            [f"at most {EXTRAPOLATES}", "extrapolates"],
            [f"above {EXTRAPOLATES}, at most {FAILS}", "partly"],
            [f"above {FAILS}", "does not extrapolate"],
            ["the model has no position there", "cannot be asked"],
        ],
    )


def limits(runs: Sequence[Runs]) -> str:
    """How small all of it is, in numbers."""
    settings = [one.setting for one in runs]
    steps, batches = ({one[name] for one in settings} for name in ("steps", "batch"))
    lengths = {one["length"] for one in settings}
    counts = [and_list([f"{one:,}" for one in sorted(some)]) for some in (steps, batches, lengths)]
    layers = and_list([str(one) for one in sorted({one["layers"] for one in settings})])
    sizes = size_of(runs)
    return (
        f"All of this is about {sizes}, with {layers} layers, trained for {counts[0]} steps of {counts[1]} inputs of length {counts[2]}."
        " Larger models, other texts, longer training or another learning rate may change it. Only runs of one table may be compared."
    )


def rows_of(rows: Iterable[Row], protocol: str) -> list[Row]:
    return [row for row in rows if row["setting"]["question"] == protocol]
