"""What did a run find, what do the collectors cost on its machine, and where is it reported?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pgdrag.cli.place import stdout, write_named
from pgdrag.cli.plain_output import print_document
from pgdrag.designs.turns import TurnsFinding
from pgdrag.findings.false_alarms import FalseAlarms, false_alarms
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings, InstrumentCost
from pgdrag.journal import Journal
from pgdrag.model import RunRecord
from pgdrag.model.run import OVERHEAD
from pgdrag.report.json import render_json
from pgdrag.report.terminal import render_terminal
from pgdrag.servers.scratch import storage_errors

_MOST_SAME = 200  # comparisons of a treatment with itself, to count false alarms


def findings_of(run: RunRecord, journal: Journal) -> Findings:
    """Return a run's findings, with the measured cost of the collectors on its machine.

    That is the newest measurement under the run's own conditions, or else the newest of all.
    """
    newest = None
    for other in journal.runs_of(OVERHEAD):
        if other.host != run.host or other.status != "done":
            continue
        found = find(other).found
        if not isinstance(found, TurnsFinding) or found.slowdown is None:
            continue
        conditions = [(x.study.workload, x.study.load) for x in (run, other)]
        cost = InstrumentCost(
            slowdown=found.slowdown,
            blocks=len(found.blocks),
            when_unix_s=other.started_unix_s,
            workload=other.study.scale,
            is_alike=conditions[0] == conditions[1],
        )
        newest = newest or cost
        if cost.is_alike:
            newest = cost
            break
    return replace(find(run), instrument=newest)


def alarms_of(run: RunRecord, journal: Journal) -> FalseAlarms | None:
    """Return what comparisons of a treatment with itself found on a run's machine; None: there are none."""
    return false_alarms(journal.runs_of_same(run.study.design, run.host, most=_MOST_SAME))


def print_findings(findings: Findings, *, json: bool) -> None:
    """Print findings for the terminal, or for programs."""
    if json:
        print_document(render_json(findings))
    else:
        render_terminal(findings, stdout())


def write_report(content: str | bytes, path: Path) -> None:
    """Write a report, of one run or of several.

    Raises:
        StorageError: it cannot be written.
    """
    with storage_errors("write the report", path.parent, hint="Name another file."):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_named(path, content)
