"""What does a stretch of a server's life show? The same blocks for a page, a terminal and a wiki, and a compact text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime

import pgdrag
from pgdrag.english import (
    as_sentence,
    capital,
    counted,
    cut,
    listed,
    percent_words,
    without_controls,
)
from pgdrag.model.observed import (
    ObservedSeries,
    Quantity,
    Setting,
    Spread,
    Statement,
    StatementTotals,
    Stretch,
    Wait,
)
from pgdrag.model.recordings import SESSION_TYPES, Event, Series
from pgdrag.report.document import (
    Block,
    Cell,
    KeyValues,
    Paragraph,
    Recording,
    Table,
    TimeSeries,
    Tone,
    Trace,
    table_of,
)
from pgdrag.report.html import PageHead, PagePart, render_page
from pgdrag.report.json import Json, plain
from pgdrag.report.markdown import markdown_of
from pgdrag.report.series_panels import events_by_kind, marks_of, panels_of
from pgdrag.report.series_words import panels_text, value_words
from pgdrag.report.terminal import blocks_as_text
from pgdrag.units import format_bytes, format_duration, format_number, format_rate

FORMAT = 1  # changes when a key of the JSON changes its meaning or goes away
_STATEMENTS, _WAITS, _EVENTS, _SETTINGS = 20, 15, 40, 200
_MOST_MARKS = 100
_STATEMENT_WIDTH = 160
_LEAST_SHARE = 0.005
_HOW_TO_READ = (
    "Times are UTC. A step is one sample: what was counted in it, and the mean of about one look a second. A line stops "
    "where nothing was seen; nothing is smoothed. Every scale begins at 0; what stayed at 0 throughout is left out."
)
# What the terminal and the compact text say of the load, in this order.
_HEADLINES = (
    *("commits_per_s", "rollbacks_per_s", "sessions", "active_sessions", "idle_in_transaction_sessions"),
    *("on_cpu_sessions", "io_wait_sessions", "lwlock_wait_sessions", "lock_wait_sessions", "client_wait_sessions"),
    *("rows_read_per_s", "rows_changed_per_s", "blocks_hit_per_s", "blocks_read_per_s", "temp_bytes_per_s", "deadlocks_per_s"),
    *("wal_bytes_per_s", "full_page_images_per_s", "timed_checkpoints_per_s", "requested_checkpoints_per_s"),
    *("checkpoint_buffers_per_s", "dead_versions", "vacuums_per_s", "seq_tuples_per_s"),
    *("oldest_transaction_s", "horizon_age", "frozen_age", "replay_lag_bytes"),
    *("host_user_processors", "host_system_processors", "host_iowait_processors"),
    *("disk_read_bytes_per_s", "disk_written_bytes_per_s", "disk_read_wait_s", "disk_write_wait_s", "disk_busy_share"),
)  # fmt: skip
EMPTY = "''"
_PARTS = 6  # into which the compact text divides the time


# --- in all formats


def stretch_parts(stretch: Stretch) -> list[PagePart]:
    """Return the sections of a page, those that have anything to say."""
    parts = [
        PagePart("summary", "Summary", list(_summary(stretch))),
        PagePart("time-series", "What happened when", list(_pictures(stretch))),
        PagePart("waits", "Wait events", list(_waits(stretch))),
        PagePart("statements", "Statements", list(_statements(stretch))),
        PagePart("quantities", "All quantities", [_quantities(stretch.series)], is_folded=True),
        PagePart("settings", "Settings", list(_settings(stretch)), is_folded=True),
    ]
    return [part for part in parts if part.blocks]


def stretch_blocks(stretch: Stretch) -> Iterator[Block]:
    """Yield what a terminal shows."""
    yield Paragraph(as_sentence(_span_words(stretch)))
    yield from _summary(stretch)
    headlines = [x for name in _HEADLINES if (x := stretch.of(name)) is not None and x.whole.high]
    if headlines:
        yield _quantities(headlines)
    yield from _waits(stretch)
    yield from _statements(stretch, is_brief=True)
    yield from _events(stretch)


def render_stretch_html(stretch: Stretch) -> str:
    """Return a self-contained HTML page."""
    head = PageHead(
        eyebrow=f"pgdrag observations · {stretch.file} · PostgreSQL {stretch.server.version}",
        title=f"{capital(stretch.server.name)}",
        question=_span_words(stretch),
        footer=f"Made from {stretch.file} by pgdrag {pgdrag.__version__}.",
        version=pgdrag.__version__,
    )
    return render_page(head, stretch_parts(stretch))


def render_stretch_markdown(stretch: Stretch) -> str:
    """Return a page of Markdown, without pictures."""
    lines = [f"# {capital(stretch.server.name)}", _span_words(stretch)]
    for part in stretch_parts(stretch):
        lines += [f"## {part.title}", markdown_of(part.blocks)]
    return without_controls("\n\n".join(lines)) + "\n"


def stretch_terminal_text(stretch: Stretch) -> str:
    """Return what a terminal shows, without colour or trailing blanks."""
    return blocks_as_text(stretch_blocks(stretch))


def render_stretch_json(stretch: Stretch) -> str:
    """Return all of it for programs: numbers in the units that their names end in, times in Unix seconds."""
    document: dict[str, Json] = {
        "pgdrag_observations": FORMAT,
        **{
            name: plain(getattr(stretch, name))
            for name in (
                "file",
                "server",
                "began_unix_s",
                "ended_unix_s",
                "observed_s",
                "condensed",
                "dropped_until_unix_s",
            )
        },
        "resolutions": plain(stretch.resolutions),
        "events": plain(stretch.events),
        "settings": plain(stretch.settings),
        "waits": [
            {"backend_type": x.backend_type, "wait": x.wait, "processes": processes}
            for x, processes in stretch.waits.items()
        ],
        "statements": [
            {"database": x.database, "statement": x.text, **_fields_of(totals)}
            for x, totals in stretch.statements.items()
        ],
        "series": [
            {
                "quantity": plain(one.quantity),
                "whole": plain(one.whole),
                "began_unix_s": plain(one.begins_unix_s),
                "ended_unix_s": plain(one.ends_unix_s),
                "mean": [x.mean for x in one.spreads],
                "low": [x.low for x in one.spreads],
                "high": [x.high for x in one.spreads],
            }
            for one in stretch.series
        ],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"


def _fields_of(totals: StatementTotals) -> dict[str, Json]:
    return {x.name: plain(getattr(totals, x.name)) for x in fields(totals)}


# --- the blocks


def _summary(stretch: Stretch) -> Iterator[Block]:
    pairs = [
        (name, Cell(words))
        for name, words in (
            ("server", f"{stretch.server.name}, PostgreSQL {stretch.server.version}"),
            ("transactions", _mean_words(stretch, "commits_per_s")),
            ("sessions that run a statement", _mean_words(stretch, "active_sessions")),
            ("blocks found in shared_buffers", _hit_words(stretch)),
            ("WAL", _mean_words(stretch, "wal_bytes_per_s")),
            ("events", _event_counts(stretch.events)),
        )
        if words
    ]
    yield KeyValues(tuple(pairs))
    for sentence in resolution_sentences(stretch):
        yield Paragraph(sentence, Tone.MUTED)


def _span_words(stretch: Stretch) -> str:
    missing_s = stretch.length_s - stretch.observed_s
    seen = f"{counted(stretch.samples, 'sample')}"
    if missing_s > 0.01 * stretch.length_s:
        seen += f", {format_duration(round(missing_s))} of it not observed"
    return (
        f"{_clock(stretch.began_unix_s)} to {_clock(stretch.ended_unix_s)} UTC, "
        f"{format_duration(round(stretch.length_s))}, {seen}"
    )


def resolution_sentences(stretch: Stretch) -> Iterator[str]:
    """Yield what was thinned, and what is gone."""
    for one in stretch.resolutions:
        if one.level:
            yield (
                f"{_clock(one.began_unix_s)} to {_clock(one.ended_unix_s)}: thinned to means over "
                f"{format_duration(round(one.interval_s))}, with the lowest and the highest of their samples."
            )
    if stretch.condensed > 1:
        yield f"Each interval shown is of {stretch.condensed} samples; CSV and Parquet have every sample."
    if stretch.dropped_until_unix_s is not None:
        yield (
            f"Samples from before {_clock(stretch.dropped_until_unix_s)} were dropped to keep the file within its size."
        )


def _mean_words(stretch: Stretch, name: str) -> str:
    series = stretch.of(name)
    if series is None:
        return ""
    return f"{_value(series.whole.mean, series)} ({_value(series.whole.low, series)} to {_value(series.whole.high, series)})"


def _value(value: float, series: ObservedSeries) -> str:
    return value_words(value, series.quantity.unit)


def _hit_words(stretch: Stretch) -> str:
    hit, read = stretch.of("blocks_hit_per_s"), stretch.of("blocks_read_per_s")
    if hit is None or read is None or not hit.whole.mean + read.whole.mean:
        return ""
    return f"{hit.whole.mean / (hit.whole.mean + read.whole.mean):.1%} of {format_rate(hit.whole.mean + read.whole.mean)}"


def _event_counts(events: Sequence[Event]) -> str:
    return listed([f"{len(each)} × {kind}" for kind, each in events_by_kind(events).items()])


def _pictures(stretch: Stretch) -> Iterator[Block]:
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
    yield from _events(stretch)


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


def _events(stretch: Stretch) -> Iterator[Block]:
    if not stretch.events:
        return
    yield table_of(
        "Events",
        stretch.events[:_EVENTS],
        {
            "From (UTC)": lambda x: _clock(x.start_s),
            ">Lasted": lambda x: "" if x.end_s is None else format_duration(x.end_s - x.start_s),
            "Event": lambda x: Cell(x.kind, is_strong=True),
            "What is known of it": lambda x: x.text,
        },
    )
    if (more := len(stretch.events) - _EVENTS) > 0:
        yield Paragraph(f"{more} more events are in the JSON.", Tone.MUTED)


def _waits(stretch: Stretch) -> Iterator[Block]:
    whole = {
        kind: sum(n for x, n in stretch.waits.items() if x.backend_type == kind)
        for kind in {x.backend_type for x in stretch.waits}
    }
    shown = [x for x, n in stretch.waits.items() if n >= _LEAST_SHARE * whole[x.backend_type]]
    if not shown:
        return
    yield table_of(
        "Wait events",
        shown[:_WAITS],
        {
            "Process": lambda x: x.backend_type,
            "Wait": lambda x: x.wait or "on CPU",
            ">Processes, on average": lambda x: format_number(stretch.waits[x]),
            ">Of its type's time": lambda x: percent_words(
                stretch.waits[x] / whole[x.backend_type]
            ),
        },
    )
    yield Paragraph(
        "Looked at about once a second. “On CPU” includes waiting for a CPU. Idle sessions and background processes "
        "waiting for work are left out.",
        Tone.MUTED,
    )


def _statements(stretch: Stretch, *, is_brief: bool = False) -> Iterator[Block]:
    uses = stretch.statements
    whole_s = sum(totals.time_s for totals in uses.values())
    if not whole_s:
        return

    def each(of: Callable[[StatementTotals], float]) -> Callable[[Statement], str]:
        return lambda x: format_number(of(uses[x]) / max(uses[x].calls, 1))

    columns: dict[str, Callable[[Statement], Cell | str]] = {
        "Statement": lambda x: Cell(cut(x.text, _STATEMENT_WIDTH // (1 + is_brief)), x.database),
        ">Share": lambda x: percent_words(uses[x].time_s / whole_s),
        ">Time": lambda x: format_duration(uses[x].time_s),
        ">Calls": lambda x: format_rate(uses[x].calls / stretch.observed_s),
        ">Time each": lambda x: format_duration(uses[x].time_s / max(uses[x].calls, 1)),
    }
    if not is_brief:
        columns |= {
            ">Rows each": each(lambda x: x.rows),
            ">Blocks each": each(lambda x: x.blocks_hit + x.blocks_read),
            ">Of these read": each(lambda x: x.blocks_read),
            ">WAL": lambda x: format_bytes(uses[x].wal_bytes),
        }
    most = _STATEMENTS // (1 + is_brief)
    ranked = sorted(uses, key=lambda x: -uses[x].time_s)[:most]
    yield table_of("Statements that took most time", ranked, columns)
    if (more := len(uses) - most) > 0:
        yield Paragraph(f"{more} more statements took less.", Tone.MUTED)


def _quantities(series: Sequence[ObservedSeries]) -> Table:
    def cell(of: Callable[[Spread], float]) -> Callable[[ObservedSeries], str]:
        return lambda one: _value(of(one.whole), one)

    return table_of(
        "Quantities over the stretch",
        series,
        {
            "Quantity": lambda one: Cell(_label(one.quantity), is_strong=True),
            ">Mean": cell(lambda x: x.mean),
            ">Lowest": cell(lambda x: x.low),
            ">Highest": cell(lambda x: x.high),
        },
    )


def _label(quantity: Quantity) -> str:
    words = capital(quantity.label)
    return f"{words} (whole machine)" if quantity.is_of_machine else words


def _settings(stretch: Stretch) -> Iterator[Block]:
    changed = not_built_in(stretch.settings)
    if changed:
        yield table_of(
            "Settings that differ from the server's built-in defaults",
            changed[:_SETTINGS],
            {
                "Setting": lambda x: Cell(x.name, is_strong=True),
                "Value": lambda x: x.value,
                "Built in": lambda x: x.default,
            },
        )


def not_built_in(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that differ from the server's built-in defaults."""
    return [one for one in settings if one.value != one.default]


