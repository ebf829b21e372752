"""What do commands share that look at a server of somebody's: which one, for how long, and how far are they?"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Protocol, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgdrag.cli.driving import reached
from pgdrag.driver.connection_string import Server, names_a_server
from pgdrag.errors import UsageError
from pgdrag.units import format_duration, parse_seconds

LINE_EVERY_S = 10.0

Dsn = Annotated[
    str | None,
    typer.Argument(
        metavar="[DSN]",
        help="A connection string, a postgresql:// URI or a database's name (default: what PGHOST, PGDATABASE … say)",
        show_default=False,
    ),
]


def named_server(dsn: str | None, example: str) -> Server:
    """Return the server that is meant, reached as psql reaches it.

    Raises:
        UsageError: nothing names one; the hint shows `example`.
        ServerLost: it does not answer.
    """
    if not names_a_server(dsn, {}):
        raise UsageError(
            "which server? nothing names one",
            detail="There is no connection string, and PGHOST, PGDATABASE and the like are not set.",
            hint=f"Name a server, as in: {example}",
        )
    return reached(dsn, is_for_driver=False)


def duration_of(text: str, option: str, *, least_s: float, most_s: float) -> float:
    """Return the seconds that an option asks for; "10m" is ten minutes, as it is to other tools.

    Raises:
        UsageError: it is no duration, or out of bounds.
    """
    minutes = re.fullmatch(r"\s*([\d.]+)\s*m\s*", text)
    try:
        seconds = parse_seconds(f"{minutes[1]}min" if minutes else text)
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from None
    if not least_s <= seconds <= most_s:
        raise UsageError(
            f'{option} "{text}" is out of range',
            hint=f"It is {format_duration(least_s)} to {format_duration(most_s)}.",
        )
    return seconds


class Progress(Protocol):
    """How far something is that goes on for a while."""

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""


P = TypeVar("P", bound=Progress)


@contextmanager
def live_line(
    console: Console,
    words: Callable[[P], str],
    *,
    first_s: float = 0.0,
    is_amiss: Callable[[P], bool] = lambda _: False,
) -> Iterator[Callable[[P], None]]:
    """Show how far it is: live on a terminal, a line every `LINE_EVERY_S` elsewhere.

    Args:
        first_s: when the first line is due.
        is_amiss: whether something is wrong; a line says so at once, and that it is over.
    """
    if console.is_terminal and os.environ.get("TERM") != "dumb":
        with Live(Text(""), console=console, refresh_per_second=4, transient=True) as live:
            yield lambda progress: live.update(Text(words(progress)))
        return
    due_s, was_amiss = first_s, False

    def say(progress: P) -> None:
        nonlocal due_s, was_amiss
        if is_amiss(progress) != was_amiss or progress.elapsed_s >= due_s:
            due_s, was_amiss = progress.elapsed_s + LINE_EVERY_S, is_amiss(progress)
            console.print(words(progress), soft_wrap=True)

    yield say


def time_words(elapsed_s: float, for_s: float) -> str:
    """Return how far it is and how long it goes on: `5 min of 1 h, 55 min left`."""
    left_s = max(for_s - elapsed_s, 0.0)
    return (
        f"{format_duration(round(elapsed_s))} of {format_duration(for_s)}, "
        f"{format_duration(round(left_s))} left"
    )
