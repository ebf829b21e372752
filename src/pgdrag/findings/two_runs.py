"""Is a treatment faster or slower in one run than in another, and may the two be compared at all?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pgdrag.english import capital
from pgdrag.errors import UsageError
from pgdrag.findings.compared import Compared, Treatments, compared
from pgdrag.findings.find import design_finding
from pgdrag.findings.history import Difference, differences
from pgdrag.findings.values import Comparison, Interval
from pgdrag.model import RunRecord
from pgdrag.stats.ratios import slowdown
from pgdrag.units import format_bytes

_APART = 1_000_000  # blocks: those of two runs did not run next to each other


@dataclass(frozen=True)
class TreatmentTwice:
    """One treatment in both runs.

    Attributes:
        before, after: committed transactions/s in the first and in the second run; None without a number.
        slowdown: the second run against the first; None where a side has no number.
        to_baseline: how many times slower it became against the baseline of its own run, from which it is cancelled in
            what the whole runs differ; None for the baseline, and where a side has no number.
    """

    treatment: str
    before: Interval | None
    after: Interval | None
    slowdown: Comparison | None
    to_baseline: Comparison | None


@dataclass(frozen=True)
class TwoRuns:
    """Two runs that can be compared.

    Attributes:
        before, after: the ids of the first and of the second run.
        days: from the beginning of the first to that of the second; may be negative.
        treatments: those that both have, in the order of the second.
        differences: in what else the runs differ.
    """

    before: str
    after: str
    days: float
    treatments: tuple[TreatmentTwice, ...]
    differences: tuple[Difference, ...]


def two_runs(
    before: RunRecord, after: RunRecord, sides: Sequence[Treatments] | None = None
) -> TwoRuns:
    """Compare the treatments of two runs.

    Args:
        sides: what `treatments_of` returns of both, where it is known.

    Raises:
        UsageError: they cannot be compared, and why.
    """
    if before.run_id == after.run_id:
        raise UsageError(f"both runs are {before.run_id}", hint="Name two runs.")
    if reasons := not_comparable(before, after):
        raise UsageError(
            f"runs {before.run_id} and {after.run_id} cannot be compared: they differ in more than what is asked about",
            detail=" ".join(f"{capital(x.words)}." for x in reasons),
            hint="Compare runs of one workload and load on one machine.",
        )
    first, second = (
        {one.name: one for one in side.all} for side in sides or map(treatments_of, (before, after))
    )
    return TwoRuns(
        before=before.run_id,
        after=after.run_id,
        days=(after.started_unix_s - before.started_unix_s) / 86_400,
        treatments=tuple(_twice(first[name], second[name]) for name in second if name in first),
        differences=differences(before, after),
    )


def not_comparable(before: RunRecord, after: RunRecord) -> tuple[Difference, ...]:
    """Return what keeps two runs from being compared; none where nothing does.

    The version of PostgreSQL, the kernel and the settings of treatments do not: they may be what is asked about.
    """
    found = []
    for (name, here), (_, there) in zip(_conditions(before), _conditions(after), strict=True):
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            keys = [x for x in dict.fromkeys((*here, *there)) if here.get(x) != there.get(x)]
            found += [
                Difference(f"{name}, {x}", (), _text(here.get(x)), _text(there.get(x)))
                for x in keys
            ]
        elif here != there:
            found.append(Difference(name, (), _text(here), _text(there)))
    names = [[rung.name for rung in run.study.rungs] for run in (before, after)]
    if not set(names[0]) & set(names[1]):
        found.append(Difference("treatments", (), ", ".join(names[0]), ", ".join(names[1])))
    return tuple(found)


def _conditions(run: RunRecord) -> Iterator[tuple[str, object]]:
    study, host = run.study, run.host
    yield "workload", study.workload.kind
    yield "workload", study.workload.parameters
    yield "load", asdict(replace(study.load, generators=()))
    yield "server", "throw-away" if study.place is None else study.place.server
    yield "collectors", study.instrument.collectors
    yield "processor", host.cpu_model
    yield "processors", host.cpu_count
    yield "memory", format_bytes(host.memory_bytes)
    yield "file system", host.file_system


def _text(value: object) -> str:
    return "none" if value in (None, (), "") else str(value)


def treatments_of(run: RunRecord) -> Treatments:
    """Return the treatments of a run, with the design's own estimates where it has them."""
    return compared(run, design_finding(run))


def _twice(before: Compared, after: Compared) -> TreatmentTwice:
    rates = (
        before.trials.rates,
        tuple(replace(x, block=x.block + _APART) for x in after.trials.rates),
    )
    has_commits = any(trial.committed for side in rates for trial in side)
    found = slowdown(*rates) if all(rates) and has_commits else None
    relative = None
    if before.to_baseline is not None and after.to_baseline is not None:
        relative = _ratio(before.to_baseline.slowdown, after.to_baseline.slowdown)
    return TreatmentTwice(before.name, before.tps, after.tps, found, relative)


def _ratio(before: Interval, after: Interval) -> Comparison | None:
    """Return the ratio of two independent ratios from their intervals; None where one is a bound.

    Source: the method of variance estimates recovery, Zou and Donner 2008.
    """
    every = [x for one in (before, after) for x in (one.low, one.center, one.high)]
    if not all(0 < x < math.inf for x in every) or before.confidence != after.confidence:
        return None
    b_low, b, b_high, a_low, a, a_high = map(math.log, every)
    center = a - b
    found = Interval.of_logs(
        center - math.hypot(a - a_low, b_high - b),
        center,
        center + math.hypot(a_high - a, b - b_low),
        before.confidence,
        "from the intervals of both slowdowns",
    )
    return Comparison.of(found)
