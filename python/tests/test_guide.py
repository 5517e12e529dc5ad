"""The code of the guide and of the README runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: Path) -> str:
    """All Python of a page, one block after the other."""
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


@pytest.mark.parametrize("page", ["docs/guide/python.md", "README.md"])
def test_the_code_of_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = blocks(ROOT / page)
    assert "import bearing" in code
    monkeypatch.chdir(ROOT)
    exec(compile(code, page, "exec"), {"__name__": "guide"})
