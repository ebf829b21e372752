"""How does every command end: with which exit status and last message, and with everything cleared up?

A script must be able to tell the answers of pgdrag (0, 1 and 3) from each way in which it can fail.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import typer

import pgdrag
from pgdrag.cli.plain_output import lost_output, prepare_output
from pgdrag.english import cut, without_controls
from pgdrag.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_DONE,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_MISUSE,
    PgdragError,
    StorageError,
    UsageError,
)
from pgdrag.host.interrupts import INTERRUPTS
from pgdrag.passwords import without_passwords

_AGAIN_S = 0.05
_STYLES = {"error": "1;31", "detail": "1", "hint": "1;32"}

# The base class of every mistake that Typer finds: click's, or that of Typer's own copy of click.
_Misuse: Any = typer.BadParameter.__mro__[2]


def run_to_end(command: Callable[[], object]) -> NoReturn:
    """Run a command and exit with its status; SIGTERM and the terminal's end interrupt it as Ctrl-C does."""
    status = EXIT_INTERRUPTED
    try:
        _set_signals(_interrupt)
        sys.unraisablehook = _raise_again
        prepare_output()
        status = status_of(command)
    except KeyboardInterrupt:  # while it was ending
        pass
    finally:
        _set_signals(signal.SIG_IGN)
        _clear_up()
    if status == EXIT_INTERRUPTED:
        # What an interruption left half closed, Python closes as it ends: no news to anybody.
        sys.unraisablehook = lambda unraisable: None
    # Else "python -m" ends by SIGINT, whatever the status, where one came while some text was executed, as for a
    # dataclass: Python remembers that until it executes another.
    exec("")
    sys.exit(status)


def print_error(error: PgdragError) -> None:
    """Print an error on standard error: what failed, further facts, and what to do; no password."""
    is_styled = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for kind, text in (("error", error.message), ("detail", error.detail), ("hint", error.hint)):
        if text:
            label = f"\x1b[{_STYLES[kind]}m{kind}:\x1b[0m" if is_styled else f"{kind}:"
            print(label, without_passwords(without_controls(text)), file=sys.stderr)


def status_of(command: Callable[[], object]) -> int:
    """Run a command, print the error that it ends with, and return its exit status."""
    try:
        status = _ended(command)
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        lost = lost_output()
        if lost is None and error.errno == errno.ENAMETOOLONG:
            name = cut(str(error.filename), 40)
            print_error(UsageError(f'file name too long: "{name}"', hint="Give a shorter one."))
            return EXIT_MISUSE
        if lost is None:
            return _internal_error(error)
        if isinstance(lost, BrokenPipeError):
            return EXIT_BROKEN_PIPE
        reason = (lost.strerror or str(lost)).lower()
        print_error(StorageError(f"could not write to standard output: {reason}"))
        return EXIT_MISUSE
    return status


def _ended(command: Callable[[], object]) -> int:
    try:
        status = command()
    except PgdragError as error:
        print_error(error)
        return error.exit_status
    except typer.Exit as done:
        return done.exit_code
    except _Misuse as error:
        from pgdrag.cli.misuse import is_help, usage_error

        if is_help(error):
            error.show()
            return EXIT_MISUSE
        print_error(usage_error(error))
        return EXIT_MISUSE
    except (KeyboardInterrupt, typer.Abort):
        print("pgdrag: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except OSError:
        raise
    except Exception as error:
        return _internal_error(error)
    return status if isinstance(status, int) else EXIT_DONE


def _internal_error(error: Exception) -> int:
    """Print what a developer of pgdrag needs to know."""
    import platform
    import traceback

    lines = "".join(traceback.format_exception(error))
    print(without_controls(without_passwords(lines)), end="", file=sys.stderr)
    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    report = PgdragError(
        f"internal error: {type(error).__name__}",
        detail=f"This is a bug in pgdrag {pgdrag.__version__} ({system}), not in what you asked for.",
        hint="Report it to pgdrag's developers, with the lines above and the command.",
    )
    print_error(report)
    return EXIT_INTERNAL


def _clear_up() -> None:
    """Remove what an interruption has left, however the command was cut short."""
    if "pgdrag.cli.place" not in sys.modules:
        return
    from pgdrag.cli.place import clear_own

    clear_own()


def _set_signals(handler: Any) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in INTERRUPTS:
        # As nohup sets it, or a shell for a job in the background.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _raise_again(unraisable: Any) -> None:
    """Let an interrupt act that came while Python could not raise it, in a destructor or a callback."""
    if unraisable.exc_type is KeyboardInterrupt:
        # A moment later, when this has returned: from here it could not be raised, either.
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        sys.__unraisablehook__(unraisable)
