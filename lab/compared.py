"""Pages that hold many kinds of runs side by side: tasks, ways of extension, images, and the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence

from bearing import Figure

from .figures import matrix_panel, methods_panel, ranking_panel, title_of
from .papers import Paper
from .pictures import PICTURES
from .questions import Question
from .results import Interval
from .summary import LONGEST, Runs, said, tied
from .tables import and_list, best_of, ranked, size_of, table

# In what the runs of a page differ, besides the seed.
APART = {
    "text": ("encoding",),
    "encoders": ("encoding",),
    "tasks": ("encoding", "task"),
    "extension": ("encoding", "method", "factor", "tuned_steps", "variant"),
    "images": ("encoding", "task", "method"),
}


# tasks


def tasks_figure(title: str, by_task: dict[str, list[Runs]]) -> Figure:
    """Exact match of each encoding at each task, at the trained length and at twice that."""
    encodings = sorted(
        {one.encoding for runs in by_task.values() for one in runs}, key=lambda name: title_of(name).lower()
    )
    tasks = list(by_task)

    def value(multiple: str, row: int, column: int) -> float:
        found = [one for one in by_task[tasks[column]] if one.encoding == encodings[row]]
        number = found[0].measure(multiple, "exact") if found else None
        return float("nan") if number is None else number.mean

    panels = tuple(
        matrix_panel(f"Exact match at {multiple}× the trained length", [title_of(one) for one in encodings], tasks,
                     lambda row, column, multiple=multiple: value(multiple, row, column), "share of inputs")
        for multiple in ("1", "2")
    )  # fmt: skip
    words = " ".join(
        f"{task} at twice the trained length: {title_of(best[0].encoding)} {said(best[1])} is highest."
        for task, runs in by_task.items()
        for best in ranked(runs, "2", "exact")[:1]
    )
    return Figure(kind="lab", title=title, text=words, panels=panels, columns=1)


def task_rankings(by_task: dict[str, list[Runs]], multiple: str) -> str:
    """Per task, the encodings in order of exact match; those that tie with the best stand together."""
    rows = []
    for task, runs in by_task.items():
        order = ranked(runs, multiple, "exact")
        if not order or not order[0][1].mean:
            rows.append([task, "none gets an input right" if order else "none could be asked", "–", "–"])
            continue
        first = [title_of(one.encoding) for one in best_of(order, multiple, "exact")]
        last, lowest = order[-1]
        tie = and_list(first) if len(first) <= 6 else f"{len(first)} of {len(order)} encodings tie"
        rows.append([task, tie, said(order[0][1]), f"{title_of(last.encoding)}: {said(lowest)}"])
    return table(["task", f"best at {multiple}×, with ties", "exact match of the best", "last"], rows)


# extension

AS_TRAINED = "as trained"  # METHODS["none"].title of lab/extension.py


def way(runs: Runs) -> str:
    """What was done to extend a model: "YaRN"."""
    from .extension import METHODS  # which imports PyTorch

    return METHODS[runs.setting["method"]].title


def _factors(runs: Sequence[Runs]) -> list[str]:
    return [f"{one:g}" for one in sorted({float(one.setting["factor"]) for one in runs if one.setting["factor"] > 1})]


def _by_way(runs: Sequence[Runs], tuned: bool) -> dict[str, dict[str, tuple[Runs, Interval]]]:
    """Perplexity of each way at each factor. What has no factor of its own, as doing nothing, is asked at all of them."""
    found: dict[str, dict[str, tuple[Runs, Interval]]] = {}
    for one in runs:
        if bool(one.setting["tuned_steps"]) != tuned or one.setting["variant"] != "whole":
            continue
        for at in [f"{one.setting['factor']:g}"] if one.setting["factor"] > 1 else _factors(runs):
            number = one.measure(at, "perplexity")
            if number is not None:
                found.setdefault(way(one), {})[at] = (one, number)
    return found


def extension_figure(title: str, runs: Sequence[Runs]) -> Figure:
    """A line for each way, in the same colour on both panels; that of doing nothing has one of its own."""
    factors = _factors(runs)
    ways = list(dict.fromkeys(way for tuned in (False, True) for way in _by_way(runs, tuned) if way != AS_TRAINED))
    panels, words = [], []
    for tuned, name in ((False, "Without fine-tuning"), (True, "With fine-tuning")):
        found = _by_way(runs, tuned)
        if not found:
            continue
        curves = [
            (way, [(float(at), points[at][1]) for at in factors if at in points]) for way, points in found.items()
        ]
        colours = [None if way == AS_TRAINED else ways.index(way) for way in found]
        panels.append(methods_panel(name, curves, factors, colours))
        words += [f"{name}, {way}: {said(points[-1][1])} at {points[-1][0]:g}×." for way, points in curves]
    return Figure(kind="lab", title=title, text=" ".join(words), panels=tuple(panels), columns=2)


def _mean(entry: tuple[str, Runs, Interval]) -> float:
    return entry[2].mean


def extension_answer(runs: Sequence[Runs]) -> str:
    lines = [f"In these runs ({size_of(runs)}), by perplexity per byte, lowest first:", ""]
    for tuned, name in ((False, "without fine-tuning"), (True, "with fine-tuning")):
        ways = _by_way(runs, tuned)
        for factor in _factors(runs):
            order = sorted(((way, *points[factor]) for way, points in ways.items() if factor in points), key=_mean)
            if not order:
                continue
            best = order[0][1]
            first = [
                f"{way} ({said(number)})"
                for way, one, number in order
                if one is best or tied(best, one, factor, "perplexity")
            ]
            if len(best.rows) < 2:
                first = [f"{first[0]} is lowest, and one seed decides nothing"]
            plain = ways.get(AS_TRAINED, {}).get(factor)
            than = "" if plain is None or plain[0] is best else f"; as trained it is {said(plain[1])}"
            lines.append(
                f"- {factor} times as long, {name}: {and_list(first)}{' tie' if len(first) > 1 else ''}{than}."
            )
    return "\n".join(lines)


def extension_here(paper: Paper, runs: Sequence[Runs]) -> str:
    """What the ways that a paper is about did here, at each factor."""
    from .extension import METHODS  # which imports PyTorch

    parts = []
    for method, tuned in paper.ways:
        points = _by_way(runs, tuned).get(METHODS[method].title, {})
        if points:
            numbers = ", ".join(f"{said(number)} at {factor}×" for factor, (_, number) in points.items())
            parts.append(f"{METHODS[method].title}, {'with' if tuned else 'without'} fine-tuning: {numbers}")
    return "; ".join(parts) or "see above"


def extension_tables(runs: Sequence[Runs]) -> str:
    parts = []
    factors = _factors(runs)
    for tuned, name in ((False, "Without fine-tuning"), (True, "With fine-tuning")):
        ways = _by_way(runs, tuned)
        if ways:
            steps = sorted({one.setting["tuned_steps"] for one in runs if one.setting["tuned_steps"]})
            said_steps = f", {and_list([str(one) for one in steps])} steps at the longer length" if tuned else ""
            rows = [
                [way, *(said(points[one][1] if one in points else None) for one in factors)]
                for way, points in ways.items()
            ]
            parts.append(
                f"{name}{said_steps}, perplexity per byte:\n\n{table(['way', *(f'{one}×' for one in factors)], rows)}"
            )
    trained_so = variants_table(runs)
    return "\n\n".join([*parts, *([trained_so] if trained_so else [])])


def variants_table(runs: Sequence[Runs]) -> str:
    """Models that were trained with other positions, beside those that were not; empty where there are none."""
    some = [one for one in runs if one.setting["method"] == "none" and one.setting["factor"] == 1]
    if all(one.setting["variant"] == "whole" for one in some):
        return ""
    multiples = sorted({m for one in some for m in one.multiples}, key=float)
    rows = [
        [title_of(one.encoding), one.setting["variant"], *(said(one.measure(m, "perplexity")) for m in multiples)]
        for one in sorted(
            some, key=lambda one: (one.encoding, one.setting["variant"] != "whole", one.setting["variant"])
        )
    ]
    head = table(["encoding", "positions in training", *(f"{m}×" for m in multiples)], rows)
    return f"Other positions in training, and nothing done afterwards, perplexity per byte:\n\n{head}"


# images


# What the lab puts together of an encoding that serves one axis.
_TOGETHER = {"t5_axis": "T5 buckets, a bias for each axis"}


def _image_encoding(runs: Runs) -> str:
    return _TOGETHER.get(runs.encoding, title_of(runs.encoding))


def _image_name(runs: Runs) -> str:
    method = runs.setting["method"]
    return _image_encoding(runs) + ("" if method == "none" else f" ({method})")


def _by_picture(runs: Sequence[Runs]) -> dict[str, list[Runs]]:
    """By what is asked, in words; encodings stand in one order wherever they are."""
    found: dict[str, list[Runs]] = {}
    for one in runs:
        found.setdefault(PICTURES[one.setting["task"]].title, []).append(one)
    order = _image_names(found)
    return {task: sorted(some, key=lambda one: order.index(_image_name(one))) for task, some in found.items()}


def _image_names(by_picture: dict[str, list[Runs]]) -> list[str]:
    return list(dict.fromkeys(_image_name(one) for some in by_picture.values() for one in some))


def images_figure(title: str, runs: Sequence[Runs]) -> Figure:
    """Accuracy at each side. Every question has the same rows, so that they can be compared across."""
    by_picture = _by_picture(runs)
    names = _image_names(by_picture)
    panels, words = [], []
    for task, some in by_picture.items():
        named = {_image_name(one): one for one in some}
        multiples = sorted({m for one in some for m in one.multiples}, key=float)

        def value(row: int, column: int, named: dict[str, Runs] = named, multiples: Sequence[str] = multiples) -> float:
            one = named.get(names[row])
            number = None if one is None else one.measure(multiples[column], "accuracy")
            return float("nan") if number is None else number.mean

        panels.append(matrix_panel(task, names, [f"{one}×" for one in multiples], value, "accuracy"))
        best = ranked(some, multiples[-1], "accuracy")[:1]
        words += [
            f"{task} at {multiples[-1]} times the side: {_image_name(one)} {said(number)} is highest."
            for one, number in best
        ]
    return Figure(kind="lab", title=title, text=" ".join(words), panels=tuple(panels), columns=min(2, len(panels)))


def _as_good_as_guessing(order: Sequence[tuple[Runs, Interval]], multiple: str) -> list[Runs]:
    """The runs that are not told from a model without places, which can only guess; it is none of them."""
    nope = next((one for one, _ in order if one.encoding == "nope"), None)
    if nope is None:
        return []
    return [one for one, _ in order if one is not nope and tied(one, nope, multiple, "accuracy")]


def images_answer(runs: Sequence[Runs]) -> str:
    """The best at each side of the grid. At the trained side stretching changes nothing, so each encoding stands once;
    runs of one seed, which would tie with all, are left out."""
    lines = [f"In these runs ({size_of(runs)}), by accuracy:", ""]
    alone = [one for one in runs if len(one.rows) < 2]
    some_seeds = [one for one in runs if len(one.rows) > 1]
    for task, some in _by_picture(some_seeds or runs).items():
        for multiple in sorted({m for one in some for m in one.multiples}, key=float):
            of = [one for one in some if multiple != "1" or one.setting["method"] == "none"]
            order = ranked(of, multiple, "accuracy")
            first = [_image_name(one) for one in best_of(order, multiple, "accuracy")]
            guess = _as_good_as_guessing(order, multiple)
            begin = f"- **{task}** at {multiple} times the trained side:"
            if order[0][0].encoding == "nope" or any(one is order[0][0] for one in guess):
                lines.append(
                    f"{begin} nothing is known to do better than NoPE, which guesses; the highest mean is that of"
                    f" {_image_name(order[0][0])} ({said(order[0][1])})."
                )
                continue
            what = "encodings" if multiple == "1" else "encodings, counted or stretched,"
            names = and_list(first) if len(first) <= 5 else f"{len(first)} of {len(order)} {what}"
            words = f"{begin} {names} {'tie' if len(first) > 1 else 'is best'} ({said(order[0][1])})."
            if multiple == "1" and guess:
                low = sorted(dict.fromkeys(_image_name(one) for one in guess))
                words += (
                    f" Not told from NoPE, which guesses: {and_list(low)}. They may not have learned the question here, so larger"
                    " grids say nothing of them."
                )
            lines.append(words)
    if some_seeds and alone:
        names = sorted({_image_encoding(one) for one in alone})
        lines += ["", f"Runs of one seed tie with everything and are not counted: {and_list(names)}."]
    return "\n".join(lines)


def images_table(runs: Sequence[Runs]) -> str:
    parts = []
    for task, some in _by_picture(runs).items():
        multiples = sorted({m for one in some for m in one.multiples}, key=float)
        rows = [[_image_name(one), *(said(one.measure(m, "accuracy")) for m in multiples)] for one in some]
        parts.append(f"{task}, accuracy:\n\n{table(['encoding', *(f'{m}×' for m in multiples)], rows)}")
    return "\n\n".join(parts)


# leaderboard


def leaderboard_figure(title: str, runs: Sequence[Runs]) -> Figure:
    """Perplexity at the trained length and far beyond, each with its order."""
    panels, words = [], []
    for multiple in ("1", LONGEST):
        order = ranked(runs, multiple, "perplexity")
        if order:
            names = [(title_of(one.encoding), number) for one, number in order]
            panels.append(ranking_panel(f"Text at {multiple}× the trained length", names, "perplexity per byte"))
            words.append(
                f"At {multiple}×: {names[0][0]} {said(names[0][1])} is first, {names[-1][0]} {said(names[-1][1])} last."
            )
    return Figure(kind="lab", title=title, text=" ".join(words), panels=tuple(panels), columns=1)


def leaderboard_answer(runs: Sequence[Runs]) -> str:
    parts = []
    for multiple in ("1", LONGEST):
        order = ranked(runs, multiple, "perplexity")
        if not order:
            continue
        first = [title_of(one.encoding) for one in best_of(order, multiple, "perplexity")]
        if len(first) == 1:
            parts.append(f"at {multiple}× the trained length {first[0]} ({said(order[0][1])})")
        else:
            parts.append(f"at {multiple}× the trained length {and_list(first)} tie (the first: {said(order[0][1])})")
    return f"On text, in these runs ({size_of(runs)}): {'; '.join(parts)}."


def command_of(question: Question, runs: Sequence[Runs]) -> str:
    """What repeats the runs."""
    from .grid import preset_of  # which imports the tasks

    def names(member: str) -> str:
        return "'" + " ".join(dict.fromkeys(str(one.setting[member]) for one in runs)) + "'"

    words = [
        "scripts/lab",
        *preset_of(runs[0].setting),
        "--question",
        question.protocol,
        "--encodings",
        names("encoding"),
    ]
    if question.protocol == "tasks":
        words += ["--tasks", names("task")]
    seeds = sorted({row["setting"]["seed"] for one in runs for row in one.rows})
    counted = seeds == list(range(len(seeds)))
    return " ".join([*words, "--seeds", str(len(seeds)) if counted else ",".join(map(str, seeds))])
