"""How does a picture of a report become a file of its own, for a page that is no report?"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_WIDTH, _ROOM = 820, 12
_START = re.compile(r'<svg class="chart"(.*?) width="100%" height="([\d.]+)">')


def standalone(chart: str) -> str:
    """Return a picture that `svg.picture` made as an SVG file, which brings its colours for light and dark.

    Its background is its own: a page may be light where its reader's system is dark.
    """
    start = _START.match(chart)
    assert start is not None, chart[:80]
    attributes, height = start.groups()
    width, whole = _WIDTH + 2 * _ROOM, float(height) + 2 * _ROOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{whole:g}">'
        f"<style>{_style()}</style>"
        '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
        f'<svg class="chart"{attributes} x="{_ROOM}" y="{_ROOM}" width="{_WIDTH}" height="{height}">'
        f"{chart[start.end() :]}</svg>\n"
    )


@cache
def _style() -> str:
    """Return the colours, and of the other rules those of pictures."""
    sheet = files("pgdrag.report").joinpath("templates/report.css").read_text(encoding="utf-8")
    colours, _, rules = sheet.partition("\n* {")
    of_pictures = re.findall(r"^\.(?:chart|flame|page|more|less)\b.*$", rules, re.MULTILINE)
    return "\n".join((colours, *of_pictures, ".chart { font-family: system-ui, sans-serif; }"))
