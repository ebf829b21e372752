"""Which treatments differ only in how long they hold the horizon?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdrag.errors import UsageError
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.decay.together import RungDecay, fittable
from pgdrag.findings.holds.levels import (
    AFTER,
    HOLD,
    HOLDER,
    ONCE,
    PATTERN,
    REPLAY,
    WINDOW,
    Span,
    held_span,
    hold_levels,
    is_held,
    other_levels,
)
from pgdrag.model import Level, Result
from pgdrag.model.measurement import Measurement, Sample
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.distributions import t_multiplier
from pgdrag.units import parse_seconds


@dataclass(frozen=True)
class HeldRung:
    """One treatment's trials, with their decay."""

    trials: RungTrials
    decay: RungDecay | None

    @property
    def name(self) -> str:
        """Of the rung."""
        return self.trials.rung.name

    @property
    def levels(self) -> dict[str, str]:
        """Its levels of the horizon."""
        return hold_levels(self.trials.rung.treatment)

    @property
    def measured(self) -> tuple[tuple[Result, Measurement], ...]:
        """Its trials under a load that does not change."""
        return tuple(pair for pair in self.trials.numbered if not pair[0].trial.load.steps)

    def spans(self) -> list[Span | None]:
        """Return when each trial held the horizon."""
        return [held_span(result, measured) for result, measured in self.measured]

    def middle_rate(self) -> Estimate | None:
        """Return the logarithm of the fitted rate in the middle of the window; None without a fit."""
        if self.decay is None:
            return None
        return self.decay.rate((self.decay.begin_s + self.decay.end_s) / 2)


@dataclass(frozen=True)
class Variant:
    """Treatments that differ only in the length of the hold, and the one without a hold."""

    name: str
    held: tuple[HeldRung, ...]
    free: HeldRung | None

    @property
    def rungs(self) -> tuple[HeldRung, ...]:
        """All of them, the one without a hold first."""
        return self.held if self.free is None else (self.free, *self.held)


def variants(rungs: Sequence[HeldRung]) -> tuple[Variant, ...]:
    """Return the variants that hold the horizon once, for a fixed time; without rungs whose results are wrong."""
    by_rest: dict[frozenset[Level], list[HeldRung]] = {}
    free: dict[frozenset[Level], HeldRung] = {}
    for one in rungs:
        if not one.measured or any(result.violations for result, _ in fittable(one.trials)):
            continue
        levels = one.trials.rung.treatment.levels
        others = other_levels(levels)
        if not is_held(one.trials.rung.treatment):
            free.setdefault(others, one)
        elif _is_dose(one.levels):
            # What is common to all doses: not how long the hold is, nor what comes after.
            rest = {x for x in levels if x in others or x.name not in (HOLD, AFTER)}
            by_rest.setdefault(frozenset(rest), []).append(one)
    common = frozenset.intersection(*by_rest) if by_rest else frozenset()
    return tuple(
        Variant(
            ", ".join(sorted(f"{one.name} = {one.value}" for one in rest - common))
            or f"{HOLDER} = {held[0].levels[HOLDER]}",
            tuple(held),
            free.get(other_levels(rest)),
        )
        for rest, held in by_rest.items()
    )


def mean_log_rate(samples: Sequence[Sample], begin_s: float, end_s: float) -> Estimate | None:
    """Return the mean log rate of the samples between two moments; None with fewer than three."""
    within = samples_within(samples, begin_s, end_s)
    logs = [math.log(one.committed / one.duration_s) for one in within if one.committed]
    if len(logs) < 3:
        return None
    se = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    quantile = t_multiplier(CONFIDENCE, len(logs) - 1)
    return Estimate.around(float(np.mean(logs)), quantile * se)


def _is_dose(levels: dict[str, str]) -> bool:
    if REPLAY in levels or levels.get(PATTERN, ONCE) != ONCE:
        return False
    length = levels.get(HOLD, WINDOW)
    try:
        return length == WINDOW or parse_seconds(length) > 0
    except UsageError:  # it is drawn from a distribution
        return False
