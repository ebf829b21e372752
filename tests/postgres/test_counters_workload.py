"""Counters under concurrency: which variants lose updates, and that a loss is caught whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pgdrag.model import Instrument, Level, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import DriverCost, Measurement, Sum
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner, run_trial
from pgdrag.workloads import Loading
from pgdrag.workloads import counters as counters_module
from pgdrag.workloads.counters import CATALOGUE, Counters, Variant

# So few counters that sessions meet, whatever the machine.
ROWS = 2
CROWD = LoadProfile(connections=8, warm_up_s=0, measure_s=0.2, budget_s=30, min_commits=500)
CHECK_S = 60.0
# Between the look for the newest version and the update another session may move it.
LOSES = {"C3", "C5", "C8"}
MODES = ("simple", "extended", "prepared")
READ_THEN_WRITE_BACK = """SELECT cnt FROM global_counters WHERE id = :b_id \\gset
UPDATE global_counters SET cnt = :cnt + :v_delta WHERE id = :b_id"""


@pytest.fixture
def connection(shared_cluster: Cluster) -> Iterator[psycopg.Connection]:
    with shared_cluster.connect() as connection:
        tables = "global_counters, global_counter_deltas, global_counter_marks, global_counter_balances, pgbench_branches"
        connection.execute(f"DROP TABLE IF EXISTS {tables}".encode())
        yield connection


def counters(variant: str, mode: str = "simple") -> Counters:
    return Counters.model_validate({"variant": variant, "rows": ROWS, "statements": mode})


def populated(workload: Counters, bench: ServerTrialRunner, cluster: Cluster) -> Counters:
    workload.populate(Loading(bench.driver, cluster.target, 1, 1, 60, lambda line: None))
    return workload


def run(
    workload: Counters, bench: ServerTrialRunner, cluster: Cluster
) -> tuple[Measurement, list[str]]:
    populated(workload, bench, cluster)
    measured = bench.driver.run(cluster.target, workload.job(), CROWD, seed=3)
    assert measured.total.failed == 0, measured.errors
    found = workload.violations(bench.driver, cluster.target, measured, timeout_s=CHECK_S)
    return measured, list(found)


@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize(
    ("variant", "mode"),
    [(x, MODES[at % 3]) for at, x in enumerate(CATALOGUE) if x not in ("C10", "talk")],
)
def test_exactly_the_variants_with_a_look_before_the_update_and_no_lock_lose_updates(
    variant: str, mode: str, bench: ServerTrialRunner, shared_cluster: Cluster
) -> None:
    """Every one has one row for each counter to the end, with a unique index or without."""
    measured, found = run(counters(variant, mode), bench, shared_cluster)
    deltas = measured.sums["v_delta"]
    assert deltas.committed >= measured.total.committed
    assert deltas.unknown == 0
    assert (deltas.untouched > 0) == (variant in LOSES)
    lost = f"{deltas.untouched:,} of {deltas.committed:,} updates were lost: the deltas sum to "
    assert [one[: len(lost)] for one in found] == ([lost] if variant in LOSES else [])


@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize(
    ("variant", "mode"), [("talk", "simple"), ("C10", "prepared"), ("locks", "extended")]
)
def test_readers_and_temporary_tables_beside_the_updates_change_no_sum(
    variant: str, mode: str, bench: ServerTrialRunner, shared_cluster: Cluster
) -> None:
    several = {"rows": 8, "counters_per_transaction": 3} if variant == "locks" else {}
    mixed = counters(variant, mode).model_copy(
        update={"reads": 40, "temporary_tables": 10, **several}
    )
    measured, found = run(mixed, bench, shared_cluster)
    assert found == []
    assert set(measured.transactions) == {"add", "read", "temporary table"}
    assert all(counted.committed for counted in measured.transactions.values())


def test_a_lock_for_each_counter_fills_the_servers_lock_table(bench: ServerTrialRunner) -> None:
    """By one session that asks for more than there is room for: others still connect, most of the time."""
    treatment = Treatment("T", (Level("setting", "max_locks_per_transaction", "10"),))
    spec = WorkloadSpec(
        "counters", {"variant": "locks", "rows": 100_000, "counters_per_transaction": 8000}
    )
    # Time enough for one transaction, also on a busy machine.
    brief = replace(CROWD, connections=1, min_commits=0, measure_s=5)
    result = run_trial(Trial(1, 1, 1, treatment, spec, brief, seed=1), bench)
    assert result.measurement is not None, result.reason
    [error] = result.measurement.errors
    assert error[1:3] == ("53200", "out of shared memory")
    assert result.violations == ()


@pytest.mark.parametrize("mode", MODES)
def test_a_ledger_that_is_rolled_up_meanwhile_loses_nothing(
    mode: str,
    connection: psycopg.Connection,
    bench: ServerTrialRunner,
    shared_cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rolled up twenty times as often, so that there is always one under way."""
    often = CATALOGUE["C10"].then.replace("random(1, 1000)", "random(1, 50)")
    catalogue(monkeypatch, "C10", replace(CATALOGUE["C10"], then=often))
    measured, found = run(counters("C10", mode), bench, shared_cluster)
    assert found == []
    query = b"""SELECT (SELECT count(*) FROM global_counter_marks), (SELECT sum(delta) FROM global_counter_deltas),
        (SELECT count(*) FROM global_counter_deltas WHERE seq > (SELECT max(upto) FROM global_counter_marks))"""
    marks, total, behind = connection.execute(query).fetchone() or (0, 0, 0)
    assert marks > 5
    assert behind < measured.sums["v_delta"].committed / 2
    # What the ledger says without any roll-up.
    assert total == measured.sums["v_delta"].sum


