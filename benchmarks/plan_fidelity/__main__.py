"""Are the plans of a twin without rows those of the original? `python -m benchmarks.plan_fidelity`.

For pgbench, TPC-C and a shop with partitions, jsonb and text search: a server with rows runs each statement while `pgdrag
capture twin` looks; then each statement of the twin is planned on the server with rows and on the plan twin, under each of
many treatments. It prints how many plans have the same form, how many the same cost, and how many of the plans that a
treatment changes on the one are changed on the other.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pgdrag.capture.twin import TwinCapture
from pgdrag.driver.connection_string import reach
from pgdrag.driver.process import Driver, find_driver
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK
from pgdrag.findings.plan_diff import plan_diff
from pgdrag.findings.plan_nodes import number_of
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Plan
from pgdrag.planning.explaining import PlanningSession
from pgdrag.planning.plan_twin import running_plan_twin
from pgdrag.servers.binaries import Binaries, find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.datasets import provide_snapshot
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep
from pgdrag.twins.mending import GENERIC_SINCE
from pgdrag.twins.model import Statement, Twin
from pgdrag.workloads import Workload, all_workloads

HERE = Path(__file__).parent
SETTINGS = {"autovacuum": "off", "fsync": "off", "shared_preload_libraries": "pg_stat_statements"}
WINDOW_S = 20.0
GOAL = 0.98
TREATMENTS: tuple[Mapping[str, str], ...] = (
    {},
    {"random_page_cost": "1.1"},
    {"seq_page_cost": "0.1", "random_page_cost": "0.1"},
    {"effective_cache_size": "32MB"},
    {"effective_cache_size": "64GB"},
    {"work_mem": "64kB"},
    {"work_mem": "256MB"},
    {"hash_mem_multiplier": "1"},
    {"cpu_tuple_cost": "0.1"},
    {"cpu_index_tuple_cost": "0.1"},
    {"jit_above_cost": "100"},
    {"enable_hashjoin": "off"},
    {"enable_nestloop": "off"},
    {"enable_mergejoin": "off"},
    {"enable_hashjoin": "off", "enable_nestloop": "off"},
    {"enable_seqscan": "off"},
    {"enable_indexscan": "off"},
    {"enable_bitmapscan": "off"},
    {"enable_hashagg": "off"},
    {"max_parallel_workers_per_gather": "0"},
    {"max_parallel_workers_per_gather": "6", "min_parallel_table_scan_size": "0"},
    {"enable_partitionwise_join": "on", "enable_partitionwise_aggregate": "on"},
    {"join_collapse_limit": "1", "from_collapse_limit": "1"},
    {"geqo_threshold": "2"},
)


Both = tuple[Plan | str, Plan | str]  # of the original and of the twin


@dataclass
class Fidelity:
    """What plans on the twin came to.

    Attributes:
        plans: statements times treatments, where both have a plan.
        found, missed, invented: plans that a treatment changes on both, on the original only, on the twin only.
    """

    plans: int = 0
    alike: int = 0
    same_cost: int = 0
    found: int = 0
    missed: int = 0
    invented: int = 0
    differences: list[str] = field(default_factory=list)
    unplanned: list[str] = field(default_factory=list)

    def add(self, plans: Both, base: Both, what: str) -> None:
        """Count a statement's plans of the original and of the twin, beside those without a treatment."""
        was, now = plans
        if isinstance(was, str) or isinstance(now, str):
            self.unplanned.append(f"{what}: {was if isinstance(was, str) else now}")
            return
        self.plans += 1
        difference = plan_diff(was, now)
        self.alike += not difference
        costs = [number_of(x, "Total Cost") for x in plans if not isinstance(x, str)]
        self.same_cost += abs(costs[1] - costs[0]) <= 0.01 * costs[0] + 0.01
        if difference:
            self.differences.append(f"{what}: {difference}")
        flips = [
            bool(plan_diff(one, other))
            for one, other in zip(base, plans, strict=True)
            if not isinstance(one, str) and not isinstance(other, str)
        ]
        self.found += flips == [True, True]
        self.missed += flips == [True, False]
        self.invented += flips == [False, True]


