"""The chapters of this folder as Jupyter notebooks: notebooks.py [DIR].

A ```python block becomes a cell of code, a picture the line that draws it, all else text. Outputs are left out: they come
from running. An answer is a cell that is folded in, and so are words within <details>.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(\n^```text\n.*?^```\n)?"
    r"|^<!-- bearing plot (?P<plot>[^\n]*?) -->\n.*?^<!-- end -->\n",
    re.M | re.S,
)
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<rest>#[^)]*)?\)")
LISTS = ("dims", "positions", "packed")  # options that bearing.figure() takes as lists


def chapters() -> list[Path]:
    return sorted(HERE.glob("[0-9][0-9]-*.md"))


def picture(arguments: str) -> str:
    """`curves sinusoidal --dims 0,2 -o FILE` as the call of bearing.figure()."""
    names, options = [], {}
    words = iter(shlex.split(arguments))
    for word in words:
        if word in ("-o", "--background", "--width"):
            next(words)
        elif word in ("--causal", "--no-causal"):
            options["causal"] = str(word == "--causal")
        elif word.startswith("--"):
            name = word[2:].replace("-", "_")
            options[name] = value(name, next(words))
        else:
            names.append(quoted(word))
    return f"bearing.figure({', '.join(names + [f'{name}={value}' for name, value in options.items()])})"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def value(option: str, text: str) -> str:
    if option in LISTS:
        return "[" + ", ".join(text.split(",")) + "]"
    return text if re.fullmatch(r"\d+", text) else quoted(text)


def linked(text: str, folder: Path) -> str:
    """Text whose links lead from the notebooks' folder to chapters beside them and to files of the repository."""

    def moved(link: re.Match[str]) -> str:
        path = HERE / link["path"]
        if path in chapters():
            return f"]({path.stem}.ipynb)"
        return f"]({Path(os.path.relpath(path, folder)).as_posix()}{link['rest'] or ''})"

    return LINK.sub(moved, text)


def split(page: str) -> Iterator[tuple[str, str]]:
    """('text' or 'code', source) in the order of the page."""
    end = 0
    for part in PARTS.finditer(page):
        yield "text", page[end : part.start()]
        yield "code", part["code"] or picture(part["plot"])
        end = part.end()
    yield "text", page[end:]


def folded(text: str, inside: bool) -> tuple[str, bool]:
    """Text of a page in which what stands within <details> stays folded in, and whether its end is inside. A cell of code
    may follow before </details>, so each piece of text has marks of its own, and the title stands outside."""
    parts = []
    for part in re.split(r"(</?details>\n)", text):
        if part in ("<details>\n", "</details>\n"):
            inside = part == "<details>\n"
            continue
        if inside and (title := re.match(r"\s*<summary>(.*)</summary>\n", part)):
            parts.append(f"### {title[1]}\n\n")
            part = part[title.end() :]
        if inside and part.strip():
            part = f"<details>\n<summary>The answer in words</summary>\n\n{part.strip()}\n\n</details>\n\n"
        parts.append(part)
    return "".join(parts), inside


def from_root(folder: Path) -> str:
    """What stands before the first code of a chapter that reads files of the repository."""
    up = Path(os.path.relpath(ROOT, folder)).as_posix()
    return f'import os\n\nif not os.path.isdir("examples/models"):  # paths are those of the repository\n    os.chdir("{up}")'


def notebook(page: Path, folder: Path) -> nbformat.NotebookNode:
    """A chapter as a notebook that lies in the folder."""
    cells, answer = [], False
    text = page.read_text(encoding="utf-8")
    if any(kind == "code" and "examples/" in source for kind, source in split(text)):
        cells.append(new_code_cell(from_root(folder)))
    for kind, source in split(text):
        if kind == "text":
            source, answer = folded(source, answer)
            if source.strip():
                cells.append(new_markdown_cell(linked(source.strip(), folder)))
        else:
            hidden = {"jupyter": {"source_hidden": True}, "tags": ["answer"]} if answer else {}
            cells.append(new_code_cell(source.strip(), metadata=hidden))
    for number, cell in enumerate(cells):
        cell["id"] = f"{page.stem}-{number}"  # the same at every run
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def write(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in chapters():
        made = notebook(page, folder.resolve())
        nbformat.validate(made)
        written.append(folder / f"{page.stem}.ipynb")
        written[-1].write_text(nbformat.writes(made), encoding="utf-8")
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the tutorial as Jupyter notebooks.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/notebooks", metavar="DIR")
    for path in write(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
