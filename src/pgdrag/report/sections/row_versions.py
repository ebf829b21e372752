"""How many old row versions are kept, in which pages, and what does an update cost?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgdrag.english import counted, in_sentence
from pgdrag.findings.values import Findings
from pgdrag.model import Observation, Outcome
from pgdrag.model.recordings import HotChain, PageStrip, Recordings, Series, UpdateSample
from pgdrag.report.cells import NOTHING
from pgdrag.report.chain_picture import chain_picture, chain_text
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Figure,
    Heading,
    Items,
    Lines,
    Paragraph,
    Table,
    Tone,
    table_of,
)
from pgdrag.report.page_picture import page_picture, pages_text
from pgdrag.report.plan_text import plan_text
from pgdrag.report.sections import Section
from pgdrag.report.sections.statements import statement_words
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
_ALL_CHAINS_BYTES = 20_000
_ALL_PLANS_BYTES = 6_000
_HOW_TO_READ = (
    "From the first sample, just before the window, to the last, just after it, in the trial with the median throughput. "
    "An old version has been updated, deleted or rolled back but is still stored; a dead line pointer counts as one. "
    "A HOT chain is the versions that an index entry leads to on one page. Bloat is the size of the tables over that of "
    "the fewest pages that hold their rows. A futile vacuum left nearly all of the dead tuples that it found; the times and "
    "pages of all futile vacuums are added up."
)
_HOW_TO_SEE = (
    "Each strip shows a table's pages from first to last, on the same scale at all moments; of a large table, the pages that "
    "were read, evenly spread. A column shows the line pointers of its pages by state, from the bottom in the order of the "
    "legend; the height of the band below it is the share of free space."
)
_HOW_TO_FOLLOW = (
    "Each chain is the longest of its sample, from the line pointer that the index entry refers to. A scan follows it from "
    "version to version: the xmax of each is the xmin of the next, and its ctid is the place of the next. The ctid of the "
    "newest version is its own place."
)
_COLLECTORS = ("row_versions", "update_cost")
_HOW_UPDATES_ARE_SEEN = (
    "EXPLAIN (ANALYZE, BUFFERS) of an update of one row, run and rolled back. Buffers counts every access to a block "
    "of a table or an index: to find the row, and to add its new version and index entries."
)


class RowVersionsSection(Section):
    name = "row-versions"
    summary = "old row versions, HOT chains, what an update costs, and strips of pages"
    title = "Row versions"
    order = 48

    def applies(self, findings: Findings) -> bool:
        """Some trial's pages were sampled, or could not be."""
        return bool(_sampled(findings) or _reasons(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, then each rung's pages and updates, then what could not be sampled."""
        rungs = _sampled(findings)
        pictures = sum(len(seen.by_table) for seen in rungs)
        updates = sum(len(seen.by_update) for seen in rungs)
        body: list[Block] = []
        if rungs:
            body += [
                Paragraph(_HOW_TO_READ, Tone.MUTED),
                _versions_table(rungs, findings.noun_heading),
            ]
        # Once, not below each rung's pictures and tables.
        if pictures:
            body.append(Paragraph(_HOW_TO_SEE, Tone.MUTED))
        if any(seen.recordings.of(HotChain) for seen in rungs):
            body.append(Paragraph(_HOW_TO_FOLLOW, Tone.MUTED))
        if updates:
            body.append(Paragraph(_HOW_UPDATES_ARE_SEEN, Tone.MUTED))
        drawn = 0
        for seen in rungs:
            for relation, strips in seen.by_table.items():
                title = f"The pages of {relation} on {seen.name}"
                picture = page_picture(
                    strips,
                    name=f"pages-{drawn}",
                    title=title,
                    room_bytes=_ALL_PICTURES_BYTES / pictures,
                    has_legend=not drawn,
                )
                caption = seen.detail("dead_versions_per_row")
                figures = [Figure(picture, caption, pages_text(strips))]
                if chains := seen.chains_of(relation):
                    room = _ALL_CHAINS_BYTES / pictures
                    figures.append(
                        _chain_figure(chains, f"chain-{drawn}", relation, seen.name, room)
                    )
                body.append(Details(title, tuple(figures)))
                drawn += 1
            words = seen.detail("buffers_per_update")
            how = (Paragraph(words, Tone.MUTED),) if words else ()
            for query, samples in seen.by_update.items():
                blocks = (
                    *how,
                    _updates_table(samples),
                    *_plans(samples, _ALL_PLANS_BYTES / updates),
                )
                title = f"Update on {seen.name}: {statement_words(query)}"
                body.append(Details(title, blocks))
        why = _reasons(findings)
        return (*body, Items(why)) if why else body

    def brief(self, findings: Findings) -> Sequence[Block]:
        texts = tuple(_sentence(seen) for seen in _sampled(findings))
        return (Heading(self.title), Items(texts)) if texts else ()


@dataclass(frozen=True)
class _Sampled:
    """What was seen of a rung's rows.

    Attributes:
        problem: why it has no number though it was measured, or "".
    """

    name: str
    title: str
    recordings: Recordings
    evidence: Sequence[Observation]
    problem: str = ""

    def series(self, name: str) -> Series | None:
        """Return a series that has values; None where there is none."""
        return next((x for x in self.recordings.series if x.name == name and x.values), None)

    @property
    def by_table(self) -> dict[str, list[PageStrip]]:
        """The moments of each table's pages."""
        found: dict[str, list[PageStrip]] = {}
        for strip in self.recordings.of(PageStrip):
            found.setdefault(strip.relation, []).append(strip)
        return found

    def chains_of(self, relation: str) -> list[HotChain]:
        """Return the table's chains, moment by moment."""
        return [x for x in self.recordings.of(HotChain) if x.relation == relation and x.first]

    @property
    def by_update(self) -> dict[str, list[UpdateSample]]:
        """The samples of each update, by its text."""
        found: dict[str, list[UpdateSample]] = {}
        for sample in self.recordings.of(UpdateSample):
            found.setdefault(sample.query, []).append(sample)
        return found

    def detail(self, observation: str) -> str:
        """Return the detail of an observation, or ""."""
        return next((x.detail for x in self.evidence if x.name == observation), "")


def _sampled(findings: Findings) -> list[_Sampled]:
    """Return the rungs that have any series, in their order.

    A variant that loses updates has no number and no trial in the middle; the pages of one whose results were wrong
    are telling all the same.
    """
    found = []
    for rung in findings.rungs:
        wrong = (
            ("results were wrong", result.recordings, result.evidence)
            for result in findings.run.results
            if result.trial.treatment == rung.rung.treatment
            and result.outcome is Outcome.INVALID
            and result.measurement is not None
            and result.violations
        )
        for problem, recordings, evidence in (("", rung.recordings, rung.evidence), *wrong):
            if any(one.name in _COLUMNS for one in recordings.series):
                name, title = rung.rung.name, rung.rung.title
                found.append(_Sampled(name, title, recordings, evidence, problem))
                break
    return found


def _reasons(findings: Findings) -> tuple[str, ...]:
    """Say of each rung why it was not sampled although that was asked for."""
    return tuple(
        f"{rung.rung.name}: no {name.replace('_', ' ')}: {rung.recordings.missing[name]}."
        for rung in findings.rungs
        for name in _COLLECTORS
        if name in rung.recordings.missing
    )


def _chain_figure(
    chains: Sequence[HotChain], name: str, relation: str, rung: str, room_bytes: float
) -> Figure:
    """Draw the first and the last moment; the last alone where there is no room for both."""
    title = f"The longest HOT chain of {relation} on {rung}"
    ends = (chains[0], chains[-1]) if len(chains) > 1 else (chains[-1],)
    picture = chain_picture(ends, name=name, title=title)
    if len(picture.encode()) > room_bytes:
        ends = ends[-1:]
        picture = chain_picture(ends, name=name, title=title)
    return Figure(picture, f"{title}.", chain_text(ends))


def _versions_table(rungs: Sequence[_Sampled], heading: str) -> Table:
    def name(seen: _Sampled) -> Cell:
        tone = Tone.BAD if seen.problem else Tone.PLAIN
        return Cell(seen.name, seen.problem or seen.title, tone, is_strong=True)

    def of_series(name: str) -> Callable[[_Sampled], Cell]:
        return lambda seen: _cell(seen, name)

    return table_of(
        "Row versions in the first and the last sample",
        rungs,
        {
            heading: name,
            **{f">{title}": of_series(name) for name, title in _COLUMNS.items()},
            ">Futile vacuums": _vacuums,
        },
    )


def _cell(seen: _Sampled, name: str) -> Cell:
    series = seen.series(name)
    if series is None:
        return NOTHING
    note = ""
    if longest := seen.series(f"{name}_max"):
        note = f"longest {value_words(max(longest.values), longest.unit)}"
    elif name == "index_bytes":
        ends = (
            (one.values[-1], one.label.partition(": ")[2].removeprefix("public."))
            for one in seen.recordings.series
            if one.name.startswith(f"{name}_of_") and one.values
        )
        largest = sorted(ends, reverse=True)[:_NAMED_INDEXES]
        note = ", ".join(f"{index} {value_words(size, 'bytes')}" for size, index in largest)
    return Cell(_from_to(series), note)


def _vacuums(seen: _Sampled) -> Cell:
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


def _sentence(seen: _Sampled) -> str:
    parts = [
        f"{in_sentence(_COLUMNS[name])} {_from_to(series)}"
        for name in _BRIEF
        if (series := seen.series(name)) is not None
    ]
    problem = f" ({seen.problem})" if seen.problem else ""
    return f"{seen.name}{problem}: {'; '.join(parts) or 'no rows'}."


def _updates_table(samples: Sequence[UpdateSample]) -> Table:
    before = {sample.at_s: earlier.way for earlier, sample in pairwise(samples)}

    def way(sample: UpdateSample) -> Cell:
        is_same = before.get(sample.at_s) == sample.way
        return Cell("the same", tone=Tone.MUTED) if is_same else Cell(sample.way)

    return table_of(
        "Cost of the update through the window",
        samples,
        {
            ">At": lambda sample: format_duration(sample.at_s),
            ">Buffers": lambda sample: Cell(f"{sample.buffers:,}", is_strong=True),
            ">Read": lambda sample: f"{sample.buffers_read:,}",
            ">Rows": lambda sample: f"{sample.rows:,.0f}",
            ">Time": lambda sample: format_duration(sample.took_s),
            "Rows found by": way,
        },
    )


def _plans(samples: Sequence[UpdateSample], room_bytes: float) -> Iterator[Block]:
    """Yield the first plan and the last, and those in between that find rows another way."""
    plans = [(sample, plan_text(sample.plan)) for sample in samples if sample.plan is not None]
    left = room_bytes
    # What it came to first, then how it began.
    kept = []
    for sample, text in (*plans[-1:], *plans[:-1]):
        left -= len(text.encode())
        if left >= 0:
            kept.append((sample, text))
    for sample, text in sorted(kept, key=lambda each: each[0].at_s):
        yield Paragraph(f"At {format_duration(sample.at_s)}:")
        yield Lines(text)
    if (rest := len(plans) - len(kept)) > 0:
        yield Paragraph(f"{counted(rest, 'more plan')} in the JSON report.", Tone.MUTED)
