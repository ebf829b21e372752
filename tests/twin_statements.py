"""Statements of a twin, of which a test says only what it is about."""

from __future__ import annotations

from collections.abc import Iterable

from pgdrag.twins.model import Statement, Workload

COUNTS = dict.fromkeys(
    (
        *("plans", "shared_hit", "shared_read", "shared_dirtied", "shared_written", "local_hit", "local_read"),
        *("local_dirtied", "local_written", "temp_read", "temp_written", "wal_records", "wal_full_pages", "wal_bytes"),
    ),
    0,
)  # fmt: skip
TIMES = dict.fromkeys(("exec_s", "min_s", "max_s", "mean_s", "stddev_s"), 1.0)


def statement(text: str, *, number: int = 1, calls: int = 100, rows: int = 1000) -> Statement:
    """Return a statement that took a second in all."""
    return Statement(
        number, text, True, "role1", True, calls=calls, rows=rows, plan_s=None, **COUNTS, **TIMES
    )


def workload(texts: Iterable[str]) -> Workload:
    """Return a workload of these statements, which take as long as each other."""
    return Workload(60.0, tuple(statement(x, number=at) for at, x in enumerate(texts, start=1)))
