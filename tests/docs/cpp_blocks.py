"""Compiles the C++ of the pages: cpp_blocks.py COMPILER FLAG … (run in the repository's root).

Every ```cpp block of README.md, docs/encodings/ and docs/guide/ is put into a function of its own, after the declarations
of tests/docs/given.inc, and all of them are read as one source by COMPILER -fsyntax-only. A comment of the page just
before a block, which a reader does not see, may say more:

    <!-- given: View<double, 4> q; -->      declarations of this block alone
    <!-- not compiled: why -->              it is left out; LEFT_OUT is their number, so that none is added unseen
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = 0
LEAST = 45  # blocks in the pages: a pattern that finds none would pass otherwise
BLOCK = re.compile(r"(?:<!-- (given|not compiled): (.*?) -->\n)?^```cpp\n(.*?)^```$", re.M | re.S)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/encodings/*.md")), *sorted(ROOT.glob("docs/guide/*.md"))]


def main(command: list[str]) -> int:
    source, included, number, left_out = [], {"#include <bearing/bearing.hpp>", "#include <bearing/io.hpp>"}, 0, 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        found = list(BLOCK.finditer(text))
        if len(found) != text.count("\n```cpp\n"):
            sys.exit(f"{page}: {text.count('```cpp')} blocks begin, {len(found)} were found")
        for block in found:
            if block[1] == "not compiled":
                left_out += 1
                continue
            number += 1
            line = text.count("\n", 0, block.start(3)) + 1
            included |= {code for code in block[3].splitlines() if code.startswith("#include")}
            body = re.sub(r"^#include.*$", "", block[3], flags=re.M)
            marked = f'#line {line} "{page.relative_to(ROOT)}"\n{body}'
            given = block[2] or ""
            if body.startswith("template"):  # a function cannot hold one
                source.append(f"namespace block{number} {{\nusing namespace bearing;\n{given}\n{marked}\n}}")
            else:
                source.append(f'void block{number}() {{\n#include "given.inc"\n{{ {given}\n{{\n{marked}\n}} }} }}')
    if number < LEAST or left_out != LEFT_OUT:
        sys.exit(f"{number} blocks, {left_out} left out; must be at least {LEAST}, and {LEFT_OUT}")
    code = "\n".join([*sorted(included), "#include <cstdint>\n#include <numbers>\n#include <vector>", *source, ""])
    flags = [
        "-std=c++20",
        "-fsyntax-only",
        "-w",
        "-x",
        "c++",
        "-I",
        str(ROOT / "include"),
        "-I",
        str(ROOT / "tests/docs"),
    ]
    done = subprocess.run([*command, *flags, "-"], input=code, text=True, cwd=ROOT, check=False)
    print(f"{number} blocks")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
