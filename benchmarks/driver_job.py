"""What is pgdrag's load driver told? Jobs of its contract; see docs/reference/driver-contract.md.

The driver is started directly: the CPU time is that of the process that makes the load, as with the peers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.clients import BenchmarkError, Command
from pgdrag.driver.process import Target, driver_job

CONNECT_TIMEOUT_S = 60.0
MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}


CLOSED: Mapping[str, object] = {"kind": "closed"}


class Place(Protocol):
    """Where a server is: a `Stage`, or what looks like one."""

    @property
    def host(self) -> str: ...
    @property
    def tcp_host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def password(self) -> str | None: ...


@dataclass(frozen=True)
class Script:
    """A script in pgbench's language, with its name."""

    name: str
    text: str


def tpcc(warehouses: int, statements: str) -> dict[str, object]:
    """Return BenchBase's TPC-C as a workload."""
    return {
        "kind": "tpcc",
        "warehouses": warehouses,
        "isolation": "read committed",
        "mix": MIX,
        "max_tries": 3,
        "statements": statements,
        "terminals": "benchbase",
        "wait_scale": 0,
    }


def scripts(scale: int, statements: str, *texts: Script) -> dict[str, object]:
    """Return scripts in pgbench's language as a workload."""
    return {
        "kind": "pgbench",
        "scripts": [{"name": each.name, "text": each.text, "weight": 1} for each in texts],
        "statements": statements,
        "variables": {},
        "scale": scale,
        "max_tries": 1,
        "allow_shell": False,
        "time_statements": False,
        "tables": None,
    }


def run_command(
    driver: Path,
    stage: Place,
    workload: Mapping[str, object],
    *,
    database: str,
    connections: int,
    threads: int,
    duration_s: float,
    seed: int,
    over_tcp: bool = False,
    pacing: Mapping[str, object] = CLOSED,
) -> Command:
    """Return the driver as a client that runs `workload`, in a closed loop unless `pacing` is another."""
    run: dict[str, object] = {
        "connections": connections,
        "threads": threads,
        "reconnect": False,
        "warm_up_s": 0,
        "handshake": False,
        "duration_s": duration_s,
        "transactions": None,
        "min_commits": 0,
        "budget_s": duration_s,
        "interval_s": 1.0,
        "grace_s": 5.0,
        "pacing": dict(pacing),
        "steps": [],
        "latency_limit_us": None,
    }
    job = _job("run", stage, workload, database, seed, over_tcp=over_tcp) | {"run": run}
    return Command([driver], text=json.dumps(job) + "\n", own_count=committed)


def load_command(
    driver: Path,
    stage: Place,
    workload: Mapping[str, object],
    *,
    database: str,
    parallelism: int,
    over_tcp: bool = False,
) -> Command:
    """Return the driver as a program that makes and fills the tables of `workload`."""
    job = _job("load", stage, workload, database, 1, over_tcp=over_tcp)
    return Command([driver], text=json.dumps(job | {"load": {"parallelism": parallelism}}) + "\n")


def committed(output: str) -> int:
    """Return what the driver says that it committed.

    Raises:
        BenchmarkError: its last line is not that of a finished run.
    """
    return committed_in(done_line(output))


def committed_in(done: Mapping[str, object]) -> int:
    """Return what the last line of a run says that was committed."""
    transactions = done["transactions"]
    assert isinstance(transactions, dict)
    return sum(int(counts["committed"]) for counts in transactions.values())


def done_line(output: str) -> dict[str, object]:
    """Return the last line of the driver's output.

    Raises:
        BenchmarkError: it is not that of a job that was done.
    """
    lines = [line for line in output.splitlines() if line.startswith("{")]
    last = json.loads(lines[-1]) if lines else {}
    if last.get("type") != "done":
        raise BenchmarkError("the load driver did not end well", detail=output[-500:])
    return dict(last)


def _job(
    action: str,
    stage: Place,
    workload: Mapping[str, object],
    database: str,
    seed: int,
    *,
    over_tcp: bool,
) -> dict[str, object]:
    host = stage.tcp_host if over_tcp else stage.host
    target = Target(host, stage.port, stage.user, database, stage.password)
    return driver_job(action, target, workload, seed, connect_timeout_s=CONNECT_TIMEOUT_S)
