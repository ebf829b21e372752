"""How does a comparison read in a sentence, and what is doubtful about it?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pgdrag.designs.compare.findings import CompareFinding, is_noisier
from pgdrag.designs.compare.pairs import Pairing
from pgdrag.designs.compare.rules import MOST_FORETOLD, End, Gate
from pgdrag.english import counted
from pgdrag.findings.values import Verdict
from pgdrag.findings.wording import detectable_words, slowdown_words
from pgdrag.model import Outcome, Result
from pgdrag.stats.pair_logs import ORDER_PAIRS
from pgdrag.units import format_duration, format_interval, format_ratio


def answer_words(found: CompareFinding, trials: Pairing) -> str:
    """Return the verdict in one to three sentences."""
    text = _failure_words(found, trials) or _same_words(found) or _verdict_words(found)
    gate = _gate_words(found)
    return f"{gate} {text}" if gate else text


def prospect_words(found: CompareFinding) -> str:
    """Return `1.02× takes 24 pairs, 1.05× 6`, without what takes no more than a larger one; "" without any."""
    told: list[str] = []
    seen: set[int | None] = set()
    for one in reversed(found.prospects):
        if one.pairs is None or one.pairs in seen:
            continue
        seen.add(one.pairs)
        told.insert(0, f"{format_ratio(one.slowdown)} {one.pairs}")
    if not told:
        return ""
    # The smallest comes first, and says what the numbers count.
    ratio, _, pairs = told[0].partition(" ")
    return ", ".join([f"{ratio} takes {pairs} pairs", *told[1:]])


def more_words(found: CompareFinding) -> str:
    """Say how many more pairs would decide it; "" where it is decided or cannot be said."""
    if found.more_pairs == 0 or found.pair_log_sd is None or len(found.pairs) < ORDER_PAIRS:
        return ""
    if found.more_pairs is None:
        return (
            f"More than {MOST_FORETOLD:,} pairs would be needed to decide it, if effect and noise stay "
            "as they are."
        )
    return (
        f"About {counted(found.more_pairs, 'more pair')} would decide it four times in five, if "
        "effect and noise stay as they are."
    )


def doubts(found: CompareFinding, trials: Pairing) -> Iterator[str]:
    """Yield what to doubt, each with the remedy still untried."""
    yield from _few_pairs(found)
    yield from _failed_trials(found, trials)
    if found.slowdown is not None:
        yield from found.slowdown.warnings
    if found.order is not None:
        yield (
            f"the second trial of a pair was {_change(found.order)} than the first, whichever "
            "treatment it ran: that is taken out; give the machine more rest between trials, or a "
            "longer warm-up"
        )
    if found.trend is not None:
        yield (
            f"both sides became {_change(1 / found.trend.change)} over the "
            f"{format_duration(found.trend.lasted_s)} of the run: pairs cancel that; find out what "
            "else the machine does"
        )
    floor, log_sd = found.noise_floor, found.pair_log_sd
    if floor is not None and log_sd is not None and is_noisier(log_sd, len(found.pairs), floor):
        yield (
            f"pairs differed by {_spread(log_sd)}, and by {_spread(floor.log_sd)} when this machine was "
            "calibrated: it is noisier now, or one of the treatments is unsteady; calibrate again"
        )


def _verdict_words(found: CompareFinding) -> str:
    if found.slowdown is None:
        return f"No answer yet: no pair of trials of {found.reference} and {found.treatment} is complete."
    pairs = counted(len(found.pairs), "pair")
    shown = found.slowdown
    subject = found.treatment
    if found.verdict in (Verdict.SLOWER, Verdict.FASTER):
        return f"{subject} is {slowdown_words(shown)} than {found.reference}, by {pairs} of trials."
    number = format_interval(shown.low, shown.center, shown.high)
    if found.verdict is Verdict.EQUIVALENT:
        unlike = found.looks[-1].is_unlike
        rest = (
            " A difference is told from none, but it is smaller than what counts." if unlike else ""
        )
        return (
            f"{subject} is as fast as {found.reference}: slowdown {number}, by {pairs} of trials; up to "
            f"±{found.equivalence * 100:.3g} % counts as equal.{rest}"
        )
    seen = detectable_words(found.detectable)
    text = (
        f"{subject} could not be told from {found.reference}: slowdown {number}, by {pairs} of "
        f"trials; {seen}."
    )
    more = more_words(found)
    return f"{text} {more}" if more else text


def _same_words(found: CompareFinding) -> str:
    """Say what pairs of one and the same treatment show: the noise; "" for any others."""
    if not found.is_same or found.pair_log_sd is None or not found.prospects:
        return ""
    pairs = counted(len(found.pairs), "pair")
    text = (
        f"Two measurements of the same thing differ by {_spread(found.pair_log_sd)} here (standard "
        f"deviation over {pairs} of trials)."
    )
    if words := prospect_words(found):
        text += f" To tell a slowdown from that, {words}."
    if found.verdict in (Verdict.SLOWER, Verdict.FASTER):
        text += (
            " These pairs were told apart all the same: one such comparison in twenty is; if it happens "
            "again, something favours one side."
        )
    return text


def _gate_words(found: CompareFinding) -> str:
    if found.margin is None or found.gate is None:
        return ""
    allowed = f"{found.margin * 100:.3g} % slower is allowed"
    match found.gate:
        case Gate.PASS:
            return f"Pass: {allowed}."
        case Gate.FAIL:
            return f"Fail: no more than {allowed}."
        case Gate.INCONCLUSIVE:
            return f"Neither pass nor fail: {allowed}, and the interval holds both."


def _failure_words(found: CompareFinding, trials: Pairing) -> str:
    """Say which side failed, where that ended the comparison; else ""."""
    match found.end:
        case End.REFERENCE_FAILED:
            return _ended(found.reference, trials.failures(0)[-1])
        case End.TREATMENT_FAILED:
            other = "" if trials.failures(0) else f" {found.reference} did run."
            return _ended(found.treatment, trials.failures(1)[-1]) + other
        case End.NOTHING_COMMITTED:
            return (
                f"Nothing to compare: neither {found.reference} nor {found.treatment} committed "
                "anything within the budget."
            )
        case _:
            return ""


def _ended(side: str, result: Result) -> str:
    verb = {
        Outcome.DID_NOT_START: "did not start",
        Outcome.CRASHED: "crashed",
        Outcome.INVALID: "has no valid trial",
        Outcome.UNTESTABLE: "cannot be tested here",
    }.get(result.outcome, "has no number")
    # The server's own sentence begins with what the verb says already.
    reason = result.reason
    for said in (f"server {verb}: ", f"the server {verb}: "):
        reason = reason.removeprefix(said)
    return f"{side} {verb}: {reason}." if reason else f"{side} {verb}."


def _few_pairs(found: CompareFinding) -> Iterator[str]:
    pairs = len(found.pairs)
    if 0 < pairs < ORDER_PAIRS and not (found.looks and found.looks[-1].is_decided):
        yield (
            f"{counted(pairs, 'pair')} of trials can't tell a treatment from the order of its trials: "
            f"no verdict before {ORDER_PAIRS} pairs; let the run go on"
        )


def _failed_trials(found: CompareFinding, trials: Pairing) -> Iterator[str]:
    """Name the trials that are in no pair."""
    for side, name in enumerate((found.reference, found.treatment)):
        failures = trials.failures(side)
        if failures and found.pairs:
            last = failures[-1]
            reason = f" ({last.reason})" if last.reason else ""
            yield (
                f"{counted(len(failures), 'trial')} of {name} had no number, the last one: "
                f"{last.outcome.value}{reason}; what is compared is what ran"
            )


def _change(slower: float) -> str:
    """Return `1.2 % slower` or `1.2 % faster` of a ratio that says how many times slower."""
    share, way = (slower - 1, "slower") if slower >= 1 else (1 / slower - 1, "faster")
    return f"{share * 100:.2g} % {way}" if share < 1 else f"{format_ratio(share + 1)} {way}"


def _spread(log_sd: float) -> str:
    return f"{math.expm1(log_sd) * 100:.2g} %"
