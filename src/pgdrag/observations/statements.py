"""Which statements took time between two readings of pg_stat_statements? Of all databases, by their texts without constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pgdrag.collectors import OWN_MARK, Observer, Unseen
from pgdrag.collectors._statements_view import EXTENSION, find_extension
from pgdrag.literals import without_literals
from pgdrag.model.observed import MOST_TEXT, NO_TOTALS, OTHER_STATEMENTS, Statement, StatementTotals
from pgdrag.observations.thinning import MOST_STATEMENTS

# Of the extension, not the server: an upgrade leaves it as it was.
_OLDEST = (1, 9)

_HIDDEN = "<insufficient privilege>"
_PREPARATION = "SET statement_timeout"  # of pgdrag's own session, before it has any mark

_Key: TypeAlias = tuple[int, int]  # database and statement


class StatementAccount:
    """pg_stat_statements as one session sees it.

    Attributes:
        was_reset: it was reset between the last two readings.
    """

    def __init__(self, observer: Observer) -> None:
        """Find it.

        Raises:
            Unseen: it is not there, or too old.
        """
        found = find_extension(observer)
        if found is None:
            raise Unseen(f'extension {EXTENSION} is not in database "{observer.cluster.database}"')
        if found.version < _OLDEST:
            version = ".".join(map(str, found.version))
            raise Unseen(f"{EXTENSION} {version} is too old: ALTER EXTENSION {EXTENSION} UPDATE")
        self.was_reset = False
        self._view = found.view
        kind = "shared_" if found.version >= (1, 11) else ""
        # Statements within functions are part of the statement that called them.
        self._query = f"""
            SELECT dbid, queryid, sum(calls)::bigint, sum(rows)::bigint, sum(total_exec_time)::float8 / 1000,
                   sum(total_plan_time)::float8 / 1000, sum({kind}blk_read_time + {kind}blk_write_time)::float8 / 1000,
                   sum(shared_blks_hit)::bigint, sum(shared_blks_read)::bigint,
                   sum(temp_blks_written)::bigint, sum(wal_bytes)::bigint
              FROM {self._view}(false)
             WHERE toplevel AND queryid IS NOT NULL
             GROUP BY dbid, queryid
        """
        self._then: Mapping[_Key, StatementTotals] | None = None
        self._reset: Any = None
        self._named: dict[_Key, Statement | None] = {}

    def since_last(self, observer: Observer) -> dict[Statement, StatementTotals]:
        """Return what each statement took since the last reading; the first time, nothing.

        Raises:
            Unseen: the server refused.
        """
        [(reset,)] = observer.query(f"SELECT stats_reset FROM {self._view}_info")
        rows = observer.query(self._query, is_binary=True)
        now = {(database, queryid): StatementTotals(*totals) for database, queryid, *totals in rows}
        then, self._then = self._then, now
        self._named = {key: name for key, name in self._named.items() if key in now}
        self.was_reset = self._reset is not None and reset != self._reset
        self._reset = reset
        if then is None:
            return {}
        moved = {key: _growth(then.get(key, NO_TOTALS), totals) for key, totals in now.items()}
        moved = {key: totals for key, totals in moved.items() if totals.calls}
        return self._by_text(observer, moved)

    def _by_text(
        self, observer: Observer, moved: Mapping[_Key, StatementTotals]
    ) -> dict[Statement, StatementTotals]:
        # A few more than are kept: pgdrag's own are among them.
        ranked = sorted(moved, key=lambda key: -moved[key].time_s)[: 2 * MOST_STATEMENTS]
        self._learn(observer, [key for key in ranked if key not in self._named])
        found: dict[Statement, StatementTotals] = {}
        rest = Statement("", OTHER_STATEMENTS)
        for key, totals in moved.items():
            statement = self._named.get(key, rest)
            if statement is not None:
                found[statement] = found.get(statement, NO_TOTALS) + totals
        return found

    def _learn(self, observer: Observer, keys: list[_Key]) -> None:
        """Read texts, each once: the server reads a file of all texts for it."""
        if not keys:
            return
        rows = observer.query(
            f"""SELECT dbid, queryid, min(coalesce(datname, '')), min(query)
                  FROM {self._view} AS said LEFT JOIN pg_database ON pg_database.oid = dbid
                 WHERE queryid = ANY (%s) GROUP BY dbid, queryid""",
            [queryid for _, queryid in keys],
        )
        texts = {(database, queryid): (name, text) for database, queryid, name, text in rows}
        for key in keys:
            name, text = texts.get(key, ("", None))
            if text is None or text == _HIDDEN:
                self._named[key] = Statement(name, OTHER_STATEMENTS)
            elif OWN_MARK in text or text.startswith(_PREPARATION):
                self._named[key] = None
            else:
                self._named[key] = Statement(name, without_literals(text)[:MOST_TEXT])


def _growth(then: StatementTotals, now: StatementTotals) -> StatementTotals:
    """Return the difference; what was forgotten meanwhile and came again counts from 0."""
    if then.calls > now.calls:
        return now
    return StatementTotals(
        *(max(getattr(now, x) - getattr(then, x), 0) for x in StatementTotals.__dataclass_fields__)
    )
