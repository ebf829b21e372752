"""How do two runs read, one over the other? The same blocks for a page, a terminal and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pgdrag
from pgdrag.english import counted, listed_some
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Treatments
from pgdrag.findings.history import Difference
from pgdrag.findings.two_runs import TreatmentTwice, TwoRuns, treatments_of, two_runs
from pgdrag.findings.values import Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import RunRecord
from pgdrag.report.cells import NOTHING, bounds_words, brief_slowdown, slowdown_cell
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Paragraph,
    Recording,
    TimeSeries,
    Tone,
    table_of,
)
from pgdrag.report.html import PageHead, PagePart, render_page
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.series_words import panels_text
from pgdrag.report.trial_series import has_recording, recording_of
from pgdrag.units import format_duration, format_number, format_rate

_MARKS = 20  # of a kind
_MOST_PICTURES = 12
_MOST_SHOWN = 8  # treatments, and differences; the others are folded away
_DRIFT = (
    "Drift of the machine between the runs is in the ratio, but not in its interval; against the baseline of the same "
    "run it cancels out. To be sure, run both in one comparison: pgdrag compare."
)


def two_runs_blocks(found: TwoRuns) -> Iterator[Block]:
    """Yield the answer, each treatment in both runs, and in what else the runs differ."""
    yield Paragraph(_answer(found), is_lead=True)
    every = shown = found.treatments
    if len(every) > _MOST_SHOWN:
        changed = (x for x in every if x.slowdown is not None and x.slowdown.is_significant)
        shown = tuple(islice(changed, _MOST_SHOWN))
    yield from _picture(found, shown)
    if shown:
        yield _table(found, shown)
    if len(shown) < len(every):
        yield Details(f"All {counted(len(every), 'treatment')}", (_table(found, every),))
    yield Paragraph(_DRIFT, Tone.MUTED)
    yield Heading("What differs between the runs")
    differences = found.differences
    if not differences:
        apart = format_duration(round(abs(found.days) * 86_400))
        yield Paragraph(f"Nothing that a run records, but the time: {apart}.")
        return
    yield _differences(found, differences[:_MOST_SHOWN])
    if more := differences[_MOST_SHOWN:]:
        yield Details(f"{counted(len(more), 'more difference')}", (_differences(found, more),))


def _differences(found: TwoRuns, differences: Sequence[Difference]) -> Block:
    return table_of(
        "What differs between the runs",
        differences,
        {
            "What": lambda x: Cell(x.name, ", ".join(x.of), is_strong=True),
            found.before: lambda x: x.before,
            found.after: lambda x: x.after,
        },
    )


def render_two_runs_html(before: RunRecord, after: RunRecord) -> str:
    """Return a self-contained HTML page, with the series of both runs in one picture for each treatment.

    Raises:
        UsageError: they cannot be compared, and why.
    """
    sides = [treatments_of(run) for run in (before, after)]
    found = two_runs(before, after, sides)
    head = PageHead(
        eyebrow="pgdrag · two runs",
        title=f"{found.after} against {found.before}",
        question="Is it faster or slower than it was?",
        footer=f"Made from both runs by pgdrag {pgdrag.__version__}.",
    )
    parts = [PagePart("two-runs", "Two runs", [*two_runs_blocks(found)])]
    if series := [*_series(*sides)]:
        parts.append(PagePart("time-series", "What happened when", series, is_folded=True))
    return render_page(head, parts)


def _answer(found: TwoRuns) -> str:
    known = [one for one in found.treatments if one.slowdown is not None]
    if not known:
        return "No answer: no treatment has a number in both runs."
    words = [
        f"{one.treatment} is {slowdown_words(one.slowdown.slowdown)}"
        for one in known
        if one.slowdown is not None and one.slowdown.is_significant
    ]
    of_all = (
        f"of {counted(len(known), 'treatment')}" if len(known) > 1 else f"of {known[0].treatment}"
    )
    if not words:
        return f"No significant change {of_all} in {found.after} against {found.before}."
    return f"In {found.after} against {found.before}: {listed_some(words, 3)}."


def _table(found: TwoRuns, treatments: Sequence[TreatmentTwice]) -> Block:
    def rate(value: Interval | None) -> Cell:
        if value is None:
            return NOTHING
        if value.center == 0:
            return Cell(f"< {format_rate(value.high)}", "nothing committed", Tone.BAD)
        return Cell(format_rate(value.center), bounds_words(value, format_number))

    return table_of(
        "Throughput of each treatment in both runs",
        treatments,
        {
            "Treatment": lambda x: Cell(x.treatment, is_strong=True),
            f">{found.before}": lambda x: rate(x.before),
            f">{found.after}": lambda x: rate(x.after),
            ">× slower": lambda x: slowdown_cell(x.slowdown),
            ">× slower against the baseline": lambda x: slowdown_cell(x.to_baseline),
        },
    )


def _picture(found: TwoRuns, treatments: Sequence[TreatmentTwice]) -> Iterator[Block]:
    rows = [_row(one) for one in treatments if one.slowdown is not None]
    if rows:
        caption = f"How many times slower each treatment is in {found.after}. Logarithmic scale; further right is slower."
        yield rows_figure(rows, f"{found.after} against {found.before}", caption, caption)


def _row(one: TreatmentTwice) -> Row:
    assert one.slowdown is not None, one.treatment
    verdict, slowdown = one.slowdown.verdict, one.slowdown.slowdown
    return Row(one.treatment, words=brief_slowdown(verdict, slowdown), found=slowdown)


def _series(before: Treatments, after: Treatments) -> Iterator[Block]:
    seen = [
        {one.rung.name: _recording(side.run, one) for one in side.trials if has_recording(one)}
        for side in (before, after)
    ]
    both = [name for name in seen[0] if name in seen[1]]
    for name in both[:_MOST_PICTURES]:
        first, second = (side[name] for side in seen)
        text = f"{first.name}\n{panels_text(first.panels)}\n\n{second.name}\n{panels_text(second.panels)}"
        caption = f"The trial of median throughput of each run. Dashed lines: {second.name}."
        figure = TimeSeries(first, (second,), second.name, caption, text)
        yield figure if len(both) == 1 else Details(name, (figure,))
    if len(both) > _MOST_PICTURES:
        yield Paragraph(f"{len(both) - _MOST_PICTURES} more treatments are not drawn.", Tone.MUTED)


def _recording(run: RunRecord, one: RungTrials) -> Recording:
    return replace(recording_of(one, _MARKS), name=f"{run.run_id} {one.rung.name}")
