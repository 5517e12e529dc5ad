"""Every library that a build contains or calls stands in THIRD-PARTY.md, with its notice.

Usage: notices_test.py ROOT
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
# What CMake looks for, and what THIRD-PARTY.md calls it. Those without a name are tools, or in tests alone.
NAMES = {
    "Boost": "Boost",
    "CLI11": "CLI11",
    "GTest": "",
    "Python": "",
    "RapidJSON": "RapidJSON",
    "TBB": "oneTBB",
    "fmt": "{fmt}",
    "hwy": "Highway",
    "nanobind": "nanobind",
}
# What these bring along, or what is found in another way.
BROUGHT = ("robin_map", "XLA")


def main() -> int:
    places = [root / "CMakeLists.txt", *(file for top in ("cmake", "src", "io", "tools", "python", "examples") for file in (root / top).rglob("*")
              if file.suffix == ".cmake" or file.name == "CMakeLists.txt")]
    found = {name for file in places for name in re.findall(r"^\s*find_package\((\w+)", file.read_text(), re.M)}
    text = (root / "THIRD-PARTY.md").read_text()
    heads = {name for line in re.findall(r"^## (.*)", text, re.M) for name in line.split(", ")}
    wrong = [f"notices_test.py must know what {name} is called" for name in sorted(found - set(NAMES))]
    for name in (*filter(None, (NAMES.get(name) for name in sorted(found))), *BROUGHT):
        if name not in heads:
            wrong.append(f"THIRD-PARTY.md must have the notice of {name}, under a heading of that name")
        if f"\n| {name}" not in text:
            wrong.append(f"THIRD-PARTY.md must have a line of its table for {name}")
    # It goes where the libraries go.
    for file, line in (("cmake/BearingInstall.cmake", "THIRD-PARTY.md DESTINATION"), ("pyproject.toml", 'license-files = ["LICENSE", "THIRD-PARTY.md"]')):
        if line not in (root / file).read_text():
            wrong.append(f"{file} must have {line}")
    print("\n".join(wrong))
    return int(bool(wrong) or len(found) < 7)


if __name__ == "__main__":
    sys.exit(main())
