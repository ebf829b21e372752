"""When the horizon is to be held: laws that hold for every schedule, and levels as people write them."""

from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.errors import UsageError
from pgdrag.horizon.schedule import (
    SHORTEST_S,
    Draw,
    Hold,
    HoldLength,
    parse_length,
    replay,
    schedule,
)

SECONDS = st.floats(0.5, 50)
LENGTHS = st.one_of(
    st.builds(lambda s: HoldLength("fixed", (s,)), SECONDS),
    st.builds(lambda s: HoldLength("exponential", (s,)), SECONDS),
    st.builds(lambda a, b: HoldLength("uniform", (min(a, b), max(a, b))), SECONDS, SECONDS),
    st.builds(lambda m, s: HoldLength("lognormal", (m, s)), SECONDS, st.floats(0.1, 2)),
)
BEGINS = st.floats(-10, 20)
SEEDS = st.integers(0, 2**32)
END_S = 60.0


def one_kind(holder: str, length: HoldLength) -> Draw:
    return lambda rng: (holder, length.draw(rng))


def oldest_begin(holds: tuple[Hold, ...], at_s: float) -> float | None:
    """The begin of the oldest hold in force at a moment: what the horizon stands at."""
    return min((x.begin_s for x in holds if x.begin_s <= at_s < x.end_s), default=None)


@given(LENGTHS, BEGINS, st.integers(2, 5), SEEDS)
def test_a_shifting_horizon_is_never_free_and_never_goes_back(
    length: HoldLength, begin_s: float, holders: int, seed: int
) -> None:
    source = one_kind("snapshot", length)
    holds = schedule(source, "shifting", begin_s=begin_s, end_s=END_S, holders=holders, seed=seed)
    assert holds[0].begin_s == begin_s
    moments = sorted({END_S - 1e-3, *(x.begin_s for x in holds), *(x.end_s for x in holds)})
    stands = [oldest_begin(holds, at_s) for at_s in moments if begin_s <= at_s < END_S]
    assert None not in stands
    found = [x for x in stands if x is not None]
    assert found == sorted(found)


@given(LENGTHS, BEGINS, st.integers(1, 4), SEEDS)
def test_repeated_holds_follow_each_other_without_a_gap_and_so_many_at_once(
    length: HoldLength, begin_s: float, holders: int, seed: int
) -> None:
    source = one_kind("transaction", length)
    holds = schedule(source, "repeated", begin_s=begin_s, end_s=END_S, holders=holders, seed=seed)
    for at_s in (begin_s, (begin_s + END_S) / 2, END_S - 1e-3):
        assert sum(x.begin_s <= at_s < x.end_s for x in holds) == holders
    ends = {x.end_s for x in holds}
    assert all(x.begin_s == begin_s or x.begin_s in ends for x in holds)


@given(LENGTHS, BEGINS, st.integers(1, 4), SEEDS)
def test_holds_that_are_made_once_begin_together(
    length: HoldLength, begin_s: float, holders: int, seed: int
) -> None:
    source = one_kind("cursor", length)
    holds = schedule(source, "once", begin_s=begin_s, end_s=END_S, holders=holders, seed=seed)
    assert [x.begin_s for x in holds] == [begin_s] * holders
    assert all(SHORTEST_S <= x.length_s < math.inf for x in holds)


@given(LENGTHS, st.sampled_from(["once", "repeated", "shifting"]), SEEDS)
def test_a_seed_is_all_that_a_schedule_depends_on(
    length: HoldLength, pattern: str, seed: int
) -> None:
    first, again = (
        schedule(
            one_kind("prepared", length),
            pattern,  # type: ignore[arg-type]
            begin_s=0,
            end_s=END_S,
            holders=2,
            seed=seed,
        )
        for _ in range(2)
    )
    assert first == again
    assert list(first) == sorted(first, key=lambda x: x.begin_s)


def test_a_fixed_length_shifts_by_its_share() -> None:
    source = one_kind("snapshot", HoldLength("fixed", (10.0,)))
    holds = schedule(source, "shifting", begin_s=0, end_s=12, holders=2, seed=1)
    assert [(x.begin_s, x.end_s) for x in holds] == [(0, 10), (5, 15), (10, 20)]


def test_a_hold_for_the_window_lasts_to_the_trials_end_and_has_no_next() -> None:
    source = one_kind("snapshot", parse_length("window"))
    for pattern in ("once", "repeated"):
        [hold] = schedule(source, pattern, begin_s=2, end_s=12, holders=1, seed=1)  # type: ignore[arg-type]
        assert hold == Hold(2, math.inf, "snapshot")


@pytest.mark.parametrize("pattern", ["once", "repeated", "shifting"])
def test_a_hold_that_would_begin_after_the_end_is_planned_and_not_left_out(pattern: str) -> None:
    source = one_kind("snapshot", parse_length("5s"))
    holds = schedule(source, pattern, begin_s=60, end_s=2, holders=2, seed=1)  # type: ignore[arg-type]
    assert {x.begin_s for x in holds} == {60}


class Captured:
    """Two kinds in turn, of one and three seconds, every two seconds."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self, rng: random.Random) -> tuple[str, float]:
        self.drawn += 1
        return ("cursor", 1.0) if self.drawn % 2 else ("slot", 3.0)

    def draw_gap(self, rng: random.Random) -> float:
        return 2.0


def test_what_was_captured_begins_at_its_gaps_and_may_overlap() -> None:
    holds = replay(Captured(), begin_s=1, end_s=6, seed=1)
    assert holds == (Hold(1, 1, "cursor"), Hold(3, 3, "slot"), Hold(5, 1, "cursor"))
    assert [b.begin_s - a.end_s for a, b in pairwise(holds)] == [1, -1]


@pytest.mark.parametrize(
    ("text", "median_s", "mean_s"),
    [
        ("30s", 30, 30),
        ("1.5 min", 90, 90),
        ("exponential(20s)", 20 * math.log(2), 20),
        ("uniform(10s, 1min)", 35, 35),
        ("lognormal(20s, 0.5)", 20, 20 * math.exp(0.125)),
    ],
)
def test_lengths_are_drawn_as_they_are_written(text: str, median_s: float, mean_s: float) -> None:
    rng = random.Random(7)
    drawn = [parse_length(text).draw(rng) for _ in range(20_000)]
    assert statistics.median(drawn) == pytest.approx(median_s, rel=0.05)
    assert statistics.fmean(drawn) == pytest.approx(mean_s, rel=0.05)


def test_no_hold_is_shorter_than_one_can_be() -> None:
    rng = random.Random(7)
    length = parse_length("exponential(100ms)")
    assert min(length.draw(rng) for _ in range(100)) == SHORTEST_S


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("long", '"long" is not a duration'),
        ("-5s", '"-5s" is not a duration: it is negative'),
        ("10ms", "10ms is shorter than 0.05 s, the shortest hold"),
        ("gamma(20s)", 'unknown distribution "gamma"'),
        ("uniform(5s)", "uniform takes 2 numbers"),
        ("exponential()", "exponential takes 1 number"),
        ("uniform(60s, 5s)", "60s is longer than 5s"),
        ("lognormal(20s, wide)", '"wide" is not a number'),
        (
            "lognormal(20s, 0)",
            "the standard deviation of the logarithm must be above 0 and at most 10",
        ),
        ("exponential(20 apples)", '"20 apples" is not a duration'),
    ],
)
def test_what_is_no_length_says_why_and_what_is(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_length(text)
    assert caught.value.message == f'"{text}" is not a length of a hold: {why}'
    assert "exponential(20s)" in (caught.value.hint or "")
