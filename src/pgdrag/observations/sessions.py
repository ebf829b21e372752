"""What do the server's processes do at one moment, and what does a row of such moments say of the time between?

On average, as many processes are in a wait as the mean of the looks says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import LiteralString

from pgdrag.collectors import Observer
from pgdrag.model.observed import Quantity, Spread, Wait
from pgdrag.servers.processes import CLIENT_BACKEND

# Of background processes those are busy that do not wait for work. Of sessions those that work, or are in a
# transaction between two statements.
_LOOK: LiteralString = """
SELECT coalesce(backend_type, 'unknown'), coalesce(state, ''),
       coalesce(wait_event_type || ':' || wait_event, ''), count(*),
       coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
  FROM pg_stat_get_activity(NULL)
 WHERE pid <> pg_backend_pid() AND coalesce(wait_event_type, '') <> 'Activity'
 GROUP BY 1, 2, 3
"""
_IDLE = frozenset({"idle", "disabled"})
_SESSIONS = Quantity("sessions", "client sessions", "count")
_ACTIVE = Quantity("active_sessions", "sessions that run a statement", "count")
_IN_TRANSACTION = Quantity(
    "idle_in_transaction_sessions", "sessions idle in a transaction", "count"
)
_OLDEST = Quantity("oldest_transaction_s", "age of the oldest transaction", "s")
QUANTITIES = (_SESSIONS, _ACTIVE, _IN_TRANSACTION, _OLDEST)


class Looks:
    """What the looks of one interval saw."""

    def __init__(self) -> None:
        self.count = 0
        self._waits: Counter[Wait] = Counter()
        self._seen: dict[str, list[float]] = {one.name: [] for one in QUANTITIES}

    def look(self, observer: Observer) -> None:
        """Look once.

        Raises:
            Unseen: see `Observer.query`.
        """
        numbers = dict.fromkeys(self._seen, 0.0)
        for backend_type, state, wait, count, oldest_s in observer.query(_LOOK):
            if backend_type == CLIENT_BACKEND:
                numbers[_SESSIONS.name] += count
                numbers[_ACTIVE.name] += count * (state == "active")
                numbers[_IN_TRANSACTION.name] += count * state.startswith("idle in transaction")
                numbers[_OLDEST.name] = max(numbers[_OLDEST.name], oldest_s)
            if state not in _IDLE:
                self._waits[Wait(backend_type, wait)] += count
        for name, value in numbers.items():
            self._seen[name].append(value)
        self.count += 1

    def waits(self) -> dict[Wait, float]:
        """Return how many processes were in each wait, on average."""
        return {wait: count / self.count for wait, count in self._waits.items()}

    def values(self, length_s: float) -> Iterator[tuple[str, Spread]]:
        """Yield the numbers of sessions over the interval."""
        for name, seen in self._seen.items():
            if seen:
                yield name, Spread(sum(seen) / len(seen), min(seen), max(seen), length_s)
