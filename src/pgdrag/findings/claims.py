"""Does a published number hold here?

A published ratio came from another machine, so its size is compared loosely (a factor of two; of ratios
under 4 a factor of two of the logarithm, so that +2 % does not reproduce +65 %) and
its direction strictly (the interval must exclude "no change").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pgdrag.english import listed
from pgdrag.findings import levels
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.expecto.published import operational_speeds
from pgdrag.findings.values import NOT_RUN, Answer, ClaimFinding, Comparison, Interval, Verdict
from pgdrag.findings.wording import detectable_words, inverse, published_words, slowdown_words
from pgdrag.model import OPERATIONAL_SPEED, Claim
from pgdrag.stats.linear_model import fit
from pgdrag.stats.rates import TrialRate

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


@dataclass(frozen=True)
class ClaimsFinding:
    """The published ratios of one rung beside those found here.

    Attributes:
        total: against the baseline; None where nothing was published.
        step: against the rung before; None where nothing was published.
    """

    total: ClaimFinding | None = None
    step: ClaimFinding | None = None


class ClaimsAnalysis(TreatmentAnalysis[ClaimsFinding]):
    """Whether the published slowdowns hold here."""

    name: ClassVar[str] = "claims"
    finds: ClassVar[type] = ClaimsFinding

    def find(self, treatments: Treatments) -> Mapping[str, ClaimsFinding]:
        """Answer the claims of each rung but the baseline that has some."""
        trials = treatments.trials
        speeds = _operational_speed(treatments)
        found = {}
        for at, one in enumerate(treatments.all[1:], start=1):
            total, step = _total_claim(one), _step_claim(trials, at, one)
            if total is not None:
                total = replace(total, in_kind=speeds.get(one.name))
            if total is not None or step is not None:
                found[one.name] = ClaimsFinding(total, step)
        return found


def _operational_speed(treatments: Treatments) -> dict[str, Interval]:
    """Return how many times slower each rung that claims an operational speed is by that speed itself."""
    claiming = [x for x in treatments.all if x.trials.rung.claim.of == OPERATIONAL_SPEED]
    if not claiming:
        return {}
    speeds = fit({one.name: _speed_rates(one.trials) for one in treatments.all})
    baseline = treatments.all[0].name
    found = {one.name: speeds.slowdown(baseline, one.name) for one in claiming}
    return {name: one.interval() for name, one in found.items() if one is not None}


def _speed_rates(trials: RungTrials) -> list[TrialRate]:
    """Return each trial as if it had committed at its operational speed throughout."""
    found = [
        (result.trial.block, measured.elapsed_s, operational_speeds(measured.samples))
        for result, measured in trials.numbered
    ]
    return [
        TrialRate(block, round(speed.mean_per_min / 60 * elapsed_s), elapsed_s)
        for block, elapsed_s, speed in found
        if speed is not None
    ]


def _total_claim(one: Compared) -> ClaimFinding | None:
    here, baseline = one.trials, one.baseline
    # A level that the baseline lacks as well is no part of what is compared.
    common = set(baseline.rung.treatment.levels)
    changed = [level for level in here.rung.treatment.levels if level not in common]
    lacking = levels.untested([*changed, *here.rung.added], here.applied)
    why = _why_untestable(here, baseline, lacking)
    return answer_total(baseline.rung.claim, here.rung.claim, one.to_baseline, why_untestable=why)


def _step_claim(trials: Sequence[RungTrials], at: int, one: Compared) -> ClaimFinding | None:
    here, before = one.trials, one.reference
    # Rungs between the two have no number of their own: their levels are part of this step.
    between = trials[trials.index(before) + 1 : at + 1]
    added = [level for rung in between for level in rung.rung.added]
    why = _why_untestable(here, before, levels.untested(added, here.applied))
    if not why and levels.is_whole_rung_inert(added, here.applied, before.applied):
        why = f"nothing effective changed from {before.rung.name} to {here.rung.name}"
    return answer_step(before.rung.claim, here.rung.claim, one.to_previous, why_untestable=why)


def _why_untestable(here: RungTrials, reference: RungTrials, lacking: Sequence[str]) -> str:
    for side in (here, reference):
        if not side.rates:
            state = side.outcome.value if side.results else NOT_RUN
            why = f" ({side.reason})" if side.reason and side.results else ""
            return f"{side.rung.name}: {state}{why}"
    if not any(trial.committed for side in (here, reference) for trial in side.rates):
        return f"nothing committed on {reference.rung.name} nor on {here.rung.name}"
    return untestable_words(lacking)
