"""A run as a comment on a pull request: the answer first, how sure it is, and all that is longer folded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from pgdrag.english import as_sentence, counted
from pgdrag.findings.every_claim import counted_answers, every_claim
from pgdrag.findings.false_alarms import FalseAlarms
from pgdrag.findings.values import Findings, Gate
from pgdrag.report.document import Block, Cell, Details, Items, KeyValues, Paragraph
from pgdrag.report.markdown import markdown_of
from pgdrag.report.sections import sections_for
from pgdrag.units import format_bytes

_SIGNS = {Gate.PASS: "✓", Gate.FAIL: "✗", Gate.INCONCLUSIVE: "?"}
_LONGEST = 60_000  # characters; GitHub takes 65,536 and refuses more


def render_comment(findings: Findings, *, alarms: FalseAlarms | None = None, link: str = "") -> str:
    """Return the comment as GitHub-flavoured Markdown.

    Args:
        alarms: what comparisons of a treatment with itself found on the run's machine; None: there are none.
        link: address of the whole report, or "".
    """
    head = (*_head(findings, alarms), KeyValues(tuple(_whole(findings, link))))
    details = Details("Details", tuple(_details(findings)))
    # So that the program that posts it can find and replace it.
    mark = f"<!-- pgdrag {re.sub(r'[^a-zA-Z0-9]+', '-', findings.run.study.name)} -->\n"
    for blocks in ((*head, details), head):
        text = f"{mark}{markdown_of(blocks)}\n"
        if len(text) <= _LONGEST:
            break
    return text


def _head(findings: Findings, alarms: FalseAlarms | None) -> Iterator[Block]:
    found = findings.found
    gate = None if found is None else found.decision
    sign = f"{_SIGNS[gate]} " if gate is not None else ""
    yield Paragraph(f"{sign}{findings.answer}", is_lead=True)
    facts = []
    if found is not None and found.significance:
        facts += [found.significance, _alarm_words(alarms)]
    if claims := every_claim(findings):
        facts.append(as_sentence(counted_answers(claims)))
    # What the end of a run prints below its answer: the warnings that matter most.
    endings = (block for section in sections_for(findings) for block in section.ending(findings))
    facts += (text for block in endings if isinstance(block, Items) for text in block.texts)
    if facts:
        yield Items(tuple(facts))


def _alarm_words(alarms: FalseAlarms | None) -> str:
    if alarms is not None:
        return alarms.words
    return (
        "False alarms on this machine: not measured; pgdrag compare default default --allow-identical, run twenty times "
        "or more, measures them."
    )


def _whole(findings: Findings, link: str) -> Iterator[tuple[str, Cell]]:
    run = findings.run
    host = run.host
    machine = f"{host.cpu_model}, {counted(host.cpu_count, 'processor')}, {format_bytes(host.memory_bytes)}"
    when = datetime.fromtimestamp(run.started_unix_s, UTC).strftime("%Y-%m-%d")
    yield (
        "Measured",
        Cell(f"{when}, PostgreSQL {run.server_version}, {run.study.scale_words}, on {machine}"),
    )
    yield "Report", Cell(run.run_id, url=link)


def _details(findings: Findings) -> Iterator[Block]:
    """Yield what `pgdrag show` prints below the answer."""
    for section in sections_for(findings):
        for block in section.brief(findings):
            if not (isinstance(block, Paragraph) and block.is_lead):
                yield block
