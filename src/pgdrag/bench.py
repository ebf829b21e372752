"""How fast is one load on one server as it is? A study of one treatment, run once.

`pgdrag bench` and `pgdrag tpcc` use it. It writes to a server only what its caller asks for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql

import pgdrag
from pgdrag.driver.connection_string import Server, reach
from pgdrag.driver.conversation import Listener
from pgdrag.driver.process import Driver, Load, find_driver
from pgdrag.errors import DriverError, ServerLost, UsageError
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.host.machine import this_host
from pgdrag.model import (
    Host,
    Outcome,
    Result,
    Rung,
    RunRecord,
    Source,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.load import LoadProfile
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.datasets import LOAD_TIMEOUT_S
from pgdrag.servers.scratch import Scratch

# For the superuser, the collectors of others, and autovacuum's launcher, beside the clients.
_SPARE_CONNECTIONS = 20
_SMALLEST_MAX_CONNECTIONS = 100
CHECK_TIMEOUT_S = 24 * 3600.0


@dataclass(frozen=True)
class Work:
    """What is to be run.

    Attributes:
        what: for people: "tpcb-like, scale 10, prepared statements".
        spec: which workload, with what shows in the result; no script's text.
        job: what the driver is told.
    """

    what: str
    spec: WorkloadSpec
    job: Mapping[str, object]


def run_work(
    server: Server,
    work: Work,
    load: LoadProfile,
    *,
    seed: int,
    listen: Listener,
    notes: tuple[str, ...] = (),
) -> Findings:
    """Drive a server for a warm-up and a window, and return what a study of one treatment finds.

    Raises:
        DriverError: the server refused the driver, a script is wrong, or the driver failed.
    """
    began_unix_s, began_s = time.time(), time.monotonic()
    with _shown_script_lines(work.job):
        driver = Driver(find_driver())
        measured = driver.run(server.target, work.job, load, seed=seed, listen=listen)
    trial = Trial(1, 1, 1, Treatment("as it is"), work.spec, load, seed)
    result = Result(
        trial,
        Outcome.MEASURED,
        began_unix_s,
        server_version=server.version,
        measurement=measured,
        phases_s={"run": round(time.monotonic() - began_s, 3)},
    )
    return window_findings(server.name, work.what, result, this_host(Path.cwd()), notes)


def window_findings(
    server: str, what: str, result: Result, host: Host, notes: tuple[str, ...] = ()
) -> Findings:
    """Return what a study of one treatment with this one result finds."""
    trial, version = result.trial, result.server_version or ""
    study = Study(
        name="bench",
        title=f"{what} on {server}, PostgreSQL {version}",
        question="How fast is this load on this server as it is?",
        scale=what,
        design="window",
        rungs=(Rung(trial.treatment.name, server, trial.treatment),),
        source=Source(),
        workload=trial.workload,
        load=trial.load,
        replicates=1,
        notes=notes,
        is_checked=False,
    )
    began_unix_s = result.started_unix_s
    return find(
        RunRecord(
            run_id=time.strftime("bench-%Y%m%d-%H%M%S", time.localtime(began_unix_s)),
            study=study,
            host=host,
            server_version=version,
            pgdrag_version=pgdrag.__version__,
            seed=trial.seed,
            started_unix_s=began_unix_s,
            finished_unix_s=began_unix_s + sum(result.phases_s.values()),
            status="done",
            results=(result,),
            planned_trials=1,
        )
    )


def check_scripts(job: Mapping[str, object]) -> None:
    """Return if the driver understands a job's scripts; no server is needed for it.

    Raises:
        DriverError: one has a mistake, which is shown where it is.
    """
    with _shown_script_lines(job):
        Driver(find_driver()).compile(job)


def load_tables(
    server: Server,
    job: Mapping[str, object],
    *,
    seed: int,
    parallelism: int | None = None,
    listen: Listener,
) -> Load:
    """Make and fill a workload's tables.

    Args:
        parallelism: connections that load at once; None: one a processor, at most 8.

    Raises:
        DriverError: the server refused, or the driver failed.
    """
    return Driver(find_driver()).load(
        server.target,
        job,
        seed=seed,
        parallelism=parallelism or min(8, os.cpu_count() or 1),
        timeout_s=LOAD_TIMEOUT_S,
        listen=listen,
    )


@contextmanager
def throw_away_server(postgres: str | None, connections: int, scratch: Scratch) -> Iterator[Server]:
    """Make a cluster with the server's default settings, which is gone at the end of the block.

    Args:
        postgres: which PostgreSQL, as for `--postgres`.
        connections: clients that it must have room for.
    """
    with Cluster.create(scratch, find_binaries(postgres)) as cluster:
        cluster.initdb()
        wanted = max(_SMALLEST_MAX_CONNECTIONS, connections + _SPARE_CONNECTIONS)
        cluster.configure({"max_connections": str(wanted)})
        cluster.start()
        where = cluster.target
        server = reach(
            None,
            {"host": where.host, "port": where.port, "user": where.user, "dbname": where.database},
        )
        yield replace(server, label="a throw-away server")


def pgbench_scale(server: Server) -> int:
    """Return the scale of the pgbench tables that are there, as pgbench finds it.

    Raises:
        UsageError: there are none, or they are empty.
    """
    hint = "Make them with: pgdrag bench -i -s 10 …"
    try:
        with server.connect() as connection:
            ((branches,),) = connection.execute("SELECT count(*) FROM pgbench_branches").fetchall()
    except psycopg.errors.UndefinedTable:
        raise UsageError(f"{server.name} has no table pgbench_branches", hint=hint) from None
    except psycopg.Error as error:
        raise _refused(server, error) from None
    if not branches:
        raise UsageError(f"{server.name} has no rows in pgbench_branches", hint=hint)
    return int(branches)


def vacuum_pgbench_tables(server: Server, *, with_accounts: bool = False) -> str:
    """Vacuum pgbench's small tables and empty its history, as pgbench does before a run.

    Returns:
        A sentence that says so.
    """
    commands = ["VACUUM pgbench_branches", "VACUUM pgbench_tellers", "TRUNCATE pgbench_history"]
    if with_accounts:
        commands.append("VACUUM ANALYZE pgbench_accounts")
    try:
        with server.connect() as connection:
            for command in commands:
                connection.execute(sql.SQL(command))
    except psycopg.Error as error:
        raise _refused(server, error) from None
    accounts = ", and pgbench_accounts with ANALYZE" if with_accounts else ""
    return f"Vacuumed pgbench_branches and pgbench_tellers{accounts}, and emptied pgbench_history, before the run."


def tpcc_warehouses(server: Server) -> int:
    """Return how many warehouses the TPC-C tables have.

    Raises:
        UsageError: there are none.
    """
    hint = "Load them with: pgdrag tpcc load DSN --warehouses N"
    try:
        with server.connect() as connection:
            ((warehouses,),) = connection.execute("SELECT count(*) FROM warehouse").fetchall()
    except psycopg.errors.UndefinedTable:
        raise UsageError(f"{server.name} has no TPC-C tables", hint=hint) from None
    except psycopg.Error as error:
        raise _refused(server, error) from None
    if not warehouses:
        raise UsageError(f"{server.name} has no warehouses in its TPC-C tables", hint=hint)
    return int(warehouses)


def drop_tables(server: Server, names: Sequence[str]) -> None:
    """Drop tables all at once; what else depends on them is a reason to refuse.

    Raises:
        ServerLost: the server refused.
    """
    command = sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(map(sql.Identifier, names)))
    try:
        with server.connect() as connection:
            connection.execute(command)
    except psycopg.Error as error:
        raise _refused(server, error) from None


def existing_tables(server: Server, names: tuple[str, ...]) -> list[str]:
    """Return which of these tables are on the server's search path."""
    try:
        with server.connect() as connection:
            rows = connection.execute(
                "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL",
                (list(names),),
            ).fetchall()
    except psycopg.Error as error:
        raise _refused(server, error) from None
    return [name for (name,) in rows]


