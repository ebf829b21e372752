"""Does a screening find effects that stand by themselves, and accuse nobody else?"""

from __future__ import annotations

import math

import numpy as np

from pgdrag.designs.screen.effects import screen, screening_matrix
from simulations.rows import Row, share_row, value_row

CHANGES = 32
STUDIES = 1000
EFFECT = math.log(1.25)
NOISE = 0.05


def simulate(scale: float) -> list[Row]:
    """Return what screenings of 32 changes find."""
    count = max(round(STUDIES * scale), 20)
    rng = np.random.default_rng(11)
    name = "screen, 32 changes, noise of 5 %"
    return [
        _alarm_row(name, rng, count),
        *_found_rows(name, rng, count),
        _pair_row(name, rng, count),
        value_row(f"{name}: short trials", float(len(screening_matrix(CHANGES)))),
    ]


def _alarm_row(name: str, rng: np.random.Generator, count: int) -> Row:
    design = screening_matrix(CHANGES)
    alarms = 0
    for _ in range(count):
        found = screen(design, rng.normal(0, NOISE, len(design)))
        assert found is not None
        alarms += min(found.p_adjusted) <= 0.05
    return share_row(f"{name}: anybody accused where nothing matters", alarms, count, "<= 0.05")


def _found_rows(name: str, rng: np.random.Generator, count: int) -> list[Row]:
    """Four effects of 1.25 times or more, and one pair that interacts."""
    design = screening_matrix(CHANGES)
    guilty = told = innocent = accused = covered = 0
    for _ in range(count):
        order = rng.permutation(CHANGES)
        effects = np.zeros(CHANGES)
        effects[order[:4]] = -EFFECT * rng.uniform(1, 6, 4)
        both = (design[:, order[4]] > 0) & (design[:, order[5]] > 0)
        logs = (design > 0) @ effects - EFFECT * both + rng.normal(0, NOISE, len(design))
        found = screen(design, logs)
        assert found is not None
        said = {at for at, p in enumerate(found.p_adjusted) if p <= 0.05}
        planted, pair = {int(x) for x in order[:4]}, {int(x) for x in order[4:6]}
        guilty += 4
        told += len(said & planted)
        innocent += CHANGES - 6
        accused += len(said - planted - pair)
        at = int(order[0])
        estimate = found.effects[at]
        covered += abs(estimate.center + effects[at]) <= estimate.half_width()
    return [
        share_row(f"{name}: effects of 1.25 times or more told", told, guilty, ">= 0.95"),
        share_row(f"{name}: innocent changes accused", accused, innocent, "<= 0.05"),
        share_row(f"{name}: interval of an effect covers it", covered, count, "0.93 .. 0.99"),
    ]


def _pair_row(name: str, rng: np.random.Generator, count: int) -> Row:
    """Two of which either does it: each shows half of what it does alone."""
    design = screening_matrix(CHANGES)
    told = 0
    for _ in range(count):
        one, other = rng.permutation(CHANGES)[:2]
        either = (design[:, one] > 0) | (design[:, other] > 0)
        found = screen(design, -math.log(3) * either + rng.normal(0, NOISE, len(design)))
        assert found is not None
        told += all(found.p_adjusted[at] <= 0.05 for at in (int(one), int(other)))
    return share_row(
        f"{name}: both told of a pair of which either does it, 3 times", told, count, ">= 0.95"
    )
