"""Which of the changes from a reference to a target make the difference, alone and together?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.procedure import TreatmentProcedure, smallest_max_trials
from pgdrag.errors import UsageError
from pgdrag.model import Block, Forecast, Result, Rung


class Ablate(Design):
    """Each change alone and with the others by short trials, then shares and pairs of the survivors.

    The reference is the first rung, the target the last.
    """

    name = "ablate"
    summary = "which of many changes matter, their shares of the whole, and pairs that interact"
    Parameters: ClassVar[type[DesignParameters]] = AblateParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, AblateParameters)
        self._run = TreatmentProcedure(rungs[0].treatment, rungs[-1].treatment, parameters)
        changes, most = len(self._run.changes), parameters.max_trials
        least = smallest_max_trials(changes)
        if most is not None and most < least:
            raise UsageError(
                f"max_trials is {most}, but an ablation of {changes} changes needs at least {least}",
                hint='Allow more trials, or use "pgdrag bisect" to find a small set of changes.',
            )

    def ask(self) -> Block:
        """Return the next block: short trials for the screening, then long ones."""
        return self._run.ask()

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last."""
        self._run.tell(results)

    def forecast(self) -> Forecast:
        """Return how many trials remain."""
        return self._run.procedure.forecast()
