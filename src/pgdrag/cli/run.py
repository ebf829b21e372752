"""`pgdrag run` and `pgdrag resume`: run an experiment to its report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import (
    LONGEST_BUDGET_S,
    AllowChange,
    AllowRun,
    Consent,
    DryRun,
    ExperimentName,
    Html,
    Json,
    OnFleet,
    OnServer,
    Postgres,
    Profile,
    Remember,
    RestartCommand,
    RunName,
    Scale,
    Seed,
    Wait,
    duration_of,
)
from pgdrag.errors import EXIT_DONE, UsageError
from pgdrag.units import format_duration

if TYPE_CHECKING:
    from pgdrag.cli.running import Runner
    from pgdrag.experiment import Experiment
    from pgdrag.model import RunRecord, Study


def run(
    experiment: ExperimentName,
    scale: Scale = None,
    postgres: Postgres = None,
    seed: Seed = None,
    replicates: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=1000, help="Trials of each treatment (default: the scale's)"
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="RUNG,…", help="Run these rungs and the baseline alone (default: the scale's)"
        ),
    ] = None,
    profile: Profile = False,
    dsn: OnServer = None,
    fleet: OnFleet = None,
    restart_command: RestartCommand = None,
    allow_change: AllowChange = None,
    allow_run: AllowRun = False,
    remember: Remember = False,
    yes: Consent = False,
    dry_run: DryRun = False,
    wait: Wait = None,
    html: Html = None,
    json: Json = False,
) -> int:
    """Run an experiment and report the result.

    Programs that the experiment names are shown and asked about first.
    """
    from pgdrag.bench import check_own_scripts
    from pgdrag.cli.consent import agree
    from pgdrag.cli.existing import ask_to_load, open_existing
    from pgdrag.cli.on_fleet import open_fleet
    from pgdrag.cli.place import refuse_unwritable, stderr
    from pgdrag.cli.plan import print_plan, trials_words
    from pgdrag.cli.running import begin_and_report, open_runner, planned
    from pgdrag.existing.permission import refuse_meaningless_names
    from pgdrag.experiment import load_experiment
    from pgdrag.experiment.consent import NeededConsent, study_programs
    from pgdrag.experiment.search_study import on_this_machine
    from pgdrag.host.allowance import allowance

    refuse_unwritable(html)
    opened = open_fleet(fleet, dsn=dsn)
    loaded = load_experiment(experiment)
    study = loaded.study(scale)
    check_own_scripts(study.workload)
    if only is not None:
        study = study.only([name.strip() for name in only.split(",")])
    if replicates is not None:
        study = study.with_replicates(replicates)
    if profile:
        study = replace(study, instrument=study.instrument.also("profile"))
    allowed = frozenset(allow_change or ())
    if allow_run or not dry_run:
        # Before anything is started: also a server's version is asked of its program.
        allowed |= agree(
            NeededConsent(study_programs(study)),
            f'experiment "{loaded.name}"',
            allow_run=allow_run,
            remember=remember,
        )
    existing = open_existing(dsn, allowed, restart_command, postgres=postgres, wait_s=wait)
    if existing is not None:
        study = existing.adapted(study)
    runner = existing or open_runner(postgres, allowed)
    refuse_meaningless_names(allow_change or (), runner.here.settings)
    study = on_this_machine(study, runner.here.settings, allowance())
    _refuse_mistakes(loaded, study, runner)
    plan = planned(study, runner)
    if dry_run:
        print_plan(plan, json=json)
        return EXIT_DONE
    if existing is not None:
        existing.refuse(study)
        ask_to_load(existing, is_given=yes)
    stderr().print(trials_words(plan))
    return begin_and_report(
        study, runner, fleet=opened, wait_s=wait, seed=seed, html=html, json=json
    )


def resume(
    run: RunName,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Total time budget, including time already used"),
    ] = None,
    dsn: OnServer = None,
    fleet: OnFleet = None,
    allow_change: AllowChange = None,
    allow_run: AllowRun = False,
    remember: Remember = False,
    yes: Consent = False,
    dry_run: DryRun = False,
    wait: Wait = None,
    html: Html = None,
    json: Json = False,
) -> int:
    """Resume a run that was interrupted, killed or stopped.

    Finished trials are kept. The interrupted one and invalid ones run again. Consent that you gave when the run
    began still holds; a run that another user began needs its own.
    """
    from pgdrag.cli.consent import agree
    from pgdrag.cli.existing import ask_to_load, resumed
    from pgdrag.cli.on_fleet import open_fleet
    from pgdrag.cli.place import open_journal, refuse_unwritable, stderr
    from pgdrag.cli.plan import print_plan
    from pgdrag.cli.running import open_runner, planned, report_run, resume_and_report
    from pgdrag.duration import took_s
    from pgdrag.existing.permission import refuse_meaningless_names
    from pgdrag.experiment.consent import run_needs
    from pgdrag.findings.find import trials_left
    from pgdrag.model import Outcome

    refuse_unwritable(html)
    opened = open_fleet(fleet, dsn=dsn)
    journal = open_journal()
    run_id = journal.find(run)
    record = journal.run(run_id)
    kept = [result for result in record.results if result.outcome is not Outcome.INVALID]
    budget_s = (
        None
        if budget is None
        else duration_of(budget, "--budget", least_s=1, most_s=LONGEST_BUDGET_S)
    )
    if budget_s is not None:
        spent_s = sum(took_s(result) for result in kept)
        if budget_s <= spent_s:
            raise UsageError(
                f"run {run_id} has already taken {format_duration(spent_s)}",
                hint="--budget is the total, including that time; give a larger one.",
            )
        record = replace(record, study=replace(record.study, budget_s=budget_s))
    if record.status == "done" and len(kept) == record.planned_trials:
        stderr().print(f"Run {run_id} is complete: nothing is left to run.")
        return EXIT_DONE if dry_run else report_run(record, html=html, json=json)
    wanted = journal.server_wanted(run_id)
    allowed = agree(
        run_needs(record.study, wanted),
        f"run {run_id}",
        allow_run=allow_run,
        allow_change=allow_change or (),
        remember=remember,
        run_id=run_id,
    )
    place = record.study.place
    if place is None and dsn is not None:
        raise UsageError(f"run {run_id} ran on throw-away servers: --dsn does not apply to it")
    if place is not None and opened is not None:
        raise UsageError(f"run {run_id} ran on a server that exists: --fleet does not apply to it")
    if opened is None and any(result.host for result in record.results):
        raise UsageError(
            f"run {run_id} ran on a fleet: its trials cannot be compared with those of this machine",
            hint="Give --fleet and the fleet file.",
        )
    existing = None if place is None else resumed(place, dsn, allowed, wait_s=wait)
    runner = existing or open_runner(wanted, allowed)
    refuse_meaningless_names(allow_change or (), runner.here.settings)
    _refuse_another_place(record, runner, is_fleet=opened is not None)
    if dry_run:
        left = trials_left(replace(record, results=tuple(kept)))
        print_plan(planned(record.study, runner, left=left, done=kept), json=json)
        return EXIT_DONE
    if existing is not None:
        existing.refuse(record.study)
        ask_to_load(existing, is_given=yes)
    return resume_and_report(
        run_id, runner, fleet=opened, wait_s=wait, budget_s=budget_s, html=html, json=json
    )


def _refuse_mistakes(experiment: Experiment, study: Study, runner: Runner) -> None:
    """Refuse an experiment with mistakes; print what is untestable on this server."""
    from pgdrag.cli.place import say, stderr
    from pgdrag.existing.runner import ExistingTrialRunner
    from pgdrag.experiment.preflight import check_experiment, first_mistake

    if isinstance(runner, ExistingTrialRunner):
        free_bytes, check = 0, runner.check
    else:
        free_bytes, check = runner.scratch.free_bytes(), None
    checked = check_experiment(experiment, [study], runner.here, free_bytes=free_bytes, check=check)
    mistake = first_mistake(checked)
    if mistake is not None:
        raise mistake
    for words in dict.fromkeys(f"{x.message}. {x.hint}".rstrip() for x in checked.problems):
        say(f"Untestable here: {words}", "yellow")
    for mend in checked.mends:
        stderr().print(f"Corrected: {mend}")


def _refuse_another_place(run: RunRecord, runner: Runner, *, is_fleet: bool) -> None:
    """Refuse to resume a run under conditions that make its trials incomparable.

    Args:
        is_fleet: its trials run on hosts, and what these are is theirs.
    """
    import pgdrag
    from pgdrag.experiment import shipped_files

    here = run.host if is_fleet else runner.host(run.study)
    if run.study.place is not None:  # which server it is, its system identifier has told
        here = replace(here, file_system=run.host.file_system)
    for what, then, now in (
        ("pgdrag", run.pgdrag_version, pgdrag.__version__),
        ("PostgreSQL", run.server_version, runner.version),
        ("the processor", run.host.cpu_model, here.cpu_model),
        ("the number of processors", run.host.cpu_count, here.cpu_count),
        ("the memory", run.host.memory_bytes, here.memory_bytes),
        ("the kernel", run.host.kernel, here.kernel),
        ("the file system", run.host.file_system, here.file_system),
    ):
        if then != now:
            raise UsageError(
                f"cannot resume run {run.run_id}: {what} is {now}, not {then}",
                detail="Its trials could not be compared with each other.",
                hint=f"Start again with: pgdrag run {run.study.name} --scale {run.study.scale}"
                if run.study.name in shipped_files()
                else "Start a new run with the same arguments.",
            )
