"""Which of many changes have an effect of their own? Half of them at a time, in short trials."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import Field

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.designs.screen.effects import screen, screening_matrix
from pgdrag.english import counted, listed_some
from pgdrag.findings.readings import reading
from pgdrag.findings.values import DesignFinding, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import Block, Rung, RunRecord, Treatment
from pgdrag.model.changes import changes_between, with_changes
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.interval import bounded_exp

_CONFIDENCE = 0.95
_MOST_NAMED = 8

_Row = tuple[int, ...]  # of the design: 1 for a change that is made, -1 for one that is not


class ScreenParameters(DesignParameters):
    """Parameters of a screening."""

    is_folded: bool = Field(
        default=True,
        description="Run each trial's mirror image, too: then no interaction of two changes looks "
        "like an effect of a third",
    )
    is_brief: bool = Field(default=True, description="Run short trials")


@dataclass(frozen=True)
class ScreenedChange:
    """A change and its own effect.

    Attributes:
        before, after: its values in the reference and in the target; None: not set there.
        slowdown: how many times slower the change makes it, on average over all settings of the others.
        p: that it is as large by chance, alone.
        p_adjusted: the same, for all changes together (Holm).
        is_significant: significant at 5 %, adjusted for all of them.
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
        detectable: the smallest slowdown that would be significant at about even odds; None
            where nothing was.
        is_folded: each trial's mirror image was part of the design.
        trials: of the design, with a number.
        planned: trials of the design.
        failed: trials without a number.
        stalled: trials in which nothing committed; they count with their bound.
    """

    # Its two ends are two of the trials, of no greater weight than the others.
    has_rungs: ClassVar[bool] = False

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


class Screen(OneBlock):
    """A Hadamard design over the changes from the first rung to the last: one block, half of them at a time."""

    name = "screen"
    summary = "a folded Hadamard design: each change's own effect, averaged over all the others"
    Parameters = ScreenParameters
    parameters: ScreenParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self._reference, self._target = rungs[0].treatment, rungs[-1].treatment
        self._changes = changes_between(self._reference, self._target)
        self._runs = self._treatments()

    def block(self) -> Block:
        return Block(tuple(self._runs.values()), self.parameters.is_brief)

    def _treatments(self) -> dict[_Row, Treatment]:
        """Return each treatment by its row; where nothing differs the reference alone, with an empty row."""
        count = len(self._changes)
        if not count:
            return {(): self._reference}
        runs = {}
        for line in screening_matrix(count, is_folded=self.parameters.is_folded):
            row = tuple(int(one) for one in line)
            made = [change for change, one in zip(self._changes, row, strict=True) if one > 0]
            if len(made) in (0, count):
                runs[row] = self._target if made else self._reference
                continue
            digest = hashlib.sha256(repr(row).encode()).hexdigest()[:6]
            name = f"{len(made)} of {count} changes ({digest})"
            runs[row] = with_changes(self._reference, made, name)
        return runs

    def find(self, run: RunRecord) -> ScreenFinding:
        """Return the effects that the trials can tell apart."""
        rows: list[_Row] = []
        logs: list[float] = []
        failed = stalled = 0
        for row, treatment in self._runs.items():
            for result in run.results:
                if result.trial.treatment.identity != treatment.identity:
                    continue
                one = reading(result)
                if one is None:
                    failed += 1
                    continue
                stalled += one.is_bound
                rows.append(row)
                logs.append(one.log_per_s)
        screened = screen(rows, logs) if self._changes else None
        changes, detectable = [], None
        if screened is not None:
            changes = [
                ScreenedChange(
                    change.name,
                    change.before.value if change.before else None,
                    change.after.value if change.after else None,
                    effect.interval(_CONFIDENCE),
                    effect.p_value,
                    p_adjusted,
                    p_adjusted <= 1 - _CONFIDENCE,
                )
                for change, effect, p_adjusted in zip(
                    self._changes, screened.effects, screened.p_adjusted, strict=True
                )
            ]
            # An effect of this size passes the strictest of Holm's steps.
            strictest = t_multiplier(1 - (1 - _CONFIDENCE) / len(changes), screened.dof)
            detectable = bounded_exp(strictest * screened.se)
        found = ScreenFinding(
            answer="",
            warnings=(),
            reference=self._reference.name,
            target=self._target.name,
            changes=tuple(sorted(changes, key=lambda x: -abs(math.log(x.slowdown.center)))),
            names=tuple(change.name for change in self._changes),
            method=screened.method if screened else "",
            detectable=detectable,
            is_folded=self.parameters.is_folded,
            trials=len(logs),
            planned=len(self._runs) * run.study.replicates,
            failed=failed,
            stalled=stalled,
        )
        return replace(found, answer=_answer(found), warnings=tuple(_warnings(found)))


def _answer(found: ScreenFinding) -> str:
    if not found.names:
        return f"No answer: {found.reference} and {found.target} are the same."
    count = counted(len(found.names), "change")
    if not found.changes:
        return (
            f"No answer yet: {found.trials} of {found.planned} trials have a measured throughput, too few to "
            f"separate {count}."
        )
    significant = [one for one in found.changes if one.is_significant]
    if not significant:
        return f"None of {count} has a significant effect of its own."
    words = [f"{one.name} {slowdown_words(one.slowdown)}" for one in significant]
    verb, whose = ("has", "its") if len(significant) == 1 else ("have", "their")
    return f"{len(significant)} of {count} {verb} a significant effect of {whose} own: {listed_some(words, _MOST_NAMED)}."


def _warnings(found: ScreenFinding) -> Iterator[str]:
    if found.changes:
        yield (
            "an effect is the average over all settings of the other changes: an effect that needs "
            'a partner shows only in part; "pgdrag ablate" finds the partner'
        )
    if found.changes and not found.is_folded:
        yield (
            "without mirror images an interaction of two changes can look like an effect of a third; "
            "fold the design"
        )
    if found.changes and found.failed:
        yield f"{counted(found.failed, 'trial')} had no measured throughput: the effects are fitted to the others"
    if found.stalled:
        yield (
            f"nothing committed in {counted(found.stalled, 'trial')}: they count with the upper bound of their rate, "
            "which makes effects look smaller than they are; allow a longer budget"
        )
