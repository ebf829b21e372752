"""The three scenarios on real servers: both forms do the same work, and what they cannot have done is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import psycopg
import pytest

from conftest import TELLING_VERSIONS
from pgdrag.model.events import ignore
from pgdrag.model.load import LoadProfile, Open
from pgdrag.model.measurement import DriverCost, Measurement
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner
from pgdrag.workloads import Loading
from pgdrag.workloads.scenarios import Scenarios

# So many that the scenarios' counts are in the order of their weights.
SHORT = LoadProfile(
    connections=2, warm_up_s=0, measure_s=1, budget_s=10, pacing=Open(rate_per_s=500)
)
CHECK_S = 60.0
NOTHING = Measurement(1.0, "deadline", {}, {}, (), DriverCost(0.0, 0.0))
Form = Literal["functions", "scripts"]
FORMS: tuple[Form, ...] = ("functions", "scripts")
# What a transaction has read and written by now, table by table.
WORK = """SELECT relname::text, seq_scan, coalesce(idx_scan, 0), n_tup_ins, n_tup_upd FROM pg_stat_xact_user_tables
    WHERE relname LIKE 'pgbench%' ORDER BY relname"""
ADD = "UPDATE pgbench_{0} SET {1}balance = {1}balance + 11 WHERE {1}id = 1"
NOTE = "INSERT INTO pgbench_history (tid, bid, aid, delta) SELECT 1, 1, 5, 500 FROM generate_series(1, {})"


@pytest.fixture(scope="module", params=TELLING_VERSIONS)
def loaded(
    request: pytest.FixtureRequest,
    bench: ServerTrialRunner,
    new_cluster: Callable[[str], Cluster],
) -> Iterator[Cluster]:
    """A running cluster of each telling version with the scenarios' tables."""
    with new_cluster(request.param) as cluster:
        cluster.start()
        Scenarios().populate(Loading(bench.driver, cluster.target, 1, 1, 120, lambda line: None))
        yield cluster


def work_of(connection: psycopg.Connection, statements: Sequence[tuple[str, str]]) -> object:
    """Run a transaction's statements, each with its values, and return what that took; it is rolled back."""

    def work() -> dict[str, tuple[int, ...]]:
        return {name: tuple(counts) for name, *counts in connection.execute(WORK).fetchall()}

    with connection.transaction(force_rollback=True):
        before = work()
        for text, values in statements:
            connection.execute(f"PREPARE one AS {text.rstrip().rstrip(';')}".encode())
            connection.execute(f"EXECUTE one{values}".encode())
            connection.execute("DEALLOCATE one")
        return {x: [a - b for a, b in zip(y, before[x], strict=True)] for x, y in work().items()}


def test_functions_and_plain_statements_do_the_same_work(
    loaded: Cluster, bench: ServerTrialRunner
) -> None:
    told: dict[str, list[tuple[str, str]]] = {}
    for one in Scenarios().sends(bench.driver, seed=7):
        values = ", ".join(str(value) for value in one.values)
        if one.text.rstrip(";") not in ("BEGIN", "END"):
            told.setdefault(one.transaction, []).append((one.text, f"({values})" if values else ""))
    assert list(told) == ["select", "update", "insert"]
    # What it sends has one row of the thousand.
    told["insert"] += 999 * told["insert"][-1:]
    with loaded.connect() as connection:
        for name, statements in told.items():
            called = work_of(connection, [(f"SELECT scenario_{name}()", "")])
            assert called == work_of(connection, statements), name


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


def test_each_scenario_runs_in_sessions_of_its_own(
    loaded: Cluster, bench: ServerTrialRunner
) -> None:
    workload = Scenarios.model_validate({"weights": {"select": 1, "update": 0, "insert": 1}})
    alone = LoadProfile(connections=1, warm_up_s=0, measure_s=0.5, budget_s=5, min_commits=1)
    committed = []
    for load in (alone, replace(alone, connections=2)):
        with workload.driving(
            bench.driver, loaded.target, load, seed=7, listen=lambda line: None
        ) as under_way:
            under_way.warm_up()
            measured = under_way.measure()
        assert measured.total.failed == 0, measured.errors
        committed.append({x for x, y in measured.transactions.items() if y.committed})
        assert workload.violations(bench.driver, loaded.target, measured, timeout_s=CHECK_S) == ()
    # By weight alone one session would have drawn both.
    assert committed == [{"select"}, {"select", "insert"}]


@pytest.mark.parametrize(
    ("damage", "condition"),
    [
        (
            f"{ADD.format('accounts', 'a')}; {ADD.format('tellers', 't')}; {ADD.format('branches', 'b')}",
            None,
        ),
        (ADD.format("accounts", "a"), "balances"),
        (f"{ADD.format('accounts', 'a')}; {ADD.format('tellers', 't')}", "balances"),
        ("DELETE FROM pgbench_accounts WHERE aid = 5", "balances"),
        ("UPDATE pgbench_tellers SET tid = 11 WHERE tid = 1", "balances"),
        (NOTE.format(2000), None),
        (NOTE.format(1999), "history"),
        (f"{NOTE.format(1000)}; UPDATE pgbench_history SET bid = 2", "history"),
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
            connection.execute(f"SET search_path = public; {damage}".encode())
        found = workload.violations(bench.driver, cluster.target, NOTHING, timeout_s=CHECK_S)
    assert [one.split(":")[0] for one in found] == ([condition] if condition else [])
