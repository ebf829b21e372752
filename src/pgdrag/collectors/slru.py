"""Did transaction status, subtransactions and multixacts fit into their small caches?

Long snapshots and savepoints make sessions look up who committed when; what is not in these caches
(pg_stat_slru) is read from files, under locks that all sessions share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Window, detailed
from pgdrag.collectors._metric import most_named
from pgdrag.collectors.counters import CounterCollector

_SLRU = "SELECT name AS key, blks_hit AS hits, blks_read AS reads FROM pg_stat_slru"
_LOOKUPS = ("reads *", "hits *")
_SINCE_17 = {
    "CommitTs": "commit_timestamp",
    "MultiXactMember": "multixact_member",
    "MultiXactOffset": "multixact_offset",
    "Notify": "notify",
    "Serial": "serializable",
    "Subtrans": "subtransaction",
    "Xact": "transaction",
}


class Slru(CounterCollector):
    """Hits and reads of all simple LRU caches, by their names of PostgreSQL 17 and later."""

    name: ClassVar[str] = "slru"
    summary: ClassVar[str] = "lookups of transaction status, subtransactions and multixacts"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _SLRU}
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{busiest}",
        Metric("slru_lookups_per_transaction", "lookups in the caches of transaction status per transaction", _LOOKUPS),
        Metric("slru_reads_per_transaction", "blocks of transaction status read per transaction", "reads *"),
        Metric(
            "slru_miss_ratio", "lookups of transaction status that had to be read", "reads *", "ratio", _LOOKUPS,
            nothing="nothing was looked up in the window",
        ),
    )
    # fmt: on

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return which caches were used most."""
        self.titles = _SINCE_17
        hits, reads = self.titled(amounts, "hits"), self.titled(amounts, "reads")
        lookups = {cache: hits[cache] + reads[cache] for cache in hits}
        return {"busiest": most_named("Lookups by cache", lookups)}
