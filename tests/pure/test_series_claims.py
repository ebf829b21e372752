"""Published rates over time against those found here: the trend, the size, and the order of the rungs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.errors import ExperimentError
from pgdrag.experiment import parse_experiment
from pgdrag.findings.series_claims import OrderingFinding, SeriesClaimFinding
from pgdrag.findings.values import Answer
from pgdrag.model import Claim
from pgdrag.report.markdown import render_markdown
from pgdrag.testing.conformance_sections import findings_of
from pgdrag.testing.simulated import Truth, simulated_holds

FALLS = ((5, 950), (10, 800), (15, 690), (20, 600), (25, 540), (30, 480))


def found(claims, *, cost=1 / 30, losing=(), noise=0.02):
    """Findings of rungs held for the whole window, the first of them not held, with these claims."""
    study = simulated_holds(*["window"] * (len(claims) - 1))
    rungs = tuple(
        replace(rung, claim=claim) for rung, claim in zip(study.rungs, claims, strict=True)
    )
    truth = Truth(noise=noise, held_costs_per_s={"transaction": cost}, losing=dict(losing))
    return findings_of(replace(study, rungs=rungs), truth)


@pytest.mark.parametrize(
    ("claim", "cost", "answer"),
    [
        (Claim(trend="falling"), 1 / 30, Answer.REPRODUCED),
        (Claim(trend="steady"), 1 / 30, Answer.NOT_REPRODUCED),
        (Claim(trend="steady"), 0.0, Answer.REPRODUCED),
        (Claim(trend="falling"), 0.0, Answer.NOT_REPRODUCED),
    ],
)
def test_a_published_trend_is_compared_with_the_one_found(claim, cost, answer):
    rung = found([Claim(), claim], cost=cost).rungs[1]
    assert rung.get(SeriesClaimFinding).trend is answer
    assert rung.get(SeriesClaimFinding).ratio is None


def test_published_rates_are_compared_at_the_middles_of_their_intervals():
    claim = found([Claim(), Claim(trend="falling", series=FALLS)]).rungs[1].get(SeriesClaimFinding)
    assert (claim.from_s, claim.to_s) == (2.5, 27.5)
    assert claim.published_ratio == pytest.approx(480 / 950)
    truth = (1 + 2.5 / 30) / (1 + 27.5 / 30)
    assert claim.found_ratio.low < truth < claim.found_ratio.high
    assert claim.ratio is Answer.REPRODUCED


def test_a_fall_to_a_tenth_is_only_partly_reproduced_by_one_to_a_half():
    steep = Claim(trend="falling", series=((5, 1000), (30, 50)))
    claim = found([Claim(), steep]).rungs[1].get(SeriesClaimFinding)
    assert (claim.trend, claim.ratio) == (Answer.REPRODUCED, Answer.PARTLY)


def test_a_rung_without_published_rates_over_time_has_no_answer():
    assert found([Claim(tps=1000), Claim(tps=500)]).rungs[1].get(SeriesClaimFinding) is None


def test_a_rung_that_loses_updates_is_answered_as_wrong_and_not_ordered():
    course = Claim(trend="falling", series=FALLS)
    findings = found([Claim(tps=2000, trend="steady"), course, course], losing={"holder": 3})
    assert [one.get(SeriesClaimFinding).trend for one in findings.rungs[1:]] == [Answer.WRONG] * 2
    assert findings.get(OrderingFinding) is None
    text = render_markdown(findings)
    assert "wrong results here" in text
    assert "3 of " in text


def test_the_published_order_is_reproduced_where_it_holds():
    slow = Claim(trend="falling", series=tuple((t, rate / 2) for t, rate in FALLS))
    order = found([Claim(tps=1000, trend="steady"), slow]).get(OrderingFinding)
    assert order.answer is Answer.REPRODUCED
    assert order.same == (("H0", "H1"),)
    assert order.tau.center == 1
    assert order.at_s == 30


def test_the_opposite_order_is_not_reproduced():
    fast = Claim(trend="falling", series=tuple((t, rate * 9) for t, rate in FALLS))
    order = found([Claim(tps=1000, trend="steady"), fast]).get(OrderingFinding)
    assert order.answer is Answer.NOT_REPRODUCED
    assert order.opposite == (("H1", "H0"),)
    assert order.tau.center == -1


def test_equal_rungs_are_undecided():
    slow = Claim(trend="falling", series=tuple((t, rate / 2) for t, rate in FALLS))
    claims = [Claim(tps=1, trend="steady"), Claim(trend="falling", series=FALLS), slow]
    order = found(claims, noise=0.0).get(OrderingFinding)
    assert order.undecided == (("H1", "H2"),)


def test_a_falling_rate_is_not_extrapolated_beyond_what_was_published():
    brief = Claim(trend="falling", series=((5, 950), (10, 800)))
    order = found([Claim(tps=1000, trend="steady"), brief, Claim(tps=10, trend="steady")]).get(
        OrderingFinding
    )
    assert order.left_out == ("H1 has no published rate at 30 s",)


FILE = """\
pgdrag = 1
name = "course"
[workload]
kind = "pgbench"
[baseline]
claim = { tps = 5000, trend = "steady" }
[[rungs]]
name = "C2"
setting = { work_mem = "64" }
claim = { trend = "falling", series = [[5, 7228], [10, 6591.5]] }
[scales.demo]
"""


def test_a_file_gives_a_trend_and_its_points():
    baseline, rung = parse_experiment(FILE, Path("my.toml")).study("demo").rungs
    assert baseline.claim == Claim(tps=5000, trend="steady")
    assert rung.claim == Claim(trend="falling", series=((5, 7228), (10, 6591.5)))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"falling"', '"sinking"', '"trend" in [rungs.claim] must be "steady" or "falling"'),
        ("[10, 6591.5]", "[5, 6591.5]", '"series" in [rungs.claim] must be pairs of a time and a'),
        ("[10, 6591.5]", "[10, 0]", '"series" in [rungs.claim] must be pairs of a time and a'),
        ("[10, 6591.5]", "[10]", "must have at least 2 element"),
        ("6591.5", "9000", 'trend is "falling", but series goes from 7228 to 9000'),
        (
            'claim = { trend = "falling"',
            'claim = { tps = 9, speedup = 2, trend = "falling"',
            "omit one of them",
        ),
    ],
)
def test_a_mistake_in_a_series_is_reported_with_its_line(old, new, told):
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(FILE.replace(old, new), Path("my.toml"))
    assert told in caught.value.message
    assert caught.value.line == 10
