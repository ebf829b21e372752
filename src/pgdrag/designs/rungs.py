"""What does each rung do by itself, upon the baseline alone? And what a ladder asks for alike: every rung once a block."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.model import Block


class RungsParameters(DesignParameters):
    """Parameters of a design over the rungs."""

    baseline_repeats: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1,
        description="Run the baseline this many times a block; two or more show the noise floor",
    )


class EveryRung(OneBlock):
    """Every rung once, and the baseline as often as asked."""

    parameters: RungsParameters

    def block(self) -> Block:
        """Return every rung's treatment, the baseline's further repeats first."""
        treatments = [rung.treatment for rung in self.rungs]
        return Block((*[treatments[0]] * (self.parameters.baseline_repeats - 1), *treatments))


class OneAtATimeParameters(RungsParameters):
    """Parameters of a one-at-a-time study."""


class OneAtATime(EveryRung):
    """The baseline and every rung once a block; the laboratory adds replicates.

    It sees what suffices by itself. What only counts together with another rung it cannot see: that is
    what `ablate` is for.
    """

    name = "one-at-a-time"
    summary = "each rung by itself upon the baseline"
    Parameters = OneAtATimeParameters
