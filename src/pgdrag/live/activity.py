"""What do a server's sessions do and wait for, and with which statements? Samples of pg_stat_activity.

Unlike a trial's wait profile they come over the one session that observes, about ten times a second, at moments
that no clock of the server's can be in step with.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors._wait_profile import SampledWaits
from pgdrag.collectors.counters import require_sight_of_others
from pgdrag.driver.process import Waits
from pgdrag.host.clock import CLOCK
from pgdrag.live.lock_queues import LockQueues
from pgdrag.model.live import StatementTime
from pgdrag.model.recordings import SESSION_TYPES, Recordings, is_at_work

INTERVAL_S = 1.0
MOST_STATEMENTS = 20
# Of the function and not of the view, which joins names to it. The driver's watch leaves out the same.
_LOOK: LiteralString = """
SELECT backend_type, coalesce(wait_event_type || ':' || wait_event, ''), coalesce(query_id, 0), count(*)
  FROM pg_stat_get_activity(NULL)
 WHERE pid <> pg_backend_pid()
   AND wait_event_type IS DISTINCT FROM 'Activity'
   AND backend_type IS NOT NULL
   AND (state IS NULL OR state NOT IN ('idle', 'disabled'))
   AND coalesce(application_name, '') NOT LIKE 'pgdrag %'
 GROUP BY 1, 2, 3
"""


class LiveWaits(SampledWaits):
    """The same numbers as a trial's wait profile; `look` takes a sample."""

    name: ClassVar[str] = "waits"
    summary: ClassVar[str] = "where sessions' time goes: processors, I/O, locks, clients"

    def __init__(self) -> None:
        super().__init__()
        self._intervals: list[Waits] = []
        self._refusal: Unseen | None = None
        self._began_s = 0.0
        self._looks = 0
        self._processes: dict[str, Counter[str]] = {}
        self._by_statement: dict[int, Counter[str]] = defaultdict(Counter)

    def before(self, observer: Observer) -> None:
        found = attempt(lambda: require_sight_of_others(observer, "the sessions"))
        self._refusal = found if isinstance(found, Unseen) else None
        self._began_s = CLOCK.unix_s()

    def look(self, observer: Observer) -> None:
        """Take a sample."""
        if self._refusal is not None:
            return
        now_s = CLOCK.unix_s()
        if now_s - self._began_s >= INTERVAL_S:
            self._end_interval(now_s)
        rows = attempt(lambda: observer.query(_LOOK))
        if isinstance(rows, Unseen):
            self._refusal = None if self._intervals or self._looks else rows
            return
        self._looks += 1
        for backend, wait, query_id, count in rows:
            self._processes.setdefault(backend, Counter())[wait] += count
            if backend in SESSION_TYPES:
                self._by_statement[query_id][wait] += count

    def after(self, observer: Observer) -> None:
        """End the last interval."""
        self._end_interval(CLOCK.unix_s())
        self.watched = self._refusal or tuple(self._intervals)
        self.io_workers = Unseen("they are not counted on an existing server")

    def statement_times(self, texts: Mapping[int, str], window: Window) -> Iterator[StatementTime]:
        """Yield where sessions were by statement, the one that was at work longest first."""
        looks = sum(one.looks for one in self._intervals)
        if not looks:
            return
        step_s = window.length_s / looks
        for query_id in self._ranked():
            waits = self._by_statement[query_id].most_common()
            times = {wait: count * step_s for wait, count in waits}
            yield StatementTime(query_id, texts.get(query_id, ""), sum(times.values()), times)

    @property
    def query_ids(self) -> list[int]:
        """The statements seen at work most often, of those with a query ID."""
        return [query_id for query_id in self._ranked() if query_id]

    def _ranked(self) -> list[int]:
        at_work = {
            query_id: sum(count for wait, count in waits.items() if is_at_work(wait))
            for query_id, waits in self._by_statement.items()
        }
        return sorted(at_work, key=lambda query_id: -at_work[query_id])[:MOST_STATEMENTS]

    def _end_interval(self, now_s: float) -> None:
        if self._looks:
            self._intervals.append(Waits(self._began_s, now_s, self._looks, self._processes))
        self._began_s, self._looks, self._processes = now_s, 0, {}


_SESSIONS: LiteralString = """
SELECT count(*) FILTER (WHERE backend_type = 'client backend') AS connections,
       count(*) FILTER (WHERE backend_type = 'client backend' AND state = 'active') AS active,
       count(*) FILTER (WHERE state IN ('idle in transaction', 'idle in transaction (aborted)')) AS idle_in_transaction,
       coalesce(max(extract(epoch FROM clock_timestamp() - state_change))
                FILTER (WHERE state IN ('idle in transaction', 'idle in transaction (aborted)')), 0)::float8 AS longest_idle_s,
       coalesce(max(extract(epoch FROM clock_timestamp() - xact_start))
                FILTER (WHERE backend_type = 'client backend'), 0)::float8 AS longest_transaction_s,
       count(*) FILTER (WHERE wait_event_type = 'Lock' AND backend_type = 'client backend') AS blocked,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS most
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid() AND coalesce(application_name, '') NOT LIKE 'pgdrag %'
"""


class LiveSessions(Collector):
    """Connections, transactions left open, and lock queues with their heads, once a second."""

    name: ClassVar[str] = "sessions"
    summary: ClassVar[str] = "connections by state, and who blocks others"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("connections", "client connections, on average", "connections", "count", "looks"),
        Metric("connections_active", "sessions at work, on average", "active", "count", "looks"),
        Metric("connections_used_share", "share of the permitted connections in use, at most", "peak", "ratio", "most", detail="{peak} of {most}."),
        Metric("connections_idle_in_transaction", "sessions idle in transaction, on average", "idle_in_transaction", "count", "looks"),
        Metric("idle_in_transaction_s", "longest that a session was idle in transaction", "longest_idle_s", "s", step=0.001),
        Metric("longest_transaction_s", "age of the oldest transaction of a client, at most", "longest_transaction_s", "s", step=0.001),
        Metric("blocked_sessions", "sessions waiting for a lock, on average", "blocked", "count", "looks"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._looks: list[dict[str, float]] = []
        self._refusal: Unseen | None = NO_READING
        self._queues = LockQueues()

    def before(self, observer: Observer) -> None:
        found = attempt(lambda: require_sight_of_others(observer, "the sessions"))
        self._refusal = found if isinstance(found, Unseen) else None

    def sample(self, observer: Observer) -> None:
        """Count sessions, and if any waits, find what blocks it."""
        if self._refusal is not None:
            return
        found = attempt(lambda: observer.table(_SESSIONS))
        if isinstance(found, Unseen):
            return
        self._looks += found
        if found[0]["blocked"]:
            attempt(lambda: self._queues.look(observer, found[0]["blocked"]))

    def after(self, observer: Observer) -> None:
        """Count once more, so that a short window has a sample."""
        self.sample(observer)

    def amounts(self, window: Window) -> Amounts:
        if not self._looks:
            raise self._refusal or NO_READING
        sums = ("connections", "active", "idle_in_transaction", "blocked")
        return {
            **{name: sum(look[name] for look in self._looks) for name in sums},
            "looks": len(self._looks),
            "peak": max(look["connections"] for look in self._looks),
            "most": self._looks[-1]["most"],
            "longest_idle_s": max(look["longest_idle_s"] for look in self._looks),
            "longest_transaction_s": max(look["longest_transaction_s"] for look in self._looks),
        }

    def recordings(self, window: Window) -> Recordings:
        return Recordings(self._queues.blockers(window.length_s / max(len(self._looks), 1)))
