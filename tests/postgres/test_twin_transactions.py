"""Does a twin run its original's transactions? Numbers that a counter gives, rows beneath them, and a queue that is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from pgdrag.model.measurement import Measurement
from pgdrag.servers.cluster import Cluster
from pgdrag.twins.model import Twin
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script

pytestmark = newest

# Owners are numbered over all sites, so that few pairs of a site and a number are somebody.
OFFICE = """
CREATE TABLE site (id int PRIMARY KEY, title text NOT NULL);
INSERT INTO site SELECT i, 'site ' || i FROM generate_series(1, 4) AS i;
CREATE TABLE lane (site int NOT NULL REFERENCES site, number int NOT NULL, next_ticket int NOT NULL, PRIMARY KEY (site, number));
INSERT INTO lane SELECT i, n, 301 FROM generate_series(1, 4) AS i, generate_series(1, 5) AS n;
CREATE TABLE owner (site int NOT NULL REFERENCES site, number int NOT NULL, served int NOT NULL DEFAULT 0, PRIMARY KEY (site, number));
INSERT INTO owner SELECT 1 + i % 4, i, 0 FROM generate_series(1, 2000) AS i;
CREATE TABLE article (id int PRIMARY KEY, title text NOT NULL, stock int NOT NULL);
INSERT INTO article SELECT i, 'article ' || i, 1000 FROM generate_series(1, 3000) AS i;
CREATE TABLE ticket (site int NOT NULL, lane int NOT NULL, number int NOT NULL, owner int NOT NULL, done timestamptz,
                     PRIMARY KEY (site, lane, number), FOREIGN KEY (site, lane) REFERENCES lane, FOREIGN KEY (site, owner) REFERENCES owner);
INSERT INTO ticket SELECT i, n, k, 4 * (1 + (k * 7 + n) % 499) + i - 1, CASE WHEN k < 200 THEN timestamptz '2026-01-01' + k * interval '1 min' END
                     FROM generate_series(1, 4) AS i, generate_series(1, 5) AS n, generate_series(1, 300) AS k;
CREATE TABLE waiting (site int NOT NULL, lane int NOT NULL, ticket int NOT NULL, PRIMARY KEY (site, lane, ticket), FOREIGN KEY (site, lane, ticket) REFERENCES ticket);
INSERT INTO waiting SELECT site, lane, number FROM ticket WHERE number >= 200;
CREATE TABLE parcel (site int NOT NULL, lane int NOT NULL, ticket int NOT NULL, place int NOT NULL, article int NOT NULL REFERENCES article,
                     PRIMARY KEY (site, lane, ticket, place), FOREIGN KEY (site, lane, ticket) REFERENCES ticket);