def main() -> int:
    """Plan everything, and print how alike the plans are."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plan_fidelity", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--postgres", action="append", metavar="WHICH", help="server; repeatable (default: the embedded one)")  # fmt: skip
    parser.add_argument("--only", choices=("pgbench", "tpcc", "shop"), help="one of the databases")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="differences to print (default: 10)")  # fmt: skip
    asked = parser.parse_args()
    scratch = Scratch.open()
    sweep(scratch)
    whole = Fidelity()
    for version in asked.postgres or [None]:
        binaries = find_binaries(version)
        for name in ("pgbench", "tpcc", "shop"):
            if asked.only in (None, name):
                one = _fidelity(name, binaries, scratch)
                _print(f"{name}, PostgreSQL {binaries.version}", one, asked.show)
                whole.plans, whole.alike = whole.plans + one.plans, whole.alike + one.alike
    return EXIT_DONE if whole.alike >= GOAL * whole.plans else EXIT_FAILED_CHECK


def _print(title: str, one: Fidelity, most: int) -> None:
    print(
        f"{title}: {one.plans} plans, {one.alike / max(one.plans, 1):.1%} of the same form, "
        f"{one.same_cost / max(one.plans, 1):.1%} of the same cost within 1 %; changed by a treatment on both "
        f"{one.found}, on the original only {one.missed}, on the twin only {one.invented}; without a plan "
        f"{len(one.unplanned)}"
    )
    for line in (*one.differences[:most], *dict.fromkeys(one.unplanned)):
        print(f"  {line}")
    sys.stdout.flush()


def _fidelity(name: str, binaries: Binaries, scratch: Scratch) -> Fidelity:
    found = Fidelity()
    with _original(name, binaries, scratch) as (cluster, statements):
        twin = _captured(cluster, statements)
        is_generic = binaries.version_num >= GENERIC_SINCE
        with (
            running_plan_twin(twin, binaries, scratch) as plan_twin,
            plan_twin.session() as planned,
            cluster.connect(role=cluster.load_role) as connection,
        ):
            for note in plan_twin.notes:
                print(f"  {note}")
            original = PlanningSession(connection, is_generic=is_generic)
            base: dict[int, Both] = {}
            for treatment in TREATMENTS:
                for one in _plannable(twin):
                    settings = {"search_path": "public", **treatment}
                    plans = original.plan(one, settings), planned.plan(one, settings)
                    base.setdefault(one.number, plans)
                    found.add(
                        plans, base[one.number], f"{treatment} {' '.join(one.text.split())[:100]}"
                    )
    return found


def _plannable(twin: Twin) -> Iterator[Statement]:
    """Yield the statements of the workload: without those of the capture itself."""
    for one in twin.workload.statements:
        if one.is_plannable and "pg_catalog" not in one.text and "pg_stat" not in one.text:
            yield one


@contextmanager
def _original(
    name: str, binaries: Binaries, scratch: Scratch
) -> Iterator[tuple[Cluster, Sequence[Example]]]:
    """Yield a running server with rows, analysed, and what is to be run on it."""
    if name == "shop":
        with Cluster.create(scratch, binaries) as cluster:
            cluster.initdb()
            with _started(cluster):
                with cluster.connect(role=cluster.load_role) as connection:
                    for file in ("tables.sql", "rows.sql"):
                        connection.execute((HERE / file).read_bytes())
                with cluster.connect() as connection:
                    connection.execute("VACUUM ANALYZE")
                texts = (HERE / "statements.sql").read_text(encoding="utf-8").split(";\n")
                yield cluster, [Example("shop", x.strip()) for x in texts if x.strip()]
        return
    sizes = {
        "pgbench": {"scale": 20, "scripts": ["tpcb-like", "select-only"]},
        "tpcc": {"warehouses": 2},
    }
    workload: Workload = all_workloads()[name].model_validate(sizes[name])
    driver = Driver(find_driver())
    snapshot = provide_snapshot(workload, scratch, binaries, driver, lambda _: None)
    with snapshot.restore(scratch, binaries).cluster as cluster, _started(cluster):
        with cluster.connect() as connection:
            connection.execute("VACUUM ANALYZE")
        yield cluster, workload.sends(driver, seed=1)


@contextmanager
def _started(cluster: Cluster) -> Iterator[None]:
    cluster.configure(SETTINGS)
    cluster.start()
    with cluster.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
    yield


def _captured(cluster: Cluster, statements: Sequence[Example]) -> Twin:
    """Return a twin of the server, on which all statements are run over and over meanwhile."""
    is_over = threading.Event()
    runner = threading.Thread(target=_run, args=(cluster, statements, is_over))
    runner.start()
    try:
        return TwinCapture(reach(cluster.conninfo())).run(WINDOW_S)
    finally:
        is_over.set()
        runner.join()


def _run(cluster: Cluster, statements: Sequence[Example], is_over: threading.Event) -> None:
    with cluster.connect(role=cluster.load_role) as connection:
        connection.execute("SET statement_timeout = '5s'")
        while not is_over.is_set():
            for one in dict.fromkeys(statements):
                connection.execute("BEGIN")
                # Without psycopg's own parameters, so that the text stays as it is.
                values = [None if x is None else x.encode() for x in one.values]
                connection.pgconn.exec_params(one.text.encode(), values)
                connection.execute("ROLLBACK")


if __name__ == "__main__":
    sys.exit(main())
