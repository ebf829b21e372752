"""Lengths of holds are estimated from samples: with holds missed, begun before and not ended."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis.strategies import floats, integers, lists

from pgdrag.stats.hold_lengths import (
    TOLERANCE,
    BoundedHold,
    LengthCurve,
    SeenHold,
    distance,
    estimate_lengths,
    kolmogorov_smirnov,
    log_wasserstein,
    product_limit,
)

LENGTHS = lists(floats(0.01, 1e5), min_size=1, max_size=40)


def empirical(*lengths_s: float) -> LengthCurve:
    found = product_limit([SeenHold(x) for x in lengths_s])
    assert found is not None
    return found


def test_without_truncation_and_censoring_it_is_the_empirical_share() -> None:
    found = empirical(1, 2, 2, 5)
    assert found.lengths_s == (1, 2, 5)
    assert found.longer == pytest.approx((0.75, 0.25, 0))
    assert [found.quantile(x) for x in (0.25, 0.26, 0.75, 1)] == [1, 2, 2, 5]
    assert [found.longer_than(x) for x in (0.5, 1, 4.9, 5)] == pytest.approx([1, 0.75, 0.25, 0])


def test_the_textbook_example_of_the_product_limit() -> None:
    # 6-MP arm of Freireich et al. 1963, as in every textbook: S(6) = 18/21, S(10) = 0.753, S(23) = 0.448.
    ended = (6, 6, 6, 7, 10, 13, 16, 22, 23)
    censored = (6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35)
    found = product_limit(
        [SeenHold(x) for x in ended] + [SeenHold(x, has_ended=False) for x in censored]
    )
    assert found is not None
    shown = [round(found.longer_than(x), 3) for x in (6, 7, 10, 13, 16, 22, 23)]
    assert shown == [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]
    assert found.open_share == pytest.approx(0.448, abs=5e-4)
    assert found.lengths_s[-1] == 35


def test_holds_without_an_end_last_as_long_as_they_were_seen() -> None:
    found = product_limit([SeenHold(7.0, has_ended=False), SeenHold(9.0, has_ended=False)])
    assert found == LengthCurve((9.0,), (0.0,), open_share=1.0)
    assert product_limit([]) is None


@given(LENGTHS)
@example([1.0, 1.0, 1.0, *map(float, range(1, 12)), 0.5])
@example([*map(float, range(1, 9)), 1.5, 99999.99999999999, 100000.0, 1.0])
def test_a_thinned_curve_keeps_its_longest_and_stays_close(lengths_s: list[float]) -> None:
    curve = empirical(*lengths_s)
    thin = curve.thinned(10)
    assert len(thin.lengths_s) <= 10
    assert thin.lengths_s[-1] == curve.lengths_s[-1]
    # What becomes one step is less than an eighth, and one step more.
    heaviest = max(mass for _, mass in curve.steps())
    assert kolmogorov_smirnov(curve, thin) <= 1 / 8 + heaviest + 1e-9


@given(LENGTHS, LENGTHS)
def test_the_distance_is_a_metric(first_s: list[float], second_s: list[float]) -> None:
    first, second = empirical(*first_s), empirical(*second_s)
    assert log_wasserstein(first, first) == 0
    assert log_wasserstein(first, second) == pytest.approx(log_wasserstein(second, first))
    # Lengths that differ by rounding alone are next to each other, and yet two.
    assert log_wasserstein(first, second) < 1e-9 or kolmogorov_smirnov(first, second) >= 1e-12


@given(LENGTHS, floats(1.01, 50))
def test_holds_longer_by_a_factor_are_that_factor_away(
    lengths_s: list[float], factor: float
) -> None:
    longer = empirical(*(x * factor for x in lengths_s))
    assert math.exp(log_wasserstein(empirical(*lengths_s), longer)) == pytest.approx(factor)


BIMODAL = LengthCurve((1.0, 5.0), (0.3, 0.0))


def drawn(rng: random.Random, number: int) -> list[SeenHold]:
    return [SeenHold(5.0 if rng.random() < 0.3 else 1.0) for _ in range(number)]


def test_a_faithful_repetition_is_alike_and_one_half_as_long_is_not() -> None:
    rng = random.Random(7)
    alike = [distance(BIMODAL, drawn(rng, 20), longest_s=60, seed=1).is_alike for _ in range(12)]
    assert sum(alike) >= 10
    half = [SeenHold(x.length_s / 2) for x in drawn(rng, 60)]
    found = distance(BIMODAL, half, longest_s=60, seed=1)
    assert not found.is_alike
    assert found.low <= found.factor <= found.high
    assert found.factor > TOLERANCE


def test_what_the_window_cuts_off_is_no_difference() -> None:
    cut = [*[SeenHold(1.0)] * 7, *[SeenHold(3.0, has_ended=False)] * 3]
    found = distance(BIMODAL, cut, longest_s=3.0, seed=1)
    assert found.factor == pytest.approx(1.0)
    assert found.quantiles == ((0.1, 1.0, 1.0), (0.5, 1.0, 1.0), (0.9, 3.0, 3.0))


def looked_at(
    rng: random.Random, draw: Callable[[random.Random], float], every_s: float, captured_s: float
) -> list[BoundedHold]:
    """Return what samples show of holds that begin at random, five a sample, with their ends."""
    found = []
    begin_s = -50.0
    while True:
        begin_s += rng.expovariate(5 / every_s)
        if begin_s > captured_s - every_s:
            return found
        end_s = begin_s + draw(rng)
        first_look_s = max(0.0, math.ceil(begin_s / every_s) * every_s)
        if end_s <= first_look_s:
            continue
        has_ended = end_s <= captured_s
        low_s = min(end_s, captured_s) - begin_s
        entry_s = first_look_s - begin_s if begin_s < 0 else None
        found.append(BoundedHold(low_s, low_s if has_ended else math.inf, entry_s))


@pytest.mark.parametrize("every_s", [0.5, 2.0, 4.0])
def test_two_modes_are_recovered_at_any_sampling_interval(every_s: float) -> None:
    """Also where samples meet only one in four of the short holds; the tolerance is that of a replay."""

    def draw(rng: random.Random) -> float:
        return (1.0 if rng.random() < 0.7 else 9.0) * math.exp(rng.gauss(0, 0.1))

    rng = random.Random(11)
    truth = empirical(*(draw(rng) for _ in range(4000)))
    worst = 1.0
    for _ in range(8):
        seen = looked_at(rng, draw, every_s, 60 * every_s)
        found = estimate_lengths(seen, every_s=every_s, shortest_s=every_s / 10).curve
        assert found is not None
        worst = max(worst, math.exp(log_wasserstein(truth, found)))
        assert found.longer_than(3.0) == pytest.approx(0.3, abs=0.12)
    assert worst < TOLERANCE


def test_a_hold_that_was_old_when_first_met_does_not_count_for_shorter_ones() -> None:
    young = [BoundedHold(1.0, 1.0), BoundedHold(1.1, 1.1), BoundedHold(20.0, 20.0)]
    old = BoundedHold(30.0, 30.0, entry_s=10.0)
    found = estimate_lengths([*young, old], every_s=1.0, shortest_s=0.1).curve
    assert found is not None
    # Of the young ones a third last 20 s, and of those two that were met at that age, one more.
    assert found.longer_than(2) == pytest.approx(1 / 3, abs=0.01)
    assert found.longer_than(21) == pytest.approx(1 / 6, abs=0.01)


# Lengths within a few per cent of each other are one: these are a tenth apart.
STEPS = integers(0, 60)


@given(lists(STEPS, min_size=1, max_size=30), lists(STEPS, max_size=5))
def test_where_all_ends_are_known_the_estimate_is_the_product_limit(
    ended: list[int], censored: list[int]
) -> None:
    ended_s, censored_s = [1.1**x for x in ended], [1.1 ** (x + 0.5) for x in censored]
    bounded = [BoundedHold(x, x) for x in ended_s]
    bounded += [BoundedHold(x, math.inf) for x in censored_s]
    found = estimate_lengths(bounded, every_s=1.0, shortest_s=0.1)
    wanted = product_limit(
        [SeenHold(x) for x in ended_s] + [SeenHold(x, has_ended=False) for x in censored_s]
    )
    assert found.curve is not None
    assert wanted is not None
    assert math.exp(log_wasserstein(wanted, found.curve)) < 1.04
    assert found.curve.open_share == pytest.approx(wanted.open_share, abs=0.01)
    assert found.number == pytest.approx(len(bounded))
    assert found.met_share == pytest.approx(1.0)


def test_ages_bound_the_lengths_where_ends_do_not() -> None:
    """Holds of a second met by samples two seconds apart: none is met older, so none lasts longer."""
    rng = random.Random(2)
    ages = [rng.random() for _ in range(400)]
    found = estimate_lengths([BoundedHold(x, x + 2) for x in ages], every_s=2.0, shortest_s=0.2)
    assert found.curve is not None
    assert found.curve.quantile(0.5) == pytest.approx(1.0, rel=0.15)
    assert found.met_share == pytest.approx(0.5, abs=0.08)
    assert found.number == pytest.approx(800, rel=0.15)


def test_thousands_of_short_holds_do_not_count_as_a_few_long_ones() -> None:
    rng = random.Random(2)
    short = [BoundedHold(0.002 * rng.random(), 1.0) for _ in range(2000)]
    long = [BoundedHold(5.0, 5.0) for _ in range(20)]
    found = estimate_lengths(short + long, every_s=1.0, shortest_s=0.1)
    assert found.curve is not None
    assert found.curve.longer_than(4.9) > 0.9
    assert found.number == pytest.approx(20, rel=0.1)
    assert estimate_lengths(short, every_s=1.0, shortest_s=0.1).curve is None
