"""Did transaction status, subtransactions and multixacts fit into their small caches?

Long snapshots and savepoints make sessions look up who committed when; what is not in these caches
(pg_stat_slru) is read from files, under locks that all sessions share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    most_named,
    of_kind,
    per_transaction,
    share,
    total_of_kind,
)
from pgdrag.model import Observation


class Slru(CounterCollector):
    """Hits and reads of all simple LRU caches, by their names of PostgreSQL 17 and later."""

    name: ClassVar[str] = "slru"
    summary: ClassVar[str] = "lookups of transaction status, subtransactions and multixacts"

    def read(self, observer: Observer) -> Counters:
        """Counters named "KIND CACHE", two for each cache."""
        rows = observer.query("SELECT name, blks_hit, blks_read FROM pg_stat_slru")
        counters: dict[str, int] = {}
        for name, hits, reads in rows:
            cache = _SINCE_17.get(name, name)
            counters[f"hits {cache}"] = hits
            counters[f"reads {cache}"] = reads
        return counters

    def observations(self, window: Window) -> Sequence[Observation]:
        """Lookups and reads per transaction, and what part of the lookups was a read."""
        moved = self.moved()
        reads, hits = total_of_kind(moved, "reads"), total_of_kind(moved, "hits")
        lookups = reads
        if not isinstance(reads, Unseen) and not isinstance(hits, Unseen):
            lookups = reads + hits
        detail = _busiest(moved)
        return (
            per_transaction(
                "slru_lookups_per_transaction",
                "lookups in the caches of transaction status per transaction",
                lookups,
                window,
                detail=detail,
            ),
            per_transaction(
                "slru_reads_per_transaction",
                "blocks of transaction status read per transaction",
                reads,
                window,
                detail=detail,
            ),
            share(
                "slru_miss_ratio",
                "lookups of transaction status that had to be read",
                reads,
                lookups,
                nothing="nothing was looked up in the window",
                detail=detail,
            ),
        )


_SINCE_17 = {
    "CommitTs": "commit_timestamp",
    "MultiXactMember": "multixact_member",
    "MultiXactOffset": "multixact_offset",
    "Notify": "notify",
    "Serial": "serializable",
    "Subtrans": "subtransaction",
    "Xact": "transaction",
}


def _busiest(moved: Counters | Unseen) -> str:
    hits, reads = of_kind(moved, "hits"), of_kind(moved, "reads")
    return most_named("Lookups by cache", {cache: hits[cache] + reads[cache] for cache in hits})
