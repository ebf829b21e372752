"""Which quantities does a change move? Work and waits per transaction, tested one by one.

Throughput is the noisiest quantity of a trial; most others are measured to within a few per cent. So a change
whose effect on throughput stays open can still be known by what it moves, and what it moves says why.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pgdrag.designs._sides import NoiseOfSides
from pgdrag.designs._subsets import Changes
from pgdrag.findings.quantities import Quantity
from pgdrag.findings.values import Interval
from pgdrag.stats.effects import CONFIDENCE, Effect, effect_of
from pgdrag.stats.multiple_testing import false_discovery_rates
from pgdrag.stats.noise import Noise

_FALSE_SHARE = 0.01  # of the moves that are called
_LEAST = math.log(1.05)
_SHOWN = 1 / 3  # a trial that shows this part of a move shows it
_SD_LEAST = 0.01  # a pooled spread under 1 % is luck: nothing on a machine is steadier

Comparison = tuple[Changes, Changes]  # the set without, and the one with, what is tested
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Move:
    """A quantity that a change moves.

    Attributes:
        quantity: the observation's name.
        more: how much more of it there is per transaction: a natural logarithm.
        false_rate: rate of false discoveries if this move is believed, and all that are as sure.
    """

    quantity: str
    more: Effect
    false_rate: float

    @property
    def t_ratio(self) -> float:
        """Its distance from no change, in standard errors."""
        return abs(self.more.center) / self.more.se


@dataclass(frozen=True)
class MoveFinding:
    """A quantity per transaction that changes move.

    Attributes:
        quantity: the observation's name.
        label: for people: "WAL per transaction".
        ratio: how many times as much of it there is per transaction.
        false_rate: rate of false discoveries if this is believed, and all that are as sure.
    """

    quantity: str
    label: str
    ratio: Interval
    false_rate: float


def move_findings(moves: Iterable[Move], labels: Mapping[str, str]) -> tuple[MoveFinding, ...]:
    """Return moves as ratios; `labels` are for people, by the name of the observation."""

    def finding(one: Move) -> MoveFinding:
        low, center, high = one.more.low, one.more.center, one.more.high
        ratio = Interval.of_logs(low, center, high, CONFIDENCE, "t interval")
        return MoveFinding(
            one.quantity, labels.get(one.quantity, one.quantity), ratio, one.false_rate
        )

    return tuple(map(finding, moves))


@dataclass(frozen=True)
class _Amounts:
    """What the trials of one set measured of a quantity.

    Attributes:
        squares: sum of the squared distances from the mean.
        counting_variance: of one of them, in the mean.
        is_bound: all are under the resolution.
    """

    trials: Sequence[Quantity]
    mean: float
    squares: float
    counting_variance: float
    is_bound: bool

    @classmethod
    def of(cls, trials: Sequence[Quantity]) -> _Amounts:
        mean = math.fsum(x.log for x in trials) / len(trials)
        return cls(
            trials,
            mean,
            math.fsum((x.log - mean) ** 2 for x in trials),
            math.fsum(x.counting_variance for x in trials) / len(trials),
            all(x.is_bound for x in trials),
        )


class Quantities:
    """What was measured beside throughput in trials of one length.

    What follows from the trials so far is kept until another one is added: a design asks again and again.

    Args:
        trials: by the set of changes, what each trial of it measured.
    """

    def __init__(
        self, trials: Mapping[Changes, Iterable[Mapping[str, Quantity]]] | None = None
    ) -> None:
        self._most = 0.0
        self._seen: dict[str, dict[Changes, list[Quantity]]] = {}
        self._amounts: dict[tuple[str, Changes], _Amounts] = {}
        self._noise: dict[str, NoiseOfSides[Noise] | None] = {}
        self._effects: dict[tuple[str, Comparison], Effect | None] = {}
        for changes, measured in (trials or {}).items():
            for one in measured:
                self.add(changes, one)

    def add(self, changes: Changes, trial: Mapping[str, Quantity]) -> None:
        """Add what one more trial of a set measured."""
        self._most = max(self._most, len(changes) / 2)
        self._noise.clear()
        self._effects.clear()
        for name, one in trial.items():
            self._seen.setdefault(name, {}).setdefault(changes, []).append(one)
            self._amounts.pop((name, changes), None)

    def fingerprint(self, whole: Comparison) -> tuple[Move, ...]:
        """Return what the whole moves, the surest first."""
        return _ranked(self._called({(None, name): whole for name in self._seen}).values())

    def moves(
        self, whole: Comparison, comparisons: Mapping[Key, Comparison]
    ) -> dict[Key, tuple[Move, ...]]:
        """Return what moves in each comparison of what the whole moves, the surest first.

        First each quantity is tested on the whole, and then those that it moves on every comparison: each time
        at the same rate of false discoveries (Benjamini and Hochberg 1995).
        """
        names = [one.quantity for one in self.fingerprint(whole)]
        called = self._called(
            {(key, name): pair for key, pair in comparisons.items() for name in names}
        )
        found: dict[Key, list[Move]] = {key: [] for key in comparisons}
        for (key, _), move in called.items():
            found[key].append(move)
        return {key: _ranked(moves) for key, moves in found.items()}

    def _called(self, tests: Mapping[tuple[Key, str], Comparison]) -> dict[tuple[Key, str], Move]:
        """Return the moves among these tests of a quantity each, corrected for their number."""
        effects = {
            at: one for at, pair in tests.items() if (one := self._effect(at[1], pair)) is not None
        }
        rates = false_discovery_rates([one.p_value for one in effects.values()])
        return {
            at: Move(at[1], more, rate)
            for (at, more), rate in zip(effects.items(), rates, strict=True)
            if rate <= _FALSE_SHARE
            and abs(more.center) >= _LEAST
            and self._is_shown_by_most(at[1], tests[at], more.center)
        }

    def _of(self, name: str, changes: Changes) -> _Amounts:
        if (name, changes) not in self._amounts:
            self._amounts[name, changes] = _Amounts.of(self._seen[name][changes])
        return self._amounts[name, changes]

    def _effect(self, name: str, pair: Comparison) -> Effect | None:
        if (name, pair) not in self._effects:
            self._effects[name, pair] = self._new_effect(name, pair)
        return self._effects[name, pair]

    def _new_effect(self, name: str, pair: Comparison) -> Effect | None:
        seen = self._seen[name]
        if name not in self._noise:
            amounts = {changes: self._of(name, changes) for changes in seen}
            self._noise[name] = NoiseOfSides.of(amounts, self._most, _noise_of)
        noise = self._noise[name]
        if noise is None or not seen.keys() >= {*pair}:
            return None
        before, after = (self._of(name, side) for side in pair)
        # The resolution of an event is one event, which is more of a transaction where there are fewer of these: what
        # did not happen at all is no more than what happened elsewhere.
        if max(before, after, key=lambda x: x.mean).is_bound:
            return None
        noises = [_at_least(noise.near(side)) for side in pair]
        # Of few events chance in counting is what matters, and it differs from set to set.
        variance = sum(
            (noise.log_sd**2 + side.counting_variance) / len(side.trials)
            for noise, side in zip(noises, (before, after), strict=True)
        )
        return effect_of(
            after.mean - before.mean, math.sqrt(variance), min(one.dof for one in noises)
        )

    def _is_shown_by_most(self, name: str, pair: Comparison, more: float) -> bool:
        """Tell whether most trials of both sets show it: where one was disturbed, only that one does."""
        before, after = (self._of(name, side) for side in pair)

        def show(these: _Amounts, others: _Amounts, sign: int) -> bool:
            apart = [sign * (one.log - others.mean) / more for one in these.trials]
            return sum(one >= _SHOWN for one in apart) > len(apart) / 2

        return show(after, before, 1) and show(before, after, -1)


def _noise_of(sets: Iterable[_Amounts]) -> Noise | None:
    """Pool the repeats of some sets; None where nothing was repeated."""
    repeated = [one for one in sets if len(one.trials) > 1]
    dof = sum(len(one.trials) - 1 for one in repeated)
    return Noise(math.sqrt(sum(one.squares for one in repeated) / dof), dof) if dof else None


def _at_least(noise: Noise) -> Noise:
    return Noise(max(noise.log_sd, _SD_LEAST), noise.dof)


def _ranked(moves: Iterable[Move]) -> tuple[Move, ...]:
    return tuple(sorted(moves, key=lambda one: one.t_ratio, reverse=True))
