"""How does a report show what changes move? A grid of changes and quantities, or a list, and words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from pgdrag.designs._moves import MoveFinding
from pgdrag.english import counted
from pgdrag.report.cells import NOTHING, bare_ratio, bounds_words
from pgdrag.report.document import Cell, Paragraph, Shade, Table, Tone, header, table_of
from pgdrag.units import format_interval, format_ratio

_RATIO_MAX = 10_000  # a quantity that grows more was next to nothing before
_COLUMNS_MAX = 8  # quantities side by side, the surest first
_ROWS_MAX = 10  # of one treatment, the surest first
_LARGE = math.log(2)
_READING = (
    "▲ more, ▼ less per transaction, with 95 % intervals; the stronger colour is twice as much or half, and beyond. "
    "Only what differs significantly is shown (false discovery rate under 1 %)."
)


def move_words(one: MoveFinding, *, with_interval: bool = False) -> str:
    """Return `WAL 0.287×`; of what was next to nothing before there is no ratio to speak of."""
    return f"{_amount(one)} {_ratio_words(one, with_interval=with_interval)}"


def moves_grid(
    whole: Sequence[MoveFinding], movers: Mapping[str, Sequence[MoveFinding]]
) -> tuple[Table, Paragraph]:
    """Return a row for all changes together and one for each mover, a column for each quantity of the whole."""
    shown = whole[:_COLUMNS_MAX]
    rows = []
    for name, moves in {"all together": whole, **movers}.items():
        cells = {one.quantity: _cell(one) for one in moves}
        rows.append((Cell(name, is_strong=True), *(cells.get(x.quantity, NOTHING) for x in shown)))
    table = Table(
        "What each change moves, per transaction",
        header("Change", *(f">{_amount(one)}" for one in shown)),
        tuple(rows),
    )
    more = _more_words(len(whole) - len(shown))
    return table, Paragraph(_READING + more, Tone.MUTED)


def moves_table(moves: Sequence[MoveFinding]) -> tuple[Table, Paragraph]:
    """Return a row for each quantity that one treatment moves."""
    table = table_of(
        "What the treatment moves, per transaction",
        moves[:_ROWS_MAX],
        {
            "Per transaction": lambda one: Cell(_amount(one), is_strong=True),
            ">Times as much": _cell,
            ">Chance": lambda one: "< 0.0001" if one.false_rate < 1e-4 else f"{one.false_rate:.1g}",
        },
    )
    return table, Paragraph(_READING + _more_words(len(moves) - _ROWS_MAX), Tone.MUTED)


def _more_words(count: int) -> str:
    return f" {counted(count, 'more quantity')} moved: see the JSON report." if count > 0 else ""


def _cell(one: MoveFinding) -> Cell:
    center = one.ratio.center
    shade = Shade.MORE if center > 1 else Shade.LESS
    if abs(math.log(center)) >= _LARGE:
        shade = Shade.MUCH_MORE if center > 1 else Shade.MUCH_LESS
    words = f"{'▲' if center > 1 else '▼'} {_ratio_words(one)}"
    is_bound = not 1 / _RATIO_MAX <= center <= _RATIO_MAX
    return Cell(words, "" if is_bound else bounds_words(one.ratio, bare_ratio), shade=shade)


def _amount(one: MoveFinding) -> str:
    return re.sub(",? per transaction", "", one.label)


def _ratio_words(one: MoveFinding, *, with_interval: bool = False) -> str:
    ratio = one.ratio
    if ratio.center > _RATIO_MAX:
        return f"over {_RATIO_MAX:,}×"
    if ratio.center < 1 / _RATIO_MAX:
        return f"under 1/{_RATIO_MAX:,}"
    if with_interval:
        return format_interval(ratio.low, ratio.center, ratio.high)
    return format_ratio(ratio.center)
