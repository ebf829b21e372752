"""Which levels does a grid cross, and which treatment is each combination of them?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.model import Level, Rung, Treatment

MOST_TREATMENTS = 256
SETTING = "setting"  # what a factor is that no rung names


@dataclass(frozen=True)
class Axis:
    """One factor of a grid.

    Attributes:
        name: of the factor.
        levels: in order; None: as the baseline has it. The first is what the others are compared with.
        words: what each of them is called.
    """

    name: str
    levels: tuple[Level | None, ...]
    words: tuple[str, ...]


def axes(rungs: Sequence[Rung], levels: Mapping[str, Sequence[str]]) -> tuple[Axis, ...]:
    """Return the factors to cross: those that `levels` names, else those that the rungs add.

    More combinations than 256 are cut off at the last factors, which then stay as in the baseline.
    """
    if levels:
        kinds = {level.name: level.kind for rung in rungs for level in rung.treatment.levels}
        return tuple(
            _axis(name, [Level(kinds.get(name, SETTING), name, x) for x in dict.fromkeys(values)])
            for name, values in levels.items()
        )
    at_baseline = {level.factor: level.value for level in rungs[0].treatment.levels}
    by_factor: dict[tuple[str, str], dict[Level, None]] = {}
    for rung in rungs[1:]:
        for level in rung.added:
            if at_baseline.get(level.factor) != level.value:
                by_factor.setdefault(level.factor, {})[level] = None
    found: list[Axis] = []
    for factor, added in by_factor.items():
        axis = _axis(factor[1], [None, *added], at_baseline.get(factor, "default"))
        if math.prod(len(one.levels) for one in [*found, axis]) > MOST_TREATMENTS:
            break
        found.append(axis)
    return tuple(found)


def combinations(
    crossed: Sequence[Axis], baseline: Treatment
) -> Iterator[tuple[tuple[int, ...], Treatment]]:
    """Yield each combination: the places of its levels on the axes, and its treatment."""
    for places in itertools.product(*(range(len(axis.levels)) for axis in crossed)):
        at = [axis.levels[place] for axis, place in zip(crossed, places, strict=True)]
        chosen = [level for level in at if level is not None]
        yield places, baseline.with_levels(_name(chosen, baseline), chosen)


def _axis(name: str, levels: Sequence[Level | None], at_baseline: str = "") -> Axis:
    words = tuple(at_baseline if level is None else level.shown for level in levels)
    return Axis(name, tuple(levels), words)


def _name(chosen: Sequence[Level], baseline: Treatment) -> str:
    """Return `work_mem=4MB jit=off`, cut to the length of a treatment's name."""
    text = " ".join(f"{level.name}={level.shown}" for level in chosen) or baseline.name
    if len(text) <= 60:
        return text
    return f"{text[:46]}… ({Treatment('', tuple(chosen)).identity[:10]})"