INSERT INTO parcel SELECT site, lane, number, p, 1 + (number * 31 + p * 17) % 3000 FROM ticket, generate_series(1, 3) AS p;
CREATE TABLE likes (site int NOT NULL, owner int NOT NULL, article int NOT NULL REFERENCES article, PRIMARY KEY (site, owner, article), FOREIGN KEY (site, owner) REFERENCES owner);
INSERT INTO likes SELECT site, number, 1 + (number * 13) % 3000 FROM owner;
ANALYZE;
"""
DRAWN = """
\\set site random(1, 4)
\\set lane random(1, 5)
\\set owner 4 * random(1, 499) + :site - 1
"""
ITEM = """
\\set article random(1, 3000)
UPDATE article SET stock = stock - 1 WHERE id = :article;
INSERT INTO parcel (article, ticket, place, site, lane) VALUES (:article, :next_ticket, {place}, :site, :lane);
"""
COMES = f"""{DRAWN}
BEGIN;
SELECT next_ticket FROM lane WHERE site = :site AND number = :lane FOR UPDATE \\gset
UPDATE lane SET next_ticket = next_ticket + 1 WHERE site = :site AND number = :lane;
INSERT INTO ticket (number, lane, site, owner) VALUES (:next_ticket, :lane, :site, :owner);
INSERT INTO waiting (ticket, lane, site) VALUES (:next_ticket, :lane, :site);
{"".join(ITEM.format(place=place) for place in (1, 2, 3))}
END;
"""
SERVED = f"""{DRAWN}
\\set ticket 0
BEGIN;
SELECT ticket FROM waiting WHERE site = :site AND lane = :lane ORDER BY ticket LIMIT 1 \\aset
DELETE FROM waiting WHERE ticket = :ticket AND site = :site AND lane = :lane;
SELECT owner AS who FROM ticket WHERE number = :ticket AND site = :site AND lane = :lane \\aset
UPDATE ticket SET done = now() WHERE site = :site AND lane = :lane AND number = :ticket;
UPDATE owner SET served = served + 1 WHERE site = :site AND number = :who;
END;
"""
LIKED = f"""{DRAWN}
\\set article random(1, 3000)
INSERT INTO likes (site, owner, article) VALUES (:site, :owner, :article);
"""
SCRIPTS = tuple(
    Script(name=name, weight=weight, text=text)
    for name, weight, text in (("comes", 5, COMES), ("is served", 4, SERVED), ("likes", 2, LIKED))
)
LOAD = LoadProfile(connections=3, warm_up_s=0.3, measure_s=60, budget_s=60)
# On a busy machine it goes on until there are enough transactions to judge.
CHECK = LoadProfile(connections=3, warm_up_s=0.2, measure_s=1.5, budget_s=20, min_commits=600)


@pytest.fixture(scope="module")
def captured(telling_version: str, new_cluster: Callable[[str], Cluster]) -> Iterator[tuple[Twin, Twin]]:  # fmt: skip
    """Twins of the office at work: from its statistics alone, and with its log."""
    with new_cluster(telling_version) as cluster:
        cluster.configure(LOGGED)
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
        with cluster.connect(role=cluster.load_role) as connection:
            connection.execute(OFFICE.encode())
        job = pgbench_job(SCRIPTS, scale=1, statements="prepared")
        with load_running(cluster, job, LOAD):
            server = reach(cluster.conninfo())
            logged = TwinCapture(server, log=LogRequest((Path(cluster.log_directory),))).run(2)
            plain = TwinCapture(server).run(2)
        yield plain, logged


@pytest.fixture(scope="module", params=["statistics", "log"])
def driven(
    request: pytest.FixtureRequest, captured: tuple[Twin, Twin], telling_version: str,
    new_cluster: Callable[[str], Cluster],
) -> Iterator[tuple[Measurement, psycopg.Connection, int]]:  # fmt: skip
    """What the twin's load did on the twin's rows, and the largest number of a ticket before."""
    twin = captured[request.param == "log"]
    with new_cluster(telling_version) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "_SHARED_S", 1.0)
        patch.setattr(preparing, "_LEAST_S", 0.2)
        cluster.configure({"fsync": "off", "autovacuum": "off"})
        cluster.start()
        with cluster.connect(role=cluster.load_role) as connection:
            connection.autocommit = True
            restore_rows(connection, twin, scale=1, seed=1, step=lambda *_: None)
            prepare_load(connection, twin, seed=1)
            [(last,)] = connection.execute("SELECT max(number) FROM ticket").fetchall()
            driver = Driver(find_driver())
            with driving_load(twin, driver, cluster.target, CHECK, seed=1, listen=lambda _: None) as driving:  # fmt: skip
                driving.warm_up()
                yield driving.measure(), connection, last


def test_next_to_no_transaction_fails(driven: tuple[Measurement, psycopg.Connection, int]) -> None:
    found, _, _ = driven
    assert found.total.committed > 100
    assert found.total.failed <= 0.01 * found.total.committed, found.errors


def test_tickets_have_their_parcels_and_wait_until_they_are_served(
    driven: tuple[Measurement, psycopg.Connection, int],
) -> None:
    _, connection, last = driven
    [(tickets, parcels)] = connection.execute(
        "SELECT count(*), avg((SELECT count(*) FROM parcel AS p WHERE (p.site, p.lane, p.ticket) = (t.site, t.lane, t.number))) FROM ticket AS t WHERE number > %s",
        (last,),
    ).fetchall()  # fmt: skip
    assert tickets > 20
    assert float(parcels) == pytest.approx(3, abs=0.1)
    [(served, late)] = connection.execute(
        "SELECT (SELECT sum(served) FROM owner), count(*) FILTER (WHERE EXISTS (SELECT FROM waiting AS w WHERE (w.site, w.lane, w.ticket) = (t.site, t.lane, t.number))) FROM ticket AS t WHERE number <= %s AND done > now() - interval '1 hour'",
        (last,),
    ).fetchall()  # fmt: skip
    # Who is served has left the queue.
    assert (served > 20, late) == (True, 0)
