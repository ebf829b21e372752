"""How did an experiment's runs go over time, where did the level change, and what was changed between these runs?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pgdrag.english import listed
from pgdrag.findings.compared import compared
from pgdrag.findings.find import design_finding, finding_class
from pgdrag.findings.values import DesignFinding, Interval
from pgdrag.findings.wording import inverse
from pgdrag.model import RunRecord, Study
from pgdrag.stats.change_points import FALSE_ALARMS, change_points, least_values
from pgdrag.units import format_bytes

Quantity = Literal["throughput", "slowdown"]
NOT_SET = "not set"


@dataclass(frozen=True)
class Difference:
    """Something that two runs do not have in common.

    Attributes:
        of: the treatments that it is of; none where it is of the whole run.
        before, after: its value in the earlier and in the later run.
    """

    name: str
    of: tuple[str, ...]
    before: str
    after: str

    @property
    def words(self) -> str:
        """Return `shared_buffers of A1 and A2: 8MB → 16MB`."""
        of = f" of {listed(list(self.of))}" if self.of else ""
        return f"{self.name}{of}: {self.before or 'none'} → {self.after or 'none'}"


@dataclass(frozen=True)
class PastRun:
    """One run of a history.

    Attributes:
        values: the quantity by treatment; a treatment without a number has none.
    """

    run_id: str
    started_unix_s: float
    server_version: str
    pgdrag_version: str
    values: Mapping[str, Interval]


@dataclass(frozen=True)
class LevelChange:
    """A change of the level of a treatment between two runs.

    Attributes:
        before, after: the last run before it, and the first one after.
        p: how often a random order of the runs has a difference as large.
        slowdown: how many times slower the level after it is than the one before, each up to the next change.
        differences: in what the two runs differ.
    """

    before: str
    after: str
    p: float
    slowdown: Interval
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class TreatmentHistory:
    """What became of one treatment.

    Attributes:
        runs: those with a number of it, in order.
        runs_needed: how many it takes at least to find any change.
    """

    treatment: str
    runs: tuple[str, ...]
    runs_needed: int
    changes: tuple[LevelChange, ...]


@dataclass(frozen=True)
class LeftOut:
    """A run that is not compared with the others, and why."""

    run_id: str
    why: str


@dataclass(frozen=True)
class History:
    """The runs of an experiment that can be compared, oldest first, and each treatment's changes.

    Attributes:
        quantity: what was compared: committed transactions/s, or the slowdown against the baseline.
        false_alarms: the share of histories without any change in which one is found, at most.
    """

    experiment: str
    scale: str
    quantity: Quantity
    false_alarms: float
    runs: tuple[PastRun, ...]
    treatments: tuple[TreatmentHistory, ...]
    left_out: tuple[LeftOut, ...]


def history(
    runs: Iterable[RunRecord], *, quantity: Quantity = "throughput", treatments: Sequence[str] = ()
) -> History:
    """Return the history of an experiment.

    Runs are compared that are done and have the workload, the load and treatments of the newest one that is done.
    What else differs (server, settings, machine) is what may be the cause of a change.

    Args:
        runs: of one experiment, at least one, in any order.
        treatments: names of those that are looked at; default: all of the newest run. The more there are, the less
            sensitive is each, so that together they keep to the rate of false alarms.
    """
    ordered = sorted(runs, key=lambda run: (run.started_unix_s, run.run_id))
    newest = next((run for run in reversed(ordered) if run.status == "done"), ordered[-1])
    study = newest.study
    names = tuple(
        rung.name
        for at, rung in enumerate(study.rungs)
        if (not treatments or rung.name in treatments) and (at or quantity == "throughput")
    )
    reasons = {run.run_id: _why_not(run, study, names) for run in ordered}
    kept = {run.run_id: run for run in ordered if not reasons[run.run_id]}
    past = tuple(_past(run, quantity, names) for run in kept.values())
    rate = FALSE_ALARMS / max(len(names), 1)
    return History(
        experiment=study.name,
        scale=study.scale,
        quantity=quantity,
        false_alarms=FALSE_ALARMS,
        runs=past,
        treatments=tuple(_of_treatment(name, past, kept, quantity, rate) for name in names),
        left_out=tuple(LeftOut(run_id, why) for run_id, why in reasons.items() if why),
    )


def _why_not(run: RunRecord, study: Study, names: Sequence[str]) -> str:
    if run.status != "done":
        return f"it is {run.status}"
    for what, here, there in (
        ("scale", run.study.scale, study.scale),
        ("workload", run.study.workload, study.workload),
        ("load", replace(run.study.load, generators=()), replace(study.load, generators=())),
    ):
        if here != there:
            return f"another {what}"
    has_any = any(rung.name in names for rung in run.study.rungs)
    return "" if has_any else "other treatments"


def _past(run: RunRecord, quantity: Quantity, names: Sequence[str]) -> PastRun:
    # What the design knows better than the trials alone takes longer to find than all else.
    asked = DesignFinding.rate if quantity == "throughput" else DesignFinding.comparison
    knows = getattr(finding_class(run.study.design), asked.__name__) is not asked
    treatments = compared(run, design_finding(run) if knows else None)
    values = {}
    for one in treatments.all:
        value = one.tps
        if quantity == "slowdown":
            value = None if one.to_baseline is None else one.to_baseline.slowdown
        # Of what committed nothing there are bounds alone.
        if one.name in names and value is not None and 0 < value.center < math.inf:
            values[one.name] = value
    return PastRun(run.run_id, run.started_unix_s, run.server_version, run.pgdrag_version, values)


def _of_treatment(
    name: str,
    past: Sequence[PastRun],
    runs: Mapping[str, RunRecord],
    quantity: Quantity,
    false_alarms: float,
) -> TreatmentHistory:
    numbered = [run for run in past if name in run.values]
    logs = [math.log(run.values[name].center) for run in numbered]
    changes = []
    for point in change_points(logs, false_alarms=false_alarms):
        before, after = numbered[point.at - 1].run_id, numbered[point.at].run_id
        ratio = point.ratio
        if quantity == "throughput":
            low, center, high = (inverse(x) for x in (ratio.high, ratio.center, ratio.low))
            ratio = replace(ratio, low=low, center=center, high=high)
        changes.append(
            LevelChange(before, after, point.p, ratio, differences(runs[before], runs[after]))
        )
    ids = tuple(run.run_id for run in numbered)
    return TreatmentHistory(name, ids, least_values(false_alarms), tuple(changes))


def differences(before: RunRecord, after: RunRecord) -> tuple[Difference, ...]:
    """Return in what two runs differ: server, versions, machine, and the settings of treatments with the same name."""
    found = []
    for (name, here), (_, there) in zip(_facts(before), _facts(after), strict=True):
        if here != there:
            found.append(Difference(name, (), here, there))
    levels: dict[tuple[str, str, str], list[str]] = {}
    sides = [{x.name: x.treatment for x in run.study.rungs} for run in (before, after)]
    for rung in sides[1]:
        if rung not in sides[0]:
            continue
        old, new = ({x.factor: x.shown for x in side[rung].levels} for side in sides)
        for factor in dict.fromkeys((*old, *new)):
            values = old.get(factor, NOT_SET), new.get(factor, NOT_SET)
            if values[0] != values[1]:
                levels.setdefault((factor[1], *values), []).append(rung)
    found += [Difference(name, tuple(of), *values) for (name, *values), of in levels.items()]
    return tuple(found)


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    host, place = run.host, run.study.place
    yield "PostgreSQL", run.server_version
    yield "pgdrag", run.pgdrag_version
    yield "server", "throw-away" if place is None else place.server
    yield "processor", host.cpu_model
    yield "processors", str(host.cpu_count)
    yield "memory", format_bytes(host.memory_bytes)
    yield "kernel", host.kernel
    yield "file system", host.file_system
    yield "hosts of the fleet", listed(sorted({x.host for x in run.results if x.host}))
    yield "load generators", listed(list(run.study.load.generators))
