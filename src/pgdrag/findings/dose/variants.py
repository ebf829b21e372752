"""Which rungs are alike but for how long the horizon is held?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    is_held,
)
from pgdrag.findings.holds.spans import Span, held_span
from pgdrag.model import HORIZON, Level, Result, Treatment
from pgdrag.model.measurement import Measurement
from pgdrag.units import parse_seconds

# Levels of the horizon that don't make another variant: how long, and what comes after.
_DOSE = (HOLD, AFTER)


@dataclass(frozen=True)
class HeldRung:
    """One rung with its decay, and the trials from which anything can be read.

    Attributes:
        is_wrong: a check of its results failed; it stands in no curve.
    """

    trials: RungTrials
    decay: RungDecay | None

    @property
    def name(self) -> str:
        """Of the rung."""
        return self.trials.rung.name

    @property
    def treatment(self) -> Treatment:
        """Its levels."""
        return self.trials.rung.treatment

    @property
    def levels(self) -> dict[str, str]:
        """Those of the horizon."""
        return self.treatment.of_kind(HORIZON)

    @property
    def is_wrong(self) -> bool:
        """A trial of it did."""
        return any(result.violations for result, _ in fittable(self.trials))

    @property
    def measured(self) -> tuple[tuple[Result, Measurement], ...]:
        """Its trials under a load that does not change."""
        return tuple(pair for pair in self.trials.numbered if not pair[0].trial.load.steps)

    def spans(self) -> list[Span | None]:
        """Return when each trial held the horizon."""
        return [held_span(result, measured) for result, measured in self.measured]


@dataclass(frozen=True)
class Variant:
    """Rungs alike but for the length of the hold, and the one without a hold."""

    name: str
    held: tuple[HeldRung, ...]
    free: HeldRung | None


def variants(rungs: Sequence[HeldRung]) -> tuple[Variant, ...]:
    """Return the variants that hold the horizon once, for a time that their level says."""
    sound = [one for one in rungs if one.measured and not one.is_wrong]
    by_rest: dict[frozenset[Level], list[HeldRung]] = {}
    for one in sound:
        if is_held(one.treatment) and _is_dose(one.levels):
            by_rest.setdefault(_rest(one.treatment), []).append(one)
    found = []
    for rest, held in by_rest.items():
        others = frozenset(level for level in rest if level.kind != HORIZON)
        free = next((one for one in sound if _is_free(one.treatment, others)), None)
        found.append(Variant(_words(rest, held, by_rest), tuple(held), free))
    return tuple(found)


def _is_free(treatment: Treatment, others: frozenset[Level]) -> bool:
    rest = frozenset(level for level in treatment.levels if level.kind != HORIZON)
    return rest == others and not is_held(treatment)


def _rest(treatment: Treatment) -> frozenset[Level]:
    return frozenset(
        one for one in treatment.levels if one.kind != HORIZON or one.name not in _DOSE
    )


def _is_dose(levels: dict[str, str]) -> bool:
    if REPLAY in levels or levels.get(PATTERN, ONCE) != ONCE:
        return False
    length = levels.get(HOLD, WINDOW)
    if length == WINDOW:
        return True
    try:
        return parse_seconds(length) > 0
    except UsageError:  # it is drawn from a distribution
        return False


def _words(
    rest: frozenset[Level], held: Sequence[HeldRung], every: dict[frozenset[Level], list[HeldRung]]
) -> str:
    """Return what tells these rungs from those of other variants."""
    common = frozenset.intersection(*every)
    own = sorted(f"{one.name} = {one.value}" for one in rest - common)
    return ", ".join(own) or f"{HOLDER} = {held[0].levels[HOLDER]}"
