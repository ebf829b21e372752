"""How high are the server's B-trees? The planner knows, and its costs tell.

An index's first page says it, and only a superuser may read that. But the planner adds 50 operators' cost to each index scan
for every level that it descends, and one for each comparison on the way. With one unit for an operator and nothing for
all else, the cost at which a scan starts has both: EXPLAIN shows it to every role that may read the table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, LiteralString

import psycopg

from pgdrag.findings.plan_nodes import nodes, number_of, text_of

_COST_OF_LEVEL = 50.0  # DEFAULT_PAGE_CPU_MULTIPLIER
BUDGET_S = 10.0  # of all indexes together, the largest first
_COSTS = ("seq_page_cost", "random_page_cost", "cpu_tuple_cost", "cpu_index_tuple_cost")
_WANTED: Mapping[str, str] = {
    **dict.fromkeys(_COSTS, "0"),
    "cpu_operator_cost": "1",
    **dict.fromkeys(("enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_incremental_sort"), "off"),
    **dict.fromkeys(("enable_indexscan", "enable_indexonlyscan"), "on"),
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}  # fmt: skip
_SET: LiteralString = "SELECT pg_catalog.set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS given (name, value)"
# Those that sort as ORDER BY does, the largest first. Bit 1 of an option is DESC, bit 2 NULLS FIRST.
_INDEXES: LiteralString = """
SELECT n.nspname::text, x.relname::text, format('%%I.%%I', tn.nspname, t.relname), coalesce(pg_get_expr(indpred, indrelid), ''),
       ARRAY(SELECT pg_get_indexdef(indexrelid, at, true)
                    || CASE WHEN indoption[at - 1] & 1 <> 0 THEN ' DESC' ELSE ' ASC' END
                    || CASE WHEN indoption[at - 1] & 2 <> 0 THEN ' NULLS FIRST' ELSE ' NULLS LAST' END
               FROM generate_series(1, indnkeyatts::int4) AS at)
  FROM pg_catalog.pg_index
  JOIN pg_catalog.pg_class AS x ON x.oid = indexrelid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = x.relnamespace
  JOIN pg_catalog.pg_class AS t ON t.oid = indrelid
  JOIN pg_catalog.pg_namespace AS tn ON tn.oid = t.relnamespace
  JOIN pg_catalog.pg_am AS a ON a.oid = x.relam
 WHERE amname = 'btree' AND x.relkind = 'i' AND indisvalid AND x.oid >= 16384 AND t.relpersistence <> 't'
   AND n.nspname NOT IN ('pg_toast', 'information_schema') AND has_table_privilege(t.oid, 'SELECT')
   AND NOT EXISTS (SELECT FROM unnest(indclass::oid[]) AS class JOIN pg_catalog.pg_opclass AS o ON o.oid = class
                    WHERE NOT opcdefault)
 ORDER BY x.relpages DESC, x.oid
"""


def btree_heights(connection: psycopg.Connection[Any]) -> dict[tuple[str, str], int]:
    """Return the number of levels above the leaves by schema and name, of the indexes for which the server tells it.

    Args:
        connection: in autocommit mode; its settings are as before when this returns.

    Raises:
        psycopg.OperationalError: the server is gone.
    """
    found: dict[tuple[str, str], int] = {}
    until_s = time.monotonic() + BUDGET_S
    for schema, name, table, predicate, keys in connection.execute(_INDEXES, ()).fetchall():
        if time.monotonic() > until_s:
            break
        if (schema, name) not in found:
            where = f" WHERE {predicate}" if predicate else ""
            query = f"EXPLAIN (FORMAT JSON) SELECT 1 FROM ONLY {table}{where} ORDER BY {', '.join(keys)}"
            # Another index that sorts alike may be taken: then its height is known.
            found.update(
                {(schema, index): height for index, height in _explained(connection, query)}
            )
    return found


def _explained(connection: psycopg.Connection[Any], query: str) -> Iterator[tuple[str, int]]:
    """Yield the index that a query is answered by, and how high it is."""
    try:
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")
            connection.execute(_SET, (list(_WANTED), list(_WANTED.values())))
            row = connection.execute(query.encode()).fetchone()
    except psycopg.Error:  # no privilege, a lock that is held, a type that this role may not use
        if connection.closed:
            raise
        return
    assert row is not None, "EXPLAIN has an answer"
    for node in nodes(row[0][0]["Plan"]):
        cost = number_of(node, "Startup Cost")
        if (index := text_of(node, "Index Name")) and cost >= _COST_OF_LEVEL:
            yield index, int(cost // _COST_OF_LEVEL) - 1
