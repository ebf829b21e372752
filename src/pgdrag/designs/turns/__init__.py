"""What do the collectors cost? One treatment, in whose trials they run and pause in turns."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.designs.turns.analysis import finding_of
from pgdrag.designs.turns.measure import TurnsFinding
from pgdrag.model import Block, RunRecord


class TurnsParameters(DesignParameters):
    """Parameters of a measurement by turns."""

    trials: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=5, description="Run the treatment this many times"
    )
    confidence: Annotated[float, Field(ge=0.8, le=0.999)] = Field(
        default=0.95, description="Confidence of the interval"
    )


class Turns(OneBlock):
    """The first rung, again and again; its level `collectors = "turns"` makes the difference within a trial."""

    name = "turns"
    summary = "one treatment in which the collectors run and pause in turns: what collecting costs"
    Parameters = TurnsParameters
    parameters: TurnsParameters

    def block(self) -> Block:
        """Return all trials."""
        return Block((self.rungs[0].treatment,) * self.parameters.trials)

    def find(self, run: RunRecord) -> TurnsFinding:
        """Return what the collectors cost."""
        return finding_of(self, run)
