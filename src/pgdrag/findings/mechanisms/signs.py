"""Did an observation move, and could that be chance?

A trial is the unit: its value over the whole window is one number, and trials do not resemble their
neighbours in time as seconds do. What differs from trial to trial of the same treatment is pooled over
all treatments of the run; chance in counting few events comes on top of it. No smoothing, and no
correlation of series, which finds structure in noise: docs/method.md shows it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Treatments
from pgdrag.findings.mechanisms.catalogue import (
    BUFFER_WAIT,
    COMMIT_WAIT,
    LWLOCK_WAIT,
    PARALLEL_WAIT,
    READ_WAIT,
    STANDBY_WAIT,
    SYNC_SHARE,
    WAL_WAIT,
    Direction,
    Sign,
)
from pgdrag.findings.mechanisms.ledger import BUFFER, READ, WAL_BYTES, WAL_WRITES, Ledger, ledger
from pgdrag.findings.plausibility import implausible_in, without
from pgdrag.model import Observation
from pgdrag.model.recordings import WaitTime
from pgdrag.stats.distributions import binomial_from, student_beyond
from pgdrag.stats.multiple_testing import false_discovery_rates
from pgdrag.stats.noise import Noise, pooled_noise

UNMOVED_BELOW = math.log(1.1)  # under 10 % (of the value, or of the odds) is called unmoved
_OF_EVENTS = ("1/s", "1/transaction")
_FEW_EVENTS = 30  # on both sides together; of so few chance in counting is what matters
_LEAST_SD = 0.01  # a pooled spread under 1 % is luck: nothing on a machine is steadier


@dataclass(frozen=True)
class Reading:
    """One trial's value of an observation, on the scale on which it is compared.

    Attributes:
        value: a logarithm, of a share that of its odds.
        counting_variance: of that, by chance in counting the events behind it.
        events: how many there were; None where it is no count of events.
        exposure: seconds or transactions in which they were counted.
    """

    value: float
    counting_variance: float
    events: int | None = None
    exposure: float = 1.0


@dataclass(frozen=True)
class Test:
    """What a test of one sign came to.

    Attributes:
        p: probability of such a movement or a larger one the wanted way by chance alone; None where no
            treatment was repeated, so that nobody knows what trials differ by.
        distance: from before to after, the wanted way, on the scale of `Reading`.
    """

    __test__ = False  # pytest looks for this name

    p: float | None
    distance: float

    @property
    def has_moved(self) -> bool:
        """It moved by 10 % or more the wanted way."""
        return self.distance >= UNMOVED_BELOW


UNSEEN = Test(None, -math.inf)  # a side has no value


class Trials:
    """What all trials of a run showed, and tests of it from one rung to another.

    Attributes:
        implausible: why observations cannot be true, by name; they are tested nowhere.
    """

    def __init__(self, rungs: Sequence[RungTrials]) -> None:
        self._seen: dict[str, list[Mapping[str, Observation]]] = {}
        self._committed: dict[str, list[int]] = {}
        self._ledgers: dict[str, list[Ledger]] = {}
        results = [result for rung in rungs for result, _ in rung.numbered]
        self.implausible = implausible_in([result.evidence for result in results])
        for rung in rungs:
            name = rung.rung.name
            commits = [measured.total.committed for _, measured in rung.numbered]
            books = [
                ledger(result.recordings.of(WaitTime), result.evidence, committed)
                for (result, _), committed in zip(rung.numbered, commits, strict=True)
            ]
            self._committed[name] = commits
            self._ledgers[name] = [book for book in books if book is not None]
            self._seen[name] = [
                {
                    one.name: one
                    for one in (*without(result.evidence, self.implausible), *_made_of(book))
                }
                for (result, _), book in zip(rung.numbered, books, strict=True)
            ]
        self._spread = cache(self._spread_of)
        self._middle = cache(self._middle_of)

    @property
    def are_repeated(self) -> bool:
        """Whether any treatment has two trials, so that it is known what chance does."""
        return any(len(trials) > 1 for trials in self._seen.values())

    def ledgers(self, rung: str) -> list[Ledger]:
        """Return where sessions' time went in each trial of a rung that was watched."""
        return self._ledgers[rung]

    def observation(self, rung: str, name: str) -> Observation | None:
        """Return an observation with its median over a rung's trials; None where none saw it."""
        return self._middle(rung, name)

    def _middle_of(self, rung: str, name: str) -> Observation | None:
        seen = [x[name] for x in self._seen[rung] if name in x]
        values = [one.value for one in seen if one.value is not None]
        return replace(seen[0], value=statistics.median(values), missing="") if values else None

    def missing(self, rung: str, name: str) -> str:
        """Return why no trial of a rung saw an observation."""
        seen = [x[name].missing for x in self._seen[rung] if name in x]
        return next((why for why in seen if why), "not observed")

    def test(self, sign: Sign, before: str, after: str) -> Test:
        """Test a sign from one rung to another, the slower one."""
        name = sign.observation
        seen = self.observation(after, name)
        if seen is None or seen.value is None:
            return UNSEEN
        if not sign.least <= seen.value < sign.below:
            return Test(1.0, 0.0)
        if sign.direction == "is":
            return Test(0.0, math.inf)
        then, now = self._readings(name, before, after)
        return tested(sign.direction, then, now, self._spread(name)) if then and now else UNSEEN

    def _readings(self, name: str, *rungs: str) -> list[list[Reading]]:
        """Return the readings of each rung, all with the coarsest resolution among them."""
        seen = [x[name] for rung in rungs for x in self._seen[rung] if name in x]
        resolution = max((one.resolution for one in seen), default=1.0)
        return [
            [
                found
                for trial, committed in zip(self._seen[rung], self._committed[rung], strict=True)
                if name in trial
                and (found := reading(trial[name], committed, resolution)) is not None
            ]
            for rung in rungs
        ]

    def _spread_of(self, name: str) -> Noise | None:
        return spread([self._readings(name, rung)[0] for rung in self._seen])


