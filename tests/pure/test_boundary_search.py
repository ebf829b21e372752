"""The search for the smallest value that works, under chance; and the knee of a curve."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.designs.boundary.curve import KneeVerdict, State, knee, search, spread
from pgdrag.units import size_of


def searched(count, works, *, rng=None):
    """Run a search; `works` gives the chance with which a value works. Return its end and the trials."""
    tries, trials = [[] for _ in range(count)], 0
    while (step := search(tries)).next is not None:
        chance = works(step.next)
        has_worked = chance >= 1 if rng is None else rng.random() < chance
        tries[step.next].append(has_worked)
        trials += 1
        assert trials < 200
    return step, trials


@given(st.integers(1, 60), st.integers(0, 60))
def test_the_smallest_working_value_is_found(count, boundary):
    step, trials = searched(count, lambda at: float(at >= boundary))
    if boundary >= count:
        assert (step.state, step.smallest) == (State.NONE_WORKS, None)
    else:
        assert step.smallest == boundary
        assert step.state is (State.ALL_WORK if boundary == 0 else State.FOUND)
        assert step.failing == (boundary - 1 if boundary else None)
    # Two trials a failing value, one a working one, and one more of the value found.
    assert trials <= 2 * (count.bit_length() + 2) + 1


def test_a_single_failure_is_repeated_before_it_counts():
    rng = np.random.default_rng(1)
    found = [
        searched(40, lambda at: 0.9 if at >= 25 else 0.0, rng=rng)[0].smallest for _ in range(300)
    ]
    assert sum(one == 25 for one in found) >= 270
    assert search([[], [], [True, False]]).next == 2


def test_a_value_that_works_only_by_chance_is_not_the_boundary():
    rng = np.random.default_rng(2)
    chances = {9: 0.3}
    found = [
        searched(20, lambda at: chances.get(at, float(at >= 10)), rng=rng)[0].smallest
        for _ in range(300)
    ]
    assert sum(one == 10 for one in found) >= 210
    assert set(found) <= {9, 10}


def test_places_of_the_curve_are_even_and_hold_both_ends():
    assert spread(3, 20, 5) == (3, 7, 11, 15, 19)
    assert spread(18, 20, 7) == (18, 19)
    assert spread(4, 5, 7) == (4,)


SIZES = [2.0**power for power in range(10)]


def curve(at, rng, *, slope=0.7, sd=0.03, repeats=2):
    """Return trials of a line that rises up to a value and then stays."""
    values = [size for size in SIZES for _ in range(repeats)]
    logs = [
        5 + slope * min(math.log(x / at), 0.0) + (rng.normal(0, sd) if sd else 0.0) for x in values
    ]
    return values, logs


def test_a_knee_without_noise_is_found_where_it_is():
    found = knee(*curve(32.0, np.random.default_rng(1), sd=0.0))
    assert found.verdict is KneeVerdict.KNEE
    assert found.size == pytest.approx(32.0, rel=0.03)
    assert found.slope == pytest.approx(0.7, rel=0.03)
    assert found.plateau_per_s == pytest.approx(math.exp(5), rel=0.02)


def test_the_interval_of_the_knee_covers_it():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(400):
        found = knee(*curve(24.0, rng))
        assert found.verdict is KneeVerdict.KNEE
        hits += found.low <= 24.0 <= found.high
    assert 0.91 <= hits / 400 <= 0.985


def test_no_knee_is_an_answer():
    rng = np.random.default_rng(4)
    rising = [knee(*curve(2000.0, rng)).verdict for _ in range(100)]
    assert sum(one is KneeVerdict.RISING for one in rising) >= 97
    flat = [knee(*curve(32.0, rng, slope=0.0)).verdict for _ in range(200)]
    assert sum(one is KneeVerdict.FLAT for one in flat) >= 184
    assert knee([1.0, 2.0], [0.0, 1.0]).verdict is KneeVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("text", "size"),
    [("128kB", 131072.0), ("0.5", 0.5), ("2s", 2.0), ("1e3", 1000.0), ("on", None)],
)
def test_values_are_read_as_numbers_with_their_units(text, size):
    assert size_of(text) == size
