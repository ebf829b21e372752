"""Which few of many changes are guilty? Groups first, members next, and the set confirmed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.bisect.course import BisectCourse
from pgdrag.designs.bisect.rules import Goal
from pgdrag.model import Block, Forecast, Result, Rung


class BisectParameters(DesignParameters):
    """Parameters of a bisection."""

    share: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.9, description="The set must keep this share of the log slowdown"
    )
    max_trials: Annotated[int, Field(ge=12, le=1000)] = Field(
        default=40, description="Run at most so many trials, those of the confirmation included"
    )
    confirm_trials: Annotated[int, Field(ge=1, le=20)] = Field(
        default=2, description="Run so many full trials of the set at the end"
    )
    groups: dict[str, str] = Field(
        default_factory=dict,
        description="By name of a setting, the group that is tried as a whole first; "
        '"A / B" is a group within A',
    )

    @property
    def goal(self) -> Goal:
        """What is asked for."""
        return Goal(self.share, self.max_trials, self.confirm_trials)


class Bisect(Design):
    """Adaptive: what is asked for next depends on what the sets before it kept.

    Between the first rung and the last; rungs between them are not looked at.
    """

    name = "bisect"
    summary = "the few changes that keep most of a slowdown: groups first, then their members"
    Parameters: ClassVar[type[DesignParameters]] = BisectParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, BisectParameters)
        self._course = BisectCourse(
            self.rungs[0].treatment, self.rungs[-1].treatment, parameters.groups, parameters.goal
        )

    def ask(self) -> Block:
        """Return the sets to try next; none once one was confirmed, or where there is nothing to bisect."""
        return self._course.ask()

    def tell(self, results: Sequence[Result]) -> None:
        """Take what became of them."""
        self._course.tell(results)

    def forecast(self) -> Forecast:
        """Return how many trials are still to come, at most up to `max_trials`."""
        return self._course.forecast()
