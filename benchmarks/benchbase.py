"""How is BenchBase told to load and to run TPC-C?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape

from benchmarks.clients import Command
from benchmarks.peers import Peer
from benchmarks.stage import Stage

# BenchBase's order of transaction types, and the specification's mix.
_TYPES = ("NewOrder", "Payment", "OrderStatus", "Delivery", "StockLevel")
_WEIGHTS = "45,43,4,4,4"


@contextmanager
def load_command(
    peer: Peer, java: Path, stage: Stage, *, database: str, warehouses: int, connections: int
) -> Iterator[Command]:
    """BenchBase as a program that makes the tables and fills them."""
    with _command(peer, java, stage, database, warehouses, connections, 1) as argv:
        yield Command([*argv, "--create=true", "--load=true"], cwd=peer.path)


@contextmanager
def run_command(
    peer: Peer,
    java: Path,
    stage: Stage,
    *,
    database: str,
    warehouses: int,
    connections: int,
    duration_s: float,
) -> Iterator[Command]:
    """BenchBase as a client in a closed loop, at READ COMMITTED.

    Its own count is not read: it includes errors and what it gave up.
    """
    with _command(peer, java, stage, database, warehouses, connections, round(duration_s)) as argv:
        yield Command([*argv, "--execute=true"], cwd=peer.path)


@contextmanager
def _command(
    peer: Peer,
    java: Path,
    stage: Stage,
    database: str,
    warehouses: int,
    connections: int,
    duration_s: int,
) -> Iterator[list[str | Path]]:
    with TemporaryDirectory(prefix="pgdrag-benchbase-") as directory:
        file = Path(directory) / "tpcc.xml"
        # The directory is private; the password is of a server that lives as long as it does.
        file.write_text(
            _parameters(stage, database, warehouses, connections, duration_s), encoding="utf-8"
        )
        jar = peer.path / "benchbase.jar"
        yield [java, "-jar", jar, "--bench=tpcc", f"--config={file}", f"--directory={directory}"]


def _parameters(
    stage: Stage, database: str, warehouses: int, connections: int, duration_s: int
) -> str:
    url = (
        f"jdbc:postgresql://{stage.tcp_host}:{stage.port}/{database}"
        "?sslmode=disable&ApplicationName=benchbase&reWriteBatchedInserts=true"
    )
    types = "".join(f"<transactiontype><name>{name}</name></transactiontype>" for name in _TYPES)
    return f"""<?xml version="1.0"?>
<parameters>
  <type>POSTGRES</type>
  <driver>org.postgresql.Driver</driver>
  <url>{escape(url)}</url>
  <username>{stage.user}</username>
  <password>{stage.password}</password>
  <isolation>TRANSACTION_READ_COMMITTED</isolation>
  <batchsize>128</batchsize>
  <scalefactor>{warehouses}</scalefactor>
  <terminals>{connections}</terminals>
  <works>
    <work><time>{duration_s}</time><rate>unlimited</rate><weights>{_WEIGHTS}</weights></work>
  </works>
  <transactiontypes>{types}</transactiontypes>
</parameters>
"""
