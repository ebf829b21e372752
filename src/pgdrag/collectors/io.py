"""Which of the server's processes moved blocks between its memory and the files?"""

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
    total_of_kind,
)
from pgdrag.model import Observation
from pgdrag.servers.processes import CLIENT_BACKEND

_FIRST_VERSION = 160000
# Times are 0 unless track_io_timing is on. Each column is null where an operation cannot happen.
_IO = """
SELECT backend_type,
       coalesce(sum(reads), 0)::bigint, coalesce(sum(writes), 0)::bigint,
       coalesce(sum(extends), 0)::bigint, coalesce(sum(evictions), 0)::bigint,
       coalesce(sum(fsyncs), 0)::bigint,
       (1000 * sum(coalesce(read_time, 0) + coalesce(write_time, 0) + coalesce(extend_time, 0)
                   + coalesce(writeback_time, 0) + coalesce(fsync_time, 0)))::bigint
  FROM pg_stat_io
 WHERE object <> 'wal'
 GROUP BY backend_type
"""
_COLUMNS = ("reads", "writes", "extends", "evictions", "fsyncs", "time_us")
_US = 1e-6


class Io(CounterCollector):
    """pg_stat_io, of relations, by type of backend."""

    name: ClassVar[str] = "io"
    summary: ClassVar[str] = "blocks read, written, evicted and synchronised by type of backend"

    def __init__(self) -> None:
        super().__init__()
        self._is_timed = False

    def read(self, observer: Observer) -> Counters:
        """Counters named "OPERATION BACKEND TYPE"."""
        if observer.server_version_num < _FIRST_VERSION:
            raise Unseen("pg_stat_io is there since PostgreSQL 16")
        self._is_timed = observer.query("SELECT current_setting('track_io_timing')") == [("on",)]
        return {
            f"{column} {backend}": value
            for backend, *values in observer.query(_IO)
            for column, value in zip(_COLUMNS, values, strict=True)
        }

    def observations(self, window: Window) -> Sequence[Observation]:
        """Operations per transaction, and the time that they took where it is measured."""
        moved = self.moved()
        time_us = total_of_kind(moved, "time_us")
        if not isinstance(time_us, Unseen) and not self._is_timed and window.committed:
            time_us = Unseen("track_io_timing is off")
        time_s = time_us if isinstance(time_us, Unseen) else time_us * _US
        return (
            per_transaction(
                "session_writes_per_transaction",
                "blocks that sessions had to write themselves per transaction",
                _by_sessions(moved, "writes"),
                window,
                detail=self.doubt.strip(),
            ),
            self._counted(
                "block_writes_per_transaction",
                "blocks written per transaction",
                moved,
                "writes",
                window,
            ),
            self._counted(
                "evictions_per_transaction",
                "blocks evicted from shared_buffers per transaction",
                moved,
                "evictions",
                window,
            ),
            self._counted(
                "fsyncs_per_transaction",
                "fsyncs of relations per transaction",
                moved,
                "fsyncs",
                window,
            ),
            per_transaction(
                "io_s_per_transaction",
                "time in I/O of relations per transaction",
                time_s,
                window,
                unit="s/transaction",
                step=_US,
            ),
        )

    def _counted(
        self, name: str, label: str, moved: Counters | Unseen, operation: str, window: Window
    ) -> Observation:
        by_type = most_named("By type of backend", of_kind(moved, operation))
        detail = f"{by_type}{self.doubt}".strip()
        return per_transaction(name, label, total_of_kind(moved, operation), window, detail=detail)


def _by_sessions(moved: Counters | Unseen, operation: str) -> int | Unseen:
    if isinstance(moved, Unseen):
        return moved
    return of_kind(moved, operation).get(CLIENT_BACKEND, 0)
