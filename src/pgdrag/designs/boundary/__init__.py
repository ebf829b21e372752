"""What is the smallest value at which the workload still runs, and where does more gain nothing?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.boundary.curve import Knee, KneeVerdict, State, Step, knee, search, spread
from pgdrag.english import counted, cut, listed, percent_words
from pgdrag.findings.readings import rates_of, reading
from pgdrag.findings.values import DesignFinding, Interval, LeastWorking
from pgdrag.model import Block, Counts, Forecast, Level, Outcome, Result, Rung, RunRecord
from pgdrag.stats.linear_model import fit
from pgdrag.stats.rates import combined_rate
from pgdrag.units import format_number, format_rate, size_of

_NAME_LENGTH = 60  # of a treatment, at most
_MOST_SPOILT = 3  # invalid trials of a value; more of them would be invalid, too


class BoundaryParameters(DesignParameters):
    """Parameters of a search for a boundary."""

    setting: str = Field(
        default="", description="The setting (default: the first that the last rung names)"
    )
    values: list[str] = Field(
        default_factory=list,
        description="Values to choose from, ascending (default: those that the rungs name)",
    )
    points: Annotated[int, Field(ge=3, le=50)] = Field(
        default=7, description="Number of values of the curve above the boundary"
    )
    repeats: Annotated[int, Field(ge=1, le=20)] = Field(
        default=2, description="Trials per value of the curve"
    )
    most_failed: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1,
        description="A value works if a transaction commits and at most this share of them fails",
    )


@dataclass(frozen=True)
class ValueTried:
    """One value of the setting.

    Attributes:
        value: as it was written.
        size: as a number, in bytes or seconds where it has a unit; None: it is none.
        worked, failed: trials in which something was committed, and in which nothing was; invalid ones are neither.
        outcomes: how its trials ended, by outcome.
        reason: why the last one that failed did; "" where none did.
        tps: committed transactions/s of its full trials; None where there is none.
    """

    value: str
    size: float | None
    worked: int
    failed: int
    outcomes: dict[str, int]
    reason: str
    tps: Interval | None


@dataclass(frozen=True)
class BoundaryFinding(DesignFinding):
    """What a search for a boundary found.

    Attributes:
        setting: its name.
        state: "searching", "found", "all values work", "no value works" or "nothing to search".
        smallest: the smallest value that works; None where it is not known.
        failing: the next smaller one, which does not; None where all work, or it is not known.
        values: every candidate that was tried, ascending.
        candidates: how many there were.
        curve: where it has its knee.
        rungs: the value of each rung that is one of the treatments tried.
    """

    # What is tried are values of the setting, and no rung.
    has_rungs: ClassVar[bool] = False

    setting: str
    state: str
    smallest: str | None
    failing: str | None
    values: tuple[ValueTried, ...]
    candidates: int
    curve: Knee
    rungs: Mapping[str, str]

    def rate(self, rung: str) -> Interval | None:
        value = self.rungs.get(rung)
        return next((one.tps for one in self.values if one.value == value), None)

    def least_working(self, setting: str) -> LeastWorking | None:
        if setting != self.setting or self.state in (State.SEARCHING, "nothing to search"):
            return None
        return LeastWorking(self.smallest, self.failing)


class Boundary(Design):
    """Adaptive: short trials halve what is left of the values; full ones measure the curve above.

    A failure is repeated before it is believed, and so is the success of the value found.

    Attributes:
        setting: name of the setting.
        treatments: by candidate value, ascending, as it is written: the first rung's with the setting there.
    """

    name = "boundary"
    summary = "the smallest value of a setting that works, and the knee of the curve above it"
    Parameters = BoundaryParameters
    parameters: BoundaryParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        factor = next((x.factor for x in rungs[-1].added), ("setting", ""))
        if self.parameters.setting:
            factor = ("setting", self.parameters.setting)
        named = [x.value for rung in rungs for x in rung.added if x.factor == factor]
        self.setting = factor[1]
        self.treatments = {}
        for value in self.parameters.values or named:
            name = cut(f"{self.setting} = {value}", _NAME_LENGTH)
            levels = [Level(*factor, value)]
            self.treatments[value] = rungs[0].treatment.with_levels(name, levels)
        self._places = {x.identity: at for at, x in enumerate(self.treatments.values())}
        self._tries: list[list[bool]] = [[] for _ in self.treatments]
        self._spoilt = [0] * len(self.treatments)
        self._is_measured = False

    @property
    def levels(self) -> tuple[Level, ...]:
        return tuple(
            level
            for treatment in self.treatments.values()
            for level in treatment.levels
            if level.name == self.setting
        )

    @property
    def step(self) -> Step | None:
        """Where the search stands; None: there are no values."""
        return search(self._tries) if self._tries else None

    def ask(self) -> Block:
        """Return the next value to try, or the points of the curve; nothing once that is measured."""
        step, treatments = self.step, tuple(self.treatments.values())
        if step is not None and step.next is not None:
            if self._spoilt[step.next] >= _MOST_SPOILT:
                return Block()
            return Block((treatments[step.next],), is_brief=True)
        if step is None or step.smallest is None or self._is_measured:
            return Block()
        places = spread(step.smallest, len(treatments), self.parameters.points)
        return Block(tuple(treatments[at] for at in places for _ in range(self.parameters.repeats)))

    def tell(self, results: Sequence[Result]) -> None:
        """Count the trials that worked and those that failed; the curve's decide nothing, nor do invalid ones."""
        self._tries = self._tries_with(results)
        for result in results:
            if not result.trial.is_brief:
                self._is_measured = True
            elif result.outcome is Outcome.INVALID:
                self._spoilt[self._places[result.trial.treatment.identity]] += 1

    def _tries_with(self, results: Sequence[Result]) -> list[list[bool]]:
        """Return which trials of each value worked, these included."""
        tries = [[*tried] for tried in self._tries]
        for result in results:
            if result.trial.is_brief and result.outcome is not Outcome.INVALID:
                tries[self._places[result.trial.treatment.identity]].append(self._works(result))
        return tries

    def so_far(self, results: Sequence[Result]) -> str:
        """Return from which value on it works by now, and the next smaller one that does not."""
        if not self._tries:
            return ""
        step, values = search(self._tries_with(results)), tuple(self.treatments)
        parts = []
        if step.smallest is not None:
            parts.append(f"works from {values[step.smallest]} up")
        if step.failing is not None:
            parts.append(f"not at {values[step.failing]}")
        return f"{', '.join(parts)} so far" if parts else ""

    def forecast(self) -> Forecast:
        block = self.ask()
        count = len(block.treatments)
        if not block.is_brief:
            return Forecast(count, count)
        halvings = len(self.treatments).bit_length()
        return Forecast(0, self.parameters.points * self.parameters.repeats, 1, 2 * halvings + 8)

    def _works(self, result: Result) -> bool:
        """Tell whether the workload ran: something was committed, and no more failed than allowed."""
        found = reading(result)
        if result.outcome is not Outcome.MEASURED or found is None or found.is_bound:
            return False
        return _failed(result) <= self.parameters.most_failed

    def _failing(self, result: Result) -> str:
        """Return why a trial did not work; "" if it did, or if that is unknown."""
        if result.reason or self._works(result) or result.measurement is None:
            return result.reason
        errors = result.measurement.errors
        _, _, message, _ = max(errors, key=lambda x: x[-1], default=("", "", "", 0))
        return f"{percent_words(_failed(result))} of its transactions fail: {message}"

    def find(self, run: RunRecord) -> BoundaryFinding:
        """Return the boundary and the knee, where they are known."""
        results: dict[str, list[Result]] = {value: [] for value in self.treatments}
        by_identity = {x.identity: value for value, x in self.treatments.items()}
        for result in run.results:
            if (value := by_identity.get(result.trial.treatment.identity)) is not None:
                results[value].append(result)
        rates = {
            value: rates_of(x for x in of_value if not x.trial.is_brief)
            for value, of_value in results.items()
        }
        # Two trials of a value say little of its throughput, the repeats of all values more.
        model = fit(rates)
        tried = []
        points = []
        for value, of_value in results.items():
            if not of_value:
                continue
            size, worked, full = size_of(value), sum(map(self._works, of_value)), rates[value]
            tried.append(
                ValueTried(
                    value=value,
                    size=size,
                    worked=worked,
                    failed=sum(x.outcome is not Outcome.INVALID for x in of_value) - worked,
                    outcomes=dict(Counter(x.outcome.value for x in of_value)),
                    reason=next(filter(None, map(self._failing, reversed(of_value))), ""),
                    tps=(model.rate(value) or combined_rate(full)) if full else None,
                )
            )
            if size is not None and size > 0:
                points += [(size, math.log(one.per_s)) for one in full if one.committed]
        curve = knee([size for size, _ in points], [log for _, log in points])
        if curve.size is not None:
            sizes = {value: size_of(value) or 0.0 for value in self.treatments}
            at = next((value for value, x in sizes.items() if x >= curve.size * 0.999), None)
            curve = replace(curve, at=at)
        step, values = self.step, tuple(self.treatments)
        smallest = failing = None
        if step is not None and step.state is not State.SEARCHING:
            smallest = None if step.smallest is None else values[step.smallest]
            failing = None if step.failing is None else values[step.failing]
        found = BoundaryFinding(
            answer="",
            warnings=(),
            setting=self.setting,
            state="nothing to search" if step is None else step.state.value,
            smallest=smallest,
            failing=failing,
            values=tuple(tried),
            candidates=len(values),
            curve=curve,
            rungs={
                rung.name: by_identity[rung.treatment.identity]
                for rung in self.rungs
                if rung.treatment.identity in by_identity
            },
        )
        text = f"{_boundary_words(found)} {_knee_words(found)}".strip()
        return replace(found, answer=text, warnings=tuple(_warnings(found)))


