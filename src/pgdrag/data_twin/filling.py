"""How do rows get into a table, as many to a page as in the original, and past its constraints?

Tables have free room in their pages: of updates, of deleted rows, by fillfactor. How much the size of the original tells. COPY
leaves as much as fillfactor says, so that is set between batches for the table to become as large as it should be. Few rows that are
changed all the time lie on many pages, nearly empty, of which a scan reads all: there pages are filled with rows that are deleted.
Where full pages lack few rows, some are updated as in the original: a new version that has no room goes to the table's end, and
its old place is the room that the next update of the page stays in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from pgdrag.data_twin.domains import NULL
from pgdrag.data_twin.rows import FilledColumn, Rows
from pgdrag.data_twin.sizes import SMALL_BLOCKS
from pgdrag.data_twin.tables import FilledTable
from pgdrag.data_twin.triggers import without_triggers
from pgdrag.data_twin.unvacuumed import move_rows

_BATCH_ROWS = 10_000
_SAMPLE_ROWS = 5000  # that show how many rows go on a full page
_FILLING_ROWS = 50  # that a page is filled with at once
_LEAST_FILL, _MOST_FILL = 10, 100
_AS_WANTED = 0.005  # of the pages: by so many there may be more or fewer
_FITS = 3
_FULL_ENOUGH = 0.995  # of the rows that a full page has
_MOST_MOVED = 0.1  # of the rows
_STRETCHES = 8  # of a table that has both kinds of pages
# COPY extends a table by more than it needs: of a table that is not much larger the rest is cut off between two steps.
_CUT_BLOCKS = 4000
_NEEDS_ESCAPE = re.compile(r"[\\\t\n\r]")
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

# What each row of a table must fulfil: its own constraints, and of a partition its bounds.
_CHECKS: LiteralString = """
SELECT conname::text, pg_catalog.pg_get_expr(conbin, conrelid) FROM pg_catalog.pg_constraint
 WHERE conrelid = %(table)s::regclass AND contype = 'c'
 UNION ALL
SELECT '', pg_catalog.pg_get_partition_constraintdef(%(table)s::regclass)
"""
_LAST_BLOCK = sql.SQL("SELECT ((max(ctid)::text::point)[0])::int8 FROM {}")
_LAST_ROW = sql.SQL("SELECT coalesce(max(ctid)::text, '(0,0)') FROM {}")
# Those before the last one, and their rows.
_FULL_PAGES = sql.SQL("""
SELECT last, (SELECT count(*) FROM ONLY {0} WHERE ctid < pg_catalog.format('(%s,0)', last)::tid)
  FROM (SELECT coalesce(((max(ctid)::text::point)[0])::int8, 0) AS last FROM ONLY {0}) AS l
