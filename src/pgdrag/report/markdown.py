"""The report as Markdown, for an issue, a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from pgdrag.english import without_controls
from pgdrag.findings.values import Findings
from pgdrag.report import document as doc
from pgdrag.report.document import Align, Block, Cell, Table
from pgdrag.report.sections import sections_for

_SPECIAL = re.compile(r"([\\`*\[\]|~$])|(?<!\w)(_)|(_)(?!\w)")
_NOT_IN_URL = re.compile(r"[<>\s\\]")
_LINE_START = re.compile(r"^(\s*)(#|[-+>]|\d+(?=[.)]))", re.MULTILINE)


def render_markdown(findings: Findings) -> str:
    """Return the whole report as GitHub-flavoured Markdown, without pictures."""
    study = findings.run.study
    lines = [f"# {_escape(study.title or study.name)}"]
    if study.question:
        lines.append(_escape(study.question))
    for section in sections_for(findings):
        lines.append(f"## {_escape(section.title)}")
        lines.append(markdown_of(section.blocks(findings)))
    return without_controls("\n\n".join(filter(None, lines))) + "\n"


def blocks_as_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Return parts of a report in the same way, as a page of their own."""
    return f"# {without_controls(_escape(title))}\n\n{markdown_of(blocks)}\n"


def markdown_of(blocks: Iterable[Block], draw: Callable[[doc.Figure], str] | None = None) -> str:
    """Return parts of a report in the same way, without a heading.

    Args:
        draw: keeps a picture, and returns where (default: its lines of text stand for it).
    """
    lines = (x for block in blocks for x in _paragraphs(block, draw))
    return without_controls("\n\n".join(lines))


def _paragraphs(  # noqa: C901 (an arm a kind)
    block: Block, draw: Callable[[doc.Figure], str] | None
) -> Iterator[str]:
    match block:
        case doc.Heading(text, aside):
            yield f"### {_escape(' – '.join(filter(None, (text, aside))))}"
        case doc.Paragraph(text, _, is_lead):
            yield f"**{_escape(text)}**" if is_lead else _escape_start(text)
        case Table():
            yield _table(block)
        case doc.Figure(_, caption, _) if draw is not None:
            yield f"![{_escape(block.title)}]({draw(block)})"
            yield _escape_start(caption)
        case doc.Figure(_, caption, text) | doc.TimeSeries(caption=caption, text=text):
            if text:  # without one, the table beside the picture says as much
                yield _verbatim(text)
                yield _escape_start(caption)
        case doc.KeyValues(pairs):
            yield "\n".join(f"- {_escape(key)}: {_cell(cell)}" for key, cell in pairs)
        case doc.Note(title, texts, _, source):
            yield f"**{_escape(title)}**"
            yield _list(texts) + (f"\n- Source: {_cell(source)}" if source else "")
        case doc.Items(texts):
            yield _list(texts)
        case doc.Lines(text):
            yield _verbatim(text)
        case doc.Details(summary, blocks):
            yield f"<details><summary>{_escape(summary)}</summary>"
            for inner in blocks:
                yield from _paragraphs(inner, draw)
            yield "</details>"


def _verbatim(text: str) -> str:
    return f"```text\n{text.replace('```', '')}\n```"


def _list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {_escape_start(text)}" for text in texts)


def _table(block: Table) -> str:
    rules = ("--:" if column.align is Align.RIGHT else "---" for column in block.columns)
    rows = [
        (_escape(column.title) for column in block.columns),
        rules,
        *((_cell(cell) for cell in row) for row in block.rows),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: Cell) -> str:
    text = _escape(cell.text)
    if cell.url.startswith(("https://", "http://")):
        text = f"[{text}](<{_NOT_IN_URL.sub('', cell.url)}>)"
    if cell.is_strong and text:
        text = f"**{text}**"
    return f"{text} ({_escape(cell.note)})" if cell.note else text


def _escape_start(text: str) -> str:
    """Return text for the start of a line, where a number or a sign could begin a list."""

    def escaped(match: re.Match[str]) -> str:
        space, sign = match.groups()
        return f"{space}{sign}\\" if sign.isdigit() else f"{space}\\{sign}"

    return _LINE_START.sub(escaped, _escape(text))


def _escape(text: str) -> str:
    """Return plain text, on one line, so that Markdown and HTML show it as it is."""
    one_line = " ".join(text.split())
    marked = _SPECIAL.sub(lambda match: f"\\{match[0]}", one_line)
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
