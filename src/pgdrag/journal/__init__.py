"""What was run, and what came of it? Every run, trial, attempt and sample, durably, in one SQLite file.

The road's only memory: a trial's result is on disk before the next trial begins, so that a run can
go on where it stopped. How it is kept in a file, and which tables that has, is in `_file`.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import platformdirs
from pydantic import TypeAdapter, ValidationError

from pgdrag.errors import JournalError
from pgdrag.host.machine_lock import measuring_pid
from pgdrag.journal._file import File
from pgdrag.model import Host, Outcome, Result, RunRecord, Study, Trial
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings

RunStatus = Literal["running", "done", "interrupted", "failed"]
_T = TypeVar("_T")

_SAMPLE = ", ".join(one.name for one in fields(Sample))  # its columns have its fields' names


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
        self._file = File(path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

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
        with self._file.transaction() as db:
            taken = {row[0] for row in db.execute("SELECT run_id FROM run")}
            run_id = next(x for x in _candidates(stem) if x not in taken)
            db.execute(
                "INSERT INTO run VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
                (
                    run_id,
                    study.name,
                    study.scale,
                    _adapter(Study).dump_json(study).decode(),
                    _adapter(Host).dump_json(host).decode(),
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
        with self._file.transaction() as db:
            db.execute(
                "UPDATE run SET status = ?, finished_unix_s = ?, pid = ? WHERE run_id = ?",
                (status, finished, os.getpid(), run_id),
            )

    def set_budget(self, run_id: str, budget_s: float | None) -> None:
        """Give a run another budget of time; what was run counts towards it."""
        study = replace(self.run(run_id).study, budget_s=budget_s)
        text = _adapter(Study).dump_json(study).decode()
        with self._file.transaction() as db:
            db.execute("UPDATE run SET study = ? WHERE run_id = ?", (text, run_id))

    def plan_trials(self, run_id: str, trials: Sequence[Trial]) -> None:
        """Record the trials of a block before the first of them begins; known ones stay as they are."""
        with self._file.transaction() as db:
            for trial in trials:
                text = _adapter(Trial).dump_json(trial).decode()
                db.execute(
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
                (kept,) = db.execute(
                    "SELECT trial FROM trial WHERE run_id = ? AND number = ?",
                    (run_id, trial.number),
                ).fetchone()
                # As values: an older pgdrag may have written it with other keys.
                is_same = _adapter(Trial).validate_json(kept) == _adapter(Trial).validate_json(text)
                assert is_same, f"trial {trial.number} of {run_id} is not the one planned"

    def begin_attempt(self, run_id: str, number: int) -> int:
        """Record that a trial begins and return which attempt at it this is, from 1."""
        with self._file.transaction() as db:
            (attempt,) = db.execute(
                "SELECT count(*) + 1 FROM attempt WHERE run_id = ? AND number = ?",
                (run_id, number),
            ).fetchone()
            db.execute(
                "INSERT INTO attempt (run_id, number, attempt, started_unix_s) VALUES (?, ?, ?, ?)",
                (run_id, number, attempt, time.time()),
            )
        return int(attempt)

    def end_attempt(self, run_id: str, attempt: int, result: Result) -> None:
        """Record what came of an attempt; when this returns it is on disk."""
        measurement = result.measurement
        samples = measurement.samples if measurement else ()
        bare = replace(
            result,
            measurement=replace(measurement, samples=()) if measurement else None,
            recordings=Recordings(),
        )
        key = (run_id, result.trial.number, attempt)
        with self._file.transaction() as db:
            db.execute(
                "UPDATE attempt SET finished_unix_s = ?, outcome = ?, reason = ?, committed = ?, "
                "elapsed_s = ?, result = ? WHERE run_id = ? AND number = ? AND attempt = ?",
                (
                    time.time(),
                    str(result.outcome),
                    result.reason,
                    measurement.total.committed if measurement else None,
                    measurement.elapsed_s if measurement else None,
                    _adapter(Result).dump_json(bare).decode(),
                    *key,
                ),
            )
            db.executemany(
                f"INSERT INTO sample (run_id, number, attempt, sample, {_SAMPLE}) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (*key, number, *astuple(sample))
                    for number, sample in enumerate(samples, start=1)
                ],
            )
            if result.recordings:
                packed = zlib.compress(_adapter(Recordings).dump_json(result.recordings))
                db.execute("INSERT INTO exhibits VALUES (?, ?, ?, ?)", (*key, packed))

    def results(self, run_id: str) -> dict[int, Result]:
        """Return the newest finished result of each trial, by its number."""
        rows = self._file.rows(
            "SELECT number, attempt, result FROM attempt "
            "WHERE run_id = ? AND result IS NOT NULL ORDER BY number, attempt",
            (run_id,),
        )
        newest = {number: (attempt, text) for number, attempt, text in rows}
        return {
            number: self._whole(run_id, number, attempt, _adapter(Result).validate_json(text))
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
        rows = self._file.rows(
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
        planned = self._file.rows("SELECT count(*) FROM trial WHERE run_id = ?", (run_id,))[0][0]
        try:
            study, host = (
                _adapter(Study).validate_json(row[0]),
                _adapter(Host).validate_json(row[1]),
            )
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
        ((wanted,),) = self._file.rows("SELECT server_wanted FROM run WHERE run_id = ?", (run_id,))
        return None if wanted is None else str(wanted)

    def attempts(self, run_id: str) -> list[tuple[int, int, str | None]]:
        """Return (trial, attempt, outcome) of every attempt; outcome None: it was cut off."""
        return self._file.rows(
            "SELECT number, attempt, outcome FROM attempt WHERE run_id = ? ORDER BY 1, 2", (run_id,)
        )

    def summaries(self) -> list[RunSummary]:
        """Return all runs, newest first."""
        rows = self._file.rows(
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

    def runs_of(self, experiment: str) -> Iterator[RunRecord]:
        """Return the runs of an experiment, newest first."""
        ids = [x.run_id for x in self.summaries() if x.experiment == experiment]
        return (self.run(run_id) for run_id in ids)

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

    def _whole(self, run_id: str, number: int, attempt: int, result: Result) -> Result:
        """Return a result with its samples and recordings, which are kept beside it."""
        key = (run_id, number, attempt)
        packed = self._file.rows(
            "SELECT exhibits FROM exhibits WHERE run_id = ? AND number = ? AND attempt = ?", key
        )
        for (blob,) in packed:
            result = replace(
                result, recordings=_adapter(Recordings).validate_json(zlib.decompress(blob))
            )
        if result.measurement is None:
            return result
        rows = self._file.rows(
            f"SELECT {_SAMPLE} FROM sample "
            "WHERE run_id = ? AND number = ? AND attempt = ? ORDER BY sample",
            key,
        )
        samples = tuple(Sample(*row) for row in rows)
        return replace(result, measurement=replace(result.measurement, samples=samples))


@cache
def _adapter(kind: type[_T]) -> TypeAdapter[_T]:
    # Making all of them takes some 30 ms: not at each start of a pgdrag that may read no journal.
    return TypeAdapter(kind)


def _true_status(status: RunStatus, pid: int | None) -> RunStatus:
    """A run whose process was killed still stands as running."""
    return "interrupted" if status == "running" and pid != measuring_pid() else status


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1
