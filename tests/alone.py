#!/usr/bin/env python3
"""alone.py BUILD OTHER JOBS FILE...: each source compiles by itself, as it must where sources are not compiled in bunches.

In a bunch a source that forgot a header of ours has it from the source before. Sources are compiled as the build in the
folder BUILD does it; those of the build in OTHER are left to that one. Names what does not compile, with the compiler's
first error. The exit status is 0 if and only if all do. Standard headers are precompiled, which takes two
thirds of the time: tests/names/headers_test.py sees one that is missing.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import tidy

STANDARD = """algorithm any array cmath cstdint cstring functional limits map memory numeric optional sstream stdexcept
string string_view tuple type_traits utility variant vector"""


def precompiled(words, file):
    """What compiles the standard headers into a file, or has them from there."""
    file.with_suffix(".hpp").write_text("".join(f"#include <{name}>\n" for name in STANDARD.split()))
    subprocess.run(["clang++-14", *words, "-w", "-x", "c++-header", file.with_suffix(".hpp"), "-o", file], check=True)
    return ["-Xclang", "-include-pch", "-Xclang", str(file)]


def error(words, source):
    """The compiler's first error; nothing if there is none."""
    run = subprocess.run(["clang++-14", "-fsyntax-only", "-w", *words, source], capture_output=True, text=True)
    if run.returncode == 0:
        return ""
    return next((line for line in run.stderr.splitlines() if "error:" in line), f"{source}: {run.stderr}") + "\n"


def main():
    build, other = (Path(name).resolve() for name in sys.argv[1:3])
    jobs, files = int(sys.argv[3]), sys.argv[4:]
    elsewhere = tidy.entries(other)
    sources = [(words, path) for words, path in tidy.with_options(build, files) if path not in elsewhere]
    if not sources:
        sys.exit("alone.py: no source was given that the other build leaves")
    with TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        headers = {words: precompiled(words, Path(folder) / f"{i}.pch") for i, words in enumerate({words for words, _ in sources})}
        found = "".join(pool.map(lambda pair: error([*pair[0], *headers[pair[0]]], pair[1]), sources))
    print(found, end="")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
