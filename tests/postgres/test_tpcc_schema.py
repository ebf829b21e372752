"""Is what pgdrag loads BenchBase's schema, name by name, so that either can work on the other's tables?"""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.driver.process import Driver, find_driver
from pgdrag.servers.cluster import Cluster
from pgdrag.workloads.tpcc import Tpcc

pytestmark = pytest.mark.postgres

# What a server's catalogs said after BenchBase had made its tables there: names, types and keys.
BENCHBASE = Path(__file__).with_name("benchbase_schema.txt")

COLUMNS = """
SELECT format('%s.%s %s%s%s', c.relname, attname, format_type(atttypid, atttypmod),
              CASE WHEN attnotnull THEN ' not null' END, ' default ' || pg_get_expr(adbin, adrelid))
  FROM pg_class c
  JOIN pg_attribute ON attrelid = c.oid AND attnum > 0
  LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
 ORDER BY c.relname, attnum
"""
# Since 18 that a column is not null is a constraint, too; the columns say it already.
CONSTRAINTS = """
SELECT format('%s: %s %s', conname, conrelid::regclass, pg_get_constraintdef(oid))
  FROM pg_constraint
 WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
 ORDER BY conrelid::regclass::text, conname
"""
INDEXES = (
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY tablename, indexname"
)


def test_tables_columns_types_keys_and_their_names_are_benchbases(running_cluster: Cluster) -> None:
    driver = Driver(find_driver())
    job = Tpcc(warehouses=1).job()
    driver.load(running_cluster.target, job, seed=1, parallelism=2, timeout_s=120)
    with running_cluster.connect() as connection:
        found = [
            str(row[0])
            for query in (COLUMNS, CONSTRAINTS, INDEXES)
            for row in connection.execute(query.encode())
        ]
    assert found == BENCHBASE.read_text(encoding="utf-8").splitlines()