def test_a_variant_that_reads_and_writes_back_is_caught_and_keeps_its_measurement(
    bench: ServerTrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It touches a row each time; only the sum tells."""
    catalogue(monkeypatch, "C1", replace(CATALOGUE["C1"], statement=READ_THEN_WRITE_BACK))
    treatment = Treatment("T", (Level("workload", "rows", "1"),))
    spec = WorkloadSpec("counters", {"variant": "C1"})
    result = run_trial(Trial(1, 1, 1, treatment, spec, CROWD, seed=1), bench)
    assert result.outcome is Outcome.INVALID
    assert result.reason.startswith("updates were lost: the deltas sum to ")
    assert result.measurement is not None
    assert result.measurement.total.committed >= 500
    assert result.measurement.sums["v_delta"].untouched == 0


def test_the_check_allows_for_transactions_of_which_nobody_knows_and_says_so(
    bench: ServerTrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session now and then ends in the middle of its transaction."""
    add = f"BEGIN;\n{CATALOGUE['C1'].statement};\n\\set dies random(1, 40)\n\\if :dies = 1\n"
    add += "SELECT pg_terminate_backend(pg_backend_pid());\n\\endif\nEND"
    catalogue(monkeypatch, "C1", replace(CATALOGUE["C1"], statement=add))
    brief = replace(CROWD, min_commits=200)
    spec = WorkloadSpec("counters", {"variant": "C1"})
    trial = Trial(1, 1, 1, Treatment("T"), spec, brief, seed=1, instrument=Instrument("off"))
    result = run_trial(trial, bench)
    assert (result.outcome, result.violations) == (Outcome.MEASURED, ()), result.reason
    assert result.measurement is not None
    unknown = result.measurement.sums["v_delta"].unknown
    assert unknown > 0
    assert f"of {unknown} transactions nobody knows whether they committed" in result.warnings[-1]


@pytest.mark.parametrize(
    ("variant", "damage"),
    [
        ("C5", "INSERT INTO global_counters VALUES (1, 1000000)"),
        ("C5", "DELETE FROM global_counters WHERE id = 2"),
        ("C1", "UPDATE global_counters SET id = 3 WHERE id = 2"),
        ("C10", "DELETE FROM global_counter_balances WHERE id = 1"),
    ],
)
def test_a_counter_that_is_twice_there_or_not_at_all_is_a_violation(
    variant: str,
    damage: str,
    connection: psycopg.Connection,
    bench: ServerTrialRunner,
    shared_cluster: Cluster,
) -> None:
    workload = populated(counters(variant), bench, shared_cluster)
    nothing = Measurement(
        1.0, "deadline", {}, {}, (), DriverCost(0, 0), sums={"v_delta": Sum(0, 0)}
    )
    look: Any = lambda: workload.violations(  # noqa: E731
        bench.driver, shared_cluster.target, nothing, timeout_s=CHECK_S
    )
    assert look() == ()
    connection.execute(damage.encode())
    connection.commit()
    (sentence,) = look()
    assert sentence.endswith("ids do not have exactly one counter")


def catalogue(monkeypatch: pytest.MonkeyPatch, name: str, variant: Variant) -> None:
    monkeypatch.setattr(counters_module, "CATALOGUE", {**CATALOGUE, name: variant})
