"""What became of the rows' versions: how many are kept, in which pages they lie, and what an update costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pgdrag.findings.values import Findings
from pgdrag.model.recordings import Series
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Details,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
)
from pgdrag.report.page_picture import page_picture, pages_text
from pgdrag.report.sections import Section
from pgdrag.report.sections._looked_at import LookedAt, looked_at, reasons
from pgdrag.report.sections._updates import HOW_UPDATES_ARE_SEEN, update_blocks
from pgdrag.report.series_words import value_words
from pgdrag.units import format_duration

# Of a table's columns: the series, and its heading.
_TOLD = (
    ("dead_versions_per_row", "Old versions per row"),
    ("hot_chain_length", "HOT chain, mean"),
    ("index_entries_visited", "Index entries per update"),
    ("buffers_per_update", "Buffers per update"),
    ("bloat_ratio", "Bloat"),
    ("table_bytes", "Tables"),
    ("index_bytes", "Indexes"),
)
_NAMES = tuple(name for name, _ in _TOLD)
_NAMED_INDEXES = 3
_BRIEF = ("dead_versions_per_row", "buffers_per_update", "index_bytes")
# Of all rungs together, so that the report of a long ladder stays small.
_ALL_PICTURES_BYTES = 30_000
_ALL_PLANS_BYTES = 6_000
_HOW_TO_READ = (
    "From the first look, just before the window, to the last, just after it; in the trial in the middle by "
    "throughput. An old version is stored still though another has replaced it, it was deleted or rolled "
    "back; a dead line pointer counts as one. A HOT chain is what an index entry leads to on one page. "
    "Bloat is bytes of the tables over those of the fewest pages that the rows fit into. A vacuum was in "
    "vain where it had to leave nearly all dead tuples that it found; time and pages are of all of these."
)
_HOW_TO_SEE = (
    "The pictures have from left to right a table's pages, from its first to its last, all moments on one scale; of a "
    "large table as many as were read, evenly spread. A "
    "column is filled with its pages' line pointers by state, always in the legend's order from below; "
    "the band below it is as high as the page is free."
)


class RowVersionsSection(Section):
    """A table of all rungs, and the pages of each rung's tables at a few moments."""

    name: ClassVar[str] = "row-versions"
    summary: ClassVar[str] = (
        "old row versions, HOT chains, what an update costs, and strips of pages"
    )
    title: ClassVar[str] = "Row versions"
    order: ClassVar[int] = 48

    def applies(self, findings: Findings) -> bool:
        """Some trial's pages were looked at, or could not be though it was asked for."""
        return bool(looked_at(findings, _NAMES) or reasons(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, then each rung's pages and updates, then what could not be seen."""
        told = looked_at(findings, _NAMES)
        pictures = max(1, sum(len(seen.tables) for seen in told))
        updates = max(1, sum(len(seen.updates) for seen in told))
        body: list[Block] = []
        if told:
            body += [Paragraph(_HOW_TO_READ, Tone.MUTED), _table(told)]
            # Once, and not below each of a long ladder's pictures and tables.
            if any(seen.tables for seen in told):
                body.append(Paragraph(_HOW_TO_SEE, Tone.MUTED))
            if any(seen.updates for seen in told):
                body.append(Paragraph(HOW_UPDATES_ARE_SEEN, Tone.MUTED))
        first = next((seen for seen in told if seen.tables), None)
        for at, seen in enumerate(told):
            name, room_bytes = f"pages-{at}", _ALL_PICTURES_BYTES / pictures
            body += _pages(seen, name, room_bytes, is_first=seen is first)
            body += update_blocks(seen, _ALL_PLANS_BYTES / updates)
        why = reasons(findings)
        return (*body, Items(tuple(why))) if why else body

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence a rung."""
        texts = tuple(_sentence(seen) for seen in looked_at(findings, _NAMES))
        return (Heading(self.title), Items(texts)) if texts else ()


def _table(told: Sequence[LookedAt]) -> Table:
    shown = [(name, title) for name, title in _TOLD if any(seen.series(name) for seen in told)]
    columns = (
        Column("Rung"),
        *(Column(title, Align.RIGHT) for _, title in shown),
        Column("Vacuums in vain", Align.RIGHT),
    )
    rows = tuple(
        (_name(seen), *(_cell(seen, name) for name, _ in shown), _vacuums(seen)) for seen in told
    )
    return Table("Row versions at the first look and at the last", columns, rows)


def _name(seen: LookedAt) -> Cell:
    if seen.doubt:
        return Cell(seen.name, seen.doubt, Tone.BAD, is_strong=True)
    return Cell(seen.name, seen.title, is_strong=True)


def _cell(seen: LookedAt, name: str) -> Cell:
    series = seen.series(name)
    if series is None:
        return NOTHING
    longest = seen.series(f"{name}_max")
    note = f"longest {value_words(max(longest.values), longest.unit)}" if longest else ""
    return Cell(_from_to(series), note or _each(seen, name))


def _each(seen: LookedAt, name: str) -> str:
    """Say what the largest indexes came to, where there are several."""
    if name != "index_bytes":
        return ""
    ends = [
        (one.values[-1], one.label.partition(": ")[2].removeprefix("public."))
        for one in seen.recordings.series
        if one.name.startswith(f"{name}_of_") and one.values
    ]
    largest = sorted(ends, reverse=True)[:_NAMED_INDEXES]
    return ", ".join(f"{relation} {value_words(size, 'bytes')}" for size, relation in largest)


def _vacuums(seen: LookedAt) -> Cell:
    """Return how many vacuums could remove hardly anything, with what they cost."""
    values = {one.name: one.value for one in seen.evidence}
    count, took_s, pages = (values.get(f"futile_vacuum{what}") for what in ("s", "_s", "_pages"))
    if count is None:
        return NOTHING
    if not count or took_s is None or pages is None:
        return Cell(f"{count:,.0f}")
    return Cell(f"{count:,.0f}", f"{format_duration(took_s)}, {pages:,.0f} pages")


def _from_to(series: Series) -> str:
    first, last = (value_words(x, series.unit) for x in (series.values[0], series.values[-1]))
    return f"{first} → {last}" if first != last else last


def _sentence(seen: LookedAt) -> str:
    parts = [
        f"{words[0].lower()}{words[1:]} {_from_to(series)}"
        for name, words in _TOLD
        if name in _BRIEF and (series := seen.series(name)) is not None
    ]
    doubt = f" ({seen.doubt})" if seen.doubt else ""
    return f"{seen.name}{doubt}: {'; '.join(parts) or 'no rows'}."


def _pages(seen: LookedAt, name: str, room_bytes: float, *, is_first: bool) -> Iterator[Block]:
    caption = seen.detail("dead_versions_per_row")
    for at, (relation, strips) in enumerate(seen.tables.items()):
        title = f"The pages of {relation} on {seen.name}"
        picture = page_picture(
            strips,
            name=f"{name}-{at}",
            title=title,
            room_bytes=room_bytes,
            has_legend=is_first and at == 0,
        )
        yield Details(title, (Figure(picture, caption, pages_text(strips)),))
