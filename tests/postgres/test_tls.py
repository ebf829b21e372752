"""Sessions are encrypted and servers believed as sslmode says, by libpq and by the load driver alike."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from fronts import Certificate, Front
from tcp import TcpCluster, free_port

from pgdrag.driver.connection_string import Server, reach
from pgdrag.driver.process import Driver, find_driver
from pgdrag.errors import DriverError, PgdragError, ServerError, ServerLost, UsageError
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Measurement
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.workloads.pgbench import Script, pgbench_job

pytestmark = pytest.mark.postgres

JOB = pgbench_job((Script(name="one", text="SELECT repeat('x', 100000);"),), scale=1)
LOAD = LoadProfile(connections=3, warm_up_s=0, measure_s=0.1, budget_s=30, min_commits=3)


@pytest.fixture(autouse=True)
def no_environment(
    no_libpq_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Nor what is in ~/.postgresql.
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.of("localhost", tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.of("localhost", tmp_path_factory.mktemp("other"))


def socket_of(cluster: Cluster) -> Path:
    return cluster.socket_directory / f".s.PGSQL.{cluster.port}"


def dsn(front: Front, more: str, host: str = "localhost") -> str:
    return f"host={host} port={front.port} user=pgdrag dbname=pgdrag {more}"


def drive(server: Server) -> Measurement:
    return Driver(find_driver()).run(server.target, JOB, LOAD, seed=1)


# What of the certificate a server must show is in sslrootcert: {own}, or that of somebody else: {other}.
@pytest.mark.parametrize(
    ("sslmode", "offers", "found"),
    [
        ("", True, "encrypted"),
        ("", False, "plain"),
        ("sslmode=disable", True, "plain"),
        ("sslmode=allow", True, "plain"),
        ("sslmode=prefer", True, "encrypted"),
        ("sslmode=require", True, "encrypted"),
        ("sslmode=require", False, "does not support SSL"),
        ("sslmode=require sslrootcert={own}", True, "encrypted"),
        ("sslmode=require sslrootcert={other}", True, "cannot trust the server's certificate"),
        ("sslmode=verify-ca sslrootcert={own}", True, "encrypted"),
        ("sslmode=verify-ca sslrootcert={other}", True, "cannot trust the server's certificate"),
        ("sslmode=verify-full sslrootcert={own}", True, "encrypted"),
        ("sslmode=verify-full sslrootcert={own}", False, "does not support SSL"),
        ("sslmode=verify-full sslrootcert={other}", True, "cannot trust the server's certificate"),
        ("sslmode=verify-full sslrootcert=system", True, "cannot trust the server's certificate"),
        ("sslmode=verify-full", True, "root certificate file"),
        ("channel_binding=require", False, "channel binding"),
        ("channel_binding=require", True, "channel binding"),
    ],
)
def test_a_session_is_as_safe_as_sslmode_says(
    shared_cluster: Cluster,
    own: Certificate,
    other: Certificate,
    sslmode: str,
    offers: bool,
    found: str,
) -> None:
    with Front(socket_of(shared_cluster), own.context() if offers else None).open() as front:
        where = dsn(front, sslmode.format(own=own.file, other=other.file))
        if found not in ("encrypted", "plain"):
            with pytest.raises(PgdragError, match=found):
                reach(where)
            return
        server = reach(where)
        assert server.is_encrypted == (found == "encrypted")
        before = (front.encrypted, front.plain)
        assert drive(server).total.committed > 0
        gained = (front.encrypted - before[0], front.plain - before[1])
        assert gained == ((3, 0) if server.is_encrypted else (0, 3))


def test_the_name_of_the_host_is_verified(shared_cluster: Cluster, own: Certificate) -> None:
    with Front(socket_of(shared_cluster), own.context()).open() as front:
        verified = f"sslrootcert={own.file} sslmode="
        with pytest.raises(ServerLost, match='is for "localhost", not for'):
            reach(dsn(front, f"{verified}verify-full", host="127.0.0.1"))
        assert drive(reach(dsn(front, f"{verified}verify-ca", host="127.0.0.1"))).total.committed
        # The address is told apart from the name, as libpq does.
        named = dsn(front, f"{verified}verify-full hostaddr=127.0.0.1")
        assert drive(reach(named)).total.committed


def test_tls_that_is_taken_away_later_is_missed(
    shared_cluster: Cluster, own: Certificate, other: Certificate
) -> None:
    with Front(socket_of(shared_cluster), own.context()).open() as front:
        preferring = reach(dsn(front, "sslmode=prefer"))
        verifying = reach(dsn(front, f"sslmode=verify-full sslrootcert={own.file}"))
        front.context = other.context()
        with pytest.raises(DriverError, match="no root certificate given has signed it"):
            drive(verifying)
        front.context = None
        before = front.plain
        for server in (preferring, verifying):
            with pytest.raises(DriverError, match="does not speak TLS"):
                drive(server)
            with pytest.raises(ServerLost):
                server.connect()
        assert front.plain == before


def test_tls_can_begin_at_once(shared_cluster: Cluster, own: Certificate) -> None:
    if psycopg.pq.version() < 170000:
        pytest.skip("needs libpq 17")
    with Front(socket_of(shared_cluster), own.context(), is_direct=True).open() as front:
        assert drive(reach(dsn(front, "sslmode=require sslnegotiation=direct"))).total.committed
        assert (front.encrypted, front.plain) == (4, 0)


def test_the_drivers_sessions_show_the_clients_certificate(
    shared_cluster: Cluster, own: Certificate
) -> None:
    wanting = own.context()
    wanting.verify_mode = ssl.CERT_REQUIRED
    wanting.load_verify_locations(own.file)
    with Front(socket_of(shared_cluster), wanting).open() as front:
        named = f"sslmode=require sslcert={own.file} sslkey={own.key}"
        server = reach(dsn(front, named))
        assert drive(server).total.committed
        assert "PRIVATE KEY" not in repr(server)


def test_what_the_driver_lacks_is_refused(shared_cluster: Cluster, own: Certificate) -> None:
    with Front(socket_of(shared_cluster), own.context()).open() as front:
        with pytest.raises(UsageError, match="ssl_max_protocol_version"):
            reach(dsn(front, "ssl_max_protocol_version=TLSv1.2"))
        assert reach(dsn(front, "ssl_max_protocol_version=TLSv1.2"), is_for_driver=False)


def another_address() -> str:
    """An IPv4 address of this machine that is no loopback's."""
    addresses = [one for all_ in psutil.net_if_addrs().values() for one in all_]
    for one in addresses:
        if one.family is socket.AF_INET and not one.address.startswith("127."):
            return one.address
    pytest.skip("this machine has no address but those of loopback")


