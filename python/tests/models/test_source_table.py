"""The reader's table against the source of transformers: every type is read as its code says, named, refused, or listed here."""

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

LIST = Path(__file__).with_name("not_covered.tsv")
UNSEEN = Path(__file__).with_name("seen_otherwise.tsv")


@pytest.fixture(scope="module")
def rows():
    return source_verdicts.rows(source_table.package())


@pytest.fixture(scope="module")
def verdicts(rows):
    found = {row["type"]: source_verdicts.verdict(row) for row in rows}
    counts = collections.Counter(kind for kind, _ in found.values())
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())), "of", len(found))
    return found


def listed(file=LIST):
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(len(line) == 2 and line[1] for line in lines)
    assert [line[0] for line in lines] == sorted({line[0] for line in lines})
    return dict(lines)


def test_no_type_is_read_wrongly(verdicts):
    wrong = {name: why for name, (kind, why) in verdicts.items() if kind == "wrong"}
    assert wrong == {}


def test_what_is_not_covered_stands_in_the_list_and_nothing_else(verdicts):
    unknown = {name for name, (kind, _) in verdicts.items() if kind == "unknown"}
    assert unknown - set(listed()) == set(), "new: read them, name them, or list them with a reason"
    assert set(listed()) - unknown == set(), "covered or gone: take them off the list"


def test_where_the_table_sees_nothing_and_the_reader_something_is_listed(verdicts):
    assert listed(UNSEEN) == {name: why for name, (kind, why) in verdicts.items() if kind == "unseen"}


def test_every_type_of_the_package_is_in_the_table(rows):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    assert {row["type"] for row in rows} == set(CONFIG_MAPPING.keys())


def test_every_text_model_is_covered(verdicts):
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    # Decoders of what is heard or seen, which their composite's file describes.
    assert {name for name in CAUSAL if verdicts.get(name, ("gone", ""))[0] == "unknown"} <= set(listed())
    covered = [name for name in CAUSAL if verdicts.get(name, ("unknown", ""))[0] not in ("unknown", "wrong")]
    assert len(covered) / len(CAUSAL) > 0.9, f"{len(covered)} of {len(CAUSAL)}"


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
