"""However a server is named, Python's connections and the load driver's sessions come to the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fronts import Front
from tcp import TcpCluster, free_port, has_ipv6

from pgdrag.driver.connection_string import Server, reach
from pgdrag.driver.process import Driver, find_driver
from pgdrag.findings.driver_limits import driver_warnings
from pgdrag.model.load import LoadProfile
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.workloads.pgbench import Script, pgbench_job

pytestmark = pytest.mark.postgres

LOAD = LoadProfile(
    connections=3, warm_up_s=0, measure_s=60, budget_s=60, min_commits=0, transactions=2
)
# Roles with a password by TCP: what is tested is also where it comes from.
HBA = "local all all trust\nhost all guest all scram-sha-256\n"


@pytest.fixture(scope="module")
def servers(scratch: Scratch, binaries: Binaries) -> Iterator[tuple[Cluster, Cluster]]:
    """Two running clusters that listen on all loopback addresses."""
    with (
        TcpCluster.create(scratch, binaries) as first,
        TcpCluster.create(scratch, binaries) as second,
    ):
        for cluster in (first, second):
            cluster.initdb()
            cluster.port = free_port()
            scratch.write_private(cluster.data_directory / "pg_hba.conf", HBA)
            cluster.configure({"fsync": "off", "autovacuum": "off"})
            cluster.start()
            with cluster.connect() as connection:
                connection.execute("CREATE ROLE guest LOGIN PASSWORD 'open sesame'")
        yield first, second


@pytest.fixture(autouse=True)
def home(no_libpq_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home of somebody who has the password in the usual file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    tmp_path.joinpath("pgpass").write_text("*:*:pgdrag:guest:open sesame\n")
    tmp_path.joinpath("pgpass").chmod(0o600)
    return tmp_path


def come_to_the_same(server: Server) -> int:
    """Return the port of the server that all connections come to."""
    with server.connect() as connection:
        ((port,),) = connection.execute("SHOW port").fetchall()
    text = f"SELECT 1 / (current_setting('port') = '{port}')::int;"
    job = pgbench_job((Script(name="one", text=text),), scale=1)
    total = Driver(find_driver()).run(server.target, job, LOAD, seed=1).total
    assert (total.committed, total.failed) == (6, 0)
    return int(port)


NAMES = {
    "a connection string": "host=localhost port={port} user=guest dbname=pgdrag",
    "a URI": "postgresql://guest@localhost:{port}/pgdrag",
    "a URI with a password": "postgresql://guest:open%20sesame@127.0.0.1:{port}/pgdrag?passfile=/nowhere",
    "a Unix socket": "host={socket} port={port} user=guest dbname=pgdrag",
    "a URI of a Unix socket": "postgresql://guest@/pgdrag?host={socket}&port={port}",
    "an address beside the name": "host=db1.example hostaddr=127.0.0.1 port={port} user=guest dbname=pgdrag",
    "several hosts": "host=/nowhere,localhost,127.0.0.1 port=1,{closed},{port} user=guest dbname=pgdrag",
    "IPv6": "host=::1 port={port} user=guest dbname=pgdrag",
    "a URI with IPv6": "postgresql://guest@[::1]:{port}/pgdrag",
    "options": "host=localhost port={port} user=guest dbname=pgdrag options='-c statement_timeout=5min'",
    "keepalives": "host=localhost port={port} user=guest dbname=pgdrag keepalives_idle=9 keepalives_count=3 tcp_user_timeout=9000",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_server_is_found_by(name: str, servers: tuple[Cluster, Cluster]) -> None:
    if "IPv6" in name and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    server, _ = servers
    text = NAMES[name].format(port=server.port, socket=server.socket_directory, closed=free_port())
    assert come_to_the_same(reach(text)) == server.port


def test_the_environment_names_a_server(
    servers: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = servers
    found = {"PGHOST": "localhost", "PGPORT": server.port, "PGUSER": "guest", "PGDATABASE": "pgdrag", "PGPASSWORD": "open sesame", "PGPASSFILE": "/nowhere", "PGOPTIONS": "-c work_mem=1MB"}  # fmt: skip
    for variable, value in found.items():
        monkeypatch.setenv(variable, str(value))
    reached = reach(None)
    assert come_to_the_same(reached) == server.port
    assert reached.target.options == "-c work_mem=1MB"


def test_a_service_file_names_a_server(
    servers: tuple[Cluster, Cluster], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = servers
    lines = f"[bench]\nhost=localhost\nport={server.port}\nuser=guest\ndbname=pgdrag\n"
    home.joinpath("services").write_text(lines)
    monkeypatch.setenv("PGSERVICEFILE", str(home / "services"))
    assert come_to_the_same(reach("service=bench")) == server.port
    monkeypatch.setenv("PGSERVICE", "bench")
    assert come_to_the_same(reach(None)) == server.port
    assert come_to_the_same(reach("postgresql://?service=bench")) == server.port


def test_a_network_that_takes_most_of_the_time_is_named_with_the_rate_that_it_allows(
    servers: tuple[Cluster, Cluster],
) -> None:
    server, _ = servers
    front = Front(server.socket_directory / f".s.PGSQL.{server.port}", None, delays_s=(0.01,))
    text = "BEGIN;\nSELECT 1;\nEND;\n"
    job = pgbench_job((Script(name="three", text=text),), scale=1)
    with front.open():
        far = reach(f"host=127.0.0.1 port={front.port} user=pgdrag dbname=pgdrag")
        measured = Driver(find_driver()).run(
            far.target, job, replace(LOAD, transactions=12), seed=1
        )
    near = Driver(find_driver()).run(reach(server.conninfo()).target, job, LOAD, seed=1)
    # Of those that ran when the window opened, some statements were sent before.
    assert measured.driver.round_trips is not None
    assert 99 <= measured.driver.round_trips <= 117
    assert (measured.driver.round_trip_us or 0) >= 20_000
    (warning,) = [x for x in driver_warnings(measured) if "network" in x]
    assert re.search(r"(2\.[89]|3|3\.[12]) round trips of", warning), warning
    assert not [x for x in driver_warnings(near) if "network" in x]
    assert (near.driver.round_trip_us or 0) > 0


def test_answers_that_wait_for_a_busy_processor_are_no_network(
    servers: tuple[Cluster, Cluster],
) -> None:
    """Other clients connect while a round trip is measured: most of them then take longer than the network does."""
    server, _ = servers
    socket = server.socket_directory / f".s.PGSQL.{server.port}"
    job = pgbench_job((Script(name="one", text="SELECT 1;\n"),), scale=1)
    with Front(socket, None, delays_s=(*5 * (0.05,), 0, 0, 0)).open() as front:
        target = reach(f"host=127.0.0.1 port={front.port} user=pgdrag dbname=pgdrag").target
        measured = Driver(find_driver()).run(target, job, replace(LOAD, transactions=2), seed=1)
    assert measured.driver.round_trip_us is not None
    assert measured.driver.round_trip_us < 50_000


def test_of_several_servers_all_connections_come_to_the_one_that_was_reached(
    servers: tuple[Cluster, Cluster],
) -> None:
    ports = [server.port for server in servers]
    both = f"host=localhost,localhost port={ports[0]},{ports[1]} user=guest dbname=pgdrag"
    found = {come_to_the_same(reach(f"{both} load_balance_hosts=random")) for _ in range(12)}
    assert found <= set(ports)
    assert len(found) == 2, "chosen at random twelve times"
    assert come_to_the_same(reach(both)) == ports[0]
