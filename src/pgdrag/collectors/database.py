"""What went wrong or out of memory in the workload's database: rollbacks, deadlocks, temporary files?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    per_transaction,
    pick,
    require_track_counts,
)
from pgdrag.model import Observation

_DATABASE = """
SELECT xact_rollback, deadlocks, temp_bytes
  FROM pg_stat_database
 WHERE datname = current_database()
"""


class Database(CounterCollector):
    """The workload's line of pg_stat_database."""

    name: ClassVar[str] = "database"
    summary: ClassVar[str] = "rollbacks, deadlocks and temporary files of the workload's database"

    def read(self, observer: Observer) -> Counters:
        """Rollbacks, deadlocks and bytes of temporary files so far."""
        # Rollbacks are counted without it, the others are not.
        require_track_counts(observer)
        [(rollbacks, deadlocks, temporary)] = observer.query(_DATABASE)
        return {"rollbacks": rollbacks, "deadlocks": deadlocks, "temporary": temporary}

    def observations(self, window: Window) -> Sequence[Observation]:
        """Each of them per committed transaction."""
        moved = self.moved()
        return (
            per_transaction(
                "rollbacks_per_transaction",
                "transactions rolled back per one committed",
                pick(moved, "rollbacks"),
                window,
                detail=self.doubt.strip(),
            ),
            per_transaction(
                "deadlocks_per_transaction",
                "deadlocks per transaction",
                pick(moved, "deadlocks"),
                window,
                detail=self.doubt.strip(),
            ),
            per_transaction(
                "temp_bytes_per_transaction",
                "bytes written to temporary files per transaction",
                pick(moved, "temporary"),
                window,
                unit="bytes/transaction",
                detail=self.doubt.strip(),
            ),
        )
