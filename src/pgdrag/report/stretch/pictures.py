"""Which pictures does a stretch have, and what happened in it? Every sample is a step; a line stops where nothing was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pgdrag.model.observed import ObservedSeries, Stretch
from pgdrag.model.recordings import Event, Series
from pgdrag.report.document import (
    Block,
    Cell,
    Paragraph,
    Recording,
    TimeSeries,
    Tone,
    Trace,
    table_of,
)
from pgdrag.report.series_panels import events_by_kind, marks_of, panels_of
from pgdrag.report.series_words import panels_text
from pgdrag.report.stretch.words import clock_words
from pgdrag.units import format_duration

_EVENTS, _MOST_MARKS = 40, 100
_HOW_TO_READ = (
    "Times are UTC. A step is one sample: what was counted in it, and the mean of about one look a second. A line stops "
    "where nothing was seen; nothing is smoothed. Every scale begins at 0; what stayed at 0 throughout is left out."
)


def pictures(stretch: Stretch) -> Iterator[Block]:
    """Yield all series over time, with the events as marks and as a table."""
    panels = tuple(panels_of([_as_series(x, stretch) for x in stretch.series], _with_gaps(stretch)))
    if not panels:
        return
    events = [_from_begin(event, stretch) for event in stretch.events]
    marks = [
        mark
        for each in events_by_kind(events).values()
        for mark in marks_of(each, stretch.length_s, _MOST_MARKS)
    ]
    marks.sort(key=lambda mark: mark.start_s)
    recording = Recording(
        stretch.server.name, stretch.length_s, panels, tuple(marks), stretch.began_unix_s
    )
    yield TimeSeries(recording, (), "", _HOW_TO_READ, panels_text(panels))
    yield from events_table(stretch)


def _as_series(one: ObservedSeries, stretch: Stretch) -> Series:
    quantity = one.quantity
    times = tuple(end - stretch.began_unix_s for end in one.ends_unix_s)
    values = tuple(x.mean for x in one.spreads)
    return Series(
        quantity.name, quantity.label, quantity.unit, times, values, quantity.is_of_machine
    )


def _with_gaps(stretch: Stretch) -> Callable[[str, int, Series], Trace]:
    """Return what makes a line that stops where nothing was seen."""
    begins = {one.quantity.name: one.begins_unix_s for one in stretch.series}

    def make(label: str, colour: int, series: Series) -> Trace:
        times: list[float] = []
        values: list[float | None] = []
        starts = [begin - stretch.began_unix_s for begin in begins[series.name]]
        for begin, end, value in zip(starts, series.times_s, series.values, strict=True):
            if times and begin - times[-1] > 0.5 * (end - begin):
                times.append(begin)
                values.append(None)
            times.append(end)
            values.append(value)
        return Trace(label, starts[0], tuple(times), tuple(values), colour)

    return make


def _from_begin(event: Event, stretch: Stretch) -> Event:
    end_s = None if event.end_s is None else event.end_s - stretch.began_unix_s
    return Event(event.kind, event.start_s - stretch.began_unix_s, end_s, event.text, event.count)


def events_table(stretch: Stretch) -> Iterator[Block]:
    """Yield the table of events, if there are any."""
    if not stretch.events:
        return
    yield table_of(
        "Events",
        stretch.events[:_EVENTS],
        {
            "From (UTC)": lambda x: clock_words(x.start_s),
            ">Lasted": lambda x: "" if x.end_s is None else format_duration(x.end_s - x.start_s),
            "Event": lambda x: Cell(x.kind, is_strong=True),
            "Details": lambda x: x.text,
        },
    )
    if (more := len(stretch.events) - _EVENTS) > 0:
        yield Paragraph(f"{more} more events are in the JSON.", Tone.MUTED)
