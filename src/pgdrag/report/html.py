"""The report as one HTML file that loads nothing: no request, no font, and no script but its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from pgdrag.findings.values import Findings
from pgdrag.report.document import Block
from pgdrag.report.sections import Section, sections_for
from pgdrag.report.series_script import series_assets, series_of

MOST_BYTES = 500_000  # what a mail takes, and a phone opens at once
SCRIPTS_BYTES = 80_000  # with their styles
_SAFE_SCHEMES = ("https://", "http://")


def render_html(findings: Findings) -> str:
    """Return the whole report as a self-contained HTML document.

    A Content-Security-Policy forbids all but its own style and, only where there are time series, the
    scripts that draw them, named by their hashes; without scripts lines of text stand in their place.
    Time series take what all else leaves of `MOST_BYTES`.
    """
    sections = sections_for(findings)
    others = [(one, one.blocks(findings)) for one in sections if not one.takes_what_is_left]
    room_bytes = MOST_BYTES - len(_page(findings, others).encode())
    if len(others) < len(sections):
        room_bytes -= SCRIPTS_BYTES
    while True:
        page = _page(findings, [(one, one.blocks_within(findings, room_bytes)) for one in sections])
        excess = len(page.encode()) - MOST_BYTES
        if excess <= 0 or room_bytes <= 0:
            return page
        room_bytes -= max(excess, MOST_BYTES // 100)


def _page(findings: Findings, sections: Sequence[tuple[Section, Sequence[Block]]]) -> str:
    series = list(series_of(block for _, blocks in sections for block in blocks))
    return _template().render(
        findings=findings,
        sections=sections,
        series=series_assets(series) if series else None,
        next_series=count().__next__,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pgdrag.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["as_svg"] = Markup  # charts escape their own text
    environment.filters["as_script"] = Markup  # the package's own; data in it is escaped as JSON
    environment.filters["block_kind"] = lambda block: type(block).__name__
    environment.tests["web_address"] = _is_web_address
    return environment.get_template("report.html.j2")


def _is_web_address(url: str) -> bool:
    """Refuse addresses that run something when followed, such as `javascript:`."""
    return url.startswith(_SAFE_SCHEMES)
