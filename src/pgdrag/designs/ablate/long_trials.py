"""What is each survivor's share of the slowdown, and which pairs interact? Long trials of the survivors.

The players, in the sense of game theory, are the survivors, and all other changes together as one, so
that the shares add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdrag.designs._subsets import Changes, Request
from pgdrag.designs.ablate.history import REFERENCE, History
from pgdrag.designs.ablate.labels import Effect
from pgdrag.designs.ablate.pairs import Crossed, Pair, Together, corner_sets, cross, suspected_pairs
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

END_TRIALS = 3  # of reference and target to begin with: they show the noise
_EXACT_PLAYERS = 4  # 16 sets in all; two draws of orders of five players need 16 of their 32
_DRAWS_MIN = 2  # fewer do not show what another order would give
_PAIR_TRIALS = 2  # of each corner of a factorial
_RESERVED = 3  # the pairs may have one part in so many of the budget left
_PAIR_ROUNDS = 2  # of further trials while a pair is undecided


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
        self._is_exact = count <= _EXACT_PLAYERS
        self.draws: tuple[Order, ...] = (
            all_orders(count)
            if self._is_exact
            else drawn_orders(count, parameters.seed, _DRAWS_MIN)
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
        sets = {one for draw in self.draws for one in coalitions(draw)}
        known = {one: self.trials.value(self._union(one)) for one in sets}
        values = {one: value for one, value in known.items() if value is not None}
        return shares(len(self.players), self.draws, values, self.trials.noise)

    def crossed(self) -> dict[Pair, Crossed]:
        """Return the factorial of each pair whose corners all have a number."""
        found = {}
        for pair in self.pairs:
            values = [self.trials.value(one) for one in corner_sets(pair)]
            corners = [one for one in values if one is not None]
            if len(corners) == len(values):
                matters = self._parameters.log_threshold
                found[pair] = cross(corners, self.trials.noise, matters=matters)
        return found

    def least_trials(self) -> int:
        """Return how many sets that shares and pairs need have no number yet."""
        sets = {self._union(one) for draw in self.draws for one in coalitions(draw)}
        sets.update(one for pair in self.pairs for one in corner_sets(pair))
        return sum(self.trials.is_open(one) for one in sets)

    def _room(self, *, has_others: bool) -> int:
        """Return how many survivors can be players, so that the budget has room for two draws."""
        spare = self._spare - 2 * END_TRIALS
        players = spare // (2 * _DRAWS_MIN) + 1
        exact = next((n for n in range(_EXACT_PLAYERS, 0, -1) if 2**n - 2 <= spare), 0)
        return max(players if players > _EXACT_PLAYERS else exact, 1) - has_others

    # --- shares --------------------------------------------------------------------------------

    @property
    def _target(self) -> Changes:
        return frozenset().union(*self.players)

    def _union(self, coalition: Coalition) -> Changes:
        return frozenset().union(*(self.players[player] for player in coalition))

    def _open_sets(self, draws: Sequence[Order]) -> list[Changes]:
        sets = {self._union(one) for draw in draws for one in coalitions(draw)}
        wanted = [one for one in sets - {REFERENCE, self._target} if self.trials.is_open(one)]
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
        more: tuple[Order, ...] = ()
        if not self._is_exact:
            wanted = len(self.draws) + 1
            drawn = drawn_orders(len(self.players), self._parameters.seed, wanted)
            more = drawn[len(self.draws) :]
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
        yield from self._ask_up_to(_PAIR_TRIALS, self.pairs)
        for more in range(1, _PAIR_ROUNDS + 1):
            found = self.crossed()
            undecided = [x for x, one in found.items() if one.together is Together.UNDECIDED]
            yield from self._ask_up_to(_PAIR_TRIALS + 2 * more, undecided)

    def _ask_up_to(self, trials: int, pairs: Sequence[Pair]) -> Iterator[Request]:
        """Ask for corners until each has as many trials as wanted; leave out what cannot be measured."""
        sets = dict.fromkeys(one for pair in pairs for one in corner_sets(pair))
        known = [one for one in sets if self.trials.failure(one) is None]
        wanted = [one for one in known for _ in range(trials - self.trials.count(one))]
        yield from self._history.ask(wanted)

    @property
    def _spare(self) -> int:
        """The budget for shares: what is left without what is reserved for pairs."""
        return max(self._history.left - min(self._missing_pair_trials(), self._reserved), 0)

    def _missing_pair_trials(self) -> int:
        corners = {one for pair in self.pairs for one in corner_sets(pair)}
        return sum(max(_PAIR_TRIALS - self.trials.count(one), 0) for one in corners)

    def _ask_spare(self, sets: Sequence[Changes]) -> Iterator[Request]:
        yield from self._history.ask(sets[: self._spare])
