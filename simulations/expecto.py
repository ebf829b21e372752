"""How often do two unrelated series look correlated, smoothed and raw?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pgdrag.findings.expecto.analysis import correlation
from pgdrag.findings.expecto.published import smoothed_correlation, trailing_medians
from simulations.rows import Row, share_row

REPEATS = 4000
SIGNIFICANT = 0.05
# Of a trial at a scale of fifteen seconds, of a minute, and of three hours of one value a minute, with
# windows of a third of them: of five, twenty and sixty values. An hour of minutes is what was published.
LENGTHS = (15, 60, 180)
MEMORIES = (0.0, 0.5, 0.9)  # of noise: autocorrelation from one interval to the next
_RELATED = 0.5  # Pearson's r of two series that share a part
_FORGOTTEN = 200  # intervals before the first one: by then noise has forgotten where it began

Values = NDArray[np.float64]


def simulate(scale: float) -> list[Row]:
    """Return how often independent series are called correlated, and how often an interval covers r."""
    repeats = max(round(REPEATS * scale), 200)
    rng = np.random.default_rng(23)
    rows: list[Row] = []
    for n, memory in product(LENGTHS, MEMORIES):
        name = f"expecto, {n} intervals, noise with autocorrelation {memory:g}"
        smoothed, raw = false_alarms(rng, n, memory, repeats)
        rows += [
            share_row(f"{name}: independent, trailing medians say correlated", smoothed, repeats),
            share_row(f"{name}: independent, raw intervals say so", raw, repeats, "<= 0.05"),
        ]
    rows += [
        share_row(
            f"expecto, {n} intervals, noise with autocorrelation {memory:g}: interval covers r = 0.5",
            covered(rng, n, memory, repeats),
            repeats,
            ">= 0.93",
        )
        for n, memory in product(LENGTHS[1:], MEMORIES)
    ]
    return rows


def false_alarms(rng: np.random.Generator, n: int, memory: float, repeats: int) -> tuple[int, int]:
    """Count pairs of independent series called correlated: by trailing medians, and by raw intervals."""
    smoothed = raw = 0
    for one, other in pairs(rng, n, memory, repeats):
        medians = [trailing_medians(side, n // 3) for side in (one, other)]
        published, sound = smoothed_correlation(*medians), correlation(one, other)
        assert published is not None
        assert sound is not None
        smoothed += published.p <= SIGNIFICANT
        raw += sound.p <= SIGNIFICANT
    return smoothed, raw


def covered(rng: np.random.Generator, n: int, memory: float, repeats: int) -> int:
    """Count intervals of raw series that hold the true r of 0.5."""
    count = 0
    for one, other in pairs(rng, n, memory, repeats):
        related = _RELATED * one + np.sqrt(1 - _RELATED**2) * other
        found = correlation(one, related)
        assert found is not None
        count += found.low <= _RELATED <= found.high
    return count


def pairs(
    rng: np.random.Generator, n: int, memory: float, repeats: int
) -> Iterator[tuple[Values, Values]]:
    """Yield pairs of independent first-order autoregressions of normal noise."""
    for _ in range(repeats):
        yield noise(rng, n, memory), noise(rng, n, memory)


def noise(rng: np.random.Generator, n: int, memory: float) -> Values:
    """Return a first-order autoregression of normal noise."""
    lots = rng.standard_normal(n + _FORGOTTEN)
    for at in range(1, len(lots)):
        lots[at] += memory * lots[at - 1]
    return lots[_FORGOTTEN:]
