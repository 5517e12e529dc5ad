"""Writes a program of the C++ of the pages: cpp_blocks.py FILE.

Every ```cpp block of the pages becomes a function, after the declarations of tests/docs/given.inc; the program calls
one after the other and fails if one throws. A comment of the page just before a block, which a reader does not see,
may say more:

    <!-- given: auto q = numbers<double>(2, 8, 16, 64); -->     declarations of this block alone
    <!-- not compiled: why -->              it is left out; LEFT_OUT is their number, so that none is added unseen
"""

import re
import sys
from pathlib import Path

from page_parts import ROOT, Block, blocks, pages

LEFT_OUT = 0
LEAST = 45  # blocks in the pages: a pattern that finds none would pass otherwise
MAIN = """
#include <exception>
#include <iostream>
int main() {
  int failed = 0;
  const auto run = [&](const char* where, void (*block)()) {
    try {
      block();
    } catch (const std::exception& error) {
      std::cout << where << ": " << error.what() << '\\n';
      ++failed;
    }
    given::kept.clear();
  };
%s
  std::cout << "%d blocks, " << failed << " failed\\n";
  return failed == 0 ? 0 : 1;
}
"""


def function(number: int, block: Block) -> str:
    body = re.sub(r"^#include.*$|^using namespace bearing;$", "", block.text, flags=re.M)
    marked = f'#line {block.line} "{block.page.relative_to(ROOT)}"\n{body}'
    if body.lstrip().startswith("template"):  # a function cannot hold one
        return f"namespace block{number} {{\nusing namespace bearing;\n{block.said}\n{marked}\n}}\nvoid run{number}() {{}}"
    return f'void run{number}() {{\n#include "given.inc"\n{{ {block.said}\n{{\n{marked}\n}} }} }}'


def main(out: str) -> None:
    # bearing.hpp includes a new encoding's header only after scripts/docs, which comes after a build.
    encodings = [f"encodings/{header.name}" for header in (ROOT / "include/bearing/encodings").glob("*.hpp")]
    included = {f"#include <bearing/{header}>" for header in ["bearing.hpp", "io.hpp", *encodings]}
    found, left_out = [], 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        here = [block for block in blocks(page) if block.kind == "cpp"]
        if len(here) != text.count("\n```cpp\n"):
            sys.exit(f"{page}: {text.count('```cpp')} blocks begin, {len(here)} were found")
        left_out += sum(block.comment == "not compiled" for block in here)
        found += [block for block in here if block.comment != "not compiled"]
    if len(found) < LEAST or left_out != LEFT_OUT:
        sys.exit(f"{len(found)} blocks, {left_out} left out; must be at least {LEAST}, and {LEFT_OUT}")
    for block in found:
        included |= {line for line in block.text.splitlines() if line.startswith("#include")}
    head = [*sorted(included), "#include <cstdint>", "#include <numbers>", "#include <vector>", '#include "given.hpp"']
    calls = [
        f'  run("{block.page.relative_to(ROOT)}:{block.line}", run{number});' for number, block in enumerate(found)
    ]
    functions = [function(number, block) for number, block in enumerate(found)]
    Path(out).write_text("\n".join([*head, *functions, MAIN % ("\n".join(calls), len(found))]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
