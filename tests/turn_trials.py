"""Trials in whose windows the collectors look and rest in turns, with a known cost of looking."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis_runs import measurement, result
from pgdrag.collectors import BLOCK_S, Turns
from pgdrag.model import Result
from pgdrag.model.measurement import Sample


def looked_at_in_turns(
    *,
    blocks: int,
    cost: float,
    noise: float = 0.0,
    drift_per_s: float = 0.0,
    late_s: float = 0.0,
    seed: int = 1,
    rate_per_s: float = 20_000,
) -> Result:
    """Make a trial of one-second intervals.

    Args:
        cost: throughput at rest divided by that while looking.
        noise: standard deviation of an interval's log rate.
        late_s: by how much the driver's window began after the first turn.
    """
    rng = np.random.default_rng(seed)
    turns = Turns(seed)
    length_s = int(blocks * BLOCK_S)
    samples = []
    for at in range(length_s):
        # Within an interval that a turn's border cuts, both parts count.
        shares = [turns.looks(at + late_s + part / 10) for part in range(10)]
        log = -np.log(cost) * np.mean(shares) + drift_per_s * at + noise * rng.standard_normal()
        samples.append(Sample(at + 1.0, 1.0, round(rate_per_s * float(np.exp(log)))))
    turns.begin(100.0 - late_s)
    turns.end(100.0 - late_s + length_s)
    measured = measurement(sum(x.committed for x in samples), samples=samples)
    one = result("in turns", 1, number=seed)
    return replace(one, measurement=measured, recordings=turns.recordings(100.0))
