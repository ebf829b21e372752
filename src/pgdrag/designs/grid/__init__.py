"""What do all combinations of a few factors' levels do, and do the factors act on each other?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field, field_validator

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.designs.rungs import against_baseline
from pgdrag.english import counted, listed
from pgdrag.findings.combine import RungTrials, group
from pgdrag.findings.values import Comparison, DesignFinding, Interval
from pgdrag.findings.wording import inverse, slowdown_words
from pgdrag.model import Block, Level, Result, Rung, RunRecord, Treatment
from pgdrag.stats.interval import LogEstimate
from pgdrag.stats.linear_model import fit
from pgdrag.units import format_ratio

MOST_TREATMENTS = 256
_CONFIDENCE = 0.95
_MOST_NAMED = 3  # interactions in the answer
Places = tuple[int, ...]  # of a combination's levels on the axes


class GridParameters(DesignParameters):
    """Parameters of a grid."""

    levels: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="By name of a factor, the values to cross (default: those that the rungs name)",
    )

    @field_validator("levels")
    @classmethod
    def _few_enough(cls, levels: dict[str, list[str]]) -> dict[str, list[str]]:
        count = math.prod(len(set(values)) for values in levels.values())
        if count > MOST_TREATMENTS:
            raise ValueError(f"{count} combinations; at most {MOST_TREATMENTS}")
        return levels


class Axis(NamedTuple):
    """A factor's name, its levels (None: as the baseline has it), and what each of them is called."""

    name: str
    levels: tuple[Level | None, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class FactorFinding:
    """One factor of a grid.

    Attributes:
        name: of the factor.
        levels: their values; the first is what the others are compared with.
    """

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class CombinationFinding:
    """One combination of levels.

    Attributes:
        treatment: its name.
        levels: values, in the order of the factors.
        to_first: against the combination of each factor's first level; None for that one itself, and where
            a side has no number.
    """

    treatment: str
    levels: tuple[str, ...]
    to_first: Comparison | None


@dataclass(frozen=True)
class InteractionFinding:
    """What a level of one factor and a level of another make together.

    Attributes:
        factors: names of the two.
        changes: of each, "from → to".
        alone: how many times slower each makes it by itself, in the order of `factors`.
        both: how many times slower both make it together.
        product: the product of `alone`.
        interaction: `both` divided by `product`: 1 where neither acts on the other.
        is_significant: it differs from 1, by an interval that allows for the number of interactions.
        detectable: the smallest interaction, as a ratio over 1 that these trials can detect.
        averaged_over: combinations of the other factors' levels, over which all this is averaged; 1 where
            there is no other factor.
        sentence: the same in words.
    """

    factors: tuple[str, str]
    changes: tuple[str, str]
    alone: tuple[Interval, Interval]
    both: Interval
    product: float
    interaction: Interval
    is_significant: bool
    detectable: float
    averaged_over: int
    sentence: str = ""


@dataclass(frozen=True)
class GridFinding(DesignFinding):
    """What a grid found.

    Attributes:
        factors: that were crossed.
        baseline: name of the treatment that rungs are compared with.
        combinations: all that were asked for, in order.
        interactions: of each two factors, and each two of their levels beyond the first.
        method: how the intervals were made, in words.
        rates: committed transactions/s of each combination that has a number, with the noise of all trials.
        to_baseline: each of them against the baseline; none if that is not a combination.
    """

    completes_answer: ClassVar[bool] = True
    names_all_treatments: ClassVar[bool] = False

    factors: tuple[FactorFinding, ...]
    baseline: str
    combinations: tuple[CombinationFinding, ...]
    interactions: tuple[InteractionFinding, ...]
    method: str
    rates: Mapping[str, Interval]
    to_baseline: Mapping[str, Comparison]

    def comparison(self, rung: str) -> Comparison | None:
        """Return a combination against the baseline, where that is one of them."""
        return self.to_baseline.get(rung)

    def rate(self, rung: str) -> Interval | None:
        return self.rates.get(rung)


class Grid(OneBlock):
    """Every combination once per block, on top of the baseline; the laboratory adds replicates.

    Without levels of its own it crosses the factors that the rungs add: each as the baseline has it, and
    as each rung has it. More combinations than 256 are cut off at the last factors, which then stay as
    in the baseline.
    """

    name = "grid"
    summary = "all combinations of a few factors' levels"
    Parameters = GridParameters
    parameters: GridParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.axes = _axes(self.rungs, self.parameters.levels)

    @property
    def levels(self) -> tuple[Level, ...]:
        return tuple(level for axis in self.axes for level in axis.levels if level is not None)

    def block(self) -> Block:
        """Return the baseline and every combination; one that is a rung has the rung's name."""
        baseline = self.rungs[0].treatment
        rungs = {rung.treatment.identity: rung.treatment for rung in reversed(self.rungs)}
        found = {baseline.identity: baseline}
        for _, treatment in _combinations(self.axes, baseline):
            found.setdefault(treatment.identity, rungs.get(treatment.identity, treatment))
        return Block(tuple(found.values()))

    def so_far(self, results: Sequence[Result]) -> str:
        return against_baseline(results, self.rungs[0].treatment)

    def find(self, run: RunRecord) -> GridFinding | None:
        """Return what the combinations say together; None where fewer than two factors are crossed."""
        is_crossed = bool(run.study.rungs) and len(self.axes) > 1
        return _Finder(run, self.axes).find() if is_crossed else None


def _axes(rungs: Sequence[Rung], levels: Mapping[str, Sequence[str]]) -> tuple[Axis, ...]:
    """Return the factors to cross: those that `levels` names, else those that the rungs add.

    More combinations than 256 are cut off at the last factors, which then stay as in the baseline.
    """
    if levels:
        kinds = {level.name: level.kind for rung in rungs for level in rung.treatment.levels}
        return tuple(
            _axis(name, [Level(kinds.get(name, "setting"), name, x) for x in dict.fromkeys(values)])
            for name, values in levels.items()
        )
    at_baseline = {level.factor: level.value for level in rungs[0].treatment.levels}
    by_factor: dict[tuple[str, str], dict[Level, None]] = {}
    for rung in rungs[1:]:
        for level in rung.added:
            if at_baseline.get(level.factor) != level.value:
                by_factor.setdefault(level.factor, {})[level] = None
    found: list[Axis] = []
    for factor, added in by_factor.items():
        axis = _axis(factor[1], [None, *added], at_baseline.get(factor, "default"))
        if math.prod(len(one.levels) for one in [*found, axis]) > MOST_TREATMENTS:
            break
        found.append(axis)
    return tuple(found)


def _combinations(
    crossed: Sequence[Axis], baseline: Treatment
) -> Iterator[tuple[Places, Treatment]]:
    """Yield each combination: the places of its levels on the axes, and its treatment."""
    for places in itertools.product(*(range(len(axis.levels)) for axis in crossed)):
        at = [axis.levels[place] for axis, place in zip(crossed, places, strict=True)]
        chosen = [level for level in at if level is not None]
        yield places, baseline.with_levels(_name(chosen, baseline), chosen)


def _axis(name: str, levels: Sequence[Level | None], at_baseline: str = "") -> Axis:
    words = tuple(at_baseline if level is None else level.shown for level in levels)
    return Axis(name, tuple(levels), words)


def _name(chosen: Sequence[Level], baseline: Treatment) -> str:
    """Return `work_mem=4MB jit=off`, cut to the length of a treatment's name."""
    text = " ".join(f"{level.name}={level.shown}" for level in chosen) or baseline.name
    if len(text) <= 60:
        return text
    return f"{text[:46]}… ({Treatment('', tuple(chosen)).identity[:10]})"


class _Finder:
    """Reads one run's combinations."""

    def __init__(self, run: RunRecord, axes: Sequence[Axis]) -> None:
        self._baseline = run.study.rungs[0].treatment
        self._axes = axes
        treatments = {one.name: one for one in (result.trial.treatment for result in run.results)}
        # A combination that is a rung, or stands twice, was run under one name.
        known = {one.identity: one.name for one in reversed(treatments.values())}
        self._names: dict[Places, str] = {
            places: known.setdefault(treatment.identity, treatment.name)
            for places, treatment in _combinations(axes, self._baseline)
        }
        trials = group([Rung(name, "", one) for name, one in treatments.items()], run.results)
        crossed = {level.factor for axis in axes for level in axis.levels if level is not None}

        def lacking(one: RungTrials) -> list[Level]:
            return [
                x.level for x in one.applied if x.effective is None and x.level.factor in crossed
            ]

        # If a level could not be set, the trial is not of this combination, whatever was measured under its name.
        self._lacking = {x.factor: x.name for one in trials for x in lacking(one)}
        self._fit = fit(
            {one.rung.name: one.rates for one in trials if one.rates and not lacking(one)}
        )

    def find(self) -> GridFinding:
        """Return all of it, in words as well."""
        found = self._interactions()
        largest = found[0].interaction if found else None
        first = self._names[(0,) * len(self._axes)]
        combinations = tuple(
            CombinationFinding(
                name,
                tuple(axis.words[at] for axis, at in zip(self._axes, places, strict=True)),
                self._fit.compare(first, name),
            )
            for places, name in self._names.items()
        )
        names = dict.fromkeys(self._names.values())
        rates = {name: self._fit.rate(name) for name in names}
        ratios = {name: self._fit.compare(self._baseline.name, name) for name in names}
        untested = f" {listed([*self._lacking.values()])} could not be set here."
        return GridFinding(
            answer=_answer(found) + (untested if self._lacking else ""),
            warnings=(),  # the comparisons have them
            factors=tuple(FactorFinding(axis.name, axis.words) for axis in self._axes),
            baseline=self._baseline.name,
            combinations=combinations,
            interactions=found,
            method=largest.method if largest is not None else "",
            rates={name: one for name, one in rates.items() if one is not None},
            to_baseline={name: one for name, one in ratios.items() if one is not None},
        )

    def _interactions(self) -> tuple[InteractionFinding, ...]:
        asked = [
            (first, second, at)
            for first, second in itertools.combinations(range(len(self._axes)), 2)
            for at in itertools.product(
                range(1, len(self._axes[first].levels)), range(1, len(self._axes[second].levels))
            )
        ]
        confidence = 1 - (1 - _CONFIDENCE) / max(len(asked), 1)
        found = (self._interaction(first, second, at, confidence) for first, second, at in asked)
        return tuple(one for one in found if one is not None)

    def _interaction(
        self, first: int, second: int, at: tuple[int, int], confidence: float
    ) -> InteractionFinding | None:
        free = [[*range(len(axis.levels))] for axis in self._axes]
        # Neither, the first alone, the second alone, both; each with every combination of the others.
        corners: list[list[str]] = []
        for here in ((0, 0), (at[0], 0), (0, at[1]), at):
            free[first], free[second] = [here[0]], [here[1]]
            corners.append([self._names[places] for places in itertools.product(*free)])
        # Only those of the others count in which all four have a number.
        rows = [row for row in zip(*corners, strict=True) if all(x in self._fit for x in row)]

        def contrast(*signs: int) -> LogEstimate | None:
            weights: dict[str, float] = {}
            for corner, sign in enumerate(signs):
                for row in rows:
                    weights[row[corner]] = weights.get(row[corner], 0.0) + sign / len(rows)
            return self._fit.contrast({name: x for name, x in weights.items() if x})

        one, other, both = contrast(1, -1, 0, 0), contrast(1, 0, -1, 0), contrast(1, 0, 0, -1)
        interaction = contrast(-1, 1, 1, -1)
        if one is None or other is None or both is None or interaction is None:
            return None
        alone = (one.interval(), other.interval())
        axes = (self._axes[first], self._axes[second])
        found = InteractionFinding(
            factors=(axes[0].name, axes[1].name),
            changes=(_change(axes[0], at[0]), _change(axes[1], at[1])),
            alone=alone,
            both=both.interval(),
            product=alone[0].center * alone[1].center,
            interaction=interaction.interval(),
            is_significant=abs(interaction.center) > interaction.half_width(confidence),
            detectable=interaction.detectable(),
            averaged_over=len(rows),
        )
        return replace(found, sentence=_sentence(found))


def _change(axis: Axis, at: int) -> str:
    return f"{axis.words[0]} → {axis.words[at]}"


def _sentence(found: InteractionFinding) -> str:
    """Return what both do together, beside the product of what each does, with the interaction."""
    names = " and ".join(
        f"{name} {change}" for name, change in zip(found.factors, found.changes, strict=True)
    )
    over = (
        f" (averaged over {counted(found.averaged_over, 'combination')} of the other factors)"
        if found.averaged_over > 1
        else ""
    )
    start = (
        f"{names}{over}: together {_times(found.both.center)}, without an interaction "
        f"{_times(found.product)}; the interaction is {slowdown_words(found.interaction)}"
    )
    if found.is_significant:
        return f"{start}."
    if found.interaction.excludes_one:
        return f"{start}, not significant after correction for all interactions."
    return f"{start}, not significant; these trials can detect {format_ratio(found.detectable)} or more."


def _answer(found: Sequence[InteractionFinding]) -> str:
    """Say which factors interact, the strongest first."""
    significant = sorted(
        (one for one in found if one.is_significant),
        key=lambda one: -max(one.interaction.center, inverse(one.interaction.center)),
    )
    if significant:
        more = len(significant) - _MOST_NAMED
        verb = "is" if more == 1 else "are"
        rest = f" {counted(more, 'more interaction')} {verb} significant." if more > 0 else ""
        return " ".join(one.sentence for one in significant[:_MOST_NAMED]) + rest
    if not found:
        return "No interaction can be estimated: combinations have no measured throughput."
    if len(found) == 1:
        return found[0].sentence
    return f"None of {len(found)} interactions is significant."


def _times(slowdown: float) -> str:
    way = "slower" if slowdown >= 1 else "faster"
    return f"{format_ratio(max(slowdown, inverse(slowdown)))} {way}"
