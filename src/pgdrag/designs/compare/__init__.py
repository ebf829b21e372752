"""Is one treatment faster or slower than another, and by how much?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.compare.pairs import pairing
from pgdrag.designs.compare.rules import End, Rules, Standing, standing
from pgdrag.model import Block, Forecast, Result, Rung
from pgdrag.stats.pair_logs import ORDER_PAIRS
from pgdrag.stats.sequential import FIRST_LOOK


class NoiseFloor(BaseModel):
    """What pairs of one and the same treatment differed by on this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    log_sd: Annotated[float, Field(ge=0)] = Field(
        description="Standard deviation of the log ratio from pair to pair"
    )
    pairs: Annotated[int, Field(ge=2)] = Field(description="Pairs that it was estimated from")
    when: str = Field(default="", description="When they were run")


class CompareParameters(DesignParameters):
    """Parameters of a comparison; shares are fractions: 0.02 for 2 %."""

    max_pairs: Annotated[int, Field(ge=ORDER_PAIRS, le=1000)] = Field(
        default=Rules.max_pairs, description="End after so many pairs of trials, decided or not"
    )
    confidence: Annotated[float, Field(ge=0.8, le=0.999)] = Field(
        default=Rules.confidence, description="Confidence of all looks at the pairs together"
    )
    equivalence: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=Rules.equivalence, description="Differences up to this share count as equal"
    )
    precision: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Go on until the interval reaches no further than this share to either side",
    )
    fail_if_slower: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Fail where the treatment is slower by more than this share"
    )
    noise_floor: NoiseFloor | None = Field(
        default=None, description="What pairs of one treatment differed by on this machine"
    )


class Compare(Design):
    """Pairs of the first and the last treatment, until they decide it or their number is used up.

    The laboratory draws the order within each pair. A side that fails twice, and never had a
    number, ends the comparison: that is the answer.
    """

    name = "compare"
    summary = "two treatments in pairs, until it is clear which is faster, or that neither is"
    Parameters: ClassVar[type[DesignParameters]] = CompareParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self._sides = (rungs[0].treatment, rungs[-1].treatment)
        self._rules = Rules.from_parameters(parameters.model_dump())
        self._results: list[Result] = []
        self._standing = Standing((), End.GOING_ON)

    def ask(self) -> Block:
        """Return one pair, or nothing once the comparison is over."""
        return Block() if self._standing.is_over else Block(self._sides)

    def tell(self, results: Sequence[Result]) -> None:
        """Look at the pairs so far, where a look is due."""
        self._results += results
        trials = pairing(self._results, *self._sides)
        self._standing = standing(trials, self._rules, known=self._standing.looks)

    def forecast(self) -> Forecast:
        """Return the trials until the first look that may end it, and until the last pair."""
        if self._standing.is_over:
            return Forecast(0, 0)
        pairs = len(pairing(self._results, *self._sides).pairs)
        least = max(FIRST_LOOK - pairs, 1)
        return Forecast(2 * least, 2 * max(self._rules.max_pairs - pairs, least))
