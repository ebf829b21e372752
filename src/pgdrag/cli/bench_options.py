"""Which options does `pgdrag bench` have? pgbench's letters with pgbench's meanings, and some of its own.

An option applies to initialization (`-i`), to a run, or to both; any other is refused, not ignored.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdrag.cli.options import (
    LARGEST_SEED,
    Consent,
    Dsn,
    Generators,
    Json,
    Wait,
    WindowHtml,
    generators_of,
)
from pgdrag.errors import UsageError
from pgdrag.units import parse_seconds

if TYPE_CHECKING:
    from pgdrag.driver.connection_string import Server
    from pgdrag.model.load import LoadProfile, Step
    from pgdrag.workloads.pgbench import Tables
    from pgdrag.workloads.scripts import Script

LARGEST_SCALE = 20_000  # as workloads.pgbench has it, which is not imported for help
DEFAULT_DURATION_S = 20.0
MOST_CLIENTS = 10_000
MOST_STEPS = 1000
LONGEST_S = 604_800.0


ThrowAway = Annotated[bool, typer.Option("--throw-away", help="Run on a temporary cluster, created with pgbench's tables and removed afterwards")]  # fmt: skip
Initialize = Annotated[bool, typer.Option("--initialize", "-i", help="Create pgbench's tables instead of running")]  # fmt: skip
Scale = Annotated[int | None, typer.Option("--scale", "-s", metavar="N", min=1, max=LARGEST_SCALE, help="Scale factor (100,000 accounts per unit); in a run, the value of :scale (default: 1, or 10 with --throw-away)")]  # fmt: skip
NoVacuum = Annotated[bool, typer.Option("--no-vacuum", "-n", help="Do not vacuum, before a run of built-in scripts or with -i")]  # fmt: skip

_KNOWN_STEPS = "dtgGvpf"


@dataclass(frozen=True)
class ScriptOptions:
    """Which scripts `pgdrag bench` runs, and how."""

    file: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE[@W]", help="Run the script in FILE, with weight W; repeatable")] = None  # fmt: skip
    builtin: Annotated[list[str] | None, typer.Option("--builtin", "-b", metavar="NAME[@W]", help='Run a built-in script, with weight W; repeatable; "list" lists them')] = None  # fmt: skip
    select_only: Annotated[bool, typer.Option("--select-only", "-S", help="Same as -b select-only")] = False  # fmt: skip
    skip_some_updates: Annotated[bool, typer.Option("--skip-some-updates", "-N", help="Same as -b simple-update")] = False  # fmt: skip
    protocol: Annotated[Literal["simple", "extended", "prepared"], typer.Option("--protocol", "-M", help="How statements are sent")] = "simple"  # fmt: skip
    define: Annotated[list[str] | None, typer.Option("--define", "-D", metavar="NAME=VALUE", help="Define a variable for the scripts; repeatable")] = None  # fmt: skip
    max_tries: Annotated[int, typer.Option("--max-tries", metavar="N", min=0, max=1_000_000, help="Maximum attempts after serialization failures or deadlocks; 0: no limit")] = 1  # fmt: skip
    transactions: Annotated[int | None, typer.Option("--transactions", "-t", metavar="N", min=1, max=2**31 - 1, help="Transactions per client, instead of --time; the window ends with the last one")] = None  # fmt: skip
    connect: Annotated[bool, typer.Option("--connect", "-C", help="Open a new connection for each transaction")] = False  # fmt: skip
    report_per_command: Annotated[bool, typer.Option("--report-per-command", "-r", help="Report the latency of each statement")] = False  # fmt: skip
    vacuum_all: Annotated[bool, typer.Option("--vacuum-all", "-v", help="Before a run of built-in scripts, also vacuum pgbench_accounts")] = False  # fmt: skip
    allow_shell: Annotated[bool, typer.Option("--allow-shell", help=r"Allow scripts to run programs with \shell and \setshell")] = False  # fmt: skip

    def scripts(self) -> tuple[Script, ...]:
        """Return the scripts that options name; by default pgbench's own default.

        Raises:
            UsageError: a script cannot be found.
        """
        from pgdrag.workloads.scripts import builtin_script, file_script, with_own_names

        names = [*(self.builtin or ())]
        names += ["select-only"] if self.select_only else []
        names += ["simple-update"] if self.skip_some_updates else []
        found = [builtin_script(name) for name in names]
        found += [file_script(name, Path()) for name in self.file or ()]
        return with_own_names(found or [builtin_script("tpcb-like")])

    def variables(self) -> dict[str, str]:
        """Return the variables of `-D name=value`; the last definition of a name counts.

        Raises:
            UsageError: a definition is malformed.
        """
        found = {}
        for definition in self.define or ():
            name, equals, value = definition.partition("=")
            if not equals or not re.fullmatch(
                r"[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*", name
            ):
                raise UsageError(
                    f'"{definition}" does not define a variable',
                    hint="Write -D name=value, such as -D n=10.",
                )
            found[name] = value
        return found


@dataclass(frozen=True)
class TableOptions:
    """Which tables `pgdrag bench` makes."""

    init_steps: Annotated[str, typer.Option("--init-steps", "-I", metavar="STEPS", help="With -i: steps: d drop, t create tables, g generate rows on the client, G on the server, v vacuum, p primary keys, f foreign keys")] = "dtgvp"  # fmt: skip
    fillfactor: Annotated[int, typer.Option("--fillfactor", "-F", metavar="N", min=10, max=100, help="With -i: fill factor of the tables, in %")] = 100  # fmt: skip
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", min=0, max=10_000, help="With -i: number of partitions of pgbench_accounts")] = 0  # fmt: skip
    partition_method: Annotated[Literal["range", "hash"], typer.Option("--partition-method", help="With -i: partitioning method of pgbench_accounts")] = "range"  # fmt: skip
    tablespace: Annotated[str | None, typer.Option("--tablespace", metavar="NAME", help="With -i: tablespace of the tables (default: the server's)")] = None  # fmt: skip
    index_tablespace: Annotated[str | None, typer.Option("--index-tablespace", metavar="NAME", help="With -i: tablespace of the indexes (default: the server's)")] = None  # fmt: skip
    unlogged_tables: Annotated[bool, typer.Option("--unlogged-tables", help="With -i: create unlogged tables")] = False  # fmt: skip
    foreign_keys: Annotated[bool, typer.Option("--foreign-keys", help="With -i: create foreign keys between the tables")] = False  # fmt: skip
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="With -i: do not print progress")] = False  # fmt: skip

    def tables(self, *, has_vacuum: bool) -> Tables:
        """Return the tables to create; without `has_vacuum` the step `v` is left out.

        Raises:
            UsageError: a step is unknown, or there is none; or there is a method of partitioning, and no partitions.
        """
        from pgdrag.workloads.pgbench import Tables

        steps = self.init_steps.replace(" ", "")
        unknown = next((step for step in steps if step not in _KNOWN_STEPS), None)
        if unknown is not None or not steps:
            raise UsageError(
                f'"{unknown or self.init_steps}" is not an initialization step',
                hint=f"Steps: {_KNOWN_STEPS}.",
            )
        if self.partition_method != "range" and not self.partitions:
            raise UsageError(
                "--partition-method requires --partitions", hint="Say how many: --partitions 8."
            )
        return Tables(
            steps=steps if has_vacuum else steps.replace("v", ""),
            fillfactor=self.fillfactor,
            partitions=self.partitions,
            partition_method=self.partition_method,
            tablespace=self.tablespace,
            index_tablespace=self.index_tablespace,
            unlogged=self.unlogged_tables,
            foreign_keys=self.foreign_keys,
        )


@dataclass(frozen=True)
class ServerOptions:
    """On which server `pgdrag bench` works."""

    dsn: Dsn = None
    host: Annotated[str | None, typer.Option("--host", "-h", metavar="HOST", help="Host, or directory of the Unix socket")] = None  # fmt: skip
    port: Annotated[int | None, typer.Option("--port", "-p", metavar="PORT", min=1, max=65535, help="Port of the server")] = None  # fmt: skip
    username: Annotated[str | None, typer.Option("--username", "-U", metavar="NAME", help="Role to connect as")] = None  # fmt: skip
    dbname: Annotated[str | None, typer.Option("--dbname", "-d", metavar="NAME", help="Database name, or anything that DSN can be")] = None  # fmt: skip
    yes: Consent = False

    def named(self, *, own_session: str = "") -> Server:
        """Return the server, to be read only; see `named_server`."""
        from pgdrag.cli.server_argument import named_server

        if self.dsn is not None and self.dbname is not None:
            raise UsageError(
                f'the database is named twice, by "{self.dsn}" and by --dbname "{self.dbname}"',
                hint="Omit one of them.",
            )
        given = {"host": self.host, "port": self.port, "user": self.username}
        overrides = {name: value for name, value in given.items() if value is not None}
        example = "pgdrag bench postgresql://me@db1/bench, or create one: pgdrag bench --throw-away"
        return named_server(
            self.dsn or self.dbname, example, overrides, is_for_driver=True, own_session=own_session
        )


@dataclass(frozen=True)
class LoadOptions:
    """How hard and how long a load is run, and where its result goes."""

    client: Annotated[int | None, typer.Option("--client", "-c", metavar="N", min=1, max=MOST_CLIENTS, help="Number of clients, one connection each (default: 1)")] = None  # fmt: skip
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="Number of threads of each load driver (default: chosen before the warm-up, by how busy one is)")] = None  # fmt: skip
    generators: Generators = None
    time: Annotated[float | None, typer.Option("--time", "-T", metavar="SECONDS", min=0.1, max=LONGEST_S, help="Length of the measured window (default: 20, or the length of --sessions)")] = None  # fmt: skip
    warm_up: Annotated[float, typer.Option("--warm-up", metavar="SECONDS", min=0, max=86_400, help="Run the load this long before measuring")] = 5.0  # fmt: skip
    rate: Annotated[float | None, typer.Option("--rate", "-R", metavar="TPS", min=0.001, max=10_000_000, help="Target rate in transactions/s over all clients, in an open loop (default: as fast as possible)")] = None  # fmt: skip
    arrivals: Annotated[Literal["poisson", "uniform"] | None, typer.Option("--arrivals", help="With --rate: distribution of arrivals (default: poisson)")] = None  # fmt: skip
    latency_limit: Annotated[float | None, typer.Option("--latency-limit", "-L", metavar="MS", min=0.001, max=86_400_000, help="Count transactions slower than MS milliseconds; with --rate, skip those that start later than that")] = None  # fmt: skip
    sessions: Annotated[str | None, typer.Option(metavar="RAMP", help='Vary the number of active clients in steps: "5..22/60s" is 5, 6 … 22 for a minute each; "10..50+10/30s" adds 10 a step')] = None  # fmt: skip
    progress: Annotated[float | None, typer.Option("--progress", "-P", metavar="SECONDS", min=1, help="Print progress every SECONDS (default: never)")] = None  # fmt: skip
    random_seed: Annotated[str | None, typer.Option("--random-seed", metavar="SEED", help="Random seed: a number, time or rand (default: rand; it is shown)")] = None  # fmt: skip
    wait: Wait = None
    html: WindowHtml = None
    json: Json = False

    def profile(self, *, transactions: int | None = None, reconnect: bool = False) -> LoadProfile:
        """Return the load that options describe.

        Args:
            transactions: per client, in place of a time.
            reconnect: each transaction has a connection of its own.

        Raises:
            UsageError: options contradict each other, or the report cannot be written.
        """
        from pgdrag.cli.place import refuse_unwritable
        from pgdrag.model.load import Closed, LoadProfile, Open, Pacing

        refuse_unwritable(self.html)
        if self.arrivals is not None and self.rate is None:
            raise UsageError("--arrivals requires --rate")
        pacing: Pacing = Closed()
        if self.rate is not None:
            pacing = Open(self.rate, arrivals=self.arrivals or "poisson")
        steps, step_s = ((), 0.0) if self.sessions is None else ramp_of(self.sessions, self.rate)
        if steps and (self.client is not None or self.time is not None):
            raise UsageError(
                "--sessions cannot be combined with --client or --time",
                detail="It sets the number of clients and the length of the run.",
            )
        if transactions is not None and (steps or self.time is not None):
            raise UsageError(
                "--transactions cannot be combined with --time or --sessions",
                detail="It sets the length of the run.",
            )
        measure_s = len(steps) * step_s if steps else self.time or DEFAULT_DURATION_S
        if transactions is not None:
            measure_s = LONGEST_S
        connections = max((step.sessions for step in steps), default=self.client or 1)
        limit_ms = self.latency_limit
        return LoadProfile(
            connections=connections,
            warm_up_s=self.warm_up,
            measure_s=measure_s,
            budget_s=measure_s,
            pacing=pacing,
            min_commits=0,
            threads=None if self.jobs is None else min(self.jobs, connections),
            latency_limit_us=None if limit_ms is None else round(limit_ms * 1000),
            steps=steps,
            transactions=transactions,
            reconnect=reconnect,
            generators=generators_of(self.generators, connections),
        )

    def seed(self) -> int:
        """Return the seed of `--random-seed`: a number; random for `time`, `rand` or None.

        Raises:
            UsageError: the text is none of these.
        """
        text = self.random_seed
        if text is None or text in ("time", "rand"):
            return random.SystemRandom().randrange(LARGEST_SEED)
        if not text.isascii() or not text.isdigit() or int(text) > LARGEST_SEED:
            raise UsageError(
                f'"{text}" is not a seed',
                hint=f"Give a whole number up to {LARGEST_SEED}, time or rand.",
            )
        return int(text)


def names_of(options: type) -> set[str]:
    """Return the names of a group's options, as parameters of the command."""
    return {one.name for one in fields(options)}


