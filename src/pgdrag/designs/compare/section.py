"""The picture of a comparison: its interval, its pairs, and what else differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.designs.compare.quantities import Direction, Quantity
from pgdrag.designs.compare.rules import End, Gate
from pgdrag.designs.compare.words import more_words, prospect_words
from pgdrag.english import capital, counted, percent_words
from pgdrag.findings.values import Findings, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import bare_ratio, bounds_words, brief_slowdown
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Details,
    Figure,
    Heading,
    KeyValues,
    Paragraph,
    Table,
    Tone,
)
from pgdrag.report.pairs_chart import PairsPicture, pairs_chart, pairs_text
from pgdrag.report.sections import Section, found_of
from pgdrag.report.sections._warnings import rung_warnings
from pgdrag.units import format_duration, format_interval, format_number, format_rate, format_ratio

_TITLE = "How the two compare"
_GATES = {
    Gate.PASS: ("✓ pass", Tone.GOOD),
    Gate.FAIL: ("✗ fail", Tone.BAD),
    Gate.INCONCLUSIVE: ("? neither pass nor fail", Tone.WARNING),
}
_ENDS = {
    End.GOING_ON: "not yet: more pairs are to come",
    End.DECIDED: "decided",
    End.MAX_PAIRS: "undecided after as many pairs as were allowed",
    End.REFERENCE_FAILED: "the reference has no number",
    End.TREATMENT_FAILED: "the treatment has no number",
    End.FAILED_OFTEN: "trials failed too often to go on",
    End.NOTHING_COMMITTED: "nothing was committed on either side",
}


class CompareSection(Section):
    """The interval with its margins pair by pair, how sure it is, and latency and processor time."""

    name: ClassVar[str] = "compare"
    summary: ClassVar[str] = (
        "the verdict's interval with every pair, and what else differs between two treatments"
    )
    title: ClassVar[str] = _TITLE
    order: ClassVar[int] = 11
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """There is something to show as soon as one pair of trials is complete."""
        found = findings.found
        return isinstance(found, CompareFinding) and found.slowdown is not None

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture, how sure it is, what else differs, each look and each pair."""
        found = found_of(findings, CompareFinding)
        return (
            *_picture(found),
            KeyValues(tuple(_sureness(found))),
            *_quantities(found, found.quantities),
            Details(f"All {counted(len(found.looks), 'look')}", (_looks(found),)),
            Details(f"All {counted(len(found.pairs), 'pair')}", (_pairs(found),)),
            *rung_warnings(findings),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the picture in characters, how sure it is, and the quantities that differ."""
        found = found_of(findings, CompareFinding)
        told = [one for one in found.quantities if one.direction is not Direction.UNTOLD]
        return (*_picture(found), KeyValues(tuple(_sureness(found))), *_quantities(found, told))


def _picture(found: CompareFinding) -> list[Block]:
    assert found.slowdown is not None, "no pair is complete"
    shown = PairsPicture(
        found.slowdown,
        brief_slowdown(found.verdict, found.slowdown),
        tuple(pair.slowdown for pair in found.pairs),
        1 + found.equivalence,
        None if found.margin is None else 1 + found.margin,
    )
    caption = (
        f"How many times slower {found.treatment} is than {found.reference}: the interval that the "
        "verdict rests on, and below it each pair of trials in the order run. Logarithmic scale, further "
        f"right is slower. The band is what counts as equal, ±{found.equivalence * 100:.3g} %"
    )
    caption += "." if found.margin is None else "; the broken line is the slowdown allowed."
    title = f"{found.treatment} against {found.reference}"
    return [Figure(pairs_chart(shown, title, found.answer), caption, pairs_text(shown))]


def _sureness(found: CompareFinding) -> list[tuple[str, Cell]]:
    shown = found.slowdown
    assert shown is not None, "no pair is complete"
    rows = [("Verdict", Cell(found.verdict.value, is_strong=True))]
    if found.gate is not None and found.margin is not None:
        words, tone = _GATES[found.gate]
        allowed = f"up to {format_ratio(1 + found.margin)} slower is allowed"
        rows.append(("Gate", Cell(f"{words}: {allowed}", tone=tone, is_strong=True)))
    rows += [
        (side, Cell(_rates(rates)))
        for side, rates in (
            (found.reference, [pair.reference_per_s for pair in found.pairs]),
            (found.treatment, [pair.treatment_per_s for pair in found.pairs]),
        )
    ]
    rows.append(("Effect", Cell(_interval_words(shown), _adjusted(found))))
    if found.fixed is not None:
        note = f"{percent_words(found.fixed.confidence)}: {found.fixed.method}"
        rows.append(("One look only", Cell(_interval_words(found.fixed), note)))
    if found.bootstrap is not None:
        note = f"{percent_words(found.bootstrap.confidence)}: {found.bootstrap.method}"
        rows.append(("Bootstrap", Cell(_interval_words(found.bootstrap), note)))
    if found.p is not None:
        rows.append(("p of no difference", Cell(f"{found.p:.2g}", "as if looked at once")))
    rows.append(("Smallest effect", Cell(_detectable(found))))
    rows.append(("Ended", Cell(_ENDS[found.end], more_words(found))))
    if words := prospect_words(found):
        rows.append(("To tell a slowdown", Cell(words, "four times in five, at this noise")))
    return [*rows, *_noise(found)]


def _adjusted(found: CompareFinding) -> str:
    shown = found.slowdown
    assert shown is not None, "no pair is complete"
    looks = len(found.looks)
    sure = f"{shown.confidence * 100:.3g} %"
    if looks <= 1:
        return f"{sure}: {shown.method}"
    return f"{sure}, for {looks} looks: {shown.method}"


def _detectable(found: CompareFinding) -> str:
    if math.isinf(found.detectable):
        return "these pairs could not have shown any"
    return f"{format_ratio(found.detectable)} would have been seen four times in five"


def _noise(found: CompareFinding) -> list[tuple[str, Cell]]:
    if found.pair_log_sd is None:
        return []
    here = f"pairs differ by {_spread(found.pair_log_sd)} (standard deviation)"
    floor = found.noise_floor
    if floor is None:
        return [("Noise", Cell(here, "pgdrag calibrate tells how much of it is the machine's own"))]
    when = f" on {floor.when}" if floor.when else ""
    calibrated = f"; this machine{when}: {_spread(floor.log_sd)}"
    note = f"{counted(floor.pairs, 'pair')} of one and the same treatment"
    return [("Noise", Cell(here + calibrated, note))]


def _quantities(found: CompareFinding, shown: Sequence[Quantity]) -> list[Block]:
    if not shown:
        return []
    columns = (
        Column("Quantity"),
        Column(found.reference, Align.RIGHT),
        Column(found.treatment, Align.RIGHT),
        Column("Ratio", Align.RIGHT),
        Column("Verdict"),
    )
    rows = tuple(
        (
            Cell(capital(one.label), is_strong=True),
            Cell(format_duration(one.reference)),
            Cell(format_duration(one.treatment)),
            Cell(format_ratio(one.ratio.center), bounds_words(one.ratio, bare_ratio)),
            _direction(one),
        )
        for one in shown
    )
    confidence = shown[0].ratio.confidence
    words = (
        f"Ratio: {found.treatment} divided by {found.reference}, with its {confidence * 100:.3g} % interval. "
        f"The verdicts are adjusted for {counted(len(found.quantities), 'quantity')} (Holm)."
    )
    table = Table("Latency and processor time of both sides", columns, rows)
    return [
        Heading("What else differs", "latency and processor time"),
        table,
        Paragraph(words, Tone.MUTED),
    ]


def _direction(one: Quantity) -> Cell:
    if one.direction is Direction.UNTOLD:
        return Cell(one.direction.value, tone=Tone.MUTED)
    arrow = "▲" if one.direction is Direction.HIGHER else "▼"
    return Cell(f"{arrow} {one.direction.value}", f"p {max(one.p_adjusted, 1e-9):.2g}")


def _looks(found: CompareFinding) -> Table:
    columns = (
        Column("Pairs", Align.RIGHT),
        Column("× slower", Align.RIGHT),
        Column("Confidence", Align.RIGHT),
        Column("Verdict"),
    )
    rows = tuple(
        (
            Cell(str(one.pairs)),
            Cell(_interval_words(one.slowdown)),
            Cell(f"{one.slowdown.confidence * 100:.4g} %"),
            Cell(one.verdict.value if one.gate is None else f"{one.verdict}; {one.gate}"),
        )
        for one in found.looks
    )
    return Table("Each look at the pairs", columns, rows)


def _pairs(found: CompareFinding) -> Table:
    columns = (
        Column("Block", Align.RIGHT),
        Column("First"),
        Column(found.reference, Align.RIGHT),
        Column(found.treatment, Align.RIGHT),
        Column("× slower", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(str(pair.block)),
            Cell(found.reference if pair.is_reference_first else found.treatment),
            Cell(format_rate(pair.reference_per_s)),
            Cell(format_rate(pair.treatment_per_s)),
            Cell(format_ratio(pair.slowdown, significant=4) if pair.slowdown < math.inf else "–"),
        )
        for pair in found.pairs
    )
    return Table("Each pair of trials", columns, rows)


def _rates(rates: Sequence[float]) -> str:
    """Return the geometric mean of rates with the lowest and highest."""
    if not all(rates):
        return f"{format_rate(min(rates))} to {format_rate(max(rates))}"
    mean = math.exp(sum(map(math.log, rates)) / len(rates))
    return (
        f"{format_rate(mean)} ({format_number(min(rates))} to {format_number(max(rates))} by pair)"
    )


def _interval_words(found: Interval) -> str:
    """Return an interval, and which way round it is as soon as that is told."""
    if found.low > 1 or found.high < 1 or found.center == 0:
        return slowdown_words(found)
    return format_interval(found.low, found.center, found.high)


def _spread(log_sd: float) -> str:
    return f"{math.expm1(log_sd) * 100:.2g} %"
