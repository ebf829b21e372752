"""What does each step add, when the steps are taken one upon the other, in the order given?

What a step adds depends on the steps before it. A ladder can therefore be asked to take each of its changes
alone as well, and to leave each out of the whole: those trials stand in the same blocks as the rungs.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgdrag.designs.ladder.analysis import finding_of
from pgdrag.designs.ladder.arms import further_treatments
from pgdrag.designs.ladder.findings import LadderFinding
from pgdrag.designs.rungs import EveryRung, RungsParameters
from pgdrag.model import Block, RunRecord


class LadderParameters(RungsParameters):
    """Parameters of a ladder."""

    alone: bool = Field(
        default=False, description="Run the baseline with each rung's change alone, too"
    )
    without: bool = Field(
        default=False, description="Run the last rung without each rung's change, too"
    )
    threshold: Annotated[float, Field(gt=0, le=10)] = Field(
        default=0.05,
        description="With alone or without: smallest effect worth a name, as a ratio less 1",
    )


class Ladder(EveryRung):
    """Every rung once a block, cumulatively; the baseline as often as asked.

    What a rung shows depends on the rungs below it: the report says so beside every step.
    """

    name = "ladder"
    summary = "cumulative steps in a given order, as published studies take them; each change alone, too, if asked"
    Parameters = LadderParameters
    is_cumulative = True
    parameters: LadderParameters

    def block(self) -> Block:
        """Return every rung's treatment, then what shows single changes and is no rung."""
        given = self.parameters
        further = further_treatments(self.rungs, alone=given.alone, without=given.without)
        return Block((*super().block().treatments, *further))

    def find(self, run: RunRecord) -> LadderFinding | None:
        """Return what the single changes say; None where the ladder has its rungs alone."""
        return finding_of(self, run)
