"""Modes of distributions: planted ones are found, noise is none, and what a histogram holds is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.stats.hdr_histogram import bounds_us, decoded, encoded
from pgdrag.stats.modes import LEAST_VALUES, Mode, Shape, modes_of, shape_of


def shape(values_us: np.ndarray) -> Shape:
    places = int(np.log2(values_us.max()) + 2) * 1024
    lowest, width = bounds_us(places)
    at = np.searchsorted(lowest, values_us.astype(np.int64), side="right") - 1
    return shape_of(lowest, width, np.bincount(at, minlength=places))


def modes(*parts: tuple[float, float, int], seed: int = 1) -> tuple[Mode, ...]:
    """The modes of log-normal parts: (median in µs, standard deviation of the logarithm, values)."""
    rng = np.random.default_rng(seed)
    return modes_of(
        shape(np.concatenate([m * np.exp(sd * rng.standard_normal(n)) for m, sd, n in parts]))
    )


def test_two_planted_modes_are_found_with_their_shares():
    fast, slow = modes((1_000, 0.15, 8_000), (20_000, 0.2, 2_000))
    assert fast.center == pytest.approx(1_000, rel=0.1)
    assert slow.center == pytest.approx(20_000, rel=0.1)
    assert (fast.share, slow.share) == (pytest.approx(0.8, abs=0.01), pytest.approx(0.2, abs=0.01))
    assert fast.high == slow.low


@pytest.mark.parametrize("median", [25, 1_000, 400_000])
@pytest.mark.parametrize("count", [150, 2_000, 50_000])
def test_one_mode_stays_one_whatever_its_noise(median: float, count: int):
    # The steps of small times hold two or three microseconds each, which must not look like teeth.
    found = [len(modes((median, 0.5, count), seed=seed)) for seed in range(20)]
    assert found.count(1) >= 19


def test_a_mode_of_too_few_values_is_none():
    assert len(modes((1_000, 0.15, 10_000), (50_000, 0.1, 100))) == 1


def test_a_handful_of_values_has_no_modes():
    assert modes((1_000, 0.15, LEAST_VALUES // 2)) == ()
    assert modes_of(Shape(0, ())) == ()


@given(st.lists(st.integers(1, 3_000_000_000), min_size=1, max_size=200))
def test_every_value_of_a_histogram_is_in_its_shape_and_between_its_ends(values: list[int]):
    found = shape(np.asarray(values))
    assert sum(found.counts) == pytest.approx(len(values))
    assert found.edge(0) <= min(values)
    assert max(values) <= found.edge(len(found.counts)) * 1.001


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=3000).filter(any))
def test_a_histogram_is_read_back_as_it_was_written(counts: list[int]):
    read = decoded(encoded(np.asarray(counts, np.int64)))
    assert np.array_equal(np.trim_zeros(read, "b"), np.trim_zeros(np.asarray(counts), "b"))


@pytest.mark.parametrize("text", ["", "no", "AAAA", "HISTFAAAAA=="])
def test_what_is_no_histogram_is_refused(text: str):
    with pytest.raises(ValueError, match=r"\S"):
        decoded(text)
