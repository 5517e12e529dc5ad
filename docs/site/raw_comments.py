"""Doxygen's filter: raw_comments.py HEADER prints the header with the text of every /// marked as verbatim.

The comments are plain text with formulas, in which Doxygen would take a * or a _ for its own marks. Every line stays in its
place, so that locations are those of the header.
"""

import re
import sys
from pathlib import Path

ABOVE = re.compile(r"^(\s*///)(?![</]) ?(.*)$")
BESIDE = re.compile(r"^(.*?///<) ?(.*)$")


def marked(lines: list[str]) -> list[str]:
    out, run, pattern = list(lines), [], ABOVE

    def close() -> None:
        if run:
            first, last = run[0], run[-1]
            begin = pattern.match(out[first])
            out[first] = f"{begin[1]} \\verbatim {begin[2]}"
            out[last] += " \\endverbatim"
            run.clear()

    for number, line in enumerate(lines):
        above, beside = ABOVE.match(line), BESIDE.match(line)
        continues = (pattern is ABOVE and above) or (pattern is BESIDE and beside and not beside[1][:-4].strip())
        if run and not continues:
            close()
        if above or beside:
            pattern = ABOVE if above else BESIDE
            run.append(number)
    close()
    return out


if __name__ == "__main__":
    print("\n".join(marked(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())))
