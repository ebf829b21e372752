"""Which treatments show each step of a ladder alone, and the whole without it?

Many of them are rungs already: the first step alone is the second rung, the whole without the last step the
last rung but one. They are run once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdrag.model import Level, Rung, Treatment


@dataclass(frozen=True)
class Arm:
    """The treatments of one step of a ladder.

    Attributes:
        rung: that takes the step.
        alone: the baseline with its levels only.
        without: the last rung without them.
    """

    rung: Rung
    alone: Treatment
    without: Treatment


def arms(rungs: Sequence[Rung]) -> tuple[Arm, ...]:
    """Return the treatments of each step; equal ones are one, by the name of a rung where it is one."""
    baseline, *steps = rungs
    found = {rung.treatment.identity: rung.treatment for rung in rungs}

    def shared(name: str, levels: Iterator[Level]) -> Treatment:
        made = baseline.treatment.with_levels(name, levels)
        return found.setdefault(made.identity, made)

    # What leaves out all but one change is that change alone, and has its name from there.
    alone = [shared(f"{step.name} alone", iter(step.added)) for step in steps]
    without = [
        shared(f"without {step.name}", _added_by(one for one in steps if one is not step))
        for step in steps
    ]
    return tuple(map(Arm, steps, alone, without))


def further_treatments(
    rungs: Sequence[Rung], *, alone: bool, without: bool
) -> tuple[Treatment, ...]:
    """Return the treatments that are asked for beside the rungs, each once."""
    known = {rung.treatment.identity for rung in rungs}
    wanted: dict[str, Treatment] = {}
    made = arms(rungs)
    for is_asked, treatments in (
        (alone, [arm.alone for arm in made]),
        (without, [arm.without for arm in made]),
    ):
        wanted |= {one.identity: one for one in treatments if is_asked}
    return tuple(one for identity, one in wanted.items() if identity not in known)


def _added_by(rungs: Iterator[Rung]) -> Iterator[Level]:
    return (level for rung in rungs for level in rung.added)
