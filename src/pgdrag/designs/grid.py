"""What do all combinations of a few factors' levels do?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.plan import Block, Level, Rung, Treatment

MOST_TREATMENTS = 256
SETTING = "setting"  # what a factor is that no rung names


class GridParameters(DesignParameters):
    """Parameters of a grid."""

    levels: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="By name of a setting, the values to cross (default: those that the rungs name)",
    )

    @field_validator("levels")
    @classmethod
    def _few_enough(cls, levels: dict[str, list[str]]) -> dict[str, list[str]]:
        count = math.prod(len(set(values)) for values in levels.values())
        if count > MOST_TREATMENTS:
            raise ValueError(f"{count} combinations; at most {MOST_TREATMENTS}")
        return levels


class Grid(OneBlock):
    """Every combination once a block, upon the baseline; the laboratory adds replicates.

    Without levels of its own it crosses the factors that the rungs add: each as the baseline has it, and
    as each rung has it. More combinations than 256 are cut off at the last factors, which then stay as
    in the baseline.
    """

    name = "grid"
    summary = "all combinations of a few factors' levels"
    Parameters: ClassVar[type[DesignParameters]] = GridParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, GridParameters)
        self._axes = _axes(self.rungs, parameters.levels)

    def block(self) -> Block:
        """Return the baseline and every combination."""
        baseline = self.rungs[0].treatment
        found = {baseline.identity: baseline}
        for levels in itertools.product(*self._axes):
            chosen = [level for level in levels if level is not None]
            treatment = baseline.with_levels(_name(chosen, baseline), chosen)
            found.setdefault(treatment.identity, treatment)
        return Block(tuple(found.values()))


def _axes(rungs: Sequence[Rung], levels: dict[str, list[str]]) -> list[tuple[Level | None, ...]]:
    """Return the levels of each factor; None: as the baseline has it."""
    if levels:
        kinds = {level.name: level.kind for rung in rungs for level in rung.treatment.levels}
        return [
            tuple(Level(kinds.get(name, SETTING), name, value) for value in dict.fromkeys(values))
            for name, values in levels.items()
        ]
    by_factor: dict[tuple[str, str], dict[Level, None]] = {}
    for rung in rungs[1:]:
        for level in rung.added:
            by_factor.setdefault(level.factor, {})[level] = None
    axes: list[tuple[Level | None, ...]] = []
    for found in by_factor.values():
        axis = (None, *found)
        if math.prod(map(len, [*axes, axis])) > MOST_TREATMENTS:
            break
        axes.append(axis)
    return axes


def _name(chosen: Sequence[Level], baseline: Treatment) -> str:
    """Return `work_mem=4MB jit=off`, cut to the length of a treatment's name."""
    text = " ".join(f"{level.name}={level.value}" for level in chosen) or baseline.name
    if len(text) <= 60:
        return text
    return f"{text[:46]}… ({Treatment('', tuple(chosen)).identity[:10]})"