@lru_cache(maxsize=1)
def observed(treatments: Treatments) -> Trials:
    """Return what each trial of a run showed; made once for all analyses of it."""
    return Trials(treatments.trials)


def _made_of(book: Ledger | None) -> Iterator[Observation]:
    """Yield the observations that only a ledger has."""
    if book is None:
        return
    writes = book.counts.get(WAL_WRITES) or book.counts.get(WAL_BYTES)
    seconds = book.seconds
    for name, label, time_s, count in (
        (READ_WAIT, "mean wait for a block that is read", seconds["read"], book.counts.get(READ)),
        (WAL_WAIT, "mean wait of sessions for a write of the WAL", seconds["wal"], writes),
    ):
        if count:
            yield Observation(name, label, time_s / count, "s", book.least_s / count)
    if wal_s := seconds["wal"]:
        share, label = (
            book.syncing_s / wal_s,
            "sessions that write and sync, of those waiting for WAL",
        )
        yield Observation(
            SYNC_SHARE, label, min(share, 1.0), "ratio", min(book.least_s / wal_s, 1.0)
        )
    for name, label, component in (
        (LWLOCK_WAIT, "sessions' wait for other LWLocks per transaction", "lwlock"),
        (PARALLEL_WAIT, "sessions' wait for parallel workers per transaction", "parallel"),
        (BUFFER_WAIT, "sessions' wait for blocks that others change per transaction", BUFFER),
        (COMMIT_WAIT, "sessions' wait for WAL per transaction", "wal"),
        (STANDBY_WAIT, "sessions' wait for standbys per transaction", "standby"),
    ):
        yield Observation(name, label, book.seconds[component], "s/transaction", book.least_s)


def reading(seen: Observation, committed: int, resolution: float) -> Reading | None:
    """Return a trial's value as it is compared; None where it was not seen.

    Args:
        committed: transactions of the trial.
        resolution: the coarser one of all that it is compared with: one event in a long trial and in a
            short one are different rates, and none in either is the same.
    """
    if seen.value is None or not math.isfinite(seen.value):
        return None
    value = scaled(seen.value, seen.unit, resolution)
    # A number per transaction is no surer than the number of transactions; of few, a logarithm is less
    # sure than its first approximation, 1/n.
    per_commit = 1 / max(committed - 0.5, 0.5) if seen.unit.endswith("/transaction") else 0.0
    whole = 1 / seen.resolution
    if seen.unit != "ratio":
        events = round(seen.value * whole) if seen.unit in _OF_EVENTS else None
        return Reading(value, 1 / max(seen.value * whole, 1.0) + per_commit, events, whole)
    share = 1 / (1 + math.exp(-value))
    return Reading(value, 1 / max(share * whole, 1.0) + 1 / max((1 - share) * whole, 1.0))


def scaled(value: float, unit: str, resolution: float) -> float:
    """Return a value on the scale on which it is compared: its logarithm, of a share that of its odds.

    What is under its resolution counts as that, and a share is at most 1 less it.
    """
    if unit != "ratio":
        return math.log(max(value, resolution))
    clip = min(resolution, 0.5)
    inside = min(max(value, clip), 1 - clip)
    return math.log(inside / (1 - inside)) if 0 < inside < 1 else 0.0


def spread(groups: Sequence[Sequence[Reading]]) -> Noise | None:
    """Return what trials of the same treatment differ by, pooled over the treatments; None where none was repeated."""
    found = pooled_noise([one.value for one in group] for group in groups)
    return None if found is None else Noise(max(found.log_sd, _LEAST_SD), found.dof)


def tested(
    wanted: Direction, before: Sequence[Reading], after: Sequence[Reading], noise: Noise | None
) -> Test:
    """Test whether an observation moved the wanted way, with one reading a trial, at least one each side.

    Student's t, one-sided, on the pooled spread; of few events the exact binomial test.
    """
    less, more = (before, after) if wanted == "up" else (after, before)
    distance = sum(x.value for x in more) / len(more) - sum(x.value for x in less) / len(less)
    if noise is None:
        return Test(None, distance)
    counted = [one.events for one in (*less, *more) if one.events is not None]
    if len(counted) == len(less) + len(more) and sum(counted) < _FEW_EVENTS:
        return Test(_chance_of_few(less, more), distance)
    between = noise.log_sd**2 * (1 / len(less) + 1 / len(more))
    counting = sum(
        sum(x.counting_variance for x in side) / len(side) ** 2 for side in (before, after)
    )
    # What chance in counting does is known, and not estimated: degrees of freedom by Satterthwaite.
    dof = noise.dof * ((between + counting) / between) ** 2
    return Test(student_beyond(distance / math.sqrt(between + counting), dof), distance)


def _chance_of_few(less: Sequence[Reading], more: Sequence[Reading]) -> float:
    """Return how likely so few events fall so onto the two sides: the exact conditional binomial test.

    A logarithm of none is as little as its floor, so that ten events against none would hardly count.
    """
    events = sum(one.events or 0 for one in more)
    every = events + sum(one.events or 0 for one in less)
    exposure = sum(one.exposure for one in more)
    share = exposure / (exposure + sum(one.exposure for one in less))
    return binomial_from(events, every, share)


def adjusted(values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values as rates of false discovery among all of them (Benjamini and Yekutieli 2001).

    Theirs and not Benjamini and Hochberg's, since counters of one server depend on each other.
    """
    return dict(zip(values, false_discovery_rates(list(values.values()), "by"), strict=True))
