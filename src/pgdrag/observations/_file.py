"""How is a file of observations made, recognised, locked and kept private? Its schema is here."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import get_args

from pgdrag.english import capital
from pgdrag.errors import ObservationsError, StorageError
from pgdrag.host.mounts import network_file_system
from pgdrag.host.process_alive import try_lock, wait_until
from pgdrag.host.trusted_path import who_may_swap
from pgdrag.model.recordings import SeriesUnit
from pgdrag.observations.thinning import LEVELS
from pgdrag.units import LAST_UNIX_S

VERSION = 1
_APPLICATION = 0x70676F62  # "pgob"
_BEGINNING = b"SQLite format 3\0"
_BUSY_S = 5.0
_PATIENCE_S = 1.0
_WAL_PAGES = 250  # then SQLite moves them into the file itself

# Times are Unix seconds of the steady clock, see pgdrag.model.observed.
SCHEMA = """
CREATE TABLE file (
    pgdrag_version TEXT NOT NULL,        -- that made it
    began_unix_s REAL NOT NULL,
    dropped_until_unix_s REAL            -- NULL: no sample was dropped yet
);
CREATE TABLE server (                    -- a row when observing began, and at each change
    at_unix_s REAL NOT NULL,
    name TEXT NOT NULL,                  -- where it is, without a password
    version TEXT NOT NULL,
    identifier TEXT NOT NULL             -- of the cluster, '' where hidden
);
CREATE TABLE setting (                   -- a row when observing began, and at each change
    at_unix_s REAL NOT NULL,
    name TEXT NOT NULL,
    value TEXT,                          -- NULL: it is gone
    boot TEXT NOT NULL                   -- the server's built-in default
);
CREATE TABLE quantity (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL,
    unit TEXT NOT NULL,
    is_of_machine INTEGER NOT NULL
);
CREATE TABLE wait_name (
    id INTEGER PRIMARY KEY,
    backend_type TEXT NOT NULL,
    wait TEXT NOT NULL,                  -- '' is on a processor
    UNIQUE (backend_type, wait)
);
CREATE TABLE statement (
    id INTEGER PRIMARY KEY,
    database TEXT NOT NULL,
    text TEXT NOT NULL,                  -- without constants
    UNIQUE (database, text)
);
CREATE TABLE sample (
    id INTEGER PRIMARY KEY,
    level INTEGER NOT NULL,              -- how often it was thinned
    began_unix_s REAL NOT NULL,
    ended_unix_s REAL NOT NULL,
    observed_s REAL NOT NULL,
    wall_unix_s REAL NOT NULL            -- of the machine's clock at its end
);
CREATE INDEX sample_by_level ON sample (level, began_unix_s);
CREATE INDEX sample_by_time ON sample (began_unix_s);
CREATE TABLE value (
    sample INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    mean REAL NOT NULL,
    low REAL,                            -- NULL: the mean
    high REAL,                           -- NULL: the mean
    known_s REAL,                        -- NULL: for the whole of the observed time
    PRIMARY KEY (sample, quantity)
) WITHOUT ROWID;
CREATE TABLE wait (
    sample INTEGER NOT NULL,
    wait_name INTEGER NOT NULL,
    processes REAL NOT NULL,
    PRIMARY KEY (sample, wait_name)
) WITHOUT ROWID;
CREATE TABLE statement_use (
    sample INTEGER NOT NULL,
    statement INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    exec_s REAL NOT NULL,
    plan_s REAL NOT NULL,
    io_s REAL NOT NULL,
    blocks_hit INTEGER NOT NULL,
    blocks_read INTEGER NOT NULL,
    temp_blocks_written INTEGER NOT NULL,
    wal_bytes INTEGER NOT NULL,
    PRIMARY KEY (sample, statement)
) WITHOUT ROWID;
CREATE TABLE event (
    kind TEXT NOT NULL,
    began_unix_s REAL NOT NULL,
    ended_unix_s REAL,
    text TEXT NOT NULL
);
CREATE INDEX event_by_time ON event (began_unix_s);
"""


class Locked:
    """The lock of the one process that writes to a file; it ends with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        # SQLite's own locks are a process's, and end when it closes any of its descriptors of the file:
        # this one is closed after SQLite's.
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        # Whoever reads has it only for as long as that takes.
        if not wait_until(lambda: try_lock(self._fd), _PATIENCE_S):
            os.close(self._fd)
            raise ObservationsError(
                "another pgdrag writes to this file",
                path=path,
                hint="Give the other server, or this observation, a file of its own with --out.",
            )

    def release(self) -> None:
        """Let others write."""
        os.close(self._fd)


