"""Does another version of PostgreSQL plan the workload's statements in another way?"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.english import counted
from pgdrag.findings.analysis import RunAnalysis
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Treatments
from pgdrag.findings.plan_diff import PlanChange, plan_changes
from pgdrag.model.recordings import StatementPlan


@dataclass(frozen=True)
class VersionChange:
    """Two versions that a run compared.

    Attributes:
        statements: whose plans are known on both.
        changes: those that are planned in another way.
    """

    before: str
    after: str
    statements: int
    changes: tuple[PlanChange, ...]


def _find(treatments: Treatments) -> VersionChange | None:
    """Return the change between the two treatments of a run, where both were run on servers of their own."""
    if len(treatments.all) != 2:
        return None
    sides = treatments.trials
    before, after = map(_version, sides)
    if not before or not after or before == after:
        return None
    was, now = (side.recordings.of(StatementPlan) for side in sides)
    known = {plan.query for plan in was} & {plan.query for plan in now}
    return VersionChange(before, after, len(known), plan_changes(was, now))


def _version(side: RungTrials) -> str:
    return next((result.server_version for result in side.results), "")


def version_words(found: VersionChange) -> str:
    """Return a sentence on the plans, or "" where none are known."""
    if not found.statements:
        return ""
    of_all = f"of {counted(found.statements, 'statement')}"
    versions = f"PostgreSQL {found.after} plans"
    if not found.changes:
        return f"{versions} none {of_all} in another way than {found.before}."
    return f"{versions} {len(found.changes)} {of_all} in another way than {found.before}."


VERSION_CHANGE = RunAnalysis("version_change", VersionChange, _find, version_words)
