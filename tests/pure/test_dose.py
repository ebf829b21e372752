"""Holds of different lengths: dose curves, what decides, and recovery."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pgdrag.agenda import expand
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.dose.findings import HorizonFinding
from pgdrag.findings.dose.variants import HeldRung, variants
from pgdrag.findings.find import find
from pgdrag.findings.values import Verdict
from pgdrag.model import Block, Level
from pgdrag.model.events import ignore
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings, Series
from pgdrag.report.markdown import render_markdown
from pgdrag.report.rung_words import change_sentence
from pgdrag.report.sections.horizon import deciders_words, dose_sentence, recovery_sentence
from pgdrag.stats.rates import LONG_MEMORY
from pgdrag.testing.conformance_sections import findings_of
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, record_of, simulated_holds

LENGTHS = ("10s", "20s", "30s", "40s", "window")


def held(*holds, cost=1 / 30, noise=0.02, losing=(), replicates=1):
    study = simulated_holds(*holds, replicates=replicates)
    truth = Truth(noise=noise, held_costs_per_s={"transaction": cost}, losing=dict(losing))
    return findings_of(study, truth)


def test_six_doses_of_a_growing_cost_make_a_curve_with_the_planted_half_dose():
    (curve,) = held(*LENGTHS).get(HorizonFinding).doses
    assert curve.verdict == "falls"
    assert [round(one.held_s) for one in curve.points] == [0, 10, 20, 30, 40, 60]
    assert curve.half_dose_s.low < 30 < curve.half_dose_s.high
    assert curve.monotone < -0.9
    assert curve.curve[-1][1] == pytest.approx(1000 / 3, rel=0.1)


def test_four_doses_make_points_and_no_curve_and_say_so():
    (curve,) = held("10s", "20s", "30s").get(HorizonFinding).doses
    assert curve.verdict == "too few doses"
    assert len(curve.points) == 4
    assert curve.half_dose_s is None
    assert "5 lengths or more" in dose_sentence(curve)


def test_a_hold_that_costs_nothing_does_not_fall():
    (curve,) = held(*LENGTHS, cost=0.0).get(HorizonFinding).doses
    assert curve.verdict == "does not fall"
    assert curve.half_dose_s.low > 500


def test_doses_in_noise_larger_than_their_effect_are_inconclusive():
    (curve,) = held(*LENGTHS, cost=1 / 300, noise=0.25).get(HorizonFinding).doses
    assert curve.verdict == "inconclusive"


def test_rungs_that_lose_updates_stand_in_no_curve():
    assert held(*LENGTHS, losing={"holder": 1}).get(HorizonFinding) is None


def test_a_run_without_a_hold_has_no_doses():
    assert held().get(HorizonFinding) is None


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [("hold", "20s", 1), ("hold", "exponential(20s)", 0), ("pattern", "repeated", 0)],
)
def test_drawn_and_repeated_holds_are_no_doses(name, value, count):
    study = simulated_holds("10s")
    rung = study.rungs[1]
    results = tuple(x for x in findings_of(study, Truth()).run.results if x.applied)
    levels = rung.treatment.with_levels(rung.name, [Level("horizon", name, value)])
    trials = RungTrials(replace(rung, treatment=levels), results)
    assert len(variants([HeldRung(trials, None)])) == count


def test_throughput_has_recovered_when_the_planted_cost_is_gone():
    # What is left of the cost, 20/30 exp(-t/8), is under 1/0.95 - 1 after 20.3 s; five seconds
    # that are back on average begin a little before.
    (found,) = held("20s", noise=0.005).get(HorizonFinding).recoveries
    assert found.back_s.low <= 20.3 - 2.5 <= found.back_s.high
    assert found.censored == 0
    assert found.reference == "the hold's beginning"


def test_no_recovery_within_the_window_gives_a_lower_bound():
    (found,) = held("40s").get(HorizonFinding).recoveries
    assert found.back_s.center == math.inf
    assert found.back_s.low == found.watched_s == 20
    assert found.censored == found.trials == 1
    assert "does not recover to 95 %" in recovery_sentence(found)


def test_a_vacuum_that_makes_throughput_recover_sooner_is_reported():
    findings = held("20s", "20s, then vacuum", noise=0.003, replicates=2)
    nothing, vacuum = findings.get(HorizonFinding).recoveries
    assert vacuum.back_s.high < nothing.back_s.low
    assert (
        "H2 against H1: vacuum after a hold of 20 s makes throughput recover sooner"
        in render_markdown(findings)
    )


def test_a_change_at_the_release_does_not_widen_the_interval_of_the_mean():
    found = held("20s").rungs[1]
    assert found.to_previous is not None
    assert found.to_previous.verdict is Verdict.SLOWER
    assert found.tps is not None
    assert found.tps.low < found.tps.center < found.tps.high


def test_autocorrelation_from_a_hold_gives_no_warning():
    assert LONG_MEMORY not in render_markdown(held("20s"))


def test_a_rung_whose_fall_its_mean_hides_says_that_it_fell():
    found = held("10s").rungs[1]
    assert found.to_previous is not None
    assert found.to_previous.verdict is Verdict.INCONCLUSIVE
    assert "But throughput fell by" in change_sentence(found)
    assert "during the hold of" in change_sentence(found)


def test_one_trial_each_cannot_show_whether_a_vacuum_helps():
    findings = held("20s", "20s, then vacuum", noise=0.003)
    needs = "H2 against H1: vacuum after a hold of 20 s needs 2 replicates or more to compare."
    assert needs in render_markdown(findings)


def test_recovery_within_one_sample_has_the_sample_as_its_range():
    (found,) = held("20s, then vacuum", noise=0.003).get(HorizonFinding).recoveries
    assert found.back_s.low <= found.back_s.center - 1.0 + 1e-6 or found.back_s.low == 0


def test_a_window_that_ends_with_the_hold_has_no_recovery():
    assert held("window").get(HorizonFinding).recoveries == ()


def with_rates(study, rate, grown):
    """Trials whose rate and whose bloat are given as functions of the time held and of the trial's second."""

    bench = SimulatedTrialRunner(Truth(held_costs_per_s={"transaction": 0.0}))
    block = Block(tuple(rung.treatment for rung in study.rungs))
    trials = expand(block, study, seed=1, block_number=1, first_number=1)
    results = []
    for trial in trials:
        result = bench.run(trial, ignore)
        hold = trial.treatment.of_kind("horizon").get("hold", "0s")
        length = 60.0 if hold == "window" else float(hold.removesuffix("s"))
        times = tuple(at + 0.5 for at in range(60))
        wave = [1 + 0.01 * math.sin(at * (2.1 + trial.number)) for at in range(60)]
        bloat = [grown(min(t, length)) for t in times]
        rates = [
            rate(t if t <= length else 0.0, bloat[at]) * wave[at] for at, t in enumerate(times)
        ]
        samples = tuple(Sample(at + 1.0, 1.0, round(per_s)) for at, per_s in enumerate(rates))
        series = Series("bloat_ratio", "bloat", "count", times, tuple(bloat))
        events = result.recordings.events
        results.append(
            replace(
                result,
                measurement=replace(result.measurement, samples=samples),
                recordings=Recordings((series, *events)),
            )
        )
    return results


