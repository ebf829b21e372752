"""What does each step add, when the steps are taken one upon the other, in the order given?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.plan import Block, Result, Rung


class LadderParameters(DesignParameters):
    """Parameters of a ladder."""

    baseline_repeats: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1,
        description="Run the baseline this many times a block; two or more show the noise floor",
    )


class Ladder(Design):
    """Every rung once a block, cumulatively; the baseline as often as asked.

    What a rung shows depends on the rungs below it: the report says so beside every step.
    """

    name = "ladder"
    summary = "cumulative steps in a given order, as published studies take them"
    Parameters: ClassVar[type[DesignParameters]] = LadderParameters
    is_cumulative: ClassVar[bool] = True

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, LadderParameters)
        self._baseline_repeats = parameters.baseline_repeats
        self._is_told = False

    def ask(self) -> Block:
        """Return every rung's treatment the first time, then nothing."""
        if self._is_told:
            return Block()
        treatments = [rung.treatment for rung in self.rungs]
        return Block(tuple([treatments[0]] * (self._baseline_repeats - 1) + treatments))

    def tell(self, results: Sequence[Result]) -> None:
        """Note that the block was run; a ladder does not adapt to what came of it."""
        self._is_told = True
