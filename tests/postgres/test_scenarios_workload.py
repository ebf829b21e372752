"""The three scenarios on real servers: both forms do the same work, and what they cannot have done is told."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from conftest import TELLING_VERSIONS
from pgdrag.model.events import ignore
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import DriverCost, Measurement
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot
from pgdrag.trial import ServerTrialRunner
from pgdrag.workloads import Loading
from pgdrag.workloads.scenarios import Scenarios

SHORT = LoadProfile(connections=2, warm_up_s=0, measure_s=1, budget_s=10)
CHECK_S = 60.0
NOTHING = Measurement(1.0, "deadline", {}, {}, (), DriverCost(0.0, 0.0))
Form = Literal["functions", "scripts"]
FORMS: tuple[Form, ...] = ("functions", "scripts")
STATE = """SELECT (SELECT sum(abalance::bigint * aid) FROM pgbench_accounts),
    (SELECT array_agg(aid || ' ' || tid || ' ' || delta ORDER BY aid, tid) FROM pgbench_history)"""


@pytest.fixture(params=TELLING_VERSIONS)
def loaded(
    request: pytest.FixtureRequest,
    scratch: Scratch,
    bench: ServerTrialRunner,
    snapshot_of: Callable[[str], tuple[Binaries, Snapshot]],
) -> Iterator[Cluster]:
    """A running cluster of each telling version with the scenarios' tables."""
    binaries, snapshot = snapshot_of(request.param)
    with snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.start()
        Scenarios().populate(Loading(bench.driver, cluster.target, 1, 1, 120, lambda line: None))
        yield cluster


def as_pgbench_runs_it(form: Form, cluster: Cluster, binaries: Binaries, directory: Path) -> object:
    """Let one client of pgbench run 200 transactions, and return what is in the tables then."""
    scripts = []
    for script in Scenarios(sent_as=form).job()["scripts"]:
        path = directory / f"{form}-{script['name']}.sql"
        path.write_text(script["text"], encoding="utf-8")
        scripts.append(f"--file={path}@{script['weight']}")
    target = cluster.target
    place = ("-h", target.host, "-p", str(target.port), "-U", target.user, target.database)
    options = ("-n", "-M", "prepared", "-s", "1", "-c", "1", "-t", "200", "--random-seed=7")
    command = [binaries.bin_dir / "pgbench", *options, *scripts, *place]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "actually processed: 200/200" in ended.stdout, ended.stderr
    with cluster.connect() as connection:
        state = connection.execute(STATE).fetchone()
        connection.execute("UPDATE pgbench_accounts SET abalance = 0 WHERE abalance <> 0")
        connection.execute("TRUNCATE pgbench_history")
    return state


def test_functions_and_plain_statements_do_the_same_work(
    loaded: Cluster, binaries: Binaries, tmp_path: Path
) -> None:
    functions, scripts = (as_pgbench_runs_it(x, loaded, binaries, tmp_path) for x in FORMS)
    assert functions == scripts
    assert isinstance(functions, tuple)
    assert functions[0] > 0
    assert len(functions[1]) > 5


def test_the_driver_runs_both_forms_and_they_leave_the_tables_consistent(
    loaded: Cluster, bench: ServerTrialRunner
) -> None:
    for form in FORMS:
        workload = Scenarios(sent_as=form)
        measured = bench.driver.run(loaded.target, workload.job(), SHORT, seed=7)
        assert measured.total.failed == 0, measured.errors
        committed = {name: counts.committed for name, counts in measured.transactions.items()}
        assert committed["select"] > committed["update"] > committed["insert"] > 0
        assert workload.violations(bench.driver, loaded.target, measured, timeout_s=CHECK_S) == ()


@pytest.mark.parametrize(
    ("damage", "condition"),
    [
        ("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 97 * 3", None),
        ("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 5", "accounts"),
        ("DELETE FROM pgbench_accounts WHERE aid = 5", "accounts"),
        ("INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 5, 5)", "history"),
        ("INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 5, 6)", None),
        ("INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (11, 1, 5, 6)", "history"),
        ("UPDATE pgbench_branches SET bbalance = 1", "branches_and_tellers"),
    ],
)
def test_what_no_scenario_does_is_a_violation(
    damage: str, condition: str | None, bench: ServerTrialRunner
) -> None:
    workload = Scenarios()
    snapshot = bench.snapshot(workload, ignore)
    with snapshot.restore(bench.scratch, bench.binaries).cluster as cluster:
        cluster.start()
        with cluster.connect() as connection:
            connection.execute(damage.encode())
        found = workload.violations(bench.driver, cluster.target, NOTHING, timeout_s=CHECK_S)
    assert [one.split(":")[0] for one in found] == ([condition] if condition else [])
