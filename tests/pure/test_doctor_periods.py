"""A fall of throughput with a rise of waits is news; autocorrelated noise and a quieter load are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pgdrag.findings.doctor.periods import COMMITS, Change, Period, change_between, period_of
from pgdrag.findings.doctor.since import Since, period_of_stretch, since_words
from pgdrag.model.live import LiveWindow
from pgdrag.model.measurement import Sample
from pgdrag.model.observed import ObservedSeries, ObservedServer, Quantity, Spread, Stretch
from pgdrag.model.recordings import Recordings, Series

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


def test_a_fall_with_a_rise_is_regression_and_names_the_wait() -> None:
    found = changed(np.random.default_rng(1), 600, 3.0)
    assert found.is_regression
    assert [rise.wait for rise in found.rises] == ["lock"]
    assert found.throughput.slowdown.center == pytest.approx(1000 / 600, rel=0.1)


def test_a_fall_without_a_rise_is_a_quieter_load_and_no_news() -> None:
    found = changed(np.random.default_rng(2), 600, 1.0)
    assert found.rises == ()
    assert not found.is_regression


def test_a_rise_without_a_fall_is_no_news() -> None:
    found = changed(np.random.default_rng(3), 1000, 3.0)
    assert [rise.wait for rise in found.rises] == ["lock"]
    assert not found.is_regression


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
        false += found.is_regression
    assert false <= 1


def test_a_period_that_is_too_short_says_so() -> None:
    short = period([1000, 900, 1100, 1000], lock=[1, 1, 1, 1])
    found = change_between(short, short)
    assert found is not None
    assert found.too_short.startswith("4 intervals cannot show")
    assert change_between(period([]), short) is None


def test_a_wait_that_is_new_rises_from_nothing() -> None:
    rng = np.random.default_rng(5)
    before = period(around(rng, 1000), io=around(rng, 0.5))
    now = period(around(rng, 500), io=around(rng, 0.5), sync=around(rng, 2.0))
    found = change_between(before, now)
    assert found is not None
    assert [(rise.wait, rise.before) for rise in found.rises] == [("sync", 0.0)]
    assert found.is_regression


def stretch(commits: Sequence[float], locks: Sequence[float]) -> Stretch:
    ends = tuple(1000.0 + 10 * (at + 1) for at in range(len(commits)))

    def series(name: str, values: Sequence[float]) -> ObservedSeries:
        spreads = tuple(Spread(x, x, x, 10.0) for x in values)
        quantity = Quantity(name, name, "count")
        return ObservedSeries(quantity, tuple(x - 10 for x in ends), ends, spreads)

    return Stretch(
        file="shop.obs", server=ObservedServer("database", "18.6"), began_unix_s=1000.0, ended_unix_s=ends[-1],
        observed_s=10.0 * len(commits), resolutions=(), waits={}, statements={}, events=(), settings=(),
        series=(series("commits_per_s", commits), series("lock_wait_sessions", locks)),
    )  # fmt: skip


def test_a_period_is_made_of_observations_and_of_a_window() -> None:
    kept = period_of_stretch(stretch([100.0, 200.0], [0.5, 1.5]))
    assert [(x.t_s, x.duration_s, x.committed) for x in kept.samples] == [
        (10.0, 10.0, 1000),
        (20.0, 10.0, 2000),
    ]
    assert kept.sessions == {"waiting for locks": [(10.0, 0.5), (10.0, 1.5)]}
    series = (
        Series(COMMITS, "", "1/s", (1.0, 2.0), (100.0, 200.0)),
        Series("lock_wait_sessions", "", "count", (1.0, 2.5), (0.5, 1.5)),
        Series("client_wait_sessions", "", "count", (1.0,), (9.0,)),
    )
    seen = period_of(LiveWindow("", "", 0.0, 2.0, 300, recordings=Recordings(series)))
    assert [(x.t_s, x.committed) for x in seen.samples] == [(1.0, 100), (2.0, 200)]
    assert seen.sessions == {"waiting for locks": [(1.0, 0.5), (1.5, 1.5)]}


def test_the_words_say_a_regression_a_quieter_load_and_what_is_too_short() -> None:
    rng = np.random.default_rng(6)
    assert "throughput fell by a factor of 1.6" in since_words(changed(rng, 600, 3.0), "shop.obs")
    assert "the load is lower" in since_words(changed(rng, 600, 1.0), "shop.obs")
    assert "has not fallen" in since_words(changed(rng, 1000, 1.0), "shop.obs")
    short = period([1000, 900, 1100, 1000])
    assert "no verdict" in since_words(change_between(short, short), "shop.obs")
    assert "cannot compare" in since_words(None, "shop.obs")
    assert Since.of("shop.obs", changed(rng, 600, 3.0)).is_regression


def test_what_rose_is_not_said_to_have_fallen() -> None:
    found = change_between(period([500, 450, 550, 500]), period([1000, 900, 1100, 1000]))
    assert "Throughput did not fall (99% CI" in since_words(found, "shop.obs")


def test_a_small_fall_with_longer_waits_is_not_a_lower_load() -> None:
    rng = np.random.default_rng(9)
    before, now = ([mean * (1 + 0.01 * x) for x in noise(rng, 0.0)] for mean in (1000, 950))
    found = change_between(
        period(before, lock=around(rng, 1.0)), period(now, lock=around(rng, 3.0))
    )
    assert found is not None
    assert not found.is_regression
    words = since_words(found, "shop.obs")
    assert "below the 1.1 that counts as a regression. Average waiting sessions" in words
    assert "the load is lower" not in words


def test_the_json_says_how_many_statements_were_compared_and_why_none() -> None:
    told = Since.of("shop.obs", None, not_compared="Too short.")
    assert (told.statements_compared, told.not_compared) == (0, "Too short.")
