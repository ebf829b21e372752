"""`pgdrag bench`: pgbench's options and scripts, with percentiles, an interval and warnings."""

from __future__ import annotations

from dataclasses import dataclass
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
from pgdrag.cli.options import DryRun, Postgres, refuse_hosts, with_options
from pgdrag.cli.plain_output import print_json
from pgdrag.english import capital
from pgdrag.errors import EXIT_DONE
from pgdrag.model.load import LoadProfile
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
    _INITIALIZATION: {
        "throw_away",
        "postgres",
        *names_of(ScriptOptions),
        *(names_of(LoadOptions) - {"wait"}),
    },
    _THROW_AWAY: {"tablespace", "index_tablespace", *names_of(ServerOptions)},
    _RUN: {"postgres", *names_of(TableOptions)},
}


@dataclass(frozen=True)
class WindowPlan:
    """What a command would do; `before` is what it would do to the server before the load."""

    server: str
    workload: str
    before: tuple[str, ...] = ()
    load: LoadProfile | None = None


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
    dry_run: DryRun = False,
    tables: TableOptions,
    server: ServerOptions,
) -> int:
    """Run pgbench scripts on a server, or create its tables.

    Scripts are pgbench's built-in ones (-b) or your own (-f). With -i, create pgbench's tables. With
    --throw-away, create a server with the tables for this run.
    """
    from pgdrag.cli.driving import report_window
    from pgdrag.cli.server_argument import free_server, require_consent
    from pgdrag.driver.connection_string import refuse_standby
    from pgdrag.workloads.scripts import BUILTINS

    if "list" in (scripts.builtin or ()):
        for name, builtin in BUILTINS.items():
            print(f"{name:>13}: {builtin.title}")
        return EXIT_DONE
    mode = _INITIALIZATION if initialize else _THROW_AWAY if throw_away else _RUN
    refuse(context, _REFUSED[mode], mode)
    made = tables.tables(has_vacuum=not no_vacuum)
    if initialize:
        if dry_run:
            what = capital(_tables_words(scale or 1))
            what += ", and drop those that exist" if "d" in made.steps else ""
            return _print_plan(WindowPlan(_server_words(server.named()), what), json=False)
        there = server.named(own_session="bench -i")
        refuse_standby(there, "bench -i")
        there = free_server(there, load.wait)
        require_consent(there, "create pgbench's tables there", is_given=server.yes)
        _make_tables(there, made, scale or 1, is_quiet=tables.quiet)
        return EXIT_DONE
    window = _Window(scripts, load, made, scale, postgres, has_vacuum=not no_vacuum)
    window.check()
    if dry_run:
        plan = window.throw_away_plan() if throw_away else window.plan(server.named())
        return _print_plan(plan, json=load.json)
    if throw_away:
        refuse_hosts(window.load, "--throw-away")
        return report_window(window.throw_away(), html=load.html, json=load.json)
    there = server.named()
    window.refuse(there)
    there = free_server(there, load.wait)
    require_consent(there, "run the load there", is_given=server.yes)
    return report_window(window.on(there), html=load.html, json=load.json)


