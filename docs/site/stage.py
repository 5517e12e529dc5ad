"""Lays out the site's sources: stage.py WORK PACKAGE. WORK has Doxygen's xml/, PACKAGE the folder bearing/ with its stubs.

Writes WORK/stage, which Sphinx reads, and WORK/extra, what is copied as it is: the explorer and the notebooks, if they are built.
"""

import shutil
import sys
from pathlib import Path

import navigation
from pages import Stage
from reference import Reference

ROOT = Path(__file__).resolve().parents[2]


def extras(extra: Path) -> str:
    """Copies what other scripts built, and gives the lines of the index that link it."""
    shutil.rmtree(extra, ignore_errors=True)
    extra.mkdir(parents=True)
    lines = []
    if (ROOT / "build/explorer/index.html").exists():
        shutil.copytree(ROOT / "build/explorer", extra / "explorer")
        lines.append('<p><a href="explorer/index.html">Explorer: every encoding, to play with</a></p>')
    notebooks = sorted((ROOT / "build/notebooks").glob("*.ipynb"))
    if notebooks:
        (extra / "notebooks").mkdir()
        for notebook in notebooks:
            shutil.copy(notebook, extra / "notebooks")
        items = "".join(f'<li><a href="notebooks/{one.name}" download>{one.stem}</a></li>' for one in notebooks)
        lines.append(f"<p>The tutorial as notebooks:</p><ul>{items}</ul>")
    return "\n\n" + "\n\n".join(lines) + "\n" if lines else ""


def main(work: Path, package: Path) -> None:
    stage = Stage(ROOT, work / "stage")
    stage.copy_pictures()
    api = Reference(ROOT, work / "xml", package).write(stage)
    navigation.write(stage, api, extras(work / "extra"))
    stage.remove_others()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
