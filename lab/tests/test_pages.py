import json
import re
import shutil

import bearing
import pytest
from made_rows import encoders, extension, flat, images, row, seeds, tasks

from lab import compared, pages, tables
from lab.pages import BLOCKS, END, MARK, NONE, ROOT, Pages, write
from lab.papers import PAPERS
from lab.questions import CLAIMS, QUESTIONS
from lab.results import read
from lab.summary import groups
from lab.tasks import TASKS

NO_PAPERS = {"encoders", "images", "learned", "leaderboard"}
PAGES = sorted((ROOT / "docs/lab").glob("*.md"))


def some_rows():
    rows = seeds("rope", flat(4.0, 80.0)) + seeds("alibi", flat(4.0, 4.0)) + seeds("nope", flat(5.0, 6.0))
    rows += seeds("learned", {"1": 4.0}) + seeds("sinusoidal", flat(4.0, 9.0)) + seeds("t5_causal", flat(4.0, 90.0))
    rows += encoders()
    for by_task in (*tasks().values(), extension(), images()):
        rows += [one for runs in by_task for one in runs.rows]
    return rows


@pytest.fixture
def folder(tmp_path):
    """The pages of the repository, with rows that were made up."""
    shutil.copytree(ROOT / "docs/lab", tmp_path / "docs/lab")
    (tmp_path / "src/inspect").mkdir(parents=True)
    shutil.copy(ROOT / "src/inspect/trained.hpp", tmp_path / "src/inspect")
    lines = [json.dumps(one | {"key": str(number)}) for number, one in enumerate(some_rows())]
    (tmp_path / "docs/lab/results.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


# the pages that there are


def test_pages_are_what_the_rows_say():
    assert write(check=True) == 0, "scripts/lab --pages mends it"


def test_every_question_has_its_page_and_the_guide_links_it():
    guide = (ROOT / "docs/lab/README.md").read_text()
    names = {path.stem for path in PAGES} - {"README"}
    assert names <= set(QUESTIONS)
    for name in names:
        assert f"]({name}.md)" in guide
        assert (
            (ROOT / f"docs/lab/{name}.md")
            .read_text()
            .startswith(f"# {QUESTIONS[name].asks if name != 'leaderboard' else 'Leaderboard'}\n")
        )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_runs_and_a_figure_for_each_picture(path):
    text = path.read_text()
    assert NONE not in text
    for file in re.findall(r"bearing plot --figure (docs/lab/figures/\w+\.json)", text):
        assert (ROOT / file).exists()
    if path.stem in QUESTIONS:
        for block in ("answer", "limits", "settings", "command"):
            assert f"<!-- lab {block} {path.stem}" in text
        assert "-o docs/pictures/lab-" in text
        assert (path.stem in NO_PAPERS) == (f"<!-- lab papers {path.stem} -->" not in text)


def test_no_figure_is_shown_by_no_page():
    shown = set(re.findall(r"docs/lab/figures/(\w+)\.json", "".join(path.read_text() for path in PAGES)))
    assert {path.stem for path in (ROOT / "docs/lab/figures").glob("*.json")} == shown


def test_a_pages_numbers_stand_between_marks():
    # What is written by hand must not repeat a result, which would not follow the rows.
    for path in PAGES:
        text = re.sub(r"<!-- (?:lab|bearing) .*?<!-- end -->", "", path.read_text(), flags=re.S)
        assert " ± " not in text, path.name


# writing


def test_blocks_are_written_and_then_up_to_date(folder, capsys):
    assert write(check=True, root=folder) == 1
    assert "docs/lab/rope.md is stale" in capsys.readouterr().err
    assert write(root=folder) == 0
    assert "mended docs/lab/rope.md" in capsys.readouterr().out
    assert write(check=True, root=folder) == 0
    text = (folder / "docs/lab/rope.md").read_text()
    assert (
        "RoPE: perplexity 4.000 ± 0.099 at the trained length of 64 bytes, 80.0 ± 2.0 at 16 times that length" in text
    )
    assert "**No**, in these runs (models of 0.11 million parameters, 3 seeds)" in text
    for name in QUESTIONS:
        assert (folder / f"docs/lab/figures/{name}.json").exists()
    (folder / "docs/lab/rope.md").write_text(text.replace("80.0 ± 2.0", "80.1 ± 2.0"))
    assert write(check=True, root=folder) == 1


def test_a_row_that_changes_makes_the_page_stale(folder):
    write(root=folder)
    file = folder / "docs/lab/results.jsonl"
    rows = read(file)
    rows[0]["measures"]["16"]["perplexity"] *= 2
    file.write_text("\n".join(json.dumps(one) for one in rows))
    assert write(check=True, root=folder) == 1


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("<!-- lab answers rope -->", "must be one of answer, "),
        ("<!-- lab answer ropes -->", "the question must be one of alibi, "),
        ("<!-- lab  answer rope -->", "must be <!-- lab BLOCK QUESTION"),
    ],
)
def test_a_wrong_mark_is_said_with_its_line(folder, mark, says):
    path = folder / "docs/lab/rope.md"
    path.write_text(f"# Title\n\n{mark}\n{END}\n")
    with pytest.raises(ValueError, match=f"rope.md, line 3: {re.escape(says)}"):
        write(root=folder)
    path.write_text("# Title\n\n<!-- lab answer rope -->\n")
    with pytest.raises(ValueError, match=re.escape(f"rope.md: must have {END}")):
        write(root=folder)


