"""The commands that pages show run and print what stands there: commands_test.py COMMAND.

In a ```console block each line that begins with `$ ` is a command for bash; it may go on after a `\\` at the end of a
line. What follows it, if anything does, is what it prints; a line `…` stands for any number of lines.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from page_parts import ROOT, Block, blocks, pages

COMMAND = Path(sys.argv.pop(1)).resolve()
LEAST = 45  # blocks in the pages: a pattern that finds none would pass otherwise
SEEN = ("examples", "docs", "README.md", "tests")


def steps(block: Block) -> list[tuple[str, str]]:
    """Commands with what each is said to print."""
    found: list[tuple[str, str]] = []
    goes_on = False
    for line in block.text.splitlines(keepends=True):
        if goes_on:
            found[-1] = (found[-1][0] + line, "")
        elif line.startswith("$ "):
            found.append((line[2:], ""))
        elif not found:
            raise ValueError(f"{block.page}:{block.line}: must begin with '$ ', got {line!r}")
        else:
            found[-1] = (found[-1][0], found[-1][1] + line)
            continue
        goes_on = line.endswith("\\\n")
    return found


def matches(said: str, printed: str) -> bool:
    lines = [".*" if line == "…\n" else re.escape(line) for line in said.splitlines(keepends=True)]
    return re.fullmatch("".join(lines), printed, re.S) is not None


def faults(block: Block) -> list[str]:
    """What is wrong in a block. Its commands share a folder."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name in SEEN:
            (Path(folder) / name).symlink_to(ROOT / name)
        (Path(folder) / ".bin").mkdir()
        (Path(folder) / ".bin" / "bearing").symlink_to(COMMAND)
        environment = {**os.environ, "PATH": f"{folder}/.bin:{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "80"}
        for command, said in steps(block):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
            )
            place = f"{block.page.relative_to(ROOT)}:{block.line}: {command.strip()}"
            if done.returncode != 0:
                wrong.append(f"{place}\nends with status {done.returncode}: {done.stderr}")
            elif said and not matches(said, done.stdout + done.stderr):
                wrong.append(f"{place}\nis said to print\n{said}but prints\n{done.stdout}{done.stderr}")
    return wrong


class Commands(unittest.TestCase):
    def test_commands_of_pages_run(self):
        found = [block for page in pages() for block in blocks(page) if block.kind == "console"]
        self.assertGreaterEqual(len(found), LEAST)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
            wrong = [fault for one in workers.map(faults, found) for fault in one]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_output_matches_line_by_line(self):
        self.assertTrue(matches("a\nb\n", "a\nb\n"))
        self.assertFalse(matches("a\nb\n", "a\nc\n"))
        self.assertTrue(matches("a\n…\nd\n", "a\nb\nc\nd\n"))
        self.assertTrue(matches("a\n…\n", "a\nb\nc\n"))
        self.assertFalse(matches("a\n…\nd\n", "a\nb\nc\n"))

    def test_a_block_has_commands_with_what_they_print(self):
        block = Block(ROOT / "README.md", "console", "$ one \\\n    two\nthree\n$ four\n", 1, "", "")
        self.assertEqual(steps(block), [("one \\\n    two\n", "three\n"), ("four\n", "")])


if __name__ == "__main__":
    unittest.main()
