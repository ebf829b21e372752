"""In which formats is a stretch shown: HTML, Markdown, a terminal's text, JSON?"""

from __future__ import annotations

import json
from dataclasses import fields

import pgdrag
from pgdrag.english import capital, without_controls
from pgdrag.model.observed import StatementTotals, Stretch
from pgdrag.report.html import PageHead, render_page
from pgdrag.report.json import Json, plain
from pgdrag.report.markdown import markdown_of
from pgdrag.report.stretch.blocks import stretch_blocks, stretch_parts
from pgdrag.report.stretch.words import span_words
from pgdrag.report.terminal import blocks_as_text

FORMAT = 1  # changes when a key of the JSON changes its meaning or goes away


def render_stretch_html(stretch: Stretch) -> str:
    """Return a self-contained HTML page."""
    head = PageHead(
        eyebrow=f"pgdrag observations · {stretch.file} · PostgreSQL {stretch.server.version}",
        title=f"{capital(stretch.server.name)}",
        question=span_words(stretch),
        footer=f"Made from {stretch.file} by pgdrag {pgdrag.__version__}.",
        version=pgdrag.__version__,
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
