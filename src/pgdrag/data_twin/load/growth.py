"""What has the load inserted halfway through the window? Queries for the latest rows find more of that than of what was there before.

So while values are chosen, tables that get rows of the present moment have as many more as in the middle of the original's
window, and it is that moment. Before the load begins the rows are removed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg

from pgdrag.data_twin import clock
from pgdrag.data_twin.load.effort import ENTRIES_S, executions_within
from pgdrag.data_twin.load.statements import Analysed, executing, prepared
from pgdrag.data_twin.load.texts import change_of, sendable
from pgdrag.data_twin.load.work import Values
from pgdrag.twins.ddl import quoted
from pgdrag.twins.model import Statement, Twin
from pgdrag.twins.tokens import ANCHOR, moment_of

MIDDLE = 0.5  # of the window
_BATCHES = 20  # each of one moment
_MOST_EXECUTIONS = 20_000
_NOW = re.compile(r"\b(?:now|\w+_timestamp)\(\)")


def grown_tables(statements: Iterable[Statement], twin: Twin) -> frozenset[str]:
    """Return tables that get rows of the present moment, and of which queries ask for the latest ones."""
    recent = [x for x in map(_text, statements) if _NOW.search(x)]
    asked = {word for x in recent if change_of(x).kind == "select" for word in re.findall(r"\w+", x)}  # fmt: skip
    # What a trigger does would not be undone.
    return frozenset({*map(_inserted_into, recent)} & asked - {x.table for x in twin.schema.triggers})  # fmt: skip


def grows(statement: Statement, tables: frozenset[str]) -> bool:
    """Whether a statement inserts rows of the present moment into one of these tables."""
    text = _text(statement)
    return _NOW.search(text) is not None and _inserted_into(text) in tables


def _inserted_into(text: str) -> str:
    """Return the table that a statement inserts into without ON CONFLICT; "" where it does not."""
    change = change_of(text)
    is_insert = change.kind == "insert" and change.table and not change.has_conflict
    return change.table[-1] if is_insert else ""


def _text(statement: Statement) -> str:
    return sendable(statement.text)


class Growth:
    """Rows that are there while values are chosen."""

    def __init__(self, connection: psycopg.Connection[Any], twin: Twin) -> None:
        self._connection = connection
        self._begin: datetime = moment_of(twin.now) or ANCHOR
        self._half_s = MIDDLE * twin.workload.window_s
        self._transactions: dict[str, list[str]] = {}
        self._rows: Counter[str] = Counter()

    def beside(self, one: Analysed) -> Analysed:
        """Return a statement that knows how many rows there are now: nothing is analysed, as in the window."""
        added = {alias: self._rows[quoted(x.schema, x.name)] for alias, x in one.roots.items()}
        return replace(one, roots={alias: replace(x, rows=x.rows + added[alias]) for alias, x in one.roots.items()})  # fmt: skip

    @staticmethod
    def executions(one: Analysed) -> int:
        """Return how often a statement is executed until the middle of the window."""
        return min(round(MIDDLE * one.wanted.calls), _MOST_EXECUTIONS, executions_within(ENTRIES_S, one))  # fmt: skip

    def add(self, one: Analysed, rows: Iterator[Values]) -> None:
        """Insert rows with these values, one after the other, until it is the middle of the window.

        Args:
            rows: values of its parameters, without an end.
        """
        assert one.table is not None, "it inserts"
        count = self.executions(one)
        table = quoted(one.table.schema, one.table.name)
        added = self._transactions.setdefault(table, [])
        with prepared(self._connection, one.text):
            for batch in range(_BATCHES):
                self._set_clock((batch + 1) / _BATCHES)
                number = count * (batch + 1) // _BATCHES - count * batch // _BATCHES
                some = [executing(one, x) for x in itertools.islice(rows, number)]
                if some and (done := self._inserted(some)):
                    added += done
                    self._rows[table] += round(number * one.wanted.rows / one.wanted.calls)

    def _set_clock(self, share: float) -> None:
        moment = self._begin + timedelta(seconds=share * self._half_s)
        clock.stop_clock(self._connection, moment.isoformat(sep=" "))

    def _inserted(self, executions: Sequence[str]) -> list[str]:
        """Insert all or nothing; return the transaction's number."""
        connection = self._connection
        try:
            with connection.transaction():
                connection.execute("; ".join(executions).encode())
                query = "SELECT pg_catalog.pg_current_xact_id()::xid::text"
                return [x for (x,) in connection.execute(query).fetchall()]
        except psycopg.Error:  # a key is there already
            if connection.closed:
                raise
            return []

    def remove(self) -> None:
        """Delete the rows: vacuuming makes the tables what they were, but for indexes, whose pages stay."""
        for table, transactions in reversed(self._transactions.items()):
            query = f"DELETE FROM {table} WHERE xmin::text = ANY (%s)"
            self._connection.execute(query.encode(), (transactions,))
