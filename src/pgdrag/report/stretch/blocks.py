"""Which blocks does a stretch have: its summary, waits, statements, quantities and settings?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pgdrag.english import as_sentence, cut, listed, percent_words
from pgdrag.model.observed import ObservedSeries, Spread, Statement, StatementTotals, Stretch
from pgdrag.model.recordings import Event
from pgdrag.report.document import Block, Cell, KeyValues, Paragraph, Table, Tone, table_of
from pgdrag.report.html import PagePart
from pgdrag.report.series_panels import events_by_kind
from pgdrag.report.stretch.pictures import events_table, pictures
from pgdrag.report.stretch.words import (
    HEADLINES,
    LEAST_SHARE,
    label_words,
    mean_words,
    not_built_in,
    resolution_sentences,
    shown_value,
    span_words,
)
from pgdrag.units import format_bytes, format_duration, format_number, format_rate

_STATEMENTS, _WAITS, _SETTINGS = 20, 15, 200
_STATEMENT_WIDTH = 160


def stretch_parts(stretch: Stretch) -> list[PagePart]:
    """Return the sections of a page, those that have anything to say."""
    parts = [
        PagePart("summary", "Summary", list(_summary(stretch))),
        PagePart("time-series", "What happened when", list(pictures(stretch))),
        PagePart("waits", "Wait events", list(_waits(stretch))),
        PagePart("statements", "Statements", list(_statements(stretch))),
        PagePart("quantities", "All quantities", [_quantities(stretch.series)], is_folded=True),
        PagePart("settings", "Settings", list(_settings(stretch)), is_folded=True),
    ]
    return [part for part in parts if part.blocks]


def stretch_blocks(stretch: Stretch) -> Iterator[Block]:
    """Yield what a terminal shows."""
    yield Paragraph(as_sentence(span_words(stretch)))
    yield from _summary(stretch)
    headlines = [x for name in HEADLINES if (x := stretch.of(name)) is not None and x.whole.high]
    if headlines:
        yield _quantities(headlines)
    yield from _waits(stretch)
    yield from _statements(stretch, is_brief=True)
    yield from events_table(stretch)


def _summary(stretch: Stretch) -> Iterator[Block]:
    pairs = [
        (name, Cell(words))
        for name, words in (
            ("server", f"{stretch.server.name}, PostgreSQL {stretch.server.version}"),
            ("transactions", mean_words(stretch, "commits_per_s")),
            ("active sessions", mean_words(stretch, "active_sessions")),
            ("blocks found in shared_buffers", _hit_words(stretch)),
            ("WAL", mean_words(stretch, "wal_bytes_per_s")),
            ("events", _event_counts(stretch.events)),
        )
        if words
    ]
    yield KeyValues(tuple(pairs))
    for sentence in resolution_sentences(stretch):
        yield Paragraph(sentence, Tone.MUTED)


def _hit_words(stretch: Stretch) -> str:
    hit, read = stretch.of("blocks_hit_per_s"), stretch.of("blocks_read_per_s")
    if hit is None or read is None or not hit.whole.mean + read.whole.mean:
        return ""
    whole = hit.whole.mean + read.whole.mean
    return f"{percent_words(hit.whole.mean / whole, 1)} of {format_rate(whole)}"


def _event_counts(events: Sequence[Event]) -> str:
    return listed([f"{len(each)} × {kind}" for kind, each in events_by_kind(events).items()])


def _waits(stretch: Stretch) -> Iterator[Block]:
    whole = {
        kind: sum(n for x, n in stretch.waits.items() if x.backend_type == kind)
        for kind in {x.backend_type for x in stretch.waits}
    }
    shown = [x for x, n in stretch.waits.items() if n >= LEAST_SHARE * whole[x.backend_type]]
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
        "Sampled about once a second. “On CPU” includes waiting for a CPU. Idle sessions and background processes "
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
        return lambda one: shown_value(of(one.whole), one)

    return table_of(
        "Quantities over the stretch",
        series,
        {
            "Quantity": lambda one: Cell(label_words(one.quantity), is_strong=True),
            ">Mean": cell(lambda x: x.mean),
            ">Lowest": cell(lambda x: x.low),
            ">Highest": cell(lambda x: x.high),
        },
    )


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