def test_without_rows_a_block_says_so(tmp_path):
    assert Pages(tmp_path, []).block("answer", "rope", []) == NONE
    assert Pages(tmp_path, []).figure(QUESTIONS["rope"]) is None


def test_every_block_can_be_written(folder):
    made = Pages(folder, some_rows())
    for name in BLOCKS:
        for question in QUESTIONS:
            if (name == "ranking" and question != "leaderboard") or (name == "papers" and question in NO_PAPERS):
                continue
            assert made.block(name, question, ["1"] if "ranking" in name else []).strip()
    assert MARK.match("<!-- lab table tasks 1 -->").groups() == ("table", "tasks", " 1")


# what they say


def test_answers_begin_with_the_verdict():
    def answer(encoding, numbers):
        return tables.text_answer(groups(seeds(encoding, numbers)))

    assert answer("rope", flat(4.0, 80.0)).startswith("**No**, ")
    assert answer("alibi", flat(4.0, 4.0)).startswith("**Yes**, ")
    assert answer("fire", flat(4.0, 5.0)).startswith("**In part**, ")
    assert answer("learned", {"1": 4.0}).startswith("**No**, ")
    assert "cannot be asked: `no row past 64`." in answer("learned", {"1": 4.0})
    several = tables.text_answer(groups(seeds("rope", flat(4.0, 80.0)) + seeds("alibi", flat(4.0, 4.0))))
    assert several.endswith("1 of 2: does not extrapolate (RoPE); 1 of 2: extrapolates (ALiBi).")
    rows = [row("fire", seed, flat(4.0, last)) for seed, last in enumerate((4.0, 4.2, 4.4))]
    edge = tables.text_answer(groups(seeds("rope", flat(4.0, 80.0)) + rows))
    assert edge.endswith("The intervals of FIRE reach over a limit of the rule: more seeds could change those.")


def test_ties_are_said():
    other = [row("alibi", seed, flat(number, number)) for seed, number in enumerate((4.0, 3.99, 4.06))]
    runs = groups(seeds("rope", flat(4.0, 80.0)) + other + seeds("nope", flat(5.0, 6.0)))
    ranking = tables.ranking(runs, "1", "perplexity")
    assert [line.split(" | ")[0] for line in ranking.splitlines()[2:]] == ["| 1", "| 2=", "| 3"]
    nope = tables.nope_answer(runs[2], runs[:2])
    assert "worse than RoPE (4.000 ± 0.099) and worse than ALiBi" in nope
    assert nope.startswith("**It learns, but less**, ")
    assert "as well as, within the interval, ALiBi" in tables.nope_answer(runs[0], runs[1:])
    assert tables.nope_answer(runs[0], runs[1:]).startswith("**Yes**, ")
    nope, *others = groups(encoders(), question="encoders")
    assert tables.nope_answer(nope, others).startswith("**With 2 of 2 encodings an encoder learns more than without ")


