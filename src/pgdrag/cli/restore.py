"""`pgdrag restore`: put back what dead pgdrag processes changed of the operating system."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

import typer

from pgdrag.cli.place import stdout
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, StorageError
from pgdrag.host.undo import Noted, PutBack, UndoJournal, undo_directory
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep, sweep_devices


def restore(
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Put back what somebody else changed meanwhile, too"),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout")] = False,
) -> int:
    """Put back what dead pgdrag processes changed of the operating system, the newest change first.

    A transaction that they had prepared on a server, to hold its horizon, is rolled back.

    Exit status: 0 all is as it was, 1 something is left: somebody else changed it meanwhile, or it could
    not be put back, 2 another pgdrag is changing this machine now.
    """
    journal = UndoJournal.open() if _has_leftovers() else None
    # Before the journal: a server that still runs would keep mounts and huge pages in use.
    for sentence in sweep(Scratch.open()):
        print(sentence, file=sys.stderr)
    if journal is None:
        _print([], [], json=json)
        return EXIT_DONE
    steps = list(reversed(journal.steps()))
    results = journal.put_back_all(overwrite=overwrite)
    journal.take_warnings()  # which are told here
    for sentence in sweep_devices(Scratch.open()):
        print(sentence, file=sys.stderr)
    _print(list(zip(steps, results, strict=True)), journal.unreadable(), json=json)
    is_whole = all(x.is_settled for x in results) and not journal.unreadable()
    return EXIT_DONE if is_whole else EXIT_FAILED_CHECK


def _has_leftovers() -> bool:
    try:
        return UndoJournal.has_leftovers()
    except PermissionError:
        raise StorageError(
            f'could not read the undo journal in "{undo_directory()}": permission denied',
            hint="Run it as the user who ran the experiment, which is root.",
        ) from None


def _print(done: list[tuple[Noted, PutBack]], unreadable: list[str], *, json: bool) -> None:
    if json:
        found = [
            {
                "kind": step.change.name,
                "change": step.change.content(),
                "state": result.state,
                "sentence": result.sentence,
            }
            for step, result in done
        ]
        text = json_module.dumps({"changes": found, "unreadable": unreadable}, indent=2)
        print(text)
        return
    sentences = [result.sentence for _, result in done] + unreadable
    for sentence in sentences or ["Nothing is left to put back."]:
        stdout().print(sentence, soft_wrap=True)
