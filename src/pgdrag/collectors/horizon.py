"""How far back must the server keep old row versions, and who holds them?

The workload's own sessions have ended when the numbers are read, so a holder that is named held longer
than one of their transactions. Samples within the window leave short transactions out; only they show
holders that released the horizon before the window's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt, known
from pgdrag.collectors._log import in_groups
from pgdrag.collectors._metric import NO_READING, series_of
from pgdrag.english import counted
from pgdrag.horizon.sampling import HolderSample, read_holders
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import Event, Recordings
from pgdrag.units import format_duration

_LONG_S = 2.0  # a holder is an event from here on
_SAME_S = 0.5  # two looks at one transaction do not disagree by more on when it began


@dataclass
class Holding:
    """A holder as it was last seen, and since when it has held: if that is not shown, since it was first seen.

    Attributes:
        began_unix_s, seen_unix_s: by this machine's clock.
    """

    holder: HolderSample
    began_unix_s: float
    seen_unix_s: float


class Horizon(Collector):
    """The oldest transaction that is held: within the window, and at its end."""

    name: ClassVar[str] = "horizon"
    summary: ClassVar[str] = "how old the oldest row version kept is, and who holds it"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("horizon_age_transactions", "transactions since the oldest row version kept", "age", "count", detail="{oldest}"),
        Metric(
            "horizon_age_max_transactions",
            "transactions since the oldest row version kept, at most within the window",
            "largest age",
            "count",
            detail="{largest}",
        ),
        Metric("horizon_held_s", "time for which the oldest row version has been kept", "held_s", "s", step=0.001, detail="{oldest}"),
        Metric("horizon_holders", "sessions, prepared transactions and slots that hold the horizon back", "holders", "count", detail="{oldest}"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._holders: Sequence[HolderSample] | Unseen = NO_READING
        self._ages: list[tuple[float, int]] = []
        self._largest: HolderSample | None = None
        self._holdings: list[Holding] = []
        self._latest: dict[str, Holding] = {}  # by who it is

    def before(self, observer: Observer) -> None:
        """Nothing: what counts is who still holds at the window's end."""

    def sample(self, observer: Observer) -> None:
        """See who has held on to something for a second or longer."""
        found = attempt(lambda: read_holders(observer.query, with_short=False))
        if isinstance(found, Unseen):
            return
        now_s = CLOCK.unix_s()
        oldest = next(iter(found), None)
        self._ages.append((now_s, _age(oldest)))
        if oldest is not None and (self._largest is None or _age(oldest) > _age(self._largest)):
            self._largest = oldest
        for holder in found:
            self._note(holder, now_s)

    def _note(self, holder: HolderSample, now_s: float) -> None:
        latest = self._latest.get(holder.who)
        began_s = latest.began_unix_s if latest is not None else now_s
        if (held_s := _held_s(holder)) is not None:
            began_s = now_s - held_s
        if latest is not None and abs(began_s - latest.began_unix_s) < _SAME_S:
            latest.holder, latest.seen_unix_s = holder, now_s
        else:
            self._latest[holder.who] = Holding(holder, began_s, now_s)
            self._holdings.append(self._latest[holder.who])

    def after(self, observer: Observer) -> None:
        self._holders = attempt(lambda: read_holders(observer.query))

    def amounts(self, window: Window) -> Amounts:
        holders = known(self._holders)
        oldest, largest = next(iter(holders), None), self._largest
        if largest is not None and _age(oldest) < _age(largest):
            at_most = f"The oldest within the window: {_words(largest)}."
        elif oldest is not None:
            largest, at_most = oldest, f"At the end of the window: {_words(oldest)}."
        else:
            at_most = "Nobody held it back."
        known_s = [held_s for one in holders if (held_s := _held_s(one)) is not None]
        unknown = Unseen("none of its holders shows when it began")
        return {
            "age": _age(oldest),
            "oldest": f"The oldest: {_words(oldest)}." if oldest else "Nobody holds it back.",
            "largest age": _age(largest),
            "largest": at_most,
            "held_s": unknown if holders and not known_s else max(known_s, default=0.0),
            "holders": len(holders),
        }

    def recordings(self, window: Window) -> Recordings:
        """Return each holder of two seconds or more, and the age of the oldest over the window."""
        label = "transactions since the oldest row version kept for 1 s or longer"
        return Recordings(
            (
                *series_of("horizon_age_transactions", label, "count", self._ages, window),
                *in_groups(self._events(window), window),
            )
        )

    def _events(self, window: Window) -> Iterator[Event]:
        for one in self._holdings:
            begin_s, end_s = (
                at - window.started_unix_s for at in (one.began_unix_s, one.seen_unix_s)
            )
            if end_s - begin_s >= _LONG_S and end_s >= 0 and begin_s <= window.length_s:
                text = f"{one.holder.words}, {counted(_age(one.holder), 'transaction')} old when last seen"
                yield Event("holder", begin_s, end_s, text)


def _held_s(holder: HolderSample) -> float | None:
    """Return for how long it has held, also where the machine's clock, which is the server's, was set since."""
    if holder.held_s is None:
        return None
    return CLOCK.of_wall(holder.at_s) - CLOCK.of_wall(holder.at_s - holder.held_s)


def _age(holder: HolderSample | None) -> int:
    return 0 if holder is None else holder.age or 0


def _words(holder: HolderSample) -> str:
    since = f" for {format_duration(holder.held_s)}" if holder.held_s is not None else ""
    return f"{holder.words}, {counted(_age(holder), 'transaction')} old{since}"
