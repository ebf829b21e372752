"""How many times slower was one rung published to be than another?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from pgdrag.findings.claim_kinds._sides import why_untestable
from pgdrag.findings.claims import judged
from pgdrag.findings.values import Answer
from pgdrag.findings.wording import published_size, published_words, slowdown_words
from pgdrag.model.claims import Answered, StatedClaim
from pgdrag.stats.counts import Tally, exact_rate
from pgdrag.stats.interval import Interval

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SlowdownClaim(StatedClaim):
    """A published ratio of two rungs' throughput, or the two numbers that it follows from."""

    name: ClassVar[str] = "slowdown"
    summary: ClassVar[str] = "how many times slower one rung is than another"
    example: ClassVar[Mapping[str, object]] = {"at": "B", "than": "A", "times": 2.0}

    at: str = Field(description="The rung")
    than: str = Field(description="The rung that it is compared with")
    times: _Positive | None = Field(
        default=None, description="How many times slower; under 1: faster"
    )
    commits: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="In place of times: transactions that it committed in within_s"
    )
    within_s: _Positive | None = Field(default=None, description="Seconds in which it did")
    than_tps: _Positive | None = Field(
        default=None, description="Published transactions per second of the other rung"
    )

    @model_validator(mode="after")
    def _has_one_ratio(self) -> SlowdownClaim:
        counted = (self.commits, self.within_s, self.than_tps)
        if (self.times is None) == all(x is None for x in counted) or (
            self.times is None and None in counted
        ):
            raise ValueError("needs times, or commits, within_s and than_tps")
        return self

    @property
    def rungs(self) -> tuple[str, ...]:
        return (self.than, self.at)

    def answer(self, treatments: Treatments) -> Answered:
        """Answer as a published ratio of rates is answered; few published commits have an interval of their own."""
        comparison = treatments.slowdown(self.than, self.at)
        lacking = why_untestable(treatments, self.at, self.than)
        if lacking or comparison is None:
            found = f"{slowdown_words(comparison.slowdown)} nevertheless" if comparison else ""
            return Answered(Answer.UNTESTABLE, lacking or "there is no number to compare", found)
        published, found = self._published(), slowdown_words(comparison.slowdown)
        # Of an uncertain number what lies nearest to ours: it must not disagree by its own chance.
        nearest = min(max(comparison.slowdown.center, published.low), published.high)
        answer, why = judged(nearest if math.isfinite(nearest) else published.center, comparison)
        if published.low < published.high:
            low, high = published_size(published.low), published_words(published.high)
            why += f" ({self.commits} commits are {low} to {high})"
        return Answered(answer, why, found)

    def _published(self) -> Interval:
        if self.times is not None:
            return Interval(self.times, self.times, self.times, 1.0, "as published")
        assert self.commits is not None
        assert self.within_s is not None
        assert self.than_tps is not None
        rate = exact_rate(Tally(self.commits, self.within_s), 0.95)
        low, center, high = (self.than_tps / x for x in (rate.high, rate.center, rate.low))
        return Interval(low, center, high, rate.confidence, rate.method)
