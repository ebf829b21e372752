"""What happened when? Throughput, latency, waits, I/O and events of a trial on one time axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.english import as_sentence, capital, counted, listed
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import Event
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Items,
    Paragraph,
    Recording,
    Table,
    TimeSeries,
    Tone,
    header,
)
from pgdrag.report.sections import Section
from pgdrag.report.sections._fitting import change_of, fitted
from pgdrag.report.sections._recording import events_by_kind, has_recording, recording_of
from pgdrag.report.series_words import panels_text
from pgdrag.report.thinning import points_of_each, thinned_recording
from pgdrag.units import format_duration

# Trailing means and medians would make waves of noise, and of two unrelated lines two related ones.
_HOW_TO_READ = (
    "Seconds from the start of each window. A step is one interval as it was counted: nothing is "
    "smoothed. A percentile of latency is that of the type of transaction with the highest. Every scale begins at 0; what stayed at 0 throughout is left out."
)
_FEW = 20  # events that a table lists one by one


class TimeSeriesSection(Section):
    """Every series of each rung's middle trial over one time axis, another rung's beside it."""

    name: ClassVar[str] = "time-series"
    summary: ClassVar[str] = (
        "throughput, latency, waits, I/O and events over time, to be zoomed, two rungs in one picture"
    )
    title: ClassVar[str] = "What happened when"
    order: ClassVar[int] = 55
    takes_what_is_left: ClassVar[bool] = True

    def applies(self, findings: Findings) -> bool:
        """There is a line once a trial brought two points of anything."""
        return any(has_recording(rung) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one picture a rung; of two sides that are compared, one picture of both."""
        return self.blocks_within(findings, math.inf)

    def blocks_within(self, findings: Findings, room_bytes: float) -> Sequence[Block]:
        """Return the pictures as fine as there is room for; beyond that, not of all rungs."""
        rungs = [rung for rung in findings.rungs if has_recording(rung)]
        is_pair = _is_pair(findings) and len(rungs) == 2
        drawing = _Drawing(rungs, room_bytes=room_bytes)
        intro = Paragraph(_HOW_TO_READ, Tone.MUTED)
        if is_pair:
            pictures = drawing.of(rungs[1], overlay=rungs[0])
        else:
            pictures = tuple(
                Details(rung.rung.heading, drawing.of(rung))
                for rung in rungs
                if rung.rung.name in drawing.whole
            )
        return (intro, *_left_out(drawing.left_out), *pictures, *_missing(rungs))


def _is_pair(findings: Findings) -> bool:
    """Tell whether the run asks what one side is beside another: then both are in one picture."""
    return len(findings.rungs) == 2 and not findings.is_cumulative


def _left_out(names: Sequence[str]) -> list[Block]:
    if not names:
        return []
    text = (
        f"To keep this file small, the series of {listed(names)} are left out: throughput changed "
        "least there, against the rung that each is compared with. JSON has all of them."
    )
    return [Paragraph(text, Tone.MUTED)]


