"""What is each survivor's share of the slowdown, and which pairs interact? Long trials of the survivors.

The players, in the sense of game theory, are the survivors, and all other changes together as one, so
that the shares add up to the whole.

A pair is crossed on the reference: neither, the first, the second, both. What both do beyond the sum of
what each does is their interaction, a difference of logarithms: below 0 they do partly the same, above
0 they need or strengthen each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from pgdrag.designs._subsets import Changes, Request
from pgdrag.designs.ablate.history import REFERENCE, History, Value
from pgdrag.designs.ablate.labels import contrast
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.shapley import (
    Coalition,
    Order,
    Shares,
    all_orders,
    coalitions,
    drawn_orders,
    leverage,
    shares,
)
from pgdrag.stats.effects import Effect

END_TRIALS = 3  # of reference and target to begin with: they show the noise
_EXACT_PLAYERS = 4  # 16 sets in all; two draws of orders of five players need 16 of their 32
_DRAWS_MIN = 2  # fewer do not show what another order would give
_PAIR_TRIALS = (2, 4, 6)  # of each corner of a factorial: more while a pair is undecided
_RESERVED = 3  # the pairs may have one part in so many of the budget left
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


@dataclass(frozen=True)
class Crossed:
    """What two changes do alone and together: log slowdowns.

    Attributes:
        interaction: `both` less the sum of `first` and `second`.
        is_bounded: a corner committed nothing, and counts with the upper bound of its throughput.
    """

    first: Effect
    second: Effect
    both: Effect
    interaction: Effect
    together: Together
    is_bounded: bool


class LongTrials:
    """Shares of the survivors, and factorials of pairs of them.

    Args:
        effects: of each survivor, alone and with the others.
        others: all other changes of the target.
        known_pairs: pairs that a group search found.

    Attributes:
        players: sets of changes; the last one may be all others together.
        merged: survivors that the budget has no room for as players of their own: with the others.
        draws: orders so far, each with its reverse.
        is_precise: every share's interval is as short as wanted.
        has_shares: the trials for shares are over; those for pairs remain.
    """

    def __init__(
        self,
        effects: Mapping[int, tuple[Effect | None, Effect | None]],
        others: Changes,
        history: History,
        parameters: AblateParameters,
        known_pairs: Sequence[Pair],
    ) -> None:
        self.trials = history.full
        self._history = history
        self._parameters = parameters
        suspected = suspected_pairs(effects, most=parameters.max_pairs)
        pairs = dict.fromkeys([*known_pairs, *suspected])
        self.pairs: tuple[Pair, ...] = tuple(pairs)[: parameters.max_pairs]
        self._reserved = min(self._missing_pair_trials(), history.left // _RESERVED)

        def size(change: int) -> float:
            return max((abs(one.center) for one in effects[change] if one is not None), default=0.0)

        ranked = sorted(effects, key=lambda change: (-size(change), change))
        room = self._room(has_others=bool(others))
        self.merged = tuple(sorted(ranked[room:]))
        rest = others.union(self.merged)
        self.has_others = bool(rest)
        alone = [frozenset({change}) for change in sorted(ranked[:room])]
        self.players: tuple[Changes, ...] = (*alone, rest) if rest else tuple(alone)
        count = len(self.players)
        self._target: Changes = frozenset().union(*self.players)
        self._is_exact = count <= _EXACT_PLAYERS
        self.draws: tuple[Order, ...] = (
            all_orders(count) if self._is_exact else self._drawn(_DRAWS_MIN)
        )
        self.is_precise = False
        self.has_shares = False

    def run(self) -> Iterator[Request]:
        """Ask for blocks until shares and pairs are known, or the budget is used up."""
        ends = [REFERENCE, self._target] * max(END_TRIALS - self.trials.count(REFERENCE), 0)
        yield from self._ask_spare([*ends, *self._open_sets(self.draws)])
        yield from self._ask_spare(self._open_sets(self.draws))  # retry
        while self._spare > 0:
            found = self.shares()
            if self._is_precise_enough(found):
                break
            wanted = self._further(found)
            if not wanted:
                break
            yield from self._ask_spare(wanted)
        self.is_precise = self._is_precise_enough(self.shares())
        self.has_shares = True
        yield from self._measure_pairs()

    def shares(self) -> Shares | None:
        """Return the shares so far, in the order of the players; None before the first whole draw."""
        known = {one: self.trials.value(some) for one, some in self._sets(self.draws).items()}
        values = {one: value for one, value in known.items() if value is not None}
        return shares(len(self.players), self.draws, values)

    def crossed(self) -> dict[Pair, Crossed]:
        """Return the factorial of each pair whose corners all have a number."""
        found = {}
        for pair in self.pairs:
            values = [self.trials.value(one) for one in corner_sets(pair)]
            corners = [one for one in values if one is not None]
            if len(corners) == len(values):
                matters = self._parameters.log_threshold
                found[pair] = cross(corners, matters=matters)
        return found

    def least_trials(self) -> int:
        """Return how many sets that shares and pairs need have no number yet."""
        sets = {one for pair in self.pairs for one in corner_sets(pair)}
        return sum(map(self.trials.is_open, sets.union(self._sets(self.draws).values())))

    def _room(self, *, has_others: bool) -> int:
        """Return how many survivors can be players if the budget is to allow two draws."""
        spare = self._spare - 2 * END_TRIALS
        players = spare // (2 * _DRAWS_MIN) + 1
        exact = next((n for n in range(_EXACT_PLAYERS, 0, -1) if 2**n - 2 <= spare), 0)
        return max(players if players > _EXACT_PLAYERS else exact, 1) - has_others

    # --- shares --------------------------------------------------------------------------------

    def _drawn(self, count: int) -> tuple[Order, ...]:
        return drawn_orders(len(self.players), self._parameters.seed, count)

    def _union(self, coalition: Coalition) -> Changes:
        return frozenset().union(*(self.players[player] for player in coalition))

    def _sets(self, draws: Sequence[Order]) -> dict[Coalition, Changes]:
        return {one: self._union(one) for draw in draws for one in coalitions(draw)}

    def _open_sets(self, draws: Sequence[Order]) -> list[Changes]:
        sets = {*self._sets(draws).values()} - {REFERENCE, self._target}
        wanted = [one for one in sets if self.trials.is_open(one)]
        return sorted(wanted, key=lambda one: (len(one), sorted(one)))

    def _is_precise_enough(self, found: Shares | None) -> bool:
        if found is None:
            return False
        # A part of the whole, but not below what matters.
        wanted = max(
            self._parameters.share_precision * abs(found.whole.center),
            self._parameters.log_threshold / 2,
        )
        return all(share.half_width <= wanted for share in found.players)

    def _further(self, found: Shares | None) -> list[Changes]:
        """Return what would shorten the longest interval: another order, or repeats."""
        count = len(self.draws)
        more = () if self._is_exact else self._drawn(count + 1)[count:]
        if found is None:
            self.draws += more
            return self._open_sets(more)
        worst = max(found.players, key=lambda share: share.half_width)
        if more and worst.orders_se >= worst.noise_se:
            self.draws += more
            return [REFERENCE, self._target, *self._open_sets(more)]
        # The sets whose repeats reduce the noise of the shares most, one more than players.
        by_coalition = leverage(len(self.players), self.draws)
        weights = {self._union(one): weight for one, weight in by_coalition.items()}
        counts = {one: self.trials.count(one) for one in weights}
        known = [one for one in weights if counts[one]]

        def gain(one: Changes) -> tuple[float, int, list[int]]:
            return weights[one] / (counts[one] * (counts[one] + 1)), -len(one), sorted(one)

        chosen: list[Changes] = []
        for _ in range(len(self.players) + 1 if known else 0):
            best = max(known, key=gain)
            counts[best] += 1
            chosen.append(best)
        return chosen

    # --- pairs ---------------------------------------------------------------------------------

    def _measure_pairs(self) -> Iterator[Request]:
        undecided: Sequence[Pair] = self.pairs
        for trials in _PAIR_TRIALS:
            sets = dict.fromkeys(one for pair in undecided for one in corner_sets(pair))
            known = [one for one in sets if self.trials.failure(one) is None]
            missing = [one for one in known for _ in range(trials - self.trials.count(one))]
            yield from self._history.ask(missing)
            crossed = self.crossed().items()
            undecided = [x for x, one in crossed if one.together is Together.UNDECIDED]

    @property
    def _spare(self) -> int:
        """The budget for shares: what is left without what is reserved for pairs."""
        return max(self._history.left - min(self._missing_pair_trials(), self._reserved), 0)

    def _missing_pair_trials(self) -> int:
        corners = {one for pair in self.pairs for one in corner_sets(pair)}
        return sum(max(_PAIR_TRIALS[0] - self.trials.count(one), 0) for one in corners)

    def _ask_spare(self, sets: Sequence[Changes]) -> Iterator[Request]:
        yield from self._history.ask(sets[: self._spare])


def corner_sets(pair: Pair) -> tuple[Changes, ...]:
    """Return the sets of a factorial: neither, the first, the second, both."""
    first, second = pair
    return REFERENCE, frozenset({first}), frozenset({second}), frozenset(pair)


def cross(corners: Sequence[Value], *, matters: float) -> Crossed:
    """Judge a factorial.

    Args:
        corners: log throughput of neither, the first, the second, both.
        matters: the largest interaction that still counts as none, a natural logarithm above 0.
    """
    signs = ((1, -1, 0, 0), (1, 0, -1, 0), (1, 0, 0, -1), (-1, 1, 1, -1))
    first, second, both, interaction = (contrast(corners, each) for each in signs)
    is_bounded = any(one.is_bound for one in corners)
    together = Together.UNDECIDED
    if not is_bounded:
        together = _together((first, second), both, interaction, matters)
    return Crossed(first, second, both, interaction, together, is_bounded)


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


def _together(
    alone: tuple[Effect, Effect], both: Effect, interaction: Effect, matters: float
) -> Together:
    if not interaction.is_significant:
        return Together.ADD_UP if interaction.is_within(matters) else Together.UNDECIDED
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
