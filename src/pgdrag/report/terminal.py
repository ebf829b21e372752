"""How does a report look in a terminal? Complete without colour, at 80 columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from pgdrag.english import without_controls
from pgdrag.findings.values import Findings
from pgdrag.report import document as doc
from pgdrag.report.document import Align, Block, Cell, Table, Tone
from pgdrag.report.sections import sections_for

_STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.WARNING: "yellow",
    Tone.BAD: "red",
    Tone.MUTED: "dim",
}
_ROOMY = 100  # columns; narrower tables omit a row's title


def render_terminal(findings: Findings, console: Console) -> None:
    """Print each section's brief form; no text in the findings is markup."""
    study = findings.run.study
    console.print(Text(study.title or study.name, style="bold"))
    print_blocks(
        (x for section in sections_for(findings) for x in section.brief(findings)), console
    )


def render_answer(findings: Findings, console: Console) -> None:
    """Print what each section has for the end of a run: the answer and the most important warnings."""
    print_blocks(
        (x for section in sections_for(findings) for x in section.ending(findings)), console
    )


def terminal_text(findings: Findings, *, width: int = 100) -> str:
    """Return what `render_terminal` prints, without colour or trailing blanks."""
    return _text_of(lambda console: render_terminal(findings, console), width)


def blocks_as_text(blocks: Iterable[Block], *, width: int = 100) -> str:
    """Return what `print_blocks` prints in the same way."""
    return _text_of(lambda console: print_blocks(blocks, console), width)


def _text_of(render: Callable[[Console], None], width: int) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, color_system=None, force_terminal=False, highlight=False
    )
    render(console)
    lines = without_controls(out.getvalue()).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Print parts of a report; no text in them is markup."""
    for block in blocks:
        for renderable in _renderables(block, is_roomy=console.width >= _ROOMY):
            console.print(renderable)


def _renderables(  # noqa: C901 (an arm a kind)
    block: Block, *, is_roomy: bool
) -> Iterator[RenderableType]:
    match block:
        case doc.Heading(text, aside):
            yield Text.assemble("\n", (text, "bold"), f" {aside}" if aside else "")
        case doc.Paragraph(text, tone, is_lead):
            yield Text(f"\n{text}" if is_lead else text, _STYLES[tone])
        case Table():
            yield _table(block, is_roomy=is_roomy)
        case doc.Figure(_, caption, text) | doc.TimeSeries(caption=caption, text=text):
            yield Text(f"{text}\n{caption}" if text else caption)
        case doc.KeyValues(pairs):
            for key, cell in pairs:
                yield Padding(Text(f"{key}: {cell.text}"), (0, 0, 0, 2))
        case doc.Note(title, texts, tone, source):
            yield Text(f"\n{title}", f"bold {_STYLES[tone]}".strip())
            yield from _list([*texts, f"Source: {source.text}"] if source else texts)
        case doc.Items(texts):
            yield from _list(texts)
        case doc.Lines(text):
            yield Text(text)
        case doc.Details(summary, blocks):
            yield Text(summary, "bold")
            for inner in blocks:
                yield from _renderables(inner, is_roomy=is_roomy)


def _list(texts: Iterable[str]) -> Iterator[RenderableType]:
    for text in texts:
        row = RichTable.grid(padding=(0, 1))
        row.add_row(Text(" •"), Text(text))
        yield row


def _table(block: Table, *, is_roomy: bool) -> RenderableType:
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1 if is_roomy else 0), collapse_padding=True)
    for column in block.columns:
        table.add_column(
            Text(column.title), justify="right" if column.align is Align.RIGHT else "left"
        )
    for row in block.rows:
        first = row[0] if is_roomy else Cell(row[0].text, "", row[0].tone, row[0].is_strong)
        table.add_row(*(_cell(cell) for cell in (first, *row[1:])))
    return table


def _cell(cell: Cell) -> Text:
    style = f"{'bold ' if cell.is_strong else ''}{_STYLES[cell.tone]}".strip()
    text = Text(cell.text, style)
    if cell.note:
        text.append(f"\n{cell.note}", "not bold")
    return text
