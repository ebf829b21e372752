"""How do commands run a study: begin it, show its progress, report it?"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import pgdrag
from pgdrag.cli.findings import findings_of
from pgdrag.cli.place import open_journal, report_path, stdout
from pgdrag.cli.progress import showing_progress
from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.designs.compare.rules import Gate
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, EXIT_INCONCLUSIVE, UsageError
from pgdrag.findings.values import Findings
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import RunRecord, Study
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.terminal import render_terminal
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.scratch import storage_errors
from pgdrag.trial import ServerTrialRunner

_STATUS = {
    Gate.PASS: EXIT_DONE,
    Gate.FAIL: EXIT_FAILED_CHECK,
    Gate.INCONCLUSIVE: EXIT_INCONCLUSIVE,
}


def begin_and_report(
    study: Study,
    runner: ServerTrialRunner,
    talk: Console,
    *,
    seed: int | None,
    html: Path | None,
    json: bool,
) -> Findings:
    """Run a new study and report it; by default with a random seed, kept in the journal."""
    journal = open_journal()
    run_id = journal.begin_run(
        replace(study, allowed=tuple(sorted(runner.here.allowed))),
        runner.host(study),
        server_wanted=_where(runner.binaries),
        server_version=runner.binaries.version,
        pgdrag_version=pgdrag.__version__,
        seed=random.SystemRandom().getrandbits(31) if seed is None else seed,
    )
    return run_and_report(run_id, runner, journal, talk, html=html, json=json)


def write_report(findings: Findings, path: Path, render: Callable[[Findings], str]) -> None:
    """Write a rendered report.

    Raises:
        StorageError: it cannot be written.
    """
    text = render(findings)
    with storage_errors("write the report", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_and_report(
    run_id: str,
    runner: ServerTrialRunner,
    journal: Journal,
    talk: Console,
    *,
    html: Path | None,
    json: bool,
) -> Findings:
    """Run the remaining trials of a run, and report it."""
    with showing_progress(talk) as listen:
        record = run_experiment(run_id, runner, journal, listen)
    return report_run(record, talk, html=html, json=json)


def report_run(record: RunRecord, talk: Console, *, html: Path | None, json: bool) -> Findings:
    """Write the report of a run as HTML, and print it for the terminal or for programs."""
    findings = findings_of(record, open_journal())
    path = html or report_path(record.run_id)
    write_report(findings, path, render_html)
    if json:
        print(render_json(findings), end="")
    else:
        render_terminal(findings, stdout())
    talk.print(f"Report: {path.resolve().as_uri()}", soft_wrap=True)
    return findings


def exit_status(findings: Findings) -> int:
    """Return the exit status of a command: 0, unless a gate such as --fail-if-slower says otherwise."""
    gate = findings.found.gate if isinstance(findings.found, CompareFinding) else None
    return EXIT_DONE if gate is None else _STATUS[gate]


def refuse_directory(html: Path | None) -> None:
    """Refuse a directory as the report's file before any time is spent on measuring."""
    if html is not None and html.is_dir():
        raise UsageError(
            f'cannot write the report to "{html}", which is a directory',
            hint="Give --html the name of a file.",
        )


def _where(binaries: Binaries) -> str | None:
    """Return a `--postgres` that means the same from any directory."""
    return None if binaries.source == "embedded" else str(binaries.bin_dir)
