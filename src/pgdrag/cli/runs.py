"""`pgdrag runs`, `show`, `explain` and `report`: what was run, and what did it find?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdrag.cli.options import Json, RunName
from pgdrag.cli.plain_output import print_document, print_json
from pgdrag.errors import UsageError
from pgdrag.units import format_duration

if TYPE_CHECKING:
    from pgdrag.findings.values import Findings


@dataclass(frozen=True)
class Story:
    """A run in ten lines."""

    run: str
    lines: tuple[str, ...]


def runs(json: Json = False) -> None:
    """List all runs, newest first."""

    from pgdrag.cli.place import open_run_list, print_rows

    summaries = open_run_list().summaries()
    if json:
        print_json(summaries)
        return
    if not summaries:
        print("No runs yet. Start with: pgdrag run slow-42k")
        return
    rows = [
        (
            x.run_id,
            x.status,
            f"{x.finished_trials}/{x.trials}",
            x.server_version,
            format_duration(x.finished_unix_s - x.started_unix_s) if x.finished_unix_s else "",
            x.scale,
        )
        for x in summaries
    ]
    print_rows(("run", "status", "trials", "server", "took", "scale or workload"), rows)


def show(run: RunName, json: Json = False) -> None:
    """Show the results of a run in the terminal.

    A run that is not complete shows the results so far.
    """
    from pgdrag.cli.findings import print_findings

    print_findings(_findings(run), json=json)


def explain(
    run: RunName = "last",
    trial: Annotated[
        str | None,
        typer.Argument(
            metavar="TREATMENT|TRIAL",
            help="One of its treatments, or the number of a trial (default: the largest steps)",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Explain a run in ten lines.

    Shows the largest steps, where the time went, and what changed, each with its numbers.
    """
    from pgdrag.cli.place import stdout
    from pgdrag.report.story import story

    findings = _findings(run)
    lines = story(findings, trial)
    if json:
        print_json(Story(findings.run.run_id, lines))
    else:
        for line in lines:
            stdout().print(line)


def report(
    run: RunName = "last",
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A later run to compare with the first; refused if workload, load or machine differ",
            show_default=False,
        ),
    ] = None,
    format: Annotated[  # noqa: A002 -- the option's name is --format
        Literal[
            "html",
            "markdown",
            "json",
            "terminal",
            "conf",
            "junit",
            "comment",
            "png",
            "csv",
            "parquet",
        ],
        typer.Option(
            help="Format of the report; conf: the configuration that a search found; junit: XML for a CI server; "
            "comment: Markdown for a pull request; png: a picture of the verdict to share (needs pgdrag[png]); "
            "csv, parquet: trials, samples and series as tables"
        ),
    ] = "html",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write to FILE, or - for stdout, csv and parquet into this directory (default: HTML and PNG to "
            "$PGDRAG_HOME/reports/, tables to RUN-csv, others to stdout)",
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of the whole report, for --format comment"),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of --format json instead")
    ] = False,
) -> None:
    """Write the report of a run again, in any format, or compare two runs."""
    from pgdrag.cli.place import refuse_unwritable, report_path
    from pgdrag.report.schema import report_schema

    if schema:
        print_json(report_schema())
        return
    _refuse_link(link, format)
    if format in ("csv", "parquet"):
        _export(run, other, format, output)
        return
    refuse_unwritable(None if output is None or str(output) == "-" else output)
    name, content = _one(run, format, link) if other is None else _two(run, other, format)
    if output is None and format in ("html", "png"):
        output = report_path(name).with_suffix(f".{format}")
    _write(content, output, form=format)


def _refuse_link(link: str | None, form: str) -> None:
    if link is None:
        return
    if form != "comment":
        raise UsageError("--link has no meaning without --format comment")
    if not link.startswith(("https://", "http://")):
        raise UsageError(
            f'--link "{link}" is no address', hint="It starts with https:// or http://."
        )


def _export(
    name: str, other: str | None, form: Literal["csv", "parquet"], output: Path | None
) -> None:
    from pgdrag.cli.place import open_journal
    from pgdrag.report.run_tables import TABLES, run_rows
    from pgdrag.tables import write_tables

    if other is not None:
        raise UsageError(f"--format {form} is of one run")
    if str(output) == "-":
        raise UsageError("tables are files in a directory", hint="Name one with --output.")
    journal = open_journal()
    record = journal.run(journal.find(name))
    directory = output or Path(f"{record.run_id}-{form}")
    for path in write_tables(TABLES, run_rows(record), directory, form):
        print(path)


