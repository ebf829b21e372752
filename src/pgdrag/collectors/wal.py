"""How much WAL did the window write, and how much of it was full-page images?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import CounterCollector, Counters, Drawn, per_transaction, pick
from pgdrag.plan import Observation

# The position is exact and counts every process; the view's counters are handed in later.
_POSITION = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_RECORDS = "SELECT wal_records, wal_fpi FROM pg_stat_wal"


class Wal(CounterCollector):
    """WAL of all processes: the insert position, and pg_stat_wal."""

    name: ClassVar[str] = "wal"
    summary: ClassVar[str] = "WAL written, its records and full-page images"
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("wal_bytes_per_s", "WAL", "bytes/s", ("bytes",)),
        Drawn("full_page_images_per_s", "full-page images", "1/s", ("images",)),
    )

    def read(self, observer: Observer) -> Counters:
        """Bytes, records and full-page images since the cluster was made or counters reset."""
        [(position,)] = observer.query(_POSITION)
        [(records, images)] = observer.query(_RECORDS)
        return {"bytes": position, "records": records, "images": images}

    def observations(self, window: Window) -> Sequence[Observation]:
        """Bytes, records and full-page images per transaction."""
        moved = self.moved()
        detail = ""
        if not isinstance(moved, Unseen):
            detail = (
                f"{moved['bytes']:,} bytes, {moved['records']:,} records and"
                f" {moved['images']:,} full-page images of all processes.{self.doubt}"
            )
        return (
            per_transaction(
                "wal_bytes_per_transaction",
                "WAL per transaction",
                pick(moved, "bytes"),
                window,
                unit="bytes/transaction",
                detail=detail,
            ),
            per_transaction(
                "wal_records_per_transaction",
                "WAL records per transaction",
                pick(moved, "records"),
                window,
                detail=detail,
            ),
            per_transaction(
                "full_page_images_per_transaction",
                "full-page images per transaction",
                pick(moved, "images"),
                window,
                detail=detail,
            ),
        )
