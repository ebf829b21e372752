"""A factor that does its work within the window is told when that begins, and asked when it has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar

import pytest
from loads import PACED

from pgdrag.factors import Example, Factor, all_factors
from pgdrag.model import Applied, Level, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner, run_trial

pytestmark = pytest.mark.postgres
LOAD = LoadProfile(
    connections=1, warm_up_s=0.5, measure_s=1, budget_s=1, min_commits=1, pacing=PACED
)
LEVEL = Level("recorder", "speed", "slow")


class Recorder(Factor):
    """Notes what it is told and asked, and how many transactions the server had committed by then."""

    name = "recorder"
    summary = "nothing"
    examples: ClassVar[tuple[Example, ...]] = ()
    reads_back_late = True
    told: ClassVar[list[tuple[str, int]]] = []

    def serve(self, trial: Trial) -> None:
        self.told.append(("serve", trial.seed))

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        self.told.append(("before start", 0))

    def after_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        self.note("after start", cluster)

    def window_began(self, cluster: Cluster) -> None:
        self.note("window began", cluster)

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        self.note("read back", cluster)
        return [Applied(Level(self.name, *level), "slow") for level in levels.items()]

    def recordings(self, started_unix_s: float) -> Recordings:
        return Recordings((Event("recording", time.time() - started_unix_s),))

    def undo(self, cluster: Cluster) -> None:
        self.note("undo", cluster)

    def note(self, what: str, cluster: Cluster) -> None:
        with cluster.connect() as connection:
            (commits,) = connection.execute(
                "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone() or (0,)
        self.told.append((what, int(commits)))


def test_a_late_factor_acts_between_the_windows_ends(
    bench: ServerTrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorder, "told", [])
    kinds = {**all_factors(), Recorder.name: Recorder}
    for module in ("factors.applying", "provision"):
        monkeypatch.setattr(f"pgdrag.{module}.all_factors", lambda: kinds)
    workload = WorkloadSpec("pgbench", {"scale": 1})
    trial = Trial(1, 1, 1, Treatment("T", (LEVEL,)), workload, LOAD, seed=77)
    result = run_trial(trial, bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    stages = dict(Recorder.told)
    assert list(stages) == [
        "serve",
        "before start",
        "after start",
        "window began",
        "read back",
        "undo",
    ]
    assert stages["serve"] == 77
    assert stages["after start"] < stages["window began"] < stages["read back"]
    assert [x for x in result.applied if x.level == LEVEL] == [Applied(LEVEL, "slow")]
    [event] = [x for x in result.recordings.events if x.kind == "recording"]
    assert event.start_s > LOAD.measure_s
