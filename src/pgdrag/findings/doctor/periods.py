"""Has throughput fallen from one period to another, and which waits rose with it, beyond what chance explains?

Neighbouring intervals resemble each other, so that many of them know less than their number says. Both tests rest on
means of batches, which stay right then; a period whose batches resemble each other, too, is too short to tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgdrag.english import counted
from pgdrag.findings.spent_time import PLACES
from pgdrag.model.live import LiveWindow
from pgdrag.model.measurement import Sample
from pgdrag.stats.batches import long_memory, spread_of_mean
from pgdrag.stats.distributions import student_beyond
from pgdrag.stats.interval import Comparison, Verdict
from pgdrag.stats.multiple_testing import false_discovery_rates
from pgdrag.stats.rates import TrialRate
from pgdrag.stats.ratios import slowdown
from pgdrag.units import format_duration

COMMITS = "commits_per_s"
# Places by the series that a wait profile draws of them. Who waits for its client loses nothing to the server.
SESSIONS = {
    f"{name.removesuffix('_s_per_transaction')}_sessions": place
    for name, place in PLACES.items()
    if not name.startswith("client")
}
CONFIDENCE = 0.99
LEAST_FALL = 1.1  # a smaller one is no news on a server whose load is not pgdrag's
_LEAST_RISE = 0.1  # sessions on average
_MOST_FALSE = 0.05  # of the waits that are named
_MILLIONTH = 1e-6


@dataclass(frozen=True)
class Period:
    """What a server did, interval by interval.

    Attributes:
        samples: transactions committed in each interval; their times from the period's begin.
        sessions: by type of wait, the length of each interval and how many sessions were in it on average.
    """

    samples: tuple[Sample, ...]
    sessions: Mapping[str, Sequence[tuple[float, float]]]

    @property
    def committed(self) -> int:
        """Of all intervals."""
        return sum(one.committed for one in self.samples)

    @property
    def length_s(self) -> float:
        """Of all intervals."""
        return sum(one.duration_s for one in self.samples)


@dataclass(frozen=True)
class Rise:
    """A wait that took more of sessions' time than before.

    Attributes:
        before, now: sessions in it, on average.
        p: probability of such a rise by chance, adjusted for all waits that were looked at.
    """

    wait: str
    before: float
    now: float
    p: float


@dataclass(frozen=True)
class Change:
    """What changed from one period to the other.

    Attributes:
        throughput: how many times slower the second is.
        rises: waits that rose significantly, the largest rise first.
        too_short: why the periods cannot tell; "" where they can.
    """

    throughput: Comparison
    rises: tuple[Rise, ...]
    too_short: str = ""

    @property
    def is_regression(self) -> bool:
        """Throughput fell, waits rose, and neither is chance."""
        fell = self.throughput.verdict is Verdict.SLOWER
        return (
            fell
            and self.throughput.slowdown.center >= LEAST_FALL
            and bool(self.rises)
            and not self.too_short
        )


def change_between(before: Period, now: Period) -> Change | None:
    """Compare two periods; None where one of them is empty.

    Source: Welch 1947 on logarithms of batch means; Benjamini and Hochberg 1995.
    """
    if not all(one.samples and one.length_s > 0 for one in (before, now)):
        return None
    sides = [
        [TrialRate(at, x.committed, x.length_s, x.samples)] for at, x in enumerate((before, now))
    ]
    throughput = slowdown(*sides, confidence=CONFIDENCE)
    return Change(throughput, _rises(before, now), _too_short(before, now))


def period_of(window: LiveWindow) -> Period:
    """Return what a window showed, about second by second."""
    samples: list[Sample] = []
    sessions: dict[str, list[tuple[float, float]]] = {}
    for series in window.recordings.series:
        lengths = [end - begin for begin, end in pairwise((0.0, *series.times_s))]
        each = list(zip(series.times_s, lengths, series.values, strict=True))
        if series.name == COMMITS:
            samples = [Sample(at, lasted_s, round(x * lasted_s)) for at, lasted_s, x in each]
        elif series.name in SESSIONS:
            known = [(lasted_s, x) for _, lasted_s, x in each if lasted_s > 0]
            sessions[SESSIONS[series.name]] = known
    return Period(tuple(samples), sessions)


def _too_short(*periods: Period) -> str:
    for one in periods:
        if spread_of_mean(one.samples) is None:
            count = counted(len(one.samples), "interval")
            return f"{count} cannot show how unsteady throughput is: look longer"
        if (memory := long_memory(one.samples)) is not None:
            correlation, enough_s = memory
            return (
                f"throughput is autocorrelated (correlation {correlation:.2f}): compare periods of "
                f"{format_duration(round(enough_s))} or more"
            )
    return ""


def _rises(before: Period, now: Period) -> tuple[Rise, ...]:
    waits = sorted(before.sessions.keys() | now.sessions.keys())
    tested = [(wait, *_rise(before, now, wait)) for wait in waits]
    adjusted = false_discovery_rates([p for *_, p in tested])
    found = [
        Rise(wait, earlier, later, p)
        for (wait, earlier, later, _), p in zip(tested, adjusted, strict=True)
        if p <= _MOST_FALSE and later - earlier >= _LEAST_RISE
    ]
    return tuple(sorted(found, key=lambda one: one.before - one.now))


def _rise(before: Period, now: Period, wait: str) -> tuple[float, float, float]:
    """Return the means before and now, and the probability of such a rise by chance."""
    (earlier, *known), (later, *more) = _mean(before, wait), _mean(now, wait)
    variances, dofs = (known[0], more[0]), (known[1], more[1])
    both = sum(variances)
    if both <= 0:
        return earlier, later, 0.0 if later > earlier else 1.0
    dof = both**2 / sum(x**2 / n for x, n in zip(variances, dofs, strict=True))
    return earlier, later, student_beyond((later - earlier) / math.sqrt(both), dof)


def _mean(period: Period, wait: str) -> tuple[float, float, float]:
    """Return how many sessions were in a wait, the variance of that mean, and its degrees of freedom."""
    # As counts of millionths, which batches are made of as of commits.
    counted = [
        Sample(0.0, duration_s, round(value * duration_s / _MILLIONTH))
        for duration_s, value in period.sessions.get(wait, ())
    ]
    length_s = sum(one.duration_s for one in counted)
    mean = _MILLIONTH * sum(one.committed for one in counted) / length_s if length_s else 0.0
    spread = spread_of_mean(counted)
    if spread is None:
        return mean, 0.0 if not mean else math.inf, 1.0
    return mean, (mean * spread.log_se) ** 2, spread.dof
