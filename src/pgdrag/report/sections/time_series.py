"""What happened when? Throughput, latency, waits, I/O and events of a trial on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.analysis.findings import LADDER, Findings, RungFinding
from pgdrag.analysis.wording import as_sentence, counted
from pgdrag.exhibits import Event
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Details,
    Items,
    Paragraph,
    Recording,
    Table,
    TimeSeries,
    Tone,
)
from pgdrag.report.sections import Section
from pgdrag.report.sections._recording import (
    MOST_MARKS,
    has_recording,
    longest_trace,
    recording_of,
)
from pgdrag.report.series_picture import series_picture
from pgdrag.report.series_words import panels_text
from pgdrag.report.thinning import points_of_each
from pgdrag.units import format_duration

# Trailing means and medians would make waves of noise, and of two unrelated lines two related ones.
_HOW_TO_READ = (
    "Seconds from the start of each window. A step is one interval as it was counted: nothing is "
    "smoothed. Every scale begins at 0; what stayed at 0 throughout is left out."
)


class TimeSeriesSection(Section):
    """Every series of each rung's middle trial over one time axis, another rung's beside it."""

    name: ClassVar[str] = "time-series"
    summary: ClassVar[str] = (
        "throughput, latency, waits, I/O and events over time, to be zoomed, two rungs in one picture"
    )
    title: ClassVar[str] = "What happened when"
    order: ClassVar[int] = 55

    def applies(self, findings: Findings) -> bool:
        """There is a line once a trial brought two points of anything."""
        return any(has_recording(rung) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one picture a rung; of two sides that are compared, one picture of both."""
        rungs = [rung for rung in findings.rungs if has_recording(rung)]
        points = points_of_each(len(rungs))
        recordings = {rung.rung.name: recording_of(rung, points) for rung in rungs}
        intro = Paragraph(_HOW_TO_READ, Tone.MUTED)
        if _is_pair(findings) and len(rungs) == 2:
            return (intro, *_rung_blocks(rungs[1], recordings, points, overlay=rungs[0]))
        details = (
            Details(_summary(rung), _rung_blocks(rung, recordings, points)) for rung in rungs
        )
        return (intro, *details)


def _is_pair(findings: Findings) -> bool:
    """Tell whether the run asks what one side is beside another: then both are in one picture."""
    return len(findings.rungs) == 2 and findings.run.study.design != LADDER


def _summary(rung: RungFinding) -> str:
    return f"{rung.rung.name} {rung.rung.title}".strip()


def _rung_blocks(
    rung: RungFinding,
    recordings: dict[str, Recording],
    points: int,
    overlay: RungFinding | None = None,
) -> tuple[Block, ...]:
    here = recordings[rung.rung.name]
    # What the rung is measured by comes first among those that can be laid over it.
    others = sorted(
        (one for one in recordings.values() if one is not here),
        key=lambda one: one.name != rung.previous,
    )
    beside = recordings[overlay.rung.name] if overlay is not None else None
    shown = [rung] if overlay is None else [rung, overlay]
    words = "; ".join(f"{panel.title}" for panel in here.panels)
    title = f"{rung.rung.name} over time"
    series = TimeSeries(
        here,
        tuple(others),
        overlay.rung.name if overlay is not None else "",
        series_picture(here, beside, title, words),
        _caption(shown, points),
        _text(here, beside),
    )
    return (series, *_events(shown), *_missing(rung))


def _text(here: Recording, beside: Recording | None) -> str:
    if beside is None:
        return panels_text(here.panels)
    return "\n\n".join(f"{one.name}\n{panels_text(one.panels)}" for one in (here, beside))


def _caption(shown: Sequence[RungFinding], points: int) -> str:
    trials = " and ".join(
        f"trial {rung.middle_trial} of {rung.rung.name}" for rung in shown if rung.middle_trial
    )
    parts = [
        f"{trials[:1].upper()}{trials[1:]}, in the middle by throughput."
        if trials
        else "The trial in the middle by throughput.",
    ]
    if len(shown) == 2:
        parts.append(f" Broken lines: {shown[1].rung.name}.")
    if any(longest_trace(rung) > points for rung in shown):
        parts.append(
            f" Lines of more than {points} intervals keep the lowest and the highest interval of each "
            f"of {points // 2} stretches of time."
        )
    return "".join(parts)


def _events(shown: Sequence[RungFinding]) -> list[Block]:
    blocks: list[Block] = []
    for rung in shown:
        if events := rung.exhibits.events:
            of = f" of {rung.rung.name}" if len(shown) > 1 else ""
            blocks.append(Details(f"{counted(len(events), 'event')}{of}", (_table(events, of),)))
            if len(events) > MOST_MARKS:
                cut = f"The picture and the table have the first {MOST_MARKS} events{of}."
                blocks.append(Items((cut,)))
    return blocks


def _table(events: Sequence[Event], of: str) -> Table:
    columns = (
        Column("From", Align.RIGHT),
        Column("Lasted", Align.RIGHT),
        Column("Event"),
        Column("What is known of it"),
    )
    rows = tuple(
        (
            Cell(format_duration(one.start_s)),
            Cell("" if one.end_s is None else format_duration(one.end_s - one.start_s)),
            Cell(one.kind if one.count == 1 else f"{one.kind} × {one.count:,}", is_strong=True),
            Cell(one.text),
        )
        for one in events[:MOST_MARKS]
    )
    return Table(f"Events{of} within the window", columns, rows)


def _missing(rung: RungFinding) -> list[Block]:
    missing = rung.exhibits.missing
    if not missing:
        return []
    return [Items(tuple(as_sentence(f"no {name}: {why}") for name, why in missing.items()))]
