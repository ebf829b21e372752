"""Where do commands print, and where is what outlives them kept?

What clears up is imported where it is used: commands that only print start sooner.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console, ConsoleOptions, OverflowMethod, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pgdrag.english import without_controls
from pgdrag.errors import UsageError
from pgdrag.journal import home_directory
from pgdrag.servers.scratch import Scratch, release_all, remove_tree, write_whole

if TYPE_CHECKING:
    from pgdrag.journal import Journal
    from pgdrag.journal.run_list import RunList


class _Console(Console):
    """Unlike Rich's own, it filters escape sequences in data, and does not exit with 1 (*slower*) on a broken pipe."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 -- it is called while the error is handled

    def render_str(self, text: str, **given: Any) -> Text:
        """Return a text that only writes, so that it is laid out as wide as it is printed."""
        return super().render_str(without_controls(text), **given)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return segments whose text only writes: data from files, servers and programs is printed."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(without_controls(text), style)


def stdout(*, piped_width: int | None = None) -> Console:
    """Return the console for data; brackets and colons are printed as they are.

    Args:
        piped_width: columns where no terminal has its own; None: 80.
    """
    width = None if sys.stdout.isatty() else piped_width
    return _Console(highlight=False, markup=False, emoji=False, width=width or _width())


def stderr() -> Console:
    """Return the console for messages."""
    return _Console(stderr=True, highlight=False, markup=False, emoji=False, width=_width())


def say(text: str, style: str | None = None) -> None:
    """Print a message on standard error, on one line however long it is."""
    stderr().print(text, style=style, soft_wrap=True)


def _width() -> int | None:
    """Return None, for Rich to find out; but Rich takes COLUMNS=0 for a terminal without room."""
    return shutil.get_terminal_size().columns if os.environ.get("COLUMNS") == "0" else None


def plain_table(*columns: str, right: Collection[str] = (), whole: Collection[str] = ()) -> Table:
    """Return a table without lines; all but the columns `whole` may take several lines."""
    table = Table(box=None, header_style="bold", pad_edge=False, show_header=any(columns))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(column, justify=justify, no_wrap=column in whole, overflow="fold")
    return table


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row on one line, in columns: cut where a terminal ends, but not in its first column."""
    out = stdout()
    overflow: OverflowMethod = "ellipsis" if sys.stdout.isatty() else "ignore"
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    out.width = max(out.width, widths[0] + 2)
    first, *others = (
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )
    # At once: Rich takes half a millisecond for each thing that it prints.
    for lines, style in ((first, "bold"), ("\n".join(others), "")):
        out.print(lines, style=style, no_wrap=True, overflow=overflow, crop=False)


def open_scratch() -> Scratch:
    """Return the scratch directory, without what dead pgdrag processes left there.

    Raises:
        StorageError: it cannot be created or read.
    """
    scratch = Scratch.open()
    for sentence in chain(clear_up(scratch), clear_former()):
        print(without_controls(sentence), file=sys.stderr)
    return scratch


def clear_up(scratch: Scratch) -> Iterator[str]:
    """Remove what dead pgdrag processes left, and yield a sentence for each thing removed.

    Their servers stop first, because they keep mounts and huge pages in use.
    """
    from pgdrag.servers.sweep import end_servers, sweep, sweep_devices

    yield from end_servers(scratch)
    yield from restore_leftovers()
    yield from sweep(scratch)
    yield from sweep_devices(scratch)


def clear_former(*, with_snapshots: bool = False) -> Iterator[str]:
    """Remove what dead pgdrag processes left in the former place of the scratch directory, or all that is there."""
    from pgdrag.servers.sweep import sweep, sweep_devices

    former = Scratch.former()
    if former is None:
        return
    yield from sweep(former)
    yield from sweep_devices(former)
    is_in_use = any(any(each.glob("*")) for each in (former.clusters, former.storage))
    if with_snapshots and not is_in_use:
        remove_tree(former.root)
        yield f'Removed "{former.root}", the former scratch directory.'


def clear_own() -> None:
    """Remove what this process has made and, interrupted while it cleared away, not removed."""
    if not (left := release_all()):
        return
    from pgdrag.host.undo import close_journals
    from pgdrag.servers.sweep import end_servers, sweep, sweep_devices

    for scratch in left:
        end_servers(scratch)
        close_journals()
        sweep(scratch)  # the next start says what could not be removed
        sweep_devices(scratch)


def restore_leftovers() -> list[str]:
    """Undo what dead pgdrag processes changed on this host, and return a sentence for each change.

    What someone else has changed since is left alone, and mentioned once.
    """
    from pgdrag.host.undo import UndoJournal

    journal = UndoJournal.with_leftovers()
    if journal is None:
        return []
    steps = list(reversed(journal.steps()))
    results = zip(steps, journal.restore_all(), strict=True)
    sentences = [x.sentence for step, x in results if x.is_settled or not step.was_reported]
    sentences += journal.unreadable()
    journal.take_warnings()  # they are among the sentences
    journal.release()
    return sentences


@contextmanager
def measuring(wait_s: float | None) -> Iterator[None]:
    """Keep other pgdrags on this machine from measuring; wait for one that already does, if asked to.

    Raises:
        UsageError: another one is measuring, and still after waiting.
    """
    from pgdrag.host.machine_lock import measuring_alone

    with measuring_alone(wait_s or 0.0, say):
        yield


def open_journal() -> Journal:
    """Return the user's journal."""
    from pgdrag.journal import Journal

    return Journal(_journal())


