"""What does each rung do by itself, upon the baseline alone?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.plan import Block, Result, Rung


class OneAtATimeParameters(DesignParameters):
    """Parameters of a one-at-a-time study."""

    baseline_repeats: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1,
        description="Run the baseline this many times a block; two or more show the noise floor",
    )


class OneAtATime(Design):
    """The baseline and every rung once a block; the laboratory adds replicates.

    It sees what suffices by itself. What only counts together with another rung it cannot see: that is
    what `ablate` is for.
    """

    name = "one-at-a-time"
    summary = "each rung by itself upon the baseline"
    Parameters: ClassVar[type[DesignParameters]] = OneAtATimeParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, OneAtATimeParameters)
        self._baseline_repeats = parameters.baseline_repeats
        self._is_told = False

    def ask(self) -> Block:
        """Return every rung's treatment the first time, then nothing."""
        if self._is_told:
            return Block()
        treatments = [rung.treatment for rung in self.rungs]
        return Block((*[treatments[0]] * (self._baseline_repeats - 1), *treatments))

    def tell(self, results: Sequence[Result]) -> None:
        """Note that the block was run; nothing adapts to what came of it."""
        self._is_told = True
