"""`pgdrag bench`: pgbench's options and scripts, with percentiles, an interval and warnings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer

from pgdrag.cli import bench_options as options
from pgdrag.cli.options import Consent, Dsn, Json, Postgres, WindowHtml
from pgdrag.errors import EXIT_DONE, UsageError
from pgdrag.units import format_bytes, format_duration

if TYPE_CHECKING:
    from pgdrag.driver.connection_string import Server
    from pgdrag.findings.values import Findings
    from pgdrag.model.load import LoadProfile
    from pgdrag.workloads.pgbench import Tables
    from pgdrag.workloads.scripts import Script

THROW_AWAY_SCALE = 10
# The rows of pgbench's tables are not random.
_LOAD_SEED = 1

_SERVER = ("dsn", "host", "port", "username", "dbname", "yes")
_TABLES = ("init_steps", "fillfactor", "partitions", "partition_method", "unlogged_tables",
           "foreign_keys", "scale", "no_vacuum", "quiet")  # fmt: skip
_RUN = ("file", "builtin", "select_only", "skip_some_updates", "client", "jobs", "time", "transactions", "connect", "warm_up",
        "protocol", "define", "rate", "arrivals", "latency_limit", "max_tries", "sessions",
        "progress", "report_per_command", "allow_shell", "random_seed", "html", "json", "scale", "no_vacuum", "vacuum_all")  # fmt: skip
# Each mode: its name in messages, and the options that apply to it.
_MODES = {
    "initialize": (
        "initialization (-i)",
        ("initialize", "tablespace", "index_tablespace", *_SERVER, *_TABLES),
    ),
    "throw_away": ("--throw-away", ("throw_away", "postgres", *_TABLES, *_RUN)),
    "run": ("a run without -i or --throw-away", (*_SERVER, *_RUN)),
}


@dataclass(frozen=True)
class _Asked:
    """What to run, as far as it is known without a server; `job` takes the scale."""

    scripts: tuple[Script, ...]
    load: LoadProfile
    job: Callable[..., dict[str, object]]
    seed: int
    progress_s: float | None


def bench(
    context: typer.Context,
    dsn: Dsn = None,
    file: options.Files = None,
    builtin: options.Builtins = None,
    select_only: options.SelectOnly = False,
    skip_some_updates: options.SimpleUpdate = False,
    client: options.Clients = None,
    jobs: options.Jobs = 1,
    time: options.Duration = None,
    transactions: options.Transactions = None,
    connect: options.Connect = False,
    warm_up: options.WarmUp = options.DEFAULT_WARM_UP_S,
    protocol: options.ProtocolKind = options.Protocol.SIMPLE,
    define: options.Define = None,
    rate: options.Rate = None,
    arrivals: options.ArrivalsKind = None,
    latency_limit: options.LatencyLimit = None,
    max_tries: options.MaxTries = 1,
    sessions: options.Sessions = None,
    progress: options.Progress = None,
    report_per_command: options.PerCommand = False,
    no_vacuum: options.NoVacuum = False,
    vacuum_all: options.VacuumAll = False,
    allow_shell: options.AllowShell = False,
    random_seed: options.RandomSeed = None,
    html: WindowHtml = None,
    json: Json = False,
    throw_away: options.ThrowAway = False,
    postgres: Postgres = None,
    initialize: options.Initialize = False,
    scale: options.Scale = None,
    init_steps: options.InitSteps = "dtgvp",
    fillfactor: options.FillFactor = 100,
    partitions: options.Partitions = 0,
    partition_method: options.PartitionKind = options.PartitionMethod.RANGE,
    tablespace: options.Tablespace = None,
    index_tablespace: options.IndexTablespace = None,
    unlogged_tables: options.Unlogged = False,
    foreign_keys: options.ForeignKeys = False,
    quiet: options.Quiet = False,
    host: options.Host = None,
    port: options.Port = None,
    username: options.User = None,
    dbname: options.Database = None,
    yes: Consent = False,
) -> int:
    """Run pgbench scripts on a server, or create its tables.

    Scripts are pgbench's built-in ones (-b) or your own (-f). With -i, create pgbench's tables. With
    --throw-away, create a server with the tables for this run.
    """
    from pgdrag.bench import check_scripts
    from pgdrag.cli.driving import report_window, require_consent, seed_of
    from pgdrag.workloads.pgbench import Tables, pgbench_job

    if "list" in (builtin or ()):
        _list_builtins()
        return EXIT_DONE
    mode = "initialize" if initialize else "throw_away" if throw_away else "run"
    called, allowed = _MODES[mode]
    options.refuse_others(context, allowed, called)
    has_vacuum = mode == "run" or not no_vacuum
    tables = Tables(
        steps=options.init_steps_of(init_steps, has_vacuum=has_vacuum),
        fillfactor=fillfactor,
        partitions=partitions,
        partition_method=partition_method.value,
        tablespace=tablespace,
        index_tablespace=index_tablespace,
        unlogged=unlogged_tables,
        foreign_keys=foreign_keys,
    )
    if mode == "initialize":
        server = _reached(dsn, host, port, username, dbname)
        require_consent(server, "create pgbench's tables there", is_given=yes)
        _make_tables(server, tables, scale or 1, is_quiet=quiet)
        return EXIT_DONE
    scripts = options.scripts_of(
        file or (),
        builtin or (),
        select_only=select_only,
        skip_some_updates=skip_some_updates,
    )
    asked = _Asked(
        scripts,
        load=options.load_of(
            clients=client,
            jobs=jobs,
            duration_s=time,
            warm_up_s=warm_up,
            rate_per_s=rate,
            arrivals=arrivals,
            latency_limit_ms=latency_limit,
            sessions=sessions,
            transactions=transactions,
            reconnect=connect,
        ),
        job=partial(
            pgbench_job,
            scripts,
            statements=protocol.value,
            variables=options.variables_of(define or ()),
            max_tries=max_tries,
            allow_shell=allow_shell,
            time_statements=report_per_command,
        ),
        seed=seed_of(random_seed),
        progress_s=progress,
    )
    # Before anything is created or vacuumed.
    check_scripts(asked.job(scale=scale or 1))
    if mode == "throw_away":
        run = _run_throw_away(asked, tables, scale or THROW_AWAY_SCALE, postgres)
    else:
        server = _reached(dsn, host, port, username, dbname)
        require_consent(server, "run the load there", is_given=yes)
        vacuum = "none" if no_vacuum else "all" if vacuum_all else "small"
        run = _run_on(server, asked, scale, vacuum)
    return report_window(run, html=html, json=json)


def _list_builtins() -> None:
    from pgdrag.workloads.scripts import BUILTINS

    for name, builtin in BUILTINS.items():
        print(f"{name:>13}: {builtin.title}")


def _reached(
    dsn: str | None, host: str | None, port: int | None, username: str | None, dbname: str | None
) -> Server:
    from pgdrag.cli.server_argument import named_server

    if dsn is not None and dbname is not None:
        raise UsageError(
            f'the database is named twice, by "{dsn}" and by --dbname "{dbname}"',
            hint="Omit one of them.",
        )
    given = {"host": host, "port": port, "user": username}
    overrides = {name: value for name, value in given.items() if value is not None}
    example = "pgdrag bench postgresql://me@db1/bench, or create one: pgdrag bench --throw-away"
    return named_server(dsn or dbname, example, overrides, is_for_driver=True)


def _make_tables(server: Server, tables: Tables, scale: int, *, is_quiet: bool) -> None:
    from pgdrag.bench import load_tables
    from pgdrag.cli.driving import showing_load
    from pgdrag.cli.place import stderr
    from pgdrag.workloads.pgbench import pgbench_job

    job = pgbench_job((), scale=scale, tables=tables)
    talk = stderr()
    with showing_load(talk, is_quiet=is_quiet) as listen:
        load = load_tables(server, job, seed=_LOAD_SEED, listen=listen)
    talk.print(
        f"Created pgbench's tables at scale {scale:,} in {format_duration(load.elapsed_s)}: "
        f"{load.rows:,} rows, {format_bytes(load.bytes)} sent."
    )


def _run_throw_away(asked: _Asked, tables: Tables, scale: int, postgres: str | None) -> Findings:
    from pgdrag.bench import throw_away_server
    from pgdrag.cli.place import open_scratch
    from pgdrag.host.machine_lock import measuring_alone

    with (
        measuring_alone(),
        throw_away_server(postgres, asked.load.connections, open_scratch()) as server,
    ):
        _make_tables(server, tables, scale, is_quiet=True)
        note = "The server was created for this run with PostgreSQL's default settings, and has been removed."
        return _run(server, asked, scale, (note,))


def _run_on(server: Server, asked: _Asked, scale: int | None, vacuum: str) -> Findings:
    from pgdrag.bench import pgbench_scale, vacuum_pgbench_tables
    from pgdrag.host.machine_lock import measuring_alone

    notes = []
    with measuring_alone():
        if any(script.is_builtin for script in asked.scripts):
            found = pgbench_scale(server)
            if scale not in (None, found):
                notes.append(f"The tables have scale {found}, used instead of {scale}.")
            scale = found
            if vacuum != "none":
                notes.append(vacuum_pgbench_tables(server, with_accounts=vacuum == "all"))
        return _run(server, asked, scale or 1, tuple(notes))


def _run(server: Server, asked: _Asked, scale: int, notes: tuple[str, ...]) -> Findings:
    from pgdrag.bench import Work, run_work
    from pgdrag.cli.driving import showing_run
    from pgdrag.cli.place import stderr
    from pgdrag.model import WorkloadSpec

    job = asked.job(scale=scale)
    shown = {
        "scripts": [{"name": x.name, "weight": x.weight} for x in asked.scripts],
        "scale": scale,
        "statements": job["statements"],
        "max_tries": job["max_tries"],
    }
    is_one = len(asked.scripts) == 1
    names = ", ".join(x.name if is_one else f"{x.name}@{x.weight}" for x in asked.scripts)
    what = f"{names}, scale {scale:,}, {job['statements']} statements"
    work = Work(what, WorkloadSpec("pgbench", shown), job)
    with showing_run(stderr(), asked.load, every_s=asked.progress_s) as listen:
        return run_work(server, work, asked.load, seed=asked.seed, listen=listen, notes=notes)
