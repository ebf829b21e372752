"""What do all combinations of a few factors' levels do?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, field_validator

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.designs.grid.analysis import finding_of
from pgdrag.designs.grid.axes import MOST_TREATMENTS, axes, combinations
from pgdrag.designs.grid.findings import GridFinding
from pgdrag.model import Block, Rung, RunRecord


class GridParameters(DesignParameters):
    """Parameters of a grid."""

    levels: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="By name of a factor, the values to cross (default: those that the rungs name)",
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
    Parameters = GridParameters
    parameters: GridParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.axes = axes(self.rungs, self.parameters.levels)

    def block(self) -> Block:
        """Return the baseline and every combination; one that is a rung has the rung's name."""
        baseline = self.rungs[0].treatment
        rungs = {rung.treatment.identity: rung.treatment for rung in reversed(self.rungs)}
        found = {baseline.identity: baseline}
        for _, treatment in combinations(self.axes, baseline):
            found.setdefault(treatment.identity, rungs.get(treatment.identity, treatment))
        return Block(tuple(found.values()))

    def find(self, run: RunRecord) -> GridFinding | None:
        """Return what the combinations say together; None where fewer than two factors are crossed."""
        return finding_of(self, run)
