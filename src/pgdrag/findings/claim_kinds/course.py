"""How was a rung's throughput published to go while its load went on?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from pgdrag.findings.claims import judged
from pgdrag.findings.decay.findings import share_words
from pgdrag.findings.decay.together import as_ratio
from pgdrag.findings.series_claims import as_comparison, trend_answer
from pgdrag.findings.values import Answer
from pgdrag.model.claims import Answered, StatedClaim
from pgdrag.units import format_duration

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments

_Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CourseClaim(StatedClaim):
    """A trend that lasts until a moment, or the rates at the beginning and at that moment."""

    name: ClassVar[str] = "course"
    summary: ClassVar[str] = (
        "a rung's throughput over time: its trend, or its rate at a later moment"
    )
    example: ClassVar[Mapping[str, object]] = {"at": "B", "trend": "steady"}

    at: str = Field(description="The rung")
    trend: Literal["steady", "falling"] | None = Field(
        default=None, description="Trend of its rate until after_s"
    )
    from_tps: _Rate | None = Field(
        default=None, description="In place of trend: transactions per second at the beginning"
    )
    from_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0, description="Second of from_tps: the middle of its interval"
    )
    to_tps: _Rate | None = Field(default=None, description="Those at after_s")

    @model_validator(mode="after")
    def _says_one_thing(self) -> CourseClaim:
        rates = (self.from_tps, self.to_tps)
        if self.trend is not None and (rates != (None, None) or self.from_s):
            raise ValueError("trend has no from_tps, from_s and to_tps: write a claim for each")
        if self.trend is None and (None in rates or self.after_s is None):
            raise ValueError("needs trend, or from_tps, to_tps and after_s")
        if self.after_s is not None and self.from_s >= self.after_s:
            raise ValueError("needs a from_s before after_s")
        return self

    @property
    def rungs(self) -> tuple[str, ...]:
        return (self.at,)

    def answer(self, treatments: Treatments) -> Answered:
        decay = treatments.decays.get(self.at)
        if decay is None:
            return Answered(Answer.UNTESTABLE, f"no window of {self.at} is long enough for a trend")
        if self.trend is not None:
            shown = "no significant trend" if decay.direction == "inconclusive" else decay.direction
            length = format_duration(round(decay.end_s - decay.begin_s))
            return Answered(
                trend_answer(self.trend, decay), f"published {self.trend}", f"{shown} over {length}"
            )
        assert self.from_tps is not None
        assert self.to_tps is not None
        assert self.after_s is not None
        end_s = min(decay.begin_s + self.after_s, decay.end_s)
        logs = decay.log_ratio(decay.begin_s + self.from_s, end_s)
        answer, why = judged(self.from_tps / self.to_tps, as_comparison(logs))
        found = share_words(as_ratio(logs, "ratio of two fitted rates"))
        if decay.wrong:
            return Answered(Answer.WRONG, f"it {decay.wrong} here", found)
        return Answered(answer, why, found)
