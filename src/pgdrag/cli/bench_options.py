"""Which options does `pgdrag bench` have? pgbench's letters with pgbench's meanings, and some of its own.

An option applies to initialization (`-i`), to a run, or to both; any other is refused, not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.errors import UsageError
from pgdrag.units import parse_seconds

if TYPE_CHECKING:
    from pgdrag.model.load import LoadProfile, Step
    from pgdrag.workloads.scripts import Script

LARGEST_SCALE = 20_000  # as workloads.pgbench has it, which is not imported for help
DEFAULT_DURATION_S = 20.0
DEFAULT_WARM_UP_S = 5.0
MOST_CLIENTS = 10_000
MOST_STEPS = 1000
LONGEST_S = 604_800.0


class Protocol(StrEnum):
    """How statements are sent."""

    SIMPLE = "simple"
    EXTENDED = "extended"
    PREPARED = "prepared"


class Arrivals(StrEnum):
    """How the arrivals of a rate are distributed."""

    POISSON = "poisson"
    UNIFORM = "uniform"


class PartitionMethod(StrEnum):
    """How pgbench_accounts is partitioned."""

    RANGE = "range"
    HASH = "hash"


Host = Annotated[str | None, typer.Option("--host", "-h", metavar="HOST", help="Host, or directory of the Unix socket")]  # fmt: skip
Port = Annotated[int | None, typer.Option("--port", "-p", metavar="PORT", min=1, max=65535, help="Port of the server")]  # fmt: skip
User = Annotated[str | None, typer.Option("--username", "-U", metavar="NAME", help="Role to connect as")]  # fmt: skip
Database = Annotated[str | None, typer.Option("--dbname", "-d", metavar="NAME", help="Database name, or anything that DSN can be")]  # fmt: skip
ThrowAway = Annotated[bool, typer.Option("--throw-away", help="Run on a temporary cluster, created with pgbench's tables and removed afterwards")]  # fmt: skip
Clients = Annotated[int | None, typer.Option("--client", "-c", metavar="N", min=1, max=MOST_CLIENTS, help="Number of clients, one connection each (default: 1)")]  # fmt: skip
Jobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="Number of threads of the load driver")]  # fmt: skip
Duration = Annotated[float | None, typer.Option("--time", "-T", metavar="SECONDS", min=0.1, max=LONGEST_S, help="Length of the measured window (default: 20, or the length of --sessions)")]  # fmt: skip
Transactions = Annotated[int | None, typer.Option("--transactions", "-t", metavar="N", min=1, max=2**31 - 1, help="Transactions per client, instead of --time; the window ends with the last one")]  # fmt: skip
Connect = Annotated[
    bool, typer.Option("--connect", "-C", help="Open a new connection for each transaction")
]
PerCommand = Annotated[bool, typer.Option("--report-per-command", "-r", help="Report the latency of each statement")]  # fmt: skip
WarmUp = Annotated[float, typer.Option("--warm-up", metavar="SECONDS", min=0, max=86_400, help="Run the load this long before measuring")]  # fmt: skip
Rate = Annotated[float | None, typer.Option("--rate", "-R", metavar="TPS", min=0.001, max=10_000_000, help="Target rate in transactions/s over all clients, in an open loop (default: as fast as possible)")]  # fmt: skip
ArrivalsKind = Annotated[Arrivals | None, typer.Option("--arrivals", help="With --rate: distribution of arrivals (default: poisson)")]  # fmt: skip
LatencyLimit = Annotated[float | None, typer.Option("--latency-limit", "-L", metavar="MS", min=0.001, max=86_400_000, help="Count transactions slower than MS milliseconds; with --rate, skip those that start later than that")]  # fmt: skip
MaxTries = Annotated[int, typer.Option("--max-tries", metavar="N", min=0, max=1_000_000, help="Maximum attempts after serialization failures or deadlocks; 0: no limit")]  # fmt: skip
Sessions = Annotated[str | None, typer.Option(metavar="RAMP", help='Vary the number of active clients in steps: "5..22/60s" is 5, 6 … 22 for a minute each; "10..50+10/30s" adds 10 a step')]  # fmt: skip
Progress = Annotated[float | None, typer.Option("--progress", "-P", metavar="SECONDS", min=1, help="Print progress every SECONDS (default: never)")]  # fmt: skip
RandomSeed = Annotated[str | None, typer.Option("--random-seed", metavar="SEED", help="Random seed: a number, time or rand (default: rand; it is shown)")]  # fmt: skip

Files = Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE[@W]", help="Run the script in FILE, with weight W; repeatable")]  # fmt: skip
Builtins = Annotated[list[str] | None, typer.Option("--builtin", "-b", metavar="NAME[@W]", help='Run a built-in script, with weight W; repeatable; "list" lists them')]  # fmt: skip
SelectOnly = Annotated[bool, typer.Option("--select-only", "-S", help="Same as -b select-only")]
SimpleUpdate = Annotated[bool, typer.Option("--skip-some-updates", "-N", help="Same as -b simple-update")]  # fmt: skip
ProtocolKind = Annotated[Protocol, typer.Option("--protocol", "-M", help="How statements are sent")]
Define = Annotated[list[str] | None, typer.Option("--define", "-D", metavar="NAME=VALUE", help="Define a variable for the scripts; repeatable")]  # fmt: skip
NoVacuum = Annotated[bool, typer.Option("--no-vacuum", "-n", help="Do not vacuum, before a run of built-in scripts or with -i")]  # fmt: skip
VacuumAll = Annotated[bool, typer.Option("--vacuum-all", "-v", help="Before a run of built-in scripts, also vacuum pgbench_accounts")]  # fmt: skip
AllowShell = Annotated[bool, typer.Option("--allow-shell", help=r"Allow scripts to run programs with \shell and \setshell")]  # fmt: skip
Initialize = Annotated[bool, typer.Option("--initialize", "-i", help="Create pgbench's tables instead of running")]  # fmt: skip
Scale = Annotated[int | None, typer.Option("--scale", "-s", metavar="N", min=1, max=LARGEST_SCALE, help="Scale factor (100,000 accounts per unit); in a run, the value of :scale (default: 1, or 10 with --throw-away)")]  # fmt: skip
InitSteps = Annotated[str, typer.Option("--init-steps", "-I", metavar="STEPS", help="With -i: steps: d drop, t create tables, g generate rows on the client, G on the server, v vacuum, p primary keys, f foreign keys")]  # fmt: skip
FillFactor = Annotated[int, typer.Option("--fillfactor", "-F", metavar="N", min=10, max=100, help="With -i: fill factor of the tables, in %")]  # fmt: skip
Partitions = Annotated[int, typer.Option("--partitions", metavar="N", min=0, max=10_000, help="With -i: number of partitions of pgbench_accounts")]  # fmt: skip
PartitionKind = Annotated[PartitionMethod, typer.Option("--partition-method", help="With -i: partitioning method of pgbench_accounts")]  # fmt: skip
Tablespace = Annotated[str | None, typer.Option("--tablespace", metavar="NAME", help="With -i: tablespace of the tables (default: the server's)")]  # fmt: skip
IndexTablespace = Annotated[str | None, typer.Option("--index-tablespace", metavar="NAME", help="With -i: tablespace of the indexes (default: the server's)")]  # fmt: skip
Unlogged = Annotated[
    bool, typer.Option("--unlogged-tables", help="With -i: create unlogged tables")
]
ForeignKeys = Annotated[bool, typer.Option("--foreign-keys", help="With -i: create foreign keys between the tables")]  # fmt: skip
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="With -i: do not print progress")]

_KNOWN_STEPS = "dtgGvpf"


def init_steps_of(text: str, *, has_vacuum: bool) -> str:
    """Return the steps of `-I`, without blanks, and without `v` if there is to be no vacuum.

    Raises:
        UsageError: a step is unknown, or there is none.
    """
    steps = text.replace(" ", "")
    unknown = next((step for step in steps if step not in _KNOWN_STEPS), None)
    if unknown is not None or not steps:
        raise UsageError(
            f'"{unknown or text}" is not an initialization step', hint=f"Steps: {_KNOWN_STEPS}."
        )
    return steps if has_vacuum else steps.replace("v", "")


def refuse_others(context: typer.Context, allowed: Sequence[str], mode: str) -> None:
    """Refuse options that were given and do not apply to a mode.

    Args:
        allowed: names of the parameters that apply.
        mode: completes "… does not apply to …".

    Raises:
        UsageError: an option does not apply; the message names it as written.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in allowed:
            what = "a server's name" if name == "dsn" else f"option {max(parameter.opts, key=len)}"
            raise UsageError(f"{what} does not apply to {mode}")


