"""The report as one HTML file that loads nothing: no request, no font, and no script but its own."""

from __future__ import annotations

from functools import cache
from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from pgdrag.analysis.findings import Findings
from pgdrag.report.sections import sections_for
from pgdrag.report.series_script import series_assets, series_of

_SAFE_SCHEMES = ("https://", "http://")


def render_html(findings: Findings) -> str:
    """Return the whole report as a self-contained HTML document.

    A Content-Security-Policy forbids all but its own style and, only where there are time series, the
    scripts that draw them, named by their hashes; without scripts a picture stands in their place.
    """
    sections = [(section, section.blocks(findings)) for section in sections_for(findings)]
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
