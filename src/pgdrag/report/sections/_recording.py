"""What was seen of a rung's middle trial, as panels over one time axis, and events as marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pgdrag.english import capital
from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.findings.expecto.published import operational_speeds
from pgdrag.findings.values import TreatmentFinding
from pgdrag.model import OPERATIONAL_SPEED
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Event, Series
from pgdrag.report.document import Mark, Panel, Recording, Trace
from pgdrag.units import format_duration

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
            yield from _operational_speed(rung.samples)
    drawn = {one.name: one for one in rung.recordings.series if len(one.times_s) > 1}
    for title, names in _PANELS:
        if traces := tuple(_traces(drawn, names)):
            first = next(drawn[name] for name in names if name in drawn)
            yield Panel(_of_machine(title, first), first.unit, traces)
    for beginning in _OF_EACH:
        yield from _of_each([x for x in drawn.values() if x.name.startswith(beginning)])
    for name, series in drawn.items():
        if name not in _GROUPED and not name.startswith(_OF_EACH) and any(series.values):
            title = capital(series.label)
            trace = _trace(series.label, 1, series.times_s, series.values)
            yield Panel(_of_machine(title, series), series.unit, (trace,))


def _of_each(alike: Sequence[Series]) -> Iterator[Panel]:
    """Yield a panel of series whose labels differ by what stands behind their colon."""
    traces = tuple(
        _trace(one.label.partition(": ")[2], at % _COLOURS + 1, one.times_s, one.values)
        for at, one in enumerate(alike)
        if any(one.values)
    )
    if traces:
        title = capital(alike[0].label.partition(": ")[0])
        yield Panel(f"{title}, each", alike[0].unit, traces)


def _driver_panels(samples: Sequence[Sample]) -> Iterator[Panel]:
    """Yield what the driver counted; a slow interval without any commit has no latency."""
    begin_s = samples[0].t_s - samples[0].duration_s
    ends = tuple(one.t_s for one in samples)

    def trace(label: str, colour: int, values: Iterable[float | None]) -> Trace:
        return Trace(label, begin_s, ends, tuple(values), colour)

    ended = [trace("committed", 1, (one.committed / one.duration_s for one in samples))]
    if any(one.failed for one in samples):
        ended.append(trace("failed", 3, (one.failed / one.duration_s for one in samples)))
    yield Panel("Throughput", "1/s", tuple(ended))
    percentiles = (
        trace("50th percentile", 2, (_seconds(one.p50_us) for one in samples)),
        trace("95th percentile", 4, (_seconds(one.p95_us) for one in samples)),
        trace("99th percentile", 1, (_seconds(one.p99_us) for one in samples)),
    )
    known = tuple(one for one in percentiles if any(value is not None for value in one.values))
    if known:
        yield Panel("Latency", "s", known)
    sessions = [None if one.sessions is None else float(one.sessions) for one in samples]
    if len(set(sessions)) > 1:
        yield Panel("Sessions with work", "count", (trace("sessions", 1, sessions),))


def _operational_speed(samples: Sequence[Sample]) -> Iterator[Panel]:
    """Yield what was published of such a study; nothing else in the picture is smoothed."""
    found = operational_speeds(samples)
    if found is None or len(found.times_s) < 2:
        return
    title = f"Operational speed as pg_expecto defines it (trailing medians over {format_duration(found.window_s)})"
    values = tuple(value / 60 for value in found.per_min)
    trace = Trace(
        "operational speed", found.times_s[0] - found.interval_s, found.times_s, values, 2
    )
    yield Panel(title, "1/s", (trace,))


def _seconds(us: float | None) -> float | None:
    return None if us is None else us / 1e6


def _traces(drawn: Mapping[str, Series], names: Sequence[str]) -> Iterator[Trace]:
    """Yield the lines of one panel: a quantity keeps its colour whichever others are there."""
    for at, name in enumerate(names):
        series = drawn.get(name)
        if series is not None and any(series.values):
            yield _trace(series.label, at % _COLOURS + 1, series.times_s, series.values)


def _trace(label: str, colour: int, times_s: tuple[float, ...], values: Iterable[float]) -> Trace:
    # A series tells the ends of its intervals; the first is taken to be as long as the second.
    begin_s = times_s[0] - (times_s[1] - times_s[0])
    return Trace(
        label, max(begin_s, 0.0) if times_s[0] > 0 else begin_s, times_s, tuple(values), colour
    )


def _of_machine(title: str, series: Series) -> str:
    return f"{title} (whole machine)" if series.is_of_machine else title


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
    text = first.text if len(first.text) <= _MARK_TEXT else f"{first.text[: _MARK_TEXT - 1]}…"
    colour = _MARK_COLOURS.get(first.kind, _OTHER_MARK)
    count = sum(one.count for one in events)
    return Mark(first.kind, first.start_s, max(ends, default=None), text, count, colour)
