"""What does a file of observations keep, how is it added to, and how does it stay small?

One sample is one transaction: a kill loses at most the sample being written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pgdrag
from pgdrag.model.observed import (
    ObservedServer,
    Quantity,
    Sample,
    Setting,
    Spread,
    Statement,
    StatementTotals,
    Wait,
)
from pgdrag.model.recordings import Event
from pgdrag.observations import _file
from pgdrag.observations.thinning import (
    LEVELS,
    bucket_end,
    first_run,
    leading,
    level_to_thin,
    merged,
)

EMPTY = "''"
T = TypeVar("T")
LEAST_BYTES, DEFAULT_BYTES = 1 << 20, 50 << 20
# Room for what the next sample brings, and for pages that are half empty.
_FULL = 0.9
_MOST_STEPS = 200  # of thinning after one sample; the next one goes on
_SWEEP_EVERY = 64  # steps, after which texts that nothing refers to go
_WITHIN = "(began_unix_s + ended_unix_s) / 2 BETWEEN ? AND ?"
_USE = "calls, rows, exec_s, plan_s, io_s, blocks_hit, blocks_read, temp_blocks_written, wal_bytes"


class ObservationWriter:
    """A file of observations to which this process alone adds.

    Attributes:
        thinned: samples that were made part of coarser ones, by this writer.
        dropped: samples that went.
    """

    def __init__(
        self, path: Path, db: sqlite3.Connection, lock: _file.Locked, *, most_bytes: int
    ) -> None:
        assert most_bytes >= LEAST_BYTES, most_bytes
        self.path = path
        self.thinned = self.dropped = 0
        self._db, self._lock, self._most_bytes = db, lock, most_bytes
        self._quantities = dict(db.execute("SELECT name, id FROM quantity").fetchall())
        (self._page_bytes,) = db.execute("PRAGMA page_size").fetchone()
        self._steps = 0

    @staticmethod
    def refuse_existing(path: Path, *, append: bool) -> None:
        """Refuse a file that is there and cannot be appended to; errors as `_file.refuse_existing`."""
        _file.refuse_existing(path, append=append)

    @classmethod
    def create(cls, path: Path, *, began_unix_s: float, most_bytes: int) -> ObservationWriter:
        """Make a new file; errors as `_file.create`."""
        found = _file.create(path, pgdrag_version=pgdrag.__version__, began_unix_s=began_unix_s)
        return cls(path, *found, most_bytes=most_bytes)

    @classmethod
    def append(cls, path: Path, *, most_bytes: int) -> ObservationWriter:
        """Open a file to append to it; errors as `_file.open_to_write`."""
        db, lock = _file.open_to_write(path)
        try:
            with _file.explained(path):
                return cls(path, db, lock, most_bytes=most_bytes)
        except BaseException:
            db.close()
            lock.release()
            raise

    @property
    def ended_unix_s(self) -> float | None:
        """Where the newest sample ends; None where there is none."""
        found = self._one("SELECT max(ended_unix_s) FROM sample")
        return None if found is None else float(found)

    @property
    def samples(self) -> int:
        """How many there are."""
        return int(self._one("SELECT count(*) FROM sample"))

    @property
    def size_bytes(self) -> int:
        """What is in use of the file."""
        pages = self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")
        return int(pages * self._page_bytes)

    def _one(self, query: str) -> Any:
        with _file.explained(self.path):
            return self._db.execute(query).fetchone()[0]

    def server(self) -> ObservedServer | None:
        """Return the server that it was recorded from, as last seen."""
        return _server(self._db, None)

    def settings(self) -> dict[str, Setting]:
        """Return the server's settings as they were last."""
        return {one.name: one for one in _settings(self._db, None)}

    def append_server(self, at_unix_s: float, server: ObservedServer) -> None:
        """Note which server it is, where that is not what was noted last."""
        if server != self.server():
            with self._transaction():
                row = (at_unix_s, server.name, server.version, server.identifier)
                self._db.execute("INSERT INTO server VALUES (?, ?, ?, ?)", row)

    def append_settings(self, at_unix_s: float, settings: Sequence[Setting]) -> list[str]:
        """Note settings that are not what was noted last, and return the words for them, if there was a last."""
        last = self.settings()
        now = {one.name: one for one in settings}
        changed = [one for one in settings if last.get(one.name) != one]
        gone = [name for name in last if name not in now]
        with self._transaction():
            rows: list[tuple[float, str, str | None, str]] = [
                (at_unix_s, one.name, one.value, one.default) for one in changed
            ]
            rows += [(at_unix_s, name, None, "") for name in gone]
            self._db.executemany("INSERT INTO setting VALUES (?, ?, ?, ?)", rows)
        if not last:
            return []
        return [
            *(
                f"{one.name} = {one.value or EMPTY}"
                + (f" (was {last[one.name].value or EMPTY})" if one.name in last else "")
                for one in changed
                if one.name not in last or last[one.name].value != one.value
            ),
            *(f"{name} is gone" for name in gone),
        ]

    def append_event(self, event: Event) -> None:
        """Note something that happened."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO event VALUES (?, ?, ?, ?)",
                (event.kind, event.start_s, event.end_s, event.text),
            )

    def append_sample(self, sample: Sample, quantities: Sequence[Quantity]) -> None:
        """Add one sample, and thin older ones where there is no room.

        Args:
            quantities: of all its values at least.
        """
        with self._transaction():
            for one in quantities:
                if one.name not in self._quantities:
                    row = (one.name, one.label, one.unit, one.is_of_machine)
                    found = self._db.execute(
                        "INSERT INTO quantity (name, label, unit, is_of_machine) VALUES (?, ?, ?, ?)",
                        row,
                    )
                    self._quantities[one.name] = found.lastrowid
            self._insert(sample)
        self._thin()

    def close(self) -> None:
        """Finish the file: it is one file then, without another beside it."""
        try:
            with _file.explained(self.path):
                self._sweep()
                self._shrink()
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._db.close()
            self._lock.release()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _file.explained(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                # What was rolled back is not known any more.
                self._quantities = dict(self._db.execute("SELECT name, id FROM quantity"))
                raise

    def _insert(self, sample: Sample) -> None:
        at = self._db.execute(
            "INSERT INTO sample (level, began_unix_s, ended_unix_s, observed_s, wall_unix_s)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                sample.level,
                sample.began_unix_s,
                sample.ended_unix_s,
                sample.observed_s,
                sample.wall_unix_s,
            ),
        ).lastrowid
        self._db.executemany(
            "INSERT INTO value VALUES (?, ?, ?, ?, ?, ?)",
            (
                (at, self._quantities[name], x.mean, _other(x.low, x.mean), _other(x.high, x.mean),
                 _other(x.known_s, sample.observed_s))
                for name, x in sample.values.items()
            ),
        )  # fmt: skip
        for wait, processes in sample.waits.items():
            place = self._place("wait_name", "backend_type", wait.backend_type, "wait", wait.wait)
            self._db.execute("INSERT INTO wait VALUES (?, ?, ?)", (at, place, processes))
        for statement, totals in leading(sample.statements).items():
            place = self._place("statement", "database", statement.database, "text", statement.text)
            fields = [getattr(totals, name) for name in StatementTotals.__dataclass_fields__]
            marks = ", ".join("?" * (len(fields) + 2))
            self._db.execute(f"INSERT INTO statement_use VALUES ({marks})", (at, place, *fields))

    def _place(self, table: str, one: str, first: str, other: str, second: str) -> int:
        """Return the number of a pair of names, which are kept once."""
        where = f"FROM {table} WHERE {one} = ? AND {other} = ?"
        found = self._db.execute(f"SELECT id {where}", (first, second)).fetchone()
        if found is None:
            insert = f"INSERT INTO {table} ({one}, {other}) VALUES (?, ?) RETURNING id"
            found = self._db.execute(insert, (first, second)).fetchone()
        return int(found[0])

    # --- so that it stays small

    def _thin(self) -> None:
        steps = 0
        while self.size_bytes > _FULL * self._most_bytes and steps < _MOST_STEPS:
            with self._transaction():
                counts = dict(self._db.execute("SELECT level, count(*) FROM sample GROUP BY level"))
                if sum(counts.values()) <= 1:
                    return
                self._thin_level(level_to_thin([counts.get(x, 0) for x in range(LEVELS)]))
            steps += 1
            self._steps += 1
            if self._steps % _SWEEP_EVERY == 0:
                self._sweep()
        if steps:
            self._shrink()

    def _thin_level(self, level: int) -> None:
        """Make the oldest samples of a level one of the next, or drop the oldest of the last."""
        where = "FROM sample WHERE level = ? ORDER BY began_unix_s"
        if level == LEVELS - 1:
            at, end = self._db.execute(f"SELECT id, ended_unix_s {where}", (level,)).fetchone()
            self._delete([at])
            self._drop_before(end)
            self.dropped += 1
            return
        ((began,),) = self._db.execute(f"SELECT began_unix_s {where} LIMIT 1", (level,)).fetchall()
        within = "level = ? AND began_unix_s < ?"
        found = list(_samples(self._db, within, (level, bucket_end(began, level))))
        run = first_run([sample for _, sample in found])
        self._delete([at for at, _ in found[: len(run)]])
        self._insert(merged(run, level=level + 1))
        self.thinned += len(run)

    def _delete(self, places: Sequence[int]) -> None:
        rows = [(at,) for at in places]
        for table in ("value", "wait", "statement_use"):
            self._db.executemany(f"DELETE FROM {table} WHERE sample = ?", rows)
        self._db.executemany("DELETE FROM sample WHERE id = ?", rows)

    def _drop_before(self, end_unix_s: float) -> None:
        (oldest,) = self._db.execute("SELECT min(began_unix_s) FROM sample").fetchone()
        until = end_unix_s if oldest is None else min(end_unix_s, oldest)
        self._db.execute(
            "DELETE FROM event WHERE coalesce(ended_unix_s, began_unix_s) < ?", (until,)
        )
        self._db.execute(
            "DELETE FROM setting WHERE EXISTS (SELECT 1 FROM setting AS later WHERE later.name = setting.name"
            " AND later.at_unix_s > setting.at_unix_s AND later.at_unix_s <= ?)",
            (until,),
        )
        self._db.execute(
            "UPDATE file SET dropped_until_unix_s = max(coalesce(dropped_until_unix_s, 0), ?)",
            (until,),
        )

    def _sweep(self) -> None:
        """Remove the texts of statements that no sample has any more."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM statement WHERE id NOT IN (SELECT statement FROM statement_use)"
            )

    def _shrink(self) -> None:
        """Give back pages to the file system where the file itself is larger than it may be."""
        if self._one("PRAGMA page_count") * self._page_bytes > self._most_bytes:
            # `execute` would take the first page that is given back for the end.
            with _file.explained(self.path):
                self._db.executescript("PRAGMA incremental_vacuum")


