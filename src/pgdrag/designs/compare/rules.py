"""Do the pairs so far decide a comparison, and what is the verdict?

The design asks this after each pair, and the report of what is there at the end: both get the same
answer, since both get it here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from pgdrag.designs.compare.pairs import Pairing, throughput_logs
from pgdrag.findings.values import Interval, Verdict
from pgdrag.model import Outcome
from pgdrag.stats.counts import FEW_COMMITS
from pgdrag.stats.distributions import POWER, normal_quantile
from pgdrag.stats.pair_logs import ORDER_PAIRS, PairedLogs
from pgdrag.stats.paired import LogInterval, interval, power, smallest_effect
from pgdrag.stats.ratios import EQUIVALENCE, slowdown
from pgdrag.stats.sequential import (
    FIRST_LOOK,
    look_confidence,
    planned_looks,
)

MOST_FAILURES = 2  # of one side in a row: a thing that failed once is tried once more
MOST_FAILED_BLOCKS = 4  # in all: a side that fails now and then is not compared for ever
MOST_FORETOLD = 1000  # pairs; to say "2,718,281 more" helps nobody
_LOG_MAX = 700.0  # exp() of more is not a float


class Gate(StrEnum):
    """Whether a treatment is slower than it may be."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class End(StrEnum):
    """Why no further pair is needed; `GOING_ON`: one is."""

    GOING_ON = "going on"
    DECIDED = "decided"
    MAX_PAIRS = "as many pairs as allowed"
    REFERENCE_FAILED = "the reference has no number"
    TREATMENT_FAILED = "the treatment has no number"
    FAILED_OFTEN = "trials failed too often"
    NOTHING_COMMITTED = "nothing committed on either side"


@dataclass(frozen=True)
class Rules:
    """What is asked of a comparison.

    Attributes:
        max_pairs: it ends after so many, decided or not.
        confidence: of all looks at the pairs together.
        equivalence: slowdowns within 1/(1 + equivalence) … 1 + equivalence count as equal.
        precision: go on until the interval reaches no further than this share to either side;
            None: until there is a verdict.
        fail_if_slower: the largest slowdown that passes, as a share: 0.03 for 3 %; None: no gate.
    """

    max_pairs: int = 20
    confidence: float = 0.95
    equivalence: float = EQUIVALENCE
    precision: float | None = None
    fail_if_slower: float | None = None

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Rules:
        """Return the rules among a design's parameters; what is not there has its default."""
        names = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in parameters.items() if name in names})


@dataclass(frozen=True)
class Look:
    """One look at the pairs.

    Attributes:
        pairs: all that were there.
        slowdown: throughput of the reference divided by that of the treatment, at the confidence
            that this look needs (see `sequential`).
        inner: the narrower interval that has to lie within the margin of what counts as equal.
        verdict: *equivalent* by `inner`, else by `slowdown`.
        is_unlike: `slowdown` excludes "no change" (an equivalent treatment can be a little unlike).
        gate: None where no margin was set.
        is_decided: no further pair is needed.
    """

    pairs: int
    slowdown: Interval
    inner: Interval
    verdict: Verdict
    is_unlike: bool
    gate: Gate | None
    is_decided: bool


@dataclass(frozen=True)
class Standing:
    """Where a comparison stands.

    Attributes:
        looks: each planned look so far.
    """

    looks: tuple[Look, ...]
    end: End

    @property
    def is_over(self) -> bool:
        """No further pair is needed."""
        return self.end is not End.GOING_ON


def standing(trials: Pairing, rules: Rules, *, known: Sequence[Look] = ()) -> Standing:
    """Return where a comparison stands after these trials.

    The first planned look that decides ends it: pairs that ran after it are not looked at.

    Args:
        trials: all that were run.
        rules: what is asked of the comparison.
        known: looks that were taken before, at fewer of these pairs: they are not taken again.
    """
    pairs = len(trials.pairs)
    before = {one.pairs: one for one in known}
    looks: list[Look] = []
    for at in planned_looks(rules.max_pairs):
        if at > pairs:
            break
        looks.append(before.get(at) or look(trials.first(at), rules))
        if looks[-1].is_decided:
            return Standing(tuple(looks), End.DECIDED)
    return Standing(tuple(looks), _end(trials, rules))


