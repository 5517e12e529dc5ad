#!/usr/bin/env python3
"""Turns rope_bench's JSON into ratios: each case against the machine's limits and against what is demanded.

A ratio is the median over the repetitions of what the program measured turn by turn; a time is that of the shortest
turn, of both sides in the case that compares them.
"""

import argparse
import collections
import contextlib
import fnmatch
import io
import json
import pathlib
import re
import statistics
import sys

import figures


class Case:
    """The repetitions of one benchmark, and what the program said about it."""

    def __init__(self, name):
        self.name, self.times, self.error = name, [], None
        self.ratios = {}  # by what it was compared with: the other's time / its own, for each repetition
        self.others = {}  # by what it was compared with: its least time there, in µs
        self.is_long = False  # it has turns and no repetitions
        self.bars, self.at_most_us, self.peer = [], None, False

    def read_label(self, text):
        self.bars = []
        for item in filter(None, text.split(";")):
            key, value = item.split("=", 1)
            if key == "bar":
                pattern, demand = value.rsplit("@", 1)
                self.bars.append((pattern, float(demand)))
            elif key == "at_most_us":
                self.at_most_us = float(value)
            elif key == "peer":
                self.peer = True

    @property
    def best(self):
        return min(self.times)

    def fastest(self, pattern):
        """The name of the fastest that the pattern names; none if it was compared with nothing of the kind."""
        shares = {name: statistics.median(values) for name, values in self.ratios.items()
                  if fnmatch.fnmatchcase(name, pattern)}
        return min(shares, key=shares.get, default=None)

    def share(self, pattern):
        """Of the speed of that one."""
        name = self.fastest(pattern)
        return None if name is None else statistics.median(self.ratios[name])

    def middle_half(self, pattern):
        """Between which of its repetitions' shares half of them lie; none where there are too few to say."""
        shares = self.ratios.get(self.fastest(pattern), [])
        return statistics.quantiles(shares)[::2] if len(shares) > 3 else None


def read_cases(document):
    cases = {}
    for run in document["benchmarks"]:
        if run.get("run_type") == "aggregate":
            continue
        name = re.sub(r"(/iterations:\d+/repeats:\d+)?/manual_time$", "", run["run_name"])
        case = cases.setdefault(name, Case(name))
        case.is_long |= "/iterations:" in run["run_name"]
        if run.get("error_occurred"):
            case.error = run["error_message"]
            continue
        case.times.append(run["step_us"])
        case.read_label(run.get("label", ""))
        for key, value in run.items():
            if key.startswith("vs "):
                case.ratios.setdefault(key[3:], []).append(value)
            if key.startswith("us "):
                case.others[key[3:]] = min(value, case.others.get(key[3:], value))
    return {name: cases[name] for name in sorted(cases, key=reading_order)}


GROUPS = ("rotate", "backward", "decode", "mrope_sections", "mrope_interleaved", "axial_2d", "compact_table",
          "fill_table", "bias_matrix", "bias_gradient", "scores", "scores_backward", "attention", "attention_decode",
          "attention_backward", "linear_attention", "itself", "peer", "limit", "memcpy", "nt_copy", "nt_write", "read",
          "fma")
LIMITS = ("limit", "memcpy", "nt_copy", "nt_write", "read", "fma")
FMA_BURST = 2 ** 28  # multiply-adds of a thread, as in limits.hpp


def reading_order(name):
    """Groups as listed, and 8 before 64 within them: the program runs them in random order."""
    group = name.split("/")[0]
    numbers_apart = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
    return GROUPS.index(group) if group in GROUPS else len(GROUPS), numbers_apart


def time_text(us):
    return f"{us:.3f} µs" if us < 10 else f"{us:.1f} µs" if us < 1000 else f"{us / 1000:.2f} ms"


def verdict(met):
    return "" if met is None else "ok" if met else "MISSED"


Row = collections.namedtuple("Row", "name time share half limit limits_time demanded verdict")


def case_rows(cases):
    """One row for each bar, and for each demand in time; a case that has neither has its time."""
    rows = []
    for case in cases.values():
        if not case.times or case.peer or case.name.split("/")[0] in LIMITS:
            continue
        time = time_text(case.best)
        for pattern, demand in case.bars:
            share = case.share(pattern)
            if share is None:
                rows.append(Row(case.name, time, "", "", bar_name(pattern), "not measured", "", ""))
                continue
            half, other = case.middle_half(pattern), case.others.get(case.fastest(pattern))
            beside = "itself" if case.name == f"itself/{pattern}" else bar_name(pattern)
            met = round(share, 2) >= round(demand, 2) if demand else None  # as both are printed
            rows.append(Row(case.name, time, f"{share:.2f}", f"{half[0]:.2f} to {half[1]:.2f}" if half else "",
                            beside, time_text(other) if other else "", f"{demand:.2f}" if demand else "",
                            verdict(met)))
        if case.at_most_us:
            rows.append(Row(case.name, time, "", "", "", "", f"{case.at_most_us} µs",
                            verdict(case.best <= case.at_most_us)))
        if not case.bars and not case.at_most_us:
            rows.append(Row(case.name, time, "", "", "", "", "", ""))
    return rows


