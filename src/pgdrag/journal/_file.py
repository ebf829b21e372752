"""How is the journal's file opened, brought up to date, and kept to one user of one machine?"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pgdrag.english import capital
from pgdrag.errors import JournalError, StorageError
from pgdrag.host.mounts import network_file_system
from pgdrag.host.process_alive import try_lock, wait_until
from pgdrag.host.trusted_path import who_may_swap

_LOCK_TIMEOUT_S = 10.0

# One entry a version of the file; `PRAGMA user_version` counts those that were carried out.
SCHEMA = (
    """
    CREATE TABLE run (
        run_id TEXT PRIMARY KEY,
        experiment TEXT NOT NULL,
        scale TEXT NOT NULL,
        status TEXT NOT NULL,            -- running, done, interrupted, failed
        study TEXT NOT NULL,             -- JSON
        host TEXT NOT NULL,              -- JSON
        server_wanted TEXT,              -- --postgres, or NULL for the embedded one
        server_version TEXT NOT NULL,
        pgdrag_version TEXT NOT NULL,
        seed INTEGER NOT NULL,
        started_unix_s REAL NOT NULL,
        finished_unix_s REAL,
        pid INTEGER                      -- of the pgdrag that runs it, or ran it last
    );
    CREATE TABLE trial (
        run_id TEXT NOT NULL REFERENCES run,
        number INTEGER NOT NULL,
        block INTEGER NOT NULL,
        replicate INTEGER NOT NULL,
        treatment TEXT NOT NULL,         -- its name
        trial TEXT NOT NULL,             -- JSON
        PRIMARY KEY (run_id, number)
    );
    CREATE TABLE attempt (
        run_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        started_unix_s REAL NOT NULL,
        finished_unix_s REAL,            -- NULL: pgdrag ended in the middle of it
        outcome TEXT,
        reason TEXT,
        committed INTEGER,
        elapsed_s REAL,
        result TEXT,                     -- JSON, without the samples and exhibits
        PRIMARY KEY (run_id, number, attempt),
        FOREIGN KEY (run_id, number) REFERENCES trial
    );
    CREATE TABLE sample (
        run_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        sample INTEGER NOT NULL,         -- from 1
        t_s REAL NOT NULL,               -- its end, from the window's start
        duration_s REAL NOT NULL,
        committed INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        p99_us REAL,
        PRIMARY KEY (run_id, number, attempt, sample),
        FOREIGN KEY (run_id, number, attempt) REFERENCES attempt
    );
    """,
    # A load has a pacing in the place of a rate, a sample the sessions that worked, and what the
    # driver tells of itself has other names. Until now a rate had BenchBase's meaning.
    """
    ALTER TABLE sample ADD COLUMN sessions INTEGER;
    UPDATE run SET study = json_set(study, '$.load.pacing', json_object(
            'kind', 'benchbase', 'rate_per_s', json_extract(study, '$.load.rate_per_s'), 'queue_limit', 10000))
     WHERE json_extract(study, '$.load.rate_per_s') IS NOT NULL;
    UPDATE trial SET trial = json_set(trial, '$.load.pacing', json_object(
            'kind', 'benchbase', 'rate_per_s', json_extract(trial, '$.load.rate_per_s'), 'queue_limit', 10000))
     WHERE json_extract(trial, '$.load.rate_per_s') IS NOT NULL;
    UPDATE attempt SET result = json_set(result, '$.trial.load.pacing', json_object(
            'kind', 'benchbase', 'rate_per_s', json_extract(result, '$.trial.load.rate_per_s'),
            'queue_limit', 10000))
     WHERE json_extract(result, '$.trial.load.rate_per_s') IS NOT NULL;
    UPDATE attempt SET result = json_set(result, '$.measurement.driver', json_object(
            'user_cpu_s', json_extract(result, '$.measurement.driver.user_cpu_s'),
            'system_cpu_s', json_extract(result, '$.measurement.driver.system_cpu_s'),
            'threads', json_extract(result, '$.measurement.driver.threads'),
            'stall_us_p99', json_extract(result, '$.measurement.driver.loop_lag_us_p99'),
            'stall_us_max', json_extract(result, '$.measurement.driver.loop_lag_us_max')))
     WHERE json_extract(result, '$.measurement.driver.loop_lag_us_p99') IS NOT NULL;
    """,
    # What collectors bring beside numbers.
    """
    CREATE TABLE exhibits (
        run_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        exhibits BLOB NOT NULL,          -- JSON, compressed with zlib
        PRIMARY KEY (run_id, number, attempt),
        FOREIGN KEY (run_id, number, attempt) REFERENCES attempt
    );
    """,
    # More of an interval's latency than its 99th percentile.
    """
    ALTER TABLE sample ADD COLUMN p50_us REAL;
    ALTER TABLE sample ADD COLUMN p95_us REAL;
    """,
    # A fleet's hosts, and trials that are begun before the design has asked for them.
    """
    ALTER TABLE trial ADD COLUMN is_ahead INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE attempt ADD COLUMN host TEXT NOT NULL DEFAULT '';
    """,
)


def opened(path: Path) -> sqlite3.Connection:
    """Open the file, which is made when it is missing, with today's schema.

    Raises:
        JournalError: the file is not a journal, or was written by a newer pgdrag.
        StorageError: it cannot be written.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _refuse_network(path.parent)
        _refuse_foreign(path.parent)
        # SQLite does not wait where two processes make the same file, or change its schema.
        with _directory_locked(path.parent):
            _make_private(path)
            db = sqlite3.connect(path, isolation_level=None, timeout=_LOCK_TIMEOUT_S)
            version = _version(db, path)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            # KiB. Most rows are read once: with the usual 2 MB each open page of a run would keep the run's trials.
            db.execute("PRAGMA cache_size = -256")
            for number, script in enumerate(SCHEMA[version:], start=version + 1):
                db.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")
            return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Return the version of the file, and change nothing in another program's."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(SCHEMA):
        raise JournalError(
            f"journal {path} has version {version}, newer than {len(SCHEMA)}",
            hint="Use the newer pgdrag that wrote it, or another PGDRAG_HOME.",
        )
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    if not tables >= {"run", "trial", "attempt", "sample"} if version else tables:
        raise JournalError(
            f"could not use journal {path}: it is a database of another program",
            hint="Name another directory in PGDRAG_HOME.",
        )
    return int(version)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise an error of the file as one of pgdrag's, with what to do."""
    other = "name another directory in PGDRAG_HOME."
    try:
        yield
    except sqlite3.IntegrityError:
        raise  # a bug in pgdrag, not of the file
    except OSError as error:
        where, reason = error.filename or path, (error.strerror or str(error)).lower()
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "it is not a directory"
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StorageError(
            f'could not make the journal\'s directory "{where}": {reason}',
            hint=f"Make room there, or {other}" if is_full else capital(other),
        ) from error
    except sqlite3.DatabaseError as error:
        text = str(error)
        if any(x in text for x in ("full", "readonly", "unable to open", "disk I/O")):
            is_full = "full" in text
            raise StorageError(
                f"could not write journal {path}: {text}",
                hint=f"Make room there, or {other}" if is_full else capital(other),
            ) from error
        if "locked" in text:
            raise JournalError(
                f"journal {path} is locked by another process",
                hint="Wait until that pgdrag has ended.",
            ) from error
        raise unusable(path, text) from error
    except MemoryError as error:  # of SQLite: a damaged length is larger than any that it takes
        raise unusable(path, "it is damaged, or larger than memory") from error
    except UnicodeDecodeError as error:  # of a name in it, as SQLite gives it to Python
        raise unusable(path, str(error)) from error


