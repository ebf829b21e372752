"""Does throughput fall with the length of a hold, and is it the length that decides?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from pgdrag.english import listed
from pgdrag.findings.dose.analysis import horizon_of
from pgdrag.findings.dose.deciders import GROWING
from pgdrag.findings.dose.findings import DeciderVerdict, DoseVerdict, HorizonFinding
from pgdrag.findings.values import Answer
from pgdrag.model.claims import Answered, StatedClaim
from pgdrag.units import format_duration

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments

_OF_DOSES: Mapping[DoseVerdict, Answer] = {
    "falls": Answer.REPRODUCED,
    "does not fall": Answer.NOT_REPRODUCED,
    "inconclusive": Answer.INCONCLUSIVE,
    "too few doses": Answer.UNTESTABLE,
}
_OF_DECIDERS: Mapping[DeciderVerdict, Answer] = {
    "the length, not this": Answer.REPRODUCED,
    "this, not the length": Answer.NOT_REPRODUCED,
    "both": Answer.PARTLY,
    "inconclusive": Answer.INCONCLUSIVE,
    "cannot be separated": Answer.INCONCLUSIVE,
}


class HoldClaim(StatedClaim):
    """What a held horizon does to throughput, over holds of several lengths."""

    name: ClassVar[str] = "hold"
    summary: ClassVar[str] = "throughput falls with the length of the hold, or depends on it alone"
    example: ClassVar[Mapping[str, object]] = {"instead_of": "bloat_ratio"}

    instead_of: str = Field(
        default="",
        description="What grows with a hold and is not what decides (default: the claim is that throughput falls with the length)",
    )

    @field_validator("instead_of")
    @classmethod
    def _grows(cls, value: str) -> str:
        if value and value not in GROWING:
            raise ValueError(f"must be one of {', '.join(GROWING)}")
        return value

    def answer(self, treatments: Treatments) -> Answered:
        found = horizon_of(treatments)
        if found is None:
            return Answered(Answer.UNTESTABLE, "no trial held the horizon for different lengths")
        return self._of_deciders(found) if self.instead_of else _of_doses(found)

    def _of_deciders(self, found: HorizonFinding) -> Answered:
        for one in sorted(found.deciders, key=lambda x: -x.intervals):
            seen = next((x for x in one.deciders if x.name == self.instead_of), None)
            if seen is not None:
                words = f"{seen.label}: {seen.verdict} ({one.intervals} intervals)"
                return Answered(_OF_DECIDERS[seen.verdict], seen.verdict, words)
        return Answered(Answer.UNTESTABLE, f"{GROWING[self.instead_of]} was not seen")


def _of_doses(found: HorizonFinding) -> Answered:
    if not found.doses:
        return Answered(Answer.UNTESTABLE, "no trials differ in the length of the hold alone")
    curve = max(found.doses, key=lambda x: x.doses)
    lengths = listed([format_duration(round(x.held_s)) for x in curve.points])
    words = f"{curve.verdict}, from holds of {lengths}"
    return Answered(_OF_DOSES[curve.verdict], f"{curve.doses} lengths", words)