class _Drawing:
    """The pictures of several recordings, as fine as leaves the whole file small."""

    def __init__(self, rungs: Sequence[TreatmentFinding], *, room_bytes: float) -> None:
        numbers = [len(x) for one in rungs for x in events_by_kind(one.recordings.events).values()]
        marks = points_of_each(numbers, most=100, least=10, in_all=400)
        whole = {one.rung.name: recording_of(one, marks) for one in rungs}
        self.points, names = fitted(
            whole, {one.rung.name: change_of(one) for one in rungs}, room_bytes=room_bytes
        )
        self.whole = {name: whole[name] for name in names}
        self.left_out = [name for name in whole if name not in self.whole]
        self.longest = max(
            (
                len(trace.times_s)
                for recording in self.whole.values()
                for panel in recording.panels
                for trace in panel.traces
            ),
            default=0,
        )
        self.thinned = {
            name: thinned_recording(one, self.points) for name, one in self.whole.items()
        }

    def of(
        self, rung: TreatmentFinding, overlay: TreatmentFinding | None = None
    ) -> tuple[Block, ...]:
        here, name = self.thinned[rung.rung.name], overlay.rung.name if overlay else ""
        # What the rung is measured by comes first among those that can be laid over it.
        others = sorted(
            (one for one in self.thinned.values() if one is not here),
            key=lambda one: one.name != rung.previous,
        )
        shown = [rung, overlay] if overlay else [rung]
        text = _text([self.whole[one.rung.name] for one in shown])
        series = TimeSeries(here, tuple(others), name, self._caption(shown), text)
        return (series, *_events(shown))

    def _caption(self, shown: Sequence[TreatmentFinding]) -> str:
        trials = " and ".join(
            f"trial {rung.middle_trial} of {rung.rung.name}" for rung in shown if rung.middle_trial
        )
        words = f"{trials or 'the trial'}, in the middle by throughput."
        parts = [capital(words)]
        if len(shown) == 2:
            parts.append(f"Broken lines: {shown[1].rung.name}.")
        if self.longest > self.points:
            parts.append(
                f"Of lines of more than {self.points} intervals the lowest and the highest of each "
                f"of {self.points // 2} stretches of time are drawn."
            )
        return " ".join(parts)


def _text(recordings: Sequence[Recording]) -> str:
    if len(recordings) == 1:
        return panels_text(recordings[0].panels)
    return "\n\n".join(f"{one.name}\n{panels_text(one.panels)}" for one in recordings)


def _events(shown: Sequence[TreatmentFinding]) -> list[Block]:
    blocks: list[Block] = []
    for rung in shown:
        if events := rung.recordings.events:
            of = f" of {rung.rung.name}" if len(shown) > 1 else ""
            table = _each(events, of) if len(events) <= _FEW else _by_kind(events, of)
            words = f"{counted(sum(one.count for one in events), 'event')}{of}"
            blocks.append(Details(words, (table,)))
    return blocks


def _each(events: Sequence[Event], of: str) -> Table:
    columns = header(">From", ">Lasted", "Event", "What is known of it")
    rows = tuple(
        (
            Cell(format_duration(one.start_s)),
            Cell(format_duration(_lasted_s(one)) if _lasted_s(one) else ""),
            Cell(one.kind if one.count == 1 else f"{one.kind} × {one.count:,}", is_strong=True),
            Cell(one.text),
        )
        for one in events
    )
    return Table(f"Events{of} within the window", columns, rows)


def _by_kind(events: Sequence[Event], of: str) -> Table:
    columns = header("Event", ">How many", ">Longest", ">From", "What is known of the longest")
    rows = []
    for kind, alike in events_by_kind(events).items():
        longest = max(alike, key=_lasted_s)
        rows.append(
            (
                Cell(kind, is_strong=True),
                Cell(f"{sum(one.count for one in alike):,}"),
                Cell(format_duration(_lasted_s(longest)) if _lasted_s(longest) else ""),
                Cell(format_duration(longest.start_s)),
                Cell(longest.text if longest.count == 1 else f"{longest.count:,}: {longest.text}"),
            )
        )
    return Table(f"Events{of} within the window, by kind", columns, tuple(rows))


def _lasted_s(event: Event) -> float:
    return 0.0 if event.end_s is None else event.end_s - event.start_s


def _missing(rungs: Sequence[TreatmentFinding]) -> list[Block]:
    """Return once what collectors could not bring, and of which rungs where not of all."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for rung in rungs:
        for one in rung.recordings.missing.items():
            lacking.setdefault(one, []).append(rung.rung.name)
    if not lacking:
        return []
    sentences = (
        as_sentence(f"no {name}{'' if len(of) == len(rungs) else f' of {listed(of)}'}: {why}")
        for (name, why), of in lacking.items()
    )
    return [Details("What could not be seen", (Items(tuple(sentences)),))]