def refuse(context: typer.Context, refused: Collection[str], mode: str) -> None:
    """Refuse options that were given and do not apply to a mode.

    Args:
        refused: names of the parameters that do not apply.
        mode: completes "… does not apply to …".

    Raises:
        UsageError: an option does not apply; the message names it as written.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name in refused:
            what = "a server's name" if name == "dsn" else f"option {max(parameter.opts, key=len)}"
            raise UsageError(f"{what} does not apply to {mode}")


_RAMP = re.compile(r"\s*(\d+)\s*\.\.\s*(\d+)\s*(?:\+\s*(\d+)\s*)?/\s*(\S.*)")


def ramp_of(text: str, rate_per_s: float | None = None) -> tuple[tuple[Step, ...], float]:
    """Return the steps of `5..22/60s` or `5..22+5/60s`, and the length of one in seconds.

    Raises:
        UsageError: the text is not a ramp.
    """
    from pgdrag.model.load import Step

    match = _RAMP.fullmatch(text)
    if match is None:
        raise UsageError(
            f'"{text}" is not a ramp of sessions',
            hint='Write FROM..TO/LENGTH of a step, such as "5..22/60s", or "10..50+10/30s" to add 10 a step.',
        )
    first, last, by = int(match[1]), int(match[2]), int(match[3] or 1)
    step_s = parse_seconds(match[4])
    if not (min(first, last) >= 1 and max(first, last) <= MOST_CLIENTS and by >= 1 and step_s > 0):
        raise UsageError(
            f'"{text}" has a number out of range', hint=f"Sessions are 1 to {MOST_CLIENTS:,}."
        )
    values = list(range(first, last + 1, by) if last >= first else range(first, last - 1, -by))
    values += [last] if values[-1] != last else []
    if len(values) > MOST_STEPS:
        raise UsageError(
            f'"{text}" has {len(values):,} steps', hint=f"The maximum is {MOST_STEPS:,}."
        )
    steps = (Step(round(n * step_s, 6), value, rate_per_s) for n, value in enumerate(values))
    return tuple(steps), step_s
