"""How would pg_expecto read each rung, and which of its correlations are significant?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import capital, counted, listed, percent_words
from pgdrag.findings.expecto.findings import (
    WAIT_SERIES,
    Correlation,
    ExpectoFinding,
    SmoothedCorrelation,
    WaitTypeFinding,
)
from pgdrag.findings.expecto.published import MINUTE_S
from pgdrag.findings.spent_time import SessionTime
from pgdrag.findings.steps import LoadSteps
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model import OPERATIONAL_SPEED
from pgdrag.report.cells import NOTHING, slowdown_cell
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.sections import Section
from pgdrag.units import format_duration, format_number

SIGNIFICANT = 0.05
_ALARMS = ("high", "critical")
_HOW_TO_READ = (
    "pg_expecto's formulas on each {noun}'s trial with the median throughput, for those who know them, beside sound "
    "statistics of the same intervals. No other number of this report depends on the former."
)
_LIMITS = (
    "Trailing medians are strongly autocorrelated, so series that have nothing to do with each other look correlated: "
    "in a simulation of trials of a minute more than half are called significant. pg_expecto's tests take the medians "
    "as independent, and so does the p below each r.",
    "Operational speed adds calls and rows: it is not throughput, and depends on how many rows a statement returns. "
    "Where pg_stat_statements is not loaded, committed transactions a minute stand in for calls, and rows are left "
    "out.",
    "pg_expecto correlates each wait type with all waits, of which it is a part: the type with the largest share has an "
    "r near 1 whatever slows the server. The weighted correlation, r × share, shows which types make up the waits and "
    "vary with them, not what they cost: it does not look at throughput, nor at what a change added.",
    "A type that is not seen in an interval has no value there: its median is of the intervals in which it was seen, "
    "and a type seen once in an hour keeps that value for an hour.",
    "The bands are pg_expecto's own: critical from 0.2, high from 0.1, medium from 0.04, low from 0.01. It gives none to "
    "a type whose r is not above 0 or fails one of its two tests: |r| above 2/√n (n over 30), 1.65/√n (over 100) or "
    "3/√n (over 10), and t above 1.645. Below R² = 0.2 it advises nothing.",
    "The angle is at most 45°, reached by any series that only rises, however little.",
    "The correlation interval by interval is with throughput. It allows for autocorrelation (effective number of "
    "intervals by Pyper and Peterman) and for the number of wait types (Benjamini and Yekutieli). It shows no cause and nothing that is "
    "constant within the window; wait types depend on each other, since a session waits for one thing at a time.",
    "The share of added time is what a change added to a transaction, by place; types without a place of their own "
    "are among the other waits there. For causes see Mechanisms.",
)

_OF_STEPS = (
    "The load changes within the window by design, and throughput and waits with it: correlations may show no more "
    "than that."
)


class ExpectoSection(Section):
    name = "pg-expecto"
    summary = (
        "operational speed and weighted wait correlation as pg_expecto has them, beside sound ones"
    )
    title = "The view of pg_expecto"
    order = 56
    finding_type = ExpectoFinding

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = {
            rung.rung.name: (rung, found)
            for rung in findings.rungs
            if (found := rung.get(ExpectoFinding))
        }
        blocks = (
            Paragraph(_HOW_TO_READ.format(noun=findings.noun), Tone.MUTED),
            _overview(found, findings.noun),
        )
        # Who wants no published figure of pg_expecto's answered finds the rest in JSON.
        if all(rung.rung.claim.of != OPERATIONAL_SPEED for rung in findings.rungs):
            return (*blocks, Paragraph("The JSON report has each wait type.", Tone.MUTED))
        return (
            *blocks,
            *(_types(rung, expecto) for rung, expecto in found.values()),
            Heading("Limits"),
            Items((*_LIMITS, *([_OF_STEPS] if findings.by_rung(LoadSteps) else []))),
        )


def _overview(found: dict[str, tuple[TreatmentFinding, ExpectoFinding]], noun: str) -> Table:
    columns = header(
        capital(noun),
        ">Operational speed",
        ">Change",
        ">× slower",
        ">Waiting sessions",
        ">Trend of speed",
        ">Trend of waits",
        ">r of the two",
    )
    rows = tuple(
        (
            Cell(name, rung.rung.title, is_strong=True),
            Cell(f"{format_number(one.speed_per_min)}/min", _counted_words(one)),
            _gain_cell(rung.previous, one, found),
            slowdown_cell(rung.to_previous),
            Cell(format_number(one.waitings)),
            Cell(f"{one.speed_angle_deg:+.0f}°", f"R² {one.speed_r2:.2f}"),
            Cell(f"{one.waitings_angle_deg:+.0f}°", f"R² {one.waitings_r2:.2f}"),
            _smoothed_cell(one.published),
        )
        for name, (rung, one) in found.items()
    )
    return Table(f"Operational speed and waits of each {noun}, as published", columns, rows)


def _counted_words(one: ExpectoFinding) -> str:
    what = "calls and rows" if one.counted == "statements" else "commits"
    if one.calls_per_min is None or one.rows_per_min is None:
        return what
    calls, rows = format_number(one.calls_per_min), format_number(one.rows_per_min)
    return f"{what}; over the window {calls} calls and {rows} rows a minute"


def _gain_cell(
    previous: str, one: ExpectoFinding, found: dict[str, tuple[TreatmentFinding, ExpectoFinding]]
) -> Cell:
    if previous not in found or not found[previous][1].speed_per_min:
        return NOTHING
    gain = one.speed_per_min / found[previous][1].speed_per_min - 1
    return Cell(f"{gain * 100:+.1f} %", f"against {previous}; no interval")


def _types(rung: TreatmentFinding, found: ExpectoFinding) -> Details:
    columns = header(
        "Wait type",
        ">Share",
        ">r with all waits",
        ">R²",
        ">r × share",
        "pg_expecto's band",
        ">r with throughput",
        ">Share of added time",
        "Verdict",
    )
    rows = tuple(
        (
            Cell(one.wait_type, f"{format_number(one.sessions)} sessions", is_strong=True),
            Cell(percent_words(one.share)),
            _smoothed_cell(one.published),
            NOTHING if one.r2 is None else Cell(f"{one.r2:.2f}"),
            NOTHING if one.weighted is None else Cell(f"{one.weighted:+.2f}"),
            NOTHING if one.published is None else Cell(one.band or "not significant"),
            _sound_cell(one.sound),
            _added_cell(rung, one),
            Cell(_verdict_words(one)),
        )
        for one in found.wait_types
    )
    interval = format_duration(found.interval_s)
    window = format_duration(found.window * found.interval_s)
    texts = [
        f"{counted(found.intervals, 'interval')} of {interval}; medians trail over {window}"
        + ("." if found.interval_s == MINUTE_S else " (published: an hour of one value a minute).")
    ]
    seen = {one.wait_type for one in found.wait_types}
    if unseen := [kind for kind in WAIT_SERIES if kind not in seen]:
        texts.append(f"No session was seen in these wait types: {listed(unseen)}.")
    title = f"Wait types on {rung.rung.name}"
    tables = [Table(title, columns, rows)] if rows else []
    return Details(title, (*tables, Items(tuple(texts))))


def _smoothed_cell(found: SmoothedCorrelation | None) -> Cell:
    if found is None:
        return NOTHING
    return Cell(f"{found.r:+.2f}", "p < 0.001" if found.p < 0.001 else f"p = {found.p:.2g}")


def _sound_cell(found: Correlation | None) -> Cell:
    if found is None:
        return NOTHING
    return Cell(f"{found.r:+.2f}", f"{found.low:+.2f} to {found.high:+.2f}")


def _added_cell(rung: TreatmentFinding, one: WaitTypeFinding) -> Cell:
    place = WAIT_SERIES[one.wait_type].replace("_sessions", "_s_per_transaction")
    parts = (rung.get(SessionTime) or SessionTime()).parts
    share = next((part.share for part in parts if part.name == place), None)
    return NOTHING if share is None else Cell(percent_words(share))


def _verdict_words(one: WaitTypeFinding) -> str:
    """Return what the intervals show, and where the published formulas would claim more."""
    if one.sound is None or one.q is None:
        return "constant: no correlation"
    if one.q <= SIGNIFICANT:
        level = "high" if one.sound.r > 0 else "low"
        return f"more where throughput is {level}; explains {percent_words(one.sound.r**2)} of the variance"
    verdict = "no significant correlation with throughput"
    if one.band in _ALARMS:
        return f"{verdict}, though pg_expecto calls it {one.band}"
    return verdict
