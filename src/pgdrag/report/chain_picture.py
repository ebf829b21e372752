"""How is a HOT chain drawn? A line pointer a line, in the order in which the server follows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from pgdrag.english import counted
from pgdrag.model.recordings import ChainLink, HotChain
from pgdrag.report import svg
from pgdrag.report.series_words import moment_words

_HEAD, _ROW, _GAP = 24, 20, 10  # heights
_SQUARE, _TEXT = 12, 22  # of a line: its state's square, and where its words begin, in pixels


@dataclass(frozen=True)
class _Line:
    """One line: a line pointer, or those that are left out."""

    words: str
    note: str = ""
    state: str = ""


def chain_picture(chains: Sequence[HotChain], *, name: str, title: str) -> str:
    """Return chains of one table at several moments, one below the other.

    Args:
        name: unique in the document.
    """
    parts: list[str] = []
    top = 0
    for chain in chains:
        parts.append(svg.text(0, top + 14, _heading(chain), "tick"))
        lines = list(_lines(chain))
        for at, line in enumerate(lines):
            y = top + _HEAD + at * _ROW
            parts += _drawn(line, y, is_last=at == len(lines) - 1)
        top += _HEAD + _ROW * len(lines) + _GAP
    return svg.picture(name, title, "; ".join(map(_heading, chains)), top, parts)


def chain_text(chains: Sequence[HotChain]) -> str:
    """Return the same in characters."""
    lines: list[str] = []
    for chain in chains:
        lines.append(_heading(chain))
        for line in _lines(chain):
            lines.append(f"  {line.words}{f'  {line.note}' if line.note else ''}")
    return "\n".join(lines)


def _heading(chain: HotChain) -> str:
    return f"{moment_words(chain.at_s)}, page {chain.block:,}: {counted(chain.versions, 'version')}"


def _lines(chain: HotChain) -> Iterator[_Line]:
    yield from (_line(link, chain.block) for link in chain.first)
    if chain.last:
        shown = sum(link.state != "redirect" for link in (*chain.first, *chain.last))
        yield _Line(f"… {counted(chain.versions - shown, 'more version')}")
        yield from (_line(link, chain.block) for link in chain.last)


def _line(link: ChainLink, block: int) -> _Line:
    if link.state == "redirect":
        return _Line(
            f"lp {link.line_pointer}  → lp {link.next_line_pointer}", "redirect", "redirect"
        )
    ctid = f"({link.next_block},{link.next_line_pointer})"
    words = f"lp {link.line_pointer}  xmin {link.xmin}  xmax {link.xmax}  ctid {ctid}"
    is_replaced_elsewhere = link.state == "old" and link.next_block != block
    note = f"continues on page {link.next_block:,}" if is_replaced_elsewhere else link.state
    return _Line(words, note, link.state)


def _drawn(line: _Line, y: int, *, is_last: bool) -> Iterator[str]:
    if line.state:
        yield (f'<rect class="page-{line.state}" y="{y}" width="{_SQUARE}" height="{_SQUARE}"/>')
    if not is_last:
        middle, begin = _SQUARE // 2, y + (_SQUARE if line.state else 0)
        yield (f'<line class="origin" x1="{middle}" y1="{begin}" x2="{middle}" y2="{y + _ROW}"/>')
    kind = "tick" if line.state else "muted tick"
    note = f' <tspan class="muted">{line.note}</tspan>' if line.note else ""
    yield f'<text class="{kind}" x="{_TEXT}" y="{y + 11}">{escape(line.words)}{note}</text>'