class _Window:
    """One measured window of scripts: on a server that is there, or on one made for it."""

    def __init__(
        self,
        scripts: ScriptOptions,
        load: LoadOptions,
        tables: Tables,
        scale: int | None,
        postgres: str | None,
        *,
        has_vacuum: bool,
    ) -> None:
        from pgdrag.bench import vacuum_commands

        self.options, self.load_options, self.tables = scripts, load, tables
        self.scale, self.postgres = scale, postgres
        self.scripts = scripts.scripts()
        self.load = load.profile(transactions=scripts.transactions, reconnect=scripts.connect)
        self.seed = load.seed()
        self.has_tables = any(script.is_builtin for script in self.scripts)
        self.vacuums = vacuum_commands(with_accounts=scripts.vacuum_all)
        if not (has_vacuum and self.has_tables):
            self.vacuums = ()

    def job(self, scale: int) -> dict[str, object]:
        """Return the driver's job."""
        from pgdrag.workloads.pgbench import pgbench_job

        return pgbench_job(
            self.scripts,
            statements=self.options.protocol,
            variables=self.options.variables(),
            max_tries=self.options.max_tries,
            allow_shell=self.options.allow_shell,
            time_statements=self.options.report_per_command,
            scale=scale,
        )

    def check(self) -> None:
        """Refuse scripts with mistakes, before anything is created or vacuumed."""
        from pgdrag.bench import check_scripts

        check_scripts(self.job(self.scale or 1))

    def plan(self, there: Server) -> WindowPlan:
        """Return what would be done on a server; nothing is changed."""
        self.refuse(there)
        what = self._words(self._scale_on(there))
        vacuums = () if there.is_standby else self.vacuums
        return WindowPlan(_server_words(there), what, vacuums, self.load)

    def throw_away_plan(self) -> WindowPlan:
        """Return what would be done on a server made for the run."""
        from pgdrag.servers.binaries import find_binaries

        scale = self.scale or THROW_AWAY_SCALE
        version = find_binaries(self.postgres).version
        where = f"PostgreSQL {version}, created for the run and removed afterwards"
        before = (_tables_words(scale),)
        return WindowPlan(where, self._words(scale), before, self.load)

    def on(self, there: Server) -> Findings:
        """Run it on a server."""
        from pgdrag.bench import vacuum_pgbench_tables
        from pgdrag.cli.place import measuring

        with measuring(self.load_options.wait):
            notes, scale = [], self._scale_on(there)
            if self.has_tables and self.scale not in (None, scale):
                notes.append(f"The tables have scale {scale}, used instead of {self.scale}.")
            if self.vacuums and there.is_standby:
                notes.append("Nothing was vacuumed before the run: the server is a standby.")
            elif self.vacuums:
                notes.append(vacuum_pgbench_tables(there, with_accounts=self.options.vacuum_all))
            return self._run(there, scale, *notes)

    def throw_away(self) -> Findings:
        """Make a server with the tables, run it there, and remove the server."""
        from pgdrag.bench import throw_away_server
        from pgdrag.cli.place import measuring, open_scratch, stderr
        from pgdrag.servers.binaries import find_binaries

        note = "The server was created for this run with PostgreSQL's default settings, and has been removed."
        binaries = find_binaries(self.postgres)
        with (
            measuring(self.load_options.wait),
            throw_away_server(binaries, self.load.connections, open_scratch()) as there,
        ):
            scale = self.scale or THROW_AWAY_SCALE
            _make_tables(there, self.tables, scale, is_quiet=not stderr().is_terminal)
            return self._run(there, scale, note)

    def refuse(self, there: Server) -> None:
        """Refuse scripts that cannot run on a server, and a mode of statements that does not get through to it."""
        from pgdrag.driver.connection_string import refuse_standby
        from pgdrag.driver.pooler import sendable

        for script in self.scripts:
            if script.is_builtin and script.writes:
                purpose = f"the script {script.name}"
                refuse_standby(there, purpose, "Name its primary, or only read: -S.")
        has_blocks = any(script.has_block for script in self.scripts)
        sendable(there.pooler, self.options.protocol, is_default=False, has_blocks=has_blocks)

    def _scale_on(self, there: Server) -> int:
        from pgdrag.bench import pgbench_scale

        return pgbench_scale(there) if self.has_tables else self.scale or 1

    def _words(self, scale: int) -> str:
        is_one = len(self.scripts) == 1
        names = ", ".join(x.name if is_one else f"{x.name}@{x.weight}" for x in self.scripts)
        return f"{names}, scale {scale:,}, {self.options.protocol} statements"

    def _run(self, there: Server, scale: int, *notes: str) -> Findings:
        from pgdrag.bench import run_load
        from pgdrag.cli.driving import showing_run
        from pgdrag.model import WorkloadSpec

        shown = {
            "scripts": [{"name": x.name, "weight": x.weight} for x in self.scripts],
            "scale": scale,
            "statements": self.options.protocol,
            "max_tries": self.options.max_tries,
        }
        with showing_run(self.load, every_s=self.load_options.progress) as listen:
            return run_load(
                there,
                self._words(scale),
                WorkloadSpec("pgbench", shown),
                self.job(scale),
                self.load,
                seed=self.seed,
                listen=listen,
                notes=notes,
            )


def _print_plan(plan: WindowPlan, *, json: bool) -> int:
    from pgdrag.cli.place import stdout
    from pgdrag.cli.plan import NOTHING_RUN
    from pgdrag.report.sections.method import load_words

    if json:
        print_json(plan)
        return EXIT_DONE
    out = stdout()
    out.print(plan.workload, style="bold")
    out.print(f"Server: {plan.server}")
    for line in plan.before:
        out.print(f"Before the load: {line}")
    if plan.load is not None:
        out.print(f"Load: {load_words(plan.load)}")
        out.print(f"Time: {_time_words(plan.load)}")
    out.print(NOTHING_RUN)
    return EXIT_DONE


def _server_words(server: Server) -> str:
    return f"{server.name}, PostgreSQL {server.version}"


def _time_words(load: LoadProfile) -> str:
    warm_up = f"{format_duration(load.warm_up_s)} warm-up, "
    if load.transactions is not None:
        return f"{warm_up}then {load.transactions:,} transactions per client"
    return f"{warm_up}{format_duration(load.measure_s)} measured"


def _tables_words(scale: int) -> str:
    from pgdrag.workloads.pgbench import Pgbench

    size = format_bytes(Pgbench(scale=scale).dataset_bytes())
    return f"create pgbench's tables at scale {scale:,}, about {size}"


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
