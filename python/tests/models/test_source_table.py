"""The reader's table against the source of transformers: every type is read as its code says, named or refused."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
import source_table
import source_verdicts


@pytest.fixture(scope="module")
def rows():
    return source_verdicts.rows(source_table.package())


@pytest.fixture(scope="module")
def verdicts(rows):
    found = {row["type"]: source_verdicts.verdict(row) for row in rows}
    counts = collections.Counter(kind for kind, _ in found.values())
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())), "of", len(found))
    return found


def test_no_type_is_read_wrongly(verdicts):
    wrong = {name: why for name, (kind, why) in verdicts.items() if kind == "wrong"}
    assert wrong == {}


def test_every_type_is_covered(verdicts):
    assert {name: why for name, (kind, why) in verdicts.items() if kind == "unknown"} == {}


def test_every_type_of_the_package_is_in_the_table(rows):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    assert {row["type"] for row in rows} == set(CONFIG_MAPPING.keys())


def test_rotations_are_told_by_their_form():
    def pairing(text, name="rotate_half"):
        node = source_table.ast.parse(f"def {name}(x, cos):\n    {text}").body[0]
        return source_table.pairings([source_table.Definition(node)])

    assert pairing("return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)") == ["half"]
    assert pairing("x1, x2 = torch.chunk(x, 2, dim=-1)") == ["half"]
    assert pairing("x1, x2 = x[..., ::2], x[..., 1::2]") == ["interleaved"]
    assert pairing("return torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))", "apply_rotary_emb") == [
        "interleaved"
    ]
    # Cosines that are halved tell nothing of the row.
    assert pairing("cos = cos[..., : cos.shape[-1] // 2]", "apply_rotary_pos_emb") == []


def test_the_script_prints_the_same_lines_each_time(rows):
    script = Path(__file__).parents[3] / "scripts/model_types"
    ran = subprocess.run([script, source_table.package()], capture_output=True, text=True, check=True)
    printed = [json.loads(line) for line in ran.stdout.splitlines()]
    assert printed == json.loads(json.dumps(rows))
