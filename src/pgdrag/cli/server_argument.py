"""What do commands share that look at a server of somebody's: which one, and for how long?"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from pgdrag.cli.driving import reached
from pgdrag.dsn import Server, names_a_server
from pgdrag.errors import UsageError
from pgdrag.units import format_duration, parse_seconds

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
