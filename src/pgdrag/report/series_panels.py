"""In which pictures are series drawn, one below the other, and which marks stand for events?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from pgdrag.english import capital, cut
from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.model.recordings import CALLS, ROWS, Event, Series
from pgdrag.report.document import Mark, Panel, Trace

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
    ("Transactions", ("commits_per_s", "rollbacks_per_s")),
    ("Client sessions", ("sessions", "active_sessions", "idle_in_transaction_sessions")),
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
    ("Checkpoints", ("timed_checkpoints_per_s", "requested_checkpoints_per_s")),
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


MakeTrace = Callable[[str, int, Series], Trace]


def events_by_kind(events: Sequence[Event]) -> dict[str, list[Event]]:
    """Return events by kind, the kinds in the order in which they first happened."""
    kinds: dict[str, list[Event]] = {}
    for event in events:
        kinds.setdefault(event.kind, []).append(event)
    return kinds


def trace_of(label: str, colour: int, series: Series) -> Trace:
    """Return a series as a line without gaps."""
    # A series tells the ends of its intervals; the first is taken to be as long as the second.
    first_s, second_s, *_ = series.times_s
    begin_s = 2 * first_s - second_s
    return Trace(
        label, max(begin_s, 0.0) if first_s > 0 else begin_s, series.times_s, series.values, colour
    )


def panels_of(every: Sequence[Series], make: MakeTrace = trace_of) -> Iterator[Panel]:
    """Yield the panels of all series that show anything, those of the usual quantities first.

    Args:
        make: a line of a series, given its label and its colour.
    """
    drawn = {one.name: one for one in every if len(one.times_s) > 1}

    def panel(title: str, shown: Mapping[int, Series], *, is_each: bool = False) -> Iterator[Panel]:
        """Yield the panel of series by their colours, without what stayed at 0."""
        traces = tuple(
            make(one.label.partition(": ")[2] if is_each else one.label, at % _COLOURS + 1, one)
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


def marks_of(events: Sequence[Event], length_s: float, most: int) -> Iterator[Mark]:
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
