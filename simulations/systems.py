"""Made-up systems of 32 changes with known effects, and machines that run trials of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pgdrag.designs._subsets import Changes
from pgdrag.findings.quantities import Quantity
from pgdrag.findings.readings import Reading

CHANGES = 32
FILE = 45  # settings in a file as people have them
_BASE = 7.0  # log throughput of the reference
_LEAST, _MOST = math.log(1.2), math.log(10)  # sizes of what is planted
_CROSS = math.log(1.5)
_SMALL = math.log(1.15)


@dataclass(frozen=True)
class Effect:
    """A part of a system: this log throughput is lost with all of these changes, or with any of them."""

    kind: str
    members: tuple[int, ...]
    loss: float
    is_any: bool = False

    def lost(self, changes: Changes) -> float:
        """Return the log throughput lost with these changes."""
        present = [member in changes for member in self.members]
        return self.loss * (any(present) if self.is_any else all(present))


@dataclass(frozen=True)
class System:
    """All parts of a system; the members of a part have equal shares of its loss."""

    effects: tuple[Effect, ...]

    def lost(self, changes: Changes) -> float:
        """Return the log throughput lost with these changes applied to the reference."""
        return sum(one.lost(changes) for one in self.effects)

    def share(self, changes: Changes) -> float:
        """Return the Shapley share of some players together."""
        return sum(
            one.loss / len(one.members)
            for one in self.effects
            for member in one.members
            if member in changes
        )

    @property
    def kinds(self) -> dict[int, str]:
        """Return the changes with an effect, each with the kind of the first part that it is in."""
        found: dict[int, str] = {}
        for one in self.effects:
            for member in one.members:
                found.setdefault(member, one.kind)
        return found


@dataclass
class Machine:
    """Runs trials: log throughput with noise.

    Attributes:
        noise: standard deviation of a trial of full length.
        brief_noise: of a short one.
        target_noise: how many times as noisy trials with more than half of the changes are.
        drift: log throughput gained with each trial.
        memory: autocorrelation of the noise.
        disturbed: share of trials that run at half speed.
        rate_per_s: of the reference, where commits are counted; None: windows have any number of them.
    """

    noise: float = 0.03
    brief_noise: float = 0.045
    target_noise: float = 1.0
    drift: float = 0.0
    memory: float = 0.0
    disturbed: float = 0.0
    rate_per_s: float | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    trials: int = 0
    _last: float = 0.0

    def run(self, system: System, changes: Changes, *, is_brief: bool) -> Reading:
        """Return the throughput of one more trial."""
        new = self.rng.standard_normal()
        self._last = self.memory * self._last + math.sqrt(1 - self.memory**2) * new
        self.trials += 1
        noise = self._last * (self.brief_noise if is_brief else self.noise)
        if len(changes) > FILE / 2:
            noise *= self.target_noise
        lost = system.lost(changes) - self.drift * self.trials - noise
        if self.disturbed and self.rng.random() < self.disturbed:
            lost += math.log(2)
        if self.rate_per_s is not None:
            return self._counted(self.rate_per_s * math.exp(-lost), is_brief=is_brief)
        return Reading(_BASE - lost, self.noise / 10, False, 1, is_brief)

    def _counted(self, rate_per_s: float, *, is_brief: bool) -> Reading:
        """Count the commits of a window that is extended, up to three times, until it has 30."""
        window_s = 7.0 if is_brief else 20.0
        longest_s = min(3 * window_s, max(window_s, 30 / rate_per_s))
        commits = int(self.rng.poisson(rate_per_s * longest_s))
        if not commits:
            return Reading(math.log(3 / longest_s), 0.0, True, 1, is_brief)
        log = math.log(commits / longest_s)
        return Reading(log, 1 / math.sqrt(commits), False, 1, is_brief)


# Standard deviations of logarithms between equal trials of 3 s on a machine where those of throughput differ by
# 0.1: processor time, WAL, blocks, system calls, WAL syncs, context switches, WAL records and index scans.
QUANTITIES = (0.074, 0.049, 0.054, 0.018, 0.021, 0.016, 0.015, 0.015)
# A server that crawls commits little: what runs in the background weighs more, and autovacuum comes or does not.
_CRAWLS, _LOUDER, _RARE, _RARELY = 3, 2.0, 0.2, 0.02


@dataclass(frozen=True)
class Quantities:
    """What trials measure per transaction beside throughput: each planted effect moves some of it.

    Attributes:
        marks: by part of the system, what it moves each quantity by, on the log scale.
        movers: changes without an effect on throughput, and what they move.
    """

    marks: tuple[tuple[Effect, npt.NDArray[np.float64]], ...]
    movers: dict[int, npt.NDArray[np.float64]]

    def seen(self, changes: Changes, rng: np.random.Generator) -> dict[str, Quantity]:
        """Return what one trial measures."""
        logs = rng.standard_normal(len(QUANTITIES)) * QUANTITIES
        if sum(effect.lost(changes) for effect, _ in self.marks) > math.log(_CRAWLS):
            logs = _LOUDER * logs + _RARE * (rng.random(len(QUANTITIES)) < _RARELY)
        for effect, moves in self.marks:
            logs += moves * bool(effect.lost(changes))
        for change in changes & self.movers.keys():
            logs += self.movers[change]
        return {f"quantity {at}": Quantity(float(log)) for at, log in enumerate(logs)}


def file_of_45(
    rng: np.random.Generator, *, least: float, most: float, movers: int
) -> tuple[System, Quantities]:
    """Return a file of 45 settings: one acts alone, either of two does it, two need each other.

    Each of these effects moves processor time and three other quantities, by about its own size.

    Args:
        least, most: how many times slower each of the three makes the server.
        movers: settings that only move a quantity, 1.1 to 3 times.
    """
    order = [int(change) for change in rng.permutation(FILE)]

    def size() -> float:
        return float(rng.uniform(math.log(least), math.log(most)))

    effects = (
        Effect("plain", (order[0],), size()),
        Effect("either suffices", (order[1], order[2]), size(), is_any=True),
        Effect("both needed", (order[3], order[4]), size()),
    )
    marks = []
    for effect in effects if most > 1 else ():
        moves = np.zeros(len(QUANTITIES))
        some = rng.choice(np.arange(1, len(QUANTITIES)), 3, replace=False)
        moves[some] = rng.choice([-1, 1], 3) * rng.uniform(0.3, 1.5, 3)
        moves[0] = rng.uniform(0.5, 1.2)
        marks.append((effect, moves * effect.loss))
    only = {}
    for change in order[5 : 5 + movers]:
        only[change] = np.zeros(len(QUANTITIES))
        one = rng.integers(1, len(QUANTITIES))
        only[change][one] = rng.choice([-1, 1]) * math.log(rng.uniform(1.1, 3))
    return System(effects if most > 1 else ()), Quantities(tuple(marks), only)


def mixed(rng: np.random.Generator) -> System:
    """Return a system with one to four plain effects, and one of each kind of pair."""
    order = [int(change) for change in rng.permutation(CHANGES)]

    def size() -> float:
        return float(rng.uniform(_LEAST, _MOST))

    effects = [Effect("plain", (order.pop(),), size()) for _ in range(int(rng.integers(1, 5)))]
    effects.append(Effect("both needed", (order.pop(), order.pop()), size()))
    effects.append(Effect("either suffices", (order.pop(), order.pop()), size(), is_any=True))
    one, other = order.pop(), order.pop()
    effects += [Effect("interacting", (change,), size()) for change in (one, other)]
    effects.append(Effect("interacting", (one, other), float(rng.choice([-1, 1])) * _CROSS))
    return System(tuple(effects))


def threes(rng: np.random.Generator) -> System:
    """Return two plain effects, three changes that need each other, and three of which any suffices."""
    order = [int(change) for change in rng.permutation(CHANGES)]
    sizes = rng.uniform(_LEAST, _MOST, 4)
    return System(
        (
            Effect("plain", (order[0],), float(sizes[0])),
            Effect("plain", (order[1],), float(sizes[1])),
            Effect("all three needed", tuple(order[2:5]), float(sizes[2])),
            Effect("any of three suffices", tuple(order[5:8]), float(sizes[3]), is_any=True),
        )
    )


class _EitherGroup(Effect):
    """Two groups of changes; either of them, complete, suffices."""

    def lost(self, changes: Changes) -> float:
        half = len(self.members) // 2
        groups = (
            (self.members[:half], self.members[half:])
            if half > 1
            else (self.members[:2], self.members[2:])
        )
        return self.loss * any(all(one in changes for one in group) for group in groups)


def small(rng: np.random.Generator) -> System:
    """Return five plain effects, as small as the screening can just detect at this noise."""
    some = rng.permutation(CHANGES)[:5]
    return System(tuple(Effect("small", (int(one),), _SMALL) for one in some))


def hidden_pair(rng: np.random.Generator) -> System:
    """Return a pair that needs both, and a change that does the same alone."""
    order = [int(change) for change in rng.permutation(CHANGES)]
    loss = float(rng.uniform(math.log(1.5), _MOST))
    return System((_EitherGroup("hidden", (order[0], order[1], order[2]), loss),))


def two_pairs(rng: np.random.Generator) -> System:
    """Return two pairs that each need both; either pair suffices."""
    order = [int(change) for change in rng.permutation(CHANGES)]
    loss = float(rng.uniform(math.log(1.5), _MOST))
    return System((_EitherGroup("hidden", tuple(order[:4]), loss),))
