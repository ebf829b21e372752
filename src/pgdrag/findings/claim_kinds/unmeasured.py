"""Which published figures can no trial of this experiment answer, and why?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from pgdrag.findings.values import Answer
from pgdrag.model.claims import Answered, StatedClaim

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments


class UnmeasuredClaim(StatedClaim):
    """A figure that is kept with the reason why it has no answer."""

    name: ClassVar[str] = "unmeasured"
    summary: ClassVar[str] = "a figure that no trial of the experiment can answer, with the reason"
    is_answerable: ClassVar[bool] = False
    example: ClassVar[Mapping[str, object]] = {"why": "no collector sees it"}

    why: Annotated[str, Field(min_length=1)] = Field(description="Why it has no answer: a clause")

    def answer(self, treatments: Treatments) -> Answered:
        return Answered(Answer.UNTESTABLE, self.why)
