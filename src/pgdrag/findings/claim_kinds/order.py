"""Which rung was published to be the faster one?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from pgdrag.english import listed
from pgdrag.findings.claim_kinds._sides import why_untestable
from pgdrag.findings.values import Answer
from pgdrag.findings.wording import slowdown_words
from pgdrag.model.claims import Answered, StatedClaim

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments


class OrderClaim(StatedClaim):
    """Rungs in the order of their throughput, without numbers."""

    name: ClassVar[str] = "order"
    summary: ClassVar[str] = "which of several rungs are the faster ones"
    example: ClassVar[Mapping[str, object]] = {"order": ["A", "B"]}

    order: Annotated[list[str], Field(min_length=2)] = Field(
        description="Names of rungs, the fastest first"
    )

    @property
    def rungs(self) -> tuple[str, ...]:
        return tuple(self.order)

    def answer(self, treatments: Treatments) -> Answered:
        """Reproduced where each pair differs significantly in the published direction."""
        same: list[str] = []
        opposite: list[str] = []
        undecided: list[str] = []
        for fast, slow in combinations(self.order, 2):
            if why := why_untestable(treatments, slow, fast):
                return Answered(Answer.UNTESTABLE, why)
            comparison = treatments.slowdown(fast, slow)
            if comparison is None:
                return Answered(Answer.UNTESTABLE, "there is no number to compare")
            found = comparison.slowdown
            words = f"{slow} is {slowdown_words(found)} than {fast}"
            if not found.excludes_one:
                undecided.append(words)
            else:
                (same if found.low > 1 else opposite).append(words)
        every = "; ".join((*opposite, *same, *undecided))
        if opposite:
            answer = Answer.PARTLY if len(same) > len(opposite) else Answer.NOT_REPRODUCED
            return Answered(answer, "the opposite order", every)
        if undecided:
            return Answered(Answer.INCONCLUSIVE, "no significant difference", every)
        return Answered(Answer.REPRODUCED, f"{listed(self.order)} in this order", every)
