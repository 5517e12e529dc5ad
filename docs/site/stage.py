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


def explorer(extra: Path) -> str:
    """Copies the explorer, if scripts/explorer built it, and gives the end of its page, which links it."""
    built = ROOT / "build/explorer/index.html"
    if not built.exists():
        return "\nThis build of the site is without it: run `scripts/explorer` before `scripts/site`.\n"
    (extra / "explorer").mkdir()
    shutil.copy(built, extra / "explorer/explorer.html")
    return '\n<p><a href="explorer.html">Open the explorer</a></p>\n'


def notebooks(extra: Path) -> str:
    """Copies the notebooks that scripts/notebooks built, and gives the end of the tutorial's index, which links them."""
    found = sorted((ROOT / "build/notebooks").glob("*.ipynb"))
    if not found:
        return ""
    (extra / "notebooks").mkdir()
    for notebook in found:
        shutil.copy(notebook, extra / "notebooks")
    items = "".join(f'<li><a href="../notebooks/{one.name}" download>{one.stem}</a></li>' for one in found)
    return f"\n## As notebooks\n\n<ul>{items}</ul>\n"


def main(work: Path, package: Path) -> None:
    stage, extra = Stage(ROOT, work / "stage"), work / "extra"
    shutil.rmtree(extra, ignore_errors=True)
    extra.mkdir(parents=True)
    stage.copy_pictures()
    api = Reference(ROOT, work / "xml", package).write(stage)
    navigation.write(stage, api, {"explorer/index": explorer(extra), "tutorial/index": notebooks(extra)})
    stage.remove_others()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
