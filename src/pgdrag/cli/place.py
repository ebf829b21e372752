"""What do all commands share: options, where they print, where what outlives them is kept?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pgdrag.host.undo import UndoJournal
from pgdrag.journal import Journal, home_directory
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep, sweep_devices

Postgres = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="An installed major version (15) or a bin directory (default: the embedded 18)",
    ),
]
AllowChange = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-change",
        metavar="NAME",
        help="Let the experiment change this: a sysctl beyond those known to be harmless, a disk by its path, "
        "a mount point; may be given again",
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
    for sentence in clear_up(scratch):
        print(sentence, file=sys.stderr)
    return scratch


def clear_up(scratch: Scratch) -> Iterator[str]:
    """Clear away what dead pgdrag processes left, and say what that was as it goes.

    Their servers end first, as they would hold on to mounts and huge pages.
    """
    yield from sweep(scratch)
    yield from put_back_leftovers()
    yield from sweep_devices(scratch)


def put_back_leftovers() -> list[str]:
    """Put back what dead pgdrag processes changed of this host, and say so; usually nothing.

    What somebody else changed meanwhile is left, and told of once.
    """
    journal = UndoJournal.with_leftovers()
    if journal is None:
        return []
    steps = list(reversed(journal.steps()))
    results = zip(steps, journal.put_back_all(), strict=True)
    sentences = [x.sentence for step, x in results if x.is_settled or not step.was_told]
    sentences += journal.unreadable()
    journal.release()
    return sentences


def open_journal() -> Journal:
    """Return the user's journal."""
    return Journal(home_directory() / "journal.sqlite")


def report_path(run_id: str) -> Path:
    """Return where a run's HTML report goes unless another place is named."""
    return home_directory() / "reports" / f"{run_id}.html"