def refuse_existing(path: Path, *, append: bool) -> None:
    """Refuse a file that is there, before a server is asked for what would go into it.

    Args:
        append: it may be a file of observations.

    Raises:
        ObservationsError, StorageError: as of `create` or `open_to_write`.
    """
    if not path.exists():
        return
    if not append:
        raise _exists(path)
    with explained(path):
        _refuse_other_content(path)


def create(
    path: Path, *, pgdrag_version: str, began_unix_s: float
) -> tuple[sqlite3.Connection, Locked]:
    """Make a new file, for this user alone, and open it to write; it appears whole.

    Raises:
        ObservationsError: there is a file of this name, or it cannot be kept there.
        StorageError: it cannot be written.
    """
    with explained(path):
        _refuse_place(path)
        _refuse_neighbours(path, "-journal", "-wal", "-shm")
        fd, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        os.close(fd)
        try:
            with closing(_connection(Path(made))) as db:
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
                db.executescript(
                    f"BEGIN; {SCHEMA} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION};"
                    f" INSERT INTO file VALUES ('{pgdrag_version}', {began_unix_s!r}, NULL); COMMIT;"
                )
            # Unlike a rename, it replaces nothing.
            os.link(made, path)
        except FileExistsError:
            raise _exists(path) from None
        finally:
            Path(made).unlink()
    return open_to_write(path)


def _exists(path: Path) -> ObservationsError:
    return ObservationsError(
        "this file exists already",
        path=path,
        hint="Give --append to go on in it, or name another file with --out.",
    )


def open_to_write(path: Path) -> tuple[sqlite3.Connection, Locked]:
    """Open a file of observations to add to it.

    Raises:
        ObservationsError: it is none, is damaged or newer, or another process writes to it.
        StorageError: it cannot be read or written.
    """
    with explained(path):
        _refuse_other_content(path)
        _refuse_place(path)
        _refuse_neighbours(path, "-journal")
        lock = Locked(path)
        try:
            db = _connection(path)
            _refuse_other_schema(db, path)
            _refuse_other_values(db, path)
            _make_lasting(db)
        except BaseException:
            lock.release()
            raise
        if path.stat().st_uid == os.geteuid():
            path.chmod(0o600)
        return db, lock


class ReadFile:
    """A file of observations that is read, also while another process writes to it; `close` it."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            ObservationsError: it is none, or is damaged or newer.
            StorageError: it cannot be read.
        """
        with explained(path):
            _refuse_other_content(path)
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                # If nothing writes and no writer was killed, SQLite need not create its files beside it:
                # a reader could not remove them.
                is_alone = not path.with_name(f"{path.name}-wal").exists()
                is_fixed = _is_locked_for_readers(self._fd) and is_alone
                uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_fixed else ''}"
                self.db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_S)
                self.db.execute("PRAGMA trusted_schema = OFF")
                _refuse_other_schema(self.db, path)
                _refuse_other_values(self.db, path)
            except BaseException:
                os.close(self._fd)
                raise

    def close(self) -> None:
        """Let others write."""
        self.db.close()
        os.close(self._fd)


def _is_locked_for_readers(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S)


def _make_lasting(db: sqlite3.Connection) -> None:
    """A sample that was written is there after a power failure; who reads does not keep it from being written."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    db.execute("PRAGMA trusted_schema = OFF")


def _refuse_other_content(path: Path) -> None:
    """Look at the first bytes before SQLite does: it would take the word of a foreign file's header."""
    if not path.exists():
        raise ObservationsError("there is no such file", path=path)
    if not path.is_file():
        raise ObservationsError("this is not a file", path=path)
    with path.open("rb") as file:
        head = file.read(72)
    application = int.from_bytes(head[68:72], "big")
    if not head.startswith(_BEGINNING) or application != _APPLICATION:
        raise ObservationsError(
            "this is not a file of observations", path=path, hint='"pgdrag observe" writes them.'
        )


