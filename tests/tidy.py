#!/usr/bin/env python3
"""tidy.py BUILD JOBS FILE...: clang-tidy over sources, in bunches, as the build in the folder BUILD compiles them.

Most of clang-tidy's time goes into the headers that a source includes. So sources with the same options are read as
one; where two of them use a name for different things, their bunch is cut in halves until it compiles.
Prints what clang-tidy finds. The exit status is 0 if and only if it finds nothing.
"""

import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

LARGEST = 24


def options(entry):
    """What the source was compiled with, except its name, its result, precompiled headers, and what only concerns warnings."""
    words = iter(shlex.split(entry["command"]))
    next(words)
    for word in words:
        if word in ("-o", "-c", "-Xclang"):
            next(words)
        elif not word.startswith("-W") or word.startswith("-Wno-"):
            yield word


def entries(build):
    """What the build says of each source that it compiles."""
    return {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}


def with_options(build, files):
    """(options, source) for each of the files."""
    known = entries(build)
    for name in files:
        path = str(Path(name).resolve())
        if path not in known:
            sys.exit(f"{Path(sys.argv[0]).name}: {name} must be a source of the build in {build}, which does not compile it")
        yield tuple(options(known[path])), path


def bunches(build, files):
    """Lists of sources that share their options, with these options."""
    for words, group in groupby(sorted(with_options(build, files)), key=lambda item: item[0]):
        paths = [path for _, path in group]
        for begin in range(0, len(paths), LARGEST):
            yield paths[begin : begin + LARGEST], words


def read(work, bunch, words):
    """What clang-tidy says of the sources; nothing if they are clean."""
    if len(bunch) == 1:
        source = bunch[0]
    else:
        source = str(work / ("+".join(Path(path).stem for path in bunch)[:200] + ".cc"))
        Path(source).write_text("".join(f'#include "{path}"\n' for path in bunch))
    run = subprocess.run(["clang-tidy-14", "--quiet", "--warnings-as-errors=*", "--checks=-bugprone-suspicious-include", source,
                          "--", *words], capture_output=True, text=True, cwd=work)
    if run.returncode == 0:
        return ""
    if len(bunch) > 1 and "[clang-diagnostic-error" in run.stdout:
        middle = len(bunch) // 2
        return read(work, bunch[:middle], words) + read(work, bunch[middle:], words)
    return run.stdout or run.stderr or f"clang-tidy ended with {run.returncode} on {source}\n"


def main():
    build, jobs, files = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:]
    if not files:
        sys.exit("tidy.py: no source was given")
    work = build / "tidy"
    work.mkdir(exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        found = "".join(pool.map(lambda pair: read(work, *pair), bunches(build, files)))
    print(found, end="")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
