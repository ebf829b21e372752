"""What does each step add, when each is taken on top of the ones before it, in the given order?

What a step adds depends on the steps before it. A ladder can therefore be asked to take each of its changes
alone as well, and to leave each out of the whole: those trials stand in the same blocks as the rungs. Many
of them are rungs already (the first step alone is the second rung, the whole without the last step the last
rung but one), and are run once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import Field

from pgdrag.designs.ablate.labels import Call, Label, call_all, judged
from pgdrag.designs.rungs import EveryRung, RungsFinding, RungsParameters
from pgdrag.english import listed, percent_words
from pgdrag.findings.combine import group
from pgdrag.findings.values import Comparison, Interval
from pgdrag.findings.wording import inverse, slowdown_words
from pgdrag.model import Level, Outcome, Rung, RunRecord, Treatment
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.effects import Effect
from pgdrag.stats.interval import LogEstimate
from pgdrag.stats.linear_model import Weights, fit
from pgdrag.units import format_ratio

_CONFIDENCE = 0.95
_MUCH = 0.5  # part of the whole over which a change carries it


class LadderParameters(RungsParameters):
    """Parameters of a ladder."""

    alone: bool = Field(
        default=False, description="Run the baseline with each rung's change alone, too"
    )
    without: bool = Field(
        default=False, description="Run the last rung without each rung's change, too"
    )
    threshold: Annotated[float, Field(gt=0, le=10)] = Field(
        default=0.05,
        description="With alone or without: smallest effect worth a name, as a ratio less 1",
    )


@dataclass(frozen=True)
class RungChange:
    """What one step of a ladder contributes to the whole, compared in three ways.

    Attributes:
        rung: name of the rung that takes it.
        title: of that rung.
        label: what it is, with `meaning` in a sentence.
        step: the rung against the one before it; None where a side has no number.
        to_baseline: the rung against the baseline.
        alone: the baseline with this change against the baseline.
        with_others: the whole against the whole without this change.
        alone_part, with_others_part: of the whole, on the log scale; None where the whole does not differ significantly from
            no change.
        carries: by both contrasts it is more than half of the whole.
        detectable: the smallest effect, as a ratio over 1, that the coarser of the two contrasts can detect;
            infinite where there is none.
    """

    rung: str
    title: str
    label: Label
    meaning: str
    step: Comparison | None
    to_baseline: Comparison | None
    alone: Comparison | None
    with_others: Comparison | None
    alone_part: Interval | None
    with_others_part: Interval | None
    carries: bool
    detectable: float


@dataclass(frozen=True)
class LadderFinding(RungsFinding):
    """What a ladder found, and of changes that were also tried one by one, what each is to the whole.

    Attributes:
        baseline, target: names of the first rung, and of the last that could be tested here.
        whole: the target against the baseline; None where a side has no number.
        changes: of each step, in the ladder's order; none where they were not tried one by one.
        together: how many times slower all of them are than the product of each alone; None where
            one of these is not known.
        method: how the intervals were made, in words.
        sentence: which change carries the whole, or why that cannot be said.
    """

    baseline: str
    target: str
    whole: Comparison | None
    changes: tuple[RungChange, ...]
    together: Interval | None
    method: str
    sentence: str

    def claim_notes(self) -> tuple[str, ...]:
        """Return which single change carries the whole, to stand beside a published total."""
        return (self.sentence,) if self.sentence else ()


class Ladder(EveryRung):
    """The last rung against the baseline in pairs until that is decided, then every rung once a block, cumulatively.

    What a rung shows depends on the rungs below it: the report says so beside every step.
    """

    name = "ladder"
    summary = "cumulative steps in a given order, as published studies take them; on request each change alone, too"
    Parameters = LadderParameters
    is_cumulative = True
    noun = "rung"
    parameters: LadderParameters

    def _headlines(self) -> Sequence[Rung]:
        return self.rungs[:0:-1]

    @cached_property
    def everything(self) -> tuple[Treatment, ...]:
        given, arms = self.parameters, _arms(self.rungs)
        wanted = [arm.alone for arm in arms if given.alone]
        wanted += [arm.without for arm in arms if given.without]
        known = {rung.treatment.identity for rung in self.rungs}
        further = {one.identity: one for one in wanted if one.identity not in known}
        return (*(rung.treatment for rung in self.rungs), *further.values())

    def find(self, run: RunRecord) -> LadderFinding | None:
        """Return what pairs, blocks and single changes show; None without pairs where the ladder has its rungs alone."""
        given = self.parameters
        if (given.alone or given.without) and len(self.rungs) > 1:
            return _Finder(self, run).find()
        found = super().find(run)
        if found is None or found.headline is None:
            return None
        return LadderFinding(
            **vars(found),
            baseline=found.headline.reference,
            target=found.headline.treatment,
            whole=found.comparison(found.headline.treatment),
            changes=(),
            together=None,
            method="",
            sentence="",
        )


class _Arm(NamedTuple):
    """The treatments of one step: the baseline with its levels only, and the last rung without them."""

    rung: Rung
    alone: Treatment
    without: Treatment


def _arms(rungs: Sequence[Rung]) -> list[_Arm]:
    """Return the treatments of each step; equal ones are one, by the name of a rung where it is one."""
    baseline, *steps = rungs
    found = {rung.treatment.identity: rung.treatment for rung in rungs}

    def shared(name: str, levels: Iterable[Level]) -> Treatment:
        made = baseline.treatment.with_levels(name, levels)
        return found.setdefault(made.identity, made)

    # What leaves out all but one change is that change alone, and has its name from there.
    alone = [shared(f"{step.name} alone", step.added) for step in steps]
    without = [
        shared(f"without {step.name}", (x for one in steps if one is not step for x in one.added))
        for step in steps
    ]
    return list(map(_Arm, steps, alone, without))


class _Finder:
    """Compares the treatments of one run."""

    def __init__(self, design: Ladder, run: RunRecord) -> None:
        rungs = {rung.treatment.name: rung for rung in design.rungs}
        self._arms = _arms(design.rungs)
        self._matters = math.log1p(design.parameters.threshold)
        made = (one for arm in self._arms for one in (arm.alone, arm.without))
        every = rungs | {one.name: Rung(one.name, "", one) for one in made if one.name not in rungs}
        trials = {x.rung.treatment.name: x for x in group([*every.values()], run.results)}
        self._untestable = {
            name for name, x in trials.items() if x.results and x.outcome is Outcome.UNTESTABLE
        }
        self._fit = fit({name: x.rates for name, x in trials.items()})
        self._found = design.compare_all(run, [trials[name] for name in rungs], self._fit)
        self._rungs = rungs
        self._baseline, *_ = rungs
        # The last rung that this machine can have: what it lacks is in no treatment of the others.
        testable = (name for name in reversed(rungs) if name not in self._untestable)
        self._target = next(testable, self._baseline)
        self._whole = _difference(self._baseline, self._target)

    def find(self) -> LadderFinding:
        """Return all of it, its words last."""
        whole = self._found.comparison(self._rungs[self._target].name)
        ways = [self._ways(arm) for arm in self._arms]
        contrasts = [self._fit.contrast(weights) for both in ways for weights in both]
        effects = [None if one is None else _effect(one) for one in contrasts]
        # All contrasts are tested at once, so that their number is allowed for.
        calls = [
            self._as_seen(call, one)
            for call, one in zip(call_all(effects, matters=self._matters), contrasts, strict=True)
        ]
        called = list(zip(effects, calls, strict=True))
        changes = [
            self._change(
                arm, both, whole, judged(*called[2 * at : 2 * at + 2], matters=self._matters)[0]
            )
            for at, (arm, both) in enumerate(zip(self._arms, ways, strict=True))
        ]
        together = self._together()
        lacking = [one.rung for one in changes if one.label is Label.UNTESTABLE]
        sentence = _carrier_sentence(whole, changes)
        answer = (
            self._found.answer,
            sentence,
            _together_sentence(whole, together),
            f"{listed(lacking)} could not be tested here." if lacking else "",
        )
        found = replace(
            self._found,
            answer=" ".join(filter(None, answer)),
            warnings=_warnings(changes, has_repeats=self._fit.dof > 0),
        )
        return LadderFinding(
            **vars(found),
            baseline=self._baseline,
            target=self._target,
            whole=whole,
            changes=tuple(changes),
            together=together,
            method="" if whole is None else whole.slowdown.method,
            sentence=sentence,
        )

    def _ways(self, arm: _Arm) -> tuple[Weights, Weights]:
        """Return the contrasts of a change alone and with the others; without weights where there is none."""
        # Of a change that this machine lacks the whole never had anything.
        is_lacking = arm.alone.name in self._untestable
        with_others = {} if is_lacking else _difference(arm.without.name, self._target)
        return _difference(self._baseline, arm.alone.name), with_others

    def _as_seen(self, call: Call, contrast: LogEstimate | None) -> Call:
        """Return a call, where "none" is said only if an effect that matters would have shown."""
        if call is not Call.NONE or contrast is None:
            return call
        return call if math.log(contrast.detectable()) <= self._matters else Call.UNKNOWN

    def _change(
        self, arm: _Arm, ways: tuple[Weights, Weights], whole: Comparison | None, label: Label
    ) -> RungChange:
        alone, with_others = map(self._compare, ways)
        # Parts of what does not differ significantly from nothing say nothing.
        is_whole_significant = whole is not None and whole.is_significant
        parts = [self._fit.part(x, self._whole) if is_whole_significant else None for x in ways]
        label = Label.UNTESTABLE if arm.alone.name in self._untestable else label
        return RungChange(
            rung=arm.rung.name,
            title=arm.rung.title,
            label=label,
            meaning=label.meaning,
            step=self._found.step(arm.rung.name),
            to_baseline=self._found.comparison(arm.rung.name),
            alone=alone,
            with_others=with_others,
            alone_part=parts[0],
            with_others_part=parts[1],
            carries=is_whole_significant and all(map(self._is_much, ways)),
            detectable=max((x.detectable for x in (alone, with_others) if x), default=math.inf),
        )

    def _compare(self, weights: Weights) -> Comparison | None:
        found = self._fit.contrast(weights)
        return None if found is None else found.comparison()

    def _is_much(self, weights: Weights) -> bool:
        """Tell whether a difference is over half of the whole, by an interval that allows for all steps."""
        whole = self._fit.contrast(self._whole)
        beyond = self._fit.contrast(_sum(weights, self._whole, -_MUCH)) if weights else None
        if beyond is None or whole is None:
            return False
        confidence = 1 - (1 - _CONFIDENCE) / len(self._arms)
        return math.copysign(1.0, whole.center) * beyond.center > beyond.half_width(confidence)

    def _together(self) -> Interval | None:
        """Compare the whole with the product of each change alone."""
        tested = [arm for arm in self._arms if arm.alone.name not in self._untestable]
        weights = self._whole
        for arm in tested:
            weights = _sum(weights, _difference(self._baseline, arm.alone.name), -1.0)
        found = self._fit.contrast(weights) if len(tested) > 1 else None
        return None if found is None else found.interval()


def _difference(reference: str, treatment: str) -> dict[str, float]:
    return {} if reference == treatment else {reference: 1.0, treatment: -1.0}


def _sum(one: Weights, other: Weights, times: float) -> dict[str, float]:
    both = {x: one.get(x, 0.0) + times * other.get(x, 0.0) for x in (*one, *other)}
    return {name: weight for name, weight in both.items() if weight}


def _effect(found: LogEstimate) -> Effect:
    half = found.half_width(_CONFIDENCE)
    se = half / t_multiplier(_CONFIDENCE, found.dof)
    return Effect(found.center, found.center - half, found.center + half, se, found.dof)


def _carrier_sentence(whole: Comparison | None, changes: Sequence[RungChange]) -> str:
    """Say which change accounts for more than half of the whole, or why none can be named."""
    if whole is None:
        return "The whole cannot be attributed: all changes together have no measured throughput."
    if not whole.is_significant:
        return "All changes together have no significant effect, so none is attributed to a single one."
    if carriers := [one for one in changes if one.carries]:
        return " ".join(
            f"{_named(one)} accounts for more than half of it{_part_words(one)}: alone it is "
            f"{_words(one.alone)}, and the whole is {_words(one.with_others)} with it than without it."
            for one in carriers
        )
    measured = [(one.alone_part.center, one) for one in changes if one.alone_part is not None]
    if not measured:
        return "The whole cannot be attributed: no change was tried alone."
    _, largest = max(measured, key=lambda pair: pair[0])
    start = (
        "No single change accounts for half of it"
        if all(_is_less_than_half(one) for _, one in measured)
        else "No single change can be shown to account for more than half of it"
    )
    return f"{start}: the largest alone is {_named(largest)}, {_words(largest.alone)}{_part_words(largest)}."


def _words(comparison: Comparison | None) -> str:
    assert comparison is not None, "a part of the whole has its own comparison"
    return slowdown_words(comparison.slowdown)


def _part_words(change: RungChange) -> str:
    part = change.alone_part
    if part is None:
        return ""
    low, center, high = map(percent_words, (part.low, part.center, part.high))
    return f" ({center} on the log scale, {low} to {high})"


def _is_less_than_half(change: RungChange) -> bool:
    parts = [part for part in (change.alone_part, change.with_others_part) if part is not None]
    return bool(parts) and all(part.high < _MUCH for part in parts)


def _named(change: RungChange) -> str:
    return f"{change.rung} ({change.title})" if change.title else change.rung


def _together_sentence(whole: Comparison | None, together: Interval | None) -> str:
    """Say that the changes interact; "" where that is not significant."""
    if whole is None or together is None or not together.excludes_one:
        return ""
    product = whole.slowdown.center / together.center
    size = format_ratio(max(product, inverse(product)))
    return (
        f"The product of the changes alone is {size} {'slower' if product >= 1 else 'faster'}; together they are "
        f"{slowdown_words(together)} than that, so they interact."
    )


def _warnings(changes: Sequence[RungChange], *, has_repeats: bool) -> tuple[str, ...]:
    """Return warnings about the single changes, each with the remedy still untried."""
    if not has_repeats:
        return (
            "no treatment was repeated, so no interval of the single changes includes trial-to-trial noise; "
            "run 2 or more replicates",
        )
    undecided = [one.rung for one in changes if one.label is Label.UNDECIDED]
    if not undecided:
        return ()
    return (
        f"these trials cannot tell what {listed(undecided)} {'adds' if len(undecided) == 1 else 'add'} to the "
        "whole; run more replicates or longer windows",
    )
