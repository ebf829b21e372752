"""`pgdrag run` and `pgdrag resume`: run an experiment to its report."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

import pgdrag
from pgdrag.cli.place import AllowChange, Postgres, RunName, open_journal, open_scratch, stderr
from pgdrag.cli.running import (
    Html,
    Json,
    begin_and_report,
    exit_status,
    refuse_directory,
    report_run,
    run_and_report,
)
from pgdrag.cli.study_options import PROFILE_HELP
from pgdrag.errors import UsageError
from pgdrag.experiment import Experiment, load_experiment, shipped_experiments
from pgdrag.experiment.preflight import check_experiment, first_mistake
from pgdrag.experiment.questions import PROFILED
from pgdrag.host.machine_lock import measuring_alone
from pgdrag.journal import Journal
from pgdrag.lab import took_s
from pgdrag.model import RunRecord, Study
from pgdrag.servers.binaries import find_binaries
from pgdrag.trial import ServerTrialRunner
from pgdrag.units import format_duration, parse_seconds


def run(
    experiment: Annotated[
        str, typer.Argument(help='A shipped experiment by name (see "pgdrag list"), or a file')
    ],
    scale: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which of the experiment's scales (default: its first)"),
    ] = None,
    postgres: Postgres = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=2**62, help="Seed of order and transactions (default: drawn, and shown)"
        ),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Run each treatment this often (default: the scale's)"),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help=PROFILE_HELP)] = False,
    allow_change: AllowChange = None,
    html: Html = None,
    json: Json = False,
) -> int:
    """Run an experiment and report what it found."""
    refuse_directory(html)
    loaded = load_experiment(experiment)
    study = loaded.study(scale or loaded.default_scale)
    if replicates is not None:
        study = study.with_replicates(replicates)
    if profile:
        study = study.with_levels([PROFILED])
    talk = stderr()
    scratch = open_scratch()
    with measuring_alone():
        bench = ServerTrialRunner.open(scratch, find_binaries(postgres), allowed=allow_change or ())
        _refuse_mistakes(loaded, study, bench, talk)
        found = begin_and_report(study, bench, talk, seed=seed, html=html, json=json)
        return exit_status(found)


def resume(
    run: RunName,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Give it so much time in all, what it took before included"
        ),
    ] = None,
    html: Html = None,
    json: Json = False,
) -> int:
    """Go on with a run that was interrupted, killed or stopped by an error.

    Finished trials are kept; the one that was cut off, and invalid ones, are run again.
    """
    refuse_directory(html)
    journal = open_journal()
    run_id = journal.find(run)
    talk = stderr()
    if budget is not None:
        _set_budget(journal, run_id, parse_seconds(budget))
    if _is_complete(journal, run_id):
        talk.print(f"Run {run_id} is complete: nothing is left to run.")
        return exit_status(report_run(journal.run(run_id), talk, html=html, json=json))
    scratch = open_scratch()
    with measuring_alone():
        wanted, allowed = journal.server_wanted(run_id), journal.run(run_id).study.allowed
        bench = ServerTrialRunner.open(scratch, find_binaries(wanted), allowed=allowed)
        _refuse_another_place(journal.run(run_id), bench)
        return exit_status(run_and_report(run_id, bench, journal, talk, html=html, json=json))


def _refuse_mistakes(
    experiment: Experiment, study: Study, bench: ServerTrialRunner, talk: Console
) -> None:
    """Refuse an experiment that nobody could run; say what only this server lacks."""
    free_bytes = bench.scratch.free_bytes()
    checked = check_experiment(experiment, [study], bench.here, free_bytes=free_bytes)
    mistake = first_mistake(checked)
    if mistake is not None:
        raise mistake
    for problem in checked.problems:
        talk.print(f"Untestable here: {problem.message}. {problem.hint}", style="yellow")
    for mend in checked.mends:
        talk.print(f"Mended: {mend}")


def _set_budget(journal: Journal, run_id: str, budget_s: float) -> None:
    spent_s = sum(took_s(result) for result in journal.valid_results(run_id).values())
    if budget_s <= spent_s:
        raise UsageError(
            f"run {run_id} has taken {format_duration(spent_s)} already",
            hint=f"--budget {format_duration(budget_s)} includes that: give it more in all.",
        )
    journal.set_budget(run_id, budget_s)


def _is_complete(journal: Journal, run_id: str) -> bool:
    record = journal.run(run_id)
    return record.status == "done" and len(journal.valid_results(run_id)) == record.planned_trials


def _refuse_another_place(run: RunRecord, bench: ServerTrialRunner) -> None:
    """Refuse to go on with a run where its trials could not be compared with each other."""
    here = bench.host(run.study)
    for what, then, now in (
        ("pgdrag", run.pgdrag_version, pgdrag.__version__),
        ("PostgreSQL", run.server_version, bench.binaries.version),
        ("the processor", run.host.cpu_model, here.cpu_model),
        ("the number of processors", run.host.cpu_count, here.cpu_count),
        ("the memory", run.host.memory_bytes, here.memory_bytes),
        ("the kernel", run.host.kernel, here.kernel),
        ("the file system", run.host.file_system, here.file_system),
    ):
        if then != now:
            raise UsageError(
                f"cannot go on with run {run.run_id}: {what} is {now}, not {then}",
                detail="Its trials could not be compared with each other.",
                hint=_again(run.study),
            )


def _again(study: Study) -> str:
    if study.name in shipped_experiments():
        return f"Start again with: pgdrag run {study.name} --scale {study.scale}"
    return "Start a new run with the same arguments."
