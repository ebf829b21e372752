"""What do the sessions of a database do in the window? A look a second, and the database's own counters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, LiteralString

from pgdrag.collectors import Observer, Unseen, attempt
from pgdrag.twins.model import Activity, Workload
from pgdrag.units import significant

_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_MOST_AGES = 20_000
_LOOK: LiteralString = """
SELECT datname = current_database(), coalesce(state, ''),
       CASE WHEN state = 'active' THEN coalesce(wait_event_type || ':' || wait_event, '') ELSE '' END, count(*),
       array_agg(extract(epoch FROM clock_timestamp() - state_change)::real) FILTER (WHERE state = 'idle'),
       array_agg(extract(epoch FROM clock_timestamp() - xact_start)::real) FILTER (WHERE xact_start IS NOT NULL)
  FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND coalesce(application_name, '') NOT LIKE 'pgdrag %%'
 GROUP BY 1, 2, 3
"""
_DATABASE: LiteralString = (
    "SELECT to_jsonb(d) FROM pg_stat_database AS d WHERE datname = current_database()"
)
_OWN = "pgdrag's own queries"
_NOT_COUNTED = frozenset({"datid", "numbackends", "checksum_failures"})
_CONTROL = frozenset(["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare", "set", "reset", "show", "discard", "deallocate"])  # fmt: skip
# Sessions hand in what they have counted this often, when a transaction ends (PGSTAT_MIN_INTERVAL of PostgreSQL's source).
_HAND_IN_EVERY_S = 1.0
_READINGS = 20
_IN_TRANSACTION = ("idle in transaction", "idle in transaction (aborted)")


class ActivityLooks:
    """Samples of sessions, and the database's counters at the beginning and the end."""

    def __init__(self, observer: Observer) -> None:
        """Read the counters for a second.

        Raises:
            Unseen: the server refused or did not answer.
        """
        self._looks = 0
        self._states: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()
        self._others = self._blocked = 0
        self._most = self._most_active = 0
        self._idle_ages: list[float] = []
        self._transaction_ages: list[float] = []
        self._before = _mean_counters(observer)
        self._moved: dict[str, float] = {}
        self._own = 0.0

    def look(self, observer: Observer) -> None:
        """Take a sample; what the server does not answer is no sample."""
        rows = attempt(lambda: observer.query(_LOOK))
        if isinstance(rows, Unseen):
            return
        self._looks += 1
        sessions: Counter[str] = Counter()
        for is_here, state, wait, count, idle_ages, transaction_ages in rows:
            if not is_here:
                self._others += count
                continue
            sessions[state] += count
            if state == "active":
                self._waits[wait] += count
                self._blocked += count if wait.startswith("Lock:") else 0
            if len(self._idle_ages) + len(self._transaction_ages) < _MOST_AGES:
                self._idle_ages += idle_ages or ()
                self._transaction_ages += transaction_ages or ()
        self._states.update(sessions)
        self._most = max(self._most, sessions.total())
        self._most_active = max(self._most_active, sessions["active"])

    def end(self, observer: Observer) -> None:
        """Read the counters for another second.

        Raises:
            Unseen: the server refused or did not answer.
        """
        now = _mean_counters(observer)
        self._moved = {
            name: value - self._before[name] if value >= self._before.get(name, 0.0) else value
            for name, value in now.items()
            if name in self._before
        }
        # Each of pgdrag's queries is a transaction.
        self._own = self._moved.pop(_OWN)

    def activity(self, workload: Workload, window_s: float) -> Activity:
        """Return what was seen."""
        looks, moved = max(self._looks, 1), self._moved
        commits = round(max(moved.get("xact_commit", 0.0) - self._own, 0.0))
        rollbacks = round(moved.get("xact_rollback", 0.0))
        session_s = _part(moved, "session_time", less_s=window_s)
        active_s, waiting_s = _part(moved, "active_time"), _part(moved, "idle_in_transaction_time")
        transactions = commits + rollbacks
        sent = sum(
            x.calls for x in workload.statements if x.is_toplevel and not _is_control(x.text)
        )
        idle_s = session_s - active_s - waiting_s
        return Activity(
            looks=self._looks,
            sessions=significant(self._states.total() / looks),
            active=significant(self._states["active"] / looks),
            idle=significant(self._states["idle"] / looks),
            idle_in_transaction=significant(sum(self._states[x] for x in _IN_TRANSACTION) / looks),
            blocked=significant(self._blocked / looks),
            most_sessions=self._most,
            most_active=self._most_active,
            other_sessions=significant(self._others / looks),
            waits={wait: significant(count / looks) for wait, count in self._waits.most_common()},
            commits=commits,
            rollbacks=rollbacks,
            counters={name: significant(value) for name, value in moved.items() if value},
            session_s=session_s,
            active_s=active_s,
            idle_in_transaction_s=waiting_s,
            new_sessions=round(moved.get("sessions", 0.0)),
            statements_per_transaction=significant(sent / transactions) if transactions else None,
            think_s=significant(max(idle_s, 0.0) / transactions) if transactions else None,
            idle_ages_s=_quantiles(self._idle_ages),
            transaction_ages_s=_quantiles(self._transaction_ages),
        )  # fmt: skip


def _mean_counters(observer: Observer) -> dict[str, float]:
    """Return the mean of the database's counters over the second that follows, and of pgdrag's own queries.

    What a session has counted is there up to a second later: one reading may lack nothing or a whole second. The mean of
    these readings always lacks half a second, at the beginning of a window as at its end.
    """
    readings = []
    for at in range(_READINGS):
        if at:
            time.sleep(_HAND_IN_EVERY_S / _READINGS)
        readings.append({_OWN: float(observer.queries), **_counters(observer)})
    return {name: fmean(x.get(name, 0.0) for x in readings) for name in readings[0]}


def _counters(observer: Observer) -> dict[str, float]:
    """Return the numbers of the database's row, times in seconds."""
    found: dict[str, Any] = observer.query(_DATABASE)[0][0]
    return {
        name: value / 1000 if name.endswith("_time") else float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and name not in _NOT_COUNTED
    }


def _part(moved: Mapping[str, float], name: str, *, less_s: float = 0.0) -> float:
    return significant(max(moved.get(name, 0.0) - less_s, 0.0))


def _is_control(text: str) -> bool:
    return text.split(None, 1)[0].lower().rstrip(";") in _CONTROL if text.strip() else True


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    ordered = sorted(max(x, 0.0) for x in values)
    return tuple(significant(ordered[int(x * (len(ordered) - 1))]) for x in _QUANTILES) if ordered else ()  # fmt: skip