def scripts_of(
    files: Sequence[str], builtins: Sequence[str], *, select_only: bool, skip_some_updates: bool
) -> tuple[Script, ...]:
    """Return the scripts that options name; by default pgbench's own default.

    Raises:
        UsageError: a script cannot be found.
    """
    from pgdrag.workloads.scripts import builtin_script, file_script, with_own_names

    names = [*builtins]
    names += ["select-only"] if select_only else []
    names += ["simple-update"] if skip_some_updates else []
    found = [builtin_script(name) for name in names]
    found += [file_script(name, Path()) for name in files]
    return with_own_names(found or [builtin_script("tpcb-like")])


_VARIABLE = re.compile(r"[A-Za-z0-9_\u0080-\uffff]+")


def variables_of(definitions: Sequence[str]) -> dict[str, str]:
    """Return the variables of `-D name=value`; the last definition of a name counts.

    Raises:
        UsageError: a definition is malformed.
    """
    found = {}
    for definition in definitions:
        name, equals, value = definition.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise UsageError(
                f'"{definition}" does not define a variable',
                hint="Write -D name=value, such as -D n=10.",
            )
        found[name] = value
    return found


def load_of(
    *,
    clients: int | None,
    jobs: int,
    duration_s: float | None,
    warm_up_s: float,
    rate_per_s: float | None,
    arrivals: Arrivals | None,
    latency_limit_ms: float | None,
    sessions: str | None,
    transactions: int | None = None,
    reconnect: bool = False,
) -> LoadProfile:
    """Return the load that options describe.

    Raises:
        UsageError: options contradict each other.
    """
    from pgdrag.model.load import Closed, LoadProfile, Open, Pacing

    if arrivals is not None and rate_per_s is None:
        raise UsageError("--arrivals requires --rate")
    pacing: Pacing = Closed()
    if rate_per_s is not None:
        pacing = Open(rate_per_s, arrivals=(arrivals or Arrivals.POISSON).value)
    steps, step_s = ramp_of(sessions, rate_per_s) if sessions else ((), 0.0)
    if steps and (clients is not None or duration_s is not None):
        raise UsageError(
            "--sessions cannot be combined with --client or --time",
            detail="It sets the number of clients and the length of the run.",
        )
    if transactions is not None and (steps or duration_s is not None):
        raise UsageError(
            "--transactions cannot be combined with --time or --sessions",
            detail="It sets the length of the run.",
        )
    measure_s = len(steps) * step_s if steps else duration_s or DEFAULT_DURATION_S
    if transactions is not None:
        measure_s = LONGEST_S
    connections = max((step.sessions for step in steps), default=clients or 1)
    return LoadProfile(
        connections=connections,
        warm_up_s=warm_up_s,
        measure_s=measure_s,
        budget_s=measure_s,
        pacing=pacing,
        min_commits=0,
        threads=min(jobs, connections),
        latency_limit_us=None if latency_limit_ms is None else round(latency_limit_ms * 1000),
        steps=steps,
        transactions=transactions,
        reconnect=reconnect,
    )


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
