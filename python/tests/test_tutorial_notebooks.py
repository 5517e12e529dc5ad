"""The tutorial as notebooks: they run, show what the pages show, and their exercises can be failed and solved."""

from __future__ import annotations

import html
import re
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


def test_a_plot_of_a_page_is_a_call() -> None:
    call = notebooks.picture(
        "heatmap nope @m.json --what rows --dims 0,2 --no-causal --dim 4 --background none -o a.svg"
    )
    assert call == 'bearing.figure("heatmap", "nope", "@m.json", what="rows", dims=[0, 2], causal=False, dim=4)'


def test_notebooks_of_a_page_are_the_same_at_every_run(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in notebooks.write(tmp_path)]
    assert first == [path.read_bytes() for path in notebooks.write(tmp_path)]
    assert all(b'"outputs": []' in text and b"```text" not in text for text in first)
