"""Where do commands print, and where is what outlives them kept?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from pgdrag.host.undo import UndoJournal
from pgdrag.journal import Journal, home_directory
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep, sweep_devices


def stdout() -> Console:
    """Return the console for data; brackets and colons are printed as they are."""
    return Console(highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """Return the console for messages."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def open_scratch() -> Scratch:
    """Return the scratch directory, without what dead pgdrag processes left there.

    Raises:
        StorageError: it cannot be created or read.
    """
    scratch = Scratch.open()
    for sentence in clear_up(scratch):
        print(sentence, file=sys.stderr)
    return scratch


def clear_up(scratch: Scratch) -> Iterator[str]:
    """Remove what dead pgdrag processes left, and yield a sentence for each thing removed.

    Their servers stop first, because they keep mounts and huge pages in use.
    """
    yield from sweep(scratch)
    yield from restore_leftovers()
    yield from sweep_devices(scratch)


def restore_leftovers() -> list[str]:
    """Undo what dead pgdrag processes changed on this host, and return a sentence for each change.

    What someone else has changed since is left alone, and mentioned once.
    """
    journal = UndoJournal.with_leftovers()
    if journal is None:
        return []
    steps = list(reversed(journal.steps()))
    results = zip(steps, journal.restore_all(), strict=True)
    sentences = [x.sentence for step, x in results if x.is_settled or not step.was_reported]
    sentences += journal.unreadable()
    journal.release()
    return sentences


def open_journal() -> Journal:
    """Return the user's journal."""
    return Journal(home_directory() / "journal.sqlite")


def report_path(run_id: str) -> Path:
    """Return where a run's HTML report is written by default."""
    return home_directory() / "reports" / f"{run_id}.html"