def open_run_list() -> RunList:
    """Return the list of the runs in the user's journal."""
    from pgdrag.journal.run_list import RunList

    return RunList(_journal())


def _journal() -> Path:
    home = home_directory()
    if not os.environ.get("PGDRAG_HOME"):
        # An older pgdrag left it to the umask, and reports in it.
        with suppress(OSError):
            home.chmod(0o700)
    return home / "journal.sqlite"


def refuse_unwritable(file: Path | None, *, needs_directory: bool = False) -> None:
    """Refuse a file that cannot be written, before any time is spent on its content.

    Args:
        needs_directory: its directory must exist; else it is made.

    Raises:
        UsageError: it is a directory, or its place cannot be written to.
    """
    if file is None:
        return
    if file.is_dir():
        raise UsageError(
            f'cannot write to "{file}", which is a directory', hint="Name a file in it."
        )
    place = file if file.exists() else file.absolute().parent
    if needs_directory and not place.exists():
        raise UsageError(f'cannot write to "{file}": there is no such directory')
    place = next(each for each in (place, *place.parents) if each.exists())
    if place != file and not place.is_dir():
        raise UsageError(f'cannot write to "{file}": "{place}" is not a directory')
    if not os.access(place, os.W_OK):
        raise UsageError(f'cannot write to "{file}": permission denied')


def write_named(file: Path, content: str | bytes) -> None:
    """Write a file that a person named, for this user alone: it appears whole, and replaces a link.

    A device, or a file that a shell opened for this process, is written in place: only root creates names there.

    Raises:
        OSError: as the kernel says, such as ENOSPC.
    """
    if file.parent in (Path("/dev"), Path("/dev/fd"), Path("/dev/pts")):
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    else:
        write_whole(file, content, is_kept=True)


def write_page(file: Path | None, page: Callable[[], str]) -> None:
    """Write a page into the file that --html names, if it does, and say where it is."""
    if file is not None:
        write_named(file, page())
        say(f"Report: {file}")


def report_path(run_id: str) -> Path:
    """Return where a run's HTML report is written by default.

    Raises:
        UsageError: a link would lead it, and what replaces or removes it, elsewhere.
    """
    directory = home_directory() / "reports"
    if directory.is_symlink():
        raise UsageError(
            f'cannot keep reports in "{directory}", which is a symbolic link',
            hint="Let PGDRAG_HOME itself be a link, or name a file of your own.",
        )
    return directory / f"{run_id}.html"
