"""How does a search read? The file that was found with its proof, the way there, and what each setting does."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs.search.findings import DimensionFinding, LineFinding, SearchFinding
from pgdrag.designs.search.front_picture import front_figure
from pgdrag.designs.search.words import front_lines, gain_words, proof_words
from pgdrag.english import counted
from pgdrag.findings.values import Findings, Interval
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Figure,
    Heading,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_duration

_MOST_STEPS = 12  # of the way there, in the picture
_MOST_DIMENSIONS = 10
_SLICES = 4
_MATTERS = 1.01  # a gain under this is left out of the pictures


class SearchSection(Section):
    """The configuration, its proof, the best so far over trials, importance and slices."""

    name = "search"
    summary = "the configuration that a search found, its proof, and what each setting does"
    title = "Search"
    order = 21
    is_folded = False
    finding_type = SearchFinding

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, SearchFinding)
        return (
            *_file(findings, found),
            *_proof(found),
            *_front(found),
            *_course(found),
            *_importance(found),
            *_slices(found),
            *([] if found.course else [Paragraph(found.answer, Tone.MUTED)]),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, SearchFinding)
        return (*_file(findings, found), *_proof(found), *_front(found))

    def ending(self, findings: Findings) -> Sequence[Block]:
        return _file(findings, found_of(findings, SearchFinding))


def _file(findings: Findings, found: SearchFinding) -> list[Block]:
    if not found.lines:
        return []
    rows = tuple(
        (
            Cell(one.name, is_strong=True),
            Cell(one.value),
            Cell(one.start or "–"),
            _brings(found, one),
        )
        for one in found.lines
    )
    blocks: list[Block] = [
        Table(
            "The configuration that was found",
            header("Setting", "Value", "Before", "What the line brings here"),
            rows,
        )
    ]
    if found.found is not None:
        words = f"As a postgresql.conf: pgdrag report {findings.run.run_id} --format conf"
        blocks.append(Paragraph(words, Tone.MUTED))
    return blocks


def _brings(found: SearchFinding, line: LineFinding) -> Cell:
    if line.brings is None:
        return NOTHING
    words = gain_words(found, line.brings)
    number, _, bounds = words.partition(" (")
    if line.brings.excludes_one:
        return Cell(number, f"({bounds}")
    return Cell("no significant difference", words, Tone.MUTED)


def _proof(found: SearchFinding) -> list[Block]:
    rows = [
        Row(name, aside, _words(found, gain), found=gain)
        for name, aside, gain in (
            ("claimed", "by the short trials of the search", found.claimed),
            ("proved", proof_words(found), found.proved),
            *(
                (f"{counted(len(few.lines), 'change')} of it", f"to beat {few.rival}", few.gain)
                for few in found.fewest
            ),
            *(
                (rival.name, f"by the same {found.proof_unit}s", rival.gain)
                for rival in found.rivals
            ),
        )
        if gain is not None
    ]
    if not rows:
        return []
    caption = (
        f"How many times {found.better} than the baseline, with 95 % intervals; a dot is one {found.proof_unit}. "
        "Logarithmic scale."
    )
    return [
        Heading("Claimed and proved"),
        _figure(
            found, rows, "Claimed and proved gain", caption, "search-proof", found.redeployments
        ),
    ]


def _front(found: SearchFinding) -> list[Block]:
    """Return the gain of each configuration in each objective, and a picture if there are two objectives."""
    if not found.front:
        return []
    objectives = list(found.front[0].gains)
    rows = tuple(
        (
            Cell(one.name, front_lines(one) if one.lines else "", is_strong=not one.is_beaten),
            *(_gain_cell(found, one.gains[name]) for name in objectives),
            Cell("something is better in all", tone=Tone.MUTED)
            if one.is_beaten
            else Cell("on the front"),
        )
        for one in found.front
    )
    blocks: list[Block] = [
        Heading("What each configuration brings"),
        Table(
            f"Gain over the baseline in each objective, by {found.proof_unit}s",
            header("Configuration", *objectives, ""),
            rows,
        ),
    ]
    if len(objectives) == 2:
        blocks.append(front_figure(found))
    return blocks


def _gain_cell(found: SearchFinding, gain: Interval) -> Cell:
    number, _, bounds = gain_words(found, gain).partition(" (")
    tone = Tone.PLAIN if gain.excludes_one else Tone.MUTED
    return Cell(number, f"({bounds}", tone)


def _course(found: SearchFinding) -> list[Block]:
    if not found.course:
        return []
    stride = -(-len(found.course) // _MOST_STEPS)
    last = len(found.course) - 1
    shown = [x for at, x in enumerate(found.course) if (last - at) % stride == 0]
    rows = [
        Row(
            f"after {x.trials} trials",
            format_duration(x.time_s),
            words=_words(found, x.gain),
            found=x.gain,
        )
        for x in shown
    ]
    caption = "The best configuration that had been tried, and what it was thought to gain then, with 95 % intervals."
    title = "Best so far"
    return [Heading(title), _figure(found, rows, title, caption, "search-course")]


def _importance(found: SearchFinding) -> list[Block]:
    shown = [one for one in found.dimensions if one.gain.center >= _MATTERS][:_MOST_DIMENSIONS]
    if not shown:
        return []
    rows = [
        Row(one.name, f"{one.start} → {one.best}", _words(found, one.gain), found=one.gain)
        for one in shown
    ]
    others = len(found.dimensions) - len(shown)
    caption = (
        f"What the best value of each setting gains over its value before, by the model of all short trials. "
        f"{counted(others, 'other setting')} gain less than 1 %, or an amount that these trials cannot tell."
    )
    title = "What matters"
    return [Heading(title), _figure(found, rows, title, caption, "search-importance")]


def _slices(found: SearchFinding) -> list[Block]:
    figures: list[Block] = []
    for one in [x for x in found.dimensions if x.gain.center >= _MATTERS][:_SLICES]:
        figures += [Heading(one.name, one.group), _slice(found, one)]
    return (
        [Details("How the gain depends on each of the settings that matter most", tuple(figures))]
        if figures
        else []
    )


def _slice(found: SearchFinding, one: DimensionFinding) -> Figure:
    rows = [
        Row(
            value,
            "before" if value == one.start else "makes trials fail" if value in one.failing else "",
            _words(found, gain),
            found=gain,
            dots=one.seen.get(value, ()),
        )
        for value, gain in one.slice.items()
    ]
    caption = (
        "All other settings as they were. A dot is a trial, less what the model says of its other settings; a value "
        "without dots was not tried."
    )
    return _figure(found, rows, f"Gain by {one.name}", caption, f"search-slice-{one.name}")


def _figure(
    found: SearchFinding,
    rows: Sequence[Row],
    title: str,
    caption: str,
    name: str,
    dots: Sequence[float] = (),
) -> Figure:
    description = "; ".join(f"{row.name} {row.words}" for row in rows)
    whole = f"{title}: times {found.better} than the baseline"
    return rows_figure(rows, whole, description, caption, name=name, dots=dots)


def _words(found: SearchFinding, gain: Interval) -> str:
    return gain_words(found, gain).partition(" (")[0]
