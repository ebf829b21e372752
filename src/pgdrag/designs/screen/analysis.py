"""What did a screening find? Each change's own effect, told from noise or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.designs.screen.effects import Screened, screen
from pgdrag.designs.screen.runs import screen_treatments
from pgdrag.english import counted, listed
from pgdrag.findings.design_analysis import DesignAnalysis
from pgdrag.findings.readings import Told
from pgdrag.findings.values import DesignFinding, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import RunRecord, Treatment
from pgdrag.model.changes import Change, changes_between
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.estimate import bounded_exp

CONFIDENCE = 0.95
MOST_NAMED = 8


@dataclass(frozen=True)
class ScreenedChange:
    """A change and its own effect.

    Attributes:
        before, after: its values in the reference and in the target; None: not set there.
        slowdown: how many times slower the change makes it, on average over all settings of the others.
        p: that it is as large by chance, alone.
        p_adjusted: the same, for all changes together (Holm).
        is_significant: told from noise among all of them, at 5 %.
    """

    name: str
    before: str | None
    after: str | None
    slowdown: Interval
    p: float
    p_adjusted: float
    is_significant: bool


@dataclass(frozen=True)
class ScreenFinding(DesignFinding):
    """What a screening found.

    Attributes:
        reference, target: names of the two ends.
        changes: with their effects, the largest first; empty where the trials cannot tell them apart.
        names: of all changes.
        method: how the error of the effects was had.
        detectable: the smallest slowdown that would have been told from noise, at about even odds; None
            where nothing was.
        is_folded: each trial's mirror image was part of the design.
        trials: of the design, with a number.
        planned: trials of the design.
        failed: trials without a number.
        stalled: trials in which nothing committed; they count with their bound.
    """

    reference: str
    target: str
    changes: tuple[ScreenedChange, ...]
    names: tuple[str, ...]
    method: str
    detectable: float | None
    is_folded: bool
    trials: int
    planned: int
    failed: int
    stalled: int


class ScreenAnalysis(DesignAnalysis):
    """The screening of the changes from a study's first treatment to its last."""

    name: ClassVar[str] = "screen"

    def find(self, run: RunRecord) -> ScreenFinding:
        """Return the effects, as far as the trials tell them apart."""
        ends = [rung.treatment for rung in run.study.rungs] or [Treatment("reference")]
        reference, target = ends[0], ends[-1]
        is_folded = bool(run.study.design_parameters.get("is_folded", True))
        changes = changes_between(reference, target)
        runs = screen_treatments(reference, target, is_folded=is_folded)
        told = Told()
        told.add(run.results)
        rows, logs, failed, stalled = [], [], 0, 0
        for treatment, row in runs:
            readings = told.readings(treatment)
            failed += len(told.results(treatment)) - len(readings)
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
        return ScreenFinding(
            **{**vars(found), "answer": _answer(found), "warnings": tuple(_doubts(found))}
        )


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
            f"No answer yet: {found.trials} of {found.planned} trials have a number, which cannot tell "
            f"{counted(len(found.names), 'change')} apart."
        )
    told = [one for one in found.changes if one.is_significant]
    count = f"{len(told)} of {counted(len(found.names), 'change')}"
    if not told:
        return f"None of {counted(len(found.names), 'change')} has an effect of its own that could be told from noise."
    words = [f"{one.name} {slowdown_words(one.slowdown)}" for one in told[:MOST_NAMED]]
    if len(told) > MOST_NAMED:
        words.append(f"{len(told) - MOST_NAMED} more")
    verb = "has" if len(told) == 1 else "have"
    return (
        f"{count} {verb} an effect of {'its' if len(told) == 1 else 'their'} own: {listed(words)}."
    )


def _doubts(found: ScreenFinding) -> list[str]:
    told = []
    if found.changes:
        told.append(
            "an effect is the average over all settings of the other changes: one that only counts in "
            'company shows a part of it; "pgdrag ablate" tells the company'
        )
    if found.changes and not found.is_folded:
        told.append(
            "without mirror images an interaction of two changes can look like an effect of a third; "
            "fold the design"
        )
    if found.failed and found.changes:
        told.append(
            f"{counted(found.failed, 'trial')} had no number: the effects are fitted to the others"
        )
    if found.stalled:
        told.append(
            f"nothing committed in {counted(found.stalled, 'trial')}: counted with the bound, which makes "
            "effects look smaller than they are; a longer budget would show the rate"
        )
    return told
