"""What is a change to the slowdown: sufficient, necessary, both, or neither?

Each change is looked at twice: alone (the reference with it against the reference) and in company
(the target against the target without it). Neither look is enough: of two changes of which either
does the whole harm, removing one shows nothing; of two that need each other, adding one shows nothing.

| alone | in company | label |
|---|---|---|
| effect | effect | sufficient and necessary |
| effect | none | redundant: sufficient, and another change does it as well |
| none | effect | synergist: necessary, and needs a partner |
| none | none | inert |
| effect | unknown | sufficient |
| unknown | effect | necessary |
| any other | | undecided |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from pgdrag.designs.ablate.subset_values import TrialNoise, Value, t_quantile
from pgdrag.stats.distributions import student_beyond

# Benjamini and Hochberg's bound on the share of false ones among the effects that are called. It is
# not Holm's, because the two mistakes do not cost the same: a false survivor costs a few trials of
# the next stage, which tells, while an effect that was missed is out of the search.
FALSE_SHARE = 0.01
_SUSPECT_P = 0.05  # a comparison this unlikely by chance is not called inert either


class Label(StrEnum):
    """What a change is to the difference between reference and target."""

    BOTH = "sufficient and necessary"
    SUFFICIENT = "sufficient"
    NECESSARY = "necessary"
    REDUNDANT = "redundant"
    SYNERGIST = "synergist"
    HIDDEN = "hidden"
    INERT = "inert"
    UNDECIDED = "undecided"
    PREVENTS_START = "prevents the start"
    CRASHES = "crashes the server"
    UNTESTABLE = "untestable here"

    @property
    def is_sufficient(self) -> bool:
        """Alone it has an effect."""
        return self in (Label.BOTH, Label.SUFFICIENT, Label.REDUNDANT)

    @property
    def is_necessary(self) -> bool:
        """Without it the target is another."""
        return self in (Label.BOTH, Label.NECESSARY, Label.SYNERGIST)

    @property
    def is_fatal(self) -> bool:
        """With it nothing can be measured."""
        return self in (Label.PREVENTS_START, Label.CRASHES)

    @property
    def meaning(self) -> str:
        """The label in a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Label.BOTH: "It has an effect alone, and the target is another without it.",
    Label.SUFFICIENT: "It has an effect alone; what the target is without it, the trials cannot tell.",
    Label.NECESSARY: "The target is another without it; what it does alone, the trials cannot tell.",
    Label.REDUNDANT: "It has an effect alone, but in the target another change does the same.",
    Label.SYNERGIST: "It has no effect alone; with a partner it has.",
    Label.HIDDEN: "It matters together with others.",
    Label.INERT: "No effect was seen, neither alone nor in company.",
    Label.UNDECIDED: "The trials cannot tell.",
    Label.PREVENTS_START: "With it the server does not start.",
    Label.CRASHES: "With it the server crashes.",
    Label.UNTESTABLE: "This server or machine lacks what it needs.",
}


class Call(StrEnum):
    """What one comparison says."""

    SLOWER = "slower"
    FASTER = "faster"
    NONE = "no effect that matters"
    SUSPECT = "suspect"  # could be chance, could be an effect: more trials would tell
    UNKNOWN = "unknown"  # a side has no number, or both are only bounded


@dataclass(frozen=True)
class Effect:
    """How much slower a change makes it: a natural logarithm, above 0 is slower.

    Attributes:
        low, high: 95 % bounds of this one comparison; infinite where a side is only bounded.
        se: standard error, infinite for a bound.
        dof: what the noise rests on.
    """

    center: float
    low: float
    high: float
    se: float
    dof: float

    @property
    def p_value(self) -> float:
        """How likely chance alone is so far from no effect; 1 for what may be no effect at all."""
        if not math.isinf(self.se):
            return _two_sided(abs(self.center) / self.se, self.dof)
        # A bound: its nearest end is that of a 95 % interval.
        return 0.0 if self.low > 0 or self.high < 0 else 1.0


