"""Which value of a setting was published to be the least that works?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from pgdrag.findings.claims import SAME_SIZE
from pgdrag.findings.values import Answer
from pgdrag.model.claims import Answered, StatedClaim
from pgdrag.units import format_ratio, size_of

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments


class BoundClaim(StatedClaim):
    """The least value that works, which the design `boundary` looks for."""

    name: ClassVar[str] = "bound"
    summary: ClassVar[str] = "the least value of a setting that works"
    example: ClassVar[Mapping[str, object]] = {"setting": "shared_buffers", "least": "2MB"}

    setting: str = Field(description="Name of the setting")
    least: str = Field(description="The least value that works, with its unit")

    @field_validator("least")
    @classmethod
    def _is_a_size(cls, value: str) -> str:
        if not size_of(value):
            raise ValueError("is not a number, size or duration over 0")
        return value

    def answer(self, treatments: Treatments) -> Answered:
        found = treatments.of_design and treatments.of_design.least_working(self.setting)
        if not found:
            return Answered(
                Answer.UNTESTABLE,
                f'this run did not look for the least {self.setting}: the design "boundary" does',
            )
        if found.value is None:
            return Answered(Answer.NOT_REPRODUCED, "no value that was tried works")
        words = f"{found.value} works" + (f", {found.failing} does not" if found.failing else "")
        high, low = size_of(found.value) or 0.0, size_of(found.failing or "") or 0.0
        wanted = size_of(self.least) or 0.0
        if wanted / SAME_SIZE <= high and low < wanted * SAME_SIZE:
            if found.failing is None and high > wanted:
                return Answered(Answer.INCONCLUSIVE, "every value that was tried works", words)
            return Answered(Answer.REPRODUCED, "within a factor of 2", words)
        size = format_ratio(math.exp(abs(math.log(high / wanted))))
        return Answered(Answer.NOT_REPRODUCED, f"{size} apart", words)
