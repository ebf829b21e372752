"""Is a change sufficient for the slowdown, necessary, both, or neither?

Each change is compared twice: alone (the reference with it against the reference) and with the others
(the target against the target without it). One comparison is not enough: of two changes that each do
the whole harm, removing one shows nothing; of two that need each other, adding one shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from pgdrag.designs.ablate.history import Value
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.effects import CONFIDENCE, Effect, effect_of
from pgdrag.stats.multiple_testing import false_discovery_rates

# Benjamini and Hochberg's bound on the share of false effects among those that are called. Not
# Holm's, because the two mistakes do not cost the same: a false survivor costs a few trials of the
# next stage, which corrects it; a missed effect is out of the search.
_FALSE_SHARE = 0.01
SUSPECT_P = 0.05  # a comparison this unlikely by chance is not called inert either


class Label(StrEnum):
    """What a change is to the difference between reference and target."""

    BOTH = "sufficient and necessary"
    SUFFICIENT = "sufficient"
    NECESSARY = "necessary"
    REDUNDANT = "redundant"
    NEEDS_PARTNER = "needs a partner"
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
    def prevents_measurement(self) -> bool:
        """With it nothing can be measured."""
        return self in (Label.PREVENTS_START, Label.CRASHES)

    @property
    def meaning(self) -> str:
        """The label in a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Label.BOTH: "It has an effect alone, and removing it from the target has one too.",
    Label.SUFFICIENT: "It has an effect alone; whether the target needs it is undecided.",
    Label.NECESSARY: "Removing it from the target has an effect; what it does alone is undecided.",
    Label.REDUNDANT: "It has an effect alone, but in the target another change does the same.",
    Label.NEEDS_PARTNER: "It has no effect alone, but it has one together with another change.",
    Label.HIDDEN: "It has an effect only within a group of changes that others mask.",
    Label.INERT: "No effect that matters, alone or with the others.",
    Label.UNDECIDED: "No significant effect, but the trials could have missed one.",
    Label.PREVENTS_START: "With it the server does not start.",
    Label.CRASHES: "With it the server crashes.",
    Label.UNTESTABLE: "This server or machine lacks what it needs.",
}


class Call(StrEnum):
    """The result of one comparison."""

    SLOWER = "slower"
    FASTER = "faster"
    NONE = "no effect that matters"
    SUSPECT = "suspect"  # could be chance or an effect: more trials would tell
    UNKNOWN = "unknown"  # a side has no number, or both are only bounded


Judged = tuple[Effect | None, Call]  # one comparison
_HAS_EFFECT = {Call.SLOWER: True, Call.FASTER: True, Call.NONE: False}
# By the effects alone and with the others; None: unknown, or perhaps chance. Any other: undecided.
_LABELS = {
    (True, True): Label.BOTH,
    (True, False): Label.REDUNDANT,
    (True, None): Label.SUFFICIENT,
    (False, True): Label.NEEDS_PARTNER,
    (None, True): Label.NECESSARY,
    (False, False): Label.INERT,
}


def effect(before: Value | None, after: Value | None) -> Effect | None:
    """Estimate how much slower `after` is than `before`; None where that is wholly unknown."""
    if before is None or after is None or (before.is_bound and after.is_bound):
        return None
    if not before.is_bound and not after.is_bound:
        return contrast((before, after), (1, -1))
    center = before.center - after.center
    # Throughput that is only bounded lies below its bound, and a bound has no error of its own.
    known = before if after.is_bound else after
    half = t_multiplier(CONFIDENCE, known.dof) * math.sqrt(known.variance)
    if after.is_bound:
        return Effect(math.inf, center - half, math.inf, math.inf, known.dof)
    return Effect(-math.inf, -math.inf, center + half, math.inf, known.dof)


def contrast(values: Sequence[Value], signs: Sequence[int]) -> Effect:
    """Estimate the sum of log throughputs with these signs; a bound counts as if it were a value."""
    pairs = list(zip(signs, values, strict=True))
    center = sum(sign * one.center for sign, one in pairs)
    se = math.sqrt(sum(sign**2 * one.variance for sign, one in pairs))
    return effect_of(center, se, min(one.dof for one in values))


def call_all(effects: Sequence[Effect | None], *, matters: float) -> tuple[Call, ...]:
    """Call every comparison of a screening at once, corrected for their number.

    Args:
        effects: alone and with the others, of every change.
        matters: the smallest effect that matters, a natural logarithm above 0.

    Source: Benjamini and Hochberg 1995; a reference that all comparisons share makes them depend
    on each other positively, for which the bound holds (Benjamini and Yekutieli 2001).
    """
    p_values = [1.0 if one is None else one.p_value for one in effects]

    def call(found: Effect | None, false_share: float) -> Call:
        if found is None:
            return Call.UNKNOWN
        if math.isinf(found.se):
            if found.low >= matters:
                return Call.SLOWER
            return Call.FASTER if found.high <= -matters else Call.UNKNOWN
        if abs(found.center) < matters or found.p_value >= SUSPECT_P:
            return Call.NONE
        if false_share > _FALSE_SHARE:
            return Call.SUSPECT
        return Call.SLOWER if found.center > 0 else Call.FASTER

    return tuple(map(call, effects, false_discovery_rates(p_values)))


def judged(
    alone: Judged, with_others: Judged, *, matters: float
) -> tuple[Label, tuple[Call, Call]]:
    """Return a change's label, and both calls, each in the light of the other.

    Args:
        matters: as of `label_of`.
    """
    calls = resolved(alone, with_others)
    both = (alone[0], calls[0]), (with_others[0], calls[1])
    return label_of(*both, matters=matters), calls


def label_of(alone: Judged, with_others: Judged, *, matters: float) -> Label:
    """Return the label of a change by what was found alone and with the others, both `resolved`.

    Args:
        matters: what certainly lies within so much either way is inert, a natural logarithm above 0.
    """
    both = (alone, with_others)
    label = _LABELS.get((_HAS_EFFECT.get(alone[1]), _HAS_EFFECT.get(with_others[1])))
    if label is Label.INERT and not all(x is not None and x.is_within(matters) for x, _ in both):
        return Label.UNDECIDED
    return label or Label.UNDECIDED


def resolved(alone: Judged, with_others: Judged) -> tuple[Call, Call]:
    """Return both calls; "none" becomes unknown where it does not contradict the other's effect.

    A comparison with so wide an interval that it could have missed what the other one found says
    nothing: of a target that commits a handful of transactions every effect may look like none.
    """

    def call(one: Judged, other: Judged) -> Call:
        (here, own), (there, others) = one, other
        if own is not Call.NONE or not _HAS_EFFECT.get(others) or here is None or there is None:
            return own
        return Call.UNKNOWN if here.low <= there.size <= here.high else own

    return call(alone, with_others), call(with_others, alone)
