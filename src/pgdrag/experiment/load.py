"""What may stand in `[scales.NAME.load]`? How hard and how long, steps and ramps included.

Sessions and rates that change are written as a ramp, `{ from = 5, to = 22, step_s = 60 }`, or as
pairs of a second and a value, `[[0, 5], [60, 8]]`; both become pairs here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

MOST_SESSIONS = 10_000
MOST_RATE_PER_S = 10_000_000
MOST_STEPS = 1000

Sessions = Annotated[int, Field(ge=1, le=MOST_SESSIONS)]
Rate = Annotated[float, Field(gt=0, le=MOST_RATE_PER_S)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class _Ramp(_Strict):
    step_s: Annotated[float, Field(gt=0, le=86_400)] = Field(
        description="Length of a step, seconds"
    )
    first: float
    to: float
    by: float

    def values(self) -> list[float]:
        """Return the value of each step."""
        return _values(self.first, self.to, self.by)


class SessionRamp(_Ramp):
    """Sessions that work, one step after the other."""

    first: Sessions = Field(alias="from", description="Sessions of the first step")
    to: Sessions = Field(description="Sessions of the last step")
    by: Sessions = Field(default=1, description="Sessions that each step adds, or removes")


class RateRamp(_Ramp):
    """Transactions offered per second, one step after the other."""

    first: Rate = Field(alias="from", description="Transactions per second of the first step")
    to: Rate = Field(description="Transactions per second of the last step")
    by: Rate = Field(description="Transactions per second that each step adds, or removes")


@dataclass(frozen=True)
class Course:
    """How a value changes over the window.

    Attributes:
        pairs: (second, value), ascending, the first at 0.
        length_s: when the last step ends, where a ramp says so.
    """

    pairs: tuple[tuple[float, float], ...]
    length_s: float | None = None


def _values(first: float, last: float, by: float) -> list[float]:
    span = abs(last - first)
    # Not by adding up: a rate's steps need not be exact in binary.
    count = int(span / by + 1e-9)
    if count > MOST_STEPS:
        raise PydanticCustomError("steps", "must have at most 1,000 steps")
    sign = 1 if last >= first else -1
    values = [first + sign * by * number for number in range(count + 1)]
    return values if abs(values[-1] - last) <= 1e-9 * abs(last) else [*values, last]


def _sessions(value: object) -> Course:
    if not isinstance(value, list | dict):
        raise PydanticCustomError(
            "course",
            "must be a ramp with from, to and step_s, or pairs of a second and a number (a fixed number "
            "is called connections)",
        )
    return _course(value, SessionRamp, _session_pairs)


def _rate(value: object) -> float | Course:
    if isinstance(value, list | dict):
        return _course(value, RateRamp, _rate_pairs)
    return _one_rate.validate_python(value)


def _course(
    value: list[Any] | dict[str, Any], ramp: type[_Ramp], pairs: TypeAdapter[Any]
) -> Course:
    """Return the steps of a ramp or of pairs; the models' own mistakes name the key within."""
    if isinstance(value, dict):
        found = ramp.model_validate(value)
        values = found.values()
        times = [round(found.step_s * number, 6) for number in range(len(values) + 1)]
        return Course(tuple(zip(times, values, strict=False)), length_s=times[-1])
    course = Course(tuple((float(at_s), one) for at_s, one in pairs.validate_python(value)))
    if course.pairs[0][0] != 0:
        raise PydanticCustomError("pairs", "must begin with a pair for second 0")
    if any(later <= earlier for (earlier, _), (later, _) in pairwise(course.pairs)):
        raise PydanticCustomError("pairs", "must have its seconds in ascending order")
    return course


def _pair(value: object) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise PydanticCustomError("pair", "must be a second and a number, such as [60, 8]")
    return tuple(value)


