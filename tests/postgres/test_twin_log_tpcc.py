"""Does the log of TPC-C show its five transactions, in their mix, with the rounds of New-Order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import dsn

from conftest import VERSIONS
from in_process import pgdrag
from pgdrag.capture.log.files import LocalLog
from pgdrag.capture.log.reading import LogReader
from pgdrag.servers.channel import LOG_NAME
from pgdrag.servers.cluster import Cluster
from pgdrag.twins.transactions import LoggedTransactions, TransactionShape

# TPC-C 5.2.3, with one part in a hundred for the rest: New-Order has what the others leave.
MIX = {"new_order": 0.45, "payment": 0.43, "order_status": 0.04, "delivery": 0.04, "stock_level": 0.04}  # fmt: skip


@pytest.fixture(scope="module")
def found(new_cluster: Callable[[str], Cluster]) -> Iterator[LoggedTransactions]:
    """What the log of some seconds of TPC-C shows."""
    with new_cluster(VERSIONS[0]) as cluster:
        cluster.configure({"log_destination": "csvlog", "fsync": "off"})
        cluster.start()
        assert pgdrag("tpcc", "load", dsn(cluster), "--warehouses", "1")[0] == 0
        with cluster.connect() as connection:
            connection.execute("ALTER SYSTEM SET log_min_duration_statement = 0")
            connection.execute("SELECT pg_reload_conf()")
        status, _, err = pgdrag(
            "tpcc", "run", dsn(cluster), "-c", "4", "-T", "4", "--warm-up", "0", "-y"
        )
        assert status == 0, err
        path: Path = cluster.log_directory / f"{LOG_NAME}.csv"
        yield LogReader([], "pgdrag").read([LocalLog(path)]).transactions()


def kind(found: LoggedTransactions, shape: TransactionShape) -> str:
    texts = {x.number: x.text for x in found.statements}
    words = " ".join(texts[x.statement] for x in shape.steps)
    marks = {"INSERT INTO oorder": "new_order", "INSERT INTO history": "payment", "DELETE FROM new_order": "delivery", "count(DISTINCT s_i_id)": "stock_level", "SELECT o_id, o_carrier_id": "order_status"}  # fmt: skip
    return next((name for mark, name in marks.items() if mark in words), "")


def test_the_mix_is_that_of_the_benchmark(found: LoggedTransactions) -> None:
    counts: Counter[str] = Counter()
    for shape in found.shapes:
        if shape.is_block:
            counts[kind(found, shape)] += shape.transactions
    total = counts.total() - counts[""]
    assert total > 100
    for name, share in MIX.items():
        # Four standard deviations of a count by lot.
        assert abs(counts[name] / total - share) < 4 * (share * (1 - share) / total) ** 0.5, counts


def test_new_orders_items_are_the_rounds_of_loops_that_run_alike(found: LoggedTransactions) -> None:
    (shape,) = [x for x in found.shapes if kind(found, x) == "new_order" and x.ending == "commit"]
    first, *others = shape.loops
    assert {times for times, _ in first.repeats} <= set(range(5, 16))
    mean = sum(times * share for times, share in first.repeats)
    assert 9 < mean < 11
    assert others
    assert {x.like for x in others} == {1}
    links = {(x.step, x.parameter): x for x in shape.links}
    inserted = others[0].first
    # The n-th line has the n-th item, and the number n.
    assert any(x.source == "loop" and x.from_step == first.first for x in links.values())
    assert (links[inserted, 4].source, links[inserted, 4].differences) == ("round", (1.0,))
