import json
import subprocess
import sys

import bearing
import numpy as np
import pytest
from made_rows import extension, flat, images, seeds, tasks, text_runs

from lab import compared, figures
from lab.summary import groups

COMMAND = (sys.executable, "-m", "bearing")


FIGURES = {
    "text": lambda: figures.text_figure(text_runs(), "Title"),
    "leaderboard": lambda: compared.leaderboard_figure("Title", text_runs()),
    "tasks": lambda: compared.tasks_figure("Title", tasks()),
    "extension": lambda: compared.extension_figure("Title", extension()),
    "images": lambda: compared.images_figure("Title", images()),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_whole(name):
    figure = FIGURES[name]()
    assert figure.panels and figure.title == "Title" and any(sign.isdigit() for sign in figure.text)
    again = json.loads(figure.to_json())
    for panel in again["panels"]:
        for axis in (panel["x"], panel["y"]):
            assert axis["first"] != axis["last"]
            assert axis["scale"] == "linear" or min(axis["first"], axis["last"]) > 0
        low, high = sorted((panel["y"]["first"], panel["y"]["last"]))
        for series in panel["series"]:
            assert len(series["x"]) == len(series["y"]) > 0
            assert all(low <= y <= high for y in series["y"] if y is not None)


@pytest.mark.parametrize("name", FIGURES)
def test_matplotlib_draws_it(name):
    drawn = np.atleast_1d(bearing.plot.draw(FIGURES[name]()))
    assert len(drawn) == len(FIGURES[name]().panels)


@pytest.mark.parametrize("name", FIGURES)
def test_the_command_draws_it(name, tmp_path):
    file = tmp_path / "figure.json"
    file.write_text(FIGURES[name]().to_json())
    done = subprocess.run([*COMMAND, "plot", "--figure", file, "--format", "text"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 10


def test_a_line_is_the_mean_and_its_band_the_interval():
    panel = figures.by_length(text_runs())
    assert [one.label for one in panel.series] == ["RoPE", "ALiBi", "learned positions"]
    assert panel.series[0].x.tolist() == [1, 2, 4, 8, 16]
    assert panel.series[0].y.tolist() == pytest.approx([4, 4, 4, 4, 80])
    assert panel.series[2].x.tolist() == [1]
    half = text_runs()[0].measure("16", "perplexity").half
    assert panel.bands[0].high[-1] == pytest.approx(80 + half)
    assert panel.y.scale == "log10"
    assert figures.by_length(text_runs()[1:]).y.scale == "linear"


def test_one_seed_has_no_band():
    rows = [one for one in seeds("rope", flat(4.0, 8.0)) if one["setting"]["seed"] == 0]
    assert figures.by_length(groups(rows)).bands == ()


def test_an_encodings_options_stay_in_its_title():
    assert figures.title_of("rope") == "RoPE"
    assert figures.title_of("nope") == "NoPE"
    assert figures.title_of("t5_causal") == "T5 buckets (causal)"
    assert figures.title_of("rope:base=500") == "RoPE (base=500)"
    assert figures.title_of("no_such") == "no_such"


def test_a_matrix_has_nothing_where_nothing_was_run():
    by_task = tasks()
    by_task["parity"] = by_task["parity"][:1]
    values = compared.tasks_figure("Title", by_task).panels[1].cells.values
    assert values[0, 0] == pytest.approx(0.2 if figures.title_of("nope") > "RoPE" else 0.9)
    assert np.isnan(values).sum() == 1


def test_questions_about_images_have_the_same_rows():
    def runs(task, names):
        return [r for name in names for r in seeds(name, {"1": 0.9, "2": 0.5}, "images", task=task, method="none")]

    rows = runs("direction", ["rope_axial", "swin"]) + runs("same_row", ["nope", "swin", "rope_axial"])
    direction, same_row = compared.images_figure("Title", groups(rows, compared.APART["images"])).panels
    assert direction.y.ticks == same_row.y.ticks and len(direction.y.ticks) == 3
    nope = [tick.text for tick in direction.y.ticks].index("NoPE")
    assert np.isnan(direction.cells.values[nope]).all() and not np.isnan(same_row.cells.values).any()


def test_a_way_has_one_colour_and_doing_nothing_has_its_own():
    panels = compared.extension_figure("Title", extension()).panels
    colours = [{one.label: (one.colour, one.shade) for one in panel.series} for panel in panels]
    assert colours[0] == {"as trained": (0, 1.0), "YaRN": (0, None), "position interpolation": (1, None)}
    assert colours[1] == {"YaRN": (0, None), "position interpolation": (1, None)}
