"""Throughput within a window: the direction, the curve and its intervals, and which part is fitted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis_runs import measurement, result, run_of, rung
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.decay.together import finding_of, rung_decay, stretch_of, trial_rate_words
from pgdrag.findings.find import find
from pgdrag.findings.holds.levels import held_for, held_span
from pgdrag.model import Level, Outcome, Treatment
from pgdrag.model.load import Step
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import HOLD_EVENT, Event, Recordings
from pgdrag.report.sections.decay import decay_sentence
from pgdrag.report.terminal import terminal_text
from pgdrag.stats.curve_fit import FAMILIES, Curves, quantiles, without_stalls


def window(rates, *, second=1.0):
    """A window of intervals with these rates, that wave a little."""
    wave = (1.01, 1.0, 0.99, 1.0)
    return [
        Sample((at + 1) * second, second, round(rate * second * wave[at % 4]))
        for at, rate in enumerate(rates)
    ]


def trial(rates, *, number=1, outcome=Outcome.MEASURED, violations=(), levels=(), events=()):
    samples = window(rates)
    committed = sum(one.committed for one in samples)
    base = result("A0", None, number=number, outcome=outcome)
    return replace(
        base,
        trial=replace(base.trial, treatment=Treatment("A0", levels)),
        measurement=measurement(committed, elapsed_s=float(len(samples)), samples=samples),
        violations=tuple(violations),
        recordings=Recordings(events),
    )


def decay_of(*trials):
    found = rung_decay(RungTrials(rung("A0"), trials))
    return None if found is None else finding_of(found)


def hyperbolic(tau, length=60, rate=7000.0):
    return [rate / (1 + (at + 0.5) / tau) for at in range(length)]


HELD = (Level("horizon", "holder", "transaction"), Level("horizon", "hold", "20s"))


def holder(begin_s, end_s):
    return Event(HOLD_EVENT, begin_s, end_s, "transaction, session 7")


def test_a_cost_that_grows_evenly_is_hyperbolic_with_its_half_life():
    found = decay_of(trial(hyperbolic(30)))
    assert (found.direction, found.curve) == ("falling", "hyperbolic")
    assert found.half_life_s.low < 30 < found.half_life_s.high
    assert found.half_life_s.center == pytest.approx(30, rel=0.05)
    assert found.begin_per_s.center == pytest.approx(7000, rel=0.02)
    assert found.end_per_s.center == pytest.approx(7000 / 3, rel=0.02)
    assert found.ratio_at_30_s.center == pytest.approx(0.5, rel=0.02)


def test_a_share_lost_each_second_is_an_exponential():
    found = decay_of(trial([5000 * 0.5 ** (at / 20) for at in range(60)]))
    assert found.curve == "exponential"
    assert found.half_life_s.center == pytest.approx(20, rel=0.03)
    assert found.slope_per_min.center == pytest.approx(-7 / 8, abs=0.01)


def test_a_fall_that_ends_at_more_than_half_has_no_half_life():
    found = decay_of(trial([1000 * (0.7 + 0.3 * math.exp(-at / 10)) for at in range(90)]))
    assert found.curve == "exponential toward a floor"
    assert found.half_life_s.center == math.inf
    assert "half-life at least" in decay_sentence(found)


def test_a_change_within_a_tenth_is_steady_with_a_lower_bound_of_the_half_life():
    found = decay_of(trial([5000.0] * 60))
    assert found.direction == "steady"
    assert found.curve == ""
    assert found.half_life_s.center == math.inf
    assert found.half_life_s.low > 60


def test_a_rise_is_rising():
    assert decay_of(
        trial([5000 * (1 - 0.5 * math.exp(-at / 8)) for at in range(60)])
    ).direction == ("rising")


def test_too_few_intervals_and_a_load_in_steps_are_not_fitted():
    assert decay_of(trial([5000.0] * 9)) is None
    stepped = trial(hyperbolic(30))
    load = replace(stepped.trial.load, steps=(Step(0, 4), Step(30, 8)))
    assert decay_of(replace(stepped, trial=replace(stepped.trial, load=load))) is None


def test_intervals_with_few_commits_are_merged_until_none_is_empty():
    samples = [Sample(at + 1.0, 1.0, at % 3 == 0) for at in range(900)]
    stretch = stretch_of(samples, 0, 900)
    assert 10 <= len(stretch.times_s) <= 12
    assert min(stretch.rates_per_s) > 0
    assert stretch_of([Sample(at + 1.0, 1.0, 0) for at in range(60)], 0, 60) is None


def test_where_the_hold_ends_within_the_window_only_the_hold_is_fitted():
    rates = [*hyperbolic(20, 20), *[7000.0] * 40]
    found = decay_of(trial(rates, levels=HELD, events=[holder(0.2, 20.1)]))
    assert found.direction == "falling"
    assert (found.begin_s, found.end_s) == (1.0, 20.0)
    assert not found.is_whole_window


def test_a_hold_that_began_before_and_lasts_is_the_whole_window():
    held = trial(hyperbolic(20), levels=HELD, events=[holder(-8.0, 59.0)])
    span = held_span(held, held.measurement)
    assert (span.begin_s, span.end_s, span.is_released) == (0.0, 60.0, False)


def test_holds_by_others_are_not_the_treatments_hold():
    other = Event("holder", 10.0, 30.0, "session 9 (idle in transaction, psql)")
    held = trial(hyperbolic(20), levels=HELD, events=[other])
    assert held_span(held, held.measurement).length_s == 60.0
    for levels in ((), (Level("horizon", "holder", "nobody"),)):
        free = trial(hyperbolic(20), levels=levels, events=[holder(0, 20)])
        assert held_span(free, free.measurement) is None


def test_pgdrags_own_events_of_holds_take_precedence():
    seen = Event("holder", 0.0, 50.0, "session 7 (idle in transaction, pgdrag horizon holder)")
    held = trial(hyperbolic(20), levels=HELD, events=[seen, holder(5.0, 30.0)])
    span = held_span(held, held.measurement)
    assert (span.begin_s, span.end_s, span.is_released) == (5.0, 30.0, True)
    assert held_for(held, held.measurement, 20.0) == 15.0
    assert held_for(held, held.measurement, 40.0) == 0.0


def test_trials_that_differ_widen_the_interval():
    alike = decay_of(*(trial(hyperbolic(30), number=n) for n in (1, 2, 3)))
    apart = decay_of(*(trial(hyperbolic(tau), number=n) for n, tau in ((1, 15), (2, 30), (3, 60))))
    width = lambda found: found.slope_per_min.high - found.slope_per_min.low  # noqa: E731
    assert width(apart) > 3 * width(alike)
    assert apart.trials == 3


def test_a_trial_that_loses_updates_is_fitted_and_marked_and_has_no_number():
    wrong = trial(
        hyperbolic(30), outcome=Outcome.INVALID, violations=["12 of 900 updates were lost"]
    )
    found = find(run_of([rung("A0")], [wrong]))
    (only,) = found.rungs
    assert only.tps is None
    assert only.get(DecayFinding).wrong == "loses updates"
    assert only.get(DecayFinding).direction == "falling"
    assert "wrong results" in terminal_text(found, width=120)


def test_an_invalid_trial_without_a_violation_is_not_fitted():
    assert decay_of(trial(hyperbolic(30), outcome=Outcome.INVALID)) is None


def test_a_trial_that_is_invalid_for_another_reason_too_is_not_fitted():
    lost = "12 of 900 updates were lost"
    wrong = trial(hyperbolic(30), outcome=Outcome.INVALID, violations=[lost])
    assert decay_of(replace(wrong, reason=f"{lost}; a holder was lost")) is None
    assert decay_of(replace(wrong, reason=lost)).wrong == "loses updates"


def test_another_violation_than_lost_updates_fails_its_check():
    wrong = trial(hyperbolic(30), outcome=Outcome.INVALID, violations=["3 ids have two counters"])
    assert decay_of(wrong).wrong == "fails its check"


def test_a_rung_with_a_trend_shows_both_ends_and_no_mean():
    found = find(run_of([rung("A0")], [trial(hyperbolic(30))]))
    mean = sum(hyperbolic(30)) / 60
    text = terminal_text(found, width=120)
    assert "→" in text
    assert f"{mean:,.0f}/s" not in text


@given(
    st.sampled_from(list(FAMILIES)),
    st.floats(-3.0, -0.01),
    st.floats(0.05, 30.0),
)
@settings(max_examples=60, deadline=None)
def test_every_curve_begins_at_zero_falls_and_ends_at_its_change(name, change, more):
    curves = Curves(name, np.array([change]), np.array([more - change]))
    logs = curves.at(np.linspace(0, 1, 30))[0]
    assert logs[0] == pytest.approx(0)
    assert logs[-1] == pytest.approx(change, abs=1e-6)
    assert (np.diff(logs) <= 1e-9).all()
    assert (change <= math.log(0.5) + 1e-9) == (curves.half_lives()[0] <= 1)


def test_weighted_quantiles():
    values = np.linspace(0, 1, 10_001)
    low, high = quantiles(values[::-1], np.ones_like(values), 0.9)
    assert (low, high) == (pytest.approx(0.05, abs=1e-3), pytest.approx(0.95, abs=1e-3))


def test_a_single_trial_with_a_trend_shows_both_ends_and_one_without_its_mean():
    falling, steady = trial(hyperbolic(30)), trial([5000.0] * 60)
    assert trial_rate_words(falling, falling.measurement).startswith("7,00")
    assert "→ 2,33" in trial_rate_words(falling, falling.measurement)
    assert trial_rate_words(steady, steady.measurement) == "5,000/s"


def test_a_stall_of_a_second_hides_no_fall():
    rates = hyperbolic(30)
    rates[25] = 40.0
    found = decay_of(trial(rates))
    assert found.direction == "falling"
    assert found.half_life_s.low < 30 < found.half_life_s.high
    assert min(found.traces[0].rates_per_s) == 40.0


@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=60))
def test_what_only_falls_or_only_rises_has_no_stall(steps):
    falling = -np.cumsum(steps)
    assert (without_stalls(falling) == falling).all()
    assert (without_stalls(-falling) == -falling).all()
