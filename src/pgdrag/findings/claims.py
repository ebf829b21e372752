"""Does a published number hold here?

A published ratio came from another machine, so its size is compared loosely (a factor of two; of ratios
under 4 a factor of two of the logarithm, so that +2 % does not reproduce +65 %) and
its direction strictly (the interval must exclude "no change").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pgdrag.english import listed
from pgdrag.findings import levels
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.expecto.published import operational_speeds
from pgdrag.findings.values import Answer, ClaimFinding, Comparison, Interval, Verdict
from pgdrag.findings.wording import detectable_words, inverse, published_words, slowdown_words
from pgdrag.model import OPERATIONAL_SPEED, Claim
from pgdrag.stats.linear_model import Fit, fit
from pgdrag.stats.rates import TrialRate

SAME_SIZE = 2.0  # published and found agree from published ÷ 2 to published × 2
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
    published = published_ratio(baseline, rung)
    if published is None and rung.speedup is not None:
        published = _finite(1 / rung.speedup)
    found = _answer(published, comparison, why_untestable)
    if found is None or rung.of == THROUGHPUT:
        return found
    kind = f"published for {rung.of}, measured for committed transactions"
    return replace(found, why=f"{kind}: {found.why}", reason=f"{found.reason}; {kind}")


def answer_step(
    previous: Claim, rung: Claim, comparison: Comparison | None, *, why_untestable: str = ""
) -> ClaimFinding | None:
    """Answer the claim that this rung slows the rung before it down; arguments as `answer_total`."""
    return _answer(published_ratio(previous, rung), comparison, why_untestable)


def _answer(
    published: float | None, comparison: Comparison | None, why_untestable: str
) -> ClaimFinding | None:
    """Answer a published ratio; the rules, in this order.

    *untestable here*: there is no number, or it was got without some of the settings. (Of rungs that were not run
    its callers say *not run yet*.)
    *inconclusive*: our interval includes 1, and could hold the published effect as well.
    *not reproduced*: the opposite direction; or no effect where the published one lies outside our
    interval and would have been seen.
    *reproduced*: the same direction, and our interval holds the published ratio, or our estimate is
    within a factor of two of it. *partly*: the same direction, another size.
    """
    if published is None:
        return None
    found = comparison.slowdown if comparison is not None else None
    claimed = f"published {published_words(published)}"
    if why_untestable or comparison is None or found is None:
        why = why_untestable or "there is no number to compare"
        shown = f"; found {slowdown_words(found)} nevertheless" if found is not None else ""
        every = f"{claimed}; {why}{shown}"
        return ClaimFinding(Answer.UNTESTABLE, published, found, every, reason=why)
    answer, reason = judged(published, comparison)
    why = f"{claimed}, found {slowdown_words(found)}: {reason}"
    return ClaimFinding(answer, published, found, why, reason=reason)


def published_ratio(before: Claim, after: Claim) -> float | None:
    """Return how many times slower a rung was published to be; None where one of the two is unknown, no rate, or another source's."""
    if not before.tps or not after.tps or before.tps < 0 or after.tps < 0:
        return None
    if before.source != after.source:
        return None
    return _finite(before.tps / after.tps)


def _finite(ratio: float) -> float | None:
    # Also in its inverse it must be a float.
    return ratio if 1e-300 < ratio < 1e300 else None


def judged(published: float, comparison: Comparison) -> tuple[Answer, str]:
    """Return what became of a published slowdown, and why, in words that finish a sentence."""
    found, verdict = comparison.slowdown, comparison.verdict
    is_significant = found.low > 1 or found.high < 1
    detectable = detectable_words(comparison.detectable)
    if 1 / NO_CHANGE < published < NO_CHANGE:
        if verdict is Verdict.EQUIVALENT:
            return Answer.REPRODUCED, "no change here either"
        if is_significant:
            return Answer.NOT_REPRODUCED, f"{verdict.value} here"
        return Answer.INCONCLUSIVE, f"no significant change here, but {detectable}"
    if not is_significant:
        if verdict is Verdict.EQUIVALENT:
            return Answer.NOT_REPRODUCED, f"no change here; {detectable}"
        is_ruled_out = not found.low <= published <= found.high
        if is_ruled_out and abs(math.log(published)) >= math.log(comparison.detectable):
            return Answer.NOT_REPRODUCED, f"no significant change here; {detectable}"
        return Answer.INCONCLUSIVE, f"inconclusive; {detectable}"
    if (found.low > 1) != (published > 1):
        return Answer.NOT_REPRODUCED, f"{verdict.value} here, the opposite direction"
    is_same, how = _same_size(found, published)
    return Answer.REPRODUCED if is_same else Answer.PARTLY, f"same direction{how}"


