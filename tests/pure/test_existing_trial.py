"""A trial on a server that exists changes nothing before the server is there, and pgdrag's alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from analysis_runs import LOAD, WORKLOAD
from pgdrag.driver.progress import TrialLog
from pgdrag.errors import ServerLost
from pgdrag.existing.trial import run_trial_there
from pgdrag.model import Applied, Outcome, Treatment, Trial


def test_the_operating_system_is_not_changed_for_a_server_that_is_away() -> None:
    def lost(log: TrialLog) -> None:
        raise ServerLost("db is away")

    def change_host() -> list[Applied]:
        raise AssertionError("nothing is to be changed")

    bench: Any = SimpleNamespace(
        check=lambda *_: [], begin=lost, dataset_warnings=(), server=None, version="18.6"
    )
    trial = Trial(1, 1, 1, Treatment("more"), WORKLOAD, LOAD, seed=1)
    found = run_trial_there(trial, bench, change_host, lambda _: None)
    assert (found.outcome, found.reason) == (Outcome.INVALID, "db is away")
