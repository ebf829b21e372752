"""The driver as Python runs it, on a real server."""

from __future__ import annotations

import math

import pytest
from loads import PACED

from pgdrag.driver.contract import IntervalLine, Line
from pgdrag.model.events import ignore
from pgdrag.model.load import LoadProfile
from pgdrag.trial import ServerTrialRunner
from pgdrag.workloads.tpcc import Tpcc

WORKLOAD = Tpcc(warehouses=1)


def test_a_window_of_whole_seconds_has_that_many_samples(bench: ServerTrialRunner) -> None:
    load = LoadProfile(
        connections=2, warm_up_s=0, measure_s=2, budget_s=2, min_commits=0, pacing=PACED
    )
    with bench.snapshot(WORKLOAD, ignore).restore(bench.scratch, bench.binaries).cluster as cluster:
        cluster.start()
        found = bench.driver.run(cluster.target, WORKLOAD.job(), load, seed=1)
    assert [round(sample.duration_s, 3) for sample in found.samples] == [1.0, 1.0]
    assert math.isclose(sum(x.duration_s for x in found.samples), found.elapsed_s)
    assert sum(x.committed for x in found.samples) == found.total.committed


def test_who_leaves_in_the_middle_leaves_no_statement_running(bench: ServerTrialRunner) -> None:
    class Left(BaseException):
        pass

    def leave(line: Line) -> None:
        if isinstance(line, IntervalLine):
            raise Left

    load = LoadProfile(connections=4, warm_up_s=0, measure_s=60, budget_s=60)
    with bench.snapshot(WORKLOAD, ignore).restore(bench.scratch, bench.binaries).cluster as cluster:
        # Every statement reads whole tables, through the smallest of caches.
        cluster.configure(
            {"random_page_cost": "1e300", "cpu_index_tuple_cost": "1e300", "shared_buffers": "1MB"}
        )
        cluster.start()
        with pytest.raises(Left):
            bench.driver.run(cluster.target, WORKLOAD.job(), load, seed=1, listen=leave)
        with cluster.connect(application_name="witness") as connection:
            ((left,),) = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgdrag'"
            ).fetchall()
    assert left == 0
