"""The report as one HTML file that loads nothing: no script, no font, no request."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from pgdrag.analysis.findings import Findings
from pgdrag.report.sections import sections_for

_SAFE_SCHEMES = ("https://", "http://")


def render_html(findings: Findings) -> str:
    """Return the whole report as a self-contained HTML document.

    Nothing in it can load or run anything: a Content-Security-Policy forbids all but its own style.
    """
    return _template().render(
        findings=findings,
        sections=[(section, section.blocks(findings)) for section in sections_for(findings)],
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
    environment.filters["block_kind"] = lambda block: type(block).__name__
    environment.tests["web_address"] = _is_web_address
    return environment.get_template("report.html.j2")


def _is_web_address(url: str) -> bool:
    """Refuse addresses that run something when followed, such as `javascript:`."""
    return url.startswith(_SAFE_SCHEMES)
