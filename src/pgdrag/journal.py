"""What was run, and what came of it? Every run, trial, attempt and sample, durably, in one SQLite file.

The road's only memory: a trial's result is on disk before the next trial begins, so that a run can
go on where it stopped. The file opens in any SQLite tool; `SCHEMA` says what is in it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import TypeAdapter, ValidationError

from pgdrag.errors import JournalError, StorageError
from pgdrag.exclusive import measuring_pid
from pgdrag.measurement import Sample
from pgdrag.plan import Host, Outcome, Result, RunRecord, Study, Trial

RunStatus = Literal["running", "done", "interrupted", "failed"]

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
        result TEXT,                     -- JSON, without the samples
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
)

_study = TypeAdapter(Study)
_host = TypeAdapter(Host)
_trial = TypeAdapter(Trial)
_result = TypeAdapter(Result)


def home_directory() -> Path:
    """Return where the journal and the reports are: $PGDRAG_HOME, or the user's data directory."""
    chosen = os.environ.get("PGDRAG_HOME")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("pgdrag"))


@dataclass(frozen=True)
class RunSummary:
    """One line of `pgdrag runs`."""

    run_id: str
    experiment: str
    scale: str
    status: RunStatus
    server_version: str
    started_unix_s: float
    finished_unix_s: float | None
    trials: int
    finished_trials: int


