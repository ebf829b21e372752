"""What the server takes of memory, and how long it recovers from a crash, are seen where somebody asks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loads import short_trial
from watching import start, watching

from pgdrag.collectors import Observer, Window
from pgdrag.collectors.memory import Memory
from pgdrag.collectors.recovery import Recovery
from pgdrag.model import Instrument, Outcome, WorkloadSpec
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner, run_trial

pytestmark = pytest.mark.postgres
MB = 1 << 20
SORT = "SELECT md5(x::text) FROM generate_series(1, 300000) AS x ORDER BY 1"
FOREVER = Window(1.0, 1, 0.0, 4e9)


def memory_of(cluster: Cluster, *, sorts: bool) -> tuple[float, str]:
    """Return what the server takes, with or without a session that has sorted 300,000 rows and keeps them."""
    memory = Memory()
    with cluster.connect() as connection, cluster.connect() as client:
        observer = Observer(cluster, connection)
        memory.before(observer)
        with client.transaction():
            if sorts:
                client.execute(f"DECLARE sorted CURSOR FOR {SORT}".encode())
                client.execute("FETCH 1 FROM sorted")
            memory.sample(observer)
        memory.after(observer)
    [found] = memory.observations(FOREVER)
    assert found.value is not None, found.missing
    return found.value, found.detail


def test_memory_is_what_is_shared_and_the_most_that_processes_had_themselves(
    any_cluster: Cluster,
) -> None:
    start(any_cluster, shared_buffers="64MB", work_mem="256MB")
    idle, detail = memory_of(any_cluster, sorts=False)
    sorting, _ = memory_of(any_cluster, sorts=True)
    assert 64 * MB < idle < 200 * MB
    assert sorting > idle + 10 * MB
    assert "shared and" in detail


def test_a_crash_is_recovered_from_and_nothing_committed_is_lost(bench: ServerTrialRunner) -> None:
    trial = replace(
        short_trial(workload=WorkloadSpec("pgbench", {"scale": 1})),
        instrument=Instrument(optional=("memory", "recovery")),
    )
    result = run_trial(trial, bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert not result.violations
    assert not result.warnings
    seen = {one.name: one for one in result.evidence}
    recovery = seen["crash_recovery_s"]
    assert recovery.value is not None, recovery.missing
    assert 0 < recovery.value < 60
    assert (seen["server_memory_bytes"].value or 0) > MB


def test_a_server_that_does_not_run_any_more_is_not_crashed(any_cluster: Cluster) -> None:
    start(any_cluster)
    with watching(Recovery(), any_cluster) as watch:
        any_cluster.stop()
    assert "did not run any more" in watch.missing("crash_recovery_s")
