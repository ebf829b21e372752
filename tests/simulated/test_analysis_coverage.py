"""Do the intervals cover the truth as often as they say? Planted truths, thousands of windows.

Every test is seeded, so it gives the same share each time; the margins allow for the chance in the
number of windows (two standard errors), and nothing else.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pgdrag.findings.values import Interval, Verdict
from pgdrag.model.measurement import Sample
from pgdrag.stats.rates import TrialRate, combined_rate, rate_interval, trend
from pgdrag.stats.ratios import slowdown

WINDOWS = 1500
MARGIN = 2 * math.sqrt(0.05 * 0.95 / WINDOWS)  # 1.1 %
MEAN = 1000.0


def autocorrelated(rng, rho, *, seconds=60, sd=0.1, means=None):
    """Make a window whose per-second rate is AR(1) around `MEAN`, or `means`, with a relative deviation `sd`."""
    shocks = (rng.standard_normal(seconds) * sd * math.sqrt(1 - rho**2)).tolist()
    level = float(rng.standard_normal() * sd)
    samples = []
    for at, shock in enumerate(shocks):
        level = rho * level + shock
        mean = MEAN if means is None else means[at]
        samples.append(Sample(at + 1.0, 1.0, max(round(mean * (1 + level)), 0)))
    return tuple(samples)


def trial_of(samples, block=1):
    committed = sum(sample.committed for sample in samples)
    return TrialRate(block, committed, float(len(samples)), samples)


def replicates(rng, true_rate, count, *, sd=0.05, drift=None):
    """Make trials that differ by `sd` from one to the next, and by the drift of their block."""
    shifts = np.zeros(count) if drift is None else drift
    rates = true_rate * np.exp(rng.normal(0, sd, count) + shifts)
    return [
        TrialRate(block + 1, int(rng.poisson(rate * 60)), 60.0) for block, rate in enumerate(rates)
    ]


def covered(
    seed: int, truth: float, draw: Callable[[np.random.Generator], Interval], windows: int = WINDOWS
) -> float:
    """Return the share of intervals that have the truth within them."""
    rng = np.random.default_rng(seed)
    found = [draw(rng) for _ in range(windows)]
    return sum(one.low <= truth <= one.high for one in found) / windows


def is_fair(share: float) -> bool:
    return 0.93 - MARGIN <= share <= 0.97 + MARGIN


@pytest.mark.parametrize(
    ("rho", "seconds"), [(0.0, 60), (0.3, 60), (0.5, 30), (0.5, 60), (0.5, 120)]
)
def test_the_rate_of_an_autocorrelated_window_is_covered(rho, seconds):
    def draw(rng):
        return rate_interval(trial_of(autocorrelated(rng, rho, seconds=seconds)))

    assert is_fair(covered(1, MEAN, draw))


def test_a_window_whose_batches_resemble_each_other_says_so_and_others_do_not():
    """Where the interval covers less than it promises a warning names the length that would do."""

    def told(rho, seconds):
        rng = np.random.default_rng(3)
        windows = [trial_of(autocorrelated(rng, rho, seconds=seconds)) for _ in range(300)]
        found = [(rate_interval(one), trend(one.samples)) for one in windows]
        return sum(
            bool(one.warnings) or (line is not None and line.matters) for one, line in found
        ) / len(found)

    assert told(0.9, 60) > 0.85
    assert told(0.8, 60) > 0.6
    # One in twenty has a trend by chance.
    assert told(0.5, 60) < 0.12
    assert told(0.0, 60) < 0.08
    assert told(0.8, 300) < 0.2


# (length, rate) of each step: a ramp of many steps, a few long ones, two, and unlike ones.
LOADS = [
    [(10, 500 + 100 * n) for n in range(18)],
    [(20, 200), (20, 400), (20, 600), (20, 800)],
    [(30, 500), (30, 1000)],
    [(60, 1000), (10, 200), (30, 2000)],
]


def in_steps(rng, load, rho, *, slower=1.0, block=1):
    """Make a trial under a load in steps."""
    lengths, rates = zip(*load, strict=True)
    means = (np.repeat(rates, lengths) / slower).tolist()
    samples = autocorrelated(rng, rho, seconds=len(means), means=means)
    changes_s = tuple(float(end_s) for end_s in np.cumsum(lengths)[:-1])
    return replace(trial_of(samples, block), changes_s=changes_s)


@pytest.mark.parametrize("rho", [0.0, 0.5])
@pytest.mark.parametrize("load", LOADS)
def test_the_mean_over_the_steps_of_a_load_is_covered(load, rho):
    widths = []

    def draw(rng):
        found = rate_interval(in_steps(rng, load, rho))
        widths.append(math.log(found.high / found.low))
        return found

    mean = sum(length * rate for length, rate in load) / sum(length for length, _ in load)
    # A ramp's batches are short: they resemble each other where seconds do.
    share, margin = covered(17, mean, draw, WINDOWS // 2), MARGIN * math.sqrt(2)
    assert 0.93 - margin <= share <= 0.98 + margin
    # What the steps differ by (a relative deviation of 0.25 and more) would be far wider.
    assert float(np.median(widths)) < 0.2


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("count", [1, 2])
def test_the_slowdown_under_a_load_in_steps_is_covered(load, count):
    """Both sides have the same steps: what these differ by must neither be missed nor be in the interval."""
    widths = []

    def draw(rng):
        sides = [
            [in_steps(rng, load, 0.3, slower=slower, block=x + 1) for x in range(count)]
            for slower in (1.0, 1.5)
        ]
        found = slowdown(*sides).slowdown
        widths.append(math.log(found.high / found.low))
        return found

    share = covered(18, 1.5, draw, WINDOWS // 3)
    assert 0.93 - MARGIN * math.sqrt(3) <= share
    if count == 1:  # of two pairs alone the interval is wide for another reason
        assert share <= 0.99
        assert float(np.median(widths)) < 0.2


@pytest.mark.parametrize("expected", [0.5, 2.0, 6.0, 11.0, 25.0])
def test_the_rate_of_a_few_commits_is_covered_at_least_as_often_as_promised(expected):
    def draw(rng):
        return rate_interval(TrialRate(1, int(rng.poisson(expected)), 60.0))

    # Exact bounds of a discrete count cannot hit 95 %; they may only exceed it.
    assert covered(2, expected / 60.0, draw) >= 0.95 - MARGIN


def test_about_three_expected_commits_are_covered_as_often_as_the_docstring_admits():
    def draw(rng):
        return replace(rate_interval(TrialRate(1, int(rng.poisson(3.0)), 60.0)), low=0.0)

    # P(no commit) is just under 5 %, and its bound just under 3.
    assert 0.925 - MARGIN <= covered(2, 3.0 / 60.0, draw) <= 0.95 + MARGIN


def stopped(rng, rate, *, measure_s=60.0, budget_s=120.0, wanted=30):
    """Run the driver's rule: a fixed window, extended up to the last commit wanted or the budget."""
    times = np.cumsum(rng.exponential(1 / rate, size=max(round(rate * budget_s * 2), 100)))
    assert times[-1] > budget_s
    if times[wanted - 1] <= measure_s:
        return TrialRate(1, int(np.sum(times <= measure_s)), measure_s)
    if times[wanted - 1] <= budget_s:
        return TrialRate(1, wanted, float(times[wanted - 1]), is_inverse_sampled=True)
    return TrialRate(1, int(np.sum(times <= budget_s)), budget_s)


