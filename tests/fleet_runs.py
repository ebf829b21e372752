"""Runs of a fleet on the simulated laboratory: coordinators and hosts are processes, as in life.

python fleet_runs.py DIRECTORY RUN     lead a run, with the fleet file and the journal of the directory
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from pgdrag.fleet.file import read_fleet
from pgdrag.fleet.run import Fleet
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Result, RunRecord, Study
from pgdrag.model.events import Event, Listener, ignore
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)

SLOWDOWNS = {"a": 1.02, "b": 1.5}
TRUTH = Truth(slowdowns=SLOWDOWNS, noise=0.03)
os.environ["FLEET_TRUTH"] = json.dumps({"slowdowns": SLOWDOWNS, "noise": 0.03})
AGENT = (sys.executable, str(Path(__file__).with_name("fleet_host.py")), "agent", "-")


@dataclass
class Place:
    """A directory with a fleet file and a journal."""

    directory: Path

    @property
    def journal(self) -> Journal:
        return Journal(self.directory / "journal.sqlite")

    def write(self, text: str) -> None:
        (self.directory / "fleet.toml").write_text(text)

    def begin(self, study: Study) -> str:
        return begin_simulated(self.journal, study, seed=5)

    def lead(self, run_id: str, listen: Listener = ignore) -> RunRecord:
        """Lead a run in this process."""
        fleet = Fleet(
            read_fleet(self.directory / "fleet.toml"), self.directory / "tickets", join_argv=AGENT
        )
        return fleet.run(run_id, self.journal, listen, server_wanted=None, allowed=())

    def alone(self, study: Study) -> RunRecord:
        """Return the same run on one machine."""
        run_id = begin_simulated(self.journal, study, seed=5)
        return run_experiment(run_id, SimulatedTrialRunner(TRUTH, seed=3), self.journal)

    def attempts(self, run_id: str) -> list[tuple[int, int, str, str | None]]:
        """Return each attempt: its trial, its number, its host and its outcome."""
        sql = "SELECT number, attempt, host, outcome FROM attempt WHERE run_id = ? ORDER BY 1, 2"
        return [tuple(row) for row in self.journal._rows(sql, (run_id,))]  # type: ignore[misc]


def study_of(design: str = "compare", *, replicates: int = 1, **parameters: object) -> Study:
    study = simulated_ladder("a", "b", replicates=replicates)
    return study.with_design(design, **parameters)


def without_hosts(record: RunRecord) -> list[Result]:
    """Return the results without where and how long they ran."""
    return [replace(x, host="", machine=None, took_s=0.0, phases_s={}) for x in record.results]


def refuse_twice(record: RunRecord) -> None:
    """Fail where a trial has two results, or a block two hosts."""
    assert set(Counter(x.trial.number for x in record.results).values()) == {1}
    hosts: dict[int, set[str]] = {}
    for one in record.results:
        hosts.setdefault(one.trial.block, set()).add(one.host)
    assert all(len(x) == 1 for x in hosts.values()), hosts


def processes_of(mark: str) -> list[psutil.Process]:
    """Return the processes whose environment has a mark, children of hosts among them."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.environ().values():
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def say(event: Event) -> None:
    print(event, file=sys.stderr, flush=True)


if __name__ == "__main__":
    Place(Path(sys.argv[1])).lead(sys.argv[2], say)
