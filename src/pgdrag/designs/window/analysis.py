"""What did one measured window show? Its rate, or its trend, and how its latency is to be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pgdrag.designs.window.findings import WindowFinding, measured_window
from pgdrag.english import percent_words
from pgdrag.findings.combine import RungTrials, rate_of
from pgdrag.findings.decay.findings import DecayFinding, way_words
from pgdrag.findings.decay.together import finding_of as decay_finding
from pgdrag.findings.decay.together import rung_decay
from pgdrag.findings.values import Interval
from pgdrag.model import Measurement, Result, RunRecord
from pgdrag.model.load import Closed, LoadProfile, Open
from pgdrag.stats.rates import DRIFT_MATTERS, rate_interval
from pgdrag.units import format_duration, format_number, format_rate


def finding_of(run: RunRecord) -> WindowFinding:
    """Return what the window of the run's one trial showed."""
    counts_from = _counts_from(run.study.load)
    window = measured_window(run)
    if window is None:
        return WindowFinding("No window was measured.", (), None, counts_from, None, ())
    result, measured = window
    rate = rate_interval(rate_of(result, measured))
    drift = _drift(run, result)
    return WindowFinding(
        answer=_answer(rate, drift, measured),
        warnings=tuple(_warnings(drift, run.study.load, measured)),
        committed_per_s=rate,
        latency_counts_from=counts_from,
        connecting=measured.connecting,
        statements=tuple(measured.statements),
    )


def _drift(run: RunRecord, result: Result) -> DecayFinding | None:
    """Return a trend large enough that the mean describes no moment of the window."""
    decay = rung_decay(RungTrials(run.study.rungs[0], (result,)))
    found = None if decay is None or not decay.has_trend else decay_finding(decay)
    return found if found and abs(found.change.center - 1) >= DRIFT_MATTERS else None


def _answer(rate: Interval, drift: DecayFinding | None, measured: Measurement) -> str:
    length = format_duration(measured.elapsed_s)
    if not rate.center:
        return f"Nothing was committed in {length}."
    counted = f"{measured.total.committed:,} in {length}"
    if drift is None:
        interval = f"{format_number(rate.low)}–{format_number(rate.high)}"
        confidence = percent_words(rate.confidence)
        return (
            f"{format_rate(rate.center)} committed ({confidence} interval {interval}): {counted}."
        )
    low, center, high = (
        format_number(x, significant=2)
        for x in (drift.change.low, drift.change.center, drift.change.high)
    )
    return (
        f"{way_words(drift)} committed, {drift.direction} (× {center}, "
        f"{percent_words(drift.change.confidence)} interval {low}–{high}; "
        f"{format_rate(rate.center)} on average): {counted}."
    )


def _warnings(
    drift: DecayFinding | None, load: LoadProfile, measured: Measurement
) -> Iterator[str]:
    if drift is not None:
        yield "throughput was not steady: warm up longer"
    if measured.stopped_by == "clients":
        yield "the run ended early: no client could continue"
    if load.transactions is not None and measured.stopped_by == "deadline":
        yield "the run ended before each client had run its transactions"


def _counts_from(load: LoadProfile) -> Literal["begin", "due", "taken"]:
    match load.pacing:
        case Closed():
            return "begin"
        case Open():
            return "due"
        case _:
            return "taken"
