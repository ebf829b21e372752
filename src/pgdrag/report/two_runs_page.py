"""How do two runs read, one over the other? The same blocks for a page, a terminal and Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pgdrag
from pgdrag.english import counted, listed_some
from pgdrag.findings.two_runs import TreatmentTwice, TwoRuns
from pgdrag.findings.values import Findings, Interval, TreatmentFinding
from pgdrag.findings.wording import slowdown_words
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
_DRIFT = (
    "The machine may have drifted between the runs: that is in the ratio of throughput, and not in its interval, which "
    "only knows how trials of one run differ. From the slowdown against the baseline of the same run it is cancelled. "
    "To be sure, run both in one comparison: pgdrag compare."
)


def two_runs_blocks(found: TwoRuns) -> Iterator[Block]:
    """Yield the answer, each treatment in both runs, and in what else the runs differ."""
    yield Paragraph(_answer(found), is_lead=True)
    yield _table(found)
    yield from _picture(found)
    yield Heading("What differs between the runs")
    apart = format_duration(round(abs(found.days) * 86_400))
    if found.differences:
        yield table_of(
            "What differs between the runs",
            found.differences,
            {
                "What": lambda x: Cell(x.name, ", ".join(x.of), is_strong=True),
                found.before: lambda x: x.before,
                found.after: lambda x: x.after,
            },
        )
    else:
        yield Paragraph(f"Nothing that a run records, but the time: {apart}.")
    yield Paragraph(_DRIFT, Tone.MUTED)


def render_two_runs_html(found: TwoRuns, before: Findings, after: Findings) -> str:
    """Return a self-contained HTML page, with the series of both runs in one picture for each treatment."""
    head = PageHead(
        eyebrow="pgdrag · two runs",
        title=f"{found.after} against {found.before}",
        question="Is it faster or slower than it was?",
        footer=f"Made from both runs by pgdrag {pgdrag.__version__}.",
        version=pgdrag.__version__,
    )
    parts = [PagePart("two-runs", "Two runs", [*two_runs_blocks(found)])]
    if series := [*_series(before, after)]:
        parts.append(PagePart("time-series", "What happened when", series))
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


def _table(found: TwoRuns) -> Block:
    def rate(value: Interval | None) -> Cell:
        if value is None:
            return NOTHING
        if value.center == 0:
            return Cell(f"< {format_rate(value.high)}", "nothing committed", Tone.BAD)
        return Cell(format_rate(value.center), bounds_words(value, format_number))

    return table_of(
        "Throughput of each treatment in both runs",
        found.treatments,
        {
            "Treatment": lambda x: Cell(x.treatment, is_strong=True),
            f">{found.before}": lambda x: rate(x.before),
            f">{found.after}": lambda x: rate(x.after),
            ">× slower": lambda x: slowdown_cell(x.slowdown),
            ">× slower against the baseline": lambda x: slowdown_cell(x.to_baseline),
        },
    )


def _picture(found: TwoRuns) -> Iterator[Block]:
    rows = [_row(one) for one in found.treatments if one.slowdown is not None]
    if rows:
        caption = (
            f"How many times slower each treatment is in {found.after} than in {found.before}. Logarithmic scale; further "
            "right is slower."
        )
        yield rows_figure(rows, f"{found.after} against {found.before}", caption, caption)


def _row(one: TreatmentTwice) -> Row:
    assert one.slowdown is not None, one.treatment
    verdict, slowdown = one.slowdown.verdict, one.slowdown.slowdown
    return Row(one.treatment, words=brief_slowdown(verdict, slowdown), found=slowdown)


def _series(before: Findings, after: Findings) -> Iterator[Block]:
    seen = [
        {one.rung.name: _recording(found, one) for one in found.rungs if has_recording(one)}
        for found in (before, after)
    ]
    both = [name for name in seen[0] if name in seen[1]]
    for name in both[:_MOST_PICTURES]:
        first, second = (side[name] for side in seen)
        text = f"{first.name}\n{panels_text(first.panels)}\n\n{second.name}\n{panels_text(second.panels)}"
        caption = f"The trial in the middle by throughput of each run. Dashed lines: {second.name}."
        figure = TimeSeries(first, (second,), second.name, caption, text)
        yield figure if len(both) == 1 else Details(name, (figure,))
    if len(both) > _MOST_PICTURES:
        yield Paragraph(f"{len(both) - _MOST_PICTURES} more treatments are not drawn.", Tone.MUTED)


def _recording(found: Findings, rung: TreatmentFinding) -> Recording:
    return replace(recording_of(rung, _MARKS), name=f"{found.run.run_id} {rung.rung.name}")