""")
_COPY = sql.Identifier("pg_temp", "pgdrag_copied")
_COPIED = sql.SQL(
    "CREATE TEMPORARY TABLE pgdrag_copied ON COMMIT DROP AS SELECT {} FROM {} WHERE false"
)
_INSERT = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT * FROM pg_temp.pgdrag_copied")
_CHECKED = sql.Identifier("pg_temp", "pgdrag_checked")


@dataclass
class Fill:
    """Fills one table.

    Attributes:
        connection: its owner's; it commits each statement.
        blocks: how many the table is to have; 0: as many as the rows need.
        dead_share: of its pages, which each have one more row when VACUUM has been there: see `unvacuumed.py`.
    """

    connection: psycopg.Connection
    table: FilledTable
    blocks: int
    block_bytes: int
    dead_share: float = 0.0

    def run(self, rows: Rows, done: Callable[[int], None]) -> Iterator[str]:
        """Write all rows, and yield a clause on each constraint that they do not fulfil.

        Args:
            done: is told how many more rows are there.

        Raises:
            psycopg.Error: the server refuses the rows.
        """
        mended: set[str] = set()
        while True:
            try:
                self._copy(rows, done)
                return
            except psycopg.errors.CheckViolation as error:
                # What is written of a COPY that failed is dead rows, and batches before it are whole.
                self.connection.execute(sql.SQL("TRUNCATE {}").format(self._name))
                broken = error.diag.constraint_name or ""
                if broken in mended or not self._mend(rows, broken):
                    yield from self._drop(broken, error)
                mended.add(broken)

    @property
    def _name(self) -> sql.Identifier:
        return sql.Identifier(*self.table.name)

    def add(self, rows: Rows) -> None:
        """Write rows behind those that are there, with indexes and constraints in place; triggers do not fire.

        Raises:
            psycopg.Error: the server refuses the rows.
        """
        names = sql.SQL(", ").join(sql.Identifier(x.name) for x in self.table.columns)
        with without_triggers(self.connection, self.table.name):
            # COPY would extend the table by more pages than it needs.
            self.connection.execute(_COPIED.format(names, self._name))
            copy = sql.SQL("COPY {} FROM STDIN").format(_COPY)
            self._send(copy, self._lists(rows), 0, rows.count)
            self.connection.execute("SET LOCAL synchronize_seqscans = off")
            self.connection.execute(_INSERT.format(self._name, names))

    # --- constraints --------------------------------------------------------------------------

    def _mend(self, rows: Rows, constraint: str) -> bool:
        """Give rows that break a constraint what rows that fulfil it have in its columns; tell whether that is possible."""
        name = self._name.as_string(self.connection)
        checks: dict[str, str] = dict(self.connection.execute(_CHECKS, {"table": name}).fetchall())
        text = checks.get(constraint)
        if not text:
            return False
        named = set(re.findall(r"\w+", text))
        columns = [x for x in rows.columns if x in named]
        if not columns:
            return False
        failing = self._failing(rows, columns, text)
        passing = np.setdiff1d(np.arange(rows.count), failing)
        if not len(passing):
            return False
        if any(set(columns) & set(key) for key in self.table.keys):
            # Another row's value would be there twice.
            for column in rows.columns.values():
                column.codes = column.codes[passing]
            rows.count = len(passing)
            return True
        givers = np.random.default_rng(3).choice(passing, len(failing))
        for one in columns:
            rows.columns[one].codes[failing] = rows.columns[one].codes[givers]
        return True

    def _failing(self, rows: Rows, columns: Sequence[str], check: str) -> NDArray[np.int64]:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        with self.connection.transaction():
            # Its columns are of the same types.
            self.connection.execute(
                sql.SQL("CREATE TEMPORARY TABLE pgdrag_checked ON COMMIT DROP AS SELECT 0 AS {}, {} FROM {} WHERE false")
                .format(sql.Identifier(_NUMBER), names, self._name)
            )  # fmt: skip
            lists = [list(map(str, range(rows.count)))]
            lists += [texts_of(rows.columns[x]) for x in columns]
            self._send(sql.SQL("COPY {} FROM STDIN").format(_CHECKED), lists, 0, rows.count)
            found = self.connection.execute(
                f"SELECT {_NUMBER} FROM pg_temp.pgdrag_checked WHERE NOT ({check})".encode()
            ).fetchall()
        return np.array([number for (number,) in found], np.int64)

    def _drop(self, constraint: str, error: psycopg.Error) -> Iterator[str]:
        """Remove a constraint that the rows break, and have it again for rows to come.

        Raises:
            psycopg.Error: it is no constraint of the table's or of a domain, or rows of it are not a partition's.
        """
        of_type = error.diag.datatype_name
        if of_type:
            kind, name = sql.SQL("DOMAIN"), sql.Identifier(error.diag.schema_name or "", of_type)
        else:
            kind, name = sql.SQL("TABLE"), self._name
        if not constraint:
            raise error
        alter = sql.SQL("ALTER {} {} DROP CONSTRAINT {}").format(
            kind, name, sql.Identifier(constraint)
        )
        self.connection.execute(alter)
        yield (
            f"constraint {constraint} of {'.'.join(self.table.name)}: it is left out, since rows of a twin do not fulfil it"
        )

    # --- rows ---------------------------------------------------------------------------------

    def _copy(self, rows: Rows, done: Callable[[int], None]) -> None:
        if not rows.count:
            return
        names = sql.SQL(", ").join(sql.Identifier(x.name) for x in self.table.columns)
        copy = sql.SQL("COPY {} ({}) FROM STDIN").format(self._name, names)
        lists = self._lists(rows)
        steps, moved = self._steps(copy, lists, rows.count)
        at = 0
        try:
            if self.blocks <= SMALL_BLOCKS:
                self._copy_small(copy, lists, rows.count, done)
                return
            for fill, number in steps:
                if fill is not None:
                    self._set_fill(fill)
                self._send(copy, lists, at, at + number, done)
                at += number
                if at < rows.count and self.blocks < _CUT_BLOCKS:
                    self.connection.execute(sql.SQL("VACUUM {}").format(self._name))
            share = moved / self.blocks - self.dead_share
            if share > 0:
                move_rows(self.connection, self.table.name, share=share)
        finally:
            if any(fill is not None for fill, _ in steps) and not self.connection.closed:
                self._set_fill(None)

    def _lists(self, rows: Rows) -> list[list[str]]:
        return [texts_of(rows.columns[x.name]) for x in self.table.columns]

    def _copy_small(
        self,
        copy: sql.Composed,
        lists: Sequence[list[str]],
        count: int,
        done: Callable[[int], None],
    ) -> None:
        """Write the rows of a table with few pages, as many on each; of fewer rows than pages one is on the last."""
        self._send(copy, lists, 0, count, done)
        pages = self.blocks
        if self._last_block() + 1 >= pages:
            return
        self.connection.execute(sql.SQL("TRUNCATE {}").format(self._name))
        for page in range(pages):
            self._send(copy, lists, count * page // pages, count * (page + 1) // pages)
            if page + 1 < pages:
                self._fill_page(copy, lists, page)

    def _fill_page(self, copy: sql.Composed, lists: Sequence[list[str]], page: int) -> None:
        """Let the last page, of this number, have no room for another row, and only those that it has."""
        row = self.connection.execute(_LAST_ROW.format(self._name)).fetchone()
        assert row is not None, "an aggregate has a row"
        while self._last_block() <= page:
            self._send(copy, lists, 0, min(len(lists[0]), _FILLING_ROWS))
        self.connection.execute(sql.SQL("DELETE FROM {} WHERE ctid > {}::tid").format(self._name, sql.Literal(row[0])))  # fmt: skip

    def _last_block(self) -> int:
        row = self.connection.execute(_LAST_BLOCK.format(self._name)).fetchone()
        assert row is not None, "an aggregate has a row"
        return -1 if row[0] is None else int(row[0])

    def _steps(
        self, copy: sql.Composed, lists: Sequence[list[str]], count: int
    ) -> tuple[list[tuple[int | None, int]], int]:
        """Return how full pages are to be, None: as they come, for how many rows, and how many rows leave their page then."""
        if self.blocks <= SMALL_BLOCKS:
            return [], 0
        of_page: dict[int, float] = {}

        def rows_of_page(fill: int) -> float:
            if fill not in of_page:
                self._set_fill(fill)
                of_page[fill] = self._rows_of_page(copy, lists, count)
                self._set_fill(None)
            return of_page[fill]

        full = rows_of_page(_MOST_FILL)
        aim = float(self.blocks)
        steps = fill_steps(count, self.blocks, full)
        for _ in range(_FITS):
            # Rows of different widths leave other room than rows of one.
            pages = sum(number / rows_of_page(fill) for fill, number in steps if fill is not None)
            if not pages or abs(pages / self.blocks - 1) <= _AS_WANTED:
                break
            aim *= self.blocks / pages
            steps = fill_steps(count, round(aim), full)
        return steps, moved_rows(count, self.blocks, full)

    def _rows_of_page(self, copy: sql.Composed, lists: Sequence[list[str]], count: int) -> float:
        """Return how many rows a page gets, on average; none stays."""
        sample = min(count, _SAMPLE_ROWS)
        self._send(copy, lists, 0, sample)
        row = self.connection.execute(_FULL_PAGES.format(self._name)).fetchone()
        assert row is not None, "an aggregate has a row"
        self.connection.execute(sql.SQL("TRUNCATE {}").format(self._name))
        return row[1] / row[0] if row[0] else float(sample)

    def _send(
        self,
        copy: sql.Composed,
        lists: Sequence[list[str]],
        begin: int,
        end: int,
        done: Callable[[int], None] = lambda _: None,
    ) -> None:
        with self.connection.cursor() as cursor, cursor.copy(copy) as copying:
            for start in range(begin, end, _BATCH_ROWS):
                stop = min(start + _BATCH_ROWS, end)
                lines = map("\t".join, zip(*(x[start:stop] for x in lists), strict=True))
                copying.write("\n".join(lines) + "\n")
                done(stop - start)

    def _set_fill(self, fill: int | None) -> None:
        """Set fillfactor, or have that of the original again."""
        own = next((x for x in self.table.options if x.startswith("fillfactor=")), "")
        wanted: LiteralString = f"fillfactor={fill}" if fill is not None else own
        action = sql.SQL(f"SET ({wanted})" if wanted else "RESET (fillfactor)")
        self.connection.execute(sql.SQL("ALTER TABLE {} {}").format(self._name, action))


_NUMBER = "pgdrag_row"


def fill_steps(rows: int, blocks: int, rows_of_full_page: float) -> list[tuple[int | None, int]]:
    """Return fillfactors for a table to have so many blocks, each with the number of rows for which it holds.

    A page has whole rows: some pages have one more than others, in all parts of the table. None: pages as full as they come.

    Args:
        rows_of_full_page: on average: rows may be of different widths.
    """
    wanted = rows / blocks
    if _is_full(rows, blocks, rows_of_full_page):
        return [(None, rows)]
    fewer = int(wanted)
    if fewer < 1 or wanted >= 50:
        return [(_fill(wanted, rows_of_full_page), rows)]
    # Pages with one more, p of them: p * (fewer + 1) + (blocks - p) * fewer = rows.
    with_more = (rows - blocks * fewer) * (fewer + 1)
    stretches = _STRETCHES if blocks >= 100 * _STRETCHES else 1
    steps = [
        (_fill(rows_of_page + 0.3, rows_of_full_page), number * (at + 1) // stretches - number * at // stretches)
        for at in range(stretches)
        for rows_of_page, number in ((fewer + 1, with_more), (fewer, rows - with_more))
    ]  # fmt: skip
    return [(fill, number) for fill, number in steps if number > 0]


def moved_rows(rows: int, blocks: int, rows_of_full_page: float) -> int:
    """Return how many rows left their page for the table's end, where a few did."""
    is_loose = rows < _FULL_ENOUGH * blocks * rows_of_full_page and _is_full(rows, blocks, rows_of_full_page)  # fmt: skip
    # The last page is as seldom full as not.
    return max(round((blocks - 1) * rows_of_full_page) - rows, 0) if is_loose else 0


def _is_full(rows: int, blocks: int, rows_of_full_page: float) -> bool:
    return blocks * rows_of_full_page - rows <= _MOST_MOVED * rows


def _fill(rows: float, rows_of_full_page: float) -> int:
    return round(min(max(100 * rows / rows_of_full_page, _LEAST_FILL), _MOST_FILL))


def texts_of(column: FilledColumn) -> list[str]:
    """Return the value of each row as COPY reads it."""
    codes, places = np.unique(column.codes, return_inverse=True)
    is_null = codes == NULL
    known = column.domain.texts(codes[~is_null], column.form)
    if _NEEDS_ESCAPE.search("\0".join(known)):
        known = [x.translate(_ESCAPED) for x in known]
    texts = np.array(known, object)
    if is_null.any():  # NULL is the least
        texts = np.concatenate((np.array(["\\N"], object), texts))
    found: list[str] = texts[places].tolist()
    return found
