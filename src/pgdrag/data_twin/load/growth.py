"""What are tables like in the middle of the window, in which the original's calls were counted?

A twin begins with the rows of the window's beginning, and its load inserts as the original's did. What queries find on average is found
in the middle: there are half of the rows that were inserted, and half of what updates left in the pending lists of GIN
indexes. Both are made while values of queries are chosen; then the rows are deleted again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence

import psycopg

from pgdrag.data_twin.load.calibration import Bench, Values, executing
from pgdrag.data_twin.load.statements import Analysed, prepared
from pgdrag.data_twin.sizes import rows_of
from pgdrag.twins.ddl import quoted
from pgdrag.twins.model import Twin

_MOST_S = 30.0
_LEAST_GROWTH = 0.02  # of the rows
_CHUNK = 200  # calls in one transaction
_FAILURES = 3
_PENDING = re.compile(r"\bUSING gin\b(?!.*\bfastupdate\b\s*=\s*'?(?:off|false|0))", re.IGNORECASE)


class Growth:
    """Rows and pending entries of half a window, as long as they are there."""

    def __init__(self, connection: psycopg.Connection, twin: Twin) -> None:
        self._connection = connection
        self._twin = twin
        self._transactions: list[str] = []
        self._tables: dict[tuple[str, str], None] = {}

    def make(self, changes: Iterable[tuple[Analysed, Bench, str]]) -> None:
        """Insert rows, and update some in vain.

        Args:
            changes: statements that were prepared, each with the table that its values are in.
        """
        wanted = [x for x in changes if self._matters(x[0])]
        total = sum(one.wanted.calls for one, _, _ in wanted) or 1
        for one, bench, pool in wanted:
            self._repeat(one, bench, pool, time.monotonic() + _MOST_S * one.wanted.calls / total)

    def undo(self) -> Iterator[str]:
        """Delete the rows again, and yield a clause on each table that has them still; their room is VACUUM's to free."""
        left = dict(self._tables)
        for _ in range(_FAILURES):  # those first that refer to others
            for schema, name in [*left]:
                try:
                    self._connection.execute(
                        f"DELETE FROM {quoted(schema, name)} WHERE xmin::text = ANY (%s)".encode(), (self._transactions,)
                    )  # fmt: skip
                except psycopg.Error:
                    if self._connection.closed:
                        raise
                else:
                    del left[schema, name]
        for schema, name in left:
            yield f"table {schema}.{name} has some more rows than in the original: they could not be deleted"

    def _matters(self, one: Analysed) -> bool:
        if one.table is None:
            return False
        name = (one.table.schema, one.table.name)
        names = {name, *self._parts(name)}
        if one.change.kind == "update":
            return any((x.schema, x.table) in names and _PENDING.search(x.definition) for x in self._twin.schema.indexes)  # fmt: skip
        if one.change.kind != "insert" or one.change.has_conflict:
            return False
        relations = [x for x in self._twin.relations if (x.schema, x.name) in names]
        added = sum(x.moved.get("n_tup_ins", 0) for x in relations) / 2
        # Of partitions those count that grow.
        growing = [x for x in relations if x.moved.get("n_tup_ins", 0)]
        return added > _LEAST_GROWTH * sum(map(rows_of, growing))

    def _parts(self, name: tuple[str, str]) -> Iterator[tuple[str, str]]:
        for table in self._twin.schema.tables:
            if table.partition_of == name:
                yield table.schema, table.name
                yield from self._parts((table.schema, table.name))

    def _repeat(self, one: Analysed, bench: Bench, pool: str, end_s: float) -> None:
        """Execute a statement half as often as in the window; stop if it fails too often."""
        assert one.table is not None, "it was looked at"
        left, failures = one.wanted.calls // 2, 0
        with prepared(self._connection, one.text):
            while left > 0 and failures < _FAILURES and time.monotonic() < end_s:
                rows = self._rows(one, pool, min(_CHUNK, left))
                left -= _CHUNK
                calls = "; ".join(executing(one, bench.with_fresh(row)) for row in rows)
                try:
                    self._connection.execute("BEGIN")
                    self._connection.execute(calls.encode())
                    if one.change.kind == "insert":
                        row = self._connection.execute("SELECT pg_catalog.pg_current_xact_id()::xid::text").fetchone()  # fmt: skip
                        self._connection.execute("COMMIT")
                        self._transactions += row or ()
                        self._tables[one.table.schema, one.table.name] = None
                except psycopg.Error:
                    if self._connection.closed:
                        raise
                    failures += 1
                finally:
                    if not self._connection.closed:
                        self._connection.execute("ROLLBACK")

    def _rows(self, one: Analysed, pool: str, count: int) -> Sequence[Values]:
        if not one.types:
            return [()] * count
        names = ", ".join(f"p{n}" for n in one.parameters)
        query = f"SELECT {names} FROM {pool} ORDER BY random() LIMIT {count}"
        return self._connection.execute(query.encode()).fetchall()
