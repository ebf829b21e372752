"""How far back must the server keep old row versions, and on whose account?

No version that a snapshot, a prepared transaction or a slot may still want is removed, however dead:
all of the database's vacuums stop at the oldest of them. The workload's own sessions have ended when
the numbers are read, so that what is named stands in the way for longer than a transaction of theirs.
What is drawn over the window leaves short transactions out, whose they may be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, LiteralString

from pgdrag.collectors import Collector, Observer, Unseen, Window
from pgdrag.collectors._counters import attempt, missing
from pgdrag.collectors._log import in_groups
from pgdrag.exhibits import Event, Exhibits, Series
from pgdrag.plan import Observation
from pgdrag.units import format_duration

_AGE = ("horizon_age_transactions", "transactions since the oldest row version kept")
_HELD = ("horizon_held_s", "time for which the oldest row version has been kept")
_HOLDERS = (
    "horizon_holders",
    "sessions, prepared transactions and slots that hold the horizon back",
)

_LONG_S = 2.0  # a holder is an event from here on
_SAME_S = 0.5  # two looks at one transaction do not disagree by more on when it began

# Who has what oldest transaction, as ages; those of other databases hold back their own. A vacuum's
# own snapshot holds nobody back. A standby with feedback is the session that streams to it, or its slot.
_KNOWN: LiteralString = """
SELECT *
  FROM (SELECT CASE WHEN backend_type = 'walsender' THEN 'standby ' ELSE 'session ' END
               || pid || coalesce(
                   ' (' || nullif(concat_ws(', ', nullif(state, ''), nullif(application_name, '')), '')
                   || ')', ''),
               greatest(age(backend_xmin), age(backend_xid)),
               extract(epoch FROM clock_timestamp() - coalesce(xact_start, backend_start))
          FROM pg_stat_activity
         WHERE pid <> pg_backend_pid()
           AND (datname = current_database() OR datname IS NULL)
           AND NOT (backend_type = 'autovacuum worker' AND query LIKE 'autovacuum: VACUUM%')
        UNION ALL
        SELECT 'prepared transaction ' || gid, age(transaction),
               extract(epoch FROM clock_timestamp() - prepared)
          FROM pg_prepared_xacts
         WHERE database = current_database()
        UNION ALL
        SELECT 'replication slot ' || slot_name, age(xmin), NULL
          FROM pg_replication_slots
         WHERE database = current_database() OR database IS NULL) AS held (holder, age, held_s)
 WHERE age IS NOT NULL