def _failed(result: Result) -> float:
    total = result.measurement.total if result.measurement is not None else Counts()
    return total.failed / total.scheduled if total.scheduled else 0.0


def _boundary_words(found: BoundaryFinding) -> str:
    name = found.setting
    match found.state:
        case State.FOUND:
            why = next((x.reason for x in found.values if x.value == found.failing), "")
            because = f" ({why})" if why else ""
            return (
                f"The smallest value of {name} that works is {found.smallest}; {found.failing} does not "
                f"work{because}."
            )
        case State.ALL_WORK:
            return f"Every value of {name} tried works, from {found.smallest} up."
        case State.NONE_WORKS:
            why = next((x.reason for x in reversed(found.values) if x.reason), "")
            return f"No value of {name} tried works" + (f": {why}." if why else ".")
        case State.SEARCHING:
            tried = f"{len(found.values)} of {counted(found.candidates, 'value')}"
            invalid = Outcome.INVALID.value
            spoilt = [x for x in found.values if x.outcomes.get(invalid, 0) >= _MOST_SPOILT]
            if spoilt:
                times = counted(spoilt[0].outcomes[invalid], "invalid trial")
                return f"No answer: {times} of {name} = {spoilt[0].value} ({spoilt[0].reason})."
            return f"No answer yet: {tried} of {name} tried."
        case _:
            return "No answer: there are no values to try."


