"""The tutorial as notebooks: they run, show what the pages show, and their exercises can be failed and solved."""

from __future__ import annotations

import functools
import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))
sys.path.append(str(ROOT / "docs/tutorial"))
import notebooks  # noqa: E402
from page_parts import blocks, generated  # noqa: E402

CHAPTERS = notebooks.chapters()


def run(page: Path, folder: Path) -> Any:
    notebook = nbformat.reads(nbformat.writes(notebooks.notebook(page, folder)), as_version=4)
    return NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(folder)}}).execute()


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_notebook_prints_and_draws_what_its_page_shows(page: Path, tmp_path: Path) -> None:
    shown = outputs(run(page, tmp_path))
    printed = "".join(output.text for output in shown if output.output_type == "stream" and output.name == "stdout")
    assert printed == "".join(block.output or "" for block in blocks(page) if block.kind == "python")
    pictures = [output.data["text/html"] for output in shown if output.output_type == "execute_result"]
    described = [re.search(r"!\[(.*)\]\(", part, re.M) for _, part in generated(page)]
    assert len(pictures) == len(described) > 0
    for picture, text in zip(pictures, described):
        words = re.search(r'alt="([^"]*)"', picture)
        assert words and text
        assert html.unescape(words[1]).endswith(re.sub(r"\\([][\\`*_<])", r"\1", text[1]))
    assert {output.output_type for output in shown} == {"stream", "execute_result"}
    assert not [output.text for output in shown if output.output_type == "stream" and output.name == "stderr"]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_an_exercise_is_failed_as_it_stands_and_passed_by_its_answer(page: Path) -> None:
    said = [block.output for block in blocks(page) if block.kind == "python" and "print(check(" in block.text]
    assert len(said) == 2, "a chapter must have one exercise with one answer"
    assert said[0] is not None and said[0].startswith("Not yet: ")
    assert said[1] is not None and said[1].startswith("Right")


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_nothing_of_an_answer_stands_open(page: Path, tmp_path: Path) -> None:
    cells = notebooks.notebook(page, tmp_path).cells
    first = next(n for n, cell in enumerate(cells) if cell.source.startswith("### Answer"))
    last = next(
        n for n, cell in enumerate(cells) if n > first and re.search(r"^(Next:|## Where to go)", cell.source, re.M)
    )
    assert any("answer" in cell.metadata.get("tags", ()) for cell in cells[first : last + 1])
    for cell in cells[first : last + 1]:
        if cell.cell_type == "code":
            assert cell.metadata.get("tags") == ["answer"]
        else:
            open_ = re.sub(r"<details>\n<summary>.*?</details>", "", cell.source, flags=re.S)
            open_ = re.split(r"^(?:Next:|## Where to go)", open_, flags=re.M)[0]
            assert open_.strip() in ("### Answer", "")


WRONG = [  # of a chapter, what a learner may write, and a part of what the check says to it
    ("01", "lambda layer, x: np.allclose(layer(x[::-1]), layer(x))", "for attention it must return True"),
    ("01", "lambda layer, x: True", "with a causal mask it must return False"),
    ("01", "lambda layer, x: np.isclose(layer(x[::-1]), layer(x)[::-1])", "it must return True or False"),
    ("02", "lambda rows: len(rows) - 2", "the worst step is at 6, and it said 8"),
    ("03", "lambda row, k: later(row, -k)", "Look at the signs"),
    ("03", "lambda row, k: row", "off by up to"),
    ("04", "lambda q, table, c: shaw_scores(q, table[::-1], c)", "Shaw counts key minus query"),
    ("04", "lambda q, table, c: q @ table.T", "must have shape (6, 6)"),
    ("05", "lambda x, p: turned(x, -p)", "the other way round"),
    ("05", "lambda x, p: bearing.apply_rope(x, p, pairing='half')", "Pair neighbours"),
    ("05", "lambda x, p: bearing.apply_rope(x, p, base=100)", "other speeds"),
    ("05", "lambda x, p: x + p", "keeps the length"),
    ("05", "lambda x, p: turned(x, p * p)", "the score of places 9 and 4"),
    ("06", "lambda heads: [2.0 ** (-8 * h / heads) for h in range(heads)]", "h counts from 1"),
    ("06", "lambda heads: [2.0 ** (-8 * h / heads) for h in range(1, heads + 1)]", "of 12 heads, slope 1"),
    ("06", "lambda heads: (2.0 ** (-8 * h / heads) for h in range(1, heads + 1))", "it must return a list of numbers"),
    ("07", "lambda s, z, q, k, v: step(s, z, q, k, v)[2]", "return three things"),
    ("07", "lambda s, z, q, k, v: step(s, z, q, k, v)[::-1]", "in this order"),
    ("07", "lambda s, z, q, k, v: (*step(s, z, q, k, v)[:2], v)", "word 1 is off"),
    ("08", "lambda b, s, d: b * s", "slowed by 3.830"),
    ("08", "lambda b, s, d: 0", "must return a number above 0, and returned 0"),
    ("08", "lambda b, s, d: float('nan')", "must return a number above 0"),
    ("08", "lambda b, s, d: [b]", "must return a number above 0"),
    ("09", "lambda *sizes: window(*sizes)[::-1]", "y comes first"),
    ("09", "lambda top, left, height, width: window(0, 0, height, width)", "every y is 10 more"),
    ("10", "lambda path: bearing.read_hf_config(path).context_length", "llama-3.1-8b reaches 65,536"),
    ("10", "lambda path: float('inf')", "must return one finite number"),
]


