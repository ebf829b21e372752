"""After kill -9 of pgdrag nobody holds the horizon any more, whatever held it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from commands import outcome, start
from living import is_alive

from pgdrag.horizon.holders import APPLICATION_NAME, all_holders
from pgdrag.horizon.sampling import read_holders
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep
from stand_ins import kill_with_guardian

pytestmark = pytest.mark.postgres
SOURCE = Path(__file__).parents[2] / "src"
TIMEOUT_S = 120.0

HOLDING = """
import sys, time
from pgdrag.horizon.holders import HoldPlace, all_holders
place = HoldPlace(sys.argv[1])
held = [all_holders()[name]().hold(place) for name in sys.argv[2:]]
print(len(held), flush=True)
time.sleep(120)
"""
EXPERIMENT = """
pgdrag = 1
name = "held"
[workload]
kind = "pgbench"
scale = 1
scripts = ["simple-update"]
[baseline.horizon]
holder = "standby"
[[rungs]]
name = "H1"
[rungs.setting]
work_mem = "1MB"
[scales.test.load]
connections = 1
rate_per_s = 100
warm_up_s = 1
measure_s = 60
budget_s = 60
"""


def test_sessions_that_hold_end_with_the_process_that_opened_them(
    shared_cluster: Cluster,
) -> None:
    names = [name for name, kind in all_holders().items() if kind.is_bounded_by_session]
    assert names == ["cursor", "query", "snapshot", "transaction"]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, shared_cluster.conninfo(), *names],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{len(names)}\n"
        assert holders_of(shared_cluster) == [APPLICATION_NAME] * len(names)
    finally:
        process.kill()
        process.communicate()
    assert wait_until(lambda: holders_of(shared_cluster) == [], TIMEOUT_S)


def holders_of(cluster: Cluster) -> list[str]:
    with cluster.connect() as client:
        found = read_holders(lambda sql: client.execute(sql).fetchall())
    return [one.application for one in found]


@pytest.fixture
def root(new_scratch: Callable[[str], Scratch]) -> Iterator[Path]:
    """A scratch directory of a run's own."""
    scratch = new_scratch("horizon-killed")
    yield scratch.root
    sweep(scratch)


def test_the_next_command_sweeps_the_primary_and_the_standby_of_a_run_that_was_killed(
    root: Path, tmp_path: Path
) -> None:
    experiment = tmp_path / "held.toml"
    experiment.write_text(EXPERIMENT)
    places = {"PGDRAG_HOME": str(tmp_path / "home"), "PGDRAG_SCRATCH": str(root)}
    process = start("run", experiment, **places)
    try:
        assert wait_until(lambda: is_held(root), TIMEOUT_S)
        directories = list((root / "clusters").iterdir())
        postmasters = [postmaster_of(each) for each in directories]
        assert len(postmasters) == 2
        assert all(map(is_alive, postmasters))
    finally:
        kill_with_guardian(process)
        outcome(process)
    status, out, err = outcome(start("clean", **places))
    assert status == 0, err
    assert all(each.name in out + err for each in directories)
    assert list((root / "clusters").iterdir()) == []
    assert not any(map(is_alive, postmasters))


def is_held(root: Path) -> bool:
    """Whether a holder of the run is in force on one of its servers."""
    for directory in (root / "clusters").glob("cluster-*"):
        with contextlib.suppress(OSError, IndexError, psycopg.Error):
            lines = (directory / "data" / "postmaster.pid").read_text().splitlines()
            place = {"host": lines[4], "port": lines[3], "user": "pgdrag", "dbname": "pgdrag"}
            with psycopg.connect(connect_timeout=2, **place) as client:
                if client.execute(IN_FORCE, [APPLICATION_NAME]).fetchone() == (True,):
                    return True
    return False


IN_FORCE = """
    SELECT count(*) = 1 FROM pg_stat_activity
     WHERE application_name = %s AND state = 'idle in transaction'
"""


def postmaster_of(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])
