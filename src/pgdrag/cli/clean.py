"""`pgdrag clean` and `restore`: remove and undo what dead pgdrag processes left on this host."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgdrag.cli.options import Json, RestartCommand, Wait
from pgdrag.cli.plain_output import print_json
from pgdrag.english import without_controls
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, StorageError, UsageError
from pgdrag.units import format_bytes

if TYPE_CHECKING:
    from pgdrag.host.undo import NotedChange, RestoreResult, UndoJournal


@dataclass(frozen=True)
class CleanedSnapshot:
    """A dataset snapshot.

    Attributes:
        key: what it was stored under.
        bytes: the size of its files.
    """

    key: str
    bytes: int
    is_removed: bool


@dataclass(frozen=True)
class Cleaned:
    """What dead pgdrag processes had left behind, and which dataset snapshots there are.

    Attributes:
        done: what was undone or removed, in sentences.
    """

    done: tuple[str, ...]
    snapshots: tuple[CleanedSnapshot, ...]


@dataclass(frozen=True)
class RestoredChange:
    """A change that a dead pgdrag had made.

    Attributes:
        kind: the kind of change.
        change: what it was.
        state: "restored", "already restored", "gone", "changed since" (and left alone), "failed" or "forgotten".
        sentence: the same for people.
    """

    kind: str
    change: Mapping[str, Any]
    state: str
    sentence: str


@dataclass(frozen=True)
class Restored:
    """What dead pgdrag processes had changed, and what became of that.

    Attributes:
        unreadable: what could not be read of the undo journal, in sentences.
    """

    changes: tuple[RestoredChange, ...]
    unreadable: tuple[str, ...]


def clean(
    snapshots: Annotated[
        bool,
        typer.Option(
            "--snapshots",
            help="Also remove the dataset snapshots; they are loaded again when needed",
        ),
    ] = False,
    wait: Wait = None,
    json: Json = False,
) -> None:
    """Remove what dead pgdrag processes left behind.

    Also list the dataset snapshots, or remove them.
    """
    from pgdrag.cli.place import clear_former, clear_up, measuring
    from pgdrag.servers.scratch import Scratch
    from pgdrag.servers.snapshot import SnapshotStore

    scratch, done, found = Scratch.open(), [], []
    with measuring(wait):
        for sentence in chain(clear_up(scratch), clear_former(with_snapshots=snapshots)):
            done.append(without_controls(sentence))
            if not json:
                print(done[-1])
        store = SnapshotStore(scratch)
        for one in store.list():
            if snapshots:
                store.remove(one.key)
            found.append(CleanedSnapshot(one.key, one.bytes, is_removed=snapshots))
            if not json:
                verb = "Removed" if snapshots else "Kept"
                print(f"{verb} snapshot {one.key}, {format_bytes(one.bytes)}.")
    if json:
        print_json(Cleaned(tuple(done), tuple(found)))


def restore(
    dsn: Annotated[
        str | None,
        typer.Argument(
            metavar="DSN",
            help="Server whose settings to restore; include the password unless it is in ~/.pgpass or PGPASSWORD",
            show_default=False,
        ),
    ] = None,
    restart_command: RestartCommand = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Also restore values that someone else has changed since"),
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Forget what could not be restored, such as changes of a server that is gone for good",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Undo what dead pgdrag processes changed, here and on servers.

    Changes are undone newest first: the operating system's, the settings of servers that --dsn named, databases that
    pgdrag made there, and transactions that it prepared to hold a horizon.

    Exit status: 0 everything is restored, 1 something is left, because someone else has changed it since
    or it could not be restored, 2 another pgdrag is changing this machine now.
    """
    from pgdrag.host.undo import UndoJournal, undo_directory
    from pgdrag.servers.scratch import Scratch
    from pgdrag.servers.sweep import end_servers, sweep, sweep_devices

    if dsn is not None:
        _keep_login(dsn, restart_command or "")
    elif restart_command is not None:
        raise UsageError("--restart-command requires a server's name")
    try:
        journal = UndoJournal.open() if UndoJournal.has_leftovers() else None
    except PermissionError:
        raise StorageError(
            f'could not read the undo journal in "{undo_directory()}": permission denied',
            hint="Run pgdrag restore as the user who ran the experiment, root.",
        ) from None
    scratch = Scratch.open()
    _mention(end_servers(scratch))  # they keep mounts and huge pages in use
    done: list[tuple[NotedChange, RestoreResult]] = []
    unreadable: list[str] = []
    if journal is not None:
        steps = list(reversed(journal.steps()))
        done = list(zip(steps, journal.restore_all(overwrite=overwrite), strict=True))
        unreadable = journal.unreadable()
        if forget:
            done = [(step, _forgotten(journal, step, result)) for step, result in done]
    _mention(sweep(scratch))
    _mention(sweep_devices(scratch))
    _print(done, unreadable, json=json)
    if journal is not None:
        journal.take_warnings()  # they were among what was printed
    is_whole = all(result.is_settled for _, result in done) and not unreadable
    return EXIT_DONE if is_whole else EXIT_FAILED_CHECK


def _forgotten(journal: UndoJournal, step: NotedChange, result: RestoreResult) -> RestoreResult:
    if result.is_settled:
        return result
    journal.forget(step)
    return replace(result, state="forgotten", sentence=f"{result.sentence} Forgotten.")


def _keep_login(dsn: str, restart_command: str) -> None:
    from pgdrag.cli.server_argument import named_server
    from pgdrag.existing.standing import identifier_of
    from pgdrag.host.logins import Login, keep_login

    server = named_server(dsn, "pgdrag restore postgresql://me@db1/bench")
    keep_login(identifier_of(server), Login(server.conninfo(), restart_command))


def _mention(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(without_controls(sentence), file=sys.stderr)


def _print(
    done: list[tuple[NotedChange, RestoreResult]], unreadable: list[str], *, json: bool
) -> None:
    if json:
        changes = tuple(
            RestoredChange(step.change.name, step.change.content(), result.state, result.sentence)
            for step, result in done
        )
        print_json(Restored(changes, tuple(unreadable)))
        return
    from pgdrag.cli.place import stdout

    sentences = [result.sentence for _, result in done] + unreadable
    for sentence in sentences or ["Nothing to restore."]:
        stdout().print(sentence, soft_wrap=True)