def effect(before: Value | None, after: Value | None, noise: TrialNoise) -> Effect | None:
    """Estimate how much slower `after` is than `before`; None where that is wholly unknown."""
    if before is None or after is None or (before.is_bound and after.is_bound):
        return None
    center = before.center - after.center
    se = math.sqrt(before.variance + after.variance)
    half = t_quantile(0.95, noise.dof) * se
    # Throughput that is only bounded lies below its bound, and a bound has no error of its own.
    if after.is_bound:
        half = t_quantile(0.95, noise.dof) * math.sqrt(before.variance)
        return Effect(math.inf, center - half, math.inf, math.inf, noise.dof)
    if before.is_bound:
        half = t_quantile(0.95, noise.dof) * math.sqrt(after.variance)
        return Effect(-math.inf, -math.inf, center + half, math.inf, noise.dof)
    return Effect(center, center - half, center + half, se, noise.dof)


def call_all(effects: Sequence[Effect | None], *, matters: float) -> tuple[Call, ...]:
    """Call every comparison of a screening at once, so that their number is allowed for.

    Args:
        effects: alone and in company, of every change.
        matters: the smallest effect worth a name, a natural logarithm above 0.

    Source: Benjamini and Hochberg 1995; a reference that all comparisons share makes them depend
    on each other positively, for which the bound holds (Benjamini and Yekutieli 2001).
    """
    p_values = [1.0 if one is None else one.p_value for one in effects]
    limit = _step_up(p_values)
    return tuple(_call(one, p, limit, matters) for one, p in zip(effects, p_values, strict=True))


def label_of(alone: Call, company: Call) -> Label:
    """Return what two calls make of a change."""
    return _LABELS.get((_has_effect(alone), _has_effect(company)), Label.UNDECIDED)


def resolved(
    alone: tuple[Effect | None, Call], company: tuple[Effect | None, Call]
) -> tuple[Call, Call]:
    """Return the calls of both looks, where "none" says less than the other look's effect.

    A look that is too coarse to have seen what the other one saw does not contradict it: of a target
    that commits a handful of transactions every effect may look like none.
    """
    first = Call.UNKNOWN if _is_too_coarse(alone, company) else alone[1]
    second = Call.UNKNOWN if _is_too_coarse(company, alone) else company[1]
    return first, second


def _is_too_coarse(look: tuple[Effect | None, Call], other: tuple[Effect | None, Call]) -> bool:
    (here, call), (there, other_call) = look, other
    if call is not Call.NONE or not _has_effect(other_call) or here is None or there is None:
        return False
    # Of a bound its nearer end: the effect is at least that.
    size = (
        there.center
        if not math.isinf(there.center)
        else there.low
        if there.center > 0
        else there.high
    )
    return here.low <= size <= here.high


def _has_effect(call: Call) -> bool | None:
    if call in (Call.SLOWER, Call.FASTER):
        return True
    return False if call is Call.NONE else None


_LABELS = {
    (True, True): Label.BOTH,
    (True, False): Label.REDUNDANT,
    (True, None): Label.SUFFICIENT,
    (False, True): Label.SYNERGIST,
    (None, True): Label.NECESSARY,
    (False, False): Label.INERT,
}


def detectable(se: float, dof: float, *, matters: float) -> float:
    """Return the smallest effect that a comparison with this error misses once in ten times.

    To be missed it must not even be suspect, since suspects go on.
    """
    seen = t_quantile(1 - _SUSPECT_P, dof) * se + t_quantile(0.8, dof) * se
    return max(seen, matters)


def _call(found: Effect | None, p_value: float, limit: float, matters: float) -> Call:
    if found is None:
        return Call.UNKNOWN
    if math.isinf(found.se):
        if found.low >= matters:
            return Call.SLOWER
        return Call.FASTER if found.high <= -matters else Call.UNKNOWN
    if abs(found.center) < matters or p_value >= _SUSPECT_P:
        return Call.NONE
    if p_value > limit:
        return Call.SUSPECT
    return Call.SLOWER if found.center > 0 else Call.FASTER


def _step_up(p_values: Sequence[float]) -> float:
    """Return the largest p value that is still an effect; below 0 where none is."""
    ranked = np.sort(np.array(p_values))
    allowed = FALSE_SHARE * np.arange(1, len(ranked) + 1) / max(len(ranked), 1)
    passing = np.nonzero(ranked <= allowed)[0]
    return float(ranked[passing[-1]]) if len(passing) else -1.0


@lru_cache(maxsize=65536)
def _two_sided(distance: float, dof: float) -> float:
    return 2 * student_beyond(distance, dof)
