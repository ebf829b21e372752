"""How fast was each step of a load that changes within the window?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.analysis.batches import samples_within
from pgdrag.analysis.findings import Interval, StepFinding
from pgdrag.analysis.rates import TrialRate, combined_rate
from pgdrag.measurement import Measurement
from pgdrag.plan import Result


def step_findings(trials: Sequence[tuple[Result, Measurement]]) -> tuple[StepFinding, ...]:
    """Return the throughput of each step, over all trials; () where the load is the same throughout.

    Only intervals that lie wholly within a step count for it. A window that was extended has its
    last step extended.
    """
    if not trials or not trials[0][0].trial.load.steps:
        return ()
    steps = trials[0][0].trial.load.steps
    end_s = max(measured.elapsed_s for _, measured in trials)
    ends = [*(step.at_s for step in steps[1:]), end_s]
    return tuple(
        StepFinding(
            step.at_s, until_s, step.sessions, step.rate_per_s, _tps(trials, step.at_s, until_s)
        )
        for step, until_s in zip(steps, ends, strict=True)
        if step.at_s < end_s
    )


def _tps(
    trials: Sequence[tuple[Result, Measurement]], begin_s: float, end_s: float
) -> Interval | None:
    rates = []
    for result, measured in trials:
        within = samples_within(measured.samples, begin_s, end_s)
        length_s = math.fsum(one.duration_s for one in within)
        if length_s:
            committed = sum(one.committed for one in within)
            rates.append(TrialRate(result.trial.block, committed, length_s, within))
    return combined_rate(rates) if rates else None
