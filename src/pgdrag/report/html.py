"""The report as one HTML file that loads nothing: no request, no font, and no script but its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from pgdrag.findings.values import Findings
from pgdrag.report.document import Block
from pgdrag.report.sections import Section, sections_for
from pgdrag.report.series_script import series_assets, series_of
from pgdrag.report.thinning import fitted

if TYPE_CHECKING:
    from jinja2 import Template

MOST_BYTES = 500_000  # what a mail takes, and a phone opens at once
_POINTS = (600, 300, 120, 40)  # of each line of a time series, from fine to coarse
_SAFE_SCHEMES = ("https://", "http://")


def render_html(findings: Findings) -> str:
    """Return the whole report as a self-contained HTML document.

    A Content-Security-Policy forbids all but its own style and, only where there are time series, the
    scripts that draw them, named by their hashes; without scripts lines of text stand in their place.
    Time series are as fine as `MOST_BYTES` leave room for. If the coarsest take more, those of the rungs on which
    throughput changed least are left out.
    """
    sections = [(one, one.blocks(findings)) for one in sections_for(findings)]
    figures = series_of(block for _, blocks in sections for block in blocks)
    # Of those that changed alike the later go first: all are compared with what came before.
    names = [x.recording.name for x in sorted(figures, key=lambda one: -one.change)]

    def page_with(points: int, kept: int) -> str:
        out = names[kept:]
        return _page(findings, [(one, fitted(blocks, points, out)) for one, blocks in sections])

    kept = len(names)
    for points in _POINTS:
        page = page_with(points, kept)
        if len(page.encode()) <= MOST_BYTES:
            return page
    # Two are kept in any case: one of them alone could be laid over nothing.
    while kept > 2 and (size_bytes := len(page.encode())) > MOST_BYTES:
        kept = max(min(kept - 1, kept * MOST_BYTES // size_bytes), 2)
        page = page_with(_POINTS[-1], kept)
    return page


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
    # Here: a run that is interrupted writes no report.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

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
