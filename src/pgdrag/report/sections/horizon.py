"""How does throughput depend on how long the horizon was held, what decides, and how does it recover?

And where holds were replayed: are they as long as the captured ones?
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.english import as_sentence, capital, counted, listed
from pgdrag.findings.dose.deciders import GROWING
from pgdrag.findings.dose.findings import (
    DOSES_MIN,
    DecidersFinding,
    DoseCurve,
    HorizonFinding,
    Recovery,
)
from pgdrag.findings.dose.recovery import BEFORE, BEGINNING
from pgdrag.findings.holds.analysis import FEWEST_HOLDS, ReplayFinding
from pgdrag.findings.holds.levels import NOTHING as NO_REMEDY
from pgdrag.findings.values import Findings, Interval, TreatmentFinding
from pgdrag.report.cells import bounds_words
from pgdrag.report.document import (
    NOTHING,
    Block,
    Cell,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    table_of,
)
from pgdrag.report.panels_chart import Line, Panel, panels_chart
from pgdrag.report.sections import Section
from pgdrag.report.svg import LogScale
from pgdrag.stats.hold_lengths import TOLERANCE, LengthCurve
from pgdrag.units import format_duration, format_number, format_rate, significant

_TITLE = "Throughput against the length of the hold"
_OF_DOSES = (
    "Each point is a {noun}: the fitted rate at the end of its hold, with its 95 % interval. The line is "
    f"r0 / (1 + length / half-dose), by weighted least squares on logarithms, from {DOSES_MIN} lengths on. "
    "Those that lose updates are left out."
)
_SHORT = {
    "falls": "falls with the length",
    "does not fall": "does not fall",
    "inconclusive": "inconclusive",
    "too few doses": "too few lengths",
}
_OF_DECIDERS = (
    "Partial rank correlations of the log rate over intervals of five seconds: -1 where more of the quantity always goes "
    "with less throughput while the other is held constant, 0 without a relation. 95 % intervals, from trials drawn with "
    "replacement. Within a hold all of these grow together; the time after a release separates them. Correlation does not "
    "show a cause."
)
_VERDICTS = {
    "the length, not this": "throughput depends on the length of the hold, not on the {}",
    "this, not the length": "throughput depends on the {}, not on the length of the hold",
    "both": "throughput depends on the length of the hold and on the {}",
    "inconclusive": "no significant dependence on either the length of the hold or the {}",
    "cannot be separated": "the length of the hold and the {} grew together and cannot be separated: add holds "
    "that end within the window, without a vacuum after them",
}
_OPEN = ("inconclusive", "cannot be separated")
_OF_RECOVERY = (
    "Time from the release until five consecutive seconds reach {share} % of the reference. Below it: the range that the "
    "trials allow, with the uncertainty of the reference and of five seconds. Where two ranges overlap, the difference is "
    "not significant. A window that ends before throughput recovers gives a lower bound."
)
_OF_REPLAYS = (
    "The share of holds that last longer than a time: as captured, and as replayed in all trials of the {noun} together. "
    "A hold that the window's end cuts off counts as one that lasts at least as long."
)


def _found(findings: Findings) -> HorizonFinding:
    return findings.get(HorizonFinding) or HorizonFinding((), (), ())


def _tenths(seconds: float) -> str:
    return format_duration(round(seconds, 1))


def _whole(seconds: float) -> str:
    return format_duration(round(seconds))


class DoseSection(Section):
    name = "dose"
    summary = "throughput against the length of the hold, one panel a variant"
    title = _TITLE
    order = 23
    is_folded = False
    finding_type = HorizonFinding
    needs = "doses"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        curves = _found(findings).doses
        panels = [_dose_panel(one) for one in curves]
        summary = "; ".join(f"{one.name}: {one.words}" for one in panels)
        longest_s = max(point.held_s for curve in curves for point in curve.points) or 1.0
        drawn = panels_chart("dose-chart", panels, _TITLE, summary, end=longest_s, plot=124)
        caption = "Committed per second at the end of the hold, against its length in the window."
        figure = Figure(drawn, caption, _doses_text(curves))
        reading = Paragraph(_OF_DOSES.format(noun=findings.noun), Tone.MUTED)
        return (figure, _doses(curves), _points(curves, findings.noun_heading), reading)

    def brief(self, findings: Findings) -> Sequence[Block]:
        return (_doses(_found(findings).doses),)


def _doses(curves: Sequence[DoseCurve]) -> Items:
    return Items(tuple(f"{one.variant}: {dose_sentence(one)}" for one in curves))


def dose_sentence(found: DoseCurve) -> str:
    """Return what the length of the hold does to throughput."""
    half = found.half_dose_s
    lengths = counted(found.doses, "length")
    if half is None:
        return f"{lengths} of hold are too few for a curve; hold for {DOSES_MIN} lengths or more."
    over = f"over {lengths} up to {_whole(found.longest_s)}"
    if found.verdict == "does not fall":
        return f"throughput does not fall with the length of the hold {over}: by less than 10 % at the longest."
    order = "" if found.monotone is None else f" (Kendall's tau {found.monotone:+.2f})"
    if found.verdict == "inconclusive":
        return (
            f"no significant effect of the length of the hold {over}{order}; run more replicates."
        )
    beyond = ", longer than any hold here" if half.center > found.longest_s else ""
    return (
        f"throughput falls with the length of the hold {over}{order}. A hold of {_tenths(half.center)} "
        f"(95 % CI {bounds_words(half, _tenths)}) halves it{beyond}."
    )


def _dose_panel(curve: DoseCurve) -> Panel:
    highest = max(one.per_s.center for one in curve.points) * 1.1
    top = f"to {format_rate(significant(highest, 3))}"
    fit = Line(curve.curve, "fit")
    rates = tuple((one.held_s, one.per_s) for one in curve.points)
    return Panel(curve.variant, "", _SHORT[curve.verdict], (fit,), highest, top, estimates=rates)


def _doses_text(curves: Sequence[DoseCurve]) -> str:
    """Return the points in characters: a line a dose, with a bar as long as its rate."""
    lines = []
    for curve in curves:
        highest = max(one.per_s.center for one in curve.points)
        lines.append(f"{curve.variant}: {_SHORT[curve.verdict]}")
        for one in curve.points:
            bar = "█" * max(round(one.per_s.center / highest * 40), 1)
            rate = format_rate(significant(one.per_s.center, 3))
            lines.append(f"{one.rung:>6}  {_tenths(one.held_s):>10}  {bar} {rate}")
    return "\n".join(lines)


def _points(curves: Sequence[DoseCurve], heading: str) -> Table:
    return table_of(
        "Throughput at the end of each hold",
        [(curve.variant, point) for curve in curves for point in curve.points],
        {
            heading: lambda x: Cell(x[1].rung, is_strong=True),
            ">Held for": lambda x: _tenths(x[1].held_s) if x[1].held_s else "not held",
            ">Rate at its end": lambda x: Cell(
                format_rate(x[1].per_s.center), bounds_words(x[1].per_s, format_number)
            ),
            "Variant": lambda x: x[0],
        },
    )


class WhatDecidesSection(Section):
    name = "what-decides"
    summary = "whether the length of the hold decides, or what grows with it"
    title = "What decides: the length of the hold, or what grows with it"
    order = 24
    is_folded = False
    finding_type = HorizonFinding
    needs = "deciders"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = _found(findings).deciders
        blocks: list[Block] = [_verdicts(found)]
        for one in found:
            blocks.append(_correlations(one))
            blocks.append(Paragraph(_basis(one), Tone.MUTED))
        return (*blocks, Paragraph(_OF_DECIDERS, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        return (_verdicts(_found(findings).deciders),)


def _verdicts(found: Sequence[DecidersFinding]) -> Items:
    return Items(tuple(as_sentence(f"{one.variant}: {deciders_words(one)}") for one in found))


def deciders_words(found: DecidersFinding) -> str:
    """Return what throughput depends on."""
    by_verdict: dict[str, list[str]] = {}
    for one in found.deciders:
        by_verdict.setdefault(one.verdict, []).append(one.label)
    return "; ".join(_VERDICTS[verdict].format(listed(x)) for verdict, x in by_verdict.items())


def _basis(found: DecidersFinding) -> str:
    missing = [GROWING[name] for name in found.missing]
    unseen = f"; not enough intervals of: {listed(missing)}" if missing else ""
    read = f"{counted(found.intervals, 'interval')} of {counted(found.trials, 'trial')}"
    return as_sentence(f"{found.variant}: {read}{unseen}")


def _correlations(found: DecidersFinding) -> Table:
    def correlation(found: Interval | None) -> Cell:
        if found is None:
            return NOTHING
        return Cell(f"{found.center:+.2f}", f"{found.low:+.2f} to {found.high:+.2f}")

    return table_of(
        f"What throughput depends on: {found.variant}",
        found.deciders,
        {
            "Quantity": lambda one: Cell(one.label, is_strong=True),
            ">Given the length": lambda one: correlation(one.this_given_length),
            ">The length, given it": lambda one: correlation(one.length_given_this),
            ">Given all others": lambda one: correlation(one.this_given_all),
            ">With the length": lambda one: f"{one.with_length:+.2f}",
            "Decides": lambda one: Cell(
                one.verdict, tone=Tone.WARNING if one.verdict in _OPEN else Tone.PLAIN
            ),
        },
    )


class RecoverySection(Section):
    name = "recovery"
    summary = "time from the release of the horizon until throughput recovers"
    title = "Recovery after the release"
    order = 27
    is_folded = False
    finding_type = HorizonFinding
    needs = "recoveries"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = _found(findings).recoveries
        reading = _OF_RECOVERY.format(share=f"{found[0].share * 100:.0f}")
        table = _recoveries(found, findings.noun)
        return (table, *_compared(found), Paragraph(reading, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        sentences = (f"{one.rung}: {recovery_sentence(one)}" for one in _found(findings).recoveries)
        return (Items(tuple(sentences)),)


def recovery_sentence(found: Recovery) -> str:
    """Return how long throughput took to recover."""
    after = "" if found.after_release == NO_REMEDY else f" and {found.after_release}"
    what = f"after a hold of {_whole(found.held_s)}{after} throughput"
    reference = {BEFORE: "the rate before the hold", BEGINNING: "the rate at the hold's beginning"}
    of = reference.get(found.reference, f"{found.reference}'s rate")
    level = f"{found.share * 100:.0f} % of {of}"
    if math.isinf(found.back_s.center):
        return f"{what} does not recover to {level} within {_whole(found.watched_s)}."
    return (
        f"{what} recovers to {level} in {_tenths(found.back_s.center)} "
        f"({bounds_words(found.back_s, _tenths)})."
    )


def _recoveries(found: Sequence[Recovery], noun: str) -> Table:
    def back(one: Recovery) -> Cell:
        if math.isinf(one.back_s.center):
            return Cell(f"> {_whole(one.watched_s)}", "not within the window", Tone.WARNING)
        return Cell(_tenths(one.back_s.center), bounds_words(one.back_s, _tenths), is_strong=True)

    return table_of(
        f"Recovery of each {noun}",
        sorted(found, key=lambda one: round(one.held_s)),
        {
            capital(noun): lambda one: Cell(one.rung, is_strong=True),
            ">Held for": lambda one: _whole(one.held_s),
            "Then": lambda one: one.after_release,
            ">Recovers in": back,
            "Against": lambda one: one.reference,
            ">Trials": lambda one: Cell(
                str(one.trials), f"{one.censored} did not recover" if one.censored else ""
            ),
        },
    )


def _compared(found: Sequence[Recovery]) -> list[Block]:
    """Compare holds of one length with and without a vacuum after them."""
    sentences = [
        _difference(one, other)
        for one in found
        for other in found
        if one.after_release == NO_REMEDY != other.after_release
        and math.isclose(other.held_s, one.held_s, rel_tol=0.05)
    ]
    return [Items(tuple(sentences))] if sentences else []


def _difference(nothing: Recovery, done: Recovery) -> str:
    names = f"{done.rung} against {nothing.rung}"
    what = f"{names}: {done.after_release} after a hold of {_whole(done.held_s)}"
    if min(nothing.trials, done.trials) < 2:  # one trial does not show how much trials differ
        return f"{what} needs 2 replicates or more to compare."
    if done.back_s.high < nothing.back_s.low:
        return f"{what} makes throughput recover sooner."
    if done.back_s.low > nothing.back_s.high:
        return f"{what} makes throughput recover later."
    return f"{what} makes no significant difference."


class ReplayedHoldsSection(Section):
    name = "replayed-holds"
    summary = "lengths of replayed holds against the captured ones"
    title = "Replayed holds"
    order = 49
    finding_type = ReplayFinding

    def blocks(self, findings: Findings) -> Sequence[Block]:
        body: list[Block] = [Paragraph(_OF_REPLAYS.format(noun=findings.noun), Tone.MUTED)]
        for at, rung in enumerate(findings.rungs):
            if replay := rung.get(ReplayFinding):
                body += _replay(rung, replay, at)
        return body

    def brief(self, findings: Findings) -> Sequence[Block]:
        found = findings.by_rung(ReplayFinding)
        sentences = tuple(f"{name}: {replay_sentence(one)}" for name, one in found.items())
        return (Heading(self.title), Items(sentences)) if sentences else ()


def replay_sentence(replay: ReplayFinding) -> str:
    """Return how well the lengths of the holds agree."""
    found = replay.distance
    made = counted(found.holds, "replayed hold")
    factor = f"a factor of {found.factor:.2f} (95 % CI {found.low:.2f}–{found.high:.2f})"
    if found.holds < FEWEST_HOLDS:
        return f"{made}, too few to judge: lengths differ by {factor}."
    chance = f"chance alone gives up to {found.chance:.2f}"
    if found.factor <= TOLERANCE:
        return f"{made} are as long as the captured ones: lengths differ by {factor}, within {TOLERANCE}."
    if found.is_alike:
        return f"{made} do not differ significantly from the captured ones: {factor}; {chance}."
    return f"{made} are not as long as the captured ones: lengths differ by {factor}; {chance}."


def _replay(rung: TreatmentFinding, found: ReplayFinding, at: int) -> list[Block]:
    is_well, sentence = found.distance.is_alike, replay_sentence(found)
    caption = (
        f"Share of holds that last longer: captured (dashed) and replayed by {rung.rung.name}."
    )
    blocks: list[Block] = [
        Heading(rung.rung.heading, found.file),
        Paragraph(sentence, Tone.PLAIN if is_well else Tone.WARNING),
        Figure(_replay_chart(f"replayed-{at}", found, sentence), caption),
        _lengths(found),
        _kinds(found),
    ]
    if found.warnings:
        blocks.append(Items(found.warnings))
    return blocks


def _replay_chart(name: str, found: ReplayFinding, description: str) -> str:
    scale = LogScale.around((*found.wanted.lengths_s, *found.held.lengths_s))
    panel = Panel(
        counted(found.distance.holds, "replayed hold"),
        f"and the captured ones of {found.file} (dashed)",
        "",
        (
            Line(_corners(found.wanted, scale), "line beside line-1"),
            Line(_corners(found.held, scale), "line line-2"),
        ),
        1.0,
        "",
        levels=tuple((share, f"{share:.0%}") for share in (0.25, 0.5, 0.75, 1.0)),
    )
    title = "Share of holds that last longer than a time"
    return panels_chart(name, [panel], title, description, scale=scale, plot=150)


def _corners(curve: LengthCurve, scale: LogScale) -> list[tuple[float, float]]:
    """Return the corners of the steps."""
    corners, above = [(scale.low, 1.0)], 1.0
    for length_s, longer in zip(curve.lengths_s, curve.longer, strict=True):
        corners += [(length_s, above), (length_s, longer)]
        above = longer
    return [*corners, (scale.high, 0.0)]


def _lengths(found: ReplayFinding) -> Table:
    rows = [
        (f"{share:.0%}", format_duration(wanted), format_duration(held))
        for share, wanted, held in found.distance.quantiles
    ]
    gap = ("Largest gap between the curves", "", f"{found.distance.largest_gap:.0%}")
    return table_of(
        "Lengths of holds",
        [*rows, gap],
        {
            "Share that ended by": lambda row: row[0],
            ">Captured": lambda row: row[1],
            ">Replayed": lambda row: row[2],
        },
    )


def _kinds(found: ReplayFinding) -> Table:
    total = sum(kind.holds for kind in found.kinds)
    return table_of(
        "Kinds of holders",
        found.kinds,
        {
            "Holder": lambda kind: kind.holder,
            ">Captured": lambda kind: f"{kind.wanted:.0%}",
            ">Replayed": lambda kind: Cell(
                f"{kind.holds / total:.0%}", f"{kind.holds:,} of {total:,}"
            ),
        },
    )
