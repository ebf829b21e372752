"""Which of many changes have an effect of their own? Half of them at a time, in short trials."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.designs.screen.analysis import finding_of
from pgdrag.designs.screen.findings import ScreenFinding
from pgdrag.designs.screen.runs import screen_treatments
from pgdrag.model import Block, Rung, RunRecord


class ScreenParameters(DesignParameters):
    """Parameters of a screening."""

    is_folded: bool = Field(
        default=True,
        description="Run each trial's mirror image, too: then no interaction of two changes looks "
        "like an effect of a third",
    )
    is_brief: bool = Field(default=True, description="Run short trials")


class Screen(OneBlock):
    """A Hadamard design over the changes from the first rung to the last: one block, half of them at a time."""

    name = "screen"
    summary = "a folded Hadamard design: each change's own effect, averaged over all the others"
    Parameters = ScreenParameters
    parameters: ScreenParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.runs = screen_treatments(
            self.rungs[0].treatment,
            self.rungs[-1].treatment,
            is_folded=self.parameters.is_folded,
        )
        self._block = Block(
            tuple(treatment for treatment, _ in self.runs), self.parameters.is_brief
        )

    def block(self) -> Block:
        """Return all trials of the design."""
        return self._block

    def find(self, run: RunRecord) -> ScreenFinding:
        """Return the effects, as far as the trials tell them apart."""
        return finding_of(self, run)