def decided(rate, grown=lambda t: 1 + t / 10, holds=LENGTHS):

    study = simulated_holds(*holds)
    findings = find(record_of(study, with_rates(study, rate, grown)))
    (found,) = findings.get(HorizonFinding).deciders
    (decider,) = found.deciders
    return found, decider


def test_where_the_length_slows_and_bloat_stays_without_cost_the_length_decides():
    found, decider = decided(lambda held_s, bloat: 1000 / (1 + held_s / 20))
    assert decider.verdict == "the length, not this"
    assert "not on the bloat ratio" in deciders_words(found)
    assert "dead_versions_per_row" in found.missing


def test_where_bloat_slows_and_the_length_does_not_bloat_decides():
    _, decider = decided(lambda held_s, bloat: 1000 / bloat)
    assert decider.verdict == "this, not the length"


def test_holds_that_are_never_released_cannot_separate_the_two():
    found, decider = decided(lambda held_s, bloat: 1000 / (1 + held_s / 20), holds=("window",) * 5)
    assert decider.verdict == "cannot be separated"
    assert "holds that end within the window" in deciders_words(found)


def test_where_neither_matters_it_is_inconclusive():
    _, decider = decided(lambda held_s, bloat: 1000.0)
    assert decider.verdict == "inconclusive"
