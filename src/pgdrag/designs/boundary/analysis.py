"""What did a search for a boundary find? The smallest value that works, and the knee of the curve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.designs.boundary.course import BoundaryCourse, size_of, works
from pgdrag.designs.boundary.curve import Knee, KneeVerdict, State, Step, knee
from pgdrag.english import counted, listed
from pgdrag.findings.combine import rate_of
from pgdrag.findings.design_analysis import DesignAnalysis
from pgdrag.findings.values import DesignFinding, Interval
from pgdrag.model import Rung, RunRecord, Treatment
from pgdrag.stats.distributions import normal_quantile, student_quantile
from pgdrag.stats.rates import Noise, TrialRate, combined_rate, within_spread
from pgdrag.units import format_number, format_rate

NOTHING_LEFT = "nothing to search"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class ValueTried:
    """One value of the setting.

    Attributes:
        value: as it was written.
        size: as a number, in bytes or seconds where it has a unit; None: it is none.
        worked, failed: trials in which something was committed, and in which nothing was.
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
class KneeFinding:
    """Where the curve becomes level.

    Attributes:
        verdict: "knee", "still rising", "flat" or "unknown".
        at: the smallest value tried that lies at or above the knee; None without one.
        size: the knee itself, as a number; None without one.
        low, high: its 95 % interval, in the same unit.
        slope: of the rising part on logarithms: 0.5 is a gain of 41 % for each doubling.
        plateau_per_s: throughput beyond the knee, or at the largest value.
    """

    verdict: str
    at: str | None
    size: float | None
    low: float | None
    high: float | None
    slope: float | None
    plateau_per_s: float | None


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
    """

    # What is tried are values of the setting, and no rung.
    has_rungs: ClassVar[bool] = False

    setting: str
    state: str
    smallest: str | None
    failing: str | None
    values: tuple[ValueTried, ...]
    candidates: int
    curve: KneeFinding


class BoundaryAnalysis(DesignAnalysis):
    """The search for the smallest working value of a study's setting."""

    name: ClassVar[str] = "boundary"

    def find(self, run: RunRecord) -> BoundaryFinding:
        """Return boundary and knee, as far as they are known."""
        course = course_of(run.study.rungs, run.study.design_parameters)
        course.replay(run.results)
        step = course.step
        noise = _pooled_noise([_rates(course, place) for place in range(len(course.values))])
        values = tuple(
            _tried(course, place, value, noise)
            for place, value in enumerate(course.values)
            if course.outcomes(place)
        )
        found = BoundaryFinding(
            answer="",
            warnings=(),
            setting=course.setting,
            state=NOTHING_LEFT if step is None else step.state.value,
            smallest=_value_at(course, None if step is None else step.smallest, step),
            failing=_value_at(course, None if step is None else step.largest_failing, step),
            values=values,
            candidates=len(course.values),
            curve=_knee_finding(course),
        )
        flaky = tuple(course.values[at] for at in step.is_flaky) if step is not None else ()
        return BoundaryFinding(
            **{**vars(found), "answer": _answer(found), "warnings": tuple(_doubts(found, flaky))}
        )


def course_of(rungs: Sequence[Rung], parameters: Mapping[str, object]) -> BoundaryCourse:
    """Return the course that a study's design takes."""
    values, setting = parameters.get("values", ()), parameters.get("setting", "")
    points, repeats = parameters.get("points", 7), parameters.get("repeats", 2)
    assert isinstance(values, Sequence)
    assert isinstance(points, int)
    assert isinstance(repeats, int)
    rungs = rungs or (Rung("reference", "", Treatment("reference")),)
    return BoundaryCourse(rungs, str(setting), [str(x) for x in values], points, repeats)


def _tried(course: BoundaryCourse, place: int, value: str, noise: Noise | None) -> ValueTried:
    results = course.outcomes(place)
    rates = _rates(course, place)
    worked = sum(works(x) for x in results)
    return ValueTried(
        value=value,
        size=size_of(value),
        worked=worked,
        failed=len(results) - worked,
        outcomes=dict(Counter(x.outcome.value for x in results)),
        reason=next((x.reason for x in reversed(results) if x.reason), ""),
        tps=_interval(rates, noise) if rates else None,
    )


def _rates(course: BoundaryCourse, place: int) -> list[TrialRate]:
    """Return the throughput of a value's full trials."""
    return [
        rate_of(x, x.measurement)
        for x in course.outcomes(place)
        if not x.trial.is_brief and x.measurement is not None and x.measurement.elapsed_s > 0
    ]


def _pooled_noise(values: Sequence[Sequence[TrialRate]]) -> Noise | None:
    """Return the noise between trials of one value, from the repeats of all; None without any."""
    squares, dof = 0.0, 0
    for rates in values:
        logs = [math.log(x.per_s) for x in rates if not x.has_few_commits]
        if len(logs) > 1:
            mean = sum(logs) / len(logs)
            squares += sum((x - mean) ** 2 for x in logs)
            dof += len(logs) - 1
    return Noise(math.sqrt(squares / dof), dof) if dof else None


