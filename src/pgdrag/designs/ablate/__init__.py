"""Which of the changes from a reference to a target make the difference, alone and together?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.ablate.history import Changes, Observed
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.procedure import Procedure, smallest_max_trials
from pgdrag.errors import UsageError
from pgdrag.findings.readings import reading
from pgdrag.model import Block, Forecast, Result, Rung
from pgdrag.model.changes import changes_between, subset_treatment


class Ablate(Design):
    """Each change alone and with the others by short trials, then shares and pairs of the survivors.

    The reference is the first rung, the target the last.

    Attributes:
        changes: what the target changes.
        procedure: the search among them, by their places in `changes`.
    """

    name = "ablate"
    summary = "which of many changes matter, their shares of the whole, and pairs that interact"
    Parameters: ClassVar[type[DesignParameters]] = AblateParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, AblateParameters)
        self.reference, self.target = rungs[0].treatment, rungs[-1].treatment
        self.changes = changes_between(self.reference, self.target)
        count, most = len(self.changes), parameters.max_trials
        least = smallest_max_trials(count)
        if most is not None and most < least:
            raise UsageError(
                f"max_trials is {most}, but an ablation of {count} changes needs at least {least}",
                hint='Allow more trials, or use "pgdrag bisect" to find a small set of changes.',
            )
        self.procedure = Procedure(count, parameters)
        self._sets: dict[str, Changes] = {}

    def ask(self) -> Block:
        """Return the next block: short trials for the screening, then long ones."""
        request = self.procedure.ask()
        if request is None:
            return Block()
        treatments = []
        for one in request.sets:
            made = subset_treatment(self.reference, self.target, self.changes, one)
            self._sets[made.identity] = one
            treatments.append(made)
        return Block(tuple(treatments), is_brief=request.is_brief)

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last."""
        self.procedure.tell(self._observed(results))

    def note(self, results: Iterable[Result]) -> None:
        """Take results of a block that is not complete: they count, but decide nothing."""
        self.procedure.history.add(self._observed(results))

    def forecast(self) -> Forecast:
        """Return how many trials remain."""
        return self.procedure.forecast()

    def _observed(self, results: Iterable[Result]) -> list[Observed]:
        known = [one for one in results if one.trial.treatment.identity in self._sets]
        return [
            Observed(
                self._sets[one.trial.treatment.identity],
                one.trial.is_brief,
                reading(one),
                one.outcome,
            )
            for one in known
        ]
