"""How does a finding read in a table cell? Short, with its interval below, and which way round."""

from __future__ import annotations

import math
from collections.abc import Callable

from pgdrag.findings.claim_kinds.analysis import AnsweredClaim
from pgdrag.findings.decay.findings import DecayFinding, share_words, way_words
from pgdrag.findings.values import (
    Answer,
    ClaimFinding,
    Comparison,
    Findings,
    Interval,
    TreatmentFinding,
    Verdict,
)
from pgdrag.findings.wording import inverse, published_size, slowdown_words
from pgdrag.model import Outcome, Result
from pgdrag.report.document import NOTHING as NOTHING
from pgdrag.report.document import Cell, Tone
from pgdrag.units import format_duration, format_number, format_rate, format_ratio

_ANSWERS = {
    Answer.REPRODUCED: ("✓ reproduced", Tone.GOOD),
    Answer.PARTLY: ("◐ partly", Tone.WARNING),
    Answer.NOT_REPRODUCED: ("✗ not reproduced", Tone.BAD),
    Answer.INCONCLUSIVE: ("? inconclusive", Tone.WARNING),
    Answer.UNTESTABLE: ("– untestable here", Tone.MUTED),
    Answer.NOT_RUN: ("… not run yet", Tone.MUTED),
    Answer.WRONG: ("✗ wrong results here", Tone.BAD),
}


def answer_words(answer: Answer) -> str:
    """Return an answer with its sign: `✓ reproduced`."""
    return _ANSWERS[answer][0]


def answer_tone(answer: Answer) -> Tone:
    """Return the tone of an answer."""
    return _ANSWERS[answer][1]


def time_cell(value_us: float | None) -> Cell:
    """Return a time in microseconds as a duration."""
    return NOTHING if value_us is None else Cell(format_duration(value_us / 1e6))


def name_cell(rung: TreatmentFinding) -> Cell:
    """Return a rung's name with its title below."""
    return Cell(rung.rung.name, rung.rung.title, is_strong=True)


def rate_cell(findings: Findings, rung: TreatmentFinding) -> Cell:
    """Return a rung's throughput with its interval; a censored rate as a bound; else why not.

    Of a trend there is no mean: the fitted rates at its beginning and end stand in its place.
    """
    decay = rung.get(DecayFinding)
    if decay is not None and decay.wrong:
        return Cell("wrong results", f"{decay.wrong}; {course_words(decay)}", Tone.BAD)
    if decay is not None and decay.has_trend and rung.tps is not None:
        a_minute = share_words(decay.slope_per_min, is_share=True)
        return Cell(way_words(decay), f"{a_minute} a minute", is_strong=True)
    if rung.tps is None:
        return Cell(rung.state, tone=Tone.MUTED if not rung.trials else Tone.WARNING)
    if rung.tps.center == 0:
        return Cell(f"< {format_rate(rung.tps.high)}", nothing_committed(findings, rung), Tone.BAD)
    return Cell(format_rate(rung.tps.center), bounds_words(rung.tps, format_number), is_strong=True)


def course_words(decay: DecayFinding) -> str:
    """Return how a rate went, in a few words: `falling, 7,200 → 4,300/s`, `steady at 5,010/s`."""
    if decay.has_trend:
        return f"{decay.direction}, {way_words(decay)}"
    middle = format_rate((decay.begin_per_s.center * decay.end_per_s.center) ** 0.5)
    if decay.direction == "steady":
        return f"steady at {middle}"
    return f"about {middle}, trend not significant"


def nothing_committed(findings: Findings, rung: TreatmentFinding) -> str:
    """Return `nothing committed in 1 min 30 s`, over all its measured windows."""
    window_s = sum(
        result.measurement.elapsed_s
        for result in findings.run.results
        if result.trial.treatment.name == rung.rung.treatment.name
        and result.measurement is not None
        and result.outcome in (Outcome.MEASURED, Outcome.STALLED)
    )
    return "nothing committed" + (f" in {format_duration(window_s)}" if window_s else "")