@contextmanager
def asking_for(method: str, cluster: Cluster, front: Front) -> Iterator[str]:
    """A role of which the server asks the password so; yields a connection string without sslmode."""
    hba = cluster.data_directory / "pg_hba.conf"
    before = hba.read_text()
    cluster.scratch.write_private(hba, f"local all guest {method}\n{before}")
    encryption = "md5" if method == "md5" else "scram-sha-256"
    with cluster.connect() as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute(f"SET password_encryption = '{encryption}'")
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'open sesame'")
        connection.execute("SELECT pg_reload_conf()")
    yield f"host={front.address} port={front.port} user=guest dbname=pgdrag password='open sesame'"


@pytest.mark.parametrize("method", ["md5", "password"])
def test_a_password_or_its_hash_goes_to_another_host_only_encrypted(
    running_cluster: Cluster, own: Certificate, method: str
) -> None:
    front = Front(socket_of(running_cluster), None, address=another_address())
    with front.open(), asking_for(method, running_cluster, front) as where:
        for mode in ("disable", "prefer", "allow", "require"):
            with pytest.raises(ServerLost) as refused:
                reach(f"{where} sslmode={mode}")
            assert "sesame" not in str(vars(refused.value))
            assert "require_auth" in (refused.value.hint or "")
        allowed = reach(f"{where} sslmode=disable require_auth={method}")
        assert drive(allowed).total.committed
        front.context = own.context()
        for mode in ("prefer", "allow", "require"):
            server = reach(f"{where} sslmode={mode}")
            assert server.is_encrypted
            assert drive(server).total.committed