def test_guessing_is_not_praised():
    by_task = {
        task: groups(seeds("rope", {"1": 0.95, "2": last}, "tasks", task=task))
        for task, last in (("parity", 0.5), ("summation", 0.3), ("copy", 0.3))
    }
    answer = tables.task_answer(by_task, "2")
    assert "**parity** is solved by none: none is known to do better than guessing, which gives 0.5 (" in answer
    for task in ("summation", "copy"):
        assert f"**{task}** is solved by none: the best is RoPE with 0.3000 ± 0.0075" in answer
    asked = tables.tasks_asked({name: [] for name in TASKS if TASKS[name].metric != "loss"})
    assert (
        "| parity | Say whether the ones of a list of bits are even in number. | `>0110\\|`. Asked, at the bar: `y` if the ones"
        " are even, `n` if they are odd | 0.5 |" in asked
    )


def test_images_count_what_is_known():
    """Stretched runs are the same at the trained side; one seed ties with all; who ties with NoPE may be guessing."""

    def of(encoding, numbers, method="none", count=3):
        return seeds(encoding, numbers, "images", task="direction", method=method)[:count]

    rows = of("rope_axial", {"1": 0.9, "2": 0.2}) + of("rope_axial", {"1": 0.9, "2": 0.8}, "stretched")
    rows += of("sinusoidal_2d", {"1": 0.9, "2": 0.7}) + of("sinusoidal_2d", {"1": 0.9, "2": 0.1}, "stretched")
    rows += (
        of("swin", {"1": 0.125}) + of("t5_axis", {"1": 0.8, "2": 0.5}) + of("lie_rope", {"1": 0.9, "2": 0.9}, count=1)
    )
    known = groups([*rows, *of("nope", {"1": 0.125, "2": 0.125})], compared.APART["images"])
    here, there, _, alone = compared.images_answer(known).splitlines()[2:]
    assert here.startswith(
        "- **Direction of a mark** at 1 times the trained side: RoPE on two axes and sinusoidal on two axes tie (0.900 ± "
    )
    assert "Not told from NoPE, which guesses: Swin's window table. " in here
    assert there.endswith("RoPE on two axes (stretched) is best (0.800 ± 0.020).")
    assert alone == "Runs of one seed tie with everything and are not counted: LieRE."
    assert "| T5 buckets, a bias for each axis | 0.800 ± 0.020 |" in compared.images_table(known)
    wide = [one | {"measures": {"2": dict.fromkeys(("accuracy", "exact"), number) | {"length": 16}}}
            for one, number in zip(of("rope_axial", {"2": 0.5}), (0.1, 0.2, 0.9), strict=True)]  # fmt: skip
    answer = compared.images_answer(groups(wide + of("nope", {"2": 0.1}), compared.APART["images"]))
    assert (
        "2 times the trained side: nothing is known to do better than NoPE, which guesses; the highest mean is"
        in answer
    )


def test_the_best_is_the_largest_where_that_is_better():
    by_task = tasks()
    assert [one.encoding for one, _ in tables.ranked(by_task["copy"], "16", "exact")] == ["nope", "rope"]
    assert "**copy** is solved by NoPE" in tables.task_answer(by_task, "16")
    none = {"copy": groups(seeds("rope", {"1": 0.95, "2": 0.0}, "tasks", task="copy"))}
    assert "none gets an input right; 1 of 1 solve it at the trained length" in tables.task_answer(none, "2")
    assert "| copy | none gets an input right |" in compared.task_rankings(none, "2")


def test_extension_says_who_ties_and_what_nothing_gives():
    answer = compared.extension_answer(extension())
    assert "- 16 times as long, without fine-tuning: YaRN (5.00 ± 0.12); as trained it is 80.0 ± 2.0." in answer
    assert "- 16 times as long, with fine-tuning: YaRN (4.000 ± 0.099)." in answer


