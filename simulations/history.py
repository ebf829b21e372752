"""Do histories of runs show changes of the level, and none where there is none?"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pgdrag.stats.change_points import change_points
from simulations.rows import Row, share_row

HISTORIES = 2000
NOISE = 0.03

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
_NOISES: dict[str, Draw] = {
    "normal": lambda rng, count: rng.normal(0, NOISE, count),
    "one run in ten at half speed": lambda rng, count: (
        rng.normal(0, NOISE, count) - math.log(2) * (rng.random(count) < 0.1)
    ),
}


def simulate(scale: float) -> list[Row]:
    """Return what histories of runs that differ by 3 % show."""
    count = max(round(HISTORIES * scale), 20)
    rng = np.random.default_rng(23)
    rows = []
    for noise, draw in _NOISES.items():
        for runs in (8, 20, 60):
            alarms = sum(bool(change_points(draw(rng, runs).tolist())) for _ in range(count))
            name = f"history, {runs} runs, {noise}: a change seen where there is none"
            rows.append(share_row(name, alarms, count, "<= 0.05"))
    for runs, after, size in (
        (8, 4, 1.10),
        (20, 10, 1.05),
        (20, 3, 1.10),
        (60, 2, 1.20),
        (60, 10, 1.05),
    ):
        rows += _found(rng, runs, after, size, count)
    return rows


def _found(
    rng: np.random.Generator, runs: int, after: int, size: float, count: int
) -> tuple[Row, ...]:
    """One change, so many runs before the end."""
    found = near = covered = further = 0
    for _ in range(count):
        logs = rng.normal(0, NOISE, runs)
        logs[runs - after :] -= math.log(size)
        changes = change_points(logs.tolist())
        found += bool(changes)
        nearest = min(changes, key=lambda x: abs(x.at - (runs - after)), default=None)
        if nearest is None:
            continue
        near += abs(nearest.at - (runs - after)) <= 1
        further += len(changes) > 1
        covered += nearest.ratio.low <= 1 / size <= nearest.ratio.high
    name = f"history, {runs} runs that differ by 3 %, the last {after} {size:g} times slower"
    seen = max(found, 1)
    return (
        share_row(f"{name}: seen", found, count),
        share_row(f"{name}: placed within one run, of those seen", near, seen),
        share_row(f"{name}: interval of the ratio covers it, of those seen", covered, seen),
        share_row(f"{name}: a further change seen, of those seen", further, seen, "<= 0.1"),
    )