# Commits to be expected within the budget: hardly ever enough, as often as not, nearly always, and
# mostly enough within the window already.
@pytest.mark.parametrize("expected", [12.0, 30.0, 45.0, 62.0])
def test_the_rate_of_a_window_extended_up_to_its_last_commit_is_covered(expected):
    rng = np.random.default_rng(14)
    low = high = 0
    for _ in range(2 * WINDOWS):
        found = rate_interval(stopped(rng, expected / 120.0))
        low += found.low > expected / 120.0
        high += found.high < expected / 120.0
    # Each tail on its own: an estimate that is too high on average would fill one of them.
    tail = 0.025 + 2 * math.sqrt(0.025 * 0.975 / (2 * WINDOWS))
    assert low / (2 * WINDOWS) <= tail
    assert high / (2 * WINDOWS) <= tail


def test_the_rate_of_a_window_that_ended_with_its_last_commit_has_no_bias():
    rng = np.random.default_rng(15)
    # With no budget every window ends with its 30th commit; 30 / time would be 3.4 % too high.
    rates = [stopped(rng, 0.2, measure_s=1.0, budget_s=1e4).per_s for _ in range(2 * WINDOWS)]
    error = float(np.std(rates)) / math.sqrt(len(rates))
    assert abs(float(np.mean(rates)) - 0.2) < 3 * error < 0.2 / 30


# Both nearly always extended; one of them; one of them starved within the budget.
@pytest.mark.parametrize(("before", "after"), [(45.0, 45.0), (600.0, 45.0), (45.0, 8.0)])
def test_the_slowdown_between_extended_windows_is_covered_at_least_as_often_as_promised(
    before, after
):
    def draw(rng):
        sides = [[stopped(rng, expected / 120.0)] for expected in (before, after)]
        return slowdown(*sides).slowdown

    assert covered(16, before / after, draw) >= 0.95 - MARGIN


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_a_steady_window_is_said_to_drift_in_one_of_twenty(rho):
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(WINDOWS):
        found = trend(autocorrelated(rng, rho))
        assert found is not None
        alarms += found.is_significant
    assert 0.03 - MARGIN <= alarms / WINDOWS <= 0.07 + MARGIN