def _refuse_other_schema(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise ObservationsError(
            f"this file has version {version}, newer than {VERSION}",
            path=path,
            hint="Use the newer pgdrag that wrote it.",
        )
    if _schema_of(db) != _own_schema():
        raise ObservationsError(
            "this file does not have the tables of a file of observations",
            path=path,
            detail="Somebody else has changed it.",
        )


def _refuse_other_values(db: sqlite3.Connection, path: Path) -> None:
    """Refuse what no pgdrag has written: SQLite itself holds a row to no type, no other row and no range."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        columns = db.execute(f"PRAGMA table_info({table})").fetchall()
        wrong = [_is_wrong(name, type_, has_value) for _, name, type_, has_value, *_ in columns]
        wrong += [f"{x} NOT IN (SELECT id FROM {y})" for x, y in _NAMED_BY.get(table, {}).items()]
        wrong += _IMPOSSIBLE.get(table, ())
        if db.execute(
            f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {' OR '.join(wrong)})"
        ).fetchone()[0]:
            raise _damaged(path, f"Table {table} has values that pgdrag never writes.")
    if db.execute("SELECT count(*) FROM file").fetchone()[0] != 1:
        raise _damaged(path, "It does not say once when it was begun.")


def _damaged(path: Path, how: str) -> ObservationsError:
    hint = 'Use another copy of it, or record anew with "pgdrag observe".'
    return ObservationsError("the file is damaged", path=path, detail=how, hint=hint)


_NAMED_BY = {
    "value": {"quantity": "quantity"},
    "wait": {"wait_name": "wait_name"},
    "statement_use": {"statement": "statement"},
}
_IMPOSSIBLE = {
    "quantity": [f"unit NOT IN ({', '.join(map(repr, get_args(SeriesUnit)))})"],
    "sample": ["ended_unix_s <= began_unix_s", "observed_s < 1e-6", f"level NOT BETWEEN 0 AND {LEVELS - 1}"],
    "event": ["ended_unix_s < began_unix_s"],
}  # fmt: skip
_OF_ANY_SIGN = ("mean", "low", "high")
# Sums of what a server may show, however large and long, are numbers still.
_MOST = {"INTEGER": str(10**17), "REAL": "1e100"}


def _is_wrong(column: str, type_: str, has_value: int) -> str:
    """Return SQL that is true where a column has a value of another type than its own, or out of all proportion."""
    if type_ == "TEXT":
        wrong = f"typeof({column}) <> 'text'"
        return wrong if has_value else f"({column} IS NOT NULL AND {wrong})"
    most = str(LAST_UNIX_S) if column.endswith("_unix_s") else _MOST[type_]
    least = f"-{most}" if column in _OF_ANY_SIGN else "0"
    # Of a text this is true, and of NULL it is NULL.
    wrong = f"{column} NOT BETWEEN {least} AND {most}"
    if type_ == "INTEGER":
        return f"typeof({column}) <> 'integer' OR {wrong}"
    return f"({wrong}) IS NOT FALSE" if has_value else wrong


@cache
def _own_schema() -> set[tuple[str, str]]:
    with sqlite3.connect(":memory:") as db:
        db.executescript(SCHEMA)
        return _schema_of(db)


def _schema_of(db: sqlite3.Connection) -> set[tuple[str, str]]:
    # Nothing else in it, such as a trigger or a view, may run.
    rows = db.execute("SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_master")
    return {(what, sql) for what, sql in rows}


def _refuse_place(path: Path) -> None:
    directory = path.absolute().parent
    kind = network_file_system(directory)
    if kind is not None:
        raise ObservationsError(
            f"observations cannot be kept on a network file system ({kind})",
            path=path,
            hint="Name a file on a local file system with --out.",
        )
    if os.geteuid() == 0 and (who := who_may_swap(directory)):
        raise ObservationsError(
            "others could replace this file",
            path=path,
            detail=f"{capital(who)}.",
            hint="Name a file in a directory that is root's alone with --out, or run pgdrag as that user.",
        )


def _refuse_neighbours(path: Path, *endings: str) -> None:
    """Refuse what SQLite would take for its own: it could lead it to files elsewhere."""
    for ending in endings:
        each = path.with_name(f"{path.name}{ending}")
        with suppress(FileNotFoundError):
            found = each.lstat()
            raise ObservationsError(
                f'"{each.name}" is in the way',
                path=path,
                detail=None if stat.S_ISREG(found.st_mode) else "It is not a regular file.",
                hint="Delete it if it is of no use, or name another file with --out.",
            )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise an error of the file as one of pgdrag's, with what to do."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f'could not open "{path}": {(error.strerror or str(error)).lower()}',
            is_full=error.errno in (errno.ENOSPC, errno.EDQUOT),
            path=path,
        ) from error
    except (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError):
        raise  # a bug in pgdrag, not of the file
    except MemoryError as error:  # of SQLite: a damaged length is larger than any that it takes
        raise ObservationsError("the file is damaged, or larger than memory", path=path) from error
    except UnicodeDecodeError as error:
        raise ObservationsError(f"the file is damaged: {error}", path=path) from error
    except sqlite3.DatabaseError as error:
        text = str(error)
        if any(x in text for x in ("full", "readonly", "unable to open", "disk I/O")):
            raise StorageError(
                f'could not use "{path}": {text}', is_full="full" in text, path=path
            ) from error
        if "locked" in text or "busy" in text:
            raise ObservationsError("the file is locked by another process", path=path) from error
        raise ObservationsError(f"the file is damaged: {text}", path=path) from error
