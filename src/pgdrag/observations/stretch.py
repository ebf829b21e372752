"""What does a stretch of a file of observations show? All its samples, read once and put together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

from pgdrag.errors import ObservationsError, PgdragError, UsageError
from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.findings.spent_time import PLACES
from pgdrag.model.observed import (
    ObservedSeries,
    Quantity,
    Resolution,
    Sample,
    Spread,
    Statement,
    StatementTotals,
    Stretch,
)
from pgdrag.model.recordings import SESSION_TYPES
from pgdrag.observations.store import ObservationReader
from pgdrag.observations.thinning import added_up, is_next, leading, mean_waits, merged
from pgdrag.report.stretch.words import utc_words
from pgdrag.units import parse_seconds

MOST_STATEMENTS = 50
MOST_INTERVALS = 2000
# By the type of a wait, as a trial's wait profile names the series of its sessions; all others are "other".
_KINDS = {
    "": "on_cpu",
    "IO": "io_wait",
    "LWLock": "lwlock_wait",
    "Lock": "lock_wait",
    "Client": "client_wait",
}
_AGO = re.compile(r"-?\s*(?P<ago>[\d.,]+\s*[a-zµ]+)(?:\s+ago)?", re.IGNORECASE)


def moment(text: str, option: str, *, began_unix_s: float, ended_unix_s: float) -> float:
    """Return the moment that a person means: a time of day, a date and time, or how long before the end.

    Args:
        text: `2026-11-25 14:00`, `14:00` (of the last day of the file), `2h` (before its end), `begin` or `end`.
            Without an offset, times are this machine's.
        began_unix_s, ended_unix_s: of the file.

    Raises:
        UsageError: it is none of these.
    """
    word = text.strip().lower()
    if word in ("begin", "end"):
        return began_unix_s if word == "begin" else ended_unix_s
    if ago := _AGO.fullmatch(word):
        try:
            return ended_unix_s - parse_seconds(ago["ago"])
        except PgdragError:
            pass
    if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", word):
        day = datetime.fromtimestamp(ended_unix_s).astimezone()
        parts = [int(x) for x in word.split(":")]
        if parts[0] < 24 and all(x < 60 for x in parts[1:]):
            hour, minute, second = (*parts, 0)[:3]
            return day.replace(hour=hour, minute=minute, second=second, microsecond=0).timestamp()
    try:
        return datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f'{option}: "{text}" is not a time',
            hint='Write a date and time such as "2026-11-25 14:00", a time of the last day such as 14:00, or how '
            "long before the end, such as 2h.",
        ) from None


def bounds(path: Path, begin: str | None = None, end: str | None = None) -> tuple[float, float]:
    """Return where a stretch of a file begins and ends; arguments and errors as for `read_stretch`."""
    with ObservationReader(path) as reader:
        return _bounds(reader, begin, end)


def read_stretch(path: Path, begin: str | None = None, end: str | None = None) -> Stretch:
    """Return what a stretch of a file shows; by default all of it.

    Args:
        begin, end: as for `moment`.

    Raises:
        ObservationsError: the file cannot be read, or has no sample there.
        UsageError: `begin` or `end` is not a time, or the end is not after the begin.
    """
    with ObservationReader(path) as reader:
        begin_s, end_s = _bounds(reader, begin, end)
        intervals = reader.intervals(begin_s, end_s)
        samples = list(condensed(reader.samples(begin_s, end_s), len(intervals)))
        began, ended = intervals[0][1], intervals[-1][2]
        observed_s = sum(one.observed_s for one in samples)
        return Stretch(
            file=path.name,
            server=reader.server(ended),
            began_unix_s=began,
            ended_unix_s=ended,
            observed_s=observed_s,
            resolutions=tuple(_resolutions(intervals)),
            series=(*_wait_series(samples), *_series(samples, reader.quantities())),
            waits={x: mean for x, mean in mean_waits(samples, observed_s).items() if mean},
            statements=leading(added_up(one.statements for one in samples), MOST_STATEMENTS),
            # What happened before the first sample began is what it began with.
            events=reader.events(reader.ended_before(began), ended),
            settings=reader.settings(ended),
            dropped_until_unix_s=reader.dropped_until(),
            condensed=size_of_each(len(intervals)),
        )


def statement_parts(path: Path, database: str, least_s: float) -> list[dict[str, StatementTotals]]:
    """Return what each statement of a database took in one part of the file after the other.

    Args:
        least_s: how long each part is observed at least; a shorter rest is dropped.

    Raises:
        ObservationsError: the file cannot be read.
    """
    found: list[dict[str, StatementTotals]] = []
    part: list[Mapping[Statement, StatementTotals]] = []
    observed_s = 0.0
    with ObservationReader(path) as reader:
        for sample in reader.samples(*_bounds(reader, None, None)):
            part.append(sample.statements)
            observed_s += sample.observed_s
            if observed_s >= least_s:
                totals = added_up(part).items()
                found.append({x.text: one for x, one in totals if x.database == database})
                part, observed_s = [], 0.0
    return found


def _bounds(reader: ObservationReader, begin: str | None, end: str | None) -> tuple[float, float]:
    span = reader.span()
    if span is None:
        raise ObservationsError("there is no sample in this file yet", path=reader.path)
    first, last = (utc_words(x) for x in span)
    has = f"The file has samples from {first} to {last}."
    begin_s, end_s = (
        usual if text is None else moment(text, option, began_unix_s=span[0], ended_unix_s=span[1])
        for usual, text, option in zip(span, (begin, end), ("--from", "--to"), strict=True)
    )
    if begin_s >= end_s:
        raise UsageError(
            f"--from ({utc_words(begin_s)}) is not before --to ({utc_words(end_s)})", hint=has
        )
    if not reader.intervals(begin_s, end_s):
        raise ObservationsError(
            f"there is no sample from {utc_words(begin_s)} to {utc_words(end_s)}",
            path=reader.path,
            hint=has,
        )
    return begin_s, end_s


def size_of_each(samples: int) -> int:
    """Return how many neighbours are put together, so that a stretch of any length fits into memory and pictures."""
    return math.ceil(samples / MOST_INTERVALS)


def condensed(samples: Iterable[Sample], count: int) -> Iterator[Sample]:
    """Yield samples; where they are too many, neighbours as one, which keeps sums and extremes."""
    size = size_of_each(count)
    batch: list[Sample] = []
    for sample in samples:
        if batch and (len(batch) == size or not is_next(batch[-1], sample)):
            yield merged(batch, level=batch[0].level)
            batch = []
        batch.append(sample)
    if batch:
        yield merged(batch, level=batch[0].level)


def _resolutions(intervals: Sequence[tuple[int, float, float]]) -> Iterable[Resolution]:
    for level, group in groupby(intervals, lambda one: one[0]):
        alike = list(group)
        lengths = sorted(end - begin for _, begin, end in alike)
        yield Resolution(level, lengths[len(lengths) // 2], len(alike), alike[0][1], alike[-1][2])


def _series(samples: Sequence[Sample], quantities: Iterable[Quantity]) -> Iterable[ObservedSeries]:
    for quantity in quantities:
        known = [(one, one.values[quantity.name]) for one in samples if quantity.name in one.values]
        if known:
            yield ObservedSeries(
                quantity,
                tuple(one.began_unix_s for one, _ in known),
                tuple(one.ended_unix_s for one, _ in known),
                tuple(spread for _, spread in known),
            )


def _wait_series(samples: Sequence[Sample]) -> Iterable[ObservedSeries]:
    """Yield how many sessions were in each kind of wait, under the names that a trial's have."""
    # Where sessions could be seen: then no wait is none, and no gap.
    known = [one for one in samples if "active_sessions" in one.values]
    if not known:
        return

    def drawn(name: str, label: str, values: Sequence[float]) -> ObservedSeries:
        return ObservedSeries(
            Quantity(name, label, "count"),
            tuple(one.began_unix_s for one in known),
            tuple(one.ended_unix_s for one in known),
            tuple(Spread(x, x, x, one.observed_s) for one, x in zip(known, values, strict=True)),
        )

    for wait_type, name in (*_KINDS.items(), (None, "other_wait")):
        label = PLACES[f"{name}_s_per_transaction"]
        yield drawn(f"{name}_sessions", label, [_sessions_in(one, wait_type) for one in known])
    for wait_type, name in WAIT_SERIES.items():
        values = [_sessions_in(one, wait_type) for one in known]
        if wait_type not in _KINDS and any(values):
            yield drawn(name, f"waits of type {wait_type}", values)


def _sessions_in(sample: Sample, wait_type: str | None) -> float:
    """Return how many sessions were in waits of a type; None: of all types without a name of their own."""
    found = 0.0
    for wait, processes in sample.waits.items():
        if wait.backend_type in SESSION_TYPES:
            kind = wait.wait.partition(":")[0]
            if kind == wait_type or (wait_type is None and kind not in _KINDS):
                found += processes
    return found