_Second = Annotated[float, Field(ge=0, le=604_800)]
_strict = ConfigDict(strict=True, defer_build=True)
_Pairs = Field(min_length=1, max_length=MOST_STEPS)
_one_rate: TypeAdapter[float] = TypeAdapter(Rate, config=_strict)
_session_pairs: TypeAdapter[Any] = TypeAdapter(
    Annotated[list[Annotated[tuple[_Second, Sessions], BeforeValidator(_pair)]], _Pairs],
    config=_strict,
)
_rate_pairs: TypeAdapter[Any] = TypeAdapter(
    Annotated[list[Annotated[tuple[_Second, Rate], BeforeValidator(_pair)]], _Pairs], config=_strict
)


def _course_schema(ramp: type[_Ramp], value: dict[str, Any], *others: dict[str, Any]) -> Any:
    pair = {
        "type": "array",
        "prefixItems": [{"type": "number", "minimum": 0}, value],
        "minItems": 2,
        "maxItems": 2,
    }
    pairs = {"type": "array", "items": pair, "minItems": 1}
    return WithJsonSchema({"anyOf": [*others, ramp.model_json_schema(), pairs]})


_SESSIONS_SCHEMA = {"type": "integer", "minimum": 1, "maximum": MOST_SESSIONS}
_RATE_SCHEMA = {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_RATE_PER_S}


class LoadTable(_Strict):
    """How hard and how long the workload is driven."""

    connections: Sessions | None = Field(
        default=None,
        description="Clients, one connection each (default: 8, or the most that sessions asks for)",
    )
    threads: Annotated[int, Field(ge=1, le=256)] | None = Field(
        default=None,
        description="Worker threads of each load driver (default: chosen at the start of the run, by how busy one is)",
    )
    generators: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1,
        description="Load drivers, a process each, that divide the connections and the rate between them",
    )
    sessions: (
        Annotated[Course, PlainValidator(_sessions), _course_schema(SessionRamp, _SESSIONS_SCHEMA)]
        | None
    ) = Field(
        default=None,
        description="How many of the connections work, step by step: a ramp, or pairs of a second and a number (default: all, throughout)",
    )
    pacing: Literal["closed", "open", "benchbase"] | None = Field(
        default=None,
        description="closed: no pause; open: arrivals on a schedule; benchbase: its rate limit (default: open with rate_per_s, else closed)",
    )
    rate_per_s: (
        Annotated[
            float | Course,
            PlainValidator(_rate),
            _course_schema(RateRamp, _RATE_SCHEMA, _RATE_SCHEMA),
        ]
        | None
    ) = Field(
        default=None,
        description="Transactions offered per second over all clients: a number, a ramp, or pairs of a second and a number",
    )
    arrivals: Literal["poisson", "uniform"] | None = Field(
        default=None, description="Open loop: independent arrivals, or even ones (default: poisson)"
    )
    backlog_limit: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None,
        description="Open loop: of arrivals that wait, beyond so many the oldest is dropped (default: 10,000)",
    )
    queue_limit: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None,
        description="benchbase: an arrival that finds so many waiting is dropped (default: 10,000)",
    )
    latency_limit_ms: Annotated[float, Field(ge=0.001, le=86_400_000)] | None = Field(
        default=None,
        description="Slower transactions are counted; in open loop an arrival that late is skipped (default: none)",
    )
    warm_up_s: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=10, description="Load before the measured window, seconds"
    )
    measure_s: Annotated[float, Field(gt=0, le=604_800)] | None = Field(
        default=None,
        description="Length of the measured window, seconds (default: 30, or the length of a ramp)",
    )
    min_commits: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=30, description="With fewer commits the window goes on, up to budget_s"
    )
    budget_s: Annotated[float, Field(gt=0, le=6_048_000)] | None = Field(
        default=None,
        description="Longest measured window, seconds; at least measure_s (default: 5 times measure_s). Short trials "
        "have a third of it, or all of it where min_commits is at most 4",
    )
