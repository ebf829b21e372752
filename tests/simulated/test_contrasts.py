"""Do intervals that share the noise of all treatments cover the truth as often as they say?

Every test is seeded; the margins allow for the chance in the number of runs (two standard errors).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdrag.stats.linear_model import Fit, fit
from pgdrag.stats.rates import TrialRate

RUNS = 1200
MARGIN = 2 * math.sqrt(0.05 * 0.95 / RUNS)  # 1.3 %
# Log throughputs of a ladder of four steps with single changes: half of them share a treatment.
TRUTH = {"R0": 7.0, "R1": 7.1, "R2": 7.1, "R3": 7.5, "alone": 7.4, "without": 7.15, "both": 7.6}
INTERACTION = {"R0": 1.0, "R1": -1.0, "alone": -1.0, "both": 1.0}
STEP = {"R2": 1.0, "R3": -1.0}


def run(rng: np.random.Generator, *, blocks: int, sd: float, lost: float = 0.0) -> Fit:
    """Make a run whose blocks lie far apart, some of whose trials are lost."""
    drift = rng.normal(0, 0.3, blocks)
    trials: dict[str, list[TrialRate]] = {name: [] for name in TRUTH}
    for block in range(blocks):
        for name, level in TRUTH.items():
            if rng.random() >= lost:
                rate = math.exp(level + drift[block] + rng.normal(0, sd))
                trials[name].append(TrialRate(block + 1, int(rng.poisson(rate * 60)), 60.0))
    return fit(trials)


def truth_of(weights: dict[str, float]) -> float:
    return sum(weight * TRUTH[name] for name, weight in weights.items())


@pytest.mark.parametrize("weights", [STEP, INTERACTION])
@pytest.mark.parametrize(("blocks", "lost"), [(2, 0.0), (4, 0.0), (5, 0.3)])
def test_a_contrast_is_covered(weights: dict[str, float], blocks: int, lost: float) -> None:
    rng = np.random.default_rng(1)
    hits = told = 0
    for _ in range(RUNS):
        found = run(rng, blocks=blocks, sd=0.05, lost=lost).contrast(weights)
        if found is None:  # of trials that were lost
            continue
        told += 1
        interval = found.interval()
        hits += interval.low <= math.exp(truth_of(weights)) <= interval.high
    assert told > 0.9 * RUNS
    assert 0.95 - 1.5 * MARGIN <= hits / told <= 0.97 + MARGIN


def test_a_part_of_the_whole_is_covered() -> None:
    rng = np.random.default_rng(2)
    part, whole = {"R0": 1.0, "alone": -1.0}, {"R0": 1.0, "R3": -1.0}
    hits = told = 0
    for _ in range(RUNS):
        found = run(rng, blocks=3, sd=0.05).part(part, whole)
        if found is not None:
            told += 1
            hits += found.low <= truth_of(part) / truth_of(whole) <= found.high
    assert told > 0.99 * RUNS
    assert 0.95 - 1.5 * MARGIN <= hits / told <= 0.97 + MARGIN


def test_sharing_noise_makes_intervals_of_two_blocks_usable() -> None:
    rng = np.random.default_rng(3)
    widths, alone = [], []
    for _ in range(100):
        found = run(rng, blocks=2, sd=0.05)
        widths.append(found.contrast(STEP).half_width())  # type: ignore[union-attr]
        pair = {name: np.log([one.per_s for one in found.trials[name]]) for name in STEP}
        alone.append(12.7 * abs(float(np.diff(pair["R2"] - pair["R3"])[0])) / 2)
    assert float(np.median(widths)) < 0.15 < float(np.median(alone))


def test_no_change_is_called_one_in_one_of_twenty() -> None:
    rng = np.random.default_rng(4)
    called = 0
    for _ in range(RUNS):
        found = run(rng, blocks=2, sd=0.05).slowdown("R1", "R2")
        assert found is not None
        interval = found.comparison().slowdown
        is_called = not interval.low <= 1 <= interval.high
        assert is_called == (found.p_value < 0.05)
        called += is_called
    assert abs(called / RUNS - 0.05) < 1.5 * MARGIN
