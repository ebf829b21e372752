"""What happened when? Throughput, latency, waits, I/O and events of a trial on one time axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdrag.english import as_sentence, capital, counted, listed
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Event
from pgdrag.report.cells import checkpoints_of
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
    table_of,
)
from pgdrag.report.sections import Section
from pgdrag.report.series_panels import events_by_kind
from pgdrag.report.series_words import panels_text, spark
from pgdrag.report.thinning import points_of_each
from pgdrag.report.trial_series import has_recording, recording_of
from pgdrag.units import format_duration, format_rate

# Trailing means and medians would make waves of noise, and of two unrelated lines two related ones.
_HOW_TO_READ = (
    "A step is one interval as it was counted: nothing is smoothed. Each percentile of latency is that of the "
    "transaction type in which it is highest. What stayed at 0 is left out."
)
_FEW = 20  # events that a table lists one by one


class TimeSeriesSection(Section):
    name = "time-series"
    summary = "throughput, latency, waits, I/O and events over time, to be zoomed, two treatments in one picture"
    title = "What happened when"
    order = 41
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        return any(has_recording(rung) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one picture of all, and folded one a rung; of two sides that are compared, one picture of both."""
        rungs = [rung for rung in findings.rungs if has_recording(rung)]
        numbers = [len(x) for one in rungs for x in events_by_kind(one.recordings.events).values()]
        marks = points_of_each(numbers, most=100, least=10, in_all=400)
        recordings = {rung.rung.name: recording_of(rung, marks) for rung in rungs}
        intro = Paragraph(f"{checkpoint_words(findings)} {_HOW_TO_READ}".strip(), Tone.MUTED)
        if len(rungs) == len(findings.rungs) == 2 and not findings.is_cumulative:
            # The run asks what one side is beside the other.
            return (intro, *_picture(rungs[1], recordings, rungs[0]), *_missing(rungs))
        pictures = [Details(one.rung.heading, _picture(one, recordings)) for one in rungs]
        return (*_of_all(findings, rungs, recordings), intro, *pictures, *_missing(rungs))


def _of_all(
    findings: Findings, rungs: Sequence[TreatmentFinding], recordings: Mapping[str, Recording]
) -> list[Block]:
    """Return the picture of all rungs over each other; nothing where there is one."""
    if len(rungs) < 2:
        return []
    first, *others = recordings.values()
    caption = f"The trial of median throughput of each {findings.noun}; all windows begin at 0."
    text = throughput_text([(one.rung.name, one.samples) for one in rungs])
    return [TimeSeries(first, tuple(others), "", caption, text, is_of_all=True)]


def throughput_text(found: Sequence[tuple[str, Sequence[Sample]]]) -> str:
    """Return the throughput of each in characters, each with its own scale."""
    width = max(len(name) for name, _ in found)
    lines = []
    for name, samples in found:
        rates = [one.committed / one.duration_s for one in samples if one.duration_s]
        ends = dict.fromkeys(format_rate(end(rates)) for end in (min, max)) if rates else ()
        span = " to ".join(ends) or "no samples"
        lines.append(f"{name:{width}}  {spark(rates)}  {span}")
    return "\n".join(lines)


def checkpoint_words(findings: Findings) -> str:
    """Say how many checkpoints began in the windows shown; "" if they were not counted."""
    counts: dict[int, list[str]] = {}
    for rung in findings.rungs:
        for result in findings.run.results:
            if result.trial.number == rung.middle_trial:
                count = checkpoints_of(result)
                if count is not None:
                    counts.setdefault(count, []).append(rung.rung.name)
    if not counts:
        return ""
    if list(counts) == [0]:
        return (
            "No checkpoint began in these windows: what checkpoints cost is not in these numbers."
        )
    named = [f"{count or 'none'} on {listed(names)}" for count, names in sorted(counts.items())]
    return f"Checkpoints that began in the window: {', '.join(named)}."


def _picture(
    rung: TreatmentFinding,
    recordings: Mapping[str, Recording],
    overlay: TreatmentFinding | None = None,
) -> tuple[Block, ...]:
    here = recordings[rung.rung.name]
    # What the rung is measured by comes first among those that can be laid over it.
    others = sorted(
        (one for one in recordings.values() if one is not here),
        key=lambda one: one.name != rung.previous,
    )
    shown = [rung, overlay] if overlay else [rung]
    trials = " and ".join(
        f"trial {one.middle_trial} of {one.rung.name}" for one in shown if one.middle_trial
    )
    caption = capital(f"{trials or 'the trial'} (median throughput).")
    text = panels_text(here.panels)
    if overlay:
        caption += f" Dashed lines: {overlay.rung.name}."
        beside = recordings[overlay.rung.name]
        text = f"{here.name}\n{text}\n\n{beside.name}\n{panels_text(beside.panels)}"
    name = overlay.rung.name if overlay else ""
    series = TimeSeries(here, tuple(others), name, caption, text, _change(rung))
    return (series, *_events(shown))


def _change(rung: TreatmentFinding) -> float:
    """Return by which factor throughput changed, as a logarithm.

    A rung that is compared with none (the baseline, or one that stalled) counts as changed most.
    """
    slowdown = rung.to_previous.slowdown if rung.to_previous is not None else None
    if slowdown is None or not 0 < slowdown.center < math.inf:
        return math.inf
    return abs(math.log(slowdown.center))


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
    return table_of(
        f"Events{of} within the window",
        events,
        {
            ">From": lambda one: format_duration(one.start_s),
            ">Lasted": _lasted_words,
            "Event": lambda one: Cell(
                one.kind if one.count == 1 else f"{one.kind} × {one.count:,}", is_strong=True
            ),
            "Details": lambda one: one.text,
        },
    )


def _by_kind(events: Sequence[Event], of: str) -> Table:
    alike = events_by_kind(events)
    longest = [max(each, key=_lasted_s) for each in alike.values()]
    return table_of(
        f"Events{of} within the window, by kind",
        longest,
        {
            "Event": lambda one: Cell(one.kind, is_strong=True),
            ">How many": lambda one: f"{sum(each.count for each in alike[one.kind]):,}",
            ">Longest": _lasted_words,
            ">From": lambda one: format_duration(one.start_s),
            "What is known of the longest": lambda one: (
                one.text if one.count == 1 else f"{one.count:,}: {one.text}"
            ),
        },
    )


def _lasted_words(event: Event) -> str:
    return format_duration(_lasted_s(event)) if _lasted_s(event) else ""


def _lasted_s(event: Event) -> float:
    return 0.0 if event.end_s is None else event.end_s - event.start_s


def _missing(rungs: Sequence[TreatmentFinding]) -> list[Block]:
    """Return what collectors could not record, each once, with the rungs concerned if not all."""
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
