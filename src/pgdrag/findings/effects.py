"""What do single changes do in a run: how much slower, compared with what, together with what?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pgdrag.findings.values import ChangeEffect, Findings, TreatmentFinding
from pgdrag.model import Level
from pgdrag.model.changes import changes_between


def change_effects(
    findings: Findings, is_wanted: Callable[[Level], bool]
) -> tuple[ChangeEffect, ...]:
    """Return the effects of changes of wanted factors alone.

    By the design's own analysis, where it tells them apart; else by the treatments, each against what it is
    compared with. What changes a factor that is not wanted, such as the server's version, is left out.
    """
    if findings.found is not None and (known := findings.found.effects()):
        rungs = findings.run.study.rungs
        levels = {x.name: x for rung in rungs for x in rung.treatment.levels}
        return tuple(
            one
            for one in known
            if all(name not in levels or is_wanted(levels[name]) for name, *_ in one.changes)
        )
    return tuple(_of_treatments(findings, is_wanted))


def _of_treatments(
    findings: Findings, is_wanted: Callable[[Level], bool]
) -> Iterator[ChangeEffect]:
    by_name = {one.rung.name: one for one in findings.rungs}
    baseline = findings.rungs[0] if findings.rungs else None
    for one in findings.rungs[1:]:
        if one.to_previous is None or baseline is None:
            continue
        before = by_name.get(one.previous, baseline)
        changes = changes_between(before.rung.treatment, one.rung.treatment)
        levels = [x for change in changes for x in (change.before, change.after) if x is not None]
        if changes and all(map(is_wanted, levels)):
            values = tuple((x.name, _value(x.before), _value(x.after)) for x in changes)
            yield ChangeEffect(values, one.to_previous.slowdown, _beside(before, baseline))


def _value(level: Level | None) -> str | None:
    return None if level is None else level.value


def _beside(before: TreatmentFinding, baseline: TreatmentFinding) -> str:
    return "alone" if before is baseline else f"on top of {before.rung.name}"
