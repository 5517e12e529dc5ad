"""A folder's sources include what ARCHITECTURE.md's map lets them include, and nothing else.

Usage: includes_test.py ROOT
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
LIBRARIES = {
    "hwy/": "Highway",
    "boost/": "Boost.Multiprecision",
    "rapidjson/": "RapidJSON",
    "CLI/": "CLI11",
    "fmt/": "{fmt}",
    "tbb/": "oneTBB",
    "oneapi/": "oneTBB",
    "nanobind/": "nanobind",
    "xla/": "jaxlib",
    "benchmark/": "Google Benchmark",
}


def the_map() -> dict[str, set[str]]:
    """Per folder, what its row of the map names in the last column."""
    rules: dict[str, set[str]] = {}
    for line in (root / "ARCHITECTURE.md").read_text().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.split("|")]
            for folder in re.findall("`([^`]+)`", cells[1]):
                rules[folder] = {word.strip("` ") for word in cells[3].split(",")}
    return rules


def main() -> int:
    rules = the_map()
    folders = sorted(rules, key=len, reverse=True)

    def owner(place: str) -> str:
        return next((folder for folder in folders if place.startswith(folder)), "")

    wrong = seen = 0
    for top in {folder.split("/")[0] for folder in rules}:
        for file in sorted((root / top).rglob("*")):
            place = file.relative_to(root).as_posix()
            if file.suffix not in {".cc", ".hpp", ".h"} or re.search(r"_test\.cc$|^python/tests/", place):
                continue
            home = owner(place)
            for kind, name in re.findall(r'^\s*#include ([<"])([^>"]+)[>"]', file.read_text(), re.M):
                seen += 1
                if kind == "<":
                    library = next((named for prefix, named in LIBRARIES.items() if name.startswith(prefix)), "")
                    allowed = not library or library in rules[home]
                    what = library
                else:
                    found = [
                        base / name
                        for base in (file.parent, root / "src", root / "python/src", root / "io", root / "tools/bearing")
                        if (base / name).exists()
                    ]
                    what = owner(found[0].resolve().relative_to(root.resolve()).as_posix()) if found else name
                    allowed = bool(found) and (what == home or what in rules[home])
                if not allowed:
                    wrong += 1
                    print(f"{place} includes {name}: ARCHITECTURE.md does not let {home} include {what}")
    if seen < 1000:
        print(f"only {seen} includes were read: the test looks in the wrong place")
    return int(wrong > 0 or seen < 1000)


if __name__ == "__main__":
    sys.exit(main())
