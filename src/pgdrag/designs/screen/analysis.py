"""What did a screening find? Each change's own effect, and whether it is significant."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdrag.designs.screen.effects import Screened, screen
from pgdrag.designs.screen.findings import ScreenedChange, ScreenFinding
from pgdrag.english import counted, listed
from pgdrag.findings.readings import reading
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import Result, RunRecord
from pgdrag.model.changes import Change, changes_between
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.estimate import bounded_exp

if TYPE_CHECKING:
    from pgdrag.designs.screen import Screen

CONFIDENCE = 0.95
MOST_NAMED = 8


def finding_of(design: Screen, run: RunRecord) -> ScreenFinding:
    """Return the effects, as far as the trials separate them."""
    reference, target = design.rungs[0].treatment, design.rungs[-1].treatment
    is_folded = design.parameters.is_folded
    changes = changes_between(reference, target)
    runs = design.runs
    by_treatment: dict[str, list[Result]] = {}
    for result in run.results:
        by_treatment.setdefault(result.trial.treatment.identity, []).append(result)
    rows, logs, failed, stalled = [], [], 0, 0
    for treatment, row in runs:
        results = by_treatment.get(treatment.identity, [])
        readings = [one for x in results if (one := reading(x)) is not None]
        failed += len(results) - len(readings)
        stalled += sum(one.is_bound for one in readings)
        rows += [row] * len(readings)
        logs += [one.log_per_s for one in readings]
    screened = screen(rows, logs) if changes else None
    found = ScreenFinding(
        answer="",
        warnings=(),
        reference=reference.name,
        target=target.name,
        changes=_changes(changes, screened),
        names=tuple(change.name for change in changes),
        method=screened.method if screened else "",
        detectable=_detectable(screened, len(changes)),
        is_folded=is_folded,
        trials=len(logs),
        planned=len(runs) * run.study.replicates,
        failed=failed,
        stalled=stalled,
    )
    return replace(found, answer=_answer(found), warnings=tuple(_warnings(found)))


def _changes(changes: tuple[Change, ...], screened: Screened | None) -> tuple[ScreenedChange, ...]:
    if screened is None:
        return ()
    found = [
        ScreenedChange(
            change.name,
            None if change.before is None else change.before.value,
            None if change.after is None else change.after.value,
            effect.slowdown.interval(CONFIDENCE),
            effect.slowdown.p_value,
            effect.p_adjusted,
            effect.p_adjusted <= 1 - CONFIDENCE,
        )
        for change, effect in zip(changes, screened.effects, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: -abs(math.log(one.slowdown.center))))


def _detectable(screened: Screened | None, count: int) -> float | None:
    """Return the slowdown at which an effect passes the strictest of Holm's steps."""
    if screened is None:
        return None
    return bounded_exp(t_multiplier(1 - (1 - CONFIDENCE) / count, screened.dof) * screened.se)


def _answer(found: ScreenFinding) -> str:
    if not found.names:
        return f"No answer: {found.reference} and {found.target} are the same."
    if not found.changes:
        return (
            f"No answer yet: {found.trials} of {found.planned} trials have a measured throughput, too few to "
            f"separate {counted(len(found.names), 'change')}."
        )
    significant = [one for one in found.changes if one.is_significant]
    count = f"{len(significant)} of {counted(len(found.names), 'change')}"
    if not significant:
        return f"None of {counted(len(found.names), 'change')} has a significant effect of its own."
    words = [f"{one.name} {slowdown_words(one.slowdown)}" for one in significant[:MOST_NAMED]]
    if len(significant) > MOST_NAMED:
        words.append(f"{len(significant) - MOST_NAMED} more")
    verb = "has" if len(significant) == 1 else "have"
    return f"{count} {verb} a significant effect of {'its' if len(significant) == 1 else 'their'} own: {listed(words)}."


def _warnings(found: ScreenFinding) -> list[str]:
    warnings = []
    if found.changes:
        warnings.append(
            "an effect is the average over all settings of the other changes: an effect that needs "
            'a partner shows only in part; "pgdrag ablate" finds the partner'
        )
    if found.changes and not found.is_folded:
        warnings.append(
            "without mirror images an interaction of two changes can look like an effect of a third; "
            "fold the design"
        )
    if found.failed and found.changes:
        warnings.append(
            f"{counted(found.failed, 'trial')} had no measured throughput: the effects are fitted to the others"
        )
    if found.stalled:
        warnings.append(
            f"nothing committed in {counted(found.stalled, 'trial')}: they count with the upper bound of their rate, "
            "which makes effects look smaller than they are; allow a longer budget"
        )
    return warnings
