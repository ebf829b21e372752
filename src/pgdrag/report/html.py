"""The report as one HTML file that loads nothing: no request, no font, and no script but its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import pgdrag
from pgdrag.findings.values import Findings
from pgdrag.report.document import Block, Figure
from pgdrag.report.json import embedded_json
from pgdrag.report.sections import sections_for
from pgdrag.report.series_script import series_assets, series_of
from pgdrag.report.thinning import fitted

if TYPE_CHECKING:
    from jinja2 import Template

MOST_BYTES = 500_000  # what a mail takes, and a phone opens at once
_POINTS = (600, 300, 120, 40)  # of each line of a time series, from fine to coarse
_SAFE_SCHEMES = ("https://", "http://")


@dataclass(frozen=True)
class PageHead:
    """What stands at the top of a page, and at its foot.

    Attributes:
        eyebrow: the line above the title, in small type.
        question: below the title, or "".
        footer: where it is from, as a sentence.
        version: of the pgdrag that made what it shows.
        data: JSON for programs, with nothing in it that ends a script element; or "".
    """

    eyebrow: str
    title: str
    question: str
    footer: str
    version: str = pgdrag.__version__
    data: str = ""


@dataclass(frozen=True)
class PagePart:
    """One section of a page; a folded one shows its title until it is opened."""

    name: str
    title: str
    blocks: Sequence[Block]
    is_folded: bool = False


def render_html(findings: Findings) -> str:
    """Return the whole report as a self-contained HTML document."""
    run, study = findings.run, findings.run.study
    head = PageHead(
        eyebrow=f"pgdrag · {study.name} · {study.scale_words} · PostgreSQL {run.server_version}",
        title=study.title or study.name,
        question=study.question,
        footer=f"Run {run.run_id}, made by pgdrag {run.pgdrag_version}.",
        version=run.pgdrag_version,
        data=embedded_json(findings),
    )
    sections = sections_for(findings)
    parts = [PagePart(x.name, x.title, x.blocks(findings), x.is_folded) for x in sections]
    return render_page(head, parts)


def render_page(head: PageHead, parts: Sequence[PagePart]) -> str:
    """Return the parts that have any blocks as a self-contained HTML document.

    A Content-Security-Policy forbids all but its own style and, only where there are time series, the
    scripts that draw them, named by their hashes; without scripts lines of text stand in their place.
    Time series are as fine as `MOST_BYTES` leave room for. If the coarsest take more, those with least to see
    are left out.
    """
    parts = [part for part in parts if part.blocks]
    figures = series_of(block for part in parts for block in part.blocks)
    # Of those that changed alike the later go first: all are compared with what came before.
    names = [x.recording.name for x in sorted(figures, key=lambda one: -one.change)]
    names = list(dict.fromkeys(names))  # all over each other are a picture of the first of them

    def page_with(points: int, kept: int) -> str:
        out = names[kept:]
        return _page(head, [replace(x, blocks=fitted(x.blocks, points, out)) for x in parts])

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


def _page(head: PageHead, parts: Sequence[PagePart]) -> str:
    series = list(series_of(block for part in parts for block in part.blocks))
    return _template().render(
        head=head,
        data=head.data,
        parts=parts,
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
    environment.filters["block_kind"] = _block_kind
    environment.tests["web_address"] = _is_web_address
    return environment.get_template("report.html.j2")


def _block_kind(block: Block) -> str:
    return "Figure" if isinstance(block, Figure) else type(block).__name__


def _is_web_address(url: str) -> bool:
    """Refuse addresses that run something when followed, such as `javascript:`."""
    return url.startswith(_SAFE_SCHEMES)
