"""Which runs does the journal have? What they are of, and how far they are, but not what is in them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdrag.journal._base import JournalFile, RunStatus, UnixTime, true_status

# An id names the file of a report; pgdrag gives no others.
RUN_ID = re.compile(r"\w[\w.-]*")

_SUMMARY = tuple[str, str, str, str, int | None, str, UnixTime, UnixTime | None, int, int]
_LIKE = str.maketrans({x: f"\\{x}" for x in "\\%_"})


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


class RunList(JournalFile):
    """The runs of the journal in one file, which is made when it is missing.

    Raises:
        JournalError: the file is not a journal, or was written by a newer pgdrag.
        StorageError: it cannot be written.
    """

    def summaries(
        self, matching: str = "", *, most: int = -1, skipped: int = 0
    ) -> list[RunSummary]:
        """Return runs, newest first.

        Args:
            matching: only those with each of these words in their name, scale, server's version or study.
            most: how many; -1: all of them.
            skipped: how many of the newest to leave out.
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
            kind=_SUMMARY,
        )
        return [
            RunSummary(run_id, experiment, scale, true_status(status, pid), *others)
            for run_id, experiment, scale, status, pid, *others in rows
            if RUN_ID.fullmatch(run_id)
        ]
