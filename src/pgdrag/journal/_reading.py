"""What was run, and what came of it? What the journal has, as values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, get_type_hints

from pydantic import Field

from pgdrag.errors import JournalError
from pgdrag.host.machine_lock import measuring_pid
from pgdrag.journal._base import Real, UnixTime, true_status, unpacked, written
from pgdrag.journal.run_list import RUN_ID, RunList
from pgdrag.model import Host, Outcome, Result, RunRecord, Study, UnderWay, WorkloadSpec
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings

SAMPLE = ", ".join(one.name for one in fields(Sample))  # its columns have its fields' names
_BOUNDED: dict[Any, Any] = {float: Real, float | None: Real | None}
_HINTS = get_type_hints(Sample) | {"duration_s": Annotated[Real, Field(gt=0)]}
_SAMPLE = tuple[tuple(_BOUNDED.get(_HINTS[x.name], _HINTS[x.name]) for x in fields(Sample))]  # type: ignore[valid-type, misc]
_RUN = tuple[str, str, str, str, int, UnixTime, UnixTime | None, str, int | None, int]
_TRIAL_LINE = tuple[int, str, str, str, int | None, Real | None]

# How many runs, and results of them, show how long trials take.
_EXPERIENCE_RUNS, _EXPERIENCE_RESULTS = 6, 24


@dataclass(frozen=True)
class TrialLine:
    """A trial that has ended, and what came of it."""

    number: int
    treatment: str
    outcome: str
    reason: str
    committed: int | None
    elapsed_s: float | None


class JournalReading(RunList):
    """What can be asked of the journal."""

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
            kind=tuple[int, int, str],
        )
        newest = {number: (attempt, text) for number, attempt, text in rows}
        found = {}
        for number, (attempt, text) in newest.items():
            result = self._read(Result, text, run_id)
            of_attempt = "WHERE run_id = ? AND number = ? AND attempt = ?"
            key = (run_id, number, attempt)
            exhibits = f"SELECT exhibits FROM exhibits {of_attempt}"
            packs = self._rows(exhibits, key, kind=tuple[bytes]) if has_recordings else ()
            for (packed,) in packs:
                recordings = self._read(Recordings, unpacked(packed), run_id)
                result = replace(result, recordings=recordings)
            if result.measurement is not None:
                of_trial = f"SELECT {SAMPLE} FROM sample {of_attempt} ORDER BY sample"
                rows = self._rows(of_trial, key, kind=_SAMPLE)
                samples = tuple(Sample(*row) for row in rows)
                result = replace(result, measurement=replace(result.measurement, samples=samples))
            found[number] = result
        return found

    def newest_results(self, workload: WorkloadSpec, host: Host) -> list[Result]:
        """Return measured results of this machine, the newest first, to learn from how long trials take.

        Of the newest runs of the same workload where there are any, else of the same kind, else of others;
        without recordings and samples.
        """
        wanted = json.loads(written(WorkloadSpec, workload))
        rows = self._rows(
            """
            SELECT result, run_id FROM attempt WHERE outcome = 'measured' AND run_id IN (
                SELECT run_id FROM run WHERE host = ?
                 ORDER BY json_extract(study, '$.workload.parameters') = ? DESC,
                          json_extract(study, '$.workload.kind') = ? DESC, started_unix_s DESC
                 LIMIT ?)
             ORDER BY started_unix_s DESC LIMIT ?
            """,
            (
                written(Host, host),
                json.dumps(wanted["parameters"], separators=(",", ":"), ensure_ascii=False),
                wanted["kind"],
                _EXPERIENCE_RUNS,
                _EXPERIENCE_RESULTS,
            ),
        )
        found = []
        for text, run_id in rows:
            with suppress(JournalError):  # perhaps of another version: nothing depends on it
                found.append(self._read(Result, text, run_id))
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
            kind=_RUN,
        )
        if not rows:
            raise self._missing(run_id)
        ((study, host, version, pgdrag_version, seed, started, finished, status, pid, planned),) = (
            rows
        )
        status = true_status(status, pid)
        return RunRecord(
            run_id=run_id,
            study=self._read(Study, study, run_id),
            host=self._read(Host, host, run_id),
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

    def _under_way(self, run_id: str) -> UnderWay | None:
        # What an earlier process was killed in has no end either.
        rows = self._rows(
            "SELECT number, treatment, attempt.finished_unix_s, attempt.started_unix_s "
            "FROM attempt JOIN trial USING (run_id, number) "
            "WHERE run_id = ? ORDER BY attempt.started_unix_s DESC LIMIT 1",
            (run_id,),
            kind=tuple[int, str, UnixTime | None, UnixTime],
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
        return dict(self._rows(sql, kind=tuple[str, int]))

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

    def ended_trials(self, run_id: str, *, most: int) -> tuple[int, list[TrialLine]]:
        """Return how many trials of a run have ended, and the last of them, last first, without reading their results.

        Args:
            most: how many lines.
        """
        ended = """
              FROM attempt JOIN trial USING (run_id, number)
             WHERE run_id = ? AND outcome IS NOT NULL AND NOT is_ahead AND NOT EXISTS (
                   SELECT 1 FROM attempt AS later WHERE later.run_id = attempt.run_id
                      AND later.number = attempt.number AND later.attempt > attempt.attempt)
            """
        ((count,),) = self._rows(f"SELECT count(*) {ended}", (run_id,))
        rows = self._rows(
            "SELECT number, treatment, outcome, coalesce(reason, ''), committed, elapsed_s "
            f"{ended} ORDER BY number DESC LIMIT ?",
            (run_id, most),
            kind=_TRIAL_LINE,
        )
        return count, [TrialLine(*row) for row in rows]

    def runs_naming(self, names: Iterable[str]) -> list[str]:
        """Return the ids of runs that are over whose study has a factor of one of these names, newest first."""
        wanted = [f'"{name}"' for name in names]
        rows = self._rows(
            "SELECT run_id, study FROM run WHERE status <> 'running' ORDER BY started_unix_s DESC",
            kind=tuple[str, str],
        )
        return [
            run_id
            for run_id, study in rows
            if RUN_ID.fullmatch(run_id) and any(name in study for name in wanted)
        ]

    def runs_of(self, experiment: str) -> Iterator[RunRecord]:
        """Return the runs of an experiment, newest first."""
        rows = self._rows(
            "SELECT run_id FROM run WHERE experiment = ? ORDER BY started_unix_s DESC, run_id DESC",
            (experiment,),
            kind=tuple[str],
        )
        return (self.run(run_id) for (run_id,) in rows if RUN_ID.fullmatch(run_id))

    def runs_of_same(self, design: str, host: Host, *, most: int) -> Iterator[RunRecord]:
        """Return the newest runs of a machine that compared a treatment with itself, newest first.

        Only those that are done, by a design, and without recordings; a limited number.
        """
        rows = self._rows(
            """
            SELECT run_id FROM run
             WHERE status = 'done' AND host = ? AND json_extract(study, '$.design') = ?
               AND json_extract(study, '$.rungs[0].treatment.levels')
                   = json_extract(study, '$.rungs[1].treatment.levels')
             ORDER BY started_unix_s DESC LIMIT ?
            """,
            (written(Host, host), design, most),
        )
        return (self.run(run_id, has_recordings=False) for (run_id,) in rows)

    def find(self, text: str) -> str:
        """Return the id of the run that `text` names: an id, its unambiguous start, or "last".

        Raises:
            JournalError: no run, or several, are meant.
        """
        if not text:
            raise JournalError(
                "no run is named",
                hint='Run "pgdrag runs" to see them; "last" names the newest. Is a variable of the shell not set?',
            )
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
            f'run "{run_id}" does not exist in {self.path}', hint='Run "pgdrag runs" to see them.'
        )
