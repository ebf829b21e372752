"""How fast was each step of a load that changes within the window, and how much slower than on the baseline?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.values import Comparison, Interval
from pgdrag.model import Result
from pgdrag.model.measurement import Measurement
from pgdrag.stats.batches import samples_within
from pgdrag.stats.linear_model import Fit, fit
from pgdrag.stats.rates import TrialRate, combined_rate

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


@dataclass(frozen=True)
class LoadSteps:
    """The throughput of each step of a load that changes within the window."""

    steps: tuple[StepFinding, ...]


def step_findings(trials: Numbered) -> tuple[StepFinding, ...]:
    """Return the throughput of each step, over all trials; () where the load is the same throughout.

    Only intervals that lie wholly within a step count for it. A window that was extended has its
    last step extended.
    """
    return tuple(
        replace(step, tps=combined_rate(rates) if rates else None) for step, rates in _parts(trials)
    )


@lru_cache(maxsize=1)
def _fits(treatments: Treatments) -> list[Fit]:
    """Return the model of each step's rates over all treatments."""
    parts = {
        one.name: [rates for _, rates in _parts(one.trials.numbered)] for one in treatments.all
    }
    by_step = zip_longest(*parts.values(), fillvalue=())
    return [fit(dict(zip(parts, rates, strict=True))) for rates in by_step]


def _parts(trials: Numbered) -> list[tuple[StepFinding, list[TrialRate]]]:
    """Return each step with its rates in all trials; trials without a whole interval within it are left out."""
    steps = trials[0][0].trial.load.steps if trials else ()
    end_s = max((measured.elapsed_s for _, measured in trials), default=0.0)
    ends = [*(step.at_s for step in steps[1:]), end_s]
    return [
        (
            StepFinding(step.at_s, until_s, step.sessions, step.rate_per_s, None),
            _rates(trials, step.at_s, until_s),
        )
        for step, until_s in zip(steps, ends, strict=False)
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


def _load_steps(one: Compared, treatments: Treatments) -> LoadSteps | None:
    steps = step_findings(one.trials.numbered)
    if not steps:
        return None
    ratios = [x.compare(one.baseline.rung.name, one.name) for x in _fits(treatments)]
    return LoadSteps(
        tuple(replace(step, to_baseline=found) for step, found in zip(steps, ratios, strict=False))
    )


LOAD_STEPS = TreatmentAnalysis("steps", LoadSteps, _load_steps)
