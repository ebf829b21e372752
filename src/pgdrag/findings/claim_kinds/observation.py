"""What was published of something observed: a value, a ratio, a bound, a direction?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from pgdrag.findings.claim_kinds._sides import why_untestable
from pgdrag.findings.claims import SAME_SIZE
from pgdrag.findings.mechanisms.catalogue import Sign
from pgdrag.findings.mechanisms.signs import Trials, observed, scaled
from pgdrag.findings.movement import Movement, moved
from pgdrag.findings.values import FALSE_DISCOVERIES, Answer
from pgdrag.findings.wording import value_words
from pgdrag.model.claims import Answered, StatedClaim
from pgdrag.units import format_ratio

if TYPE_CHECKING:
    from pgdrag.findings.compared import Treatments
    from pgdrag.model import Observation

_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_SAME_SHARE = 0.01  # near 0 and 1 odds are many times apart where nobody sees a difference
_WAYS = ("value", "times", "at_least", "at_most", "direction")


class ObservationClaim(StatedClaim):
    """A published figure that a collector can see, too."""

    name: ClassVar[str] = "observation"
    summary: ClassVar[str] = (
        "the value of an observation, its ratio between two rungs, or its direction"
    )
    example: ClassVar[Mapping[str, object]] = {
        "at": "B",
        "than": "A",
        "of": "buffer_hit_ratio",
        "value": 0.7,
    }

    at: str = Field(description="The rung")
    than: str = Field(default="", description="The rung that it is compared with, if any")
    of: str = Field(description="Name of the observation, as `pgdrag list --observations` has it")
    value: _Number | None = Field(default=None, description="Its value, in its own unit")
    times: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="How many times its value on the other rung"
    )
    at_least: _Number | None = Field(default=None, description="A value that it reaches")
    at_most: _Number | None = Field(default=None, description="A value that it does not exceed")
    direction: Literal["up", "down", "unmoved"] | None = Field(
        default=None, description="Direction in which it moves from the other rung"
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> ObservationClaim:
        given = [way for way in _WAYS if getattr(self, way) is not None]
        if len(given) != 1:
            raise ValueError(f"needs one of {', '.join(_WAYS)}")
        if given[0] in ("times", "direction") and not self.than:
            raise ValueError(f'{given[0]} needs "than", the rung that it is compared with')
        return self

    @property
    def rungs(self) -> tuple[str, ...]:
        return (self.than, self.at) if self.than else (self.at,)

    @property
    def observations(self) -> tuple[str, ...]:
        return (self.of,)

    def answer(self, treatments: Treatments) -> Answered:
        """Answer from the medians of the trials; see docs/method.md."""
        for rung in self.rungs:
            if why := why_untestable(treatments, rung, rung):
                return Answered(Answer.UNTESTABLE, why)
        trials = observed(treatments)
        if self.of in trials.implausible:
            return Answered(Answer.UNTESTABLE, trials.implausible[self.of])
        seen = [trials.observation(rung, self.of) for rung in self.rungs]
        for rung, one in zip(self.rungs, seen, strict=True):
            if one is None:
                why = trials.missing(rung, self.of)
                return Answered(Answer.UNTESTABLE, f"{self.of} on {rung}: {why}")
        *before, after = [one for one in seen if one is not None]
        if not before:
            return self._of_value(after, value_words(after, _value(after)), None)
        move = moved(before[0], after)
        is_chance = self._is_chance(trials, move)
        if self.value is not None or (self.direction is None and self.times is None):
            return self._of_value(after, move.sentence, None if is_chance else move)
        return self._of_move(move, is_chance=is_chance)

    def _of_value(self, seen: Observation, found: str, move: Movement | None) -> Answered:
        if self.value is not None:
            apart = abs(self._scaled(seen, _value(seen)) - self._scaled(seen, self.value))
            size = format_ratio(math.exp(min(apart, 700.0)))
            what = "odds" if seen.unit == "ratio" else "values"
            if apart <= math.log(SAME_SIZE):
                return Answered(Answer.REPRODUCED, "within a factor of 2", found)
            if seen.unit == "ratio" and abs(_value(seen) - self.value) <= _SAME_SHARE:
                return Answered(Answer.REPRODUCED, "within a percentage point", found)
            if move is not None and move.direction == self._published_way(move):
                return Answered(Answer.PARTLY, f"same direction; {what} {size} apart", found)
            return Answered(Answer.NOT_REPRODUCED, f"{what} {size} apart", found)
        bound, is_kept = self.at_least, _value(seen) >= (self.at_least or 0.0)
        if self.at_most is not None:
            bound, is_kept = self.at_most, _value(seen) <= self.at_most
        assert bound is not None
        words = value_words(seen, bound)
        if is_kept:
            side = "at least" if self.at_most is None else "at most"
            return Answered(Answer.REPRODUCED, f"{side} {words}", found)
        near = abs(self._scaled(seen, _value(seen)) - self._scaled(seen, bound))
        side = "less than" if self.at_most is None else "more than"
        answer = Answer.PARTLY if near <= math.log(SAME_SIZE) else Answer.NOT_REPRODUCED
        return Answered(answer, f"{side} {words}", found)

    def _of_move(self, move: Movement, *, is_chance: bool) -> Answered:
        found = move.sentence
        if self.direction is not None:
            if move.direction == self.direction:
                answer = Answer.INCONCLUSIVE if is_chance else Answer.REPRODUCED
                return Answered(answer, "could be chance" if is_chance else "as published", found)
            if is_chance and self.direction != "unmoved":
                return Answered(Answer.INCONCLUSIVE, "could be chance", found)
            return Answered(Answer.NOT_REPRODUCED, f"published {self.direction}", found)
        assert self.times is not None
        log = (1 if move.direction == "up" else -1) * move.size
        way = "up" if self.times > 1 else "down"
        if move.direction != "unmoved" and is_chance:
            return Answered(Answer.INCONCLUSIVE, "could be chance", found)
        if move.direction != way:
            return Answered(Answer.NOT_REPRODUCED, f"published {format_ratio(self.times)}", found)
        if abs(log - math.log(self.times)) <= math.log(SAME_SIZE):
            return Answered(Answer.REPRODUCED, "same direction, and within a factor of 2", found)
        return Answered(Answer.PARTLY, "same direction, different size", found)

    def _is_chance(self, trials: Trials, move: Movement) -> bool:
        if move.direction == "unmoved":
            return False
        direction: Literal["up", "down"] = "up" if move.direction == "up" else "down"
        p = trials.test(Sign(self.of, direction), self.than, self.at).p
        return p is not None and 2 * p > FALSE_DISCOVERIES

    def _published_way(self, move: Movement) -> str:
        """Return the published direction, if its value on the other rung is that found here."""
        assert self.value is not None
        return "up" if self.value > _value(move.before) else "down"

    @staticmethod
    def _scaled(seen: Observation, value: float) -> float:
        return scaled(value, seen.unit, seen.resolution)


def _value(seen: Observation) -> float:
    assert seen.value is not None, seen.name
    return seen.value
