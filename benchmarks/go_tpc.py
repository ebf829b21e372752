"""How is go-tpc told to load and to run TPC-C?"""

from __future__ import annotations

from benchmarks.clients import Command
from benchmarks.peers import Peer
from benchmarks.stage import Stage


def load_command(
    peer: Peer, stage: Stage, *, database: str, warehouses: int, connections: int
) -> Command:
    """go-tpc as a program that makes the tables (without foreign keys) and fills them."""
    return Command([*_arguments(peer, stage, database, warehouses, connections), "prepare"])


def run_command(
    peer: Peer,
    stage: Stage,
    *,
    database: str,
    warehouses: int,
    connections: int,
    duration_s: float,
) -> Command:
    """go-tpc as a client in a closed loop, at the server's default isolation, READ COMMITTED."""
    arguments = _arguments(peer, stage, database, warehouses, connections)
    return Command([*arguments, "--time", f"{duration_s:.0f}s", "run"])


def _arguments(
    peer: Peer, stage: Stage, database: str, warehouses: int, connections: int
) -> list[str]:
    return [
        *(str(peer.path), "tpcc"),
        *("--driver", "postgres", "--conn-params", "sslmode=disable"),
        *("--host", stage.tcp_host, "--port", str(stage.port)),
        # Seen in the list of processes; it is of a server that lives as long as the comparison.
        *("--user", stage.user, "--password", stage.password, "--db", database),
        *("--warehouses", str(warehouses), "--threads", str(connections)),
    ]