"""
_OLDEST_FIRST: LiteralString = " ORDER BY age DESC, held_s DESC NULLS LAST"
# Only a slot need not say since when: of a session that hides it, nobody knows that it is not short.
_LONG: LiteralString = " AND (held_s >= 1 OR held_s IS NULL AND holder LIKE 'replication slot %')"


@dataclass(frozen=True)
class Holder:
    """Somebody who may still want old row versions.

    Attributes:
        age: transactions begun since their oldest.
        held_s: for how long they have; None for a slot, which does not say, and for a session that
            this role may not look at.
    """

    name: str
    age: int
    held_s: float | None


@dataclass(frozen=True)
class Holding:
    """A holder as it was last seen, and since when it has held: where it does not say, since first seen.

    Attributes:
        began_unix_s, seen_unix_s: by this machine's clock.
    """

    holder: Holder
    began_unix_s: float
    seen_unix_s: float


class Horizon(Collector):
    """The oldest transaction that somebody holds on to: within the window, and when it has ended."""

    name: ClassVar[str] = "horizon"
    summary: ClassVar[str] = "how old the oldest row version kept is, and who holds it"

    def __init__(self) -> None:
        self._holders: Sequence[Holder] | Unseen = Unseen("no reading was taken")
        self._ages: list[tuple[float, int]] = []
        self._holdings: list[Holding] = []
        self._latest: dict[str, int] = {}  # by who it is: the place of the last holding

    def before(self, observer: Observer) -> None:
        """Nothing: what counts is what still holds when the window has ended."""

    def sample(self, observer: Observer) -> None:
        """See who has held on to something for a second or longer."""
        found = attempt(lambda: _read(observer, _KNOWN + _LONG + _OLDEST_FIRST))
        if isinstance(found, Unseen):
            return
        now_s = time.time()
        self._ages.append((now_s, found[0].age if found else 0))
        for holder in found:
            self._note(holder, now_s)

    def _note(self, holder: Holder, now_s: float) -> None:
        who = holder.name.partition(" (")[0]  # what it does meanwhile may change
        place = self._latest.get(who)
        known = self._holdings[place] if place is not None else None
        if holder.held_s is not None:
            began_s = now_s - holder.held_s
        else:
            began_s = known.began_unix_s if known is not None else now_s
        if place is not None and known is not None and abs(began_s - known.began_unix_s) < _SAME_S:
            self._holdings[place] = replace(known, holder=holder, seen_unix_s=now_s)
        else:
            self._latest[who] = len(self._holdings)
            self._holdings.append(Holding(holder, began_s, now_s))

    def after(self, observer: Observer) -> None:
        """See who holds on to what."""
        self._holders = attempt(lambda: read_holders(observer))

    def observations(self, window: Window) -> Sequence[Observation]:
        """Age and duration of the oldest, and how many there are."""
        holders = self._holders
        if isinstance(holders, Unseen):
            return (
                missing(*_AGE, "count", holders),
                missing(*_HELD, "s", holders),
                missing(*_HOLDERS, "count", holders),
            )
        oldest = holders[0] if holders else None
        detail = f"The oldest: {_words(oldest)}." if oldest else "Nobody holds it back."
        return (
            Observation(*_AGE, oldest.age if oldest else 0, "count", 1, detail=detail),
            _held(holders, detail),
            Observation(*_HOLDERS, len(holders), "count", 1, detail=detail),
        )

    def exhibits(self, window: Window) -> Exhibits:
        """Return each holder of two seconds or more, and the age of the oldest over the window."""
        events = in_groups(self._events(window), window)
        if not self._ages:
            return Exhibits(events=events)
        times_s, ages = zip(*self._ages, strict=True)
        series = Series(
            "horizon_age_transactions",
            "transactions since the oldest row version kept for 1 s or longer",
            "count",
            tuple(at - window.started_unix_s for at in times_s),
            tuple(float(age) for age in ages),
        )
        return Exhibits(series=(series,), events=events)

    def _events(self, window: Window) -> Iterator[Event]:
        for one in self._holdings:
            begin_s, end_s = (
                at - window.started_unix_s for at in (one.began_unix_s, one.seen_unix_s)
            )
            if end_s - begin_s >= _LONG_S and end_s >= 0 and begin_s <= window.length_s:
                text = f"{one.holder.name}, {one.holder.age:,} transactions old when last seen"
                yield Event("holder", begin_s, end_s, text)


def read_holders(observer: Observer) -> list[Holder]:
    """Return who holds the horizon of the connection's database back, the oldest first.

    Raises:
        Unseen: the server did not say.
    """
    return _read(observer, _KNOWN + _OLDEST_FIRST)


def _read(observer: Observer, query: LiteralString) -> list[Holder]:
    rows = observer.query(query)
    return [
        Holder(name, age, None if held_s is None else max(float(held_s), 0.0))
        for name, age, held_s in rows
    ]


def _held(holders: Sequence[Holder], detail: str) -> Observation:
    known_s = [x.held_s for x in holders if x.held_s is not None]
    if holders and not known_s:
        return missing(*_HELD, "s", Unseen("none of those who hold it shows since when"))
    return Observation(*_HELD, max(known_s, default=0.0), "s", 0.001, detail=detail)


def _words(holder: Holder) -> str:
    since = f" for {format_duration(holder.held_s)}" if holder.held_s is not None else ""
    return f"{holder.name}, {holder.age:,} transactions old{since}"
