"""The commands: read arguments, call one function, print. Data goes to stdout, talk to stderr.

Exit status: 0 done; 1 a check or comparison failed; 2 misuse or error; 3 what was demanded could not
be told; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import pgdrag
from pgdrag.cli import (
    bench,
    boundary,
    capture,
    changes,
    check,
    clean,
    compare,
    fetch,
    horizon,
    restore,
    run,
    runs,
    tpcc,
)
from pgdrag.cli import list as list_command
from pgdrag.cli.place import stderr
from pgdrag.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_MISUSE, PgdragError

# What all mistakes that Typer finds derive from: click's class, or that of Typer's own copy of click.
_Misuse: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="pgdrag",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find out what slows a PostgreSQL system down, or speeds it up, by how much, and why.",
    epilog="Exit status: 0 done, 1 a check or comparison failed, 2 misuse or error, 3 what was demanded "
    "could not be told, 130 interrupted. "
    "The journal and the reports are in $PGDRAG_HOME, throw-away clusters and dataset snapshots in "
    "$PGDRAG_SCRATCH, what is to be put back of the operating system in $PGDRAG_UNDO.",
)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("ablate")(changes.ablate)
app.command("bisect")(changes.bisect)
app.command("screen")(changes.screen)
app.command("boundary")(boundary.boundary)
app.command("calibrate")(compare.calibrate)
app.command("resume")(run.resume)
app.command("runs")(runs.runs)
app.command("show")(runs.show)
app.command("explain")(runs.explain)
app.command("report")(runs.report)
app.command("check")(check.check)
app.command("bench")(bench.bench)
app.add_typer(tpcc.app, name="tpcc")
app.add_typer(horizon.app, name="horizon")
app.add_typer(capture.app, name="capture")
app.command("list")(list_command.list_)
app.command("fetch")(fetch.fetch_)
app.command("clean")(clean.clean)
app.command("restore")(restore.restore)


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


def main() -> NoReturn:
    """Run the command line; a mistake that a person can mend is told in a few lines."""
    # SIGTERM and the terminal's end stop a run as cleanly as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup asks for
        signal.signal(signal.SIGHUP, _interrupt)
    sys.exit(_status())


def _status() -> int:
    try:
        status = app(standalone_mode=False)
    except PgdragError as error:
        _tell(error)
        return error.exit_status
    except _Misuse as error:
        error.show()
        return EXIT_MISUSE
    except (KeyboardInterrupt, typer.Abort):
        print("pgdrag: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; Python must not complain while it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    return status if isinstance(status, int) else EXIT_DONE


def _tell(error: PgdragError) -> None:
    console = stderr()
    for kind, style, text in (
        ("error", "bold red", error.message),
        ("detail", "bold", error.detail),
        ("hint", "bold green", error.hint),
    ):
        if text:
            console.print(f"{kind}:", style=style, end=" ")
            console.print(text, soft_wrap=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