def _other(value: float, usual: float) -> float | None:
    """Return what a column has, which is NULL where it says nothing new."""
    return None if value == usual else value


class ObservationReader:
    """A file of observations that is read, also while it is added to: a context."""

    def __init__(self, path: Path) -> None:
        """Open it; errors as `_file.ReadFile`."""
        self.path = path
        self._file = _file.ReadFile(path)
        self._db = self._file.db

    def __enter__(self) -> ObservationReader:
        try:
            with self._reading() as db:
                # All that is read is of one moment, which begins with the first read.
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM file").fetchone()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _file.explained(self.path):
            yield self._db

    def span(self) -> tuple[float, float] | None:
        """Return where the first sample begins and the last one ends; None where there is none."""
        with self._reading() as db:
            query = "SELECT min(began_unix_s), max(ended_unix_s) FROM sample"
            begin, end = db.execute(query).fetchone()
        return None if begin is None else (float(begin), float(end))

    def dropped_until(self) -> float | None:
        """Return until when samples were dropped; None where none was."""
        with self._reading() as db:
            (found,) = db.execute("SELECT dropped_until_unix_s FROM file").fetchone()
        return None if found is None else float(found)

    def server(self, at_unix_s: float) -> ObservedServer:
        """Return the server as it was at a moment."""
        with self._reading() as db:
            return _server(db, at_unix_s) or _server(db, None) or ObservedServer("", "")

    def settings(self, at_unix_s: float) -> tuple[Setting, ...]:
        """Return the server's settings as they were at a moment, by name."""
        with self._reading() as db:
            return tuple(_settings(db, at_unix_s))

    def quantities(self) -> tuple[Quantity, ...]:
        """Return all quantities of the file, in the order in which they first came."""
        with self._reading() as db:
            rows = db.execute("SELECT name, label, unit, is_of_machine FROM quantity ORDER BY id")
            return tuple(Quantity(x, label, unit, bool(is_of)) for x, label, unit, is_of in rows)

    def intervals(self, begin_unix_s: float, end_unix_s: float) -> list[tuple[int, float, float]]:
        """Return level, begin and end of the samples that `samples` yields."""
        query = f"SELECT level, began_unix_s, ended_unix_s FROM sample WHERE {_WITHIN} ORDER BY began_unix_s"
        with self._reading() as db:
            return db.execute(query, (begin_unix_s, end_unix_s)).fetchall()

    def samples(self, begin_unix_s: float, end_unix_s: float) -> Iterator[Sample]:
        """Yield the samples that lie in a stretch with more than half of their time, in its order."""
        with self._reading() as db:
            for _, sample in _samples(db, _WITHIN, (begin_unix_s, end_unix_s)):
                yield sample

    def ended_before(self, unix_s: float) -> float:
        """Return where the last sample ends before a moment; 0 where there is none."""
        query = "SELECT coalesce(max(ended_unix_s), 0) FROM sample WHERE began_unix_s < ?"
        with self._reading() as db:
            return float(db.execute(query, (unix_s,)).fetchone()[0])

    def events(self, begin_unix_s: float, end_unix_s: float) -> tuple[Event, ...]:
        """Return what happened in a stretch, in its order."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT kind, began_unix_s, ended_unix_s, text FROM event"
                " WHERE coalesce(ended_unix_s, began_unix_s) >= ? AND began_unix_s <= ? ORDER BY began_unix_s",
                (begin_unix_s, end_unix_s),
            )
            return tuple(Event(*row) for row in rows)


def _server(db: sqlite3.Connection, at_unix_s: float | None) -> ObservedServer | None:
    query = (
        "SELECT name, version, identifier FROM server WHERE at_unix_s <= coalesce(?, at_unix_s)"
        " ORDER BY at_unix_s DESC, rowid DESC LIMIT 1"
    )
    found = db.execute(query, (at_unix_s,)).fetchone()
    return None if found is None else ObservedServer(*found)


def _settings(db: sqlite3.Connection, at_unix_s: float | None) -> Iterator[Setting]:
    # Of an aggregate's max, SQLite takes the other columns from the same row.
    rows = db.execute(
        "SELECT name, value, boot, max(rowid) FROM setting WHERE at_unix_s <= coalesce(?, at_unix_s)"
        " GROUP BY name ORDER BY name",
        (at_unix_s,),
    )
    for name, value, boot, _ in rows:
        if value is not None:
            yield Setting(name, value, boot)


def _samples(
    db: sqlite3.Connection, where: str, parameters: tuple[float, ...]
) -> Iterator[tuple[int, Sample]]:
    """Yield samples with their numbers, in the order of time."""
    # From the table, as `quantities` reads it: a damaged index may have other names.
    names = dict(db.execute("SELECT id, name FROM quantity NOT INDEXED"))
    rows = db.execute(
        f"SELECT id, level, began_unix_s, ended_unix_s, observed_s, wall_unix_s FROM sample WHERE {where}"
        " ORDER BY began_unix_s",
        parameters,
    ).fetchall()
    statements: dict[int, Statement] = {}
    waits: dict[int, Wait] = {}
    for at, level, began, ended, observed_s, wall in rows:
        of_sample = db.execute(
            "SELECT quantity, mean, low, high, known_s FROM value WHERE sample = ?", (at,)
        ).fetchall()
        _refuse_nameless({quantity for quantity, *_ in of_sample} - names.keys())
        values = {
            names[quantity]: Spread(
                mean,
                mean if low is None else low,
                mean if high is None else high,
                observed_s if known_s is None else known_s,
            )
            for quantity, mean, low, high, known_s in of_sample
        }
        in_waits = db.execute(
            "SELECT wait_name, processes FROM wait WHERE sample = ?", (at,)
        ).fetchall()
        uses = db.execute(
            f"SELECT statement, {_USE} FROM statement_use WHERE sample = ?", (at,)
        ).fetchall()
        _learn(db, waits, "SELECT backend_type, wait FROM wait_name", in_waits, Wait)
        _learn(db, statements, "SELECT database, text FROM statement", uses, Statement)
        yield at, Sample(
            began, ended, observed_s, wall, values,
            {waits[which]: processes for which, processes in in_waits},
            {statements[which]: StatementTotals(*totals) for which, *totals in uses},
            level,
        )  # fmt: skip


def _learn(
    db: sqlite3.Connection,
    found: dict[int, T],
    query: str,
    rows: Sequence[tuple[Any, ...]],
    kind: Callable[..., T],
) -> None:
    """Look up what is named by number and not known yet."""
    wanted = {row[0] for row in rows} - found.keys()
    for number in wanted:
        for row in db.execute(f"{query} WHERE id = ?", (number,)):
            found[number] = kind(*row)
    _refuse_nameless(wanted - found.keys())


def _refuse_nameless(numbers: Collection[int]) -> None:
    """Refuse numbers without a row: in a damaged table SQLite finds one by its number that a scan does not, or the reverse."""
    for number in numbers:
        raise sqlite3.DatabaseError(f"nothing is numbered {number}")
