"""Which pairs of changes interact, and how: is either sufficient, are both needed, or do they add up?

A pair is crossed on the reference: neither, the first, the second, both. What both do beyond the sum of
what each does is their interaction, a difference of logarithms: below 0 they do partly the same, above
0 they need or strengthen each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from pgdrag.designs._subsets import Changes
from pgdrag.designs.ablate.history import REFERENCE, TrialNoise, Value
from pgdrag.designs.ablate.labels import Effect, contrast

_SMALL = 0.25  # a part of what both do that counts as little
_SUSPICION = 2.0  # standard errors by which a change's two comparisons must differ
_CLEAR_P = 1e-3
_UNRESOLVED_MAX = 3  # changes to cross because they could not be compared with the others

Pair = tuple[int, int]


class Together(StrEnum):
    """How two changes act together."""

    EITHER = "either alone suffices"
    BOTH_NEEDED = "both are needed"
    WEAKER = "together less than the sum"
    STRONGER = "together more than the sum"
    ADD_UP = "they add up"
    UNDECIDED = "undecided"


class Factorial(NamedTuple):
    """Log slowdowns of a 2×2 factorial; the interaction is `both` less the sum of `first` and `second`."""

    first: Effect
    second: Effect
    both: Effect
    interaction: Effect


@dataclass(frozen=True)
class Crossed:
    """What two changes do alone and together.

    Attributes:
        is_bounded: a corner committed nothing, and counts with the upper bound of its throughput.
    """

    effects: Factorial
    together: Together
    is_bounded: bool


def corner_sets(pair: Pair) -> tuple[Changes, ...]:
    """Return the sets of a factorial: neither, the first, the second, both."""
    first, second = pair
    return REFERENCE, frozenset({first}), frozenset({second}), frozenset(pair)


def cross(corners: Sequence[Value], noise: TrialNoise, *, matters: float) -> Crossed:
    """Judge a factorial.

    Args:
        corners: log throughput of neither, the first, the second, both.
        matters: the largest interaction that still counts as none, a natural logarithm above 0.
    """
    signs = ((1, -1, 0, 0), (1, 0, -1, 0), (1, 0, 0, -1), (-1, 1, 1, -1))
    effects = Factorial(*(contrast(corners, each, noise) for each in signs))
    is_bounded = any(one.is_bound for one in corners)
    together = Together.UNDECIDED if is_bounded else _together(effects, matters)
    return Crossed(effects, together, is_bounded)


def suspected_pairs(
    effects: Mapping[int, tuple[Effect | None, Effect | None]], *, most: int
) -> list[Pair]:
    """Return the pairs that most probably interact, the likeliest first.

    What a change does with the others less what it does alone is the sum of its interactions. Two
    that interact with each other only have the same difference: so pairs are ranked by how large,
    and how similar, their differences are.

    Args:
        effects: of each survivor, alone and with the others.
        most: the most pairs of such changes. Pairs of changes without a comparison with the others
            follow them.
    """
    left: dict[int, float] = {}
    errors: dict[int, float] = {}
    for change, (alone, with_others) in sorted(effects.items()):
        if alone and with_others and not math.isinf(alone.se + with_others.se):
            left[change] = with_others.center - alone.center
            errors[change] = math.hypot(alone.se, with_others.se)

    def evidence(pair: Pair) -> float:
        """Large and similar: the smaller difference, less half of what the larger exceeds it by."""
        small, large = sorted(abs(left[change]) for change in pair)
        return small - (large - small) / 2

    found: list[Pair] = []
    while len(found) < most:
        pairs = [
            pair
            for pair in combinations(left, 2)
            if pair not in found
            and all(abs(left[change]) > _SUSPICION * errors[change] for change in pair)
            and left[pair[0]] * left[pair[1]] > 0
        ]
        if not pairs:
            break
        pair = max(pairs, key=lambda pair: (evidence(pair), pair))
        found.append(pair)
        # What this pair explains, no other pair has to.
        shared = math.copysign(min(abs(left[change]) for change in pair), left[pair[0]])
        for change in pair:
            left[change] -= shared
    # In a target that commits nothing all changes that have an effect alone may do the same: of those that
    # could not be compared with the others, the largest.
    sizes = {
        change: abs(alone.size)
        for change, (alone, with_others) in effects.items()
        if alone is not None
        and alone.p_value < _CLEAR_P
        and (with_others is None or math.isinf(with_others.se))
    }
    ranked = sorted(sizes, key=lambda change: (-sizes[change], change))
    unresolved = combinations(sorted(ranked[:_UNRESOLVED_MAX]), 2)
    return [*found, *sorted(unresolved, key=lambda pair: -min(sizes[x] for x in pair))]


def _together(found: Factorial, matters: float) -> Together:
    alone, both, interaction = (found.first, found.second), found.both, found.interaction
    if not interaction.is_significant:
        is_small = -matters < interaction.low <= interaction.high < matters
        return Together.ADD_UP if is_small else Together.UNDECIDED
    direction = both.center
    if both.is_significant:
        parts = [one.center / both.center for one in alone]
        if all(abs(part) <= _SMALL for part in parts):
            return Together.BOTH_NEEDED
        if all(one.is_significant for one in alone) and all(abs(x - 1) <= _SMALL for x in parts):
            return Together.EITHER
    else:  # they cancel
        direction = alone[0].center + alone[1].center
    return Together.WEAKER if interaction.center * direction < 0 else Together.STRONGER
