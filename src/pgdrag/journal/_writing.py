"""How does what was run, and what came of it, get into the journal? Durably: on disk before the next trial begins."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import count
from operator import attrgetter

from pgdrag.errors import JournalError
from pgdrag.journal._base import RunStatus, true_status, written
from pgdrag.journal._file import explained
from pgdrag.journal._reading import SAMPLE, JournalReading
from pgdrag.model import Host, Result, Study, Trial
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings

_values_of = attrgetter(*(one.name for one in fields(Sample)))


class Journal(JournalReading):
    """The journal in one file.

    Args:
        path: the SQLite file; it and its directory are made when they are missing.

    Raises:
        JournalError: the file is not a journal, or was written by a newer pgdrag.
        StorageError: it cannot be written.
    """

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
                    written(Study, study),
                    written(Host, host),
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
            if row is not None and true_status(*row) == "running":
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
            db.execute("UPDATE run SET study = ? WHERE run_id = ?", (written(Study, study), run_id))

    def plan_trials(self, run_id: str, trials: Sequence[Trial], *, is_ahead: bool = False) -> bool:
        """Record the trials of a block before the first of them begins; known ones stay as they are.

        Args:
            is_ahead: the design has not asked for them yet: they are no part of the run until they are planned
                again without this.

        Returns:
            True; False where they are planned ahead, and the design has asked for others, which stay.
        """
        read = partial(self._read, Trial, run_id=run_id)
        with self._transaction() as db:
            for trial in trials:
                text = written(Trial, trial)
                place = (trial.number, trial.block, trial.replicate, trial.treatment.name)
                row = db.execute(
                    "SELECT trial, is_ahead FROM trial WHERE run_id = ? AND number = ?",
                    (run_id, trial.number),
                ).fetchone()
                # As values: an older pgdrag may have written it with other keys.
                if row is not None and read(row[0]) == read(text):
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
        # An attempt that is lost from the journal in a power failure has ended with it.
        with self._transaction(is_flushed=False) as db:
            (attempt,) = db.execute(
                "SELECT count(*) + 1 FROM attempt WHERE run_id = ? AND number = ?", (run_id, number)
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
                    written(Result, bare),
                    *key,
                ),
            )
            if not ended.rowcount:
                return False
            db.executemany(
                f"INSERT INTO sample (run_id, number, attempt, sample, {SAMPLE}) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*key, number, *_values_of(sample)) for number, sample in samples],
            )
            if result.recordings:
                packed = zlib.compress(written(Recordings, result.recordings).encode())
                db.execute("INSERT INTO exhibits VALUES (?, ?, ?, ?)", (*key, packed))
        return True


def _forget(db: sqlite3.Connection, run_id: str, numbers: Sequence[int]) -> None:
    for table in ("exhibits", "sample", "attempt", "trial"):
        db.executemany(
            f"DELETE FROM {table} WHERE run_id = ? AND number = ?",
            [(run_id, number) for number in numbers],
        )
