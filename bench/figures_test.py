"""What report.py says of a run, and what --docs writes into the pages: one machine's column, the others' as they were.

Usage: figures_test.py [rope_bench]: with the program, that it has the cases of the page's rows too.
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import report

import figures

REPORT = pathlib.Path(__file__).parent / "report.py"
NAME = "rotate/f32/half/in_place/64MiB/1"
PAGE = """before
<!-- figures: written by scripts/bench --docs -->

| | Ours (CPU, L3 32 MiB) | Other |
| --- | --- | --- |
| measured | 2020-01-01 | long ago |
| Rotation in place, float32, 64 MiB (LIMIT) | 0.11 | 0.22, 3.00× somebody |
| One token, float32 | 9.00 µs | |

Old sentences.

<!-- end of figures -->
after
"""
TABLES = "<!-- results: written by scripts/bench --docs -->\nold\n<!-- end of results -->\n"


def runs(name, label, step_us=100, times=25, **versus):
    """So many repetitions of a case, each a little slower than the one before. versus: (ratio, the other's time)."""
    found = {"run_name": f"{name}/manual_time", "label": label}
    for other, (ratio, us) in versus.items():
        found |= {f"vs {other}": ratio, f"us {other}": us}
    return [found | {"step_us": step_us + i} for i in range(times)]


def document(forced=False, times=25, peers=True, whole=True):
    """A run with a case for each row of the page; not whole: with the first alone."""
    limits = {"limit/plain/64MiB/1": (0.7, 70), "limit/prefetch/64MiB/1": (0.6, 60)}
    rows = runs(NAME, "bar=limit/*/64MiB/1@0.950000;", times=times, **limits)
    for _, name, limit in figures.ROWS[1:] if whole else ():
        label = f"bar={limit}/*@0.500000;" if limit else "at_most_us=200;"
        rows += runs(name, label, times=times, **({f"{limit}/x": (0.904, 90)} if limit else {}))
    if peers:
        bar = f"bar={NAME}@1.000000;peer=1;"
        for peer, us, share in (("slow", 1500, 1 / 15), ("fast", 80, 1.25), ("same", 100, 1 / 1.004)):
            rows += runs(f"peer/{peer}/{NAME}", bar, us, times, **{NAME: (share, us * share)})
    context = {"machine": "Ours", "date": "2026-11-23T00:00:00", "cpu": "Ours(R) CPU", "num_cpus": 2, "mhz_per_cpu": 1,
               "caches": [{"level": 3, "size": 32 * 1024 ** 2}], "simd_target": "avx2", "pages": "huge", "priority": "normal", "bearing": "1"}
    return {"context": context | ({"forced_by": "BEARING_TARGET"} if forced else {}) | ({"peers": "some"} if peers else {}),
            "benchmarks": rows}


def written(given, page=PAGE, *options):
    """The two pages, and what the program said."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "performance.md").write_text(page, encoding="utf-8")
        (folder / "performance-tables.md").write_text(TABLES, encoding="utf-8")
        (folder / "out.json").write_text(json.dumps(given), encoding="utf-8")
        done = subprocess.run([sys.executable, REPORT, folder / "out.json", "--docs", folder, *options], capture_output=True, text=True)
        return *((folder / page).read_text(encoding="utf-8") for page in ("performance.md", "performance-tables.md")), done


def expect(text, *parts):
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in:\n{text}"


def printed(function, *arguments):
    """What a function of report.py returned, and printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        found = function(*arguments)
    return found, said.getvalue()


def cases_of(*rows):
    return report.read_cases({"benchmarks": [row for some in rows for row in some]})


if len(sys.argv) > 1:
    listed = subprocess.run([sys.argv[1], "--benchmark_list_tests"], capture_output=True, text=True, check=True).stdout
    known = {line.partition("/iterations:")[0].removesuffix("/manual_time") for line in listed.splitlines()}
    wanted = {name for _, name, _ in figures.ROWS} | {"itself/rotate/f32/half/in_place/64MiB/1", "scores_backward/shaw/f32/8x1024x1024x64/1",
        "attention/causal/bf16/32:8x2048x128/1", "attention_decode/bf16/16_sequences/32:8x1:2048x128/1"}  # fmt: skip
    assert wanted <= known and not any(name.startswith(("naive/", "gather/")) for name in known), wanted - known

page, tables, _ = written(document(forced=True))
expect(page, "before\n", "\nafter\n", "| | Ours (CPU, L3 32 MiB) | Other |", "| measured | 2026-11-23 | long ago |",
       "64 MiB (LIMIT) | 0.60, 0.80× fast | 0.22, 3.00× somebody |",  # the faster limit, the fastest peer
       "| One token, float32 | 100.00 µs | |")
expect(" ".join(page.split()), "1 of 3 comparisons with a peer are won", "median is 1.00×", f"Even within 2 %: `{NAME}` (1.00× same)",
       f"Lost: `{NAME}` (0.80× fast)", "21 of 22 demands", "(forced by BEARING_TARGET)")
assert "Old sentences" not in page and "0.11" not in page, page
expect(tables, "target avx2 (forced by BEARING_TARGET)", "huge pages, governor unknown", "25 repetitions",
       f"| {NAME} | 100.0 µs | 0.60 | 0.60 to 0.60 | LIMIT | 60.0 µs | 0.95 | MISSED |",
       f"| slow | {NAME} | 1.50 ms | 100.0 µs | 15.00 | ahead |", f"| same | {NAME} | 100.0 µs | 99.6 µs | 1.00 | even |",
       f"| fast | {NAME} | 80.0 µs | 100.0 µs | 0.80 | BEHIND |", "21 of 22 demands met. Of 3 comparisons with a peer 1 are ahead")
assert "old" not in tables, tables

again, tables, _ = written(document(), page)
assert "forced" not in again + tables, again
assert again.count("| Ours (CPU, L3 32 MiB) |") == 1, again

_, _, done = written(document(), "no markers\n")
assert done.returncode != 0 and "must have the lines" in done.stderr, done.stderr

# A run that is not whole is refused, and nothing is written.
for given, reason in ((document(times=5), "25 repetitions of each case, got 5 of rotate/"), (document(peers=False), "peers (--peers), got none"),
                      (document(whole=False), "all cases of the page's rows, got none of rotate/f32/half/in_place/256KiB/1")):
    page, tables, done = written(given)
    assert done.returncode == 1 and page == PAGE and tables == TABLES, done
    expect(done.stderr, f"a run for the pages must have {reason}", "nothing was written")

# scripts/bench says so before it measures.
for options in (["--docs"], ["--peers", "--docs", "--quick"], ["--peers", "--docs", "--filter", "x"]):
    done = subprocess.run([REPORT.parent.parent / "scripts/bench", *options], capture_output=True, text=True)
    assert done.returncode == 2 and "--docs must have --peers, and neither --quick nor --filter" in done.stderr, done

# Told to, it writes the cells that it has; what it did not measure keeps its date, the long tables and sentences stay.
page, tables, done = written(document(whole=False), PAGE, "--partial")
expect(page, "| measured | 2026-11-23 | long ago |", "(LIMIT) | 0.60, 0.80× fast | 0.22, 3.00× somebody |",
       "| One token, float32 | 9.00 µs (2020-01-01) | |", "\nOld sentences.\n")
assert tables == TABLES and done.returncode == 0, tables
twice, _, _ = written(document(whole=False) | {"context": document()["context"] | {"date": "2026-11-30"}}, page, "--partial")
expect(twice, "| measured | 2026-11-30 |", "9.00 µs (2020-01-01)")
# A second run of the same day needs no dates.
again, _, _ = written(document(whole=False), page.replace("9.00 µs (2020-01-01)", "9.00 µs"), "--partial")
expect(again, "| One token, float32 | 9.00 µs | |")
# Another processor of the same generation has a column of its own.
other = document()
other["context"]["cpu"] = "Ours Laptop"
page, _, _ = written(other)
expect(page, "| | Ours (Laptop, L3 32 MiB) | Ours (CPU, L3 32 MiB) | Other |", "| measured | 2026-11-23 | 2020-01-01 | long ago |")

# A share is judged as it is printed, and so is what is demanded; a bar that met nobody, and a case without one, have rows.
rows = report.case_rows(cases_of(runs("rotate/a/1", "bar=x@0.952381;", x=(0.953, 1)), runs("rotate/b/1", "bar=x@0.952381;", x=(0.944, 1)),
                                 runs("rotate/c/1", "bar=nobody/*@0.5;"), runs("scores_backward/d/1", "")))
assert [(row.name, row.share, row.demanded, row.verdict) for row in rows] == [
    ("rotate/a/1", "0.95", "0.95", "ok"), ("rotate/b/1", "0.94", "0.95", "MISSED"), ("rotate/c/1", "", "", ""),
    ("scores_backward/d/1", "", "", "")], rows
assert rows[2].limits_time == "not measured" and rows[3].time == "100.0 µs", rows

# As far as a case is from itself, ratios say nothing.
near = [runs("itself/a/1", "bar=a/1@0;", times=1, **{"a/1": (ratio, 1)})[0] for ratio in (0.95, 0.97, 1.0, 1.03, 1.04)]
assert round(report.spread(cases_of(near)), 3) == 0.04 and report.spread(cases_of()) == 0.02
assert [report.standing(times, 0.04) for times in (1.05, 1.04, 1.0, 0.97, 0.95)] == ["ahead", "even", "even", "even", "BEHIND"]

# Beside an earlier run.
old = cases_of(runs("rotate/a/1", "bar=x@0.5;", x=(0.8, 1)), runs("rotate/b/1", "bar=x@0.5;", x=(0.8, 1)), runs("rotate/gone/1", "bar=x@0.5;", x=(0.8, 1)),
               runs("peer/p/a/1", "bar=a/1@1;peer=1;", **{"a/1": (0.5, 1)}))
new = cases_of(runs("rotate/a/1", "bar=x@0.5;", x=(0.81, 1)), runs("rotate/b/1", "bar=x@0.5;", x=(0.9, 1)), runs("peer/p/a/1", "bar=a/1@1;peer=1;", **{"a/1": (0.8, 1)}))
status, said = printed(report.compare, old, new)
assert status == 1, said
expect(said, "2 of 3 ratios changed by more than 4 %", "SLOWER", "faster")
assert "2.00" in said and "1.25" in said and "rotate/a/1" not in said, said
assert printed(report.compare, new, new)[0] == 0
print("ok")
