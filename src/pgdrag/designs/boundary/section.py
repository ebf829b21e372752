"""How does a boundary read? Where a setting fails, where its curve rises, and where more gains nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from pgdrag.designs.boundary.curve import KneeVerdict, State
from pgdrag.designs.boundary.findings import BoundaryFinding, ValueTried
from pgdrag.english import counted, listed
from pgdrag.findings.values import Findings, Interval
from pgdrag.report.cells import NOTHING, bounds_words
from pgdrag.report.document import Align, Block, Cell, Column, Paragraph, Table, Tone
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_number, format_rate

_TITLE = "Times slower than at the largest value"


class BoundarySection(Section):
    """Throughput at each value with its interval, and how often each worked."""

    name: ClassVar[str] = "boundary"
    summary: ClassVar[str] = "throughput at each value of a setting, its boundary and its knee"
    title: ClassVar[str] = "Boundary and knee"
    order: ClassVar[int] = 15
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """There is something to show as soon as a value was tried."""
        return isinstance(findings.found, BoundaryFinding) and bool(findings.found.values)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the curve and the table of the values."""
        found = found_of(findings, BoundaryFinding)
        return (*_picture(found), *_knee(found), _table(found))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the table of the values."""
        found = found_of(findings, BoundaryFinding)
        return (_table(found), *_knee(found))


def answer(found: BoundaryFinding) -> str:
    """Return boundary and knee in one to three sentences."""
    return f"{_boundary_words(found)} {_knee_words(found)}".strip()


def warnings(found: BoundaryFinding) -> Iterator[str]:
    """Yield what may be wrong with it, each with the remedy still untried."""
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
            return f"No answer yet: {tried} of {name} tried."
        case _:
            return "No answer: there are no values to try."


def _knee_words(found: BoundaryFinding) -> str:
    curve = found.curve
    match curve.verdict:
        case KneeVerdict.KNEE:
            assert curve.plateau_per_s is not None
            return (
                f"Throughput rises up to about {curve.at} ({_bounds_words(found)}), to "
                f"{format_rate(curve.plateau_per_s)}; more {found.setting} brings no significant gain."
            )
        case KneeVerdict.RISING:
            largest = found.values[-1].value
            return f"No knee: throughput still rises at {largest}, the largest value tried."
        case KneeVerdict.FLAT:
            return "No knee: throughput does not change significantly over the values that work."
        case _:
            return ""


def _bounds_words(found: BoundaryFinding) -> str:
    """Return the interval of the knee in values as they were written: those that hold it."""
    low, high = found.curve.low, found.curve.high
    assert low is not None
    assert high is not None
    sized = [(x.size, x.value) for x in found.values if x.size is not None]
    below = [value for size, value in sized if size <= low * 1.001]
    above = [value for size, value in sized if size >= high * 0.999]
    if not below or not above:
        return f"95 % CI {format_number(low)} to {format_number(high)}"
    return f"95 % CI {below[-1]} to {above[0]}"


def _picture(found: BoundaryFinding) -> list[Block]:
    shown = [(x, x.tps) for x in found.values if x.tps is not None and x.tps.center > 0]
    if not shown:
        return []
    largest, top = shown[-1][0].value, shown[-1][1].center
    rows = [
        Row(x.value, _place(found, x), format_rate(tps.center), found=_slower(tps, top))
        for x, tps in shown
    ]
    description = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        f"How many times slower than at {largest}, with each value's 95 % interval. Logarithmic scale; "
        "further right is slower."
    )
    return [rows_figure(rows, _TITLE, description, caption, name="boundary-chart")]


def _slower(tps: Interval, top: float) -> Interval:
    """Return how many times slower it is than at the largest value, whose own error is left out."""
    high = top / tps.low if tps.low > 0 else math.inf
    return Interval(top / tps.high, top / tps.center, high, tps.confidence, tps.method)


def _place(found: BoundaryFinding, value: ValueTried) -> str:
    if value.value == found.curve.at:
        return "the knee"
    return "the smallest that works" if value.value == found.smallest else ""


def _knee(found: BoundaryFinding) -> list[Block]:
    curve = found.curve
    if curve.verdict != KneeVerdict.KNEE or curve.slope is None:
        return []
    gain = format_number((2**curve.slope - 1) * 100, significant=2)
    text = (
        f"Below the knee each doubling of {found.setting} gains {gain} %. Fitted: a line on logarithms that "
        "rises and then stays level. The knee's interval is a 95 % profile interval."
    )
    return [Paragraph(text, Tone.MUTED)]


def _table(found: BoundaryFinding) -> Table:
    columns = (
        Column("Value"),
        Column("Worked"),
        Column("Committed", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(x.value, _place(found, x), is_strong=True),
            _worked_cell(x),
            _rate_cell(x),
        )
        for x in found.values
    )
    return Table("Every value that was tried", columns, rows)


def _worked_cell(value: ValueTried) -> Cell:
    total = value.worked + value.failed
    if not total:
        return NOTHING
    if not value.failed:
        return Cell(f"in {counted(total, 'trial')}", tone=Tone.GOOD)
    text = f"in {value.worked} of {counted(total, 'trial')}"
    return Cell(text, value.reason, Tone.BAD if not value.worked else Tone.WARNING)


def _rate_cell(value: ValueTried) -> Cell:
    if value.tps is None:
        return NOTHING
    if value.tps.center == 0:
        return Cell(f"< {format_rate(value.tps.high)}", "nothing committed", Tone.BAD)
    return Cell(format_rate(value.tps.center), bounds_words(value.tps, format_number))
