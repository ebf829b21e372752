"""`pgdrag bench`: pgbench's options and scripts, with percentiles, an interval and warnings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from pgdrag.cli.bench_options import (
    Initialize,
    LoadOptions,
    NoVacuum,
    Scale,
    ScriptOptions,
    ServerOptions,
    TableOptions,
    ThrowAway,
    names_of,
    refuse,
)
from pgdrag.cli.options import Postgres, with_options
from pgdrag.errors import EXIT_DONE
from pgdrag.units import format_bytes, format_duration

if TYPE_CHECKING:
    from pgdrag.driver.connection_string import Server
    from pgdrag.findings.values import Findings
    from pgdrag.workloads.pgbench import Tables

THROW_AWAY_SCALE = 10
# The rows of pgbench's tables are not random.
_LOAD_SEED = 1


# Each mode, as messages call it, and the options that do not apply to it.
_INITIALIZATION = "initialization (-i)"
_THROW_AWAY = "--throw-away"
_RUN = "a run without -i or --throw-away"
_REFUSED = {
    _INITIALIZATION: {"throw_away", "postgres", *names_of(ScriptOptions), *names_of(LoadOptions)},
    _THROW_AWAY: {"tablespace", "index_tablespace", *names_of(ServerOptions)},
    _RUN: {"postgres", *names_of(TableOptions)},
}


@with_options
def bench(
    context: typer.Context,
    *,
    scripts: ScriptOptions,
    load: LoadOptions,
    throw_away: ThrowAway = False,
    postgres: Postgres = None,
    initialize: Initialize = False,
    scale: Scale = None,
    no_vacuum: NoVacuum = False,
    tables: TableOptions,
    server: ServerOptions,
) -> int:
    """Run pgbench scripts on a server, or create its tables.

    Scripts are pgbench's built-in ones (-b) or your own (-f). With -i, create pgbench's tables. With
    --throw-away, create a server with the tables for this run.
    """
    from pgdrag.bench import (
        check_scripts,
        pgbench_scale,
        run_load,
        throw_away_server,
        vacuum_pgbench_tables,
    )
    from pgdrag.cli.driving import report_window, showing_run
    from pgdrag.cli.place import measuring, open_scratch, stderr
    from pgdrag.model import WorkloadSpec
    from pgdrag.servers.binaries import find_binaries
    from pgdrag.workloads.pgbench import pgbench_job
    from pgdrag.workloads.scripts import BUILTINS

    if "list" in (scripts.builtin or ()):
        for name, builtin in BUILTINS.items():
            print(f"{name:>13}: {builtin.title}")
        return EXIT_DONE
    mode = _INITIALIZATION if initialize else _THROW_AWAY if throw_away else _RUN
    refuse(context, _REFUSED[mode], mode)
    made = tables.tables(has_vacuum=not no_vacuum)
    if initialize:
        _make_tables(
            server.reached("create pgbench's tables there"), made, scale or 1, is_quiet=tables.quiet
        )
        return EXIT_DONE
    chosen = scripts.scripts()
    profile = load.profile(transactions=scripts.transactions, reconnect=scripts.connect)
    seed = load.seed()
    job = partial(
        pgbench_job,
        chosen,
        statements=scripts.protocol,
        variables=scripts.variables(),
        max_tries=scripts.max_tries,
        allow_shell=scripts.allow_shell,
        time_statements=scripts.report_per_command,
    )
    # Before anything is created or vacuumed.
    check_scripts(job(scale=scale or 1))

    def run(there: Server, scale: int, *notes: str) -> Findings:
        is_one = len(chosen) == 1
        names = ", ".join(x.name if is_one else f"{x.name}@{x.weight}" for x in chosen)
        shown = {
            "scripts": [{"name": x.name, "weight": x.weight} for x in chosen],
            "scale": scale,
            "statements": scripts.protocol,
            "max_tries": scripts.max_tries,
        }
        with showing_run(profile, every_s=load.progress) as listen:
            return run_load(
                there,
                f"{names}, scale {scale:,}, {scripts.protocol} statements",
                WorkloadSpec("pgbench", shown),
                job(scale=scale),
                profile,
                seed=seed,
                listen=listen,
                notes=notes,
            )

    if throw_away:
        note = "The server was created for this run with PostgreSQL's default settings, and has been removed."
        connections = profile.connections
        binaries = find_binaries(postgres)
        with (
            measuring(load.wait),
            throw_away_server(binaries, connections, open_scratch()) as there,
        ):
            scale = scale or THROW_AWAY_SCALE
            _make_tables(there, made, scale, is_quiet=not stderr().is_terminal)
            found = run(there, scale, note)
    else:
        there = server.reached("run the load there")
        with measuring(load.wait):
            notes = []
            if any(script.is_builtin for script in chosen):
                wanted, scale = scale, pgbench_scale(there)
                if wanted not in (None, scale):
                    notes.append(f"The tables have scale {scale}, used instead of {wanted}.")
                if not no_vacuum:
                    notes.append(vacuum_pgbench_tables(there, with_accounts=scripts.vacuum_all))
            found = run(there, scale or 1, *notes)
    return report_window(found, html=load.html, json=load.json)


def _make_tables(server: Server, tables: Tables, scale: int, *, is_quiet: bool) -> None:
    from pgdrag.cli.driving import load_tables
    from pgdrag.cli.place import stderr
    from pgdrag.workloads.pgbench import pgbench_job

    job = pgbench_job((), scale=scale, tables=tables)
    load = load_tables(server, job, seed=_LOAD_SEED, is_quiet=is_quiet)
    stderr().print(
        f"Created pgbench's tables at scale {scale:,} in {format_duration(load.elapsed_s)}: "
        f"{load.rows:,} rows, {format_bytes(load.bytes)} sent."
    )
