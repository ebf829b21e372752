"""A trial may have the cluster of the one before it: where nobody wrote, with its own settings in force."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loads import short_trial

from pgdrag.errors import ServerError
from pgdrag.model import Level, Outcome, Result, WorkloadSpec
from pgdrag.servers.binaries import find_binaries
from pgdrag.trial import ServerTrialRunner, run_trial


@pytest.fixture
def bench(bench: ServerTrialRunner) -> Iterator[ServerTrialRunner]:
    yield bench
    bench.close()
    assert not list(bench.scratch.clusters.iterdir())


def run(bench: ServerTrialRunner, script: str = "select-only", **levels: str) -> Result:
    kinds = {"postgres": "server"}
    chosen = [Level(kinds.get(name, "setting"), name, x) for name, x in levels.items()]
    workload = WorkloadSpec("pgbench", {"scripts": [script]})
    return run_trial(short_trial(*chosen, workload=workload), bench)


def postmaster(bench: ServerTrialRunner) -> int | None:
    assert bench._kept is not None, "a cluster was kept"
    return bench._kept[1].postmaster_pid


def effective(result: Result) -> dict[str, str | None]:
    assert result.outcome is Outcome.MEASURED, result.reason
    return {x.level.name: x.effective for x in result.applied}


def test_a_reading_workload_leaves_its_server_to_the_next_trial(bench: ServerTrialRunner) -> None:
    first = run(bench, work_mem="1MB")
    assert (effective(first), first.restored is None) == ({"work_mem": "1024kB"}, False)
    server = postmaster(bench)
    second = run(bench, random_page_cost="7")
    assert (effective(second), second.restored) == ({"random_page_cost": "7"}, None)
    assert "restore" not in second.phases_s
    assert postmaster(bench) == server, "reloaded, not restarted"
    # What the trial before had set is gone.
    assert effective(run(bench, work_mem="4MB")) == {"work_mem": "4096kB"}


def test_a_setting_that_needs_it_has_the_server_restarted_but_not_restored(
    bench: ServerTrialRunner,
) -> None:
    run(bench)
    server = postmaster(bench)
    result = run(bench, shared_buffers="32MB")
    assert (effective(result), result.restored) == ({"shared_buffers": "32768kB"}, None)
    assert postmaster(bench) != server


def test_a_value_that_only_the_server_refuses_does_not_pass_by_a_reload(
    bench: ServerTrialRunner,
) -> None:
    run(bench)
    result = run(bench, TimeZone="Nowhere/Land")
    assert result.outcome is Outcome.DID_NOT_START
    assert bench._kept is None
    assert effective(run(bench)) == {}


def test_a_workload_that_writes_gets_a_dataset_of_its_own(bench: ServerTrialRunner) -> None:
    run(bench, "tpcb-like")
    assert bench._kept is None
    assert run(bench, "tpcb-like").restored is not None


def test_another_version_has_a_server_and_a_dataset_of_its_own(bench: ServerTrialRunner) -> None:
    try:
        older = find_binaries("15")
    except ServerError as error:
        pytest.skip(str(error))
    assert run(bench).server_version.startswith("18")
    result = run(bench, postgres="15")
    assert effective(result) == {"postgres": older.version}
    assert result.server_version == older.version
    assert result.restored is not None
