"""What happened when? Throughput, latency, waits, I/O and events of a trial on one time axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from pgdrag.english import as_sentence, capital, counted, cut, listed
from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.findings.expecto.published import operational_speeds
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model import OPERATIONAL_SPEED
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import CALLS, ROWS, Event, Series
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Items,
    Mark,
    Panel,
    Paragraph,
    Recording,
    Table,
    TimeSeries,
    Tone,
    Trace,
    table_of,
)
from pgdrag.report.sections import Section
from pgdrag.report.series_words import panels_text
from pgdrag.report.thinning import points_of_each
from pgdrag.units import format_duration

# Trailing means and medians would make waves of noise, and of two unrelated lines two related ones.
_HOW_TO_READ = (
    "Seconds from the start of each window. A step is one interval as it was counted: nothing is "
    "smoothed. A percentile of latency is that of the type of transaction with the highest. Every scale begins at 0; what stayed at 0 throughout is left out."
)
_FEW = 20  # events that a table lists one by one


class TimeSeriesSection(Section):
    """Every series of each rung's middle trial over one time axis, another rung's beside it."""

    name = "time-series"
    summary = "throughput, latency, waits, I/O and events over time, to be zoomed, two treatments in one picture"
    title = "What happened when"
    order = 55

    def applies(self, findings: Findings) -> bool:
        """There is a line once a trial brought two points of anything."""
        return any(has_recording(rung) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one picture a rung; of two sides that are compared, one picture of both."""
        rungs = [rung for rung in findings.rungs if has_recording(rung)]
        numbers = [len(x) for one in rungs for x in events_by_kind(one.recordings.events).values()]
        marks = points_of_each(numbers, most=100, least=10, in_all=400)
        recordings = {rung.rung.name: recording_of(rung, marks) for rung in rungs}
        intro = Paragraph(_HOW_TO_READ, Tone.MUTED)
        if len(rungs) == len(findings.rungs) == 2 and not findings.is_cumulative:
            # The run asks what one side is beside the other.
            return (intro, *_picture(rungs[1], recordings, rungs[0]), *_missing(rungs))
        pictures = (Details(one.rung.heading, _picture(one, recordings)) for one in rungs)
        return (intro, *pictures, *_missing(rungs))


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
    caption = capital(f"{trials or 'the trial'}, in the middle by throughput.")
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
            "What is known of it": lambda one: one.text,
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


_MARK_TEXT = 80  # characters: the table of events has the whole text
_COLOURS = 6
# The panels in their order, with the names of their series; any other series has a panel of its own.
_SESSIONS = (
    "on_cpu_sessions",
    "io_wait_sessions",
    "lwlock_wait_sessions",
    "lock_wait_sessions",
    "client_wait_sessions",
    "other_wait_sessions",
)
_PANELS = (
    ("Sessions, by what they do", _SESSIONS),
    ("Sessions in other waits", tuple(x for x in WAIT_SERIES.values() if x not in _SESSIONS)),
    ("Statements: calls, and rows returned or changed", (CALLS, ROWS)),
    ("Device: bytes", ("disk_read_bytes_per_s", "disk_written_bytes_per_s")),
    ("Device: requests", ("disk_reads_per_s", "disk_writes_per_s")),
    ("Device: requests under way", ("disk_queue_length",)),
    ("Device: mean wait of a request", ("disk_read_wait_s", "disk_write_wait_s")),
    ("Device: time with a request under way", ("disk_busy_share",)),
    ("Blocks read into shared_buffers", ("blocks_read_per_s",)),
    (
        "Memory of the server's control group",
        ("control_group_memory_bytes", "control_group_page_cache_bytes"),
    ),
    ("Row versions in a HOT chain", ("hot_chain_length", "hot_chain_length_max")),
    ("Size of the tables and of their indexes", ("table_bytes", "index_bytes")),
    ("WAL", ("wal_bytes_per_s",)),
    ("Full-page images", ("full_page_images_per_s",)),
    (
        "Processors at work",
        ("host_user_processors", "host_system_processors", "host_iowait_processors"),
    ),
)
_GROUPED = frozenset(name for _, names in _PANELS for name in names)
# Series that there is one of for each table or index, beside that of all: those of a kind in one panel.
_OF_EACH = tuple(
    f"{name}_of_"
    for name in ("dead_versions_per_row", "hot_chain_length", "table_bytes", "index_bytes")
)
# The server's own upkeep, vacuums, what goes wrong; 4 is any other kind.
_MARK_COLOURS: Mapping[str, int] = {
    "checkpoint": 1,
    "vacuum": 2,
    "analyze": 2,
    "deadlock": 3,
    "lock wait": 3,
    "error": 3,
}
_OTHER_MARK = 4


def recording_of(rung: TreatmentFinding, marks_of_kind: int) -> Recording:
    """Return all panels of a rung that show anything, and at most so many marks of each kind."""
    ends = [rung.samples[-1].t_s] if rung.samples else []
    ends += sorted((one.times_s[-1] for one in rung.recordings.series if one.times_s), reverse=True)
    # The driver's window is the window; others were still looking when it had ended.
    length_s = ends[0] if ends else 0.0
    marks = [
        mark
        for events in events_by_kind(rung.recordings.events).values()
        for mark in _marks(events, length_s, marks_of_kind)
    ]
    marks.sort(key=lambda mark: mark.start_s)
    return Recording(rung.rung.name, length_s, tuple(_panels(rung)), tuple(marks))