def spread(cases):
    """How far from 1 a ratio may be and say nothing: as far as a case beside itself goes in half of its repetitions,
    and a hundredth; two where none was measured."""
    beside_itself = [case for case in cases.values() if case.name.startswith("itself/") and case.times]
    halves = [case.middle_half("*") or [case.share("*")] for case in beside_itself]
    return max([0.01 if halves else 0.02] + [abs(ratio - 1) for half in halves for ratio in half])


def bar_name(pattern):
    kind, *rest = pattern.split("/")
    if kind == "attention":
        return "/".join(rest[:2])
    return {"limit": "LIMIT", "rotate": "1-D, full table", "nt_write": "NT write", "nt_copy": "NT copy",
            "read": "reading", "fma": "FMA peak", "attention_decode": "one thread"}.get(kind, kind)


def limit_rows(cases):
    """name, time, GB/s read plus written, or GFLOP/s."""
    rows = []
    scale = {"KiB": 1024, "MiB": 1024 ** 2}
    for case in cases.values():
        parts = case.name.split("/")
        if not case.times or parts[0] not in LIMITS:
            continue
        if parts[0] == "fma":
            rate = f"{2 * FMA_BURST * int(parts[-1]) / case.best * 1e-3:.1f} GFLOP/s"
        else:
            size = parts[-2]
            moved = int(size[:-3]) * scale[size[-3:]] * (1 if parts[0] in ("nt_write", "read") else 2)
            rate = f"{moved / case.best * 1e-3:.1f} GB/s"
        rows.append((case.name, time_text(case.best), rate))
    return rows


def standing(times, within):
    """Of a number of times faster, as it is printed: ahead, even within what ratios are good for, or BEHIND."""
    times = round(times, 2)
    return "ahead" if times > 1 + within else "even" if times * (1 + within) >= 1 else "BEHIND"


def peer_rows(cases):
    """name, its time and ours beside it, how many times faster we are, and whether that is ahead."""
    rows, within = [], spread(cases)
    for case in cases.values():
        if not case.times or not case.peer:
            continue
        (pattern, _), = case.bars
        peer, what = case.name.removeprefix("peer/").split("/", 1)
        share, own = case.share(pattern), case.others.get(case.fastest(pattern))
        if share is None:
            rows.append((peer, what, time_text(case.best), "not measured", "", ""))
            continue
        rows.append((peer, what, time_text(case.best), time_text(own) if own else "", f"{1 / share:.2f}",
                     standing(1 / share, within)))
    return rows


def print_table(title, head, rows, markdown):
    if not rows:
        return
    if markdown:
        print(f"## {title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
        for row in rows:
            print(f"| {' | '.join(row)} |")
    else:
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        print(title)
        for row in [head, *rows]:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


def cache_text(context, level):
    sizes = [cache["size"] for cache in context["caches"] if cache["level"] == level]
    return f"L{level} {sizes[-1] / 1024 ** 2:g} MiB" if sizes else f"L{level} unknown"


def repetitions_text(cases):
    counts = [len(case.times) for case in cases.values() if case.times and not case.is_long]
    if not counts:
        return "no repetitions"
    return f"{min(counts)} repetitions" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)} repetitions"


