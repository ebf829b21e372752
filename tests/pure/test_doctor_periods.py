"""A fall of throughput with a rise of waits is news; autocorrelated noise and a quieter load are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pgdrag.findings.doctor.periods import Change, Period, change_between
from pgdrag.model.measurement import Sample

SECONDS = 120


def period(commits: Sequence[float], **sessions: Sequence[float]) -> Period:
    samples = tuple(
        Sample(t_s=at + 1.0, duration_s=1.0, committed=max(round(x), 0))
        for at, x in enumerate(commits)
    )
    return Period(samples, {x: [(1.0, value) for value in each] for x, each in sessions.items()})


def noise(rng: np.random.Generator, correlation: float, size: int = SECONDS) -> list[float]:
    """A first-order autoregression of variance 1."""
    values = [float(rng.normal())]
    for _ in range(size - 1):
        step = float(rng.normal()) * (1 - correlation**2) ** 0.5
        values.append(correlation * values[-1] + step)
    return values


def around(rng: np.random.Generator, mean: float, correlation: float = 0.5) -> list[float]:
    return [mean * (1 + 0.1 * x) for x in noise(rng, correlation)]


def changed(rng: np.random.Generator, commits: float, locks: float) -> Change:
    before = period(around(rng, 1000), lock=around(rng, 1.0), io=around(rng, 0.5))
    now = period(around(rng, commits), lock=around(rng, locks), io=around(rng, 0.5))
    found = change_between(before, now)
    assert found is not None
    return found


def test_a_fall_with_a_rise_is_news_and_names_the_wait() -> None:
    found = changed(np.random.default_rng(1), 600, 3.0)
    assert found.is_news
    assert [rise.wait for rise in found.rises] == ["lock"]
    assert found.throughput.slowdown.center == pytest.approx(1000 / 600, rel=0.1)


def test_a_fall_without_a_rise_is_a_quieter_load_and_no_news() -> None:
    found = changed(np.random.default_rng(2), 600, 1.0)
    assert found.rises == ()
    assert not found.is_news


def test_a_rise_without_a_fall_is_no_news() -> None:
    found = changed(np.random.default_rng(3), 1000, 3.0)
    assert [rise.wait for rise in found.rises] == ["lock"]
    assert not found.is_news


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_autocorrelated_noise_is_no_news(correlation: float) -> None:
    rng = np.random.default_rng(4)
    false = 0
    for _ in range(100):
        sides = [
            period(
                around(rng, 1000, correlation),
                lock=around(rng, 1.0, correlation),
                io=around(rng, 1.0, correlation),
            )
            for _ in range(2)
        ]
        found = change_between(*sides)
        assert found is not None
        false += found.is_news
    assert false <= 1


def test_a_period_that_is_too_short_says_so() -> None:
    short = period([1000, 900, 1100, 1000], lock=[1, 1, 1, 1])
    found = change_between(short, short)
    assert found is not None
    assert "too few" in found.too_short
    assert change_between(period([]), short) is None


def test_a_wait_that_is_new_rises_from_nothing() -> None:
    rng = np.random.default_rng(5)
    before = period(around(rng, 1000), io=around(rng, 0.5))
    now = period(around(rng, 500), io=around(rng, 0.5), sync=around(rng, 2.0))
    found = change_between(before, now)
    assert found is not None
    assert [(rise.wait, rise.before) for rise in found.rises] == [("sync", 0.0)]
    assert found.is_news