def test_no_password_goes_in_the_clear_to_a_host_that_is_named_beside_this_one(
    running_cluster: Cluster, own: Certificate
) -> None:
    front = Front(socket_of(running_cluster), None, address=another_address())
    with (
        front.open(),
        asking_for("md5", running_cluster, front) as where,
        socket.socket() as closed,
    ):
        closed.bind(("127.0.0.1", 0))  # nobody listens
        several = where.replace(front.address, f"{front.address},127.0.0.1", 1)
        several = several.replace(
            f"port={front.port}", f"port={front.port},{closed.getsockname()[1]}"
        )
        with pytest.raises(ServerLost):
            reach(several)


def test_scram_goes_to_another_host_without_tls(running_cluster: Cluster) -> None:
    front = Front(socket_of(running_cluster), None, address=another_address())
    with front.open(), asking_for("scram-sha-256", running_cluster, front) as where:
        assert drive(reach(where)).total.committed
        with pytest.raises(PgdragError, match="authentication method requirement"):
            reach(f"{where} require_auth=none")


def test_a_real_server_binds_scram_to_its_certificate(scratch: Scratch, own: Certificate) -> None:
    try:
        binaries = find_binaries("15")
    except ServerError as error:
        pytest.skip(str(error))
    with TcpCluster.create(scratch, binaries) as cluster:
        cluster.initdb()
        for name, text in (
            ("server.crt", own.file.read_text()),
            ("server.key", own.key.read_text()),
        ):
            scratch.write_private(cluster.data_directory / name, text)
        scratch.write_private(
            cluster.data_directory / "pg_hba.conf",
            "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
        )
        cluster.port = free_port()
        cluster.configure({"ssl": "on"})
        cluster.start()
        with cluster.connect() as connection:
            connection.execute(f"ALTER ROLE {cluster.superuser} PASSWORD 'open sesame'")
        where = (
            f"host=localhost port={cluster.port} user={cluster.superuser} dbname={cluster.database} "
            f"password='open sesame' sslrootcert={own.file}"
        )
        bound = reach(
            f"{where} sslmode=verify-full channel_binding=require require_auth=scram-sha-256"
        )
        assert drive(bound).total.committed
        assert drive(reach(f"{where} sslmode=require channel_binding=disable")).total.committed
        with pytest.raises(ServerLost, match="no encryption"):
            reach(f"{where} sslmode=disable")
        named = f"{where} sslmode=require sslcert={own.file} sslkey="
        assert drive(reach(f"{named}{own.key}")).total.committed
        encrypted = own.key_with_passphrase("open sesame")
        looks = f"{named}{encrypted}"
        with pytest.raises(UsageError, match="to the load driver: the key is encrypted"):
            reach(looks)
        with pytest.raises(UsageError, match="it is encrypted, and there is no passphrase"):
            reach(looks, is_for_driver=False)
        asked: list[str] = []

        def answer(prompt: str) -> str:
            asked.append(prompt)
            return "open sesame"

        found = reach(looks, ask_password=answer, is_for_driver=False)
        found.connect().close()
        assert asked == ["Passphrase of the key: "]
        assert "sesame" not in found.public_conninfo()
        with pytest.raises(UsageError, match="the passphrase is wrong"):
            reach(f"{looks} sslpassword=mellon", is_for_driver=False)
