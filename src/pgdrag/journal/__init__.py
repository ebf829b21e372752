"""What was run, and what came of it? Every run, trial, attempt and sample, durably, in one SQLite file.

The road's only memory: a trial's result is on disk before the next trial begins, so that a run can
go on where it stopped. The file opens in any SQLite tool; `_file.SCHEMA` says what is in it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeVar

import platformdirs
from pydantic import ValidationError

from pgdrag.adapters import adapter_of
from pgdrag.errors import JournalError
from pgdrag.host.machine_lock import measuring_pid
from pgdrag.journal._file import explained, opened
from pgdrag.journal._older import of_today
from pgdrag.model import (
    Host,
    Outcome,
    Result,
    RunRecord,
    Study,
    Trial,
    UnderWay,
    WorkloadSpec,
)
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings

RunStatus = Literal["running", "done", "interrupted", "failed"]
_T = TypeVar("_T")

_SAMPLE = ", ".join(one.name for one in fields(Sample))  # its columns have its fields' names
_values_of = attrgetter(*(one.name for one in fields(Sample)))

# An id names the file of a report; pgdrag gives no others.
_RUN_ID = re.compile(r"\w[\w.-]*")

_LIKE = str.maketrans({x: f"\\{x}" for x in "\\%_"})

# Of one trial: a profile of hours has some MB.
LARGEST_RECORDINGS_BYTES = 256 * 2**20
# How many runs, and results of them, show how long trials take.
_EXPERIENCE_RUNS, _EXPERIENCE_RESULTS = 6, 24


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


@dataclass(frozen=True)
class TrialLine:
    """A planned trial, and what came of it so far: "" as its outcome where it has not ended."""

    number: int
    treatment: str
    outcome: str
    reason: str
    committed: int | None
    elapsed_s: float | None


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
        self._db = opened(path)

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
        with self._transaction() as db:
            taken = {row[0] for row in db.execute("SELECT run_id FROM run")}
            others = (f"{stem}-{number}" for number in count(2))
            run_id = stem if stem not in taken else next(x for x in others if x not in taken)
            db.execute(
                "INSERT INTO run VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
                (
                    run_id,
                    study.name,
                    study.scale,
                    _written(Study, study),
                    _written(Host, host),
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
        with self._transaction() as db:
            db.execute(
                "UPDATE run SET status = ?, finished_unix_s = ?, pid = ? WHERE run_id = ?",
                (status, finished, os.getpid(), run_id),
            )

    def remove_run(self, run_id: str) -> int:
        """Remove a run with all that is known of it, and return how many trials it had finished.

        Raises:
            JournalError: it is in progress.
        """
        with self._transaction() as db:
            row = db.execute("SELECT status, pid FROM run WHERE run_id = ?", (run_id,)).fetchone()
            if row is not None and _true_status(*row) == "running":
                raise JournalError(
                    f'run "{run_id}" is in progress (process {row[1]})',
                    hint="Wait until it ends, or interrupt it with Ctrl-C.",
                )
            (trials,) = db.execute(
                "SELECT count(DISTINCT number) FROM attempt WHERE run_id = ? AND result IS NOT NULL",
                (run_id,),
            ).fetchone()
            for table in ("exhibits", "sample", "attempt", "trial", "run"):
                db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
        return int(trials)

    def compact(self) -> int:
        """Give the file system back what removed runs took, and return how many bytes that was.

        It writes the whole journal anew, and needs as much room meanwhile.
        """
        before = self._bytes()
        with explained(self.path):
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return max(before - self._bytes(), 0)

    def _bytes(self) -> int:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(one.stat().st_size for one in files if one.exists())

    def set_budget(self, run_id: str, budget_s: float | None) -> None:
        """Give a run another budget of time; what was run counts towards it."""
        study = replace(self.run(run_id).study, budget_s=budget_s)
        with self._transaction() as db:
            db.execute(
                "UPDATE run SET study = ? WHERE run_id = ?", (_written(Study, study), run_id)
            )

    def plan_trials(self, run_id: str, trials: Sequence[Trial], *, is_ahead: bool = False) -> bool:
        """Record the trials of a block before the first of them begins; known ones stay as they are.

        Args:
            is_ahead: the design has not asked for them yet: they are no part of the run until they are planned
                again without this.

        Returns:
            True; False where they are planned ahead, and the design has asked for others, which stay.
        """
        with self._transaction() as db:
            for trial in trials:
                text = _written(Trial, trial)
                place = (trial.number, trial.block, trial.replicate, trial.treatment.name)
                row = db.execute(
                    "SELECT trial, is_ahead FROM trial WHERE run_id = ? AND number = ?",
                    (run_id, trial.number),
                ).fetchone()
                # As values: an older pgdrag may have written it with other keys.
                if row is not None and _read(Trial, row[0]) == _read(Trial, text):
                    if row[1] and not is_ahead:
                        db.execute(
                            "UPDATE trial SET is_ahead = 0 WHERE run_id = ? AND number = ?",
                            (run_id, trial.number),
                        )
                    continue
                if row is not None and row[1]:
                    _forget(db, run_id, [trial.number])
                elif row is not None and is_ahead:
                    return False
                elif row is not None:
                    raise JournalError(
                        f"run {run_id} cannot be resumed: this version of pgdrag plans trial {trial.number} "
                        "differently",
                        hint=f'Its report remains: "pgdrag show {run_id}". Begin a new run to have it complete.',
                    )
                db.execute(
                    "INSERT INTO trial VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (run_id, *place, text, is_ahead),
                )
        return True

    def forget_ahead(self, run_id: str) -> None:
        """Remove the trials that were planned ahead, with what came of them: the design does not ask for them."""
        ahead = self._rows("SELECT number FROM trial WHERE run_id = ? AND is_ahead", (run_id,))
        if ahead:
            with self._transaction() as db:
                _forget(db, run_id, [number for (number,) in ahead])

    def begin_attempt(self, run_id: str, number: int, host: str = "") -> int:
        """Record that a trial begins, on a host of a fleet, and return which attempt at it this is, from 1."""
        with self._transaction() as db:
            (attempt,) = db.execute(
                "SELECT count(*) + 1 FROM attempt WHERE run_id = ? AND number = ?",
                (run_id, number),
            ).fetchone()
            db.execute(
                "INSERT INTO attempt (run_id, number, attempt, started_unix_s, host) VALUES (?, ?, ?, ?, ?)",
                (run_id, number, attempt, time.time(), host),
            )
        return int(attempt)

    def void_results(self, run_id: str, numbers: Iterable[int], reason: str) -> None:
        """Make results invalid that were valid, so that their trials are run again."""
        with self._transaction() as db:
            db.executemany(
                "UPDATE attempt SET outcome = 'invalid', reason = ?, "
                "result = json_set(result, '$.outcome', 'invalid', '$.reason', ?) "
                "WHERE run_id = ? AND number = ? AND result IS NOT NULL",
                [(reason, reason, run_id, number) for number in numbers],
            )

    def end_attempt(self, run_id: str, attempt: int, result: Result) -> bool:
        """Record what came of an attempt, and return whether it counts; when this returns it is on disk.

        It counts once, and only for the newest attempt at a trial: an attempt's number fences off what comes late
        of those before it.
        """
        measurement = result.measurement
        bare = replace(
            result,
            measurement=replace(measurement, samples=()) if measurement else None,
            recordings=Recordings(),
        )
        key = (run_id, result.trial.number, attempt)
        samples = enumerate(measurement.samples if measurement else (), start=1)
        with self._transaction() as db:
            ended = db.execute(
                "UPDATE attempt SET finished_unix_s = ?, outcome = ?, reason = ?, committed = ?, "
                "elapsed_s = ?, result = ? WHERE run_id = ? AND number = ? AND attempt = ? "
                "AND result IS NULL AND NOT EXISTS (SELECT 1 FROM attempt AS later "
                "WHERE later.run_id = attempt.run_id AND later.number = attempt.number "
                "AND later.attempt > attempt.attempt)",
                (
                    time.time(),
                    str(result.outcome),
                    result.reason,
                    measurement.total.committed if measurement else None,
                    measurement.elapsed_s if measurement else None,
                    _written(Result, bare),
                    *key,
                ),
            )
            if not ended.rowcount:
                return False
            db.executemany(
                f"INSERT INTO sample (run_id, number, attempt, sample, {_SAMPLE}) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*key, number, *_values_of(sample)) for number, sample in samples],
            )
            if result.recordings:
                packed = zlib.compress(_written(Recordings, result.recordings).encode())
                db.execute("INSERT INTO exhibits VALUES (?, ?, ?, ?)", (*key, packed))
        return True

    def results(
        self, run_id: str, *, has_recordings: bool = True, has_ahead: bool = False
    ) -> dict[int, Result]:
        """Return the newest finished result of each trial, by its number.

        Args:
            has_recordings: read what collectors recorded beside numbers, too, which may be large.
            has_ahead: also those of trials that the design has not asked for yet.
        """
        rows = self._rows(
            "SELECT number, attempt, result FROM attempt JOIN trial USING (run_id, number) "
            "WHERE run_id = ? AND result IS NOT NULL AND is_ahead <= ? ORDER BY number, attempt",
            (run_id, has_ahead),
        )
        newest = {number: (attempt, text) for number, attempt, text in rows}
        found = {}
        for number, (attempt, text) in newest.items():
            result = _read(Result, text)
            of_attempt = "WHERE run_id = ? AND number = ? AND attempt = ?"
            key = (run_id, number, attempt)
            exhibits = f"SELECT exhibits FROM exhibits {of_attempt}"
            for (packed,) in self._rows(exhibits, key) if has_recordings else ():
                recordings = _read(Recordings, _unpacked(packed))
                result = replace(result, recordings=recordings)
            if result.measurement is not None:
                rows = self._rows(f"SELECT {_SAMPLE} FROM sample {of_attempt} ORDER BY sample", key)
                samples = tuple(Sample(*row) for row in rows)
                result = replace(result, measurement=replace(result.measurement, samples=samples))
            found[number] = result
        return found

    def newest_results(self, workload: WorkloadSpec, host: Host) -> list[Result]:
        """Return measured results of this machine, the newest first, to learn from how long trials take.

        Of the newest runs of the same workload where there are any, else of the same kind, else of others;
        without recordings and samples.
        """
        wanted = json.loads(_written(WorkloadSpec, workload))
        rows = self._rows(
            """
            SELECT result FROM attempt WHERE outcome = 'measured' AND run_id IN (
                SELECT run_id FROM run WHERE host = ?
                 ORDER BY json_extract(study, '$.workload.parameters') = ? DESC,
                          json_extract(study, '$.workload.kind') = ? DESC, started_unix_s DESC
                 LIMIT ?)
             ORDER BY started_unix_s DESC LIMIT ?
            """,
            (
                _written(Host, host),
                json.dumps(wanted["parameters"], separators=(",", ":"), ensure_ascii=False),
                wanted["kind"],
                _EXPERIENCE_RUNS,
                _EXPERIENCE_RESULTS,
            ),
        )
        found = []
        for (text,) in rows:
            with suppress(ValidationError):  # perhaps of another version: nothing depends on it
                found.append(_read(Result, text))
        return found

    def valid_results(self, run_id: str) -> dict[int, Result]:
        """Return the results that a resumed run keeps: invalid trials are run again."""
        results = self.results(run_id, has_ahead=True).items()
        return {number: x for number, x in results if x.outcome is not Outcome.INVALID}

    def run(self, run_id: str, *, has_recordings: bool = True) -> RunRecord:
        """Return a run with all its results.

        Args:
            has_recordings: see `results`.

        Raises:
            JournalError: there is no such run, or it cannot be read.
        """
        rows = self._rows(
            "SELECT study, host, server_version, pgdrag_version, seed, started_unix_s, "
            "finished_unix_s, status, pid, "
            "(SELECT count(*) FROM trial WHERE trial.run_id = run.run_id AND NOT is_ahead) "
            "FROM run WHERE run_id = ?",
            (run_id,),
        )
        if not rows:
            raise self._missing(run_id)
        ((study, host, version, pgdrag_version, seed, started, finished, status, pid, planned),) = (
            rows
        )
        status = _true_status(status, pid)
        try:
            return RunRecord(
                run_id=run_id,
                study=_read(Study, study),
                host=_read(Host, host),
                server_version=version,
                pgdrag_version=pgdrag_version,
                seed=seed,
                started_unix_s=started,
                finished_unix_s=finished,
                status=status,
                results=tuple(self.results(run_id, has_recordings=has_recordings).values()),
                planned_trials=planned,
                under_way=self._under_way(run_id) if status == "running" else None,
            )
        except ValidationError as error:
            raise JournalError(
                f'could not read run "{run_id}" from {self.path}',
                detail=str(error).splitlines()[0] + ".",
                hint="Another version of pgdrag may have written it.",
            ) from None

    def _under_way(self, run_id: str) -> UnderWay | None:
        # What an earlier process was killed in has no end either.
        rows = self._rows(
            "SELECT number, treatment, attempt.finished_unix_s, attempt.started_unix_s "
            "FROM attempt JOIN trial USING (run_id, number) "
            "WHERE run_id = ? ORDER BY attempt.started_unix_s DESC LIMIT 1",
            (run_id,),
        )
        for number, treatment, finished, started in rows:
            if finished is None:
                return UnderWay(number, treatment, started)
        return None

    def server_wanted(self, run_id: str) -> str | None:
        """Return the `--postgres` that a run was started with."""
        ((wanted,),) = self._rows("SELECT server_wanted FROM run WHERE run_id = ?", (run_id,))
        return None if wanted is None else str(wanted)

    def noted_processes(self) -> dict[str, int]:
        """Return the process of each run that has not noted its end; one that was killed notes none."""
        sql = "SELECT run_id, pid FROM run WHERE status = 'running' AND pid IS NOT NULL"
        return dict(self._rows(sql))

    def process_of(self, run_id: str) -> int | None:
        """Return the process that runs a run now; None: none does."""
        pid = self.noted_processes().get(run_id)
        return pid if pid is not None and pid == measuring_pid() else None

    def state_of(self, run_id: str) -> tuple[object, ...]:
        """Return what changes when anything of a run does: its status, when it ended, and its attempts' number and last end."""
        (found,) = self._rows(
            "SELECT status, run.finished_unix_s, count(attempt), max(attempt.finished_unix_s) "
            "FROM run LEFT JOIN attempt USING (run_id) WHERE run_id = ?",
            (run_id,),
        )
        return found

    def title(self, run_id: str) -> str:
        """Return what a run asks, in a few words.

        Raises:
            JournalError: there is no such run.
        """
        rows = self._rows(
            "SELECT json_extract(study, '$.title'), run_id FROM run WHERE run_id = ?", (run_id,)
        )
        for title, name in rows:
            return str(title or name)
        raise self._missing(run_id)

    def trial_lines(self, run_id: str) -> list[TrialLine]:
        """Return the trials of a run that are planned, in their order, without reading their results."""
        rows = self._rows(
            """
            SELECT number, treatment, coalesce(outcome, ''), coalesce(reason, ''), committed, elapsed_s, max(attempt)
              FROM trial LEFT JOIN attempt USING (run_id, number)
             WHERE run_id = ? AND NOT is_ahead GROUP BY number ORDER BY number
            """,
            (run_id,),
        )
        return [TrialLine(*row) for *row, _ in rows]

    def summaries(
        self, matching: str = "", *, most: int = -1, skipped: int = 0
    ) -> list[RunSummary]:
        """Return runs, newest first.

        Args:
            matching: only those with each of these words in their name, scale, server's version or study.
            most: so many; -1: all of them.
            skipped: so many of the newest are left out.
        """
        words = [f"%{x.translate(_LIKE)}%" for x in matching.split()]
        searched = "run_id || ' ' || scale || ' ' || server_version || ' ' || study"
        wanted = " AND ".join([rf"{searched} LIKE ? ESCAPE '\'"] * len(words)) or "true"
        # Chosen before anything is counted.
        rows = self._rows(
            f"""
            SELECT run_id, experiment, scale, status, pid, server_version, started_unix_s,
                   finished_unix_s,
                   (SELECT count(*) FROM trial WHERE trial.run_id = run.run_id AND NOT is_ahead),
                   (SELECT count(DISTINCT number) FROM attempt JOIN trial USING (run_id, number)
                     WHERE attempt.run_id = run.run_id AND result IS NOT NULL AND NOT is_ahead)
            FROM run WHERE rowid IN (
                SELECT rowid FROM run WHERE {wanted}
                 ORDER BY started_unix_s DESC, run_id DESC LIMIT ? OFFSET ?)
            ORDER BY started_unix_s DESC, run_id DESC
            """,
            (*words, most, skipped),
        )
        return [
            RunSummary(run_id, experiment, scale, _true_status(status, pid), *others)
            for run_id, experiment, scale, status, pid, *others in rows
            if _RUN_ID.fullmatch(run_id)
        ]

    def runs_naming(self, names: Iterable[str]) -> list[str]:
        """Return the ids of runs that are over whose study has a factor of one of these names, newest first."""
        wanted = [f'"{name}"' for name in names]
        rows = self._rows(
            "SELECT run_id, study FROM run WHERE status <> 'running' ORDER BY started_unix_s DESC"
        )
        return [
            run_id
            for run_id, study in rows
            if _RUN_ID.fullmatch(run_id) and any(name in study for name in wanted)
        ]

    def runs_of(self, experiment: str) -> Iterator[RunRecord]:
        """Return the runs of an experiment, newest first."""
        return (self.run(x.run_id) for x in self.summaries() if x.experiment == experiment)

    def runs_of_same(self, design: str, host: Host, *, most: int) -> Iterator[RunRecord]:
        """Return the newest runs of a machine that compared a treatment with itself, newest first.

        Only those that are done, by a design, and without recordings; at most so many.
        """
        rows = self._rows(
            """
            SELECT run_id FROM run
             WHERE status = 'done' AND host = ? AND json_extract(study, '$.design') = ?
               AND json_extract(study, '$.rungs[0].treatment.levels')
                   = json_extract(study, '$.rungs[1].treatment.levels')
             ORDER BY started_unix_s DESC LIMIT ?
            """,
            (_written(Host, host), design, most),
        )
        return (self.run(run_id, has_recordings=False) for (run_id,) in rows)

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
            f'"{text}" names {len(found)} runs',
            detail=f"They are {', '.join(found[:5])}.",
            hint="Give a longer prefix.",
        )

    def _missing(self, run_id: str) -> JournalError:
        return JournalError(
            f'run "{run_id}" does not exist in {self.path}',
            hint='Run "pgdrag runs" to see them.',
        )

    def _rows(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with explained(self.path):
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what the block does as a whole; when it has ended, that is on disk."""
        with explained(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _forget(db: sqlite3.Connection, run_id: str, numbers: Sequence[int]) -> None:
    for table in ("exhibits", "sample", "attempt", "trial"):
        db.executemany(
            f"DELETE FROM {table} WHERE run_id = ? AND number = ?",
            [(run_id, number) for number in numbers],
        )


def _written(kind: type[Any], value: object) -> str:
    return adapter_of(kind).dump_json(value).decode()


def _read(kind: type[_T], text: str | bytes) -> _T:
    return of_today(adapter_of(kind).validate_json(text))


def _unpacked(packed: bytes) -> bytes:
    """Return what was packed: a stranger's journal may come to more than there is memory."""
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


def _true_status(status: RunStatus, pid: int | None) -> RunStatus:
    """A run whose process was killed still stands as running."""
    return "interrupted" if status == "running" and pid != measuring_pid() else status
