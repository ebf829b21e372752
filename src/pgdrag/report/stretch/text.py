"""What of a stretch fits into a few kilobytes, for a colleague or a language model?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdrag.english import cut, percent_words, without_controls
from pgdrag.model.observed import ObservedSeries, Setting, Statement, StatementTotals, Stretch, Wait
from pgdrag.model.recordings import SESSION_TYPES, Event
from pgdrag.report.stretch.words import (
    HEADLINES,
    LEAST_SHARE,
    clock_words,
    label_words,
    mean_words,
    not_built_in,
    resolution_sentences,
    shown_value,
    span_words,
)
from pgdrag.units import format_duration, format_number

EMPTY = "''"
_PARTS = 6  # into which the compact text divides the time


def render_stretch_text(stretch: Stretch) -> str:
    """Return a few kilobytes for a colleague, or a language model: all that matters, and no constant of any statement."""
    lines = [
        f"# PostgreSQL {stretch.server.version}: {stretch.server.name}",
        span_words(stretch),
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
    for name in HEADLINES:
        series = stretch.of(name)
        if series is None or not series.whole.high:
            continue
        words = f"{label_words(series.quantity)}: {mean_words(stretch, name)}"
        parts = [
            "-" if mean is None else shown_value(mean, series)
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
    ranked = [x for x in waits if waits[x] >= LEAST_SHARE * whole][:12]
    return [
        f"{x.backend_type}, {x.wait or 'on CPU'}: {format_number(waits[x])}"
        + (f", {percent_words(waits[x] / whole)}" if is_session else "")
        for x in ranked
    ]


def _statement_lines(stretch: Stretch) -> list[str]:
    uses = stretch.statements
    whole_s = sum(totals.time_s for totals in uses.values())
    ranked = sorted(
        (x for x in uses if uses[x].time_s > LEAST_SHARE * whole_s), key=lambda x: -uses[x].time_s
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
        lines.append(f"{clock_words(event.start_s)} {event.kind}{lasted}: {cut(event.text, 200)}")
    if len(events) > len(lines):
        lines.insert(0, f"({len(events) - len(lines)} earlier ones are left out)")
    return lines


def _setting_lines(settings: Sequence[Setting]) -> list[str]:
    return [f"{one.name} = {cut(one.value, 120) or EMPTY}" for one in not_built_in(settings)[:60]]
