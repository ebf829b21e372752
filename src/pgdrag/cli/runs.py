"""`pgdrag runs`, `show` and `report`: look at what was run."""

from __future__ import annotations

import dataclasses
import json as json_module
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from pgdrag.cli.findings import findings_of
from pgdrag.cli.place import RunName, open_journal, report_path, stdout
from pgdrag.cli.running import write_report
from pgdrag.findings.values import Findings
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.schema import report_schema
from pgdrag.report.story import story
from pgdrag.report.terminal import render_terminal, terminal_text
from pgdrag.units import format_duration


class Format(StrEnum):
    """The forms of a report."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"
    TERMINAL = "terminal"


def runs(
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout")] = False,
) -> None:
    """List all runs, newest first."""
    summaries = open_journal().summaries()
    if json:
        print(json_module.dumps([dataclasses.asdict(x) for x in summaries], indent=2))
        return
    if not summaries:
        print("No runs yet. Start with: pgdrag run slow-42k")
        return
    table = Table(box=None, header_style="bold")
    for column in ("run", "scale", "status", "trials", "PostgreSQL", "started", "took"):
        # A run's name is for copying; the rest may take several lines.
        justify: Literal["left", "right"] = "right" if column == "took" else "left"
        table.add_column(column, no_wrap=column == "run", justify=justify)
    for x in summaries:
        took = format_duration(x.finished_unix_s - x.started_unix_s) if x.finished_unix_s else ""
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(x.started_unix_s))
        trials = f"{x.finished_trials} of {x.trials}"
        table.add_row(x.run_id, x.scale, x.status, trials, x.server_version, started, took)
    stdout().print(table)


def show(
    run: RunName,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON")] = False,
) -> None:
    """Show what a run found, as far as it has come, in the terminal."""
    findings = _findings(run)
    if json:
        print(render_json(findings), end="")
    else:
        render_terminal(findings, stdout())


def explain(
    run: Annotated[str, typer.Argument(help='A run, its unambiguous start, or "last"')] = "last",
    trial: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUNG|TRIAL]",
            help="One of its rungs, or the number of a trial (default: the largest steps)",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as JSON")] = False,
) -> None:
    """Tell a run's story in ten lines: the largest steps, where the time went, and what moved."""
    findings = _findings(run)
    lines = story(findings, trial)
    if json:
        print(json_module.dumps({"run": findings.run.run_id, "lines": lines}, indent=2))
    else:
        for line in lines:
            stdout().print(line, markup=False)


def report(
    run: Annotated[str, typer.Argument(help='A run, its unambiguous start, or "last"')] = "last",
    format: Annotated[  # noqa: A002 -- the option's name is --format
        Format, typer.Option(help="The form of the report")
    ] = Format.HTML,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write it there; - for stdout (default: HTML to $PGDRAG_HOME/reports/RUN.html, the others to stdout)",
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of reports as JSON instead")
    ] = False,
) -> None:
    """Make a run's report again, from the journal; by default that of the newest run."""
    if schema:
        print(json_module.dumps(report_schema(), indent=2, ensure_ascii=False))
        return
    findings = _findings(run)
    render = {
        Format.HTML: render_html,
        Format.MARKDOWN: render_markdown,
        Format.JSON: render_json,
        Format.TERMINAL: terminal_text,
    }[format]
    if output is None and format is Format.HTML:
        output = report_path(findings.run.run_id)
    if output is None or str(output) == "-":
        print(render(findings), end="")
        return
    write_report(findings, output, render)
    print(output.resolve())


def _findings(name: str) -> Findings:
    journal = open_journal()
    return findings_of(journal.run(journal.find(name)), journal)