def last_look(trials: Pairing, rules: Rules, stands: Standing) -> Look | None:
    """Return the look that decided, or one at all pairs there are; None with fewer than two.

    A run that was cut short is looked at where it ended, whether or not a look was due there.
    """
    looks, pairs = stands.looks, len(trials.pairs)
    if looks and (looks[-1].is_decided or looks[-1].pairs == pairs):
        return looks[-1]
    return look(trials, rules) if pairs >= FIRST_LOOK else None


def look(trials: Pairing, rules: Rules) -> Look:
    """Judge the pairs so far, two or more."""
    if not is_of_counts(trials):
        return look_at_logs(throughput_logs(trials.pairs), rules)
    wide, narrow = _confidences(len(trials.pairs), rules)
    found, inner = _by_counts(trials, wide), _by_counts(trials, narrow)
    return _judged(len(trials.pairs), found, inner, rules)


def look_at_logs(logs: PairedLogs, rules: Rules) -> Look:
    """Judge the log slowdowns of two or more pairs."""
    found, inner = (
        ratio_of(interval(logs, confidence=level), level)
        for level in _confidences(len(logs), rules)
    )
    if len(logs) >= ORDER_PAIRS:
        return _judged(len(logs), found, inner, rules)
    # Fewer pairs do not tell the treatment from the order of its trials.
    gate = None if rules.fail_if_slower is None else Gate.INCONCLUSIVE
    return Look(len(logs), found, inner, Verdict.INCONCLUSIVE, False, gate, False)


def _confidences(pairs: int, rules: Rules) -> tuple[float, float]:
    """Return how sure the interval of a difference must be, and that of equivalence.

    Equivalence is shown by two one-sided tests, each at the confidence asked for (Schuirmann 1987).
    """
    most = max(rules.max_pairs, pairs)
    return (
        look_confidence(pairs, most, confidence=rules.confidence),
        look_confidence(pairs, most, confidence=2 * rules.confidence - 1),
    )


def _judged(pairs: int, found: Interval, inner: Interval, rules: Rules) -> Look:
    verdict = _verdict(found, inner, rules.equivalence)
    gate = None if rules.fail_if_slower is None else _gate(found, rules.fail_if_slower)
    return Look(
        pairs,
        found,
        inner,
        verdict,
        found.low > 1 or found.high < 1,
        gate,
        _is_decided(found, verdict, gate, rules),
    )


def is_of_counts(trials: Pairing) -> bool:
    """Tell whether commits are so few that the chance in counting them is what matters."""
    return any(
        sum(rate.committed for rate in side) < FEW_COMMITS or any(not x.committed for x in side)
        for side in trials.rates
    )


def pairs_needed(logs: PairedLogs, rules: Rules) -> int | None:
    """Return how many pairs in all would decide it four times in five, at the effect and noise seen.

    None where more than `MOST_FORETOLD` would be needed.
    """
    center, log_sd = float(logs.values.mean()), logs.sd
    found = _fewest(lambda pairs: _would_decide(center, log_sd, pairs, rules))
    return None if found is None else max(found, len(logs))


def pairs_to_tell(slowdown: float, log_sd: float, rules: Rules) -> int | None:
    """Return how many pairs tell a slowdown from none four times in five, at this noise.

    None where more than `MOST_FORETOLD` would be needed.
    """
    wide = look_confidence(rules.max_pairs, rules.max_pairs, confidence=rules.confidence)
    size = math.log(slowdown)
    return _fewest(lambda pairs: power(size, log_sd, pairs, confidence=wide) >= POWER)