def _interval(rates: Sequence[TrialRate], noise: Noise | None) -> Interval:
    """Return a value's throughput: two trials of it say little, the repeats of all values more."""
    if noise is None or any(x.has_few_commits for x in rates):
        return combined_rate(rates)
    center = sum(math.log(x.per_s) for x in rates) / len(rates)
    within = math.sqrt(sum(within_spread(x).log_se ** 2 for x in rates)) / len(rates)
    half = max(
        student_quantile((1 + CONFIDENCE) / 2, noise.dof) * noise.log_sd / math.sqrt(len(rates)),
        normal_quantile((1 + CONFIDENCE) / 2) * within,
    )
    return Interval(
        math.exp(center - half),
        math.exp(center),
        math.exp(center + half),
        CONFIDENCE,
        f"t interval, noise of {noise.dof + 1} repeats of all values",
    )


def _value_at(course: BoundaryCourse, place: int | None, step: Step | None) -> str | None:
    if place is None or step is None or step.state is State.SEARCHING:
        return None
    return course.values[place]


def _knee_finding(course: BoundaryCourse) -> KneeFinding:
    sizes, logs = [], []
    for place, value in enumerate(course.values):
        size = size_of(value)
        if size is None or size <= 0:
            continue
        for one in course.readings(place):
            sizes.append(size)
            logs.append(one.log_per_s)
    found: Knee = knee(sizes, logs)
    at = None
    if found.at is not None:
        named = [(size_of(value) or 0.0, value) for value in course.values]
        at = next((value for size, value in named if size >= found.at * 0.999), None)
    return KneeFinding(
        found.verdict.value,
        at,
        found.at,
        found.low,
        found.high,
        found.slope,
        found.plateau_per_s,
    )


def _answer(found: BoundaryFinding) -> str:
    return f"{_boundary_words(found)} {_knee_words(found)}".strip()


def _boundary_words(found: BoundaryFinding) -> str:
    name = found.setting
    match found.state:
        case State.FOUND:
            why = next((x.reason for x in found.values if x.value == found.failing), "")
            because = f" ({why})" if why else ""
            return (
                f"The smallest value of {name} at which the workload runs is {found.smallest}; at "
                f"{found.failing} it does not{because}."
            )
        case State.ALL_WORK:
            return f"The workload runs at every value of {name} tried, from {found.smallest} on."
        case State.NONE_WORKS:
            why = next((x.reason for x in reversed(found.values) if x.reason), "")
            return f"The workload runs at no value of {name} tried" + (f": {why}." if why else ".")
        case State.SEARCHING:
            tried = counted(len(found.values), "value")
            return f"No answer yet: {tried} of {name} tried, of {found.candidates} candidates."
        case _:
            return "No answer: no values to try."


def _knee_words(found: BoundaryFinding) -> str:
    curve, name = found.curve, found.setting
    match curve.verdict:
        case KneeVerdict.KNEE:
            assert curve.size is not None
            assert curve.plateau_per_s is not None
            bounds = _bounds_words(found)
            return (
                f"Throughput rises up to about {curve.at}{bounds}, to {format_rate(curve.plateau_per_s)}; "
                f"more {name} gains nothing that these trials could tell."
            )
        case KneeVerdict.RISING:
            largest = found.values[-1].value
            return f"No knee: throughput still rises at {largest}, the largest value tried."
        case KneeVerdict.FLAT:
            return "No knee: throughput does not depend on it by more than noise over the values that work."
        case _:
            return ""


def _bounds_words(found: BoundaryFinding) -> str:
    """Return the interval of the knee in values as they were written: those that hold it."""
    curve = found.curve
    assert curve.low is not None
    assert curve.high is not None
    sized = [(x.size, x.value) for x in found.values if x.size is not None]
    below = [value for size, value in sized if size <= curve.low * 1.001]
    above = [value for size, value in sized if size >= curve.high * 0.999]
    if not below or not above:
        return f" ({format_number(curve.low)} to {format_number(curve.high)})"
    return f" (between {below[-1]} and {above[0]})"


def _doubts(found: BoundaryFinding, flaky: Sequence[str]) -> list[str]:
    told = []
    if flaky:
        told.append(
            f"at {listed(flaky)} it worked in one trial and failed in another: near the boundary chance "
            "decides; choose a value well above it"
        )
    if found.state == State.FOUND and found.candidates > 1:
        told.append(
            "what works at a value is taken to work above it, too; values between those tried were not"
        )
    if found.curve.verdict == KneeVerdict.UNKNOWN and any(x.tps for x in found.values):
        told.append("too few values work to see a knee; try more values, closer together")
    return told
