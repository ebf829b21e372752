"""What is the smallest value at which the workload still runs, and where does more gain nothing?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.boundary.analysis import finding_of, works
from pgdrag.designs.boundary.curve import Step, Tries, search, spread
from pgdrag.designs.boundary.findings import BoundaryFinding
from pgdrag.model import Block, Forecast, Level, Result, Rung, RunRecord

_NAME_LENGTH = 60  # of a treatment, at most


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

    Attributes:
        setting: name of the setting.
        values: candidates, ascending, as they are written.
        treatments: one a value: the first rung's with the setting at that value.
    """

    name = "boundary"
    summary = "the smallest value of a setting that works, and the knee of the curve above it"
    Parameters = BoundaryParameters
    parameters: BoundaryParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        factor = next((x.factor for x in rungs[-1].added), ("setting", ""))
        if self.parameters.setting:
            factor = ("setting", self.parameters.setting)
        named = [x.value for rung in rungs for x in rung.added if x.factor == factor]
        self.setting = factor[1]
        self.values = tuple(dict.fromkeys(self.parameters.values or named))
        self.treatments = tuple(
            rungs[0].treatment.with_levels(_name(self.setting, value), [Level(*factor, value)])
            for value in self.values
        )
        self._points, self._repeats = self.parameters.points, self.parameters.repeats
        self._tries = [Tries() for _ in self.values]
        self._is_measured = False

    @property
    def step(self) -> Step | None:
        """Where the search stands; None: there are no values."""
        return search(self._tries) if self.values else None

    def ask(self) -> Block:
        """Return the next value to try, or the points of the curve; nothing once that is measured."""
        step = self.step
        if step is not None and step.next is not None:
            return Block((self.treatments[step.next],), is_brief=True)
        if step is None or step.smallest is None or self._is_measured:
            return Block()
        places = spread(step.smallest, len(self.values), self._points)
        return Block(tuple(self.treatments[at] for at in places for _ in range(self._repeats)))

    def tell(self, results: Sequence[Result]) -> None:
        """Count the trials that worked and those that failed; the curve's decide nothing."""
        places = {treatment.identity: at for at, treatment in enumerate(self.treatments)}
        for result in results:
            if result.trial.is_brief:
                at = places[result.trial.treatment.identity]
                self._tries[at] = self._tries[at].after(has_worked=works(result))
            else:
                self._is_measured = True

    def forecast(self) -> Forecast:
        """Return how many trials are still to come."""
        block = self.ask()
        count = len(block.treatments)
        if not block.is_brief:
            return Forecast(count, count)
        halvings = len(self.values).bit_length()
        return Forecast(0, self._points * self._repeats, 1, 2 * halvings + 8)

    def find(self, run: RunRecord) -> BoundaryFinding:
        """Return boundary and knee, as far as they are known."""
        return finding_of(self, run)


def _name(setting: str, value: str) -> str:
    text = f"{setting} = {value}"
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"
