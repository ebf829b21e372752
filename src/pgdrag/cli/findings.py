"""What did a run find, and what do the collectors cost on its machine?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pgdrag.designs.turns import TurnsFinding
from pgdrag.experiment.questions import OVERHEAD
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings, InstrumentCost
from pgdrag.journal import Journal
from pgdrag.model import RunRecord


def findings_of(run: RunRecord, journal: Journal) -> Findings:
    """Return a run's findings, with the measured cost of the collectors on its machine."""
    return replace(find(run), instrument=_instrument_cost(run, journal))


def _instrument_cost(run: RunRecord, journal: Journal) -> InstrumentCost | None:
    """Return the newest measurement under the run's own conditions, or else the newest of all."""
    newest = None
    for cost in _measured(run, journal):
        if cost.is_alike:
            return cost
        newest = newest or cost
    return newest


def _measured(run: RunRecord, journal: Journal) -> Iterator[InstrumentCost]:
    for other in journal.runs_of(OVERHEAD):
        if other.host != run.host or other.status != "done":
            continue
        found = find(other).found
        if isinstance(found, TurnsFinding) and found.slowdown is not None:
            conditions = [(x.workload, x.load) for x in (run.study, other.study)]
            yield InstrumentCost(
                slowdown=found.slowdown,
                blocks=len(found.blocks),
                when_unix_s=other.started_unix_s,
                workload=other.study.scale,
                is_alike=conditions[0] == conditions[1],
            )
