"""How far back must the server keep old row versions, and on whose account?

No version that a snapshot, a prepared transaction or a slot may still want is removed, however dead:
all of the database's vacuums stop at the oldest of them. The workload's own sessions have ended when
this is read, so that what is named stands in the way for longer than a transaction of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Collector, Observer, Unseen, Window
from pgdrag.collectors._counters import attempt, missing
from pgdrag.plan import Observation
from pgdrag.units import format_duration

_AGE = ("horizon_age_transactions", "transactions since the oldest row version kept")
_HELD = ("horizon_held_s", "time for which the oldest row version has been kept")
_HOLDERS = (
    "horizon_holders",
    "sessions, prepared transactions and slots that hold the horizon back",
)

# Who has what oldest transaction, as ages; those of other databases hold back their own. A vacuum's
# own snapshot holds nobody back. A standby with feedback is the session that streams to it, or its slot.
_HOLDERS_OF_THE_HORIZON = """
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
 ORDER BY age DESC, held_s DESC NULLS LAST
"""


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


class Horizon(Collector):
    """The oldest transaction that somebody holds on to, at both ends of the window."""

    name: ClassVar[str] = "horizon"
    summary: ClassVar[str] = "how old the oldest row version kept is, and who holds it"

    def __init__(self) -> None:
        self._holders: Sequence[Holder] | Unseen = Unseen("no reading was taken")

    def before(self, observer: Observer) -> None:
        """Nothing: what counts is what still holds when the window has ended."""

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


def read_holders(observer: Observer) -> list[Holder]:
    """Return who holds the horizon of the connection's database back, the oldest first.

    Raises:
        Unseen: the server did not say.
    """
    rows = observer.query(_HOLDERS_OF_THE_HORIZON)
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
