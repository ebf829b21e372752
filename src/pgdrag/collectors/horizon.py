"""How far back must the server keep old row versions, and on whose account?

The workload's own sessions have ended when
the numbers are read, so that what is named stands in the way for longer than a transaction of theirs.
What is seen within the window leaves short transactions out, whose they may be; what was let go before
its end is seen there alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pgdrag.collectors import Collector, Observer, Unseen, Window
from pgdrag.collectors._counters import attempt, missing
from pgdrag.collectors._log import in_groups
from pgdrag.english import counted
from pgdrag.horizon.watching import SeenHolder, read_holders, read_long_holders
from pgdrag.model import Observation
from pgdrag.model.recordings import Event, Recordings, Series
from pgdrag.units import format_duration

_AGE = ("horizon_age_transactions", "transactions since the oldest row version kept")
_LARGEST = (
    "horizon_age_max_transactions",
    "transactions since the oldest row version kept, at most within the window",
)
_HELD = ("horizon_held_s", "time for which the oldest row version has been kept")
_HOLDERS = (
    "horizon_holders",
    "sessions, prepared transactions and slots that hold the horizon back",
)

_LONG_S = 2.0  # a holder is an event from here on
_SAME_S = 0.5  # two looks at one transaction do not disagree by more on when it began


@dataclass(frozen=True)
class Holding:
    """A holder as it was last seen, and since when it has held: where it does not say, since first seen.

    Attributes:
        began_unix_s, seen_unix_s: by this machine's clock.
    """

    holder: SeenHolder
    began_unix_s: float
    seen_unix_s: float


class Horizon(Collector):
    """The oldest transaction that somebody holds on to: within the window, and when it has ended."""

    name: ClassVar[str] = "horizon"
    summary: ClassVar[str] = "how old the oldest row version kept is, and who holds it"

    def __init__(self) -> None:
        self._holders: Sequence[SeenHolder] | Unseen = Unseen("no reading was taken")
        self._ages: list[tuple[float, int]] = []
        self._largest: SeenHolder | None = None
        self._holdings: list[Holding] = []
        self._latest: dict[str, int] = {}  # by who it is: the place of the last holding

    def before(self, observer: Observer) -> None:
        """Nothing: what counts is what still holds when the window has ended."""

    def sample(self, observer: Observer) -> None:
        """See who has held on to something for a second or longer."""
        found = attempt(lambda: read_long_holders(observer.query))
        if isinstance(found, Unseen):
            return
        now_s = time.time()
        self._ages.append((now_s, found[0].age if found else 0))
        if found and (self._largest is None or found[0].age > self._largest.age):
            self._largest = found[0]
        for holder in found:
            self._note(holder, now_s)

    def _note(self, holder: SeenHolder, now_s: float) -> None:
        place = self._latest.get(holder.who)
        known = self._holdings[place] if place is not None else None
        if holder.held_s is not None:
            began_s = now_s - holder.held_s
        else:
            began_s = known.began_unix_s if known is not None else now_s
        if place is not None and known is not None and abs(began_s - known.began_unix_s) < _SAME_S:
            self._holdings[place] = replace(known, holder=holder, seen_unix_s=now_s)
        else:
            self._latest[holder.who] = len(self._holdings)
            self._holdings.append(Holding(holder, began_s, now_s))

    def after(self, observer: Observer) -> None:
        """See who holds on to what."""
        self._holders = attempt(lambda: read_holders(observer.query))

    def observations(self, window: Window) -> Sequence[Observation]:
        """Age and duration of the oldest, and how many there are; the largest age of the window."""
        holders = self._holders
        if isinstance(holders, Unseen):
            return (
                missing(*_AGE, "count", holders),
                missing(*_LARGEST, "count", holders),
                missing(*_HELD, "s", holders),
                missing(*_HOLDERS, "count", holders),
            )
        oldest = holders[0] if holders else None
        detail = f"The oldest: {_words(oldest)}." if oldest else "Nobody holds it back."
        return (
            Observation(*_AGE, oldest.age if oldest else 0, "count", 1, detail=detail),
            _largest(self._largest, oldest),
            _held(holders, detail),
            Observation(*_HOLDERS, len(holders), "count", 1, detail=detail),
        )

    def recordings(self, window: Window) -> Recordings:
        """Return each holder of two seconds or more, and the age of the oldest over the window."""
        events = in_groups(self._events(window), window)
        if not self._ages:
            return Recordings(events)
        times_s, ages = zip(*self._ages, strict=True)
        series = Series(
            "horizon_age_transactions",
            "transactions since the oldest row version kept for 1 s or longer",
            "count",
            tuple(at - window.started_unix_s for at in times_s),
            tuple(float(age) for age in ages),
        )
        return Recordings((series, *events))

    def _events(self, window: Window) -> Iterator[Event]:
        for one in self._holdings:
            begin_s, end_s = (
                at - window.started_unix_s for at in (one.began_unix_s, one.seen_unix_s)
            )
            if end_s - begin_s >= _LONG_S and end_s >= 0 and begin_s <= window.length_s:
                text = f"{one.holder.words}, {counted(one.holder.age, 'transaction')} old when last seen"
                yield Event("holder", begin_s, end_s, text)


def _largest(within: SeenHolder | None, at_end: SeenHolder | None) -> Observation:
    if within is None or (at_end is not None and at_end.age >= within.age):
        detail = (
            f"At the end of the window: {_words(at_end)}." if at_end else "Nobody held it back."
        )
        return Observation(*_LARGEST, at_end.age if at_end else 0, "count", 1, detail=detail)
    detail = f"The oldest within the window: {_words(within)}."
    return Observation(*_LARGEST, within.age, "count", 1, detail=detail)


def _held(holders: Sequence[SeenHolder], detail: str) -> Observation:
    known_s = [x.held_s for x in holders if x.held_s is not None]
    if holders and not known_s:
        return missing(*_HELD, "s", Unseen("none of those who hold it shows since when"))
    return Observation(*_HELD, max(known_s, default=0.0), "s", 0.001, detail=detail)


def _words(holder: SeenHolder) -> str:
    since = f" for {format_duration(holder.held_s)}" if holder.held_s is not None else ""
    return f"{holder.words}, {counted(holder.age, 'transaction')} old{since}"