@pytest.mark.parametrize(("chapter", "answer", "said"), WRONG, ids=lambda text: text if len(text) == 2 else "")
def test_a_wrong_answer_is_told_what_is_wrong(
    chapter: str, answer: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    check, names = solved(chapter)
    told = check(eval(answer, names))
    assert told.startswith("Not yet: ") and said in told


@functools.cache
def solved(chapter: str) -> tuple[Any, dict[str, Any]]:
    """A chapter's check, and its names after all of its blocks."""
    names: dict[str, Any] = {"__name__": "page"}
    page = next(page for page in CHAPTERS if page.name.startswith(chapter))
    for block in blocks(page):
        if block.kind == "python":
            exec(compile(block.text, str(page), "exec"), names)
    return names["check"], names


def test_every_chapter_is_answered_wrongly_too() -> None:
    assert {page.name[:2] for page in CHAPTERS} == {chapter for chapter, _, _ in WRONG}


def test_a_notebook_that_fails_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "broken.md"
    page.write_text("# Broken\n\n```python\nprint(1 / 0)\n```\n")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(page, tmp_path)


def test_links_of_a_notebook_lead_somewhere(tmp_path: Path) -> None:
    written = {path.name for path in notebooks.write(tmp_path)}
    assert len(written) == len(CHAPTERS) >= 10
    for path in tmp_path.glob("*.ipynb"):
        for link in notebooks.LINK.finditer(path.read_text(encoding="utf-8")):
            assert link["path"] in written or (tmp_path / link["path"]).exists(), f"{path.name}: {link['path']}"


def test_the_script_writes_all_chapters_and_says_what_it_lacks(tmp_path: Path) -> None:
    script, folder = str(ROOT / "scripts/notebooks"), tmp_path / "some" / "where"
    environment = {**os.environ, "BEARING_PYTHON": sys.executable}
    done = subprocess.run([script, str(folder)], env=environment, capture_output=True, text=True, check=True)
    assert [Path(line) for line in done.stdout.splitlines()] == [folder / f"{page.stem}.ipynb" for page in CHAPTERS]
    none = subprocess.run([script], env={**environment, "BEARING_PYTHON": "false"}, capture_output=True, text=True)
    assert none.returncode == 1 and "false must have the package nbformat" in none.stderr


def test_a_plot_of_a_page_is_a_call() -> None:
    call = notebooks.picture(
        "heatmap nope @m.json --what rows --dims 0,2 --no-causal --dim 4 --background none -o a.svg"
    )
    assert call == 'bearing.figure("heatmap", "nope", "@m.json", what="rows", dims=[0, 2], causal=False, dim=4)'


def test_notebooks_of_a_page_are_the_same_at_every_run(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in notebooks.write(tmp_path)]
    assert first == [path.read_bytes() for path in notebooks.write(tmp_path)]
    assert all(b'"outputs": []' in text and b"```text" not in text for text in first)
