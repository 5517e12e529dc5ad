#!/usr/bin/env python3
"""Turns rope_bench's JSON into ratios: each case against the machine's limits and against what is demanded.

A ratio is the median over the repetitions of what the program measured turn by turn; a time is the minimum.
"""

import argparse
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

    def share(self, pattern):
        """Of the speed of the fastest that the pattern names."""
        return min(statistics.median(values) for name, values in self.ratios.items()
                   if fnmatch.fnmatchcase(name, pattern))


def read_cases(document):
    cases = {}
    for run in document["benchmarks"]:
        if run.get("run_type") == "aggregate":
            continue
        name = re.sub(r"(/iterations:\d+/repeats:\d+)?/manual_time$", "", run["run_name"])
        case = cases.setdefault(name, Case(name))
        if run.get("error_occurred"):
            case.error = run["error_message"]
            continue
        case.times.append(run["step_us"])
        case.read_label(run.get("label", ""))
        for key, value in run.items():
            if key.startswith("vs "):
                case.ratios.setdefault(key[3:], []).append(value)
    return {name: cases[name] for name in sorted(cases, key=reading_order)}


GROUPS = ("rotate", "backward", "decode", "mrope_sections", "mrope_interleaved", "axial_2d", "compact_table",
          "fill_table", "bias_matrix", "bias_gradient", "attention", "attention_decode", "attention_backward",
          "linear_attention", "peer", "limit", "memcpy", "nt_copy", "nt_write", "read", "fma")
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


def case_rows(cases):
    """name, time, share, of what, demanded, verdict; one row for each bar."""
    rows = []
    for case in cases.values():
        if not case.times or case.peer:
            continue
        for pattern, demand in case.bars:
            share = case.share(pattern)
            met = round(share, 2) >= demand if demand else None  # as it is printed
            rows.append((case.name, time_text(case.best), f"{share:.2f}", bar_name(pattern),
                         f"{demand:.2f}" if demand else "", verdict(met)))
        if case.at_most_us:
            rows.append((case.name, time_text(case.best), "", "", f"{case.at_most_us} µs",
                         verdict(case.best <= case.at_most_us)))
    return rows


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
        if not case.times or parts[0] not in ("limit", "memcpy", "nt_copy", "nt_write", "read", "fma"):
            continue
        if parts[0] == "fma":
            rate = f"{2 * FMA_BURST * int(parts[-1]) / case.best * 1e-3:.1f} GFLOP/s"
        else:
            size = parts[-2]
            moved = int(size[:-3]) * scale[size[-3:]] * (1 if parts[0] in ("nt_write", "read") else 2)
            rate = f"{moved / case.best * 1e-3:.1f} GB/s"
        rows.append((case.name, time_text(case.best), rate))
    return rows


def peer_rows(cases):
    """name, its time, ours, how many times faster we are, and whether we are to be ahead and are."""
    rows = []
    for case in cases.values():
        if not case.times or not case.peer:
            continue
        (pattern, demand), = case.bars
        peer, what = case.name.removeprefix("peer/").split("/", 1)
        share = case.share(pattern)
        rows.append((peer, what, time_text(case.best), time_text(case.best * share), f"{1 / share:.2f}",
                     verdict(1 / share >= demand if demand else None)))
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


def print_report(document, markdown):
    cases = read_cases(document)
    context = document["context"]

    print(f"{context['cpu']}, {context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, "
          f"{cache_text(context, 2)} per core, {cache_text(context, 3)}; {figures.target_text(context)}, "
          f"{context['priority']}, bearing {context['bearing']}, {context['date'][:10]}, "
          f"{max((len(case.times) for case in cases.values()), default=0)} repetitions\n")
    if "peers" in context:
        print(f"Peers: {context['peers']}\n")
    rows = case_rows(cases)
    print_table("Shares of the limits", ("case / threads", "time", "share", "of", "demanded", ""), rows, markdown)
    peers = peer_rows(cases)
    print_table("Peers", ("peer", "case / threads", "peer", "bearing", "times faster", ""), peers, markdown)
    print_table("Limits", ("limit / bytes / threads", "time", "rate"), limit_rows(cases), markdown)
    errors = [case for case in cases.values() if case.error]
    for case in errors:
        print(f"{case.name}: {case.error}", file=sys.stderr)
    demanded, missed = (sum(1 for row in rows + peers if row[-1] in kinds) for kinds in (("ok", "MISSED"), ("MISSED",)))
    print(f"{demanded - missed} of {demanded} demands met.")
    return 1 if errors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="what rope_bench --benchmark_out wrote")
    parser.add_argument("--markdown", action="store_true", help="tables in Markdown")
    parser.add_argument("--docs", metavar="FOLDER",
                        help="write the tables into FOLDER/performance-tables.md, and this machine's figures into "
                             "FOLDER/performance.md, between their markers")
    arguments = parser.parse_args()
    with open(arguments.results, encoding="utf-8") as file:
        document = json.load(file)
    if not arguments.docs:
        return print_report(document, arguments.markdown)
    tables = io.StringIO()
    with contextlib.redirect_stdout(tables):
        status = print_report(document, markdown=True)
    folder = pathlib.Path(arguments.docs)
    figures.replace_between(folder / "performance-tables.md", "results", lambda _: tables.getvalue())
    cases = read_cases(document)
    figures.replace_between(folder / "performance.md", "figures",
                            lambda old: figures.block(old, document["context"], cases, case_rows(cases)))
    return status


if __name__ == "__main__":
    sys.exit(main())
