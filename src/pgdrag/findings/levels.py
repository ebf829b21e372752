"""Which levels of a rung were without effect, impossible here, or undone by a later rung?

Applied is not effective: these sentences come from what was read back, not from what was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.model import Applied, Level, Rung


def changed(here: Sequence[Level], before: Sequence[Level]) -> list[Level]:
    """Return the levels that are compared: one that both sides have is not."""
    return [level for level in here if level not in before]


def untested(levels: Sequence[Level], applied: Sequence[Applied]) -> tuple[str, ...]:
    """Say which of the levels could not be set, and why: `io_workers (unknown before 18)`."""
    wanted = {level.factor for level in levels}
    return tuple(
        one.level.name + (f" ({one.note})" if one.note else "")
        for one in applied
        if one.effective is None and one.level.factor in wanted
    )


def inert(
    added: Sequence[Level], applied: Sequence[Applied], before: Sequence[Applied]
) -> tuple[str, ...]:
    """Say which levels of this rung changed nothing effective, or not what was asked for.

    Args:
        added: levels that the rung itself names.
        applied: what was read back on it.
        before: what was read back earlier; what could not be set there stood at its default.
    """
    earlier = _effective(before)
    wanted = {level.factor for level in added}
    sentences = []
    for one in applied:
        if one.level.factor not in wanted or one.effective is None:
            continue
        asked = f"{one.level.name} = {one.level.shown}"
        if earlier.get(one.level.factor, one.default) == one.effective:
            where = "before" if one.level.factor in earlier else "by default"
            why = f": {one.note}" if one.note else ""
            sentences.append(f"{asked} changed nothing: it was {one.effective} {where}{why}")
        elif one.note:
            sentences.append(f"{asked} was not set as asked, but reads {one.effective}: {one.note}")
    return tuple(sentences)


def is_whole_rung_inert(
    added: Sequence[Level], applied: Sequence[Applied], before: Sequence[Applied]
) -> bool:
    """Tell whether a rung names levels and none of them reads differently from before; see `inert`."""
    now, earlier = _effective(applied), _effective(before)
    defaults = {one.level.factor: one.default for one in applied}
    return bool(added) and all(
        x.factor in now and now[x.factor] == earlier.get(x.factor, defaults[x.factor])
        for x in added
    )


def _effective(applied: Sequence[Applied]) -> dict[tuple[str, str], str]:
    return {one.level.factor: one.effective for one in applied if one.effective is not None}


def overrides(rungs: Sequence[Rung], at: int) -> tuple[str, ...]:
    """Say which levels of earlier rungs the rung at this place replaces; the baseline's don't count."""
    rung = rungs[at]
    sentences = []
    for level in rung.added:
        earlier = [
            (other, old)
            for other in rungs[1:at]
            for old in other.added
            if old.factor == level.factor
        ]
        if not earlier or earlier[-1][1].value == level.value:
            continue
        name, was = earlier[-1][0].name, earlier[-1][1].shown
        # What stood before the rung that is now replaced: an earlier rung, or the baseline.
        stood = [old.value for _, old in earlier[:-1]] or [
            old.value for old in rungs[0].treatment.levels if old.factor == level.factor
        ]
        back = " back" if stood and stood[-1] == level.value else ""
        deed = f"which undoes {name}'s {was}" if back else f"in place of {name}'s {was}"
        comma = "," if back else ""
        sentences.append(f"{rung.name} sets {level.name}{back} to {level.shown}{comma} {deed}")
    return tuple(sentences)


@dataclass(frozen=True)
class LevelsFinding:
    """What became of the levels of one rung; sentences.

    Attributes:
        untested: settings that this server does not have, with the reason.
        overrides: levels of earlier rungs that this one replaces.
        inert: settings that changed nothing effective.
    """

    untested: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    inert: tuple[str, ...] = ()


def _levels(one: Compared, treatments: Treatments) -> LevelsFinding:
    study, added, applied = treatments.run.study, one.trials.rung.added, one.trials.applied
    return LevelsFinding(
        untested(added, applied),
        overrides(study.rungs, treatments.all.index(one)) if study.is_cumulative else (),
        () if one.is_baseline else inert(added, applied, one.applied_before),
    )


LEVELS = TreatmentAnalysis("levels", LevelsFinding, _levels)
