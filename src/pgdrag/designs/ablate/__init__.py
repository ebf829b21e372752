"""Which of the changes from a reference to a target make the difference, alone and together?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdrag.designs import DesignParameters
from pgdrag.designs._subsets import Request, SubsetDesign
from pgdrag.designs.ablate.analysis import finding_of
from pgdrag.designs.ablate.findings import AblateFinding
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.procedure import Procedure, smallest_max_trials
from pgdrag.errors import UsageError
from pgdrag.model import Forecast, Result, Rung, RunRecord


class Ablate(SubsetDesign):
    """Each change alone and with the others by short trials, then shares and pairs of the survivors.

    Attributes:
        procedure: the search among the changes, by their places.
    """

    name = "ablate"
    summary = "which of many changes matter, their shares of the whole, and pairs that interact"
    Parameters = AblateParameters
    parameters: AblateParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        count, most = len(self.changes), self.parameters.max_trials
        least = smallest_max_trials(count)
        if most is not None and most < least:
            raise UsageError(
                f"max_trials is {most}, but an ablation of {count} changes needs at least {least}",
                hint='Allow more trials, or use "pgdrag bisect" to find a small set of changes.',
            )
        self.procedure = Procedure(count, self.parameters)

    @property
    def request(self) -> Request | None:
        """The next block: short trials for the screening, then long ones."""
        return self.procedure.ask()

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last."""
        self.procedure.tell(self.observed(results))

    def note(self, results: Iterable[Result]) -> None:
        """Take results of a block that is not complete: they count, but decide nothing."""
        self.procedure.history.add(self.observed(results))

    def forecast(self) -> Forecast:
        """Return how many trials remain."""
        return self.procedure.forecast()

    def find(self, run: RunRecord) -> AblateFinding:
        """Return what is known so far; changes without a trial are undecided."""
        return finding_of(self, run)
