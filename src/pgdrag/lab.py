"""The laboratory's loop: ask the design, run trials, record, tell the design; read this first.

A design says which treatments it wants next. The laboratory makes trials of them (replicates in
randomised blocks, from one seed), has each run on a bench, writes what came of it to the journal
before the next begins, and tells the design. A run that was cut off goes on from the journal: the
same seed gives the same trials, and those with a valid result are not run again.

Two parts do that. An `Agenda` knows which trial comes next and keeps the journal; a `Station` runs trials on one
bench. Here both are in one process; a fleet has one agenda and a station on each host. The design sees results in the
order of the trials, whoever ran them and in whatever order they ended: its decisions are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgdrag.agenda import Agenda
from pgdrag.errors import Interrupted, StorageError
from pgdrag.journal import Journal
from pgdrag.model import RunRecord
from pgdrag.model.events import Listener, ignore
from pgdrag.station import Station, TrialRunner


def run_experiment(
    run_id: str, bench: TrialRunner, journal: Journal, listen: Listener = ignore
) -> RunRecord:
    """Run, or continue, a run that the journal knows, and return it with all its results.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; what was measured is in the journal.
        UsageError: the workload's statements are wrong.
        PgdragError: something that stops all trials; what was measured is in the journal.
    """
    with running(run_id, journal):
        try:
            agenda = Agenda(journal.run(run_id), journal, listen)
            station = Station(agenda.run.study, bench, listen)
            while not agenda.is_over:
                turn = agenda.next(since_s=station.since_s)
                if turn is None:
                    for host in agenda.hosts_with_work:  # of a fleet that is not there any more
                        agenda.release(host)
                    continue
                try:
                    result = station.run(turn.trial, listen)
                except StorageError as error:
                    # No other trial would fare better; recorded, and run again when the run is resumed.
                    agenda.lost(turn, error.message)
                    raise
                agenda.record(turn, result)
        finally:
            bench.close()
    return journal.run(run_id)


@contextmanager
def running(run_id: str, journal: Journal) -> Iterator[None]:
    """Record in the journal that a run is active during the block, and how it ended.

    Raises:
        Interrupted: Ctrl-C or SIGTERM came in the block.
    """
    status = "failed"
    try:
        journal.set_status(run_id, "running")
        yield
        status = "done"
    except KeyboardInterrupt:
        status = "interrupted"
        raise Interrupted(
            f"run {run_id} was interrupted",
            detail="Every finished trial is in the journal.",
            hint=f'Run "pgdrag resume {run_id}" to go on.',
        ) from None
    finally:
        journal.set_status(run_id, status)  # type: ignore[arg-type]
