"""Which options do several commands share? Each is written once, here, and imports nothing heavy.

Options that go together are fields of a dataclass; `with_options` gives them to a command.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from pgdrag.cli.misuse import named
from pgdrag.errors import UsageError
from pgdrag.paths import exists, is_file
from pgdrag.units import format_duration, parse_seconds

if TYPE_CHECKING:
    from pgdrag.model.load import LoadProfile

WAIT, LONGEST_WAIT_S = "1h", 604_800.0  # what a --wait without a time means
LARGEST_SEED = 2**62
LONGEST_BUDGET_S = 366 * 86_400.0


def _waiting_s(text: str) -> float:
    return duration_of(text, "--wait", least_s=0.0, most_s=LONGEST_WAIT_S)


def _names(values: list[str] | None) -> list[str] | None:
    """Return the names in lists that commas separate; a path with a comma is one."""
    if values is None:
        return None
    lists = ([x] if exists(x) else x.split(",") for x in values)
    found = [name.strip() for names in lists for name in names if name.strip()]
    if values and not found:
        raise UsageError("--allow-change names nothing", hint="Omit it, or name what may change.")
    return found


Dsn = Annotated[str | None, typer.Argument(metavar="DSN", help="Connection string, postgresql:// URI or database name (default: from PGHOST, PGDATABASE and the like)", show_default=False)]  # fmt: skip
ExperimentName = Annotated[str, typer.Argument(metavar="EXPERIMENT", help='Name of a shipped experiment (see "pgdrag list"), or a file')]  # fmt: skip
RunName = Annotated[str, typer.Argument(metavar="RUN", help='Run ID, a unique prefix of it, or "last"')]  # fmt: skip
Scale = Annotated[str | None, typer.Option(metavar="NAME", help="Scale of the experiment (default: its first)")]  # fmt: skip
Seed = Annotated[int | None, typer.Option(metavar="N", min=0, max=LARGEST_SEED, help="Seed for the order of trials and for transactions (default: random, and shown)")]  # fmt: skip
Postgres = Annotated[str | None, typer.Option(metavar="WHICH", help="Installed major version such as 15, or a bin directory (default: the embedded 18)")]  # fmt: skip
AllowChange = Annotated[list[str] | None, typer.Option("--allow-change", metavar="NAME,…", callback=_names, help="Allow the experiment to change this: a sysctl not known to be harmless, a disk by path, a mount point, or a setting that reaches beyond the server (see docs/reference/configurations.md); with --dsn: settings, role, restart, database, os, or a setting that others depend on; comma-separated or repeated")]  # fmt: skip
OnServer = Annotated[str | None, typer.Option("--dsn", metavar="DSN", help="Run on this existing server, which is only read and loaded unless --allow-change names what may change: a connection string, URI or database name")]  # fmt: skip
OnFleet = Annotated[Path | None, typer.Option("--fleet", metavar="FILE", help="Run trials on the hosts of this fleet file (see docs/how-to/fleet.md)")]  # fmt: skip
RestartCommand = Annotated[str | None, typer.Option("--restart-command", metavar="COMMAND", help="With --dsn and --allow-change restart: the command that restarts the server, such as 'pg_ctlcluster 18 main restart'")]  # fmt: skip
AllowRun = Annotated[bool, typer.Option("--allow-run", help="Allow the experiment to start the programs that it names (--dry-run lists them)")]  # fmt: skip
Remember = Annotated[bool, typer.Option("--remember", help="Remember this consent for as long as the programs stay the same")]  # fmt: skip
Profile = Annotated[bool, typer.Option("--profile", help="Profile the server's processors with perf and draw flame graphs")]  # fmt: skip
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report to FILE (default: $PGDRAG_HOME/reports/RUN.html)")]  # fmt: skip
WindowHtml = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write the report as HTML to FILE")]  # fmt: skip
Wait = Annotated[float | None, typer.Option("--wait", parser=_waiting_s, metavar="[TIME]", help=f"Wait while another pgdrag measures on this machine, or runs an experiment on the server of --dsn, up to TIME such as 10min (without TIME: {WAIT})")]  # fmt: skip
Generators = Annotated[str | None, typer.Option("--generators", metavar="N|HOSTS|FILE", help='Divide the load between N drivers on this machine, or between hosts that SSH reaches and that have pgdrag: "load-a,load-b", or those of a fleet file such as lab.toml (default: one driver, here)')]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run, how long it takes and how much disk it needs, and run nothing")]  # fmt: skip
Consent = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even if others seem to use the server")]  # fmt: skip


@dataclass(frozen=True)
class StudyOptions:
    """The options of every command that makes a study of its arguments."""

    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="Take workload and load from this experiment, shipped or a file")] = None  # fmt: skip
    scale: Scale = None
    workload: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="Workload, or a captured one's file (shop.twin), if there is no experiment (default: tpcc)")] = None  # fmt: skip
    warehouses: Annotated[int | None, typer.Option(metavar="N", min=1, max=100_000, help="tpcc: number of warehouses, about 110 MB each (default: 10)")] = None  # fmt: skip
    pgbench_scale: Annotated[int | None, typer.Option(metavar="N", min=1, max=20_000, help="pgbench: scale factor, about 16 MB per unit (default: 10)")] = None  # fmt: skip
    twin_scale: Annotated[float | None, typer.Option(metavar="SHARE", min=0.001, max=1, help="twin: share of the rows of tables with more than 1,000 (default: 1)")] = None  # fmt: skip
    builtin: Annotated[list[str] | None, typer.Option("--builtin", "-b", metavar="NAME[@W]", help="pgbench: run a built-in script, with weight W; repeatable")] = None  # fmt: skip
    file: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE[@W]", help="pgbench: run the script in FILE, with weight W; repeatable")] = None  # fmt: skip
    connections: Annotated[int | None, typer.Option("--connections", "-c", metavar="N", min=1, max=10_000, help="Number of sessions (default: 8, or the experiment's)")] = None  # fmt: skip
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, max=256, help="Number of threads of each load driver (default: the experiment's, else chosen at the start of the run, by how busy one is)")] = None  # fmt: skip
    generators: Generators = None
    warm_up: Annotated[float | None, typer.Option(metavar="SECONDS", min=0, max=86_400, help="Run the load this long before each measured window (default: 5, or the experiment's)")] = None  # fmt: skip
    measure: Annotated[float | None, typer.Option(metavar="SECONDS", min=1, max=86_400, help="Length of each measured window (default: 15, or the experiment's)")] = None  # fmt: skip
    window_budget: Annotated[float | None, typer.Option(metavar="SECONDS", min=1, max=604_800, help="Maximum length of a window with few commits (default: 4 times --measure)")] = None  # fmt: skip
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="Maximum duration of the run, such as 2h or 45min (default: no limit)")] = None  # fmt: skip
    check: Annotated[bool, typer.Option("--check/--no-check", help="Check the dataset's consistency after each trial")] = True  # fmt: skip
    profile: Profile = False
    dsn: OnServer = None
    fleet: OnFleet = None
    restart_command: RestartCommand = None
    allow_change: AllowChange = None
    allow_run: AllowRun = False
    remember: Remember = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a long run, nor with --dsn if others seem to use the server")] = False  # fmt: skip
    dry_run: DryRun = False
    wait: Wait = None
    seed: Seed = None
    postgres: Postgres = None
    html: Html = None
    json: Json = False


_HAS_EMPTY = "pgdrag.has_empty"


class Command(TyperCommand):
    """A command whose --wait may stand without a time, and whose files have names: Typer has no option for either."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, with the time that --wait means where none follows it."""
        given = []
        for arg, after in zip_longest(args, args[1:], fillvalue=""):
            is_bare = arg == "--wait" and not re.fullmatch(r"[\d.]+\s*[a-z]+", after)
            given.append(f"--wait={WAIT}" if is_bare else arg)
        ctx.meta[_HAS_EMPTY] = "" in args or any(arg.endswith("=") for arg in args)
        return super().parse_args(ctx, given)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the empty name that an unset variable of a shell leaves would be the directory here."""
        for parameter in self.params if ctx.meta[_HAS_EMPTY] else ():
            value = ctx.params.get(str(parameter.name))
            if Path() in (value if isinstance(value, list | tuple) else [value]):
                raise UsageError(
                    f"{named(parameter)} is empty",
                    hint="Name a file. Is a variable of the shell not set?",
                )
        return super().invoke(ctx)


def duration_of(text: str, option: str, *, least_s: float, most_s: float) -> float:
    """Return the seconds that an option gives; "10m" is ten minutes, as in other tools.

    Raises:
        UsageError: it is not a duration, or out of range.
    """
    minutes = re.fullmatch(r"\s*([\d.]+)\s*m\s*", text)
    try:
        seconds = parse_seconds(f"{minutes[1]}min" if minutes else text)
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from None
    if not least_s <= seconds <= most_s:
        raise UsageError(
            f'{option} "{text}" is out of range',
            hint=f"The range is {format_duration(least_s)} to {format_duration(most_s)}.",
        )
    return seconds


MOST_GENERATORS = 100
_NUMBER = re.compile(r"\d*\.?\d*")
_HOST = re.compile(r"[\w@.:\[\]][\w@.:\[\]-]*(:~?[\w./-]*/pgdrag-driver)?", re.ASCII)


def generators_of(text: str | None, connections: int) -> tuple[str, ...]:
    """Return the host of each load generator, "" being this one, that `--generators` asks for; none for one driver here.

    Raises:
        UsageError: it is neither a number nor hosts, or there are more than clients.
        FileError: it names no fleet file.
    """
    if text is None:
        return ()
    if text.endswith(".toml"):
        found, is_known = _hosts_of(Path(text)), True
    elif text.isascii() and text.isdigit():
        number = int(text)
        found = ("",) * min(number, MOST_GENERATORS + 1) if number != 1 else ()
        is_known = number >= 1
    else:
        hosts = [host.strip() for host in text.split(",")]
        found = tuple("" if host == "local" else host for host in hosts)
        is_known = all(
            _HOST.fullmatch(x) and not _NUMBER.fullmatch(x) and not is_file(x) for x in hosts
        )
    if not is_known or len(found) > MOST_GENERATORS:
        raise UsageError(
            f'--generators "{text}" is neither a number from 1 to {MOST_GENERATORS} nor a list of hosts',
            hint='Write --generators 3, load-a,load-b ("local" is this machine), or a fleet file such as lab.toml.',
        )
    if len(found) > connections:
        raise UsageError(
            f"{len(found)} load generators cannot divide {connections} client{'s' * (connections > 1)}",
            hint="Use more clients, or fewer generators.",
        )
    return found


def _hosts_of(path: Path) -> tuple[str, ...]:
    from pgdrag.fleet.file import read_fleet

    file = read_fleet(path)
    if file.join or file.slurm or file.kubernetes:
        raise UsageError(
            f"hosts of {path} that SSH does not reach cannot be load generators",
            hint="Use a fleet file that has only local and [[ssh]].",
        )
    # The driver is installed beside pgdrag.
    programs = {x.host: "" if x.program == "pgdrag" else f":{x.program}-driver" for x in file.ssh}
    return (*[""] * file.local, *(f"{host}{at}" for host, at in programs.items()))


def refuse_hosts(load: LoadProfile, without: str) -> None:
    """Refuse generators on other hosts where the server is a throw-away one, which they cannot reach.

    Args:
        without: what does not go with them.

    Raises:
        UsageError: there is one.
    """
    if hosts := [host for host in load.generators if host]:
        raise UsageError(
            f"load generators on other hosts ({', '.join(hosts)}) cannot be combined with {without}",
            detail="A throw-away server only has a Unix socket on this machine.",
            hint="Name a server that they can reach, or use generators on this machine: --generators 2.",
        )


_F = TypeVar("_F", bound=Callable[..., Any])


class _Group(typer.Typer):
    """A group whose commands are as all others."""

    def command(self, name: str | None = None, **how: Any) -> Callable[[_F], _F]:
        """Register a command."""
        return super().command(name, **{"cls": Command, **how})


def command_group(help_: str) -> typer.Typer:
    """Return a group of commands, such as those of `pgdrag tpcc`."""
    app = _Group(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=help_)
    # A group of a single command is one, too.
    app.callback()(lambda: None)
    return app


def with_options(command: Callable[..., int]) -> Callable[..., int]:
    """Replace each parameter of a command that is a dataclass by options, one for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: x for name, x in hints.items() if is_dataclass(x)}
    # Typer takes keyword parameters without a default as required, in whatever order.
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = []
    for own in inspect.signature(command).parameters.values():
        if own.name not in groups:
            parameters.append(own.replace(annotation=hints[own.name], kind=keyword))
            continue
        shared = get_type_hints(groups[own.name], include_extras=True)
        parameters += [
            inspect.Parameter(x.name, keyword, default=x.default, annotation=shared[x.name])
            for x in fields(groups[own.name])
        ]

    def run(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{x.name: given.pop(x.name) for x in fields(group)})
        return command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