def unusable(path: Path, why: str) -> JournalError:
    """Return that a file cannot be used, and what to do."""
    return JournalError(
        f"could not use journal {path}: {why}",
        hint="If the file is not a pgdrag journal, name another directory in PGDRAG_HOME.",
    )


def _refuse_network(directory: Path) -> None:
    """Refuse to keep a journal where several machines may write to it.

    Raises:
        JournalError: the directory is on a network file system.
    """
    kind = network_file_system(directory)
    if kind is not None:
        raise JournalError(
            f'cannot keep the journal in "{directory}", which is on a network file system ({kind})',
            detail="Two machines that write to one SQLite file damage it.",
            hint="Set PGDRAG_HOME to a directory of a local file system.",
        )


def _refuse_foreign(directory: Path) -> None:
    """Refuse to let root work where another user could put links in the place of files.

    Raises:
        JournalError: the directory, or one above it, belongs to another user.
    """
    if os.geteuid() == 0 and (who := who_may_swap(directory)):
        raise JournalError(
            f'others could replace the journal in "{directory}"',
            detail=f"{capital(who)}.",
            hint="Set PGDRAG_HOME to a directory that is root's alone, or run pgdrag as that user.",
        )


@contextmanager
def _directory_locked(directory: Path) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not wait_until(lambda: try_lock(fd), _LOCK_TIMEOUT_S):
            raise sqlite3.OperationalError("its directory is locked")
        yield
    finally:
        os.close(fd)


def _make_private(path: Path) -> None:
    """Make the file, or keep others from reading it; SQLite gives its other files the same mode.

    Raises:
        JournalError: what has one of their names could lead SQLite to files elsewhere.
    """
    with suppress(FileExistsError):
        # Only when it is new: to close it would end the locks of another journal in this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for part in ("", "-wal", "-shm", "-journal"):
        each = path.with_name(f"{path.name}{part}")
        try:
            found = each.lstat()
        except FileNotFoundError:
            continue
        # With a WAL there is no rollback journal; SQLite deletes any file of that name.
        if not stat.S_ISREG(found.st_mode) or part == "-journal":
            raise JournalError(
                f'cannot use journal {path}: "{each.name}" is not one of pgdrag\'s files',
                detail="It could lead SQLite to change or delete a file elsewhere.",
                hint="Name another directory in PGDRAG_HOME, or delete it if it is of no use.",
            )
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            with suppress(OSError):
                each.chmod(0o600)