def _one(name: str, form: str, link: str | None) -> tuple[str, str | bytes]:
    """Return the report of a run, and the name of its file."""
    from pgdrag.cli.findings import alarms_of
    from pgdrag.cli.place import open_journal
    from pgdrag.report.comment import render_comment
    from pgdrag.report.html import render_html
    from pgdrag.report.json import render_json
    from pgdrag.report.junit import render_junit
    from pgdrag.report.markdown import render_markdown
    from pgdrag.report.share_picture import render_png
    from pgdrag.report.terminal import terminal_text

    def as_comment(findings: Findings) -> str:
        alarms = alarms_of(findings.run, open_journal())
        return render_comment(findings, alarms=alarms, link=link or "")

    renders: dict[str, Callable[[Findings], str | bytes]] = {
        "html": render_html,
        "markdown": render_markdown,
        "json": render_json,
        "terminal": terminal_text,
        "conf": _found_conf,
        "junit": render_junit,
        "comment": as_comment,
        "png": render_png,
    }
    findings = _findings(name)
    return findings.run.run_id, renders[form](findings)


def _found_conf(findings: Findings) -> str:
    """Return the configuration that a run recommends as a postgresql.conf, with the gain of each line.

    Raises:
        UsageError: the run recommends none.
    """
    from pgdrag.servers.conf import write_conf

    run = findings.run
    found = findings.found.configuration() if findings.found is not None else None
    if found is None:
        raise UsageError(
            f"run {run.run_id} has found no configuration",
            hint='Only "pgdrag search" looks for one, and writes it once it is proved.',
        )
    machine = (
        f"Run {run.run_id}, PostgreSQL {run.server_version}, {run.study.scale_words}, on {run.host.cpu_count} "
        f"processors ({run.host.cpu_model})."
    )
    lines = [*found.header, machine, *(f"Not a setting: {one}" for one in found.others)]
    return write_conf(found.settings, header="\n".join(lines), comments=found.comments)


def _two(first: str, second: str, form: str) -> tuple[str, str]:
    """Return the comparison of two runs, and the name of its file."""
    from pgdrag.cli.place import open_journal
    from pgdrag.findings.two_runs import TwoRuns, two_runs
    from pgdrag.report.json import json_of
    from pgdrag.report.markdown import blocks_as_markdown
    from pgdrag.report.terminal import blocks_as_text
    from pgdrag.report.two_runs_page import render_two_runs_html, two_runs_blocks

    def as_markdown(found: TwoRuns) -> str:
        return blocks_as_markdown(f"{found.after} against {found.before}", two_runs_blocks(found))

    def as_text(found: TwoRuns) -> str:
        return blocks_as_text(two_runs_blocks(found), width=100)

    renders: dict[str, Callable[[TwoRuns], str]] = {
        "markdown": as_markdown,
        "json": json_of,
        "terminal": as_text,
    }
    if form not in ("html", *renders):
        raise UsageError(f"--format {form} is of one run", hint=f"Use html, {', '.join(renders)}.")
    journal = open_journal()
    before, after = (
        journal.run(journal.find(x), has_recordings=form == "html") for x in (first, second)
    )
    name = f"{after.run_id}-against-{before.run_id}"
    if form == "html":
        return name, render_two_runs_html(before, after)
    return name, renders[form](two_runs(before, after))


def _write(content: str | bytes, output: Path | None, *, form: str) -> None:
    """Write a report to a file, and say which, or else to standard output."""
    from pgdrag.cli.findings import write_report

    if output is not None and str(output) != "-":
        write_report(content, output)
        print(output.resolve())
    elif isinstance(content, bytes):
        sys.stdout.buffer.write(content)
    elif form == "terminal":
        print(content.rstrip("\n"))
    else:
        print_document(content.rstrip("\n"))


def _findings(name: str) -> Findings:
    from pgdrag.cli.findings import findings_of
    from pgdrag.cli.place import open_journal

    journal = open_journal()
    return findings_of(journal.run(journal.find(name)), journal)
