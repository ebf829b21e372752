"""How is the journal kept in one SQLite file, whatever version of pgdrag wrote it?

The file opens in any SQLite tool; `SCHEMA` says what is in it. An error of the file is told as one
of pgdrag's, with what to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pgdrag.errors import JournalError, StorageError

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
)


class File:
    """An open journal file, at the newest version of its tables; what it raises, Journal raises."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._migrate()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def rows(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with self._explained():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what the block does as a whole; when it has ended, that is on disk."""
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > len(SCHEMA):
            raise JournalError(
                f"journal {self.path} has version {version}, newer than {len(SCHEMA)}",
                hint="Use the newer pgdrag that wrote it, or another PGDRAG_HOME.",
            )
        for number, script in enumerate(SCHEMA[version:], start=version + 1):
            self._db.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise  # a defect of pgdrag, not of the file
        except sqlite3.DatabaseError as error:
            raise _explanation(error, self.path) from error
        except OSError as error:
            raise StorageError(
                f"could not write {error.filename or self.path}: {error.strerror}",
                hint="Make room there, or name another directory in PGDRAG_HOME.",
            ) from error


def _explanation(error: sqlite3.DatabaseError, path: Path) -> JournalError | StorageError:
    text = str(error)
    if "full" in text or "readonly" in text or "unable to open" in text or "disk I/O" in text:
        return StorageError(
            f"could not write journal {path}: {text}",
            hint="Make room there, or name another directory in PGDRAG_HOME.",
        )
    if "locked" in text:
        return JournalError(
            f"journal {path} is locked by another process",
            hint="Wait until that pgdrag has ended.",
        )
    return JournalError(
        f"could not use journal {path}: {text}",
        hint="If the file is not a pgdrag journal, name another directory in PGDRAG_HOME.",
    )
