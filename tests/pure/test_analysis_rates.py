"""Rates of one trial and of several, from counts small enough to check by hand or in a table."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.model.measurement import Sample
from pgdrag.stats.counts import Tally, exact_rate, overdispersion
from pgdrag.stats.rates import (
    TrialRate,
    combined_rate,
    rate_interval,
    trend,
    within_spread,
)


def samples_of(counts: list[int]) -> tuple[Sample, ...]:
    return tuple(Sample(at + 1.0, 1.0, count) for at, count in enumerate(counts))


@pytest.mark.parametrize(
    ("committed", "low", "high"),
    # Bounds of the exact 95 % Poisson interval as printed in statistical tables.
    [(1, 0.0253, 5.5716), (11, 5.4912, 19.6820), (20, 12.2165, 30.8884)],
)
def test_few_commits_get_the_exact_poisson_interval(committed, low, high):
    found = rate_interval(TrialRate(1, committed, 1.0, ()))
    assert found.low == pytest.approx(low, abs=1e-4)
    assert found.center == committed
    assert found.high == pytest.approx(high, abs=1e-4)


def test_nothing_committed_is_a_bound_and_not_a_zero():
    found = rate_interval(TrialRate(1, 0, 60.0, ()))
    # The rule of three: about 3 events could have been missed.
    assert (found.low, found.center) == (0.0, 0.0)
    assert found.high == pytest.approx(2.9957 / 60, rel=1e-4)
    assert any("nothing committed" in warning for warning in found.warnings)


def test_even_seconds_are_never_surer_than_the_counting_of_commits():
    found = rate_interval(TrialRate(1, 6000, 60.0, samples_of([100] * 60)))
    exact = exact_rate(Tally(6000, 60.0), 0.95)
    assert (found.low, found.high) == (exact.low, exact.high)


def test_uneven_seconds_widen_the_interval_beyond_counting():
    # Ten seconds fast, ten seconds slow: checkpoints do that.
    counts = ([150] * 10 + [50] * 10) * 3
    found = rate_interval(TrialRate(1, sum(counts), 60.0, samples_of(counts)))
    exact = exact_rate(Tally(sum(counts), 60.0), 0.95)
    assert found.high - found.low > 5 * (exact.high - exact.low)


def test_a_window_of_five_samples_says_that_it_is_too_short():
    found = rate_interval(TrialRate(1, 500, 5.0, samples_of([100] * 5)))
    assert any("measure for 20 s or more" in warning for warning in found.warnings)


def test_a_falling_rate_has_a_slope():
    counts = [200 - 2 * second for second in range(60)]
    found = trend(samples_of(counts))
    assert found is not None
    assert found.is_significant
    # 2 of a mean of 141 commits each second.
    assert found.slope_per_s_relative == pytest.approx(-2 / 141)
    assert found.change == pytest.approx(-120 / 141)


def test_a_steady_rate_has_no_trend():
    found = trend(samples_of([100] * 60))
    assert found is not None
    assert not found.is_significant


@pytest.mark.parametrize("counts", [[], [1] * 5, [0] * 60])
def test_too_few_samples_or_no_commits_have_no_trend_to_speak_of(counts):
    assert trend(samples_of(counts)) is None


def test_three_trials_average_on_the_logarithm():
    trials = [TrialRate(block, n, 1.0) for block, n in ((1, 10_000), (2, 20_000), (3, 40_000))]
    found = combined_rate(trials)
    assert found.center == pytest.approx(20_000)
    # sd of the logs is ln 2; t at 2 degrees of freedom is 4.3027.
    assert math.log(found.high / found.center) == pytest.approx(
        4.3027 * math.log(2) / math.sqrt(3), rel=1e-4
    )


def test_trials_with_few_commits_are_pooled():
    found = combined_rate([TrialRate(1, 5, 60.0), TrialRate(2, 6, 60.0)])
    assert found.center == pytest.approx(11 / 120)
    assert found.low == pytest.approx(5.4912 / 120, rel=1e-4)


def test_a_window_that_ended_with_its_last_commit_was_not_waited_for_by_the_first():
    found = rate_interval(TrialRate(1, 11, 60.0, is_inverse_sampled=True))
    assert found.center == pytest.approx(10 / 60)
    # Half the 2.5 % and 97.5 % points of chi-squared with 22 degrees of freedom, from a table.
    assert found.low == pytest.approx(10.982 / 2 / 60, rel=1e-3)
    assert found.high == pytest.approx(36.781 / 2 / 60, rel=1e-3)
    assert "gamma" in found.method


def test_the_thirtieth_commit_ends_a_window_whose_batches_say_no_more_than_it():
    samples = samples_of(([1] * 10 + [0] * 10) * 3)
    found = rate_interval(TrialRate(1, 30, 60.0, samples, is_inverse_sampled=True))
    assert "gamma" in found.method
    assert "batch" in rate_interval(TrialRate(1, 30, 60.0, samples)).method


def test_trials_that_each_ended_with_their_last_commit_are_pooled_as_one_such():
    trials = [TrialRate(block, 6, 60.0, is_inverse_sampled=True) for block in (1, 2)]
    assert combined_rate(trials).center == pytest.approx(11 / 120)
    mixed = [trials[0], TrialRate(2, 6, 60.0)]
    assert combined_rate(mixed).center == pytest.approx(12 / 120)


def test_counts_that_disagree_beyond_chance_are_overdispersed():
    assert overdispersion([Tally(x, 1.0) for x in (10, 12, 9)]) == 1.0
    # Mean 50: (50² + 50²) / 50 over one degree of freedom.
    assert overdispersion([Tally(0, 1.0), Tally(100, 1.0)]) == pytest.approx(100.0)


def test_pooled_trials_that_disagree_beyond_chance_widen_the_interval():
    agreeing = combined_rate([TrialRate(1, 12, 60.0), TrialRate(2, 13, 60.0)])
    disagreeing = combined_rate([TrialRate(1, 1, 60.0), TrialRate(2, 24, 60.0)])
    assert disagreeing.center == agreeing.center
    assert disagreeing.low < agreeing.low < agreeing.high < disagreeing.high
    assert any("more than chance" in warning for warning in disagreeing.warnings)


@given(st.integers(0, 10**7), st.floats(0.01, 1e5))
def test_the_estimate_lies_within_its_bounds(committed, elapsed_s):
    found = rate_interval(TrialRate(1, committed, elapsed_s, ()))
    assert 0 <= found.low <= found.center <= found.high < math.inf


@given(st.lists(st.integers(0, 10**6), min_size=6, max_size=130))
def test_any_window_has_an_interval_around_its_rate(counts):
    found = rate_interval(TrialRate(1, sum(counts), float(len(counts)), samples_of(counts)))
    assert 0 <= found.low <= found.center <= found.high


def in_steps(counts: list[int], *changes_s: float) -> TrialRate:
    return TrialRate(1, sum(counts), float(len(counts)), samples_of(counts), changes_s=changes_s)


def test_what_steps_of_a_load_differ_by_is_no_doubt_about_their_mean():
    counts = [100] * 20 + [900] * 20
    found = rate_interval(in_steps(counts, 20))
    exact = exact_rate(Tally(sum(counts), 40.0), 0.95)
    assert (found.low, found.center, found.high) == (exact.low, 500, exact.high)
    assert found.method == "batch means, 6 batches within 2 steps"
    assert rate_interval(in_steps(counts)).high > 2 * found.high


def test_each_step_of_a_load_counts_with_its_length():
    # 10 s: batches of 90/s and 110/s, with a variance of 100 of their mean, weigh 10/40.
    # 30 s: 80/s, 100/s and 120/s, with 400/3, weigh 30/40.
    first, second = [90] * 5 + [110] * 5, [80] * 10 + [100] * 10 + [120] * 10
    found = within_spread(in_steps(first + second, 10))
    parts = [100 / 16, 400 / 3 * 9 / 16]
    assert found.log_se == pytest.approx(math.sqrt(sum(parts)) / 100)
    assert found.dof == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 1 + parts[1] ** 2 / 2))


def test_a_second_in_which_the_load_changed_is_no_unsteadiness():
    counts = [1000] * 10 + [5000] + [9000] * 9
    found = rate_interval(in_steps(counts, 10.5))
    exact = exact_rate(Tally(sum(counts), 20.0), 0.95)
    assert (found.low, found.high) == (exact.low, exact.high)


def test_a_step_too_short_to_tell_is_taken_to_be_as_unsteady_as_the_others():
    # By 10 % of its rate over 5 s, so that a mean over 10 s has a relative variance of 0.01.
    first = [90] * 5 + [110] * 5
    alone = within_spread(in_steps(first))
    assert alone.log_se < within_spread(in_steps([*first, 900, 900], 10)).log_se
    parts = [100 * 10**2, 0.01 * 10 / 2 * 900**2 * 2**2]
    found = within_spread(in_steps([*first, 900, 900], 10))
    assert found.log_se == pytest.approx(math.sqrt(sum(parts)) / (100 * 10 + 900 * 2))


def test_steps_of_two_seconds_say_that_they_are_too_short():
    found = rate_interval(in_steps([100, 100, 200, 200, 300, 300] * 5, *range(2, 30, 2)))
    assert "exact Poisson" in found.method
    assert any("too short to see how unsteady" in warning for warning in found.warnings)


def test_steps_of_five_seconds_show_only_roughly_how_unsteady_the_rate_was():
    found = rate_interval(in_steps([100] * 30, *range(5, 30, 5)))
    assert found.warnings == (
        "30 samples in 6 parts of the window show only roughly how unsteady the rate was; make each 10 s or longer",
    )


def test_a_window_cut_short_has_no_steps_that_it_did_not_come_to():
    counts = [90] * 10 + [110] * 10
    assert within_spread(in_steps(counts, 10, 30, 50)) == within_spread(in_steps(counts, 10))
