"""One run of a study, as the journal keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdrag.model.host import Host
from pgdrag.model.result import Result
from pgdrag.model.study import Study

CALIBRATE = "calibrate"  # what runs are named that compare a server with itself
OVERHEAD = "overhead"  # what runs are named that measure what the collectors cost


@dataclass(frozen=True)
class UnderWay:
    """The trial that a run is at: its number, its treatment's name, and when it began."""

    number: int
    treatment: str
    started_unix_s: float

    @property
    def words(self) -> str:
        """Return `trial 4 (C5)`."""
        return f"trial {self.number} ({self.treatment})"


@dataclass(frozen=True)
class RunRecord:
    """One run of an experiment, as the journal keeps it.

    Attributes:
        under_way: the trial in progress, while it runs; None also between two trials.
    """

    run_id: str
    study: Study
    host: Host
    server_version: str
    pgdrag_version: str
    seed: int
    started_unix_s: float
    finished_unix_s: float | None
    status: Literal["running", "done", "interrupted", "failed"]
    results: tuple[Result, ...]
    planned_trials: int | None = None
    under_way: UnderWay | None = None

    @property
    def is_ended_by_budget(self) -> bool:
        """Trials were planned that its time did not allow."""
        is_short = (self.planned_trials or 0) > len(self.results)
        return self.status == "done" and self.study.budget_s is not None and is_short
