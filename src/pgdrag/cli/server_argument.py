"""What do commands on an existing server share: which server, for how long, and progress?"""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgdrag.driver.connection_string import Server, names_a_server, reach
from pgdrag.errors import UsageError
from pgdrag.units import format_duration, parse_seconds

LINE_EVERY_S = 10.0


def named_server(
    dsn: str | None,
    example: str,
    overrides: Mapping[str, str | int] | None = None,
    *,
    is_for_driver: bool = False,
) -> Server:
    """Return the server that the arguments name, reached as psql reaches it.

    Args:
        example: a command that names a server, for the hint.
        overrides: libpq's keywords that replace those of `dsn`.
        is_for_driver: refuse what the load driver cannot connect to.

    Raises:
        UsageError: nothing names a server, or the arguments are not valid.
        ServerLost: the server does not answer.
    """
    if not names_a_server(dsn, overrides or {}):
        raise UsageError(
            "no server was named",
            detail="There is no connection string, and PGHOST, PGDATABASE and the like are not set.",
            hint=f"Name a server, for example: {example}",
        )
    can_answer = sys.stdin.isatty() and sys.stderr.isatty()
    ask = getpass.getpass if can_answer else None
    return reach(dsn, overrides, ask_password=ask, is_for_driver=is_for_driver)


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


class Progress(Protocol):
    """The progress of something that takes a while."""

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
    """Show progress: live on a terminal, otherwise a line every `LINE_EVERY_S`.

    Args:
        first_s: when the first line is due.
        is_amiss: whether something is wrong; its begin and its end are printed at once.
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
    """Return the time elapsed and left: `5 min of 1 h, 55 min left`."""
    left_s = max(for_s - elapsed_s, 0.0)
    return (
        f"{format_duration(round(elapsed_s))} of {format_duration(for_s)}, "
        f"{format_duration(round(left_s))} left"
    )
