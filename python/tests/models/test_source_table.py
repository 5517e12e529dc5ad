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


TASKS = {
    "causal": "CAUSAL_LM",
    "images and text": "IMAGE_TEXT_TO_TEXT",
    "masked": "MASKED_LM",
    "sequence to sequence": "SEQ_TO_SEQ_CAUSAL_LM",
    "speech to text": "SPEECH_SEQ_2_SEQ",
}
# How the page calls the verdicts.
SAID = {"read": "read", "composite": "parts", "none": "no positions", "named": "named", "refused": "refused"}


def test_the_page_has_the_count_of_each_task(verdicts):
    from transformers.models.auto import modeling_auto

    page = (Path(__file__).parents[3] / "docs/guide/model-files.md").read_text(encoding="utf-8")
    section = page.split("### By task\n", 1)[1].split("\n#", 1)[0]
    header, _, *lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = lambda line: [cell.strip() for cell in line.strip("|").split("|")]
    said = {name: dict(zip(cells(header)[1:], map(int, rest), strict=True)) for name, *rest in map(cells, lines)}
    counted = {}
    for name, task in TASKS.items():
        types = set(getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES"))
        kinds = collections.Counter(SAID[verdicts[one][0]] for one in types)
        counted[name] = {"types": len(types)} | {kind: kinds[kind] for kind in SAID.values()}
    assert said == counted


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


def test_the_script_prints_a_line_of_each_type(rows):
    """Those of all types take half a minute, and ``rows`` has them."""
    types = ["qwen2_vl", "bert", "t5", "deepseek_v3"]
    script = [Path(__file__).parents[3] / "scripts/model_types", source_table.package()]
    ran = subprocess.run([*script, *types], capture_output=True, text=True, check=True)
    printed = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["type"] for row in printed] == sorted(types)
    assert printed == json.loads(json.dumps([row for row in rows if row["type"] in types]))
    ran = subprocess.run([*script, "bert", "no_such_model"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.endswith("got no_such_model\n")