def _knee_words(found: BoundaryFinding) -> str:
    curve = found.curve
    match curve.verdict:
        case KneeVerdict.KNEE:
            assert curve.plateau_per_s is not None
            assert curve.low is not None
            assert curve.high is not None
            # The values, as they were written, that hold the interval.
            sized = [(x.size, x.value) for x in found.values if x.size is not None]
            below = [value for size, value in sized if size <= curve.low * 1.001]
            above = [value for size, value in sized if size >= curve.high * 0.999]
            low, high = format_number(curve.low), format_number(curve.high)
            if below and above:
                low, high = below[-1], above[0]
            return (
                f"Throughput rises up to about {curve.at} (95 % CI {low} to {high}), to "
                f"{format_rate(curve.plateau_per_s)}; more {found.setting} brings no significant gain."
            )
        case KneeVerdict.RISING:
            largest = found.values[-1].value
            return f"No knee: throughput still rises at {largest}, the largest value tried."
        case KneeVerdict.FLAT:
            return "No knee: throughput does not change significantly over the values that work."
        case KneeVerdict.UNKNOWN:
            return ""


def _warnings(found: BoundaryFinding) -> Iterator[str]:
    flaky = [x.value for x in found.values if x.worked and x.failed]
    if flaky:
        yield (
            f"{listed(flaky)} worked in one trial and failed in another; choose a value well above the "
            "boundary"
        )
    if found.state == State.FOUND and found.candidates > 1:
        yield (
            "values above the boundary are assumed to work, and values between those tried were not tested"
        )
    if found.curve.verdict is KneeVerdict.UNKNOWN and any(x.tps for x in found.values):
        yield "too few values work to locate a knee; try more values, closer together"
