"""What has changed since observations that were kept? Their throughput and waits against those of a window."""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.findings.doctor.periods import (
    COMMITS,
    CONFIDENCE,
    LEAST_FALL,
    SESSIONS,
    Change,
    Period,
    Rise,
)
from pgdrag.findings.doctor.statement_rises import StatementRise
from pgdrag.model.measurement import Sample
from pgdrag.model.observed import Stretch
from pgdrag.stats.interval import Interval
from pgdrag.units import format_number, format_ratio


@dataclass(frozen=True)
class Since:
    """A live server against an earlier recording of it.

    Attributes:
        slowdown: throughput then divided by now; None: one of the two has no transaction counts.
        rises: waits that rose significantly, the largest rise first.
        too_short: why a verdict is not possible, or "".
        statements: that take longer or read more per call.
        not_compared: why no statement was compared, or "".
    """

    file: str
    is_regression: bool
    slowdown: Interval | None
    rises: tuple[Rise, ...]
    too_short: str
    statements: tuple[StatementRise, ...]
    statements_compared: int
    not_compared: str

    @classmethod
    def of(
        cls,
        file: str,
        change: Change | None,
        statements: tuple[StatementRise, ...] = (),
        *,
        compared: int = 0,
        not_compared: str = "",
    ) -> Since:
        """Put together what was found; a change is None where the two cannot be compared."""
        return cls(
            file=file,
            is_regression=change is not None and change.is_regression,
            slowdown=change.throughput.slowdown if change else None,
            rises=change.rises if change else (),
            too_short=change.too_short if change else "",
            statements=statements,
            statements_compared=compared,
            not_compared=not_compared,
        )


def period_of_stretch(stretch: Stretch) -> Period:
    """Return what a stretch of observations showed, interval by interval."""
    samples: list[Sample] = []
    sessions: dict[str, list[tuple[float, float]]] = {}
    for series in stretch.series:
        name = series.quantity.name
        ends = [end_s - stretch.began_unix_s for end_s in series.ends_unix_s]
        known = zip(ends, series.spreads, strict=True)
        if name == COMMITS:
            samples = [Sample(at, x.known_s, round(x.mean * x.known_s)) for at, x in known]
        elif name in SESSIONS:
            sessions[SESSIONS[name]] = [(x.known_s, x.mean) for _, x in known]
    return Period(tuple(samples), sessions)


def since_words(change: Change | None, file: str) -> str:
    """Return what changed, in a sentence or two."""
    if change is None:
        return f"Since {file}: cannot compare, because one of the two has no transaction counts."
    found = change.throughput.slowdown
    interval = f"{CONFIDENCE:.0%} CI {format_ratio(found.low)} to {format_ratio(found.high)}"
    rises = ", ".join(
        f"{one.wait} {format_number(one.before)} → {format_number(one.now)}" for one in change.rises
    )
    waits = f" Average waiting sessions, before → now: {rises}." if rises else ""
    if change.is_regression:
        return f"Since {file}: throughput fell by a factor of {format_ratio(found.center)} ({interval}).{waits}"
    if change.too_short:
        fall = (
            f"fell by a factor of {format_ratio(found.center)}"
            if found.center > 1
            else "did not fall"
        )
        return f"Since {file}: no verdict, as {change.too_short}. Throughput {fall} ({interval})."
    if change.throughput.is_significant and found.center > 1:
        lower = f"throughput is lower by a factor of {format_ratio(found.center)} ({interval})"
        if change.rises:
            return f"Since {file}: {lower}, below the {LEAST_FALL:g} that counts as a regression.{waits}"
        return f"Since {file}: {lower}, but sessions wait no longer than before: the load is lower."
    return f"Since {file}: throughput has not fallen significantly ({interval}).{waits}"
