"""What is the smallest value at which the workload still runs, and where does more gain nothing?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.boundary.course import BoundaryCourse
from pgdrag.model import Block, Forecast, Result, Rung


class BoundaryParameters(DesignParameters):
    """Parameters of a search for a boundary."""

    setting: str = Field(
        default="", description="The setting (default: the first that the last rung names)"
    )
    values: list[str] = Field(
        default_factory=list,
        description="Values to choose from, ascending (default: those that the rungs name)",
    )
    points: Annotated[int, Field(ge=3, le=50)] = Field(
        default=7, description="Values of the curve above the boundary"
    )
    repeats: Annotated[int, Field(ge=1, le=20)] = Field(
        default=2, description="Trials of each of them"
    )


class Boundary(Design):
    """Adaptive: short trials halve what is left of the values; full ones measure the curve above.

    A failure is repeated before it is believed, and so is the success of the value found.
    """

    name = "boundary"
    summary = "the smallest value of a setting that works, and the knee of the curve above it"
    Parameters: ClassVar[type[DesignParameters]] = BoundaryParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, BoundaryParameters)
        self._course = BoundaryCourse(
            self.rungs,
            parameters.setting,
            parameters.values,
            parameters.points,
            parameters.repeats,
        )

    def ask(self) -> Block:
        """Return the next value to try, or the points of the curve; nothing once that was measured."""
        return self._course.ask()

    def tell(self, results: Sequence[Result]) -> None:
        """Take what became of them."""
        self._course.tell(results)

    def forecast(self) -> Forecast:
        """Return how many trials are still to come."""
        return self._course.forecast()
