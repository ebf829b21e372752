"""The journal's file as an open connection: rows out of it, transactions, and values as JSON."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from pgdrag.adapters import adapter_of
from pgdrag.errors import JournalError
from pgdrag.host.machine_lock import measuring_pid
from pgdrag.journal._file import explained, opened, unusable

RunStatus = Literal["running", "done", "interrupted", "failed"]
_T = TypeVar("_T")

# Of one trial: a profile of hours has some MB.
LARGEST_RECORDINGS_BYTES = 256 * 2**20


class JournalFile:
    """The journal's file, open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = opened(path)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _rows(
        self, sql: str, values: tuple[object, ...] = (), *, kind: Any = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows that SQL finds.

        Args:
            kind: the type of a row, such as tuple[int, str], which SQLite holds a damaged one not to; None: any.

        Raises:
            JournalError: a row is of another kind.
        """
        with explained(self.path):
            rows = self._db.execute(sql, values).fetchall()
        try:
            return rows if kind is None else adapter_of(list[kind]).validate_python(rows)
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            raise unusable(self.path, f"it is damaged: a value should be {found['type']}") from None

    @contextmanager
    def _transaction(self, *, is_flushed: bool = True) -> Iterator[sqlite3.Connection]:
        """Commit what the block does as a whole; when it has ended, that is on disk.

        Args:
            is_flushed: False: it outlives this process, and is on disk with the next transaction that is flushed.
        """
        with explained(self.path):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if is_flushed else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def written(kind: type[Any], value: object) -> str:
    return adapter_of(kind).dump_json(value).decode()


def read(kind: type[_T], text: str | bytes) -> _T:
    from pgdrag.journal._older import of_today  # it knows the types of all that a run has

    return of_today(adapter_of(kind).validate_json(text))


def unpacked(packed: bytes) -> bytes:
    """Return the unpacked content, with a limit: a foreign journal could expand to more than the memory."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(packed, LARGEST_RECORDINGS_BYTES)
    except zlib.error as error:
        raise JournalError("recordings of a trial are damaged", detail=f"{error}.") from None
    if not unpacking.eof:
        raise JournalError(
            "recordings of a trial are damaged",
            detail=f"They are not whole, or larger than {LARGEST_RECORDINGS_BYTES >> 20} MB.",
        )
    return content


def true_status(status: RunStatus, pid: int | None) -> RunStatus:
    """A run whose process was killed still stands as running."""
    return "interrupted" if status == "running" and pid != measuring_pid() else status
