"""How fast was each step of a load that changes within the window, and how much slower than on the baseline?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import ClassVar

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.findings.values import Comparison, Interval
from pgdrag.model import Result
from pgdrag.model.measurement import Measurement
from pgdrag.stats.batches import samples_within
from pgdrag.stats.linear_model import Fit, fit
from pgdrag.stats.rates import TrialRate, combined_rate
from pgdrag.stats.ratios import comparison_of

Numbered = Sequence[tuple[Result, Measurement]]


@dataclass(frozen=True)
class StepFinding:
    """One step of a load that changes: throughput from `at_s` to `end_s` of the window.

    Attributes:
        rate_per_s: what was offered; None in closed loop.
        tps: None where no whole interval lies within the step.
        to_baseline: against the same step on the baseline, by what all rungs' trials differ by; None for the
            baseline itself, and where a side has too few commits.
    """

    at_s: float
    end_s: float
    sessions: int
    rate_per_s: float | None
    tps: Interval | None
    to_baseline: Comparison | None = None


def step_findings(trials: Numbered) -> tuple[StepFinding, ...]:
    """Return the throughput of each step, over all trials; () where the load is the same throughout.

    Only intervals that lie wholly within a step count for it. A window that was extended has its
    last step extended.
    """
    return tuple(
        StepFinding(
            part.at_s,
            part.until_s,
            part.sessions,
            part.rate_per_s,
            combined_rate(part.rates) if part.rates else None,
        )
        for part in _parts(trials)
    )


class StepRatios:
    """Compares each step of a load with the same step on the baseline, by what all rungs differ by.

    Args:
        trials: of each rung by its name.
        baseline: name of the rung that the others are compared with.
    """

    def __init__(self, trials: Mapping[str, Numbered], baseline: str) -> None:
        self._baseline = baseline
        parts = {name: [part.rates for part in _parts(one)] for name, one in trials.items()}
        by_step = zip_longest(*parts.values(), fillvalue=())
        self._fits: list[Fit] = [fit(dict(zip(parts, rates, strict=True))) for rates in by_step]

    def beside(self, steps: Sequence[StepFinding], rung: str) -> tuple[StepFinding, ...]:
        """Return a rung's steps, each with its slowdown."""
        return tuple(
            replace(step, to_baseline=self._comparison(at, rung)) for at, step in enumerate(steps)
        )

    def _comparison(self, at: int, rung: str) -> Comparison | None:
        found = self._fits[at].slowdown(self._baseline, rung)
        return None if found is None else comparison_of(found)


@dataclass(frozen=True)
class _Part:
    """One step of all trials of a rung; trials of which no whole interval lies within it are left out."""

    at_s: float
    until_s: float
    sessions: int
    rate_per_s: float | None
    rates: Sequence[TrialRate]


def _parts(trials: Numbered) -> list[_Part]:
    if not trials or not trials[0][0].trial.load.steps:
        return []
    steps = trials[0][0].trial.load.steps
    end_s = max(measured.elapsed_s for _, measured in trials)
    ends = [*(step.at_s for step in steps[1:]), end_s]
    return [
        _Part(
            step.at_s, until_s, step.sessions, step.rate_per_s, _rates(trials, step.at_s, until_s)
        )
        for step, until_s in zip(steps, ends, strict=True)
        if step.at_s < end_s
    ]


def _rates(trials: Numbered, begin_s: float, end_s: float) -> list[TrialRate]:
    rates = []
    for result, measured in trials:
        within = samples_within(measured.samples, begin_s, end_s)
        length_s = math.fsum(one.duration_s for one in within)
        if length_s:
            committed = sum(one.committed for one in within)
            rates.append(TrialRate(result.trial.block, committed, length_s, within))
    return rates


@dataclass(frozen=True)
class LoadSteps:
    """The throughput of each step of a load that changes within the window."""

    steps: tuple[StepFinding, ...]


class LoadStepsAnalysis(TreatmentAnalysis[LoadSteps]):
    """Throughput step by step, each against the same step on the baseline."""

    name: ClassVar[str] = "steps"
    finds: ClassVar[type] = LoadSteps

    def find(self, treatments: Treatments) -> Mapping[str, LoadSteps]:
        """Return the steps of each treatment whose load has any."""
        found = {one.rung.name: step_findings(one.numbered) for one in treatments.trials}
        if not any(found.values()):
            return {}
        trials = {one.rung.name: one.numbered for one in treatments.trials}
        ratios = StepRatios(trials, treatments.all[0].name)
        return {
            name: LoadSteps(ratios.beside(steps, name)) for name, steps in found.items() if steps
        }