def events_by_kind(events: Sequence[Event]) -> dict[str, list[Event]]:
    """Return events by kind, the kinds in the order in which they first happened."""
    kinds: dict[str, list[Event]] = {}
    for event in events:
        kinds.setdefault(event.kind, []).append(event)
    return kinds


def has_recording(rung: TreatmentFinding) -> bool:
    """Tell whether a rung has anything that a line can be drawn of."""
    return len(rung.samples) > 1 or any(len(one.times_s) > 1 for one in rung.recordings.series)


def _panels(rung: TreatmentFinding) -> Iterator[Panel]:
    if len(rung.samples) > 1:
        yield from _driver_panels(rung.samples)
        if rung.rung.claim.of == OPERATIONAL_SPEED:
            yield from _published_panel(rung)
    drawn = {one.name: one for one in rung.recordings.series if len(one.times_s) > 1}

    def panel(title: str, shown: Mapping[int, Series], *, is_each: bool = False) -> Iterator[Panel]:
        """Yield the panel of series by their colours, without what stayed at 0."""
        traces = tuple(
            _trace(one.label.partition(": ")[2] if is_each else one.label, at % _COLOURS + 1, one)
            for at, one in shown.items()
            if any(one.values)
        )
        if traces:
            first = next(iter(shown.values()))
            words = f"{title} (whole machine)" if first.is_of_machine else title
            yield Panel(words, first.unit, traces)

    for title, names in _PANELS:
        # A quantity keeps its colour whichever others are there.
        yield from panel(title, {at: drawn[x] for at, x in enumerate(names) if x in drawn})
    for beginning in _OF_EACH:
        if alike := [x for x in drawn.values() if x.name.startswith(beginning)]:
            title = f"{capital(alike[0].label.partition(': ')[0])}, each"
            yield from panel(title, dict(enumerate(alike)), is_each=True)
    for name, series in drawn.items():
        if name not in _GROUPED and not name.startswith(_OF_EACH):
            yield from panel(capital(series.label), {0: series})


def _trace(label: str, colour: int, series: Series) -> Trace:
    # A series tells the ends of its intervals; the first is taken to be as long as the second.
    first_s, second_s, *_ = series.times_s
    begin_s = 2 * first_s - second_s
    return Trace(
        label, max(begin_s, 0.0) if first_s > 0 else begin_s, series.times_s, series.values, colour
    )


def _driver_panels(samples: Sequence[Sample]) -> Iterator[Panel]:
    """Yield what the driver counted; a slow interval without any commit has no latency."""
    begin_s = samples[0].t_s - samples[0].duration_s
    ends = tuple(one.t_s for one in samples)

    def trace(label: str, colour: int, value: Callable[[Sample], float | None]) -> Trace:
        return Trace(label, begin_s, ends, tuple(value(one) for one in samples), colour)

    ended = [trace("committed", 1, lambda one: one.committed / one.duration_s)]
    if any(one.failed for one in samples):
        ended.append(trace("failed", 3, lambda one: one.failed / one.duration_s))
    yield Panel("Throughput", "1/s", tuple(ended))
    percentiles = (
        trace("50th percentile", 2, lambda one: one.p50_us and one.p50_us / 1e6),
        trace("95th percentile", 4, lambda one: one.p95_us and one.p95_us / 1e6),
        trace("99th percentile", 1, lambda one: one.p99_us and one.p99_us / 1e6),
    )
    known = tuple(one for one in percentiles if any(x is not None for x in one.values))
    if known:
        yield Panel("Latency", "s", known)
    if len({one.sessions for one in samples}) > 1:
        yield Panel(
            "Sessions with work", "count", (trace("sessions", 1, lambda one: one.sessions),)
        )


def _published_panel(rung: TreatmentFinding) -> Iterator[Panel]:
    """Yield what was published of such a study; nothing else in the picture is smoothed."""
    found = operational_speeds(rung.samples, rung.recordings)
    if found is not None and len(found.times_s) > 1:
        window = format_duration(found.window_s)
        of = "calls and rows" if found.source == "statements" else "commits"
        title = (
            f"Operational speed as pg_expecto defines it (trailing medians of {of} over {window})"
        )
        values = tuple(value / 60 for value in found.per_min)
        start_s = found.times_s[0] - found.interval_s
        yield Panel(title, "1/s", (Trace("operational speed", start_s, found.times_s, values, 2),))


def _marks(events: Sequence[Event], length_s: float, most: int) -> Iterator[Mark]:
    """Yield a mark an event; where they are too many, one for all that began in one stretch."""
    if len(events) <= most:
        yield from (_mark([event]) for event in events)
        return
    step_s = (length_s or 1.0) / (most - 1)  # one more for those that began before the window

    def stretch(event: Event) -> int:
        return max(min(int(event.start_s // step_s), most - 2), -1)

    ordered = sorted(events, key=lambda event: event.start_s)
    yield from (_mark(list(group)) for _, group in groupby(ordered, stretch))


def _mark(events: Sequence[Event]) -> Mark:
    first = events[0]
    ends = [one.end_s for one in events if one.end_s is not None]
    if len(events) > 1:
        ends.append(events[-1].start_s)
    text = cut(first.text, _MARK_TEXT)
    colour = _MARK_COLOURS.get(first.kind, _OTHER_MARK)
    count = sum(one.count for one in events)
    return Mark(first.kind, first.start_s, max(ends, default=None), text, count, colour)
