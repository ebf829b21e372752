"""Statements of a twin, of which a test says only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pgdrag.twins.model import Relation, Schema, Source, Statement, Twin, Workload

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


SOURCE = Source("18.6", 180006, 8192, 131072, "UTF8", "C", "C", "libc", "", False, None)
READ, WRITE = "SELECT v FROM t WHERE k = $1", "UPDATE t SET v = $1 WHERE k = $2"


def twin_of(*statements: Statement, relations: tuple[Relation, ...] = (), **more: Any) -> Twin:
    """Return a twin with these statements."""
    return Twin(
        "pgdrag",
        "2026-11-26",
        SOURCE,
        Schema(),
        relations=relations,
        workload=Workload(60.0, statements, **more),
    )


def called(text: str, *, number: int = 1, calls: int = 100, **each: float) -> Statement:
    """Return a statement of which each call took these amounts."""
    times = {"exec_s": each.pop("exec_s", 1.0)}
    counts = {name: round(calls * value) for name, value in each.items()}
    return replace(statement(text, number=number, calls=calls, rows=calls), **counts, **times)


ORIGINAL = twin_of(
    called(WRITE, number=1, calls=500, exec_s=9.0, shared_hit=10, wal_bytes=200),
    called(READ, number=2, calls=500, exec_s=1.0, shared_hit=4),
)
