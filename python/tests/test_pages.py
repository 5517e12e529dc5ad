"""The Python of the pages runs as it stands and prints what the pages say."""

import contextlib
import io
import sys
from pathlib import Path

import bearing.torch as bt
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))
from page_parts import Block, blocks, pages  # noqa: E402

LEAST = 43  # pages with Python: all of the encodings', and some of the guide's


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.kind == "python"]


def run(block: Block, namespace: dict[str, object]) -> str:
    """What it prints."""
    if block.comment == "given":
        exec(block.said, namespace)
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


PAGES = [page for page in pages() if python_blocks(page)]


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_the_code_of_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in python_blocks(ROOT / page):
        assert block.comment in ("", "given"), f"{page}:{block.line}: Python is left out of no test"
        printed = run(block, namespace)
        assert printed == (block.output or ""), f"{page}:{block.line} prints another text than stands behind it"


def test_no_page_is_missed() -> None:
    assert len(PAGES) >= LEAST


def test_what_a_block_prints_is_what_stands_behind_it() -> None:
    shown = Block(ROOT / "README.md", "python", "print(number + 1)\n", 1, "given", "number = 1", "2\n")
    assert run(shown, {}) == shown.output


def test_the_interface_for_transformers_takes_the_positions_of_each_sequence() -> None:
    """Two sequences whose tokens stand in orders of their own."""
    (text,) = (b.text for b in python_blocks(ROOT / "docs/guide/context-parallel.md") if "def ring(" in b.text)
    page: dict[str, object] = {"bt": bt}
    exec(text[text.index("def ring(") : text.index("def no_mask(")], page)
    q, k, v = (torch.randn(2, 4, 9, 16) for _ in range(3))
    at = torch.stack([torch.arange(9), torch.arange(8, -1, -1)])
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        out, _ = page["ring"](None, q, k, v, None, position_ids=at)
    finally:
        torch.distributed.destroy_process_group()
    wanted = bt.attention(q, k, v, mask="causal", q_positions=at, k_positions=at)
    torch.testing.assert_close(out.transpose(1, 2), wanted)
