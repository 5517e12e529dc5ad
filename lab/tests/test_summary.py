import math

import pytest
from made_rows import flat, row, seeds

from lab.results import Interval, interval
from lab.summary import groups, on_the_edge, said, tied, verdict


def one(encoding, numbers):
    (runs,) = groups(seeds(encoding, numbers))
    return runs


def test_runs_are_put_together_over_seeds():
    runs = groups(seeds("rope", flat(4.0, 8.0)) + seeds("alibi", flat(4.0, 4.0)))
    assert [one.encoding for one in runs] == ["rope", "alibi"]
    assert [len(one.rows) for one in runs] == [3, 3]
    number = runs[0].measure("16", "perplexity")
    assert number.mean == pytest.approx(8.0) and number.count == 3
    assert number.half == pytest.approx(4.302653 * 0.08 / math.sqrt(3), rel=1e-5)  # Student's t of 2 degrees at 0.975


def test_rows_of_two_settings_are_refused():
    with pytest.raises(ValueError, match="must be of one setting except encoding, seed, got different steps"):
        groups([row("rope", 0, flat(4, 4)), row("rope", 1, flat(4, 4), steps=900)])
    with pytest.raises(ValueError, match=r"one run for each seed, got seeds \[0, 0\]"):
        groups([row("rope", 0, flat(4, 4)), row("rope", 0, flat(4, 4))])
    assert len(groups([row("rope", 0, flat(4, 4)), row("rope", 1, flat(4, 4), steps=900)], steps=500)) == 1


@pytest.mark.parametrize(
    ("last", "says"),
    [(4.0, "extrapolates"), (4.19, "extrapolates"), (4.21, "partly"), (5.99, "partly"), (6.01, "does not extrapolate")],
)
def test_the_verdict_follows_the_rule(last, says):
    assert verdict(one("rope", flat(4.0, last))) == says


def test_what_has_no_position_there_cannot_be_asked():
    runs = one("learned", {"1": 4.0})
    assert verdict(runs) == "cannot be asked"
    assert runs.ratio() is None and runs.beyond("16") == "no row past 64"
    assert verdict(one("learned", {"1": 4.0, "16": math.nan})) == "does not extrapolate"


def test_a_ratio_within_its_interval_of_a_limit_is_on_the_edge():
    rows = [row("rope", seed, flat(4.0, last)) for seed, last in enumerate((4.0, 4.2, 4.4))]
    assert on_the_edge(groups(rows)[0])
    assert not on_the_edge(one("rope", flat(4.0, 9.0)))
    assert not on_the_edge(groups([row("rope", 0, flat(4.0, 4.2))])[0])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Interval(12.345, 0.4321, 3), "12.35 ± 0.43"),
        (Interval(1234.5, 67.8, 3), "1,234 ± 68"),
        (Interval(0.98765, 0.0012, 3), "0.9877 ± 0.0012"),
        (Interval(5.0, 0.0, 3), "5 ± 0"),
        (Interval(5.4321, math.nan, 1), "5.432"),
        (Interval(math.inf, math.nan, 3), "diverged"),
        (None, "–"),
    ],
)
def test_numbers_have_as_many_places_as_their_interval(number, text):
    assert said(number) == text


def test_order_is_known_where_the_differences_by_seed_have_one_sign():
    def of(encoding, numbers):
        (runs,) = groups([row(encoding, seed, {"1": number}) for seed, number in enumerate(numbers)])
        return runs

    a = of("rope", (4.0, 5.0, 6.0))
    assert not tied(a, of("alibi", (4.5, 5.51, 6.52)), "1", "perplexity")  # though their intervals overlap
    assert tied(a, of("alibi", (4.1, 4.9, 6.05)), "1", "perplexity")
    assert tied(a, a, "1", "perplexity")
    assert tied(of("rope", (4.0,)), of("alibi", (9.0,)), "1", "perplexity")  # one seed says nothing of others


def test_losses_by_place_must_have_the_same_places():
    runs = one("rope", flat(4.0, 8.0))
    assert [place for place, _ in runs.by_position("16")] == [0.5, 8.0, 1024.0]
    assert runs.by_position("16")[1][1] == interval([7.92, 8.0, 8.08])
    other = seeds("rope", flat(4.0, 8.0))
    other[1]["measures"]["16"]["by_position"][0][0] = 0.0
    with pytest.raises(ValueError, match="losses at the same places"):
        groups(other)[0].by_position("16")
