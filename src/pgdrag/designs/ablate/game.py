"""Whose is which part of the slowdown, and which pairs act together? Long trials of the survivors.

The players of the game are the survivors, and all other changes together as one, so that the shares
add up to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from pgdrag.designs.ablate.book import AblationOptions, Book, Wanted
from pgdrag.designs.ablate.factorial import Factorial, Together, suspected_pairs, two_by_two
from pgdrag.designs.ablate.labels import Effect
from pgdrag.designs.ablate.shapley import (
    Coalition,
    Draw,
    Shares,
    all_orders,
    drawn_orders,
    leverage,
    shares,
)
from pgdrag.designs.ablate.subset_values import REFERENCE, Changes, SubsetValues, Value

_EXACT_PLAYERS = 4  # 16 sets in all; two draws of orders of five players need 16 of their 32
_DRAWS_MIN = 2  # fewer cannot tell what another order would give
ENDS_FIRST = 3  # long trials of reference and target to begin with: the noise is known from them
_PAIR_TRIALS = 2  # of each corner of a factorial
_CLEAR_P = 1e-3
_UNRESOLVED_MAX = 3  # changes that are crossed for want of a look in company
_KEPT_BACK = 3  # the pairs may have one part in so many of what is left
_PAIR_ROUNDS = 2  # of further trials where a pair is still undecided


class Game:
    """Shares of the survivors, and factorials of pairs of them.

    Attributes:
        players: sets of changes; the last one may be all others together.
        merged: survivors that the budget has no room for as players of their own: with the others.
        draws: of orders, so far.
        is_precise: every share's interval is as short as wanted.
        is_after_shares: only pairs are still looked at.
    """

    def __init__(
        self,
        survivors: Sequence[int],
        others: Changes,
        book: Book,
        options: AblationOptions,
        effects: Mapping[int, tuple[Effect | None, Effect | None]],
        known_pairs: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._book = book
        self._options = options
        self._effects = effects
        self.pairs = tuple(dict.fromkeys([*known_pairs, *self._suspected(survivors)]))
        self.pairs = self.pairs[: options.max_pairs]
        self._kept_back = min(self._pair_trials(), book.left // _KEPT_BACK)
        ranked = sorted(survivors, key=lambda change: (-self._weight(change), change))
        room = self._room(bool(others))
        self.merged = tuple(sorted(ranked[room:]))
        kept = sorted(ranked[:room])
        rest = others | frozenset(self.merged)
        self.players: tuple[Changes, ...] = tuple(frozenset({change}) for change in kept)
        self.has_others = bool(rest)
        if rest:
            self.players += (rest,)
        self.draws: tuple[Draw, ...] = self._first_draws()
        self.is_precise = False
        self.is_after_shares = False

    @property
    def values(self) -> SubsetValues:
        """The long trials."""
        return self._book.full

    def run(self) -> Iterator[Wanted]:
        """Ask for blocks until shares and pairs are known, or the budget is used up."""
        yield from self._measure(self.draws, ends=ENDS_FIRST)
        while self._spare > 0:
            found = self.shares()
            if found is not None and self._is_precise(found):
                break
            wanted = self._further(found)
            if not wanted:
                break
            yield from self._want_spare(wanted)
        found = self.shares()
        self.is_precise = found is not None and self._is_precise(found)
        self.is_after_shares = True
        yield from self._measure_pairs()

    def shares(self) -> Shares | None:
        """Return the shares by now, in the order of the players; None while no order is whole."""
        coalitions = {one for draw in self.draws for one in draw.coalitions()}
        known = {one: self.values.value(self._union(one)) for one in coalitions}
        told = {one: value for one, value in known.items() if value is not None}
        return shares(len(self.players), self.draws, told, self.values.noise)

    def precision(self, found: Shares) -> float:
        """Return how long half an interval may be: a part of the whole, but no shorter than matters."""
        return max(
            self._options.share_precision * abs(found.whole.center), self._options.matters / 2
        )

    def factorials(self) -> tuple[tuple[tuple[int, int], Factorial], ...]:
        """Return the factorial of each pair of which all corners have a number."""
        found = []
        for pair in self.pairs:
            corners = self._corners(pair)
            if corners is not None:
                reading = two_by_two(corners, self.values.noise, matters=self._options.matters)
                found.append((pair, reading))
        return tuple(found)

    def forecast_least(self) -> int:
        """Return how many sets shares and pairs need that have no number yet."""
        sets = {self._union(one) for draw in self.draws for one in draw.coalitions()}
        sets |= {one for pair in self.pairs for one in _corner_sets(pair)}
        return sum(self.values.is_open(one) for one in sets)

    # --- who plays -----------------------------------------------------------------------------

    def _suspected(self, survivors: Sequence[int]) -> list[tuple[int, int]]:
        alone, company = {}, {}
        for change in survivors:
            one, other = self._effects[change]
            if one is not None and other is not None:
                alone[change], company[change] = one, other
        most = self._options.max_pairs
        return [*suspected_pairs(alone, company, most=most), *self._unresolved(survivors)]

    def _unresolved(self, survivors: Sequence[int]) -> list[tuple[int, int]]:
        """Return pairs of which nothing is known in company, the largest alone first.

        Beside a target that commits nothing all that have an effect alone may do the same.
        """
        sizes = {
            change: abs(one.low if math.isinf(one.center) else one.center)
            for change in survivors
            for one, other in [self._effects[change]]
            if one is not None
            and one.p_value < _CLEAR_P
            and (other is None or math.isinf(other.se))
        }
        ranked = sorted(sizes, key=lambda change: (-sizes[change], change))
        pairs = combinations(sorted(ranked[:_UNRESOLVED_MAX]), 2)
        return sorted(pairs, key=lambda pair: -min(sizes[change] for change in pair))

    def _weight(self, change: int) -> float:
        """How large the effects are that made a survivor one; a bound counts as large."""
        effects = [one for one in self._effects[change] if one is not None]
        sizes = [abs(one.center) for one in effects]
        return max(sizes, default=0.0)

    def _room(self, has_others: bool) -> int:
        """How many survivors can be players, so that the budget has room for two draws."""
        spare = self._spare - 2 * ENDS_FIRST
        players = spare // (2 * _DRAWS_MIN) + 1
        exact = next((n for n in range(_EXACT_PLAYERS, 0, -1) if 2**n - 2 <= spare), 0)
        return max(players if players > _EXACT_PLAYERS else exact, 1) - has_others

    def _first_draws(self) -> tuple[Draw, ...]:
        count = len(self.players)
        if count <= _EXACT_PLAYERS:
            return all_orders(count)
        return drawn_orders(count, self._options.seed, _DRAWS_MIN)

    # --- shares --------------------------------------------------------------------------------

    def _measure(self, draws: Sequence[Draw], *, ends: int) -> Iterator[Wanted]:
        target = self._union(frozenset(range(len(self.players))))
        both = [REFERENCE, target] * max(ends - self.values.trials(REFERENCE), 0)
        yield from self._want_spare([*both, *self._open_sets(draws)])
        # What the driver or the machine spoilt gets a second chance.
        yield from self._want_spare(self._open_sets(draws))

    def _open_sets(self, draws: Sequence[Draw]) -> list[Changes]:
        target = self._union(frozenset(range(len(self.players))))
        sets = {self._union(one) for draw in draws for one in draw.coalitions()}
        wanted = [
            one for one in sets if self.values.is_open(one) and one not in (REFERENCE, target)
        ]
        return sorted(wanted, key=lambda one: (len(one), sorted(one)))

    def _is_precise(self, found: Shares) -> bool:
        return all(share.half_width <= self.precision(found) for share in found.players)

    def _further(self, found: Shares | None) -> list[Changes]:
        """Return what would shorten the longest interval: another order, or repeats."""
        count = len(self.players)
        more = () if count <= _EXACT_PLAYERS else self._next_draw()
        if found is None:
            self.draws += more
            return self._open_sets(more)
        worst = max(found.players, key=lambda share: share.half_width)
        if more and worst.orders_se >= worst.noise_se:
            self.draws += more
            ends = [REFERENCE, self._union(frozenset(range(count)))]
            return [*ends, *self._open_sets(more)]
        return self._repeats()

    def _next_draw(self) -> tuple[Draw, ...]:
        wanted = len(self.draws) + 1
        drawn = drawn_orders(len(self.players), self._options.seed, wanted)
        return drawn[len(self.draws) :]

    def _repeats(self) -> list[Changes]:
        """Return the sets whose repeats lessen the noise of the shares most, as many as players."""
        weights = leverage(len(self.players), self.draws)
        counts = {self._union(one): self.values.trials(self._union(one)) for one in weights}
        squares = {self._union(one): weight for one, weight in weights.items()}
        chosen: list[Changes] = []
        for _ in range(len(self.players) + 1):
            known = [one for one in squares if counts[one]]
            if not known:
                break
            best = max(
                known,
                key=lambda one: (
                    squares[one] / (counts[one] * (counts[one] + 1)),
                    -len(one),
                    sorted(one),
                ),
            )
            counts[best] += 1
            chosen.append(best)
        return chosen

    def _union(self, coalition: Coalition) -> Changes:
        return frozenset(change for player in coalition for change in self.players[player])

    # --- pairs ---------------------------------------------------------------------------------

    def _corners(self, pair: tuple[int, int]) -> tuple[Value, Value, Value, Value] | None:
        found = [self.values.value(one) for one in _corner_sets(pair)]
        neither, first, second, both = found
        if neither is None or first is None or second is None or both is None:
            return None
        return neither, first, second, both

    def _measure_pairs(self) -> Iterator[Wanted]:
        wanted = [one for pair in self.pairs for one in _corner_sets(pair)]
        yield from self._want_up_to(wanted, _PAIR_TRIALS)
        for more in range(1, _PAIR_ROUNDS + 1):
            undecided = [
                one
                for pair, found in self.factorials()
                if found.together is Together.UNDECIDED
                for one in _corner_sets(pair)
            ]
            yield from self._want_up_to(undecided, _PAIR_TRIALS + 2 * more)

    def _want_up_to(self, sets: Sequence[Changes], trials: int) -> Iterator[Wanted]:
        """Ask for sets until each has so many trials; those that cannot be measured are left alone."""
        once = [one for one in dict.fromkeys(sets) if self.values.failure(one) is None]
        yield from self._want(
            [one for one in once for _ in range(trials - self.values.trials(one))]
        )

    @property
    def _spare(self) -> int:
        """What the budget has for shares: what the pairs still need is kept back, up to a limit."""
        return max(self._book.left - min(self._pair_trials(), self._kept_back), 0)

    def _pair_trials(self) -> int:
        corners = {one for pair in self.pairs for one in _corner_sets(pair)}
        return sum(max(_PAIR_TRIALS - self.values.trials(one), 0) for one in corners)

    def _want_spare(self, sets: Sequence[Changes]) -> Iterator[Wanted]:
        """Ask for sets that shares need, and leave the pairs theirs."""
        yield from self._want(sets[: self._spare])

    def _want(self, sets: Sequence[Changes]) -> Iterator[Wanted]:
        yield from self._book.want(sets, is_brief=False)


def _corner_sets(pair: tuple[int, int]) -> tuple[Changes, Changes, Changes, Changes]:
    first, second = pair
    return REFERENCE, frozenset({first}), frozenset({second}), frozenset(pair)
