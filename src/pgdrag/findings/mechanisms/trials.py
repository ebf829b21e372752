"""What did each trial show of what mechanisms must move, and what do trials of one treatment differ by?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Treatments
from pgdrag.findings.mechanisms.catalogue import (
    BUFFER_WAIT,
    LWLOCK_WAIT,
    PARALLEL_WAIT,
    READ_WAIT,
    WAL_WAIT,
    Sign,
)
from pgdrag.findings.mechanisms.ledger import BUFFER, READ, WAL_BYTES, WAL_WRITES, Ledger, ledger
from pgdrag.findings.mechanisms.signs import (
    Reading,
    Test,
    reading,
    spread,
    tested,
)
from pgdrag.model import Observation, Result
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import WaitTime
from pgdrag.stats.noise import Noise


@dataclass(frozen=True)
class Seen:
    """What one trial showed.

    Attributes:
        evidence: its observations by name, those made of its ledger included.
        ledger: where sessions' time went; None where that was not watched.
    """

    evidence: Mapping[str, Observation]
    committed: int
    ledger: Ledger | None

    def reading(self, name: str, resolution: float) -> Reading | None:
        """Return the trial's value of an observation as it is compared; None where it was not seen."""
        one = self.evidence.get(name)
        return None if one is None else reading(one, self.committed, resolution)


class Trials:
    """What all trials of a run showed."""

    def __init__(self, rungs: Sequence[RungTrials]) -> None:
        self._seen = {
            rung.rung.name: tuple(_seen(*pair) for pair in rung.numbered) for rung in rungs
        }
        self._spreads: dict[str, Noise | None] = {}

    @property
    def are_repeated(self) -> bool:
        """Whether any treatment has two trials, so that it is known what chance does."""
        return any(len(trials) > 1 for trials in self._seen.values())

    def ledgers(self, rung: str) -> list[Ledger]:
        """Return where sessions' time went in each trial of a rung that was watched."""
        return [one.ledger for one in self._seen[rung] if one.ledger is not None]

    def observation(self, rung: str, name: str) -> Observation | None:
        """Return an observation with its median over a rung's trials; None where none saw it."""
        seen = [x.evidence[name] for x in self._seen[rung] if name in x.evidence]
        values = [one.value for one in seen if one.value is not None]
        return replace(seen[0], value=statistics.median(values), missing="") if values else None

    def missing(self, rung: str, name: str) -> str:
        """Return why no trial of a rung saw an observation."""
        seen = [x.evidence[name].missing for x in self._seen[rung] if name in x.evidence]
        return next((why for why in seen if why), "not observed")

    def test(self, sign: Sign, before: str, after: str) -> Test | None:
        """Test a sign from one rung to another, the slower one; None where it was not seen."""
        name = sign.observation
        seen = self.observation(after, name)
        if seen is None or seen.value is None:
            return None
        if not sign.least <= seen.value < sign.below:
            return Test(1.0, 0.0)
        if sign.direction == "is":
            return Test(0.0, math.inf)
        resolution = self._resolution(name, before, after)
        then, now = (self._readings(rung, name, resolution) for rung in (before, after))
        if not then or not now:
            return None
        return tested(sign.direction, then, now, self._spread(name))

    def _readings(self, rung: str, name: str, resolution: float) -> list[Reading]:
        found = (trial.reading(name, resolution) for trial in self._seen[rung])
        return [one for one in found if one is not None]

    def _resolution(self, name: str, *rungs: str) -> float:
        trials = (trial for rung in rungs for trial in self._seen[rung])
        return max((x.evidence[name].resolution for x in trials if name in x.evidence), default=1.0)

    def _spread(self, name: str) -> Noise | None:
        if name not in self._spreads:
            self._spreads[name] = spread(
                [self._readings(rung, name, self._resolution(name, rung)) for rung in self._seen]
            )
        return self._spreads[name]


@lru_cache(maxsize=1)
def observed(treatments: Treatments) -> Trials:
    """Return what each trial of a run showed; made once for all analyses of it."""
    return Trials(treatments.trials)


def _seen(result: Result, measured: Measurement) -> Seen:
    committed = measured.total.committed
    book = ledger(result.recordings.of(WaitTime), result.evidence, committed)
    evidence = (*result.evidence, *(() if book is None else _made_of(book)))
    return Seen({one.name: one for one in evidence}, committed, book)


def _made_of(book: Ledger) -> Iterator[Observation]:
    """Yield the observations that only a ledger has."""
    writes = book.counts.get(WAL_WRITES) or book.counts.get(WAL_BYTES)
    for name, label, component, count in (
        (READ_WAIT, "mean wait for a block that is read", "read", book.counts.get(READ)),
        (WAL_WAIT, "mean wait for a write of the WAL", "wal", writes),
    ):
        if count:
            value_s, least_s = book.seconds[component] / count, book.least_s / count
            yield Observation(name, label, value_s, "s", least_s)
    for name, label, component in (
        (LWLOCK_WAIT, "sessions' wait for other locks of the server per transaction", "lwlock"),
        (PARALLEL_WAIT, "sessions' wait for parallel workers per transaction", "parallel"),
        (BUFFER_WAIT, "sessions' wait for blocks that others change per transaction", BUFFER),
    ):
        yield Observation(name, label, book.seconds[component], "s/transaction", book.least_s)
