"""Does a published number hold here?

A published ratio came from another machine, so its size is compared loosely (a factor of two; of ratios
under 4 a factor of two of the logarithm, so that +2 % does not reproduce +65 %) and
its direction strictly (the interval must exclude "no change").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pgdrag.english import listed
from pgdrag.findings.values import Answer, ClaimFinding, Comparison, Interval, Verdict
from pgdrag.findings.wording import detectable_words, inverse, published_words, slowdown_words
from pgdrag.model import Claim

SAME_SIZE = 2.0  # published and found agree where our interval reaches published ÷ 2 … × 2
THROUGHPUT = "throughput"
NO_CHANGE = 1.02  # a published ratio nearer to 1 than this claims that nothing changes


def answer_total(
    baseline: Claim, rung: Claim, comparison: Comparison | None, *, why_untestable: str = ""
) -> ClaimFinding | None:
    """Answer the claim that all steps up to this rung together slow the baseline down.

    Args:
        baseline: the published number of the baseline.
        rung: the published number of this rung.
        comparison: this rung against the baseline; None where a side has no number here.
        why_untestable: why the rung cannot answer the claim, as words that finish a sentence:
            "not run yet", "io_workers is unknown to this server"; "" where it can.

    Returns:
        None where there is neither a published ratio nor two rates, else see `_answer`.
    """
    published = _ratio(baseline.tps, rung.tps)
    if published is None and rung.speedup is not None:
        published = _ratio(1.0, rung.speedup)
    found = _answer(published, comparison, why_untestable)
    return found if found is None or rung.of == THROUGHPUT else _of_quantity(found, rung.of)


def answer_step(
    previous: Claim, rung: Claim, comparison: Comparison | None, *, why_untestable: str = ""
) -> ClaimFinding | None:
    """Answer the claim that this rung slows the rung before it down; arguments as `answer_total`."""
    return _answer(_ratio(previous.tps, rung.tps), comparison, why_untestable)


def untestable_words(untested: Sequence[str]) -> str:
    """Return why a rung that ran without some of its settings cannot answer; "" without such."""
    return f"run without {listed(untested)}" if untested else ""


def _of_quantity(found: ClaimFinding, quantity: str) -> ClaimFinding:
    why = f"published for {quantity}, measured for committed transactions: {found.why}"
    return replace(found, why=why)


def _answer(
    published: float | None,
    comparison: Comparison | None,
    why_untestable: str,
) -> ClaimFinding | None:
    """Answer a published ratio; the rules, in this order.

    *untestable here*: there is no number, or it was got without some of the settings.
    *inconclusive*: our interval includes 1, and could hold the published effect as well.
    *not reproduced*: the opposite direction; or no effect where the published one lies outside our
    interval and would have been seen.
    *reproduced*: the same direction, and our interval reaches the published ratio within a factor
    of two either way. *partly*: the same direction, another size.
    """
    if published is None:
        return None
    found = comparison.slowdown if comparison is not None else None
    if why_untestable or comparison is None or found is None:
        why = why_untestable or "there is no number to compare"
        shown = f"; found {slowdown_words(found)} nevertheless" if found is not None else ""
        return ClaimFinding(
            Answer.UNTESTABLE,
            published,
            found,
            f"published {published_words(published)}; {why}{shown}",
        )
    answer, reason = judged(published, comparison)
    why = f"published {published_words(published)}, found {slowdown_words(found)}: {reason}"
    return ClaimFinding(answer, published, found, why)


def _ratio(before: float | None, after: float | None) -> float | None:
    """Return the published ratio; None where one of the two is unknown or not a rate."""
    if before is None or after is None or before <= 0 or after <= 0:
        return None
    ratio = before / after
    # Also in its inverse it must be a float.
    return ratio if 1e-300 < ratio < 1e300 else None


def judged(published: float, comparison: Comparison) -> tuple[Answer, str]:
    """Return what became of a published slowdown, and why, in words that finish a sentence."""
    found, verdict = comparison.slowdown, comparison.verdict
    if 1 / NO_CHANGE < published < NO_CHANGE:
        return _judge_no_change(comparison)
    if not _excludes_one(found):
        return _judge_unseen(published, comparison)
    if (found.low > 1) != (published > 1):
        return Answer.NOT_REPRODUCED, f"{verdict.value} here, the opposite direction"
    if not _reaches(found, published):
        return Answer.PARTLY, "same direction, different size"
    if math.isinf(found.center) and found.low < published / SAME_SIZE:
        return Answer.PARTLY, "same direction; nothing committed, so the size is only a bound"
    return (
        Answer.REPRODUCED,
        "same direction, and within a factor of 2",
    )


def _judge_no_change(comparison: Comparison) -> tuple[Answer, str]:
    if comparison.verdict is Verdict.EQUIVALENT:
        return Answer.REPRODUCED, "no change here either"
    if _excludes_one(comparison.slowdown):
        return Answer.NOT_REPRODUCED, f"{comparison.verdict.value} here"
    return Answer.INCONCLUSIVE, f"no significant change here, but {_detectable(comparison)}"


def _judge_unseen(published: float, comparison: Comparison) -> tuple[Answer, str]:
    found = comparison.slowdown
    is_ruled_out = not found.low <= published <= found.high
    would_show = abs(math.log(published)) >= _log(comparison.detectable)
    if comparison.verdict is Verdict.EQUIVALENT:
        return Answer.NOT_REPRODUCED, f"no change here; {_detectable(comparison)}"
    if is_ruled_out and would_show:
        return Answer.NOT_REPRODUCED, f"no significant change here; {_detectable(comparison)}"
    return Answer.INCONCLUSIVE, f"inconclusive; {_detectable(comparison)}"


def _reaches(found: Interval, published: float) -> bool:
    # On the log scale, where a slowdown and a gain of one size lie alike to either side of 0.
    size = abs(math.log(published))
    least = max(size - math.log(SAME_SIZE), size / SAME_SIZE)
    most = min(size + math.log(SAME_SIZE), size * SAME_SIZE)
    low, high = sorted(
        _log(x) if x > 0 else -math.inf
        for x in ((found.low, found.high) if published > 1 else _turned(found))
    )
    return low <= most and high >= least


def _turned(found: Interval) -> tuple[float, float]:
    return inverse(found.high), inverse(found.low)


def _excludes_one(found: Interval) -> bool:
    return found.low > 1 or found.high < 1


def _detectable(comparison: Comparison) -> str:
    return detectable_words(comparison.detectable)


def _log(ratio: float) -> float:
    return math.log(ratio) if math.isfinite(ratio) else math.inf
