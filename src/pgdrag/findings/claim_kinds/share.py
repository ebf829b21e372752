"""Which steps was a change from the baseline to the last rung credited to?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from pgdrag.english import listed, percent_words
from pgdrag.findings.claim_kinds._sides import why_untestable
from pgdrag.findings.values import Answer
from pgdrag.model.claims import Answered, StatedClaim

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments


class ShareClaim(StatedClaim):
    """The part of the whole change, on a logarithmic scale, that some steps of a ladder have together."""

    name: ClassVar[str] = "share"
    summary: ClassVar[str] = "the part of the whole change that some steps of a ladder account for"
    example: ClassVar[Mapping[str, object]] = {"steps": ["B"], "at_least": 0.5}

    steps: Annotated[list[str], Field(min_length=1)] = Field(description="Names of rungs")
    at_least: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.5, description="Their joint share, from 0 to 1"
    )

    @property
    def rungs(self) -> tuple[str, ...]:
        return tuple(self.steps)

    def answer(self, treatments: Treatments) -> Answered:
        """Answer by the sum of the steps' logarithms over that of the whole, which must be significant."""
        if not treatments.run.study.is_cumulative:
            return Answered(Answer.UNTESTABLE, "only the steps of a ladder have shares")
        last = treatments.all[-1]
        for name in (*self.steps, last.name):
            if why := why_untestable(treatments, name):
                return Answered(Answer.UNTESTABLE, why)
        whole = last.to_baseline
        parts = [one.to_previous for one in map(treatments.get, self.steps) if one is not None]
        if whole is None or None in parts:
            return Answered(Answer.UNTESTABLE, "a step has no number")
        if not whole.slowdown.excludes_one:
            why = f"no significant change from {treatments.all[0].name} to {last.name}"
            return Answered(Answer.INCONCLUSIVE, why)
        slowdowns = [one.slowdown for one in parts if one is not None]
        if not all(x.low > 0 and math.isfinite(x.high) for x in (*slowdowns, whole.slowdown)):
            return Answered(
                Answer.INCONCLUSIVE, "a step committed nothing, so that its size is a bound"
            )
        center = sum(math.log(x.center) for x in slowdowns)
        half = math.hypot(*(math.log(x.high / x.low) / 2 for x in slowdowns))
        total = math.log(whole.slowdown.center)
        low, high = sorted(((center - half) / total, (center + half) / total))
        found = (
            f"{listed(self.steps)} account for {percent_words(center / total)} "
            f"({percent_words(low)} to {percent_words(high)})"
        )
        if low >= self.at_least:
            return Answered(Answer.REPRODUCED, f"at least {percent_words(self.at_least)}", found)
        if high < self.at_least:
            return Answered(Answer.NOT_REPRODUCED, f"under {percent_words(self.at_least)}", found)
        return Answered(
            Answer.INCONCLUSIVE, f"its interval includes {percent_words(self.at_least)}", found
        )
