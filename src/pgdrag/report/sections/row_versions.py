"""How many old row versions are kept, in which pages, and what does an update cost?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.english import in_sentence
from pgdrag.findings.values import Findings
from pgdrag.model.recordings import Series
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.page_picture import page_picture, pages_text
from pgdrag.report.sections import Section
from pgdrag.report.sections._looked_at import LookedAt, looked_at, reasons
from pgdrag.report.sections._updates import HOW_UPDATES_ARE_SEEN, update_blocks
from pgdrag.report.series_words import value_words
from pgdrag.units import format_duration

# The series of the table's columns, with their headings.
_COLUMNS = {
    "dead_versions_per_row": "Old versions per row",
    "hot_chain_length": "HOT chain, mean",
    "index_entries_visited": "Index entries per update",
    "buffers_per_update": "Buffers per update",
    "bloat_ratio": "Bloat",
    "table_bytes": "Tables",
    "index_bytes": "Indexes",
}
_NAMED_INDEXES = 3
_BRIEF = ("dead_versions_per_row", "buffers_per_update", "index_bytes")
# Of all rungs together, to keep the report of a long ladder small.
_ALL_PICTURES_BYTES = 30_000
_ALL_PLANS_BYTES = 6_000
_HOW_TO_READ = (
    "From the first sample, just before the window, to the last, just after it, in the trial with the median throughput. "
    "An old version has been updated, deleted or rolled back but is still stored; a dead line pointer counts as one. "
    "A HOT chain is the versions that an index entry leads to on one page. Bloat is the size of the tables over that of "
    "the fewest pages that hold their rows. A futile vacuum could not remove nearly all of the dead tuples that it found; "
    "time and pages are of all of these."
)
_HOW_TO_SEE = (
    "Each strip shows a table's pages from first to last, all moments on one scale; of a large table, the pages that were "
    "read, evenly spread. A column shows its pages' line pointers by state, from below in the legend's order; the band "
    "below it is as high as the share of free space."
)


class RowVersionsSection(Section):
    """A table of all rungs, and the pages of each rung's tables at a few moments."""

    name = "row-versions"
    summary = "old row versions, HOT chains, what an update costs, and strips of pages"
    title = "Row versions"
    order = 48

    def applies(self, findings: Findings) -> bool:
        """Some trial's pages were sampled, or could not be."""
        return bool(looked_at(findings, tuple(_COLUMNS)) or reasons(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, then each rung's pages and updates, then what could not be sampled."""
        rungs = looked_at(findings, tuple(_COLUMNS))
        pictures = max(1, sum(len(seen.tables) for seen in rungs))
        updates = max(1, sum(len(seen.updates) for seen in rungs))
        body: list[Block] = []
        if rungs:
            body += [Paragraph(_HOW_TO_READ, Tone.MUTED), _table(rungs)]
            # Once, not below each rung's pictures and tables.
            if any(seen.tables for seen in rungs):
                body.append(Paragraph(_HOW_TO_SEE, Tone.MUTED))
            if any(seen.updates for seen in rungs):
                body.append(Paragraph(HOW_UPDATES_ARE_SEEN, Tone.MUTED))
        first = next((seen for seen in rungs if seen.tables), None)
        for at, seen in enumerate(rungs):
            name, room_bytes = f"pages-{at}", _ALL_PICTURES_BYTES / pictures
            body += _pages(seen, name, room_bytes, is_first=seen is first)
            body += update_blocks(seen, _ALL_PLANS_BYTES / updates)
        why = reasons(findings)
        return (*body, Items(tuple(why))) if why else body

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence a rung."""
        texts = tuple(_sentence(seen) for seen in looked_at(findings, tuple(_COLUMNS)))
        return (Heading(self.title), Items(texts)) if texts else ()


def _table(rungs: Sequence[LookedAt]) -> Table:
    shown = [
        (name, title)
        for name, title in _COLUMNS.items()
        if any(seen.series(name) for seen in rungs)
    ]
    columns = header("Rung", *(f">{title}" for _, title in shown), ">Futile vacuums")
    rows = tuple(
        (_name(seen), *(_cell(seen, name) for name, _ in shown), _vacuums(seen)) for seen in rungs
    )
    return Table("Row versions in the first and the last sample", columns, rows)


def _name(seen: LookedAt) -> Cell:
    if seen.problem:
        return Cell(seen.name, seen.problem, Tone.BAD, is_strong=True)
    return Cell(seen.name, seen.title, is_strong=True)


def _cell(seen: LookedAt, name: str) -> Cell:
    series = seen.series(name)
    if series is None:
        return NOTHING
    longest = seen.series(f"{name}_max")
    note = f"longest {value_words(max(longest.values), longest.unit)}" if longest else ""
    return Cell(_from_to(series), note or _each(seen, name))


def _each(seen: LookedAt, name: str) -> str:
    """Return the sizes of the largest indexes."""
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
    """Return how many vacuums were futile, with their cost."""
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
        f"{in_sentence(_COLUMNS[name])} {_from_to(series)}"
        for name in _BRIEF
        if (series := seen.series(name)) is not None
    ]
    problem = f" ({seen.problem})" if seen.problem else ""
    return f"{seen.name}{problem}: {'; '.join(parts) or 'no rows'}."


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