class Journal:
    """The journal in one file.

    Args:
        path: the SQLite file; it and its directory are made when they are missing.

    Raises:
        JournalError: the file is not a journal, or was written by a newer pgdrag.
        StorageError: it cannot be written.
    """

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

    def begin_run(
        self,
        study: Study,
        host: Host,
        *,
        server_wanted: str | None,
        server_version: str,
        pgdrag_version: str,
        seed: int,
    ) -> str:
        """Record a new run and return its id, such as "slow-42k-20261121-1103"."""
        now = time.time()
        stem = f"{study.name}-{time.strftime('%Y%m%d-%H%M', time.localtime(now))}"
        with self._transaction():
            taken = {row[0] for row in self._db.execute("SELECT run_id FROM run")}
            run_id = next(x for x in _candidates(stem) if x not in taken)
            self._db.execute(
                "INSERT INTO run VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
                (
                    run_id,
                    study.name,
                    study.scale,
                    _study.dump_json(study).decode(),
                    _host.dump_json(host).decode(),
                    server_wanted,
                    server_version,
                    pgdrag_version,
                    seed,
                    now,
                    os.getpid(),
                ),
            )
        return run_id

    def set_status(self, run_id: str, status: RunStatus) -> None:
        """Record how a run stands; anything but "running" is its end for now."""
        finished = None if status == "running" else time.time()
        with self._transaction():
            self._db.execute(
                "UPDATE run SET status = ?, finished_unix_s = ?, pid = ? WHERE run_id = ?",
                (status, finished, os.getpid(), run_id),
            )

    def plan_trials(self, run_id: str, trials: Sequence[Trial]) -> None:
        """Record the trials of a block before the first of them begins; known ones stay as they are."""
        with self._transaction():
            for trial in trials:
                text = _trial.dump_json(trial).decode()
                self._db.execute(
                    "INSERT OR IGNORE INTO trial VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        run_id,
                        trial.number,
                        trial.block,
                        trial.replicate,
                        trial.treatment.name,
                        text,
                    ),
                )
                (kept,) = self._db.execute(
                    "SELECT trial FROM trial WHERE run_id = ? AND number = ?",
                    (run_id, trial.number),
                ).fetchone()
                # As values: an older pgdrag may have written it with other keys.
                is_same = _trial.validate_json(kept) == _trial.validate_json(text)
                assert is_same, f"trial {trial.number} of {run_id} is not the one planned"

    def begin_attempt(self, run_id: str, number: int) -> int:
        """Record that a trial begins and return which attempt at it this is, from 1."""
        with self._transaction():
            (attempt,) = self._db.execute(
                "SELECT count(*) + 1 FROM attempt WHERE run_id = ? AND number = ?",
                (run_id, number),
            ).fetchone()
            self._db.execute(
                "INSERT INTO attempt (run_id, number, attempt, started_unix_s) VALUES (?, ?, ?, ?)",
                (run_id, number, attempt, time.time()),
            )
        return int(attempt)

    def end_attempt(self, run_id: str, attempt: int, result: Result) -> None:
        """Record what came of an attempt; when this returns it is on disk."""
        measurement = result.measurement
        samples = measurement.samples if measurement else ()
        bare = (
            replace(result, measurement=replace(measurement, samples=())) if measurement else result
        )
        key = (run_id, result.trial.number, attempt)
        with self._transaction():
            self._db.execute(
                "UPDATE attempt SET finished_unix_s = ?, outcome = ?, reason = ?, committed = ?, "
                "elapsed_s = ?, result = ? WHERE run_id = ? AND number = ? AND attempt = ?",
                (
                    time.time(),
                    str(result.outcome),
                    result.reason,
                    measurement.total.committed if measurement else None,
                    measurement.elapsed_s if measurement else None,
                    _result.dump_json(bare).decode(),
                    *key,
                ),
            )
            self._db.executemany(
                "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (*key, number, s.t_s, s.duration_s, s.committed, s.failed, s.p99_us, s.sessions)
                    for number, s in enumerate(samples, start=1)
                ],
            )

    def results(self, run_id: str) -> dict[int, Result]:
        """Return the newest finished result of each trial, by its number."""
        rows = self._rows(
            "SELECT number, attempt, result FROM attempt "
            "WHERE run_id = ? AND result IS NOT NULL ORDER BY number, attempt",
            (run_id,),
        )
        newest = {number: (attempt, text) for number, attempt, text in rows}
        return {
            number: self._with_samples(run_id, number, attempt, _result.validate_json(text))
            for number, (attempt, text) in newest.items()
        }

    def valid_results(self, run_id: str) -> dict[int, Result]:
        """Return the results that a resumed run keeps: invalid trials are run again."""
        return {
            number: result
            for number, result in self.results(run_id).items()
            if result.outcome is not Outcome.INVALID
        }

    def run(self, run_id: str) -> RunRecord:
        """Return a run with all its results.

        Raises:
            JournalError: there is no such run, or it cannot be read.
        """
        rows = self._rows(
            "SELECT study, host, server_version, pgdrag_version, seed, started_unix_s, "
            "finished_unix_s, status, pid FROM run WHERE run_id = ?",
            (run_id,),
        )
        if not rows:
            raise JournalError(
                f'run "{run_id}" does not exist in {self.path}',
                hint='Run "pgdrag runs" to see them.',
            )
        row = rows[0]
        planned = self._rows("SELECT count(*) FROM trial WHERE run_id = ?", (run_id,))[0][0]
        try:
            study, host = _study.validate_json(row[0]), _host.validate_json(row[1])
            results = self.results(run_id)
        except ValidationError as error:
            raise JournalError(
                f'could not read run "{run_id}" from {self.path}',
                detail=str(error).splitlines()[0] + ".",
                hint="It was perhaps written by another version of pgdrag.",
            ) from None
        return RunRecord(
            run_id=run_id,
            study=study,
            host=host,
            server_version=row[2],
            pgdrag_version=row[3],
            seed=row[4],
            started_unix_s=row[5],
            finished_unix_s=row[6],
            status=_true_status(row[7], row[8]),
            results=tuple(results[number] for number in sorted(results)),
            planned_trials=planned,
        )

    def server_wanted(self, run_id: str) -> str | None:
        """Return the `--postgres` that a run was started with."""
        ((wanted,),) = self._rows("SELECT server_wanted FROM run WHERE run_id = ?", (run_id,))
        return None if wanted is None else str(wanted)

    def attempts(self, run_id: str) -> list[tuple[int, int, str | None]]:
        """Return (trial, attempt, outcome) of every attempt; outcome None: it was cut off."""
        return self._rows(
            "SELECT number, attempt, outcome FROM attempt WHERE run_id = ? ORDER BY 1, 2", (run_id,)
        )

    def summaries(self) -> list[RunSummary]:
        """Return all runs, newest first."""
        rows = self._rows(
            """
            SELECT run_id, experiment, scale, status, pid, server_version, started_unix_s,
                   finished_unix_s,
                   (SELECT count(*) FROM trial WHERE trial.run_id = run.run_id),
                   (SELECT count(DISTINCT number) FROM attempt
                     WHERE attempt.run_id = run.run_id AND result IS NOT NULL)
            FROM run ORDER BY started_unix_s DESC, run_id DESC
            """
        )
        return [
            RunSummary(run_id, experiment, scale, _true_status(status, pid), *others)
            for run_id, experiment, scale, status, pid, *others in rows
        ]

    def find(self, text: str) -> str:
        """Return the id of the run that `text` names: an id, its unambiguous start, or "last".

        Raises:
            JournalError: no run, or several, are meant.
        """
        ids = [summary.run_id for summary in self.summaries()]
        if text == "last" and ids:
            return ids[0]
        found = [x for x in ids if x == text] or [x for x in ids if x.startswith(text)]
        if len(found) == 1:
            return found[0]
        if not found:
            known = ", ".join(ids[:5]) or "none yet"
            raise JournalError(
                f'run "{text}" does not exist in {self.path}',
                detail=f"The newest runs are: {known}.",
                hint='Run "pgdrag runs" to see them all; "last" names the newest.',
            )
        raise JournalError(
            f'"{text}" names {len(found)} runs', detail=f"They are {', '.join(found[:5])}."
        )

    def _with_samples(self, run_id: str, number: int, attempt: int, result: Result) -> Result:
        if result.measurement is None:
            return result
        rows = self._rows(
            "SELECT t_s, duration_s, committed, failed, p99_us, sessions FROM sample "
            "WHERE run_id = ? AND number = ? AND attempt = ? ORDER BY sample",
            (run_id, number, attempt),
        )
        samples = tuple(Sample(*row) for row in rows)
        return replace(result, measurement=replace(result.measurement, samples=samples))

    def _rows(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with self._explained():
            return self._db.execute(sql, values).fetchall()

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
    def _transaction(self) -> Iterator[None]:
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

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


def _true_status(status: RunStatus, pid: int | None) -> RunStatus:
    """A run whose process was killed still stands as running."""
    return "interrupted" if status == "running" and pid != measuring_pid() else status


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


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
