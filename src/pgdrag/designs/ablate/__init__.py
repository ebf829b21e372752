"""Which of the changes from a reference to a target make the difference, alone and together?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.ablate.book import AblationOptions
from pgdrag.designs.ablate.course import least_max_trials
from pgdrag.designs.ablate.run import AblationRun
from pgdrag.errors import UsageError
from pgdrag.model import Block, Forecast, Result, Rung

_DEFAULTS = AblationOptions()


class AblateParameters(DesignParameters):
    """Parameters of an ablation."""

    threshold: Annotated[float, Field(gt=0, le=10)] = Field(
        default=_DEFAULTS.threshold,
        description="Smallest slowdown or speedup worth a name, as a ratio less 1: 0.05 is 5 %",
    )
    share_precision: Annotated[float, Field(gt=0, le=1)] = Field(
        default=_DEFAULTS.share_precision,
        description="Run trials until each share is known to this part of the whole: 0.05 is ±5 points",
    )
    max_trials: Annotated[int, Field(ge=1)] | None = Field(
        default=_DEFAULTS.max_trials,
        description="Run no more trials than this, short ones included (default: 88 and 4 a change)",
    )
    max_pairs: Annotated[int, Field(ge=0, le=100)] = Field(
        default=_DEFAULTS.max_pairs,
        description="Cross so many suspected pairs of changes at most",
    )
    has_brief_screening: bool = Field(
        default=_DEFAULTS.has_brief_screening,
        description="Tell the survivors by short trials; false: by trials of full length",
    )
    seed: Annotated[int, Field(ge=0)] = Field(
        default=_DEFAULTS.seed, description="Of the orders that shares are averaged over"
    )


class Ablate(Design):
    """Each change alone and in company by short trials, then shares and pairs of the survivors.

    The reference is the first rung, the target the last.
    """

    name = "ablate"
    summary = (
        "which of many changes matter: alone, in company, their shares of the whole, and pairs"
    )
    Parameters: ClassVar[type[DesignParameters]] = AblateParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        assert isinstance(parameters, AblateParameters)
        options = AblationOptions(**parameters.model_dump())
        self._run = AblationRun(self.rungs[0].treatment, self.rungs[-1].treatment, options)
        least = least_max_trials(len(self._run.changes))
        if options.max_trials is not None and options.max_trials < least:
            raise UsageError(
                f"max_trials is {options.max_trials}, and an ablation of "
                f"{len(self._run.changes)} changes takes {least} trials or more",
                hint="Allow more trials, or let bisect look for a small set that does the whole.",
            )

    def ask(self) -> Block:
        """Return the next block: short trials while the survivors are sought, then long ones."""
        return self._run.ask()

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last."""
        self._run.tell(results)

    def forecast(self) -> Forecast:
        """Return how many trials are still to come: the screening is known, the rest a range."""
        return self._run.ablation.forecast()
