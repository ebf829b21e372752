"""Procedures of many trials on a server that exists: they come to an end there, and leave nothing.

Two of them in a few seconds; all of them, on the oldest version and on the newest: make existing
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import dsn
from existing import digest, give_settings

from conftest import TELLING_VERSIONS
from in_process import pgdrag
from pgdrag.servers.cluster import Cluster

IS_LONG = bool(os.environ.get("EXISTING"))
BUDGET = "60s" if IS_LONG else "7s"
LOAD = ("--warm-up", "0", "--measure", "1", "--connections", "2", "--budget", BUDGET)
PROCEDURES = {
    "ablate": ("work_mem=8MB,enable_seqscan=off,random_page_cost=1.1",),
    "search": ("--maximize", "--settings", "work_mem,random_page_cost", "--trials", "8", "--clusters", "3"),
    "bisect": ("default", "work_mem=8MB,enable_indexscan=off,enable_bitmapscan=off"),
    "screen": ("work_mem=8MB,enable_seqscan=off,random_page_cost=1.1",),
    "boundary": ("work_mem", "--min", "1MB", "--max", "8MB"),
    "compare": ("default", "work_mem=8MB"),
    "calibrate": ("--pairs", "4"),
}  # fmt: skip
NAMES = list(PROCEDURES) if IS_LONG else ["ablate", "search"]


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    monkeypatch.setenv("PGDRAG_SCRATCH", str(open_directory / "procedures"))


@pytest.fixture(scope="module", params=TELLING_VERSIONS if IS_LONG else TELLING_VERSIONS[:1])
def server(request: pytest.FixtureRequest, new_cluster: object) -> Iterator[Cluster]:
    """A server with pgbench's tables and settings of somebody's."""
    with new_cluster(request.param) as cluster:  # type: ignore[operator]
        give_settings(cluster)
        cluster.start()
        status, _, err = pgdrag("bench", "-i", "-s", "1", "-q", "--yes", dsn(cluster))
        assert status == 0, err
        yield cluster


def state(cluster: Cluster) -> tuple[object, ...]:
    with cluster.connect() as connection:
        settings = "SELECT name, setting, source FROM pg_settings ORDER BY name"
        return digest(cluster), connection.execute(settings).fetchall()


@pytest.mark.parametrize("name", NAMES)
def test_a_procedure_runs_to_its_end_and_leaves_nothing(server, name):
    before = state(server)
    allowed = ("--allow-change", "settings", "--yes", "--json")
    status, out, err = pgdrag(name, *PROCEDURES[name], "--dsn", dsn(server), *LOAD, *allowed)
    assert status == 0, err
    trials = json.loads(out)["trials"]
    assert len(trials) >= (3 if IS_LONG else 1)  # in a few seconds of a busy machine
    assert {one["outcome"] for one in trials} == {"measured"}
    assert state(server) == before