def _fewest(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number of pairs that is enough, where more of them are enough as well."""
    if not is_enough(MOST_FORETOLD):
        return None
    low, high = 1, MOST_FORETOLD
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _would_decide(center: float, log_sd: float, pairs: int, rules: Rules) -> bool:
    """Tell whether so many pairs decide it with a probability of `POWER`, at the last look."""
    most = rules.max_pairs
    wide = look_confidence(most, most, confidence=rules.confidence)
    if rules.precision is not None:
        # Half of the width takes no more than the quantile of the confidence.
        told = smallest_effect(log_sd, pairs, confidence=wide)
        return told <= math.log1p(rules.precision) * _power_to_width(wide)
    if rules.fail_if_slower is not None:
        room = abs(center - math.log1p(rules.fail_if_slower))
        return power(room, log_sd, pairs, confidence=wide) >= POWER
    narrow = look_confidence(most, most, confidence=2 * rules.confidence - 1)
    margin = math.log1p(rules.equivalence)
    # Equal only where both one-sided tests say so.
    equal = sum(
        power(room, log_sd, pairs, confidence=narrow)
        for room in (margin - abs(center), margin + abs(center))
    )
    return max(power(abs(center), log_sd, pairs, confidence=wide), equal - 1) >= POWER


def _power_to_width(confidence: float) -> float:
    """Return how much more than half an interval's width an effect must be, by normal quantiles."""
    quantile = normal_quantile((1 + confidence) / 2)
    return (quantile + normal_quantile(POWER)) / quantile


def ratio_of(found: LogInterval, confidence: float) -> Interval:
    """Return an interval of logarithms as one of ratios; without bounds from 0 to infinity."""
    low, center, high = (
        _exp(log) if math.isfinite(log) else bound
        for log, bound in ((found.low, 0.0), (found.center, 1.0), (found.high, math.inf))
    )
    return Interval(low, center, high, confidence, found.method)


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_LOG_MAX), _LOG_MAX))


def _by_counts(trials: Pairing, confidence: float) -> Interval:
    before, after = trials.rates
    if not any(rate.committed for rate in (*before, *after)):
        return Interval(0.0, 1.0, math.inf, confidence, "nothing committed on either side")
    return slowdown(before, after, confidence=confidence).slowdown


def _verdict(found: Interval, inner: Interval, equivalence: float) -> Verdict:
    # What lies within the margin counts as equal, also where it is told from none at all.
    if 1 / (1 + equivalence) < inner.low <= inner.high < 1 + equivalence:
        return Verdict.EQUIVALENT
    if found.low > 1:
        return Verdict.SLOWER
    return Verdict.FASTER if found.high < 1 else Verdict.INCONCLUSIVE


def _gate(found: Interval, margin: float) -> Gate:
    if found.high < 1 + margin:
        return Gate.PASS
    return Gate.FAIL if found.low > 1 + margin else Gate.INCONCLUSIVE


def _is_decided(found: Interval, verdict: Verdict, gate: Gate | None, rules: Rules) -> bool:
    if gate is None and rules.precision is None:
        return verdict is not Verdict.INCONCLUSIVE
    is_precise = rules.precision is None or _reach(found) <= rules.precision
    return is_precise and gate is not Gate.INCONCLUSIVE


def _reach(found: Interval) -> float:
    """Return how far the interval reaches to either side on average, as a share."""
    if found.low <= 0 or math.isinf(found.high):
        return math.inf
    return _exp((math.log(found.high) - math.log(found.low)) / 2) - 1


def _end(trials: Pairing, rules: Rules) -> End:
    if any(one.outcome is Outcome.UNTESTABLE for one in trials.failures(0)):
        return End.REFERENCE_FAILED
    if any(one.outcome is Outcome.UNTESTABLE for one in trials.failures(1)):
        return End.TREATMENT_FAILED
    if len(trials.pairs) >= FIRST_LOOK and not any(x.committed for y in trials.rates for x in y):
        return End.NOTHING_COMMITTED
    for side, end in ((0, End.REFERENCE_FAILED), (1, End.TREATMENT_FAILED)):
        if len(trials.failures(side)) >= MOST_FAILURES and not trials.pairs:
            return end
    if len(trials.failed) >= MOST_FAILED_BLOCKS:
        return End.FAILED_OFTEN
    return End.MAX_PAIRS if len(trials.pairs) >= rules.max_pairs else End.GOING_ON
