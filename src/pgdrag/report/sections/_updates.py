"""What did an update of the workload cost through the window, and how did it find its rows?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.english import counted
from pgdrag.model.recordings import UpdateLook
from pgdrag.report.document import Block, Cell, Details, Lines, Paragraph, Table, Tone, header
from pgdrag.report.plan_text import plan_text
from pgdrag.report.sections._looked_at import LookedAt
from pgdrag.report.sections.plans import statement_words
from pgdrag.units import format_duration

HOW_UPDATES_ARE_SEEN = (
    "EXPLAIN (ANALYZE, BUFFERS) of an update of one row, run and rolled back. Buffers counts every access to a block "
    "of a table or an index: to find the row, and to add its new version and index entries."
)


_SAME = Cell("the same", tone=Tone.MUTED)


def update_blocks(seen: LookedAt, room_bytes: float) -> Iterator[Block]:
    """Yield a table a statement, folded, with its plans at both ends as far as there is room for them."""
    words = seen.detail("buffers_per_update")
    how = (Paragraph(words, Tone.MUTED),) if words else ()
    for query, looks in seen.updates.items():
        blocks = (*how, _table(looks), *_plans(looks, room_bytes))
        yield Details(f"Update on {seen.name}: {statement_words(query)}", blocks)


def _table(looks: Sequence[UpdateLook]) -> Table:
    columns = header(">At", ">Buffers", ">Read", ">Rows", ">Time", "Rows found by")
    rows = tuple(
        (
            Cell(format_duration(look.at_s)),
            Cell(f"{look.buffers:,}", is_strong=True),
            Cell(f"{look.buffers_read:,}"),
            Cell(f"{look.rows:,.0f}"),
            Cell(format_duration(look.took_s)),
            _SAME if before is not None and look.way == before.way else Cell(look.way),
        )
        for before, look in zip((None, *looks), looks, strict=False)
    )
    return Table("Cost of the update through the window", columns, rows)


def _plans(looks: Sequence[UpdateLook], room_bytes: float) -> Iterator[Block]:
    """Yield the first plan and the last, and those in between that find rows another way."""
    plans = [(look, plan_text(look.plan)) for look in looks if look.plan is not None]
    left = room_bytes
    # What it came to first, then how it began.
    kept = []
    for look, text in (*plans[-1:], *plans[:-1]):
        left -= len(text.encode())
        if left >= 0:
            kept.append((look, text))
    for look, text in sorted(kept, key=lambda each: each[0].at_s):
        yield Paragraph(f"At {format_duration(look.at_s)}:")
        yield Lines(text)
    if (rest := len(plans) - len(kept)) > 0:
        yield Paragraph(f"{counted(rest, 'more plan')} in the JSON report.", Tone.MUTED)
