"""What did a grid find? Each combination, and whether its factors act on each other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdrag.designs.grid.axes import Axis, combinations
from pgdrag.designs.grid.findings import (
    CombinationFinding,
    FactorFinding,
    GridFinding,
    InteractionFinding,
)
from pgdrag.designs.grid.words import answer, interaction_sentence
from pgdrag.findings.combine import RungTrials, group
from pgdrag.findings.values import Comparison
from pgdrag.model import Rung, RunRecord
from pgdrag.stats.estimate import LogEstimate
from pgdrag.stats.factorial import two_by_two
from pgdrag.stats.linear_model import Fit, fit
from pgdrag.stats.ratios import comparison_of

if TYPE_CHECKING:
    from pgdrag.designs.grid import Grid

_CONFIDENCE = 0.95
Places = tuple[int, ...]


def finding_of(design: Grid, run: RunRecord) -> GridFinding | None:
    """Return what the combinations say together; None where fewer than two factors are crossed."""
    is_crossed = bool(run.study.rungs) and len(design.axes) > 1
    return _Finder(run, design.axes).find() if is_crossed else None


class _Finder:
    """Reads one run's combinations."""

    def __init__(self, run: RunRecord, crossed: Sequence[Axis]) -> None:
        self._baseline = run.study.rungs[0].treatment
        self._axes = crossed
        treatments = {one.name: one for one in (result.trial.treatment for result in run.results)}
        # A combination that is a rung, or stands twice, was run under one name.
        known = {one.identity: one.name for one in reversed(treatments.values())}
        self._names: dict[Places, str] = {
            places: known.setdefault(treatment.identity, treatment.name)
            for places, treatment in combinations(crossed, self._baseline)
        }
        trials = group([Rung(name, "", one) for name, one in treatments.items()], run.results)
        # What could not be set is no such combination, whatever was measured under its name.
        self._lacking = {
            one.level.factor: one.level.name
            for each in trials
            for one in each.applied
            if one.effective is None
        }
        crossed_factors = {x.factor for axis in crossed for x in axis.levels if x is not None}
        self._lacking = {x: y for x, y in self._lacking.items() if x in crossed_factors}
        self._fit: Fit = fit(
            {one.rung.name: one.rates for one in trials if one.rates and not self._lacks(one)}
        )

    def find(self) -> GridFinding:
        """Return all of it, in words as well."""
        found = self._interactions()
        largest = next((one.interaction for one in found), None)
        return GridFinding(
            answer=answer(found, list(self._lacking.values())),
            warnings=largest.warnings if largest is not None else (),
            factors=tuple(FactorFinding(axis.name, axis.words) for axis in self._axes),
            baseline=self._baseline.name,
            combinations=tuple(self._combination(places) for places in self._names),
            interactions=found,
            method=largest.method if largest is not None else "",
        )

    def _lacks(self, trials: RungTrials) -> bool:
        return any(
            one.effective is None and one.level.factor in self._lacking for one in trials.applied
        )

    def _combination(self, places: Places) -> CombinationFinding:
        first = self._names[tuple(0 for _ in places)]
        ratio = self._fit.slowdown(first, self._names[places])
        words = tuple(axis.words[at] for axis, at in zip(self._axes, places, strict=True))
        return CombinationFinding(self._names[places], words, _compared(ratio))

    def _interactions(self) -> tuple[InteractionFinding, ...]:
        asked = [
            (pair, at)
            for pair in itertools.combinations(range(len(self._axes)), 2)
            for at in itertools.product(*(range(1, len(self._axes[x].levels)) for x in pair))
        ]
        confidence = 1 - (1 - _CONFIDENCE) / max(len(asked), 1)
        looked = (self._interaction(pair, (at[0], at[1]), confidence) for pair, at in asked)
        return tuple(one for one in looked if one is not None)

    def _interaction(
        self, pair: tuple[int, int], at: tuple[int, int], confidence: float
    ) -> InteractionFinding | None:
        others = self._others(pair, at)
        if not others:
            return None
        corners = [
            self._mean(pair, corner, others)
            for corner in ((0, 0), (at[0], 0), (0, at[1]), (at[0], at[1]))
        ]
        first, second, both, interaction = two_by_two(
            lambda signs: self._fit.contrast(_weighted(corners, signs))
        )
        if first is None or second is None or both is None or interaction is None:
            return None
        one, other = self._axes[pair[0]], self._axes[pair[1]]
        found = InteractionFinding(
            factors=(one.name, other.name),
            changes=(_change(one, at[0]), _change(other, at[1])),
            alone=(first.interval(), second.interval()),
            both=both.interval(),
            product=first.interval().center * second.interval().center,
            interaction=interaction.interval(),
            is_significant=abs(interaction.center) > interaction.half_width(confidence),
            detectable=interaction.detectable(),
            averaged_over=len(others),
        )
        return replace(found, sentence=interaction_sentence(found))

    def _others(self, pair: tuple[int, int], at: tuple[int, int]) -> list[Places]:
        """Return the combinations of the other factors in which all four corners have a number."""
        free = [range(len(axis.levels)) for x, axis in enumerate(self._axes) if x not in pair]
        corners = list(itertools.product((0, at[0]), (0, at[1])))
        return [
            rest
            for rest in itertools.product(*free)
            if all(self._name(pair, corner, rest) in self._fit for corner in corners)
        ]

    def _mean(
        self, pair: tuple[int, int], corner: tuple[int, int], others: Sequence[Places]
    ) -> dict[str, float]:
        return {self._name(pair, corner, rest): 1 / len(others) for rest in others}

    def _name(self, pair: tuple[int, int], corner: tuple[int, int], rest: Places) -> str:
        remaining = iter(rest)
        here = dict(zip(pair, corner, strict=True))
        places = (here[x] if x in here else next(remaining) for x in range(len(self._axes)))
        return self._names[tuple(places)]


def _weighted(corners: Sequence[Mapping[str, float]], signs: Sequence[int]) -> dict[str, float]:
    """Return the contrast of log throughputs that counts each corner with its sign."""
    weights: dict[str, float] = {}
    for corner, sign in zip(corners, signs, strict=True):
        for name, share in corner.items():
            weights[name] = weights.get(name, 0.0) + sign * share
    return {name: weight for name, weight in weights.items() if weight}


def _change(axis: Axis, at: int) -> str:
    return f"{axis.words[0]} → {axis.words[at]}"


def _compared(ratio: LogEstimate | None) -> Comparison | None:
    return None if ratio is None else comparison_of(ratio)