def test_a_window_that_loses_a_third_is_said_to_drift():
    rng = np.random.default_rng(4)
    found = [
        trend(
            tuple(
                Sample(s.t_s, 1.0, round(s.committed * (1 - s.t_s / 180)))
                for s in autocorrelated(rng, 0.3)
            )
        )
        for _ in range(200)
    ]
    assert sum(one is not None and one.matters for one in found) > 190


@pytest.mark.parametrize("count", [3, 5])
def test_the_mean_of_replicates_is_covered(count):
    assert is_fair(covered(5, MEAN, lambda rng: combined_rate(replicates(rng, MEAN, count))))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_slowdown_of_paired_replicates_is_covered_under_drift(count):
    def draw(rng):
        drift = rng.normal(0, 0.2, count)  # four times the noise, common to a block
        sides = [replicates(rng, rate, count, drift=drift) for rate in (MEAN, MEAN / 7)]
        return slowdown(*sides).slowdown

    assert is_fair(covered(6, 7.0, draw))


def test_the_slowdown_of_unpaired_replicates_is_covered():
    def draw(rng):
        treatment = replicates(rng, MEAN / 7, 4, sd=0.1)
        return slowdown(replicates(rng, MEAN, 3), treatment).slowdown

    assert is_fair(covered(7, 7.0, draw))


def test_the_slowdown_of_a_single_trial_is_covered_with_the_noise_of_the_baseline():
    def draw(rng):
        return slowdown(replicates(rng, MEAN, 3), replicates(rng, MEAN / 7, 1)).slowdown

    assert is_fair(covered(8, 7.0, draw))


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_the_slowdown_of_two_single_windows_is_covered_where_trials_do_not_differ(rho):
    def draw(rng):
        first, second = (trial_of(autocorrelated(rng, rho)) for _ in range(2))
        return slowdown([first], [second]).slowdown

    assert is_fair(covered(9, 1.0, draw))


@pytest.mark.parametrize(("before", "after"), [(6000.0, 11.0), (20.0, 5.0), (3.0, 3.0)])
def test_the_slowdown_of_a_few_commits_is_covered_at_least_as_often_as_promised(before, after):
    def draw(rng):
        sides = [[TrialRate(1, int(rng.poisson(x)), 60.0)] for x in (before, after)]
        return slowdown(*sides).slowdown

    assert covered(10, before / after, draw) >= 0.95 - MARGIN


def test_replicates_of_one_treatment_are_told_apart_in_one_of_twenty():
    rng = np.random.default_rng(11)
    told = 0
    for _ in range(WINDOWS):
        verdict = slowdown(replicates(rng, MEAN, 3), replicates(rng, MEAN, 3)).verdict
        told += verdict in (Verdict.SLOWER, Verdict.FASTER)
    assert 0.03 - MARGIN <= told / WINDOWS <= 0.07 + MARGIN


def test_a_slowdown_just_beyond_the_margin_is_called_equivalent_in_one_of_twenty_at_most():
    rng = np.random.default_rng(12)
    wrong = 0
    for _ in range(WINDOWS):
        sides = [replicates(rng, rate, 5, sd=0.005) for rate in (MEAN * 1.0201, MEAN)]
        wrong += slowdown(*sides).verdict is Verdict.EQUIVALENT
    assert wrong / WINDOWS <= 0.05 + MARGIN


def test_the_detectable_slowdown_is_told_in_four_of_five_runs():
    rng = np.random.default_rng(13)
    sd, count = 0.05, 4
    # The true error of a paired difference, as a run with an exactly typical spread would see it.
    typical = [0.05 * math.sqrt(2) * z for z in (-1.5, -0.5, 0.5, 1.5)]
    scale = sd * math.sqrt(2) / float(np.std(typical, ddof=1))
    reference = [TrialRate(b + 1, 60_000_000, 60.0) for b in range(count)]
    treatment = [
        TrialRate(b + 1, round(60_000_000 * math.exp(z * scale)), 60.0)
        for b, z in enumerate(typical)
    ]
    planted = slowdown(reference, treatment).detectable
    seen = 0
    for _ in range(WINDOWS):
        sides = [replicates(rng, rate, count, sd=sd) for rate in (MEAN * planted, MEAN)]
        seen += slowdown(*sides).verdict is Verdict.SLOWER
    assert abs(seen / WINDOWS - 0.8) < 0.03
