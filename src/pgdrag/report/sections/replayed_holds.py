"""Are the replayed holds of the horizon as long as the captured ones?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import counted
from pgdrag.findings.holds.analysis import FEWEST_HOLDS, ReplayFinding
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.report.document import (
    Block,
    Cell,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.panels_chart import Line, Panel, panels_chart
from pgdrag.report.sections import Section
from pgdrag.report.svg import LogScale
from pgdrag.stats.distance import TOLERANCE
from pgdrag.stats.product_limit import LengthCurve
from pgdrag.units import format_duration

_HOW_TO_READ = (
    "The share of holds that last longer than a time: as captured, and as replayed in all trials of the rung together. "
    "A hold that the window's end cuts off counts as one that lasts at least as long."
)


class ReplayedHoldsSection(Section):
    """For each rung that replays a capture: both curves, and how far they are apart."""

    name = "replayed-holds"
    summary = "lengths of replayed holds against the captured ones"
    title = "Replayed holds"
    order = 49
    finding_type = ReplayFinding

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return, rung by rung, how well it was replayed, the picture, and both in numbers."""
        body: list[Block] = [Paragraph(_HOW_TO_READ, Tone.MUTED)]
        for at, rung in enumerate(findings.rungs):
            if replay := rung.get(ReplayFinding):
                body += _of_rung(rung, replay, at)
        return body

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence a rung."""
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


def _of_rung(rung: TreatmentFinding, found: ReplayFinding, at: int) -> list[Block]:
    is_well, sentence = found.distance.is_alike, replay_sentence(found)
    caption = (
        f"Share of holds that last longer: captured (dashed) and replayed by {rung.rung.name}."
    )
    blocks: list[Block] = [
        Heading(rung.rung.heading, found.file),
        Paragraph(sentence, Tone.PLAIN if is_well else Tone.WARNING),
        Figure(_chart(f"replayed-{at}", found, sentence), caption),
        _lengths(found),
        _kinds(found),
    ]
    if found.warnings:
        blocks.append(Items(found.warnings))
    return blocks


def _chart(name: str, found: ReplayFinding, description: str) -> str:
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
    columns = header("Share that ended by", ">Captured", ">Replayed")  # fmt: skip
    rows = [
        (Cell(f"{share:.0%}"), Cell(format_duration(wanted)), Cell(format_duration(held)))
        for share, wanted, held in found.distance.quantiles
    ]
    gap = f"{found.distance.largest_gap:.0%}"
    rows.append((Cell("Largest gap between the curves"), Cell(""), Cell(gap)))
    return Table("Lengths of holds", columns, tuple(rows))


def _kinds(found: ReplayFinding) -> Table:
    total = sum(kind.holds for kind in found.kinds)
    columns = header("Holder", ">Captured", ">Replayed")
    rows = tuple(
        (
            Cell(kind.holder),
            Cell(f"{kind.wanted:.0%}"),
            Cell(f"{kind.holds / total:.0%}", f"{kind.holds:,} of {total:,}"),
        )
        for kind in found.kinds
    )
    return Table("Kinds of holders", columns, rows)
