"""A twin of a test's own database, with its values: what the planner makes of it does not depend on tokens."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from pgdrag.planning.btree_heights import btree_heights
from pgdrag.twins.model import (
    ColumnStatistics,
    Relation,
    RelationKind,
    Schema,
    Setting,
    Source,
    Statement,
    Twin,
    TypeObject,
    Workload,
)

KINDS: dict[str, RelationKind] = {
    "r": "table",
    "p": "partitioned table",
    "i": "index",
    "I": "partitioned index",
}
RELATIONS = """
SELECT nspname::text, c.relname::text, c.relkind::text, greatest(c.relpages, 0), c.reltuples::float8, c.relallvisible,
       CASE WHEN c.relkind IN ('r', 'i') THEN pg_relation_size(c.oid) END
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
 WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'i', 'I') AND nspname = 'public'
"""
STATISTICS = """
SELECT schemaname::text, tablename::text, attname::text, inherited, null_frac::float8, avg_width, n_distinct::float8,
       most_common_vals::text::text[], most_common_freqs::float8[], histogram_bounds::text::text[], correlation::float8,
       most_common_elems::text::text[], most_common_elem_freqs::float8[], elem_count_histogram::float8[]
  FROM pg_stats WHERE schemaname = 'public'
"""
# Counters of a statement that no test asks for.
REST = dict.fromkeys(
    (
        *("plans", "shared_hit", "shared_read", "shared_dirtied", "shared_written", "local_hit", "local_read"),
        *("local_dirtied", "local_written", "temp_read", "temp_written", "wal_records", "wal_full_pages", "wal_bytes"),
    ),
    0,
)  # fmt: skip
TIMES = dict.fromkeys(("min_s", "max_s", "mean_s", "stddev_s"), 0.01)


def statement(number: int, text: str, *, exec_s: float = 1.0) -> Statement:
    """A statement that was called a hundred times, and returned ten rows each time."""
    return Statement(
        number, text, True, "role1", True, calls=100, rows=1000, exec_s=exec_s, plan_s=None, **REST, **TIMES
    )  # fmt: skip


def untokened(
    connection: psycopg.Connection,
    made_by: Sequence[str],
    statements: Sequence[str],
    settings: Sequence[Setting] = (),
) -> Twin:
    """Return a twin of what is in the schema public.

    Args:
        made_by: the statements that made it, in order; they stand where a twin has definitions of types.
    """
    version = connection.info.server_version
    heights = btree_heights(connection)
    relations = [
        Relation(
            schema,
            name,
            KINDS[kind],
            pages,
            tuples,
            visible,
            bytes=size,
            height=heights.get((schema, name)),
        )
        for schema, name, kind, pages, tuples, visible, size in connection.execute(
            RELATIONS.encode()
        )
    ]
    statistics = [
        ColumnStatistics(
            *(schema, relation, column, 0, is_inherited, "", null_share, width, n_distinct),
            most_common=tuple(values or ()),
            most_common_shares=tuple(shares or ()),
            histogram=tuple(bounds or ()),
            correlation=correlation,
            elements=tuple(elements or ()),
            element_shares=tuple(element_shares or ()),
            element_counts=tuple(counts or ()),
        )
        for schema, relation, column, is_inherited, null_share, width, n_distinct, values, shares, bounds, correlation, elements, element_shares, counts in connection.execute(STATISTICS.encode())
    ]  # fmt: skip
    return Twin(
        "a test",
        "2026-11-25",
        Source(f"{version // 10_000}.{version % 10_000}", version, 8192, 131_072, "UTF8", "C", "C", "libc", "", False, None, tuple(settings)),
        Schema(types=tuple(TypeObject("public", str(at), "enum", x) for at, x in enumerate(made_by))),
        tuple(relations),
        tuple(statistics),
        Workload(60.0, tuple(statement(at, x) for at, x in enumerate(statements, start=1))),
    )  # fmt: skip