def committed_in_middle(findings: Findings, rung: TreatmentFinding) -> int:
    """Return the committed transactions of the trial from which the rung's recordings come."""
    for result in findings.run.results:
        if result.trial.number == rung.middle_trial and result.measurement is not None:
            return result.measurement.total.committed
    return 0


def checkpoints_of(result: Result) -> int | None:
    """Return how many checkpoints began in a trial's window; None if they were not counted."""
    if result.measurement is None:
        return None
    rates = (one.value for one in result.evidence if one.name == "checkpoints_per_s")
    per_s = next(rates, None)
    return None if per_s is None else round(per_s * result.measurement.elapsed_s)


def slowdown_cell(comparison: Comparison | None) -> Cell:
    """Return a slowdown for a column headed `× slower`; a speedup is marked as such."""
    if comparison is None:
        return NOTHING
    found = comparison.slowdown
    if math.isinf(found.center):
        return Cell(f"> {format_ratio(found.low)}", "lower bound", Tone.BAD, is_strong=True)
    if found.center == 0:
        return Cell(f"> {format_ratio(inverse(found.high))} faster", "lower bound", Tone.GOOD)
    if comparison.verdict is Verdict.FASTER:
        # Turned round together: the upper bound of a gain is the lower one of the slowdown.
        low, center, high = (inverse(x) for x in (found.high, found.center, found.low))
        gain = Interval(low, center, high, found.confidence, found.method)
        return Cell(f"{format_ratio(center)} faster", bounds_words(gain, bare_ratio), Tone.GOOD)
    note = bounds_words(found, bare_ratio)
    if comparison.verdict is Verdict.SLOWER:
        return Cell(format_ratio(found.center), note, is_strong=True)
    remark = "no change" if comparison.verdict is Verdict.EQUIVALENT else "not significant"
    return Cell(format_ratio(found.center), f"{note}; {remark}", Tone.MUTED)


def brief_slowdown(verdict: Verdict, slowdown: Interval) -> str:
    """Return a slowdown for a picture, where a whisker shows its bounds; words say if it is not significant."""
    if verdict is Verdict.EQUIVALENT:
        return "no change"
    words = slowdown_words(slowdown).partition(" (")[0]
    return f"{words}, or noise" if verdict is Verdict.INCONCLUSIVE else words


def claim_cell(claim: ClaimFinding | None) -> Cell:
    """Return a published slowdown with what became of it."""
    if claim is None or claim.published is None:
        return NOTHING
    return Cell(
        published_ratio(claim.published), answer_words(claim.answer), answer_tone(claim.answer)
    )


def found_cell(claim: AnsweredClaim) -> Cell:
    """Return what was found with the reason of the answer; the reason alone where nothing was."""
    return Cell(claim.found, claim.why) if claim.found else Cell(claim.why, tone=Tone.MUTED)


def published_ratio(ratio: float) -> str:
    """Return a published slowdown with all its whole digits, as the reader will look for them."""
    return published_size(ratio) + (" faster" if ratio < 1 else "")


def bounds_words(found: Interval, form: Callable[[float], str]) -> str:
    """Return `1,180–1,194`, or `over 2.1` and `under 9.4` where one end is open."""
    low, high = form(found.low), form(found.high)
    if math.isinf(found.high):
        return f"over {low}"
    if found.low == 0:
        return f"under {high}"
    if low == high:
        return f"{found.low:.6g}–{found.high:.6g}" if found.low != found.high else low
    return f"{low}–{high}"


def bare_ratio(ratio: float) -> str:
    """Return a bound of a ratio in three digits, without its sign."""
    # In decimals on both sides of 1: a bound of "1/2.16" beside "2.5" takes a second look.
    return format_number(float(f"{ratio:.3g}"))