def print_report(document, markdown):
    cases = read_cases(document)
    context = document["context"]

    print(f"{context['cpu']}, {context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, "
          f"{cache_text(context, 2)} per core, {cache_text(context, 3)}; {figures.target_text(context)}, "
          f"{context['priority']}, {context.get('pages', 'unknown')} pages, governor {context.get('governor', 'unknown')}, "
          f"bearing {context['bearing']}, {context['date'][:10]}, {repetitions_text(cases)}\n")
    if "peers" in context:
        print(f"Peers: {context['peers']}\n")
    rows = case_rows(cases)
    print_table("Shares of the limits",
                ("case / threads", "time", "share", "half within", "of", "its time", "demanded", ""), rows, markdown)
    peers = peer_rows(cases)
    print_table("Peers", ("peer", "case / threads", "peer", "bearing", "times faster", ""), peers, markdown)
    print_table("Limits", ("limit / bytes / threads", "time", "rate"), limit_rows(cases), markdown)
    errors = [case for case in cases.values() if case.error]
    for case in errors:
        print(f"{case.name}: {case.error}", file=sys.stderr)
    met, missed = (sum(1 for row in rows if row.verdict == kind) for kind in ("ok", "MISSED"))
    print(f"{met} of {met + missed} demands met.", end=" " if peers else "\n")
    if peers:
        ahead, even, behind = (sum(1 for row in peers if row[-1] == kind) for kind in ("ahead", "even", "BEHIND"))
        print(f"Of {ahead + even + behind} comparisons with a peer {ahead} are ahead, {even} even within "
              f"{100 * spread(cases):.0f} % and {behind} behind.")
    return 1 if errors else 0


def compare(old, new):
    """Prints what is slower or faster than in an earlier run, beyond what either run's ratios are good for: shares of
    limits and leads over peers. 1 if anything is slower."""
    within = spread(old) + spread(new)
    rows, compared = [], 0
    for name in (name for name in new if name in old):
        for pattern, _ in new[name].bars:
            before, after = (cases[name].share(pattern) for cases in (old, new))
            if before is None or after is None:
                continue
            compared += 1
            if new[name].peer:
                before, after = 1 / before, 1 / after
            if abs(after / before - 1) > within:
                rows.append((name, bar_name(pattern), f"{before:.2f}", f"{after:.2f}", "SLOWER" if after < before else "faster"))
    print_table("What changed", ("case / threads", "of", "before", "now", ""), rows, markdown=False)
    print(f"{len(rows)} of {compared} ratios changed by more than {100 * within:.0f} %.")
    return 1 if any(row[-1] == "SLOWER" for row in rows) else 0


def unfit(document, cases):
    """Why a run is not for the pages, in sentences that begin with what it must have; empty if it is."""
    reasons = []
    if "peers" not in document["context"]:
        reasons.append("peers (--peers), got none")
    fewest = min((case for case in cases.values() if not case.is_long), key=lambda case: len(case.times), default=None)
    if fewest is not None and len(fewest.times) < figures.REPETITIONS:
        reasons.append(f"{figures.REPETITIONS} repetitions of each case, got {len(fewest.times)} of {fewest.name}")
    missing = [name for _, name, _ in figures.ROWS if name not in cases or not cases[name].times]
    if missing:
        reasons.append(f"all cases of the page's rows, got none of {', '.join(missing)}")
    failed = [case.name for case in cases.values() if case.error]
    if failed:
        reasons.append(f"no case that failed, got {', '.join(failed)}")
    return reasons


def write_pages(document, cases, folder, partial):
    reasons = unfit(document, cases)
    if reasons and not partial:
        print("".join(f"report.py: a run for the pages must have {reason}\n" for reason in reasons)
              + "report.py: nothing was written; --partial writes the cells that this run has", file=sys.stderr)
        return 1
    status = 0
    if not reasons:
        tables = io.StringIO()
        with contextlib.redirect_stdout(tables):
            status = print_report(document, markdown=True)
        figures.replace_between(folder / "performance-tables.md", "results", lambda _: tables.getvalue())
    figures.replace_between(folder / "performance.md", "figures", lambda old: figures.block(
        old, document["context"], cases, case_rows(cases), spread(cases), partial=bool(reasons)))
    return status


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="what rope_bench --benchmark_out wrote")
    parser.add_argument("--markdown", action="store_true", help="tables in Markdown")
    parser.add_argument("--docs", metavar="FOLDER",
                        help="write the tables into FOLDER/performance-tables.md, and this machine's figures into "
                             "FOLDER/performance.md, between their markers; refused for a quick run, for one without "
                             "peers and for one that lacks cases of the page")
    parser.add_argument("--partial", action="store_true",
                        help="with --docs, such a run too: the cells that it has are written, what others have keeps its "
                             "date, and the long tables and the sentences stay")
    parser.add_argument("--compare", metavar="OLD", help="print what changed since the run in that file; 1 if anything is slower")
    arguments = parser.parse_args()
    if arguments.partial and not arguments.docs:
        parser.error("--partial goes with --docs")
    document = read(arguments.results)
    cases = read_cases(document)
    if arguments.compare:
        return compare(read_cases(read(arguments.compare)), cases)
    if arguments.docs:
        return write_pages(document, cases, pathlib.Path(arguments.docs), arguments.partial)
    return print_report(document, arguments.markdown)


if __name__ == "__main__":
    sys.exit(main())