_IN_SCRIPT = re.compile(r'script "(?P<name>.+)", line (?P<line>\d+)(?:, column (?P<column>\d+))?')


@contextmanager
def _shown_script_lines(job: Mapping[str, object]) -> Iterator[None]:
    """Add the line of the script to an error that names it, and a mark below its column."""
    try:
        yield
    except DriverError as error:
        where = _IN_SCRIPT.search(error.message)
        scripts = job.get("scripts")
        if where is None or not isinstance(scripts, list):
            raise
        texts = {script["name"]: str(script["text"]).split("\n") for script in scripts}
        lines = texts.get(where["name"], [])
        number = int(where["line"])
        if not 1 <= number <= len(lines):
            raise
        shown = lines[number - 1].rstrip()
        if where["column"]:
            # A tab before the mark keeps it below its place.
            before = shown[: int(where["column"]) - 1]
            shown += "\n" + "".join("\t" if x == "\t" else " " for x in before) + "^"
        raise DriverError(
            error.message,
            sqlstate=error.sqlstate,
            detail=f"Line {number}:\n{shown}",
            hint=error.hint,
        ) from error


def _refused(server: Server, error: psycopg.Error) -> ServerLost:
    text = error.diag.message_primary or str(error).strip().splitlines()[0]
    return ServerLost(f"{server.name} refused: {text}", detail=error.diag.message_detail)
