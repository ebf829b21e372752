"""`pgdrag bench`: pgbench's options and scripts, with percentiles, an interval and what to doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import typer

from pgdrag.bench import (
    Work,
    check_scripts,
    load_tables,
    pgbench_scale,
    run_work,
    throw_away_server,
    vacuum_pgbench_tables,
)
from pgdrag.cli import bench_options as options
from pgdrag.cli.driving import (
    reached,
    require_consent,
    seed_of,
    showing_load,
    showing_run,
    tell_result,
)
from pgdrag.cli.place import Postgres, open_scratch, stderr
from pgdrag.driver.connection_string import Server, names_a_server
from pgdrag.errors import EXIT_DONE, UsageError
from pgdrag.host.machine_lock import measuring_alone
from pgdrag.model import WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.report.bench import BenchRun
from pgdrag.units import format_bytes, format_duration
from pgdrag.workloads._scripts import BUILTINS, Script
from pgdrag.workloads.pgbench import Tables, pgbench_job

THROW_AWAY_SCALE = 10
# pgbench's tables hold nothing random.
_LOAD_SEED = 1

_SERVER = ("dsn", "host", "port", "username", "dbname", "yes")
_TABLES = ("init_steps", "fillfactor", "partitions", "partition_method", "unlogged_tables",
           "foreign_keys", "scale", "no_vacuum", "quiet")  # fmt: skip
_RUN = ("file", "builtin", "select_only", "skip_some_updates", "client", "jobs", "time", "transactions", "connect", "warm_up",
        "protocol", "define", "rate", "arrivals", "latency_limit", "max_tries", "sessions",
        "progress", "report_per_command", "allow_shell", "random_seed", "json", "scale", "no_vacuum", "vacuum_all")  # fmt: skip
# Which options each thing that can be asked for takes, and what it is called.
_MODES = {
    "initialize": (
        "making tables (-i)",
        ("initialize", "tablespace", "index_tablespace", *_SERVER, *_TABLES),
    ),
    "throw_away": ("a throw-away server", ("throw_away", "postgres", *_TABLES, *_RUN)),
    "run": ("a run without -i or --throw-away", (*_SERVER, *_RUN)),
}


@dataclass(frozen=True)
class _Asked:
    """What is to be run, as far as no server is needed to know it."""

    scripts: tuple[Script, ...]
    variables: Mapping[str, str]
    load: LoadProfile
    statements: str
    max_tries: int
    allow_shell: bool
    time_statements: bool
    seed: int
    progress_s: float | None


def bench(
    context: typer.Context,
    dsn: options.Dsn = None,
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
    json: options.Json = False,
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
    yes: options.Yes = False,
) -> int:
    """Run pgbench's scripts, built in or yours, on a server; or make pgbench's tables (-i)."""
    if "list" in (builtin or ()):
        _list_builtins()
        return EXIT_DONE
    mode = "initialize" if initialize else "throw_away" if throw_away else "run"
    called, allowed = _MODES[mode]
    options.refuse_strangers(context, allowed, called)
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
        require_consent(server, "make pgbench's tables there", is_given=yes)
        _make_tables(server, tables, scale or 1, is_quiet=quiet)
        return EXIT_DONE
    asked = _Asked(
        scripts=options.scripts_of(
            file or (),
            builtin or (),
            select_only=select_only,
            skip_some_updates=skip_some_updates,
        ),
        variables=options.variables_of(define or ()),
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
        statements=protocol.value,
        max_tries=max_tries,
        allow_shell=allow_shell,
        time_statements=report_per_command,
        seed=seed_of(random_seed),
        progress_s=progress,
    )
    # Before anything is made, vacuumed or asked.
    check_scripts(_job(asked, scale or 1))
    if mode == "throw_away":
        run = _run_throw_away(asked, tables, scale or THROW_AWAY_SCALE, postgres)
    else:
        server = _reached(dsn, host, port, username, dbname)
        require_consent(server, "put load on it", is_given=yes)
        vacuum = "none" if no_vacuum else "all" if vacuum_all else "small"
        run = _run_on(server, asked, scale, vacuum)
    return tell_result(run, json=json)


def _list_builtins() -> None:
    for builtin in BUILTINS.values():
        print(f"{builtin.name:>13}: {builtin.title}")


def _reached(
    dsn: str | None, host: str | None, port: int | None, username: str | None, dbname: str | None
) -> Server:
    if dsn is not None and dbname is not None:
        raise UsageError(
            f'the database is named twice, by "{dsn}" and by --dbname "{dbname}"',
            hint="Leave out one of them.",
        )
    given = {"host": host, "port": port, "user": username}
    overrides = {name: value for name, value in given.items() if value is not None}
    if not names_a_server(dsn or dbname, overrides):
        raise UsageError(
            "which server? nothing names one",
            detail="There is no connection string, and PGHOST, PGDATABASE and the like are not set.",
            hint="Name a server, as in: pgdrag bench postgresql://me@db1/bench, or have one made "
            "for this run: pgdrag bench --throw-away",
        )
    return reached(dsn or dbname, overrides)


def _make_tables(server: Server, tables: Tables, scale: int, *, is_quiet: bool) -> None:
    job = pgbench_job((), scale=scale, tables=tables)
    talk = stderr()
    with showing_load(talk, is_quiet=is_quiet) as listen:
        load = load_tables(server, job, seed=_LOAD_SEED, listen=listen)
    talk.print(
        f"Made pgbench's tables at scale {scale:,} in {format_duration(load.elapsed_s)}: "
        f"{load.rows:,} rows, {format_bytes(load.bytes)} sent."
    )


def _run_throw_away(asked: _Asked, tables: Tables, scale: int, postgres: str | None) -> BenchRun:
    with (
        measuring_alone(),
        throw_away_server(postgres, asked.load.connections, open_scratch()) as server,
    ):
        _make_tables(server, tables, scale, is_quiet=True)
        note = "The server was made for this run, with PostgreSQL's default settings, and is gone."
        return _run(server, asked, scale, (note,))


def _run_on(server: Server, asked: _Asked, scale: int | None, vacuum: str) -> BenchRun:
    notes = []
    with measuring_alone():
        if any(script.is_builtin for script in asked.scripts):
            found = pgbench_scale(server)
            if scale not in (None, found):
                notes.append(f"The tables have scale {found}, which is used instead of {scale}.")
            scale = found
            if vacuum != "none":
                notes.append(vacuum_pgbench_tables(server, with_accounts=vacuum == "all"))
        return _run(server, asked, scale or 1, tuple(notes))


def _job(asked: _Asked, scale: int) -> dict[str, object]:
    return pgbench_job(
        asked.scripts,
        scale=scale,
        statements=asked.statements,
        variables=asked.variables,
        max_tries=asked.max_tries,
        allow_shell=asked.allow_shell,
        time_statements=asked.time_statements,
    )


def _run(server: Server, asked: _Asked, scale: int, notes: tuple[str, ...]) -> BenchRun:
    scripts, load = asked.scripts, asked.load
    shown = {
        "scripts": [{"name": x.name, "weight": x.weight} for x in scripts],
        "scale": scale,
        "statements": asked.statements,
        "max_tries": asked.max_tries,
    }
    names = ", ".join(x.name if len(scripts) == 1 else f"{x.name}@{x.weight}" for x in scripts)
    what = f"{names}, scale {scale:,}, {asked.statements} statements"
    work = Work(what, WorkloadSpec("pgbench", shown), _job(asked, scale))
    with showing_run(stderr(), load, every_s=asked.progress_s) as listen:
        return run_work(server, work, load, seed=asked.seed, listen=listen, notes=notes)
