"""What did a search for a boundary find? The smallest value that works, and the knee of the curve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdrag.designs.boundary.curve import Knee, State, knee
from pgdrag.designs.boundary.findings import NOTHING_TO_SEARCH, BoundaryFinding, ValueTried
from pgdrag.designs.boundary.section import answer, warnings
from pgdrag.errors import PgdragError
from pgdrag.findings.readings import rates_of, reading
from pgdrag.findings.values import Interval
from pgdrag.model import Outcome, Result, RunRecord
from pgdrag.stats.linear_model import fit
from pgdrag.stats.rates import TrialRate, combined_rate
from pgdrag.units import parse_bytes, parse_seconds

if TYPE_CHECKING:
    from pgdrag.designs.boundary import Boundary

_Rates = Mapping[str, Sequence[TrialRate]]  # of the full trials, by value


def finding_of(design: Boundary, run: RunRecord) -> BoundaryFinding:
    """Return boundary and knee, as far as they are known."""
    step, values = design.step, design.values
    results = {
        value: [x for x in run.results if x.trial.treatment.identity == treatment.identity]
        for value, treatment in zip(values, design.treatments, strict=True)
    }
    rates = {
        value: rates_of(x for x in found if not x.trial.is_brief)
        for value, found in results.items()
    }
    smallest = failing = None
    if step is not None and step.state is not State.SEARCHING:
        smallest = None if step.smallest is None else values[step.smallest]
        failing = None if step.failing is None else values[step.failing]
    found = BoundaryFinding(
        answer="",
        warnings=(),
        setting=design.setting,
        state=NOTHING_TO_SEARCH if step is None else step.state.value,
        smallest=smallest,
        failing=failing,
        values=_tried(results, _throughputs(rates)),
        candidates=len(values),
        curve=_curve(rates),
    )
    return replace(found, answer=answer(found), warnings=tuple(warnings(found)))


def size_of(value: str) -> float | None:
    """Return a value as a number, in bytes or seconds where it has a unit; None where it is none."""
    for read in (float, parse_bytes, parse_seconds):
        try:
            return float(read(value))
        except (ValueError, PgdragError):
            continue
    return None


def works(result: Result) -> bool:
    """Tell whether the workload ran: something was committed."""
    found = reading(result)
    return result.outcome is Outcome.MEASURED and found is not None and not found.is_bound


def _tried(
    results: Mapping[str, Sequence[Result]], tps: Mapping[str, Interval]
) -> tuple[ValueTried, ...]:
    worked = {value: sum(map(works, found)) for value, found in results.items()}
    return tuple(
        ValueTried(
            value=value,
            size=size_of(value),
            worked=worked[value],
            failed=len(found) - worked[value],
            outcomes=dict(Counter(x.outcome.value for x in found)),
            reason=next((x.reason for x in reversed(found) if x.reason), ""),
            tps=tps.get(value),
        )
        for value, found in results.items()
        if found
    )


def _throughputs(rates: _Rates) -> dict[str, Interval]:
    """Return each value's throughput: two trials of it say little, the repeats of all values more."""
    model = fit(rates)
    return {
        value: model.rate(value) or combined_rate(trials)
        for value, trials in rates.items()
        if trials
    }


def _curve(rates: _Rates) -> Knee:
    sizes = {value: size_of(value) or 0.0 for value in rates}
    points = [
        (sizes[value], math.log(one.per_s))
        for value, trials in rates.items()
        for one in trials
        if sizes[value] > 0 and one.committed
    ]
    found = knee([size for size, _ in points], [log for _, log in points])
    if found.size is None:
        return found
    at = next((value for value, size in sizes.items() if size >= found.size * 0.999), None)
    return replace(found, at=at)
