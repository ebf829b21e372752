"""Trailing medians find correlations in noise; raw intervals rarely do: docs/method.md."""

from __future__ import annotations

import numpy as np
import pytest

from pgdrag.findings.expecto.analysis import expecto_finding
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings, Series
from simulations.expecto import covered, false_alarms, noise

REPEATS = 500


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_independent_series_correlate_as_trailing_medians_and_rarely_as_raw_intervals(
    memory: float,
) -> None:
    smoothed, raw = false_alarms(np.random.default_rng(1), 60, memory, REPEATS)
    assert smoothed >= 0.5 * REPEATS
    assert raw <= 0.1 * REPEATS


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_the_interval_of_a_real_correlation_covers_it(memory: float) -> None:
    assert covered(np.random.default_rng(2), 60, memory, REPEATS) >= 0.9 * REPEATS


def test_a_trial_of_noise_has_no_significant_correlation_where_the_published_view_has() -> None:
    """Four wait types unrelated to throughput, in 100 trials of a minute."""
    rng = np.random.default_rng(3)
    names = ("io_wait", "lock_wait", "lwlock_wait", "ipc_wait")
    told = passing = 0
    for _ in range(100):
        times = tuple(float(at) for at in range(1, 61))
        rates = np.round(1000 + 30 * noise(rng, 60, 0.5)).astype(int)
        samples = tuple(Sample(at, 1.0, int(rate)) for at, rate in zip(times, rates, strict=True))
        series = tuple(
            Series(f"{name}_sessions", name, "count", times, tuple(20 + noise(rng, 60, 0.5)))
            for name in names
        )
        found = expecto_finding(samples, Recordings(series))
        assert found is not None
        assert len(found.wait_types) == len(names)
        told += any(one.q is not None and one.q <= 0.05 for one in found.wait_types)
        passing += any(
            one.published is not None and one.published.p <= 0.05 for one in found.wait_types
        )
    assert told <= 10
    assert passing >= 90
