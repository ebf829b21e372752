"""What do all commands share: options, where they print, where what outlives them is kept?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pgdrag.journal import Journal, home_directory
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep

Postgres = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="An installed major version (15) or a bin directory (default: the embedded 18)",
    ),
]
RunName = Annotated[str, typer.Argument(help='A run, its unambiguous start, or "last"')]


def stdout() -> Console:
    """Return where data goes. Text is text: brackets and colons in it mean nothing."""
    return Console(highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """Return where talk goes."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def open_scratch() -> Scratch:
    """Return the scratch directory, cleared of what dead pgdrag processes left.

    Raises:
        StorageError: it cannot be made or reached.
    """
    scratch = Scratch.open()
    for sentence in sweep(scratch):
        print(sentence, file=sys.stderr)
    return scratch


def open_journal() -> Journal:
    """Return the user's journal."""
    return Journal(home_directory() / "journal.sqlite")


def report_path(run_id: str) -> Path:
    """Return where a run's HTML report goes unless another place is named."""
    return home_directory() / "reports" / f"{run_id}.html"