def test_other_positions_in_training_have_their_own_table():
    other = groups(seeds("alibi", flat(3, 3), "extension", variant="random"), compared.APART["extension"])
    tables_ = compared.extension_tables([*extension(), *other])
    assert "| ALiBi | random | 3.000 ± 0.075 |" in tables_
    assert "| RoPE | whole | 4.000 ± 0.099 |" in tables_
    assert "random" not in compared.extension_answer([*extension(), *other])
    assert compared.variants_table(extension()) == ""


def test_settings_show_every_value():
    table = tables.settings_table(groups(seeds("rope", flat(4, 8)) + seeds("alibi", flat(4, 4))))
    assert "| `encoding` | rope, alibi |" in table
    assert "| `seed` | 0, 1, 2 |" in table
    assert "| runs | 6 |" in table


def test_papers_stand_beside_what_was_found():
    question = QUESTIONS["alibi"]
    (paper,) = [one for one in PAPERS if one.page == question.name]

    def found(last):
        (runs,) = groups(seeds("alibi", flat(4, last)))
        return tables.papers_table(question, lambda one: tables.found_here(one, {"alibi": runs}))

    same = found(4)
    assert f"[{paper.cite}](https://arxiv.org/abs/{paper.arxiv}) | {paper.setting}" in same
    assert "extrapolates, 1 ± 0 times in the last quarter: the same" in same
    assert "**not the same**" in found(80)
    (chen,) = [one for one in PAPERS if one.ways and one.ways[0] == ("linear", False)]
    here = compared.extension_here(chen, extension())
    assert here.startswith("position interpolation, without fine-tuning: 9.00 ± 0.22 at 2×, ")
    assert "; position interpolation, with fine-tuning: 8.00 ± 0.20 at 2×" in here


def test_who_is_ahead_of_whom_is_held_against_a_paper():
    def found(fire, kerple, alibi):
        runs = groups(
            seeds("fire", flat(4, fire)) + seeds("kerple_log", flat(4, kerple)) + seeds("alibi", flat(4, alibi))
        )
        (paper,) = [one for one in PAPERS if one.ahead_of]
        return tables.found_here(paper, {one.encoding: one for one in runs}).rsplit(": ", 1)[1]

    assert found(4, 8, 8) == "the same"
    assert found(8, 4, 4) == "**not the same**"
    assert found(6, 8, 4) == "**the same of some alone**"


def test_papers_are_of_pages():
    for paper in PAPERS:
        assert paper.page in QUESTIONS
        assert re.fullmatch(r"\d{4}\.\d{5}", paper.arxiv)
        assert paper.verdict in ("", "extrapolates", "partly", "does not extrapolate")


# the claims in bearing


def test_claims_get_their_sentence(folder):
    write(root=folder)
    text = (folder / "src/inspect/trained.hpp").read_text()
    assert "std::array<Trained, 4> trained" in text
    assert '{"alibi", "extrapolation excellent", "holds in our runs: ' in text
    assert (
        '{"rope", "extrapolation good", "fails in our runs: in the last quarter of the places the perplexity at 16 times the'
        " trained length is 20 +- 0 times that at the trained length (" in text
    )
    (t5,) = [line for line in text.splitlines() if '{"t5"' in line]  # which looks both ways: not t5_causal
    assert "holds in our runs: " in t5 and t5.endswith('"docs/lab/encoders.md"},')
    assert '{"sinusoidal", "extrapolation moderate", "fails in our runs: ' in text
    (folder / "docs/lab/results.jsonl").write_text("")
    for path in (folder / "docs/lab").glob("*.md"):
        path.unlink()
    write(root=folder)
    assert pages.EMPTY in (folder / "src/inspect/trained.hpp").read_text()


def test_claims_are_those_that_bearing_leaves_open():
    is_open = {
        (one.encoding, one.says) for one in bearing.claims() if one.holds == "n/a" and "extrapolation" in one.says
    }
    assert {(one.encoding, one.says) for one in CLAIMS} == is_open
    assert all(one.page in QUESTIONS for one in CLAIMS)


def test_one_seed_has_no_interval_to_claim():
    assert tables.size_of(groups([row("rope", 0, flat(4, 4))])) == "models of 0.11 million parameters, 1 seed"
