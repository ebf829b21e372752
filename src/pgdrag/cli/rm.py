"""`pgdrag rm`: remove runs, with their trials and their reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pgdrag.cli.options import Json
from pgdrag.cli.plain_output import print_json
from pgdrag.english import counted, listed
from pgdrag.errors import StorageError
from pgdrag.units import format_bytes


@dataclass(frozen=True)
class RemovedRun:
    """A run that was removed.

    Attributes:
        trials: how many had ended.
    """

    run: str
    trials: int
    has_report: bool


@dataclass(frozen=True)
class Removed:
    """Runs that were removed.

    Attributes:
        freed_bytes: what the file system got back.
        kept: why the journal keeps its size, or "".
    """

    runs: tuple[RemovedRun, ...]
    freed_bytes: int
    kept: str


def rm(
    run: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help='Run IDs, unique prefixes of them, or "last"'),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    json: Json = False,
) -> None:
    """Remove runs with their trials and reports.

    A run in progress is refused. A report written elsewhere with --html stays.
    """
    from pgdrag.cli.consent import ask
    from pgdrag.cli.place import open_journal, report_path, say, stdout
    from pgdrag.host.machine_lock import measuring_pid

    journal = open_journal()
    run_ids = list(dict.fromkeys(map(journal.find, run)))  # before the first of them is removed
    if not yes:
        ask(
            f"Remove {listed(run_ids)} with all trials and reports?",
            refusal="cannot ask whether to remove without a terminal",
            cancelled="nothing was removed",
        )
    freed_bytes, removed = 0, []
    for run_id in run_ids:
        page, trials = report_path(run_id), journal.remove_run(run_id)
        written = [x for x in (page, page.with_suffix(".png")) if x.is_file()]
        for file in written:
            freed_bytes += file.stat().st_size
            file.unlink()
        removed.append(RemovedRun(run_id, trials, has_report=bool(written)))
        if json:
            continue
        what = counted(trials, "trial") + (" and its report" if written else "")
        stdout().print(f"Removed {run_id}: {what}.", soft_wrap=True)
    kept = "" if measuring_pid() is None else "a measurement is in progress"
    if not kept:
        try:
            freed_bytes += journal.compact()
        except StorageError as error:  # as on a full disk
            kept = error.message
    if json:
        print_json(Removed(tuple(removed), freed_bytes, kept))
    elif freed_bytes or not kept:
        stdout().print(f"Freed {format_bytes(freed_bytes)}.")
    if kept:
        say(f"The journal keeps its size, and uses the room again: {kept}.")
