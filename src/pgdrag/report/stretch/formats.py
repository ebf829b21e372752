"""In which formats is a stretch shown: HTML, Markdown, a terminal's text, JSON?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import pgdrag
from pgdrag.english import capital, without_controls
from pgdrag.model.observed import ObservedSeries, Quantity, Spread, StatementTotals, Stretch
from pgdrag.report.html import PageHead, render_page
from pgdrag.report.json import plain
from pgdrag.report.markdown import markdown_of
from pgdrag.report.stretch.blocks import stretch_blocks, stretch_parts
from pgdrag.report.stretch.words import span_words
from pgdrag.report.terminal import blocks_as_text

FORMAT: Literal[1] = 1  # changes when a key of the JSON changes its meaning or goes away


@dataclass(frozen=True)
class ShownWait:
    """How many processes of one type were in a wait, on average; "" is on a processor."""

    backend_type: str
    wait: str
    processes: float


@dataclass(frozen=True)
class ShownStatement(StatementTotals):
    """What a statement took, by pg_stat_statements; its text has no constants."""

    database: str
    statement: str


@dataclass(frozen=True)
class ShownSeries:
    """One quantity, interval by interval.

    Attributes:
        whole: all intervals as one.
        began_unix_s, ended_unix_s: of each interval.
        mean, low, high: of each interval's samples.
    """

    quantity: Quantity
    whole: Spread
    began_unix_s: tuple[float, ...]
    ended_unix_s: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


# Types in the JSON that replace a stretch's own, whose keys are not strings.
SHOWN: Mapping[str, Any] = {
    "waits": tuple[ShownWait, ...],
    "statements": tuple[ShownStatement, ...],
    "series": tuple[ShownSeries, ...],
}


def render_stretch_html(stretch: Stretch) -> str:
    """Return a self-contained HTML page."""
    head = PageHead(
        eyebrow=f"pgdrag observations · {stretch.file} · PostgreSQL {stretch.server.version}",
        title=f"{capital(stretch.server.name)}",
        question=span_words(stretch),
        footer=f"Made from {stretch.file} by pgdrag {pgdrag.__version__}.",
    )
    return render_page(head, stretch_parts(stretch))


def render_stretch_markdown(stretch: Stretch) -> str:
    """Return a page of Markdown, without pictures."""
    lines = [f"# {capital(stretch.server.name)}", span_words(stretch)]
    for part in stretch_parts(stretch):
        lines += [f"## {part.title}", markdown_of(part.blocks)]
    return without_controls("\n\n".join(lines)) + "\n"


def stretch_terminal_text(stretch: Stretch) -> str:
    """Return what a terminal shows, without colour or trailing blanks."""
    return blocks_as_text(stretch_blocks(stretch))


def render_stretch_json(stretch: Stretch) -> str:
    """Return all of it for programs: the fields of the stretch, but what `SHOWN` names as that."""
    found = {
        "pgdrag_observations": FORMAT,
        **{x.name: getattr(stretch, x.name) for x in fields(stretch)},
        "waits": tuple(
            ShownWait(one.backend_type, one.wait, processes)
            for one, processes in stretch.waits.items()
        ),
        "statements": tuple(
            ShownStatement(**asdict(totals), database=one.database, statement=one.text)
            for one, totals in stretch.statements.items()
        ),
        "series": tuple(_shown(one) for one in stretch.series),
    }
    return json.dumps(plain(found), ensure_ascii=False, allow_nan=False) + "\n"


def _shown(series: ObservedSeries) -> ShownSeries:
    return ShownSeries(
        quantity=series.quantity,
        whole=series.whole,
        began_unix_s=series.begins_unix_s,
        ended_unix_s=series.ends_unix_s,
        mean=tuple(x.mean for x in series.spreads),
        low=tuple(x.low for x in series.spreads),
        high=tuple(x.high for x in series.spreads),
    )
