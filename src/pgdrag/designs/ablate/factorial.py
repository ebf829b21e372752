"""What do two changes make together that neither makes alone? A two-by-two factorial, read in words.

The four corners are the reference, the reference with either change, and with both. What both do
beyond the sum of what each does is their interaction, a difference of logarithms: below 0 they
do partly the same, above 0 they need or strengthen each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from pgdrag.designs.ablate.labels import Effect
from pgdrag.designs.ablate.subset_values import TrialNoise, Value, t_quantile

_SMALL = 0.25  # a part of what both do that counts as little beside it
_SUSPICION = 2.0  # standard errors by which company and solitude must differ to suspect a partner


class Together(StrEnum):
    """How two changes act together."""

    EITHER = "either alone suffices"
    BOTH_NEEDED = "both are needed"
    WEAKER = "together less than the sum"
    STRONGER = "together more than the sum"
    ADD_UP = "they add up"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Corner:
    """One estimate of a factorial with its interval: a natural logarithm, above 0 is slower."""

    center: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """The interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Factorial:
    """What two changes do alone and together, and by how much that differs from the sum.

    Attributes:
        is_bounded: a corner committed nothing: its throughput is at most what is reckoned with.
    """

    first: Corner
    second: Corner
    both: Corner
    interaction: Corner
    together: Together
    is_bounded: bool


def two_by_two(
    corners: tuple[Value, Value, Value, Value],
    noise: TrialNoise,
    *,
    matters: float,
    confidence: float = 0.95,
) -> Factorial:
    """Read a factorial from its corners: neither, the first, the second, both.

    Args:
        corners: log throughputs.
        noise: what their variances rest on.
        matters: the largest interaction that still counts as none, a natural logarithm above 0.
        confidence: coverage of each interval.
    """
    quantile = t_quantile(confidence, noise.dof)

    def contrast(signs: Sequence[int]) -> Corner:
        center = sum(sign * one.center for sign, one in zip(signs, corners, strict=True))
        variance = sum(sign**2 * one.variance for sign, one in zip(signs, corners, strict=True))
        half = quantile * math.sqrt(variance)
        return Corner(center, center - half, center + half)

    first, second, both = (
        contrast(signs) for signs in ((1, -1, 0, 0), (1, 0, -1, 0), (1, 0, 0, -1))
    )
    interaction = contrast((-1, 1, 1, -1))
    is_bounded = any(one.is_bound for one in corners)
    together = Together.UNDECIDED
    if not is_bounded:
        together = _together(first, second, both, interaction, matters)
    return Factorial(first, second, both, interaction, together, is_bounded)


def suspected_pairs(
    alone: Mapping[int, Effect], company: Mapping[int, Effect], *, most: int
) -> tuple[tuple[int, int], ...]:
    """Return the pairs that most probably interact, the likeliest first.

    What a change does in company less what it does alone is the sum of its interactions with all
    others. Of two that interact with each other alone, both show the same difference: so pairs are
    ranked by how large, and how alike, their differences are.

    Args:
        alone, company: by change; those without either are no part of any pair.
        most: so many pairs at most.
    """
    left = {
        change: company[change].center - alone[change].center
        for change in sorted(alone.keys() & company.keys())
        if not math.isinf(alone[change].se + company[change].se)
    }
    errors = {change: math.hypot(alone[change].se, company[change].se) for change in left}
    found: list[tuple[int, int]] = []
    while len(found) < most:
        pairs = [
            pair
            for pair in combinations(left, 2)
            if pair not in found and _is_suspect(left, errors, pair)
        ]
        if not pairs:
            break
        pair = max(pairs, key=lambda pair: (_evidence(left, pair), pair))
        found.append(pair)
        # What this pair explains, no other pair has to.
        shared = math.copysign(min(abs(left[change]) for change in pair), left[pair[0]])
        for change in pair:
            left[change] -= shared
    return tuple(found)


def _together(
    first: Corner, second: Corner, both: Corner, interaction: Corner, matters: float
) -> Together:
    if not interaction.is_significant:
        is_small = -matters < interaction.low <= interaction.high < matters
        return Together.ADD_UP if is_small else Together.UNDECIDED
    whole = both.center
    if not both.is_significant:  # they undo each other: neither word below would be right
        return (
            Together.WEAKER if _sign(first, second) * interaction.center < 0 else Together.STRONGER
        )
    parts = [first.center / whole, second.center / whole]
    if max(map(abs, parts)) <= _SMALL:
        return Together.BOTH_NEEDED
    if all(one.is_significant for one in (first, second)) and all(
        abs(part - 1) <= _SMALL for part in parts
    ):
        return Together.EITHER
    return Together.WEAKER if interaction.center * whole < 0 else Together.STRONGER


def _sign(first: Corner, second: Corner) -> float:
    return math.copysign(1.0, first.center + second.center)


def _is_suspect(
    left: Mapping[int, float], errors: Mapping[int, float], pair: tuple[int, int]
) -> bool:
    one, other = pair
    is_beyond_noise = all(abs(left[change]) > _SUSPICION * errors[change] for change in pair)
    return is_beyond_noise and left[one] * left[other] > 0


def _evidence(left: Mapping[int, float], pair: tuple[int, int]) -> float:
    """Large and alike: the smaller difference, less what the larger has beyond it."""
    small, large = sorted(abs(left[change]) for change in pair)
    return small - (large - small) / 2
