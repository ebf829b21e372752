"""How do commands run a study: open the place, begin the run, show its progress, report it?"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pgdrag
from pgdrag.cli.findings import findings_of, print_findings, write_report
from pgdrag.cli.on_fleet import with_consent
from pgdrag.cli.place import measuring, open_journal, open_scratch, report_path, say, stderr, stdout
from pgdrag.cli.progress import showing_progress
from pgdrag.duration import Experience, took_s
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, EXIT_INCONCLUSIVE, StorageError
from pgdrag.existing.runner import ExistingTrialRunner
from pgdrag.experiment.consent import RememberedConsent, run_needs
from pgdrag.experiment.differences import Difference
from pgdrag.experiment.plan import Plan, plan_of
from pgdrag.experiment.preflight import disk_bytes
from pgdrag.findings.values import Gate
from pgdrag.journal.live_file import live_file, live_path
from pgdrag.lab import run_experiment
from pgdrag.model import Forecast, Result, RunRecord, Study
from pgdrag.model.events import Event
from pgdrag.model.program import is_program
from pgdrag.report.html import render_html
from pgdrag.report.terminal import render_answer
from pgdrag.servers.binaries import find_binaries
from pgdrag.trial import ServerTrialRunner

if TYPE_CHECKING:
    from pgdrag.fleet.run import Fleet

_STATUS = {
    None: EXIT_DONE,
    Gate.PASS: EXIT_DONE,
    Gate.FAIL: EXIT_FAILED_CHECK,
    Gate.INCONCLUSIVE: EXIT_INCONCLUSIVE,
}


# On throw-away clusters, or on a server that exists.
Runner = ServerTrialRunner | ExistingTrialRunner


def open_runner(postgres: str | None, allowed: Collection[str]) -> ServerTrialRunner:
    """Return what runs trials, and knows the server's settings; nothing is locked or measured yet."""
    binaries = find_binaries(postgres)
    return ServerTrialRunner.open(open_scratch(), binaries, allowed=allowed)


def planned(
    study: Study,
    runner: Runner,
    *,
    differences: Sequence[Difference] = (),
    left: Forecast | None = None,
    done: Sequence[Result] = (),
) -> Plan:
    """Return what a study would do here; for the arguments see `plan_of`.

    Args:
        done: results of a run to resume.

    Raises:
        StorageError: there is no room for its dataset.
        UsageError: not a single trial fits into its budget.
    """
    known = open_journal().newest_results(study.workload, runner.host(study))
    if isinstance(runner, ExistingTrialRunner):
        taken, free = runner.disk_bytes(study), None
        changes, refusal = runner.change_lines(study), runner.refusal(study)
    else:
        taken, free = disk_bytes(study, runner.here), runner.scratch.free_bytes()
        changes, refusal = (), ""
    return plan_of(
        study,
        Experience.of(known),
        differences=differences,
        left=left,
        trials_done=len(done),
        spent_s=sum(map(took_s, done)),
        loading_s=runner.loading_s(study),
        disk_bytes=taken,
        free_bytes=free,
        changes=changes,
        refusal=refusal,
    )


def begin_and_report(
    study: Study,
    runner: Runner,
    *,
    fleet: Fleet | None = None,
    wait_s: float | None,
    seed: int | None,
    html: Path | None,
    json: bool,
) -> int:
    """Run a new study that was `planned`, and report it; by default with a random seed, kept in the journal.

    Args:
        fleet: whose hosts run the trials; None: this machine does.
        wait_s: how long to wait for another pgdrag that is measuring; None: do not wait.

    Returns:
        The command's exit status.

    Raises:
        UsageError: another pgdrag is measuring on this machine.
    """
    changes = sorted(x for x in runner.here.allowed if not is_program(x))
    study = replace(study, allowed=tuple(changes))
    with measuring(wait_s):
        run_id = open_journal().begin_run(
            study,
            runner.host(study),
            server_wanted=runner.wanted,
            server_version=runner.version,
            pgdrag_version=pgdrag.__version__,
            seed=random.SystemRandom().getrandbits(31) if seed is None else seed,
        )
        needed = run_needs(study, runner.wanted)
        # Without a home directory of its own a user is asked again.
        with suppress(StorageError):
            if needed:
                RememberedConsent().add(needed, run_id)
        return _run_and_report(run_id, runner, fleet, html=html, json=json)


def resume_and_report(
    run_id: str,
    runner: Runner,
    *,
    fleet: Fleet | None = None,
    wait_s: float | None,
    budget_s: float | None,
    html: Path | None,
    json: bool,
) -> int:
    """Run the remaining trials of a run, report it, and return the command's exit status.

    Args:
        wait_s: as of `begin_and_report`.
        budget_s: of the whole run, in place of the budget it has; None: keep that.

    Raises:
        UsageError: another pgdrag is measuring on this machine.
    """
    with measuring(wait_s):
        if budget_s is not None:
            open_journal().set_budget(run_id, budget_s)
        return _run_and_report(run_id, runner, fleet, html=html, json=json)


def _run_and_report(
    run_id: str, runner: Runner, fleet: Fleet | None, *, html: Path | None, json: bool
) -> int:
    try:
        journal = open_journal()
        path = live_path(journal.path, run_id)
        with (
            showing_progress(stderr()) as show,
            live_file(path, is_over=lambda x: journal.process_of(x) is None) as note,
        ):

            def listen(event: Event) -> None:
                show(event)
                note(event)

            if fleet is None:
                record = run_experiment(run_id, runner, journal, listen)
            else:
                allowed, wanted = sorted(runner.here.allowed), runner.wanted
                fleet.sweep()
                record = with_consent(fleet, allowed, wanted).run(
                    run_id, journal, listen, server_wanted=wanted, allowed=allowed
                )
    finally:
        if isinstance(runner, ExistingTrialRunner):
            for sentence in runner.undone:
                say(sentence)
    return report_run(record, html=html, json=json)


def report_run(record: RunRecord, *, html: Path | None, json: bool) -> int:
    """Write the report of a run as HTML, and print its answer, or all of it for programs.

    Returns:
        The command's exit status: 0, unless a gate such as --fail-if-slower says otherwise.
    """
    findings = findings_of(record, open_journal())
    path = html or report_path(record.run_id)
    write_report(render_html(findings), path)
    if json:
        print_findings(findings, json=True)
    else:
        render_answer(findings, stdout())
    say(f"Report: {path.resolve().as_uri()}")
    say(f"Details: pgdrag show {record.run_id}")
    return _STATUS[findings.found.decision if findings.found else None]
