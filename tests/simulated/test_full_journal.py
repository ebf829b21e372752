"""A disk that is full when a trial's result is written loses that trial, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgdrag.errors import StorageError
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Result, Trial
from pgdrag.model.events import Listener
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, begin_simulated, simulated_ladder

STUDY = simulated_ladder("a", "b", replicates=2)
LAST_GOOD = 2


class Filling(SimulatedTrialRunner):
    """Something else on this machine fills the disk during a trial."""

    def __init__(self, disk: Path) -> None:
        super().__init__(Truth(noise=0.1))
        self.disk = disk
        self.numbers: list[int] = []

    def run(self, trial: Trial, listen: Listener) -> Result:
        self.numbers.append(trial.number)
        if len(self.numbers) == LAST_GOOD + 1:
            with (self.disk / "filler").open("wb", buffering=0) as file:
                while True:
                    try:
                        file.write(bytes(4096))
                    except OSError:
                        break
        return super().run(trial, listen)


def test_a_full_disk_at_commit_is_an_error_and_resuming_runs_that_trial_again(
    make_small_disk: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    disk = make_small_disk(tmp_path / "disk", 2)
    home = disk / "home"
    journal = Journal(home / "journal.sqlite")
    run_id = begin_simulated(journal, STUDY)
    bench = Filling(disk)
    with pytest.raises(StorageError, match=r"could not write journal .*full") as raised:
        run_experiment(run_id, bench, journal)
    assert str(raised.value.hint).startswith("Make room there")
    journal.close()

    (disk / "filler").unlink()
    journal = Journal(home / "journal.sqlite")
    assert sorted(journal.results(run_id)) == bench.numbers[:LAST_GOOD]
    again = SimulatedTrialRunner(Truth(noise=0.1))
    record = run_experiment(run_id, again, journal)
    assert record.status == "done"
    assert len(record.results) == record.planned_trials
