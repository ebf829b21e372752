"""How was a rung published to end: not to start, to crash, to commit nothing?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from pgdrag.english import counted, listed, percent_words
from pgdrag.findings.values import Answer
from pgdrag.model.claims import Answered, StatedClaim

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments
    from pgdrag.model import Result

FAILURES = ("did not start", "crashed", "stalled")


class OutcomeClaim(StatedClaim):
    """How trials of a rung end."""

    name: ClassVar[str] = "outcome"
    summary: ClassVar[str] = "how trials of a rung end: measured, or one of the ways to fail"
    example: ClassVar[Mapping[str, object]] = {"at": "B", "outcome": "fails"}

    at: str = Field(description="The rung")
    outcome: Literal["measured", "did not start", "crashed", "stalled", "fails"] = Field(
        description='How it ends; "fails": does not start, crashes, or commits nothing'
    )
    message: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Part of an error message of its trials"
    )

    @property
    def rungs(self) -> tuple[str, ...]:
        return (self.at,)

    def answer(self, treatments: Treatments) -> Answered:
        wanted = next((x for x in treatments.run.study.rungs if x.name == self.at), None)
        results = [
            result
            for result in treatments.run.results
            if wanted is not None
            and result.trial.treatment.identity == wanted.treatment.identity
            and result.outcome.value not in ("invalid", "untestable here")
        ]
        if not results:
            return Answered(Answer.UNTESTABLE, f"{self.at} has no trial that says so")
        ends = Counter(result.outcome.value for result in results)
        found = listed([f"{count} {name}" for name, count in ends.most_common()])
        found = f"of {counted(len(results), 'trial')}, {found}"
        kept = FAILURES if self.outcome == "fails" else (self.outcome,)
        as_published = [x for x in results if x.outcome.value in kept]
        if 2 * len(as_published) < len(results) and (words := self._failing(results)):
            return Answered(Answer.PARTLY, "transactions commit, but not all of them", words)
        if 2 * len(as_published) < len(results):
            return Answered(Answer.NOT_REPRODUCED, f"published: {self.outcome}", found)
        if 2 * len(as_published) == len(results):
            return Answered(Answer.INCONCLUSIVE, "as many trials ended otherwise", found)
        reason = next((x.reason for x in as_published if x.reason), "")
        found += f" ({reason})" if reason else ""
        if self.message is not None and not any(_has(x, self.message) for x in as_published):
            return Answered(Answer.PARTLY, f'without the message "{self.message}"', found)
        return Answered(Answer.REPRODUCED, "as published", found)

    def _failing(self, results: Sequence[Result]) -> str:
        """Return how many transactions fail with the message in trials that commit others; "" where none does."""
        wanted = (self.message or "").lower()
        windows = [x.measurement for x in results if x.measurement is not None]
        failed = sum(
            count
            for window in windows
            for _, _, text, count in window.errors
            if wanted and wanted in text.lower()
        )
        every = sum(window.total.scheduled for window in windows)
        if not failed or self.outcome == "measured":
            return ""
        return f'{percent_words(failed / every)} of the transactions fail with "{self.message}"'


def _has(result: Result, message: str) -> bool:
    errors = result.measurement.errors if result.measurement is not None else ()
    every = [result.reason, *(text for _, _, text, _ in errors)]
    return any(message.lower() in text.lower() for text in every)