def _same_size(found: Interval, published: float) -> tuple[bool, str]:
    """Tell whether an interval in the published direction has the published size, and why, in words."""
    if not _reaches(found, published):
        return False, ", different size"
    if math.isinf(found.center):
        if found.low < published / SAME_SIZE:
            return False, "; nothing committed, so the size is only a bound"
        return True, ", and within a factor of 2"
    if _reaches(replace(found, low=found.center, high=found.center), published):
        return True, ", and within a factor of 2"
    if found.low <= published <= found.high:
        return True, ", and the interval holds it"
    return False, ", different size by the estimate"


def _reaches(found: Interval, published: float) -> bool:
    """Tell whether an interval in the published direction reaches the published size."""
    # On the log scale, where a slowdown and a gain of one size lie alike to either side of 0.
    size = abs(math.log(published))
    least = max(size - math.log(SAME_SIZE), size / SAME_SIZE)
    most = min(size + math.log(SAME_SIZE), size * SAME_SIZE)
    is_slower = published > 1
    low, high = (found.low, found.high) if is_slower else (inverse(found.high), inverse(found.low))
    return math.log(low) <= most and math.log(high) >= least


@dataclass(frozen=True)
class ClaimsFinding:
    """The published ratios of one rung beside those found here.

    Attributes:
        total: against the baseline; None where nothing was published.
        step: against the rung before; None where nothing was published.
    """

    total: ClaimFinding | None = None
    step: ClaimFinding | None = None


def _claims(one: Compared, treatments: Treatments) -> ClaimsFinding | None:
    if one.is_baseline:
        return None
    total, step = _total_claim(one), _step_claim(treatments.trials, one)
    if total is not None and one.trials.rung.claim.of == OPERATIONAL_SPEED:
        found = _operational_speeds(treatments).slowdown(one.baseline.rung.name, one.name)
        total = replace(total, in_kind=None if found is None else found.interval())
    total, step = (
        _unless_run(found, one.trials, before)
        for found, before in ((total, one.baseline), (step, one.reference))
    )
    return None if total is None and step is None else ClaimsFinding(total, step)


def _unless_run(found: ClaimFinding | None, *sides: RungTrials) -> ClaimFinding | None:
    is_lacking = found is not None and found.answer is Answer.UNTESTABLE
    if found is None or not is_lacking or all(side.results for side in sides):
        return found
    return replace(found, answer=Answer.NOT_RUN)


CLAIMS = TreatmentAnalysis("claims", ClaimsFinding, _claims)


@lru_cache(maxsize=1)
def _operational_speeds(treatments: Treatments) -> Fit:
    """Return the model of all trials as if each had committed at its operational speed throughout."""
    rates: dict[str, list[TrialRate]] = {}
    for one in treatments.trials:
        rates[one.rung.name] = []
        for result, measured in one.numbered:
            speed = operational_speeds(measured.samples, result.recordings)
            if speed is not None:
                commits = round(speed.mean_per_min / 60 * measured.elapsed_s)
                rate = TrialRate(result.trial.block, commits, measured.elapsed_s)
                rates[one.rung.name].append(rate)
    return fit(rates)


def _total_claim(one: Compared) -> ClaimFinding | None:
    here, baseline = one.trials, one.baseline
    changed = levels.changed(here.rung.treatment.levels, baseline.rung.treatment.levels)
    lacking = levels.untested([*changed, *here.rung.added], here.applied)
    why = why_untestable(here, baseline, lacking)
    return answer_total(baseline.rung.claim, here.rung.claim, one.to_baseline, why_untestable=why)


def _step_claim(trials: Sequence[RungTrials], one: Compared) -> ClaimFinding | None:
    here, before = one.trials, one.reference
    # Rungs between the two have no number of their own: their levels are part of this step.
    between = trials[trials.index(before) + 1 : trials.index(here) + 1]
    added = [level for rung in between for level in rung.rung.added]
    why = why_untestable(here, before, levels.untested(added, here.applied))
    if not why and levels.is_whole_rung_inert(added, here.applied, before.applied):
        why = f"nothing effective changed from {before.rung.name} to {here.rung.name}"
    return answer_step(before.rung.claim, here.rung.claim, one.to_previous, why_untestable=why)


def why_untestable(here: RungTrials, reference: RungTrials, lacking: Sequence[str]) -> str:
    """Return why two rungs cannot answer a claim; "" where they can.

    Args:
        lacking: the settings without which one of them was run.
    """
    for side in (here, reference):
        if not side.rates:
            why = f" ({side.reason})" if side.reason else ""
            state = f"{side.outcome.value}{why}" if side.results else side.missing
            return f"{side.rung.name}: {state}"
    if not any(trial.committed for side in (here, reference) for trial in side.rates):
        return f"nothing committed on {reference.rung.name} nor on {here.rung.name}"
    return f"run without {listed(lacking)}" if lacking else ""
