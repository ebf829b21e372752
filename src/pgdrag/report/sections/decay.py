"""How did throughput change within the trials: falling, steady or rising, and after which curve?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import capital
from pgdrag.findings.decay.findings import DecayFinding, rounded_s, share_words, way_words
from pgdrag.findings.holds.levels import hold_levels
from pgdrag.findings.series_claims import OrderingFinding, SeriesClaimFinding
from pgdrag.findings.values import Findings, Interval, TreatmentFinding
from pgdrag.report.cells import NOTHING, bounds_words, course_words, name_cell
from pgdrag.report.document import Block, Cell, Figure, Items, Paragraph, Table, Tone, table_of
from pgdrag.report.panels_chart import Line, Panel, panels_chart
from pgdrag.report.sections import Section
from pgdrag.report.sections.answer import claims_table, ordering_words
from pgdrag.report.series_words import spark
from pgdrag.report.thinning import points_of_each, thinned_points
from pgdrag.units import format_duration, format_number, format_rate, significant

_TITLE = "Throughput within the trials"
_FAR_S = 86_400  # no window supports a half-life beyond
_READING = (
    "Thin lines: the intervals of each trial. Thick line and band: the fit with its 95 % interval, which allows for "
    "autocorrelation. Where the horizon is held for a part of the window, only that part is fitted. Throughput is steady "
    "where the interval of its change lies within ±{bound} %; with neither a trend nor that, it is inconclusive."
)


class DecaySection(Section):
    name = "decay"
    summary = "throughput against time with a fitted decay, one panel a treatment"
    title = _TITLE
    order = 22
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        return any(_is_relevant(one) for one, _ in _fitted(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        rungs = _fitted(findings)
        most = points_of_each(
            [len(trace.times_s) for _, decay in rungs for trace in decay.traces],
            most=400,
            least=30,
            in_all=800,
        )
        panels = [_panel(rung, decay, most) for rung, decay in rungs]
        texts = [
            f"{rung.rung.name}  {spark(decay.traces[0].rates_per_s)}  {panel.words}"
            for (rung, decay), panel in zip(rungs, panels, strict=True)
        ]
        summary = "; ".join(f"{one.name}: {one.words}" for one in panels)
        ends_s = [x.t_s for _, decay in rungs for x in decay.points]
        ends_s += [x.times_s[-1] for _, decay in rungs for x in decay.traces]
        figure = Figure(
            panels_chart("decay-chart", panels, _TITLE, summary, end=max(ends_s)),
            "Committed per second against seconds of the window; each panel has its own scale, from 0.",
            "\n".join(texts),
        )
        ordering = findings.get(OrderingFinding)
        order = [Paragraph(ordering_words(ordering))] if ordering is not None else []
        bound = f"{rungs[0][1].steady_within * 100:.0f}"
        reading = Paragraph(_READING.format(bound=bound), Tone.MUTED)
        return (figure, _table(rungs, findings.noun), reading, *claims_table(findings), *order)

    def brief(self, findings: Findings) -> Sequence[Block]:
        sentences = [
            f"{rung.rung.name}: {decay_sentence(decay)}"
            for rung, decay in _fitted(findings)
            if _is_relevant(rung)
        ]
        ordering = findings.get(OrderingFinding)
        order = [ordering_words(ordering)] if ordering is not None else []
        return (Items((*sentences, *order)),)


def decay_sentence(found: DecayFinding) -> str:
    """Return how throughput changed within the window, with its intervals."""
    length = format_duration(rounded_s(found.end_s - found.begin_s))
    bound = f"±{found.steady_within * 100:.0f} %"
    if found.has_trend:
        verb = "falls" if found.direction == "falling" else "rises"
        slope = found.slope_per_min
        sizes = sorted(abs(x) for x in (slope.low, slope.center, slope.high))
        low, center, high = (format_number(100 * x, significant=2) for x in sizes)
        size = f"{center} % a minute (95 % CI {low}–{high})"
        text = f"throughput {verb} by {size}, {way_words(found)} in {length}; {_half_life_words(found)}."
    elif found.direction == "steady":
        text = f"throughput is steady within {bound}: {share_words(found.change)} in {length}."
    else:
        text = (
            f"no significant trend: {share_words(found.change)} in {length}, which is not shown to be within {bound} "
            "either. Measure longer or run more replicates."
        )
    return f"{text} It {found.wrong}: this is the speed of wrong results." if found.wrong else text


def _half_life_words(found: DecayFinding) -> str:
    half_s = found.half_life_s
    if found.direction == "rising":
        return "it never halves"
    if half_s.center > _FAR_S:
        low = format_duration(rounded_s(min(half_s.low, _FAR_S)))
        return f"half-life at least {low}"
    beyond = ", extrapolated" if half_s.center > found.end_s - found.begin_s else ""
    center = format_duration(rounded_s(half_s.center))
    return f"half-life {center} ({_duration_bounds(half_s)}{beyond})"


def _duration_bounds(found: Interval) -> str:
    low = format_duration(rounded_s(found.low))
    if found.high > _FAR_S:
        return f"over {low}"
    return f"{low}–{format_duration(rounded_s(found.high))}"


def _is_relevant(rung: TreatmentFinding) -> bool:
    is_held = bool(hold_levels(rung.rung.treatment))
    decay = rung.get(DecayFinding)
    return bool(
        is_held or rung.get(SeriesClaimFinding) or (decay and (decay.has_trend or decay.wrong))
    )


def _fitted(findings: Findings) -> list[tuple[TreatmentFinding, DecayFinding]]:
    return [(one, decay) for one in findings.rungs if (decay := one.get(DecayFinding))]


def _panel(rung: TreatmentFinding, decay: DecayFinding, most: int) -> Panel:
    words = course_words(decay)
    rates = [
        thinned_points(tuple(zip(one.times_s, one.rates_per_s, strict=True)), most)
        for one in decay.traces
    ]
    upper = [(one.t_s, one.high) for one in decay.points]
    lower = [(one.t_s, one.low) for one in reversed(decay.points)]
    lines = (
        *(Line(points, "rates wrong" if decay.wrong else "rates") for points in rates),
        Line([*upper, *lower], "sure", is_area=True),
        Line([(one.t_s, one.center) for one in decay.points], "fit"),
    )
    highest = max(y for line in (*lines[: len(rates)], lines[-1]) for _, y in line.points)
    return Panel(
        rung.rung.name,
        rung.rung.title,
        f"{decay.wrong}: {words}" if decay.wrong else words,
        lines,
        highest,
        f"to {format_rate(significant(highest, 3))}",
        is_bad=bool(decay.wrong),
    )


def _table(rungs: Sequence[tuple[TreatmentFinding, DecayFinding]], noun: str) -> Table:
    def direction(decay: DecayFinding) -> Cell:
        if decay.wrong:
            return Cell(decay.wrong, decay.direction, Tone.BAD)
        tone = Tone.MUTED if decay.direction == "inconclusive" else Tone.PLAIN
        return Cell(decay.direction, tone=tone)

    def ends(decay: DecayFinding) -> Cell:
        both = (bounds_words(x, format_number) for x in (decay.begin_per_s, decay.end_per_s))
        return Cell(way_words(decay), " → ".join(both))

    return table_of(
        f"Throughput within the trials of each {noun}",
        rungs,
        {
            capital(noun): lambda x: name_cell(x[0]),
            "Throughput is": lambda x: direction(x[1]),
            ">Begin → end": lambda x: ends(x[1]),
            ">A minute": lambda x: _share_cell(share_words(x[1].slope_per_min, is_share=True)),
            ">Half-life": lambda x: _half_life_cell(x[1]),
            ">After 30 s": lambda x: (
                NOTHING
                if x[1].ratio_at_30_s is None
                else _share_cell(share_words(x[1].ratio_at_30_s))
            ),
            "Curve": lambda x: _curve_cell(x[1]),
        },
    )


def _share_cell(words: str) -> Cell:
    number, _, bounds = words.partition(" (")
    return Cell(number, bounds.rstrip(")").replace(" ", "\u00a0"))


def _half_life_cell(decay: DecayFinding) -> Cell:
    half_s = decay.half_life_s
    if decay.direction == "rising" or half_s.low > _FAR_S:
        return NOTHING
    if decay.direction != "falling" or half_s.center > _FAR_S:
        return Cell(f"over {format_duration(round(half_s.low))}")
    beyond = "; extrapolated" if half_s.center > decay.end_s - decay.begin_s else ""
    return Cell(format_duration(rounded_s(half_s.center)), _duration_bounds(half_s) + beyond)


def _curve_cell(decay: DecayFinding) -> Cell:
    if not decay.curve:
        return NOTHING
    strength = "strong" if decay.margin >= 6 else "moderate" if decay.margin >= 2 else "weak"
    return Cell(decay.curve, f"{strength} evidence: AICc {decay.margin:.2g} below the next")


_OVER_TIME = "Throughput over the measured window"


class TimelineSection(Section):
    name = "timeline"
    summary = "a sparkline a treatment"
    title = _OVER_TIME
    order = 50

    def applies(self, findings: Findings) -> bool:
        return any(len(rung.samples) > 1 for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the lines; a drift is said in words among the warnings about the rung."""
        rungs = [rung for rung in findings.rungs if len(rung.samples) > 1]
        most = points_of_each([len(one.samples) for one in rungs], most=400, least=40, in_all=1_100)
        panels = [_timeline_panel(rung, most) for rung in rungs]
        end_s = max(rung.samples[-1].t_s for rung in rungs)
        description = "; ".join(f"{panel.name}: {panel.words}" for panel in panels)
        caption = "Committed per second in the trial with the median throughput; each line has its own scale, from 0."
        texts = (
            f"{panel.name}  {spark([rate for _, rate in panel.lines[0].points])}  {panel.words}"
            for panel in panels
        )
        drawn = panels_chart("timeline-chart", panels, _OVER_TIME, description, end=end_s, plot=32)
        return (Figure(drawn, caption, "\n".join(texts)),)


def _timeline_panel(rung: TreatmentFinding, most: int) -> Panel:
    points = tuple(
        (one.t_s - one.duration_s / 2, one.committed / one.duration_s if one.duration_s else 0.0)
        for one in rung.samples
    )
    rates = [rate for _, rate in points]
    span = f"{format_rate(min(rates))} to {format_rate(max(rates))}"
    words = f"{span if max(rates) else 'nothing committed'} over {format_duration(rung.samples[-1].t_s)}"
    line = Line(thinned_points(points, most), "trace")
    return Panel(rung.rung.name, rung.rung.title, words, (line,), max(rates), "")
