"""Why pgdrag cannot connect: the table tests/golden/connecting.txt, made on a real server that speaks TLS.

Each mistake is made with three commands, which must say the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from fronts import Certificate
from tcp import TcpCluster, free_port
from watching import NO_INTERFERENCE

from in_process import pgdrag
from pgdrag.errors import ServerDidNotStart, ServerError
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch

pytestmark = pytest.mark.postgres

GOLDEN = Path(__file__).parents[1] / "golden" / "connecting.txt"
COMMANDS = (("bench", "-n", "-S"), ("horizon", "show"), ("tpcc", "check"))
HBA = """
local all pgdrag trust
local all guest scram-sha-256
host all pgdrag all trust
host all guest all scram-sha-256
host all refused all reject
hostssl all careful all trust
hostssl all badge all cert
host all,replication lazy,missing all trust
"""
ROLES = """
CREATE ROLE guest LOGIN PASSWORD 'open sesame';
CREATE ROLE refused LOGIN; CREATE ROLE careful LOGIN; CREATE ROLE badge LOGIN;
CREATE ROLE lazy LOGIN CONNECTION LIMIT 0;
CREATE DATABASE shop; CREATE DATABASE closed ALLOW_CONNECTIONS false
"""


@dataclass(frozen=True)
class Desk:
    """A server, and certificates and files of somebody who connects to it.

    Attributes:
        ports: by the name that they have in connection strings.
    """

    cluster: Cluster
    home: Path
    own: Certificate
    ports: dict[str, int]

    def told(self, dsn: str, **environment: str) -> str:
        """Return what the commands say of a connection string, as it is anywhere."""
        where = self._in_place(dsn)
        kept = {"HOME": str(self.home), **{x: self._in_place(y) for x, y in environment.items()}}
        answers = {}
        for command in COMMANDS:
            status, out, err = pgdrag(*command, where, **kept)
            assert (status, out) == (2, ""), (command, dsn, out, err)
            answers[command] = err
        assert len(set(answers.values())) == 1, answers
        assert "sesame" not in err
        assert "mellon" not in err
        return self._anywhere(err)

    def _in_place(self, text: str) -> str:
        socket_directory = str(self.cluster.socket_directory)
        for here, there in {"/home/me": str(self.home), "/socket": socket_directory}.items():
            text = text.replace(here, there)
        return re.sub(r"(?<=[=,])\d{4}\b", lambda found: str(self.ports[found[0]]), text)

    def _anywhere(self, text: str) -> str:
        socket_directory = str(self.cluster.socket_directory)
        for here, there in ((str(self.home), "/home/me"), (socket_directory, "/socket")):
            text = text.replace(here, there)
        for name, port in self.ports.items():
            text = text.replace(f"port {port}", f"port {name}").replace(f".{port}", f".{name}")
        return text


@pytest.fixture(scope="module")
def desk(scratch: Scratch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    try:
        binaries = find_binaries("15")  # installed: the embedded one has no TLS
    except ServerError as error:
        pytest.skip(str(error))
    home = tmp_path_factory.mktemp("home")
    own = Certificate.of("localhost", home)
    Certificate.expired("localhost", home)
    Certificate.of("other", home)
    home.joinpath("pgpass").write_text("*:*:*:guest:mellon\n")
    home.joinpath("pgpass").chmod(0o600)
    home.joinpath("open").write_text("*:*:*:guest:open sesame\n")
    home.joinpath("open").chmod(0o644)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(TcpCluster.create(scratch, binaries))
        cluster.initdb()
        for name, file in (
            ("server.crt", own.file),
            ("server.key", own.key),
            ("root.crt", own.file),
        ):
            scratch.write_private(cluster.data_directory / name, file.read_text())
        scratch.write_private(cluster.data_directory / "pg_hba.conf", HBA)
        cluster.port = free_port()
        own_settings = {"ssl": "on", "ssl_ca_file": "root.crt", "max_connections": "14"}
        cluster.configure({**NO_INTERFERENCE, **own_settings})
        cluster.start()
        with cluster.connect() as connection:
            for statement in ROLES.split(";"):
                connection.execute(statement.encode())
        ports = {"5432": cluster.port, "5433": free_port()}
        for number, answer in enumerate(
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", b"")
        ):
            ports[str(6001 + number)] = stack.enter_context(answering(answer))
        ports["6004"] = stack.enter_context(full_backlog())
        yield Desk(cluster, home, own, ports)


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Something that answers whatever comes and hangs up; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client, contextlib.suppress(OSError):
                        client.recv(1000)
                        client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose connections are never accepted, as behind a firewall that drops packets."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])


LOCAL = "host=localhost port=5432 dbname=pgdrag"
SOCKET = "host=/socket port=5432 dbname=pgdrag"
VERIFIED = f"{LOCAL} user=careful sslmode=verify-full sslrootcert=/home/me/localhost.crt"
MISTAKES = (
    ("a wrong password", f"{LOCAL} user=guest password=mellon", {}),
    ("a wrong password in the environment", f"{LOCAL} user=guest", {"PGPASSWORD": "mellon"}),
    ("a wrong password in the password file", f"{LOCAL} user=guest passfile=/home/me/pgpass", {}),
    ("no password", f"{SOCKET} user=guest", {}),
    ("a password file that others may read", f"{LOCAL} user=guest passfile=/home/me/open", {}),
    ("a role that does not exist", f"{LOCAL} user=missing", {}),
    ("a database that does not exist", "host=localhost port=5432 user=pgdrag dbname=shpo", {}),
    ("no database named", "host=localhost port=5432 user=careful", {}),
    ("a database that takes no connections", "host=localhost port=5432 user=pgdrag dbname=closed", {}),
    ("no line in pg_hba.conf", f"{LOCAL} user=nobody", {}),
    ("a line in pg_hba.conf that refuses", f"{LOCAL} user=refused", {}),
    ("a server that wants TLS", f"{LOCAL} user=careful sslmode=disable", {}),
    ("a role at its limit", f"{LOCAL} user=lazy", {}),
    ("an unknown certificate authority", VERIFIED.replace("/localhost.crt", "/other.crt"), {}),
    ("a certificate for another host", VERIFIED.replace("localhost port", "127.0.0.1 port"), {}),
    ("no root certificates", f"{LOCAL} user=careful sslmode=verify-full", {}),
    ("a client without its certificate", f"{LOCAL} user=badge sslmode=require", {}),
    ("somebody else's certificate", f"{LOCAL} user=badge sslmode=require sslcert=/home/me/localhost.crt sslkey=/home/me/localhost.key", {}),
    ("a closed port", "host=127.0.0.1 port=5433", {}),
    ("a socket that is not there", "host=/socket port=5433", {}),
    ("several servers, each with a reason", "host=127.0.0.1,/socket port=5433,5433", {}),
    ("no standby among several servers", "host=localhost,127.0.0.1 port=5432,5432 user=pgdrag target_session_attrs=standby", {}),
    ("a host that does not resolve", "host=no-such-host.invalid", {}),
    ("a host that does not answer", "host=127.0.0.1 port=6004 connect_timeout=2", {}),
    ("a web server", "host=127.0.0.1 port=6001", {}),
    ("an SSH server", "host=127.0.0.1 port=6002", {}),
    ("a server that dies while connecting", "host=127.0.0.1 port=6003", {}),
    ("a service that is in no file", "service=shop", {}),
    ("a setting that does not exist", f"{LOCAL} user=pgdrag options='-c wrok_mem=1MB'", {}),
    ("a mode of TLS that does not exist", f"{LOCAL} sslmode=verify", {}),
    ("a password that is not encoded", "postgresql://me:mellon/x@db1/shop", {}),
)  # fmt: skip


def test_each_mistake_is_answered_as_in_the_table_and_by_every_command_alike(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.driver.connect_errors.SOCKET_DIRECTORIES", ())
    answers = [(title, dsn, extra, desk.told(dsn, **extra)) for title, dsn, extra in MISTAKES]
    answers += [(title, dsn, {}, told) for title, dsn, told in states(desk)]
    found = "\n".join(
        f'# {title}\n$ {"".join(f"{x}={y} " for x, y in extra.items())}pgdrag bench "{dsn}"\n{told}'
        for title, dsn, extra, told in answers
    )
    if os.environ.get("PGDRAG_UPDATE_GOLDENS"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def states(desk: Desk) -> Iterator[tuple[str, str, str]]:
    """What a server says at other times: one that is full, has an old certificate, or is on its way down or up."""
    cluster, scratch = desk.cluster, desk.cluster.scratch
    guest = f"{LOCAL} user=guest password='open sesame'"
    with contextlib.ExitStack() as stack, contextlib.suppress(psycopg.OperationalError):
        while True:
            conninfo = f"host={cluster.socket_directory} port={cluster.port} user=guest password='open sesame' dbname=pgdrag"
            stack.enter_context(psycopg.connect(conninfo))
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(psycopg.connect(desk._in_place(guest)))
        yield "a server that is full", guest, desk.told(guest)
    for name, file in (
        ("server.crt", "localhost-expired.crt"),
        ("server.key", "localhost-expired.key"),
    ):
        scratch.write_private(cluster.data_directory / name, desk.home.joinpath(file).read_text())
    cluster.reload()
    old = VERIFIED.replace("localhost.crt", "localhost-expired.crt")
    yield "an expired certificate", old, desk.told(old)
    plain = f"{SOCKET} user=pgdrag"
    with cluster.connect():
        os.kill(postmaster(cluster), signal.SIGTERM)  # it waits for the session to end
        assert wait_until(lambda: _says(desk, plain, "shutting down"), 20)
        yield "a server that is shutting down", plain, desk.told(plain)
    assert wait_until(lambda: not cluster.is_running(), 20)
    yield "a server that was shut down", plain, desk.told(plain)
    for title, words, settings in (
        ("a server that is starting up", "starting up", "restore_command = 'sleep 120; false'"),
        ("a standby that lets nobody in", "not accepting", "hot_standby = off"),
    ):
        with starting(cluster, settings):
            assert wait_until(lambda words=words: _says(desk, plain, words), 20)  # type: ignore[misc]
            yield title, plain, desk.told(plain)


def postmaster(cluster: Cluster) -> int:
    return int(cluster.data_directory.joinpath("postmaster.pid").read_text().split()[0])


@contextlib.contextmanager
def starting(cluster: Cluster, settings: str) -> Iterator[None]:
    """Start a server as a standby that does not become ready; it is ended after the block."""
    cluster.scratch.write_private(cluster.data_directory / "standby.signal", "")
    cluster.scratch.write_private(cluster.data_directory / "postgresql.auto.conf", settings)

    def start() -> None:
        with contextlib.suppress(ServerDidNotStart):
            cluster.start()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield
    finally:
        os.kill(postmaster(cluster), signal.SIGQUIT)
        thread.join(30)


def _says(desk: Desk, dsn: str, words: str) -> bool:
    try:
        psycopg.connect(desk._in_place(dsn)).close()
    except psycopg.OperationalError as error:
        return words in str(error)
    return False
