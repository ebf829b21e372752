"""What went wrong or out of memory in the workload's database: rollbacks, deadlocks, temporary files?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Metric, detailed
from pgdrag.collectors.counters import ANY_VERSION, CounterCollector

_DATABASE = """
SELECT xact_rollback AS rollbacks, deadlocks, temp_bytes AS temporary
  FROM pg_stat_database
 WHERE datname = current_database()
"""


class Database(CounterCollector):
    """The workload's row of pg_stat_database."""

    name: ClassVar[str] = "database"
    summary: ClassVar[str] = "rollbacks, deadlocks and temporary files of the workload's database"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _DATABASE}
    # Rollbacks are counted without it, the others are not.
    track_counts_before: ClassVar[int] = ANY_VERSION
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{warning}",
        Metric("rollbacks_per_transaction", "transactions rolled back per one committed", "rollbacks"),
        Metric("deadlocks_per_transaction", "deadlocks per transaction", "deadlocks"),
        Metric("temp_bytes_per_transaction", "bytes written to temporary files per transaction", "temporary", "bytes/transaction"),
    )
    # fmt: on
