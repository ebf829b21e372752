"""What was published of a rung's latency? A kind of claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from pgdrag.model.claims import Answer, Answered, StatedClaim

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments


class LatencyClaim(StatedClaim):
    """That 99 of 100 transactions take at most so long."""

    name: ClassVar[str] = "latency"
    summary: ClassVar[str] = "the 99th percentile of latency is at most so long"
    example: ClassVar[Mapping[str, object]] = {"at": "B", "p99_ms_at_most": 5.0}

    at: str = Field(description="The rung")
    p99_ms_at_most: Annotated[float, Field(gt=0)] = Field(description="In milliseconds")

    @property
    def rungs(self) -> tuple[str, ...]:
        """The one."""
        return (self.at,)

    def answer(self, treatments: Treatments) -> Answered:
        """Answer by the slowest kind of transaction in the trial in the middle."""
        here = treatments.get(self.at)
        window = here.trials.window if here is not None else None
        if window is None or not window.latency:
            return Answered(Answer.UNTESTABLE, f"{self.at} has no latency")
        p99_ms = max(one.p99_us for one in window.latency.values()) / 1000
        answer = Answer.REPRODUCED if p99_ms <= self.p99_ms_at_most else Answer.NOT_REPRODUCED
        return Answered(answer, f"published at most {self.p99_ms_at_most:g} ms", f"{p99_ms:.3g} ms")
