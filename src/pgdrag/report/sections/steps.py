"""The picture: how far each rung lies from the baseline, and what was published of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.report.cells import brief_slowdown, rate_cell
from pgdrag.report.document import Block
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section

_TITLE = "How many times slower than the baseline"


class StepsSection(Section):
    """A logarithmic chart of the slowdowns with their intervals."""

    name = "steps"
    summary = "a logarithmic chart of the slowdowns with their intervals"
    title = _TITLE
    order = 20
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """There is a picture as soon as one rung has a number beside the baseline's."""
        is_significant = any(rung.to_baseline is not None for rung in findings.rungs)
        return findings.has_rungs and is_significant

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the chart; the table of the rungs says the same in words."""
        by_name = {rung.rung.name: rung for rung in findings.rungs}
        rows = [
            _row(findings, rung, by_name.get(rung.previous), is_baseline=at == 0)
            for at, rung in enumerate(findings.rungs)
        ]
        description = "; ".join(f"{row.name} {row.words or row.before_words}" for row in rows)
        caption = (
            "Logarithmic scale: equal distances are equal ratios, and further right is slower. "
        )
        if findings.is_cumulative:
            caption += "The strong part of a bar is what this rung adds, an outlined part what it takes back."
        return (rows_figure(rows, _TITLE, description, caption, name="steps-chart"),)


def _row(
    findings: Findings,
    rung: TreatmentFinding,
    before: TreatmentFinding | None,
    *,
    is_baseline: bool,
) -> Row:
    speed = rate_cell(findings, rung).text
    found = rung.to_baseline
    claims = rung.get(ClaimsFinding)
    claim = claims.total if claims is not None else None
    return Row(
        name=rung.rung.name,
        aside=rung.rung.title,
        before_words=speed,
        words=brief_slowdown(found.verdict, found.slowdown) if found else "",
        found=found.slowdown if found else None,
        start=_slowdown_of(before),
        published=claim.published if claim is not None else None,
        is_baseline=is_baseline,
    )


def _slowdown_of(rung: TreatmentFinding | None) -> float:
    """Return where a step starts: the slowdown of the rung before; its bound where it has no more."""
    if rung is None or rung.to_baseline is None:
        return 1.0
    found = rung.to_baseline.slowdown
    return found.low if math.isinf(found.center) else found.center
