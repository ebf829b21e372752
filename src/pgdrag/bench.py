"""How fast is one load on one server as it is? A study of one treatment, run once.

`pgdrag bench` and `pgdrag tpcc` use it. It writes to a server only what its caller asks for.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import LiteralString

from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgdrag
from pgdrag.driver.after_load import after_load
from pgdrag.driver.choosing_threads import choose_threads, is_to_choose
from pgdrag.driver.connect_errors import session_refused
from pgdrag.driver.connection_string import Server, reach
from pgdrag.driver.conversation import Listener
from pgdrag.driver.pooler import pooler_note
from pgdrag.driver.process import Driver, find_driver
from pgdrag.errors import DriverError, UsageError
from pgdrag.existing.datasets import asking_about, rows_of
from pgdrag.factors.treated_workload import workload_of
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
from pgdrag.model.recordings import Recordings
from pgdrag.model.threads import ChosenThreads
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch

# For the superuser, the collectors of others, and autovacuum's launcher, beside the clients.
_SPARE_CONNECTIONS = 20
_SMALLEST_MAX_CONNECTIONS = 100
CHECK_TIMEOUT_S = 24 * 3600.0


def run_load(
    server: Server,
    what: str,
    workload: WorkloadSpec,
    job: Mapping[str, object],
    load: LoadProfile,
    *,
    seed: int,
    listen: Listener,
    notes: tuple[str, ...] = (),
) -> Findings:
    """Drive a server for a warm-up and a window, and return what a study of one treatment finds.

    Where nobody has said how many threads the driver has, short loads before the warm-up choose; without a warm-up
    there is no load but the window.

    Args:
        what: for people: "tpcb-like, scale 10, prepared statements".
        workload: what shows of it in the result; no script's text.
        job: the driver's job.

    Raises:
        DriverError: a script is wrong, or the driver failed.
        ServerLost: the server refused the driver's sessions, or went away in the window.
    """
    began_unix_s, began_s = time.time(), time.monotonic()
    driver, chosen = Driver(find_driver()), list[ChosenThreads]()
    try:
        with _shown_script_lines(job):
            if load.warm_up_s and is_to_choose(load):
                chosen.append(
                    choose_threads(load, lambda one: driver.run(server.target, job, one, seed=seed))
                )
            load = replace(load, threads=chosen[0].threads if chosen else load.threads or 1)
            measured = driver.run(server.target, job, load, seed=seed, listen=listen)
    except DriverError as error:
        if refused := session_refused(error, server.asked):
            raise refused from None
        raise
    phases_s = {"run": round(time.monotonic() - began_s, 3)}
    trial = Trial(1, 1, 1, Treatment("as it is"), workload, load, seed)
    result = Result(
        trial,
        Outcome.MEASURED,
        began_unix_s,
        server_version=server.version,
        measurement=measured,
        warnings=after_load(server, measured),
        phases_s=phases_s,
        recordings=Recordings(chosen),
    )
    if server.is_encrypted:
        notes = (*notes, "Sessions use TLS; latencies include its cost.")
    if server.pooler is not None:
        notes = (*notes, pooler_note(server.pooler))
    return window_findings(server.name, what, result, this_host(Path.cwd()), notes)


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
        Driver(find_driver()).examples(job)


def check_own_scripts(spec: WorkloadSpec) -> None:
    """Return if the driver understands the scripts that a person wrote for a workload, if there are any.

    Their mistakes would show in the first trial, with its dataset loaded.

    Raises:
        DriverError: one has a mistake, which is shown where it is.
    """
    workload = workload_of(spec, Treatment("as it is"))
    if workload.has_own_scripts:
        check_scripts(workload.job())


@contextmanager
def throw_away_server(binaries: Binaries, connections: int, scratch: Scratch) -> Iterator[Server]:
    """Create a cluster with default settings; it is removed at the end of the block.

    Args:
        connections: clients that it must have room for.
    """
    with Cluster.create(scratch, binaries) as cluster:
        cluster.initdb()
        wanted = max(_SMALLEST_MAX_CONNECTIONS, connections + _SPARE_CONNECTIONS)
        cluster.configure({"max_connections": str(wanted)})
        cluster.start()
        where = cluster.target
        server = reach(make_conninfo(cluster.conninfo(), user=where.user))
        target = replace(server.target, cluster=where.cluster, run_as=where.run_as, home=where.home)
        yield replace(server, target=target, label="a throw-away server")


def pgbench_scale(server: Server) -> int:
    """Return the scale of the pgbench tables that are there, as pgbench finds it.

    Raises:
        UsageError: there are none, or they are empty.
    """
    hint = "Make them with: pgdrag bench -i -s 10 …"
    return _size(
        server, "pgbench_branches", "table pgbench_branches", "rows in pgbench_branches", hint
    )


def vacuum_commands(*, with_accounts: bool = False) -> tuple[LiteralString, ...]:
    """Return how pgbench vacuums its small tables and empties its history before a run."""
    small = ("VACUUM pgbench_branches", "VACUUM pgbench_tellers", "TRUNCATE pgbench_history")
    return (*small, "VACUUM ANALYZE pgbench_accounts") if with_accounts else small


def vacuum_pgbench_tables(server: Server, *, with_accounts: bool = False) -> str:
    """Run `vacuum_commands` and return a sentence that reports it."""
    with asking_about(server) as connection:
        for command in vacuum_commands(with_accounts=with_accounts):
            connection.execute(sql.SQL(command))
    accounts = ", and pgbench_accounts with ANALYZE" if with_accounts else ""
    return f"Vacuumed pgbench_branches and pgbench_tellers{accounts}, and emptied pgbench_history, before the run."


def tpcc_warehouses(server: Server) -> int:
    """Return how many warehouses the TPC-C tables have.

    Raises:
        UsageError: there are none.
    """
    hint = "Load them with: pgdrag tpcc load DSN --warehouses N"
    return _size(server, "warehouse", "TPC-C tables", "warehouses in its TPC-C tables", hint)


def _size(server: Server, table: str, tables: str, rows: str, hint: str) -> int:
    found = rows_of(server, table)
    if not found:
        raise UsageError(f"{server.name} has no {tables if found is None else rows}", hint=hint)
    return found


def refuse_shared_isolation(server: Server, isolation: str) -> None:
    """Refuse to set an isolation level in server sessions that a pooler shares with others.

    Raises:
        UsageError: it is not the level that sessions have anyway.
    """
    if server.pooler is None or server.pooler.mode == "session":
        return
    with asking_about(server) as connection:
        ((usual,),) = connection.execute("SHOW default_transaction_isolation").fetchall()
    if usual != isolation:
        raise UsageError(
            f"cannot run at isolation level {isolation} through {server.pooler.name}: sessions there have {usual}",
            hint="Set default_transaction_isolation for the role on the server, or name the server itself.",
        )


def free_bytes(server: Server) -> int | None:
    """Return how much room there is for new tables; None if it cannot be seen from here.

    That is where the default tablespace of the database is, on this machine.
    """
    if not server.is_local:
        return None
    with asking_about(server) as connection:
        ((place,),) = connection.execute(_PLACE_OF_TABLES).fetchall()
    if not place:
        return None
    try:
        return shutil.disk_usage(place).free
    except OSError:  # a directory of another machine or container, or nobody's business
        return None


def drop_tables(server: Server, names: Sequence[str]) -> None:
    """Drop tables all at once; what else depends on them is a reason to refuse.

    Raises:
        ServerLost: the server refused.
    """
    with asking_about(server) as connection:
        tables = sql.SQL(", ").join(map(sql.Identifier, names))
        connection.execute(sql.SQL("DROP TABLE {}").format(tables))


# A role that may not see data_directory gets no row.
_PLACE_OF_TABLES = """
SELECT coalesce(
    nullif(pg_tablespace_location(coalesce(named.oid, own.dattablespace)), ''),
    (SELECT setting FROM pg_settings WHERE name = 'data_directory'), '')
FROM pg_database AS own
LEFT JOIN pg_tablespace AS named ON named.spcname = current_setting('default_tablespace')
WHERE own.datname = current_database()
"""


_IN_SCRIPT = re.compile(r'script "(?P<name>.+)", line (?P<line>\d+)(?:, column (?P<column>\d+))?')


@contextmanager
def _shown_script_lines(job: Mapping[str, object]) -> Iterator[None]:
    """Add the line of the script to an error that names it, and a mark below its column."""
    try:
        yield
    except DriverError as error:
        where, scripts = _IN_SCRIPT.search(error.message), job.get("scripts")
        if where is None or not isinstance(scripts, list):
            raise
        texts = {script["name"]: str(script["text"]).split("\n") for script in scripts}
        lines, number = texts.get(where["name"], []), int(where["line"])
        if 1 <= number <= len(lines):
            shown = lines[number - 1].rstrip()
            if where["column"]:
                # A tab before the mark keeps it below its place.
                before = shown[: int(where["column"]) - 1]
                shown += "\n" + "".join("\t" if x == "\t" else " " for x in before) + "^"
            error.detail = f"Line {number}:\n{shown}"
        raise
