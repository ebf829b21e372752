"""How do two runs look over each other? The series of the same treatment of both in one picture, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.report.cells import rate_cell
from pgdrag.report.document import (
    NOTHING,
    Block,
    Cell,
    Details,
    Note,
    Paragraph,
    Recording,
    TimeSeries,
    Tone,
    table_of,
)
from pgdrag.report.html import PageHead, PagePart, render_page
from pgdrag.report.series_words import panels_text
from pgdrag.report.trial_series import has_recording, recording_of

_MARKS = 20  # of a kind
_MOST_PICTURES = 12


def comparison_page(first: Findings, second: Findings) -> str:
    """Return a page with two runs over each other; it draws no conclusion from runs at different times."""
    names = f"{first.run.run_id} and {second.run.run_id}"
    head = PageHead(
        eyebrow="pgdrag · two runs",
        title=names,
        question="How do they look over each other?",
        footer=f"Runs {names}.",
        version=second.run.pgdrag_version,
    )
    return render_page(
        head,
        [
            PagePart("conditions", "In what they differ", list(_conditions(first, second))),
            PagePart("throughput", "Throughput", [_rates(first, second)]),
            PagePart("time-series", "What happened when", list(_pictures(first, second))),
        ],
    )


def _conditions(first: Findings, second: Findings) -> Iterator[Block]:
    differences = tuple(f"{what}: {a} and {b}" for what, a, b in _compared(first, second) if a != b)
    if differences:
        yield Note("Their conditions differ", differences, Tone.WARNING)
    else:
        yield Paragraph("Workload, load, host and versions are the same.")
    yield Paragraph(
        "Runs at different times also differ by what the machine did then: pgdrag compare takes pairs of trials.",
        Tone.MUTED,
    )


def _compared(first: Findings, second: Findings) -> Iterator[tuple[str, object, object]]:
    a, b = first.run, second.run
    yield "Workload", a.study.scale_words, b.study.scale_words
    yield "Workload's parameters", a.study.workload, b.study.workload
    for one in fields(a.study.load):
        yield f"Load, {one.name}", getattr(a.study.load, one.name), getattr(b.study.load, one.name)
    for one in fields(a.host):
        yield f"Host, {one.name}", getattr(a.host, one.name), getattr(b.host, one.name)
    yield "PostgreSQL", a.server_version, b.server_version
    yield "pgdrag", a.pgdrag_version, b.pgdrag_version


def _rates(first: Findings, second: Findings) -> Block:
    rungs = [{one.rung.name: one for one in each.rungs} for each in (first, second)]

    def rate(found: Findings, at: int, name: str) -> Cell:
        rung = rungs[at].get(name)
        return NOTHING if rung is None else rate_cell(found, rung)

    return table_of(
        "Throughput of each treatment",
        list(dict.fromkeys([*rungs[0], *rungs[1]])),
        {
            "Treatment": lambda name: Cell(name, is_strong=True),
            f">{first.run.run_id}": lambda name: rate(first, 0, name),
            f">{second.run.run_id}": lambda name: rate(second, 1, name),
        },
    )


def _pictures(first: Findings, second: Findings) -> Iterator[Block]:
    seen = [
        {one.rung.name: _recording(found, one) for one in found.rungs if has_recording(one)}
        for found in (first, second)
    ]
    both = [name for name in seen[0] if name in seen[1]]
    if not both:
        yield Paragraph("No treatment of the same name was recorded in both.", Tone.MUTED)
    for name in both[:_MOST_PICTURES]:
        a, b = seen[0][name], seen[1][name]
        text = f"{a.name}\n{panels_text(a.panels)}\n\n{b.name}\n{panels_text(b.panels)}"
        caption = f"The trial in the middle by throughput of each run. Dashed lines: {b.name}."
        figure = TimeSeries(a, (b,), b.name, caption, text)
        yield figure if len(both) == 1 else Details(name, (figure,))
    if len(both) > _MOST_PICTURES:
        yield Paragraph(f"{len(both) - _MOST_PICTURES} more treatments are not drawn.", Tone.MUTED)


def _recording(found: Findings, rung: TreatmentFinding) -> Recording:
    return replace(recording_of(rung, _MARKS), name=f"{found.run.run_id} {rung.rung.name}")
