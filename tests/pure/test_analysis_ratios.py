"""Slowdowns from trials whose ratio the reader can see."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.findings.values import Interval, Verdict
from pgdrag.findings.wording import so_far_words
from pgdrag.stats.counts import Tally, count_ratio
from pgdrag.stats.noise import Noise
from pgdrag.stats.rates import TrialRate, repeat_noise
from pgdrag.stats.ratios import slowdown


def trials_of(*counts: int, blocks: tuple[int, ...] = (), elapsed_s: float = 60.0):
    places = blocks or tuple(range(1, len(counts) + 1))
    return [TrialRate(block, n, elapsed_s) for block, n in zip(places, counts, strict=True)]


def test_half_the_throughput_in_every_block_is_a_slowdown_of_two():
    found = slowdown(trials_of(60_000, 66_000, 54_000), trials_of(30_000, 33_000, 27_000))
    assert found.verdict is Verdict.SLOWER
    assert found.slowdown.center == pytest.approx(2.0)
    # Drift common to a block cancels; the chance in counting is left.
    assert 1.97 < found.slowdown.low < found.slowdown.high < 2.03


def test_the_same_trials_in_other_blocks_do_not_cancel_the_drift():
    reference = trials_of(60_000, 66_000, 54_000)
    treatment = trials_of(30_000, 33_000, 27_000, blocks=(4, 5, 6))
    found = slowdown(reference, treatment)
    assert "Welch" in found.slowdown.method
    assert found.slowdown.low < 1.7 < 2.3 < found.slowdown.high


def test_identical_trials_are_equivalent():
    found = slowdown(trials_of(600_000, 610_000, 590_000), trials_of(600_000, 610_000, 590_000))
    assert found.verdict is Verdict.EQUIVALENT
    assert found.slowdown.center == 1.0


def test_one_trial_each_never_shows_that_nothing_differs():
    found = slowdown(trials_of(10_000_000), trials_of(10_000_000))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any("run 3 or more replicates" in warning for warning in found.slowdown.warnings)


def test_noise_of_the_repeats_widens_the_interval_of_single_trials():
    alone = slowdown(trials_of(60_000), trials_of(50_000))
    noisy = slowdown(trials_of(60_000), trials_of(50_000), noise=Noise(log_sd=0.1, dof=3))
    assert alone.verdict is Verdict.SLOWER
    assert noisy.verdict is Verdict.INCONCLUSIVE
    assert noisy.detectable > alone.detectable


def test_a_repeated_baseline_lends_its_noise_to_the_treatment():
    found = slowdown(trials_of(60_000, 66_000), trials_of(30_000))
    assert "noise of 2 repeats" in found.slowdown.method


def test_two_baseline_trials_in_each_block_still_pair_with_the_treatment():
    reference = trials_of(60_000, 60_000, 66_000, 66_000, blocks=(1, 1, 2, 2))
    found = slowdown(reference, trials_of(30_000, 33_000))
    assert found.slowdown.method == "t interval on log ratios of 2 pairs"
    assert found.slowdown.center == pytest.approx(2.0)


def test_eleven_commits_are_compared_by_their_exact_counts():
    found = slowdown(trials_of(60_000), trials_of(11))
    assert found.verdict is Verdict.SLOWER
    assert found.slowdown.method == "exact conditional"
    # The reference is as good as known, so the bounds are those of 11 Poisson events.
    assert found.slowdown.low == pytest.approx(60_000 / 19.682, rel=0.01)
    assert found.slowdown.high == pytest.approx(60_000 / 5.4912, rel=0.01)


def test_a_treatment_that_commits_nothing_is_slower_by_at_least_a_bound():
    found = slowdown(trials_of(60_000), trials_of(0))
    assert found.verdict is Verdict.SLOWER
    assert found.slowdown.low == pytest.approx(60_000 / 2.9957, rel=0.001)
    assert (found.slowdown.center, found.slowdown.high) == (math.inf, math.inf)


def test_a_reference_that_commits_nothing_is_slower_by_at_least_a_bound():
    found = slowdown(trials_of(0), trials_of(60_000))
    assert found.verdict is Verdict.FASTER
    assert (found.slowdown.low, found.slowdown.center) == (0.0, 0.0)
    assert found.slowdown.high == pytest.approx(2.9957 / 60_000, rel=0.001)


def test_two_empty_trials_tell_nothing():
    found = slowdown(trials_of(0), trials_of(0))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.detectable == math.inf


def test_three_commits_against_two_could_have_shown_nothing():
    found = slowdown(trials_of(3), trials_of(2))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.detectable == math.inf


def test_unequal_windows_are_compared_by_rate():
    found = slowdown([TrialRate(1, 20, 10.0)], [TrialRate(1, 20, 40.0)])
    assert found.slowdown.center == pytest.approx(4.0)


def test_few_commits_that_disagree_between_trials_widen_only_their_own_side():
    even = slowdown(trials_of(60_000, 66_000), trials_of(12, 13))
    # The reference's own 5 % are large against its counting error, and still nothing beside 25.
    assert even.slowdown.high / even.slowdown.low < 2.5
    uneven = slowdown(trials_of(60_000, 66_000), trials_of(1, 24))
    assert uneven.slowdown.low < even.slowdown.low < even.slowdown.high < uneven.slowdown.high


def test_more_noise_needs_a_larger_slowdown_to_be_detected():
    quiet = slowdown(trials_of(60_000, 61_000, 59_000), trials_of(60_000, 60_500, 60_100))
    loud = slowdown(trials_of(60_000, 80_000, 40_000), trials_of(60_000, 50_500, 70_100))
    assert 1.0 < quiet.detectable < 1.2 < loud.detectable


def test_noise_of_one_trial_is_unknown():
    assert repeat_noise([trials_of(60_000)]) is None
    noise = repeat_noise([trials_of(60_000, 0, 60_000)])
    assert noise == Noise(log_sd=0.0, dof=1)


counts = st.lists(st.integers(0, 10**6), min_size=1, max_size=5)


@given(counts, counts)
def test_swapping_the_sides_turns_the_slowdown_round(first, second):
    forth = slowdown(trials_of(*first), trials_of(*second)).slowdown
    back = slowdown(trials_of(*second), trials_of(*first)).slowdown
    if sum(first) and sum(second):
        assert forth.center * back.center == pytest.approx(1.0)
        # A bound beyond the largest float stands as infinite.
        if forth.high < math.inf:
            assert forth.high * back.low == pytest.approx(1.0, rel=1e-6)


@given(counts, counts)
def test_any_two_sides_compare(first, second):
    found = slowdown(trials_of(*first), trials_of(*second))
    assert 0 <= found.slowdown.low <= found.slowdown.center <= found.slowdown.high
    assert found.detectable >= 1.0


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0.01, 100.0))
def test_exact_bounds_enclose_the_ratio_of_the_rates(before, after, exposure):
    found = count_ratio(Tally(before, 1.0), Tally(after, exposure), 0.95)
    assert found.low < before / after * exposure < found.high


def extended(committed: int, elapsed_s: float) -> list[TrialRate]:
    return [TrialRate(1, committed, elapsed_s, is_inverse_sampled=True)]


def test_two_extended_windows_compare_by_the_f_distribution():
    found = slowdown(extended(30, 60.0), extended(30, 120.0)).slowdown
    assert found.center == pytest.approx(2.0)
    # The 97.5 % point of F with 60 and 60 degrees of freedom is 1.667, from a table.
    assert found.high == pytest.approx(2.0 * 1.667, rel=1e-3)
    assert found.low == pytest.approx(2.0 / 1.667, rel=1e-3)


def test_an_extended_window_against_a_fixed_one_is_bounded_more_loosely_than_either_kind():
    fixed, late = trials_of(20), extended(30, 60.0)
    found = slowdown(fixed, late).slowdown
    assert "divided" in found.method
    assert found.center == pytest.approx(20 / 29)
    as_counts = count_ratio(Tally(20, 1.0), Tally(30, 1.0), 0.95)
    assert found.low < as_counts.low < as_counts.high < found.high


def test_nothing_committed_against_an_extended_window_is_a_bound():
    slower = slowdown(extended(30, 60.0), trials_of(0)).slowdown
    assert (slower.center, slower.high) == (math.inf, math.inf)
    assert slower.low > 1
    faster = slowdown(trials_of(0), extended(30, 60.0)).slowdown
    assert (faster.low, faster.center) == (0.0, 0.0)
    assert faster.high < 1


def test_a_long_extension_shows_as_little_as_any_single_trial_that_nothing_differs():
    found = slowdown(trials_of(1_000_000), extended(1_000_000, 60.0))
    assert "divided" in found.slowdown.method
    assert found.verdict is Verdict.INCONCLUSIVE


def test_noise_between_repeats_that_exceeds_the_chance_in_counting_is_not_forgotten():
    quiet = slowdown(trials_of(60_000), extended(30, 60.0)).slowdown
    noisy = slowdown(trials_of(60_000), extended(30, 60.0), noise=Noise(log_sd=0.5, dof=3)).slowdown
    assert noisy.high / noisy.low > 2 * quiet.high / quiet.low
    assert "noise of 4 repeats" in noisy.method


@pytest.mark.parametrize(
    ("low", "center", "high", "words"),
    [
        (1.1, 1.2, 1.3, "1.2× slower (1.1× to 1.3×)"),
        (0.0, 1.2, math.inf, "1.2× slower"),
        (1e-9, 0.5, 1e9, "2× faster"),
        (40.0, math.inf, math.inf, "at least 40× slower"),
        (0.0, 0.0, 0.02, "at least 50× faster"),
    ],
)
def test_bounds_that_say_nothing_yet_are_left_out(low, center, high, words):
    assert so_far_words(Interval(low, center, high, 0.95, "t")) == words
