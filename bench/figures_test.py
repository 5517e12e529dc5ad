"""What report.py --docs writes into the pages: one machine's column, the others' as they were, what is lost and missed.

Usage: figures_test.py
"""

import json
import pathlib
import subprocess
import sys
import tempfile

REPORT = pathlib.Path(__file__).parent / "report.py"
NAME = "rotate/f32/half/in_place/64MiB/1"
PAGE = """before
<!-- figures: written by scripts/bench --docs -->

| | Ours | Other |
| --- | --- | --- |
| measured | 2020-01-01 | long ago |
| Rotation in place, float32, 64 MiB (LIMIT) | 0.11 | 0.22, 3.00× somebody |
| One token, float32 | 9.00 µs | |

Old sentences.

<!-- end of figures -->
after
"""
TABLES = "<!-- results: written by scripts/bench --docs -->\nold\n<!-- end of results -->\n"


def run(name, step_us, label, **versus):
    return {"run_name": f"{name}/manual_time", "step_us": step_us, "label": label} | {
        f"vs {other}": ratio for other, ratio in versus.items()}


def document(forced):
    limits = {"limit/plain/64MiB/1": 0.7, "limit/prefetch/64MiB/1": 0.6}
    bar = f"bar={NAME}@1.000000;peer=1;"
    context = {"machine": "Ours", "date": "2026-11-23T00:00:00", "cpu": "CPU", "num_cpus": 2, "mhz_per_cpu": 1,
               "caches": [], "simd_target": "avx2", "priority": "normal", "bearing": "1"}
    return {"context": context | ({"forced_by": "BEARING_TARGET"} if forced else {}), "benchmarks": [
        run(NAME, 100, "bar=limit/*/64MiB/1@0.950000;", **limits),
        run(f"peer/slow/{NAME}", 1500, bar, **{NAME: 1 / 15}),
        run(f"peer/fast/{NAME}", 80, bar, **{NAME: 1.25})]}


def written(given, page=PAGE):
    """The two pages, and what the program said."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "performance.md").write_text(page, encoding="utf-8")
        (folder / "performance-tables.md").write_text(TABLES, encoding="utf-8")
        (folder / "out.json").write_text(json.dumps(given), encoding="utf-8")
        done = subprocess.run([sys.executable, REPORT, folder / "out.json", "--docs", folder], capture_output=True, text=True)
        return *((folder / page).read_text(encoding="utf-8") for page in ("performance.md", "performance-tables.md")), done


def expect(text, *parts):
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in:\n{text}"


page, tables, _ = written(document(forced=True))
expect(page, "before\n", "\nafter\n", "| | Ours | Other |", "| measured | 2026-11-23 | long ago |",
       "64 MiB (LIMIT) | 0.60, 0.80× fast | 0.22, 3.00× somebody |",  # the faster limit, the fastest peer
       "| One token, float32 | 9.00 µs | |",  # not measured this time
       "1 of 2 comparisons with a peer are won", "median is 15.0×", f"`{NAME}` (0.80× fast)", "0 of 1 demands", "(forced by BEARING_TARGET)")
assert "Old sentences" not in page and "0.11" not in page, page
expect(tables, "target avx2 (forced by BEARING_TARGET)", f"| {NAME} | 100.0 µs | 0.60 | LIMIT | 0.95 | MISSED |")
assert "old" not in tables, tables

again, tables, _ = written(document(forced=False), page)
assert "forced" not in again + tables, again
assert again.count("| Ours |") == 1, again

_, _, done = written(document(forced=False), "no markers\n")
assert done.returncode != 0 and "must have the lines" in done.stderr, done.stderr
print("ok")
