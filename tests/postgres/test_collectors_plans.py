"""How the server plans a workload's statements, under the settings of a treatment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from watching import ROWS, make_table, run_as_load, run_in_session

from conftest import newest
from pgdrag.collectors import Observer
from pgdrag.collectors import plans as plans_module
from pgdrag.collectors.plans import Plans
from pgdrag.driver.process import Driver
from pgdrag.errors import DriverError
from pgdrag.findings.plan_diff import plan_changes, plan_diff
from pgdrag.findings.plan_nodes import misestimate
from pgdrag.model import Observation
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Recordings, StatementPlan
from pgdrag.servers.cluster import Cluster
from pgdrag.testing.conformance_collectors import window
from pgdrag.workloads import Loading
from pgdrag.workloads.pgbench import Pgbench
from pgdrag.workloads.tpcc import Tpcc

pytestmark = pytest.mark.postgres

READ = Example("read", "SELECT filler FROM rows WHERE id = $1;", ("17",))
UPDATE = Example("write", "UPDATE rows SET filler = $2 WHERE id = $1", ("17", "it's"))
LOCK = Example("write", "SELECT filler FROM rows WHERE id = $1 FOR UPDATE", ("17",))


def look(cluster: Cluster, *examples: Example) -> Plans:
    collector = Plans()
    with cluster.connect() as connection:
        collector.afterwards(Observer(cluster, connection, lambda: examples))
    return collector


def recordings_of(collector: Plans) -> Recordings:
    return collector.recordings(window(committed=1))


def plans_of(cluster: Cluster, *examples: Example) -> Sequence[StatementPlan]:
    return recordings_of(look(cluster, *examples)).of(StatementPlan)


def observed(collector: Plans) -> Observation:
    (observation,) = collector.observations(window(committed=1))
    return observation


@pytest.fixture
def with_rows(running: Callable[..., Cluster]) -> Cluster:
    cluster = running()
    make_table(cluster)
    return cluster


def test_a_read_has_both_plans_and_is_run(with_rows: Cluster) -> None:
    (plan,) = plans_of(with_rows, READ)
    assert (plan.query, plan.transaction, plan.missing) == (READ.text, "read", "")
    assert plan.generic is not None
    assert plan.custom is not None
    assert plan.analyzed is not None
    assert plan.generic["Index Cond"] == "(id = $1)"
    assert plan.custom["Index Cond"] == "(id = 17)"
    assert plan.analyzed["Actual Rows"] == 1
    assert "Actual Rows" not in plan.custom


def test_what_writes_or_locks_is_planned_and_not_run(with_rows: Cluster) -> None:
    plans = plans_of(with_rows, UPDATE, LOCK)
    assert all(plan.custom for plan in plans)
    assert not any(plan.analyzed or plan.missing for plan in plans)
    with with_rows.connect() as client:
        row = client.execute("SELECT trim(filler) FROM rows WHERE id = 17").fetchone()
        assert row == ("",)


def test_a_dropped_index_is_a_sequential_scan_instead(with_rows: Cluster) -> None:
    before = plans_of(with_rows, READ)
    assert observed(look(with_rows, READ)).value == 0
    run_in_session(with_rows, "ALTER TABLE rows DROP CONSTRAINT rows_pkey")
    (change,) = plan_changes(before, plans_of(with_rows, READ))
    assert change.kind == "generic and custom"
    assert "index scan of rows by rows_pkey → sequential scan of rows" in change.words
    seen = observed(look(with_rows, READ))
    assert (seen.value, seen.detail) == (1, "Of rows; 1 statements have plans.")


def test_a_treatments_own_costs_decide(running: Callable[..., Cluster]) -> None:
    crippled, usual = (
        running(random_page_cost="1e300", cpu_index_tuple_cost="1e300"),
        running(),
    )
    make_table(crippled)
    (plan,) = plans_of(crippled, READ)
    assert plan.custom is not None
    assert plan.custom["Node Type"] == "Seq Scan"
    make_table(usual)
    (other,) = plans_of(usual, READ)
    assert other.custom is not None
    words = plan_diff(other.custom, plan.custom, plan.analyzed)
    assert words.startswith(
        "index scan of rows by rows_pkey → sequential scan of rows; cost 8.3 → "
    )


@newest
def test_a_plan_says_whether_it_is_compiled(running: Callable[..., Cluster]) -> None:
    cluster = running(jit="on", jit_above_cost="0")
    make_table(cluster)
    (plan,) = plans_of(cluster, READ)
    with cluster.connect() as client:
        has_jit = client.execute("SELECT pg_jit_available()").fetchone()
    assert plan.custom is not None
    assert ("JIT" in plan.custom) == (has_jit == (True,))


def test_estimates_that_are_off_are_found(with_rows: Cluster) -> None:
    example = Example("t", "SELECT * FROM rows WHERE id % 2 = 0 AND id % 4 = 0")
    (plan,) = plans_of(with_rows, example)
    assert plan.analyzed is not None
    worst = misestimate(plan.analyzed)
    assert worst is not None
    assert worst.actual == ROWS / 4
    assert worst.factor > 100
    assert worst.node == "sequential scan of rows"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT * FROM absent", 'relation "absent" does not exist'),
        ("SELECT $1", "no generic plan: wrong number of parameters"),
        ("SELECT 1; COMMIT; DELETE FROM rows", "multiple commands"),
        ("SELECT pg_sleep(100)", "it took more than"),
        ("SELECT nextval('odd')", "read-only transaction"),
    ],
)
def test_why_a_statement_has_no_plan(
    with_rows: Cluster, text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans_module, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(plans_module, "RUNNING_BUDGET_S", 5.0)
    run_as_load(with_rows, "CREATE SEQUENCE odd")
    broken, sound = plans_of(with_rows, Example("t", text), READ)
    assert reason in broken.missing
    assert sound.analyzed is not None
    with with_rows.connect() as client:
        assert client.execute("SELECT count(*) FROM rows").fetchone() == (ROWS,)


def test_all_together_they_take_no_longer_than_they_may(
    with_rows: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans_module, "RUNNING_BUDGET_S", 0.0)
    (planned,) = plans_of(with_rows, READ)
    assert planned.custom is not None
    assert planned.missing == "not run: the time limit for all statements was reached"
    monkeypatch.setattr(plans_module, "PLANNING_BUDGET_S", 0.0)
    collector = look(with_rows, READ)
    (plan,) = recordings_of(collector).of(StatementPlan)
    assert plan.missing == "no generic plan: the time limit for all statements was reached"
    assert "the time limit for all statements was reached" in observed(collector).missing


def test_the_cheapest_statements_are_run_first(
    with_rows: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans_module, "TIMEOUT_S", 5.0)
    monkeypatch.setattr(plans_module, "RUNNING_BUDGET_S", 0.3)
    slow = Example("t", "SELECT pg_sleep(0.5), count(*) FROM rows")
    _, cheap = plans_of(with_rows, slow, Example("t", "SELECT 1"))
    assert cheap.analyzed is not None


def test_what_has_no_plan_is_left_out(with_rows: Cluster) -> None:
    examples = [Example("t", text) for text in ("BEGIN", "/* of ours */ END;", "CALL p()")]
    (reason,) = recordings_of(look(with_rows, *examples)).missing.values()
    assert reason == "the workload does not declare its statements"


def test_a_driver_that_cannot_tell_is_a_reason(with_rows: Cluster) -> None:
    def refuse() -> Sequence[Example]:
        raise DriverError("load driver is not installed")

    collector = Plans()
    with with_rows.connect() as connection:
        collector.afterwards(Observer(with_rows, connection, refuse))
    assert observed(collector).missing.endswith("load driver is not installed")


@newest
def test_every_statement_of_tpcc_and_of_pgbench_has_plans(
    running: Callable[..., Cluster], driver: Driver
) -> None:
    cluster = running()
    for workload in (Tpcc(), Pgbench()):
        workload.populate(Loading(driver, cluster.target, 1, 1, 120, lambda line: None))
        plans = plans_of(cluster, *workload.sends(driver, seed=1))
        assert plans
        for plan in plans:
            assert plan.missing == "", plan.query
            assert plan.generic is not None, plan.query
            assert plan.custom is not None, plan.query
        assert {plan.transaction for plan in plans} == set(workload.transactions)
        assert any(plan.analyzed for plan in plans)


@pytest.fixture(scope="module")
def driver() -> Driver:
    from pgdrag.driver.process import find_driver

    return Driver(Path(find_driver()))
