"""How did throughput go while the trials went on: falling, steady, rising, and after which curve?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.decay.words import duration_words, share_words, way_words
from pgdrag.findings.values import Findings, Interval, RungFinding
from pgdrag.model import HORIZON
from pgdrag.report.cells import NOTHING, bounds_words, course_words
from pgdrag.report.decay_chart import DecayPanel, Fitted, decay_chart
from pgdrag.report.document import Align, Block, Cell, Column, Figure, Items, Paragraph, Table, Tone
from pgdrag.report.sections import Section
from pgdrag.report.sections._series_claims import claims_table, ordering_words
from pgdrag.report.sparks import spark
from pgdrag.report.thinning import points_of_each, thinned_points
from pgdrag.units import format_duration, format_number

_TITLE = "Throughput while the trials went on"
_READING = (
    "Thin lines: each trial's intervals, over its whole window. Thick line and band: what was fitted, with its 95 % interval; neighbouring "
    "intervals resemble each other, and the interval knows it. Where the horizon is held for a part of the window, "
    "only that part is fitted. Steady is said only where the interval lies within ±{bound} % over the fitted part; "
    "what neither is steady nor has a trend cannot be told."
)


class DecaySection(Section):
    """Throughput against time with its fit, one panel a rung."""

    name: ClassVar[str] = "decay"
    summary: ClassVar[str] = "throughput against time with a fitted decay, one panel a rung"
    title: ClassVar[str] = _TITLE
    order: ClassVar[int] = 22
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """A rung has a trend, or somebody asked for one: by a held horizon, or by a published course."""
        return any(_is_asked(one) for one, _ in _fitted(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the panels, the numbers, and what became of published courses."""
        rungs = _fitted(findings)
        panels = [_panel(rung, decay) for rung, decay in rungs]
        told = "; ".join(f"{one.name}: {one.words}" for one in panels)
        bound = f"{rungs[0][1].steady_within * 100:.0f}"
        figure = Figure(
            decay_chart(_thinned(panels), _TITLE, told),
            "Committed per second against seconds of the window; each panel has its own scale, from 0.",
            _text(panels),
        )
        claims = claims_table(findings)
        order = [Paragraph(ordering_words(findings.ordering))] if findings.ordering else []
        reading = Paragraph(_READING.format(bound=bound), Tone.MUTED)
        return (figure, _table(rungs), reading, *claims, *order)

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence for each rung that has a trend, or was asked for one."""
        told = [
            f"{rung.rung.name}: {decay.sentence}."
            for rung, decay in _fitted(findings)
            if _is_asked(rung)
        ]
        order = [ordering_words(findings.ordering)] if findings.ordering else []
        return (Items((*told, *order)),)


def _is_asked(rung: RungFinding) -> bool:
    is_held = bool(rung.rung.treatment.of_kind(HORIZON))
    decay = rung.decay
    return bool(is_held or rung.series_claim or (decay and (decay.has_trend or decay.wrong)))


def _fitted(findings: Findings) -> list[tuple[RungFinding, DecayFinding]]:
    return [(one, one.decay) for one in findings.rungs if one.decay is not None]


def _panel(rung: RungFinding, decay: DecayFinding) -> DecayPanel:
    words = course_words(decay)
    return DecayPanel(
        rung.rung.name,
        rung.rung.title,
        f"{decay.wrong}: {words}" if decay.wrong else words,
        tuple(tuple(zip(one.times_s, one.rates_per_s, strict=True)) for one in decay.traces),
        tuple(Fitted(one.t_s, one.low, one.center, one.high) for one in decay.points),
        bool(decay.wrong),
    )


def _thinned(panels: Sequence[DecayPanel]) -> list[DecayPanel]:
    lengths = [len(points) for one in panels for points in one.trials]
    most = points_of_each(lengths, most=400, least=30, in_all=800)
    return [
        replace(one, trials=tuple(thinned_points(points, most) for points in one.trials))
        for one in panels
    ]


def _text(panels: Sequence[DecayPanel]) -> str:
    return "\n".join(
        f"{one.name}  {spark([rate for _, rate in one.trials[0]])}  {one.words}" for one in panels
    )


def _table(rungs: Sequence[tuple[RungFinding, DecayFinding]]) -> Table:
    columns = (
        Column("Rung"),
        Column("Throughput is"),
        Column("Begin → end", Align.RIGHT),
        Column("A minute", Align.RIGHT),
        Column("Half-life", Align.RIGHT),
        Column("After 30 s", Align.RIGHT),
        Column("Curve"),
    )
    return Table(
        "How throughput went on each rung",
        columns,
        tuple(_row(rung, decay) for rung, decay in rungs),
    )


def _row(rung: RungFinding, decay: DecayFinding) -> tuple[Cell, ...]:
    ends = [bounds_words(x, format_number) for x in (decay.begin_per_s, decay.end_per_s)]
    tone = Tone.MUTED if decay.direction == "cannot be told" else Tone.PLAIN
    wrong = Cell(decay.wrong, decay.direction, Tone.BAD)
    return (
        Cell(rung.rung.name, rung.rung.title, is_strong=True),
        wrong if decay.wrong else Cell(decay.direction, tone=tone),
        Cell(way_words(decay), " → ".join(ends)),
        _share_cell(decay.slope_per_min, is_share=True),
        _half_life_cell(decay),
        NOTHING if decay.ratio_at_30_s is None else _share_cell(decay.ratio_at_30_s),
        _curve_cell(decay),
    )


def _share_cell(found: Interval, *, is_share: bool = False) -> Cell:
    number, _, bounds = share_words(found, is_share=is_share).partition(" (")
    return Cell(number, bounds.rstrip(")").replace(" ", "\u00a0"))


def _half_life_cell(decay: DecayFinding) -> Cell:
    half_s = decay.half_life_s
    if decay.direction == "rising" or half_s.low > 86_400:
        return NOTHING
    if decay.direction != "falling" or half_s.center > 86_400:
        return Cell(f"over {format_duration(round(half_s.low))}")
    number, _, bounds = duration_words(half_s).partition(" (")
    is_beyond = half_s.center > decay.end_s - decay.begin_s
    note = bounds.rstrip(")")
    return Cell(number, f"{note}; beyond what was seen" if is_beyond else note)


def _curve_cell(decay: DecayFinding) -> Cell:
    if not decay.curve:
        return NOTHING
    clear = (
        "clearly" if decay.margin >= 6 else "rather" if decay.margin >= 2 else "hardly told apart"
    )
    return Cell(decay.curve, f"{clear} (AICc {decay.margin:.2g} below the next)")
