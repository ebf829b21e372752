"""`pgdrag run` and `pgdrag resume`: run an experiment to its report."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import pgdrag
from pgdrag.analysis.findings import Findings
from pgdrag.analysis.ladder import find
from pgdrag.cli.place import (
    Postgres,
    RunName,
    open_journal,
    open_scratch,
    report_path,
    stderr,
    stdout,
)
from pgdrag.cli.progress import showing_progress
from pgdrag.errors import UsageError
from pgdrag.exclusive import measuring_alone
from pgdrag.experiment import Experiment, load_experiment
from pgdrag.host import this_host
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.plan import RunRecord, Study
from pgdrag.preflight import check_experiment, first_mistake
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.terminal import render_terminal
from pgdrag.servers.binaries import Binaries, find_binaries
from pgdrag.servers.scratch import storage_errors
from pgdrag.trial import ServerBench

Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write the report there (default: $PGDRAG_HOME/reports/RUN.html)",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the findings as JSON on stdout")]


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
    html: Html = None,
    json: Json = False,
) -> None:
    """Run an experiment and report what it found."""
    _refuse_directory(html)
    loaded = load_experiment(experiment)
    study = loaded.study(scale or loaded.default_scale)
    if replicates is not None:
        study = study.with_replicates(replicates)
    talk = stderr()
    scratch = open_scratch()
    with measuring_alone():
        bench = ServerBench.open(scratch, find_binaries(postgres))
        _refuse_mistakes(loaded, study, bench, talk)
        journal = open_journal()
        run_id = journal.begin_run(
            study,
            this_host(scratch.root),
            server_wanted=_where(bench.binaries),
            server_version=bench.binaries.version,
            pgdrag_version=pgdrag.__version__,
            seed=random.SystemRandom().getrandbits(31) if seed is None else seed,
        )
        _run_and_report(run_id, bench, journal, talk, html=html, json=json)


def resume(
    run: RunName,
    html: Html = None,
    json: Json = False,
) -> None:
    """Go on with a run that was interrupted, killed or stopped by an error.

    Finished trials are kept; the one that was cut off, and invalid ones, are run again.
    """
    _refuse_directory(html)
    journal = open_journal()
    run_id = journal.find(run)
    talk = stderr()
    if _is_complete(journal, run_id):
        talk.print(f"Run {run_id} is complete: nothing is left to run.")
        _report(journal.run(run_id), talk, html=html, json=json)
        return
    scratch = open_scratch()
    with measuring_alone():
        bench = ServerBench.open(scratch, find_binaries(journal.server_wanted(run_id)))
        _refuse_another_place(journal.run(run_id), bench)
        _run_and_report(run_id, bench, journal, talk, html=html, json=json)


def write_report(findings: Findings, path: Path, render: Callable[[Findings], str]) -> None:
    """Write a rendered report.

    Raises:
        StorageError: it cannot be written.
    """
    text = render(findings)
    with storage_errors("write the report", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _run_and_report(
    run_id: str,
    bench: ServerBench,
    journal: Journal,
    talk: Console,
    *,
    html: Path | None,
    json: bool,
) -> None:
    with showing_progress(talk) as listen:
        record = run_experiment(run_id, bench, journal, listen)
    _report(record, talk, html=html, json=json)


def _report(record: RunRecord, talk: Console, *, html: Path | None, json: bool) -> None:
    findings = find(record)
    path = html or report_path(record.run_id)
    write_report(findings, path, render_html)
    if json:
        print(render_json(findings), end="")
    else:
        render_terminal(findings, stdout())
    talk.print(f"Report: {path.resolve().as_uri()}", soft_wrap=True)


def _refuse_mistakes(
    experiment: Experiment, study: Study, bench: ServerBench, talk: Console
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


def _refuse_directory(html: Path | None) -> None:
    """Refuse a place for the report that cannot be, before minutes are spent on measuring."""
    if html is not None and html.is_dir():
        raise UsageError(
            f'cannot write the report to "{html}", which is a directory',
            hint="Name a file with --html.",
        )


def _is_complete(journal: Journal, run_id: str) -> bool:
    record = journal.run(run_id)
    return record.status == "done" and len(journal.valid_results(run_id)) == record.planned_trials


def _where(binaries: Binaries) -> str | None:
    """Return a `--postgres` that means the same from any directory."""
    return None if binaries.source == "embedded" else str(binaries.bin_dir)


def _refuse_another_place(run: RunRecord, bench: ServerBench) -> None:
    """Refuse to go on with a run where its trials could not be compared with each other."""
    here = this_host(bench.scratch.root)
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
                hint=f"Start again with: pgdrag run {run.study.name} --scale {run.study.scale}",
            )
