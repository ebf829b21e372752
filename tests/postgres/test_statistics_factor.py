"""The planner's statistics as after an upgrade, analysed, or carried over; and no later trial has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from loads import SHORT

from pgdrag.factors import Here
from pgdrag.factors.statistics import Statistics
from pgdrag.model import Applied, Level, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import ignore
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.trial import ServerTrialRunner, run_trial

TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE odd (id int PRIMARY KEY, name text, tags text[], span int4range, feeling mood, "Größe" numeric);
INSERT INTO odd SELECT i, 'name, "' || i % 7 || '"', ARRAY['a', 'b' || i % 3], int4range(i, i + 9),
       CASE WHEN i % 3 = 0 THEN 'sad' ELSE 'glad' END::mood, i / 7.0
  FROM generate_series(1, 5000) AS i;
CREATE INDEX odd_lower ON odd (lower(name));
CREATE STATISTICS odd_stats ON name, feeling FROM odd;
ANALYZE odd;
"""
KNOWN = "SELECT * FROM pg_stats WHERE tablename IN ('odd', 'odd_lower') ORDER BY tablename, attname"
SIZES = "SELECT relname, relpages, reltuples FROM pg_class WHERE relname IN ('odd', 'odd_pkey') ORDER BY 1"
ESTIMATE = "EXPLAIN (FORMAT JSON) SELECT * FROM odd WHERE feeling = 'sad'"


Asked = Callable[[str], tuple[Cluster, Applied]]


@pytest.fixture
def asked(running: Callable[..., Cluster]) -> Asked:
    """Loads a table, asks for statistics of it, and returns the cluster and what was read back."""

    def of(value: str) -> tuple[Cluster, Applied]:
        cluster = running()
        with cluster.connect() as connection:
            connection.execute("DROP TYPE IF EXISTS mood CASCADE")
            for statement in TABLES.strip().split(";\n"):
                connection.execute(statement.encode())
        factor = Statistics()
        factor.after_start(cluster, {"planner": value})
        [found] = factor.read_back(cluster, {"planner": value})
        return cluster, found

    return of


def rows(cluster: Cluster, query: str) -> list[tuple[object, ...]]:
    with cluster.connect() as connection:
        return connection.execute(query.encode()).fetchall()


def estimate(cluster: Cluster) -> float:
    [(plan,)] = rows(cluster, ESTIMATE)
    return float(plan[0]["Plan"]["Plan Rows"])


def test_missing_leaves_nothing_known_and_the_planner_guesses(asked: Asked) -> None:
    cluster, found = asked("missing")
    assert (found.effective, found.default, found.note) == ("missing", "fresh", "")
    assert not rows(cluster, KNOWN)
    assert rows(cluster, SIZES) == [("odd", 0, -1.0), ("odd_pkey", 0, -1.0)]
    assert estimate(cluster) < 100  # of 1,666


def test_fresh_is_what_analyze_finds(asked: Asked) -> None:
    cluster, found = asked("fresh")
    assert (found.effective, found.default, found.note) == ("fresh", "fresh", "")
    assert 1500 < estimate(cluster) < 1800


def test_transferred_restores_all_but_extended_statistics(
    asked: Asked, telling_version: str
) -> None:
    if int(telling_version) < 18:
        pytest.skip("PostgreSQL restores statistics since version 18")
    cluster, _ = asked("fresh")
    was, sizes = rows(cluster, KNOWN), rows(cluster, SIZES)
    factor = Statistics()
    factor.after_start(cluster, {"planner": "transferred"})
    [found] = factor.read_back(cluster, {"planner": "transferred"})
    assert (found.effective, found.default, found.note) == ("transferred", "fresh", "")
    assert rows(cluster, KNOWN) == was
    assert rows(cluster, SIZES) == sizes
    assert rows(cluster, "SELECT count(*) FROM pg_statistic_ext_data") == [(0,)]
    assert 1500 < estimate(cluster) < 1800


def test_the_server_stops_so_that_no_later_trial_has_these_statistics(any_cluster: Cluster) -> None:
    any_cluster.start()
    factor = Statistics()
    factor.undo(any_cluster)
    assert any_cluster.is_running()  # nothing was changed
    factor.after_start(any_cluster, {"planner": "fresh"})
    factor.undo(any_cluster)
    assert not any_cluster.is_running()


def test_a_trial_runs_without_statistics_and_the_next_begins_with_the_dataset_anew(
    bench: ServerTrialRunner,
) -> None:
    reads = WorkloadSpec(
        "pgbench", {"scripts": ["select-only"]}
    )  # leaves its server to the next trial
    levels = (Level("statistics", "planner", "missing"),)
    treatments = (Treatment("missing", levels), Treatment("as loaded"), Treatment("again"))
    found = [
        run_trial(Trial(number, 1, 1, treatment, reads, SHORT, seed=1), bench, ignore)
        for number, treatment in enumerate(treatments, 1)
    ]
    assert [x.outcome for x in found] == 3 * [Outcome.MEASURED], [x.reason for x in found]
    [applied] = found[0].applied
    assert (applied.effective, applied.note) == ("missing", "")
    assert [x.restored is None for x in found[1:]] == [False, True]


@pytest.mark.parametrize(
    ("name", "value", "version_num", "is_mistake", "words"),
    [
        ("planner", "stale", 180006, True, 'cannot be "stale"'),
        ("plannner", "missing", 180006, True, 'no "plannner"'),
        ("planner", "transferred", 170001, False, "PostgreSQL 17 cannot restore statistics"),
    ],
)
def test_what_cannot_be_had_says_why(
    name: str, value: str, version_num: int, is_mistake: bool, words: str
) -> None:
    here = Here(SettingsCatalog(version_num, {}), SettingsCatalog(180006, {}))
    problem = Statistics().problem(Level("statistics", name, value), here)
    assert problem is not None
    assert (problem.is_mistake, words in problem.message) == (is_mistake, True)
