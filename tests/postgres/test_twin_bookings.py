"""Does a twin book rooms that are free, as its original does, which looks before?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from conftest import newest
from logged_load import LOGGED, load_running
from pgdrag.capture.log.source import LogRequest
from pgdrag.capture.twin import TwinCapture
from pgdrag.data_twin.load import driving_load, prepare_load, preparing
from pgdrag.data_twin.making import restore_rows
from pgdrag.driver.connection_string import reach
from pgdrag.driver.process import Driver, find_driver
from pgdrag.model.load import LoadProfile
from pgdrag.servers.cluster import Cluster
from pgdrag.twins.model import Twin
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script

pytestmark = newest

HOTEL = """
CREATE TABLE room (id int PRIMARY KEY, kind text NOT NULL);
INSERT INTO room SELECT i, 'kind ' || i % 7 FROM generate_series(1, 2000) AS i;
CREATE TABLE stay (room int NOT NULL REFERENCES room, day int NOT NULL, guest int NOT NULL, PRIMARY KEY (room, day));
INSERT INTO stay SELECT r, d, 1 + (r * 7 + d) % 5000 FROM generate_series(1, 2000) AS r, generate_series(1, 200) AS d
                  WHERE hashint4(r * 1000 + d) % 10 IN (0, 1, -1, -2);
ANALYZE;
"""
BOOKS = """
\\set room random(1, 2000)
\\set day random(1, 200)
\\set guest random(1, 5000)
\\set taken 0
BEGIN;
SELECT kind FROM room WHERE id = :room;
SELECT 1 AS taken FROM stay WHERE room = :room AND day = :day \\aset
\\if :taken = 0
INSERT INTO stay (room, day, guest) VALUES (:room, :day, :guest) ON CONFLICT DO NOTHING;
\\endif
END;
"""
LOAD = LoadProfile(connections=3, warm_up_s=0.3, measure_s=60, budget_s=60)
# Short: what was booked is not free again.
CHECK = LoadProfile(connections=3, warm_up_s=0.1, measure_s=0.4, budget_s=20, min_commits=600)


def captured(cluster: Cluster) -> Twin:
    """Return a twin of the hotel at work, with its log."""
    with cluster.connect() as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
    with cluster.connect(role=cluster.load_role) as connection:
        connection.execute(HOTEL.encode())
    job = pgbench_job((Script(name="books", weight=1, text=BOOKS),), scale=1, statements="prepared")
    with load_running(cluster, job, LOAD):
        log = LogRequest((Path(cluster.log_directory),))
        return TwinCapture(reach(cluster.conninfo()), log=log).run(5)


def test_what_is_booked_was_free(
    telling_version: str, new_cluster: Callable[[str], Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_cluster(telling_version) as cluster:
        cluster.configure(LOGGED)
        cluster.start()
        twin = captured(cluster)
    look = next(x for x in twin.workload.statements if "AS taken" in x.text)
    booked = next(x for x in twin.workload.statements if x.text.startswith("INSERT INTO stay"))
    assert 0.2 < look.rows / look.calls < 0.8
    assert booked.rows == pytest.approx(booked.calls, rel=0.01)
    monkeypatch.setattr(preparing, "_SHARED_S", 1.0)
    monkeypatch.setattr(preparing, "_LEAST_S", 0.2)
    with new_cluster(telling_version) as cluster:
        cluster.configure({"fsync": "off", "autovacuum": "off"})
        cluster.start()
        with cluster.connect(role=cluster.load_role) as connection:
            connection.autocommit = True
            restore_rows(connection, twin, scale=1, seed=1, step=lambda *_: None)
            prepare_load(connection, twin, seed=1)
            driver = Driver(find_driver())
            with driving_load(twin, driver, cluster.target, CHECK, seed=1, listen=lambda _: None) as driving:  # fmt: skip
                driving.warm_up()
                before = stays(connection)
                found = driving.measure()
            after = stays(connection)
    kinds = {name: x.committed for name, x in found.transactions.items()}
    books = next(count for name, count in kinds.items() if "INSERT" in name)
    assert books / sum(kinds.values()) == pytest.approx(1 - look.rows / look.calls, abs=0.02)
    assert after - before >= 0.95 * books


def stays(connection: psycopg.Connection) -> int:
    [(count,)] = connection.execute("SELECT count(*) FROM stay").fetchall()
    return int(count)
