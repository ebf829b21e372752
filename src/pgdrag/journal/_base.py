"""The journal's file as an open connection: rows out of it, transactions, and values as JSON."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from pgdrag.adapters import adapter_of, first_mistake
from pgdrag.english import cut
from pgdrag.errors import JournalError
from pgdrag.host.machine_lock import measuring_pid
from pgdrag.journal._file import explained, opened, unusable
from pgdrag.units import LAST_UNIX_S

RunStatus = Literal["running", "done", "interrupted", "failed"]
# Numbers of rows, which SQLite holds to no range.
LARGEST = 1e100
Real = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
UnixTime = Annotated[float, Field(ge=0, le=LAST_UNIX_S)]
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

    def _read(self, kind: type[_T], text: str, run_id: str) -> _T:
        """Return a value of a run, of its JSON.

        Raises:
            JournalError: it is of another kind, or has numbers that no pgdrag has written.
        """
        from pgdrag.journal._older import of_today  # it knows the types of all that a run has

        try:
            found = of_today(adapter_of(kind).validate_json(text))
            shape = text.encode().translate(_SHAPE)
            if any(x in shape for x in _PERHAPS_HUGE):
                json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_number)
        except ValidationError as error:
            why = first_mistake(error)
        except ValueError as error:
            why = str(error)
        else:
            return found
        raise JournalError(
            f'could not read run "{run_id}" from {self.path}',
            detail=f"{why}.",
            hint="Another version of pgdrag may have written it.",
        )

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


# A quick look first: what is written without an exponent has 21 digits at most, and few have more.
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_PERHAPS_HUGE = (b"0" * 22, b"0e00", b"0e+00", b"NaN", b"Infinity")


def _number(text: str) -> float:
    number = float(text)
    if not abs(number) <= LARGEST:
        raise ValueError(f"it has a number that no pgdrag writes, {cut(text, 30)}")
    return number


def unpacked(packed: bytes) -> str:
    """Return the unpacked text, with a limit: a foreign journal could expand to more than the memory."""
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
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise JournalError("recordings of a trial are damaged", detail=f"{error}.") from None


def true_status(status: RunStatus, pid: int | None) -> RunStatus:
    """A run whose process was killed still stands as running."""
    return "interrupted" if status == "running" and pid != measuring_pid() else status