def _clock(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


# --- the compact text


def render_stretch_text(stretch: Stretch) -> str:
    """Return a few kilobytes for a colleague, or a language model: all that matters, and no constant of any statement."""
    lines = [
        f"# PostgreSQL {stretch.server.version}: {stretch.server.name}",
        _span_words(stretch),
        *resolution_sentences(stretch),
        "Rates are per second; waits are processes on average; no constant of a statement is in this text.",
        *_section(
            f"Load: mean (lowest to highest) | means of {_PARTS} parts of the time, in order",
            list(_load_lines(stretch)),
        ),
        *_section(
            "Waits of sessions: on average, and share", _wait_lines(stretch, is_session=True)
        ),
        *_section("Waits of other processes: on average", _wait_lines(stretch, is_session=False)),
        *_section(
            "Statements: share of their time, calls/s, ms each, rows each, blocks each (of these read), WAL bytes each",
            _statement_lines(stretch),
        ),
        *_section("Events (UTC)", _event_lines(stretch.events)),
        *_section("Settings that are not the built-in default", _setting_lines(stretch.settings)),
    ]
    return without_controls("\n".join(lines)) + "\n"


def _section(title: str, lines: Sequence[str]) -> Sequence[str]:
    return ("", f"## {title}", *lines) if lines else ()


def _load_lines(stretch: Stretch) -> Iterator[str]:
    for name in _HEADLINES:
        series = stretch.of(name)
        if series is None or not series.whole.high:
            continue
        words = f"{_label(series.quantity)}: {_mean_words(stretch, name)}"
        parts = [
            "-" if mean is None else _value(mean, series)
            for mean in _means_of_parts(series, stretch)
        ]
        yield words if len(series.spreads) < _PARTS else f"{words} | {', '.join(parts)}"


def _means_of_parts(series: ObservedSeries, stretch: Stretch) -> list[float | None]:
    """Return the mean of each part of the time; None where nothing is known."""
    sums, known_s = [0.0] * _PARTS, [0.0] * _PARTS
    for begin, end, spread in zip(
        series.begins_unix_s, series.ends_unix_s, series.spreads, strict=True
    ):
        middle = ((begin + end) / 2 - stretch.began_unix_s) / stretch.length_s
        at = min(int(middle * _PARTS), _PARTS - 1)
        sums[at] += spread.mean * spread.known_s
        known_s[at] += spread.known_s
    return [total / s if s else None for total, s in zip(sums, known_s, strict=True)]


def _wait_lines(stretch: Stretch, *, is_session: bool) -> list[str]:
    waits: Mapping[Wait, float] = {
        x: n for x, n in stretch.waits.items() if (x.backend_type in SESSION_TYPES) == is_session
    }
    whole = sum(waits.values())
    ranked = [x for x in waits if waits[x] >= _LEAST_SHARE * whole][:12]
    return [
        f"{x.backend_type}, {x.wait or 'on CPU'}: {format_number(waits[x])}"
        + (f", {percent_words(waits[x] / whole)}" if is_session else "")
        for x in ranked
    ]


def _statement_lines(stretch: Stretch) -> list[str]:
    uses = stretch.statements
    whole_s = sum(totals.time_s for totals in uses.values())
    ranked = sorted(
        (x for x in uses if uses[x].time_s > _LEAST_SHARE * whole_s), key=lambda x: -uses[x].time_s
    )[:10]
    return [_statement_line(x, uses[x], whole_s, stretch.observed_s) for x in ranked]


def _statement_line(
    statement: Statement, totals: StatementTotals, whole_s: float, observed_s: float
) -> str:
    calls = max(totals.calls, 1)
    numbers = (
        percent_words(totals.time_s / whole_s),
        format_number(totals.calls / observed_s),
        format_number(1000 * totals.time_s / calls),
        format_number(totals.rows / calls),
        f"{format_number((totals.blocks_hit + totals.blocks_read) / calls)} ({format_number(totals.blocks_read / calls)})",
        format_number(totals.wal_bytes / calls),
    )
    where = f"[{statement.database}] " if statement.database else ""
    return f"{', '.join(numbers)}: {where}{cut(statement.text, 240)}"


def _event_lines(events: Sequence[Event]) -> list[str]:
    lines = []
    for event in events[-15:]:
        lasted = (
            ""
            if event.end_s is None
            else f" for {format_duration(round(event.end_s - event.start_s, 1))}"
        )
        lines.append(f"{_clock(event.start_s)} {event.kind}{lasted}: {cut(event.text, 200)}")
    if len(events) > len(lines):
        lines.insert(0, f"({len(events) - len(lines)} earlier ones are left out)")
    return lines


def _setting_lines(settings: Sequence[Setting]) -> list[str]:
    return [f"{one.name} = {cut(one.value, 120) or EMPTY}" for one in not_built_in(settings)[:60]]
