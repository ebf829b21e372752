"""What did a ladder find whose changes were tried alone, or left out of the whole, as well?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdrag.designs.ablate.labels import Call, Effect, Label, call_all, label_of, resolved
from pgdrag.designs.ladder.arms import Arm, arms
from pgdrag.designs.ladder.findings import LadderFinding, RungChange
from pgdrag.designs.ladder.words import (
    carrier_sentence,
    is_significant,
    together_sentence,
    warnings,
)
from pgdrag.english import listed
from pgdrag.findings.combine import RungTrials, group
from pgdrag.findings.values import Comparison, Interval
from pgdrag.model import Outcome, Rung, RunRecord
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.estimate import LogEstimate
from pgdrag.stats.linear_model import Fit, Weights, fit
from pgdrag.stats.ratios import comparison_of

if TYPE_CHECKING:
    from pgdrag.designs.ladder import Ladder

_CONFIDENCE = 0.95
_MUCH = 0.5  # part of the whole over which a change carries it


def finding_of(design: Ladder, run: RunRecord) -> LadderFinding | None:
    """Return what the single changes say; None where the ladder has its rungs alone."""
    given = design.parameters
    if not (given.alone or given.without) or len(design.rungs) < 2:
        return None
    return _Finder(design, run).find()


class _Finder:
    """Compares the treatments of one run."""

    def __init__(self, design: Ladder, run: RunRecord) -> None:
        self._rungs = design.rungs
        self._arms = arms(self._rungs)
        self._matters = math.log1p(design.parameters.threshold)
        made = [one for arm in self._arms for one in (arm.alone, arm.without)]
        known = {rung.treatment.name: rung for rung in self._rungs}
        further = {one.name: Rung(one.name, "", one) for one in made if one.name not in known}
        trials = group([*known.values(), *further.values()], run.results)
        self._trials: Mapping[str, RungTrials] = {one.rung.treatment.name: one for one in trials}
        self._fit: Fit = fit({name: one.rates for name, one in self._trials.items()})
        self._baseline = self._rungs[0].treatment.name
        self._target = self._last_testable()

    def find(self) -> LadderFinding:
        """Return all of it, its words last."""
        whole = self._compare(self._baseline, self._target)
        changes = self._labelled([self._change(arm, whole) for arm in self._arms])
        together = self._together()
        sentence = carrier_sentence(whole, changes)
        answer = [sentence, together_sentence(whole, together), self._lacking()]
        return LadderFinding(
            answer=" ".join(filter(None, answer)),
            warnings=warnings(changes, has_repeats=self._fit.dof > 0),
            baseline=self._baseline,
            target=self._target,
            whole=whole,
            changes=tuple(changes),
            together=together,
            method="" if whole is None else whole.slowdown.method,
            sentence=sentence,
            rates={
                rung.name: rate
                for rung in self._rungs
                if (rate := self._fit.rate(rung.treatment.name)) is not None
            },
        )

    def _last_testable(self) -> str:
        """Return the last rung that this machine can have: what it lacks is in no treatment of the others."""
        names = [rung.treatment.name for rung in self._rungs]
        return next((x for x in reversed(names) if not self._is_untestable(x)), names[0])

    def _is_untestable(self, name: str) -> bool:
        here = self._trials[name]
        return bool(here.results) and here.outcome is Outcome.UNTESTABLE

    def _change(self, arm: Arm, whole: Comparison | None) -> RungChange:
        name = arm.rung.treatment.name
        before = self._before(name)
        alone, with_others = self._contrasts(arm)
        seen = [one.detectable for one in map(_compared, (alone, with_others)) if one is not None]
        is_whole_told = is_significant(whole)
        return RungChange(
            rung=arm.rung.name,
            title=arm.rung.title,
            label=Label.UNTESTABLE if self._is_untestable(arm.alone.name) else Label.UNDECIDED,
            meaning="",
            step=self._compare(before, name) if before is not None else None,
            to_baseline=self._compare(self._baseline, name),
            alone=_compared(alone),
            with_others=_compared(with_others),
            alone_part=self._part(self._alone(arm)) if is_whole_told else None,
            with_others_part=self._part(self._with_others(arm)) if is_whole_told else None,
            carries=is_whole_told
            and self._is_much(self._alone(arm))
            and self._is_much(self._with_others(arm)),
            detectable=max(seen, default=math.inf),
        )

    def _labelled(self, changes: Sequence[RungChange]) -> list[RungChange]:
        """Test all contrasts at once, so that their number is allowed for."""
        contrasts = [self._contrasts(arm) for arm in self._arms]
        effects = [None if one is None else _effect(one) for pair in contrasts for one in pair]
        calls = call_all(effects, matters=self._matters)
        labelled = []
        for at, change in enumerate(changes):
            if change.label is not Label.UNTESTABLE:
                pairs = [
                    (effects[place], self._as_seen(calls[place], one))
                    for place, one in zip((2 * at, 2 * at + 1), contrasts[at], strict=True)
                ]
                label = label_of(*resolved(pairs[0], pairs[1]))
            else:
                label = change.label
            labelled.append(replace(change, label=label, meaning=label.meaning))
        return labelled

    def _as_seen(self, call: Call, contrast: LogEstimate | None) -> Call:
        """Return a call, where "none" is said only if an effect that matters would have shown."""
        found = _compared(contrast)
        if call is not Call.NONE or found is None:
            return call
        return call if math.log(found.detectable) <= self._matters else Call.UNKNOWN

    def _contrasts(self, arm: Arm) -> tuple[LogEstimate | None, LogEstimate | None]:
        alone, with_others = self._alone(arm), self._with_others(arm)
        return (
            self._fit.contrast(alone) if alone else None,
            self._fit.contrast(with_others) if with_others else None,
        )

    def _alone(self, arm: Arm) -> Weights:
        return _difference(self._baseline, arm.alone.name)

    def _with_others(self, arm: Arm) -> Weights:
        # Of a change that this machine lacks the whole never had anything.
        is_lacking = self._is_untestable(arm.alone.name)
        return {} if is_lacking else _difference(arm.without.name, self._target)

    def _part(self, weights: Weights) -> Interval | None:
        whole = _difference(self._baseline, self._target)
        return self._fit.part(weights, whole) if weights and whole else None

    def _is_much(self, weights: Weights) -> bool:
        """Tell whether a difference is over half of the whole, by an interval that allows for all steps."""
        whole = _difference(self._baseline, self._target)
        if not weights or not whole:
            return False
        beyond = self._fit.contrast(_sum(weights, {x: -_MUCH * y for x, y in whole.items()}))
        all_of_it = self._fit.contrast(whole)
        if beyond is None or all_of_it is None:
            return False
        confidence = 1 - (1 - _CONFIDENCE) / len(self._arms)
        return math.copysign(1.0, all_of_it.center) * beyond.center > beyond.half_width(confidence)

    def _together(self) -> Interval | None:
        """Compare the whole with the product of each change alone."""
        tested = [arm for arm in self._arms if not self._is_untestable(arm.alone.name)]
        weights = _difference(self._baseline, self._target)
        for arm in tested:
            weights = _sum(weights, {x: -y for x, y in self._alone(arm).items()})
        found = self._fit.contrast(weights) if len(tested) > 1 else None
        return None if found is None else found.interval()

    def _before(self, name: str) -> str | None:
        names = [rung.treatment.name for rung in self._rungs]
        earlier = reversed(names[: names.index(name)])
        return next((x for x in earlier if x in self._fit), None)

    def _compare(self, reference: str, treatment: str) -> Comparison | None:
        return _compared(self._fit.slowdown(reference, treatment))

    def _lacking(self) -> str:
        names = [arm.rung.name for arm in self._arms if self._is_untestable(arm.alone.name)]
        return f"{listed(names)} could not be tested here." if names else ""


def _difference(reference: str, treatment: str) -> dict[str, float]:
    return {} if reference == treatment else {reference: 1.0, treatment: -1.0}


def _sum(one: Weights, other: Weights) -> dict[str, float]:
    both = {name: one.get(name, 0.0) + other.get(name, 0.0) for name in (*one, *other)}
    return {name: weight for name, weight in both.items() if weight}


def _compared(found: LogEstimate | None) -> Comparison | None:
    return None if found is None else comparison_of(found)


def _effect(found: LogEstimate) -> Effect:
    half = found.half_width(_CONFIDENCE)
    se = half / t_multiplier(_CONFIDENCE, found.dof)
    return Effect(found.center, found.center - half, found.center + half, se, found.dof)
