"""Which trials of a comparison are pairs, do the pairs so far decide it, and what is the verdict?

A pair is a block with one trial of the reference and one of the treatment, run next to each other in random
order. The design asks after each pair, and the report at the end: both get the same answer.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from pgdrag.designs import DesignParameters
from pgdrag.findings.readings import rate_if_numbered
from pgdrag.findings.values import Gate, Interval, Verdict
from pgdrag.model import Outcome, Result, Treatment
from pgdrag.stats.distributions import POWER, normal_quantile, t_multiplier
from pgdrag.stats.interval import EQUIVALENCE, bounded_exp
from pgdrag.stats.paired import ORDER_PAIRS, PairedLogs, interval, power, smallest_effect
from pgdrag.stats.rates import TrialRate, have_few_commits, within_spread
from pgdrag.stats.ratios import slowdown
from pgdrag.stats.sequential import FIRST_INTERIM, interim_confidence, planned_interims

MOST_FAILURES = 2  # of one side that has no number at all: what failed once is tried once more
MOST_FAILED_BLOCKS = 4  # in all
MOST_FORECAST = 1000  # pairs
MOST_PAIRS = 1000


class End(StrEnum):
    """Why no further pair is needed; `GOING_ON`: one is."""

    GOING_ON = "going on"
    DECIDED = "decided"
    MAX_PAIRS = "as many pairs as allowed"
    BUDGET = "the time budget is used up"
    REFERENCE_FAILED = "the reference has no number"
    TREATMENT_FAILED = "the treatment has no number"
    FAILED_OFTEN = "trials failed too often"
    NOTHING_COMMITTED = "nothing committed on either side"


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class NoiseFloor:
    """What pairs of one and the same treatment differed by on this machine.

    Attributes:
        log_sd: standard deviation of the log ratio from pair to pair.
        pairs: that it was estimated from.
        when: they were run; "" where that is unknown.
    """

    log_sd: Annotated[
        float, Field(ge=0, description="Standard deviation of the log ratio from pair to pair")
    ]
    pairs: Annotated[int, Field(ge=2, description="Pairs that it was estimated from")]
    when: Annotated[str, Field(description="When they were run")] = ""


class CompareParameters(DesignParameters):
    """Parameters of a comparison; shares are fractions: 0.02 for 2 %."""

    max_pairs: Annotated[int, Field(ge=ORDER_PAIRS, le=MOST_PAIRS)] = Field(
        default=20, description="Stop after this many pairs of trials, even if undecided"
    )
    confidence: Annotated[float, Field(ge=0.8, le=0.999)] = Field(
        default=0.95, description="Confidence of all interim analyses together"
    )
    equivalence: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=EQUIVALENCE, description="Differences up to this share count as equal"
    )
    precision: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Stop once the interval is within this share of the estimate on either side",
    )
    fail_if_slower: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Fail if the treatment is slower by more than this share"
    )
    noise_floor: NoiseFloor | None = Field(
        default=None, description="How much pairs of the same treatment differ on this machine"
    )
    defaults: tuple[str, ...] = Field(
        default=(), description="Defaults of the two servers that differ, each in words"
    )


@dataclass(frozen=True)
class Pair:
    """One trial of each side, the reference's first, both with a number."""

    reference: Result
    treatment: Result
    rates: tuple[TrialRate, TrialRate]

    @property
    def is_reference_first(self) -> bool:
        """The reference's trial ran before that of the treatment."""
        return self.reference.trial.number < self.treatment.trial.number

    @property
    def sign(self) -> int:
        """1 where the reference ran first, else -1."""
        return 1 if self.is_reference_first else -1


@dataclass(frozen=True)
class Pairing:
    """All results of a comparison, sorted.

    Attributes:
        pairs: in the order run.
        failed: blocks in which a side has no number, in the order run, each with the results of the
            sides that have none: of the reference, of the treatment (None: that side has one).
    """

    pairs: tuple[Pair, ...] = ()
    failed: tuple[tuple[Result | None, Result | None], ...] = ()

    def failures(self, side: int) -> tuple[Result, ...]:
        """Return the results without a number of the reference (0) or the treatment (1)."""
        return tuple(found for block in self.failed if (found := block[side]) is not None)

    def first(self, pairs: int) -> Pairing:
        """Return the same with the first few pairs only."""
        return Pairing(self.pairs[:pairs], self.failed)

    @property
    def rates(self) -> tuple[list[TrialRate], list[TrialRate]]:
        """Throughput of all trials of the reference, and of the treatment."""
        before, after = ([pair.rates[side] for pair in self.pairs] for side in (0, 1))
        return before, after

    @property
    def committed(self) -> int:
        """Transactions committed on both sides together."""
        return sum(rate.committed for side in self.rates for rate in side)

    @property
    def logs(self) -> PairedLogs:
        """The log slowdown of each pair; every trial committed something."""
        rates = [pair.rates for pair in self.pairs]
        within = sum(within_spread(rate).log_se ** 2 for both in rates for rate in both)
        return PairedLogs(
            tuple(math.log(before.per_s) - math.log(after.per_s) for before, after in rates),
            tuple(pair.sign for pair in self.pairs),
            math.sqrt(within) / len(rates) if rates else 0.0,
        )


def pairing(results: Iterable[Result], reference: Treatment, treatment: Treatment) -> Pairing:
    """Sort the results of a comparison into pairs, by their blocks; short trials are in none.

    Where both sides are the same treatment (a comparison of a thing with itself) the names tell them
    apart, and where these are the same too, the block's own seed does.
    """
    blocks: dict[int, list[Result]] = {}
    for result in results:
        if not result.trial.is_brief:
            blocks.setdefault(result.trial.block, []).append(result)
    pairs: list[Pair] = []
    failed: list[tuple[Result | None, Result | None]] = []
    for block in blocks.values():
        before, after = _sides(block, reference, treatment)
        if before is None or after is None:
            continue
        one, other = rate_if_numbered(before), rate_if_numbered(after)
        if one is not None and other is not None:
            pairs.append(Pair(before, after, (one, other)))
        else:
            failed.append((None if one else before, None if other else after))
    return Pairing(tuple(pairs), tuple(failed))


def _sides(
    block: Sequence[Result], reference: Treatment, treatment: Treatment
) -> tuple[Result | None, Result | None]:
    """Return a block's trial of the reference and of the treatment; None where one has not run."""
    by_identity = {one.trial.treatment.identity: one for one in reversed(block)}
    if reference.identity != treatment.identity:
        return by_identity.get(reference.identity), by_identity.get(treatment.identity)
    if reference.name != treatment.name:
        by_name = {one.trial.treatment.name: one for one in reversed(block)}
        return by_name.get(reference.name), by_name.get(treatment.name)
    same = [one for one in block if one.trial.treatment.identity == reference.identity][:2]
    if len(same) < 2:
        return None, None
    first, second = same
    return (second, first) if first.trial.seed % 2 else (first, second)


@dataclass(frozen=True)
class Interim:
    """One interim analysis of the pairs.

    Attributes:
        pairs: all that were there.
        slowdown: throughput of the reference divided by that of the treatment, at the confidence
            that this analysis needs (see `sequential`).
        inner: the narrower interval that has to lie within the margin of what counts as equal.
        verdict: *equivalent* by `inner`, else by `slowdown`.
        gate: None where no margin was set.
        is_decided: no further pair is needed.
    """

    pairs: int
    slowdown: Interval
    inner: Interval
    verdict: Verdict
    gate: Gate | None
    is_decided: bool

    @property
    def shown(self) -> Interval:
        """The interval that the verdict rests on; a gate always rests on the wider one."""
        is_equal = self.verdict is Verdict.EQUIVALENT and self.gate is None
        return self.inner if is_equal else self.slowdown


@dataclass(frozen=True)
class Progress:
    """How far a comparison is: each planned interim analysis so far, and why it is over."""

    interims: tuple[Interim, ...] = ()
    end: End = End.GOING_ON


def progress(
    trials: Pairing, rules: CompareParameters, *, known: Sequence[Interim] = ()
) -> Progress:
    """Return how far a comparison is after these trials.

    The first planned interim analysis that decides ends it; pairs that ran after it are ignored.

    Args:
        trials: all that were run.
        rules: what is asked of the comparison.
        known: interim analyses made before, of the first of these pairs; they are not repeated.
    """
    before = {one.pairs: one for one in known}
    interims: list[Interim] = []
    for at in planned_interims(rules.max_pairs):
        if at > len(trials.pairs):
            break
        interims.append(before.get(at) or analyse(trials.first(at), rules))
        if interims[-1].is_decided:
            return Progress(tuple(interims), End.DECIDED)
    return Progress(tuple(interims), _end(trials, rules))


def last_interim(trials: Pairing, rules: CompareParameters, found: Progress) -> Interim | None:
    """Return the analysis that decided, or one of all pairs there are; None with fewer than two.

    A run that was cut short is analysed where it ended, whether or not that was planned.
    """
    last = found.interims[-1] if found.interims else None
    if last is not None and (last.is_decided or last.pairs == len(trials.pairs)):
        return last
    return analyse(trials, rules) if len(trials.pairs) >= FIRST_INTERIM else None


def analyse(trials: Pairing, rules: CompareParameters) -> Interim:
    """Judge the pairs so far, two or more."""
    if not any(map(have_few_commits, trials.rates)):
        return analyse_logs(trials.logs, rules)
    count = len(trials.pairs)
    wide, narrow = (slowdown_by_counts(trials, level) for level in _confidences(count, rules))
    return _judged(count, wide, narrow, rules)


def analyse_logs(logs: PairedLogs, rules: CompareParameters) -> Interim:
    """Judge the log slowdowns of two or more pairs."""
    count = len(logs)
    wide, narrow = (interval(logs, confidence=level).ratio for level in _confidences(count, rules))
    if count >= ORDER_PAIRS:
        return _judged(count, wide, narrow, rules)
    # Fewer pairs cannot separate the treatment from the order of its trials.
    gate = None if rules.fail_if_slower is None else Gate.INCONCLUSIVE
    return Interim(count, wide, narrow, Verdict.INCONCLUSIVE, gate, False)


def slowdown_by_counts(trials: Pairing, confidence: float) -> Interval:
    """Return the slowdown by the trials of each side together, not by pairs."""
    if not trials.committed:
        return Interval(0.0, 1.0, math.inf, confidence, "nothing committed on either side")
    return slowdown(*trials.rates, confidence=confidence).slowdown


def pairs_needed(logs: PairedLogs, rules: CompareParameters) -> int | None:
    """Return how many pairs in all would decide it four times in five, at the effect and noise seen.

    None where more than `MOST_FORECAST` would be needed.
    """
    center, log_sd = float(logs.values.mean()), logs.sd
    found = _fewest(lambda pairs: _would_decide(center, log_sd, pairs, rules))
    return None if found is None else max(found, len(logs))


def pairs_to_detect(slowdown: float, log_sd: float, rules: CompareParameters) -> int | None:
    """Return how many pairs detect a slowdown four times in five, at this noise.

    None where more than `MOST_FORECAST` would be needed.
    """
    wide, _ = _confidences(rules.max_pairs, rules)
    size = math.log(slowdown)
    return _fewest(lambda pairs: power(size, log_sd, pairs, confidence=wide) >= POWER)


def _confidences(pairs: int, rules: CompareParameters) -> tuple[float, float]:
    """Return the confidence that the interval of a difference needs, and that of equivalence.

    Equivalence is shown by two one-sided tests, each at the confidence asked for (Schuirmann 1987).
    """
    most = max(rules.max_pairs, pairs)
    return (
        interim_confidence(pairs, most, confidence=rules.confidence),
        interim_confidence(pairs, most, confidence=2 * rules.confidence - 1),
    )


def _fewest(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number of pairs that is enough, where more of them are enough as well."""
    found = bisect_left(range(MOST_FORECAST + 1), True, lo=2, key=is_enough)
    return found if found <= MOST_FORECAST else None


def _would_decide(center: float, log_sd: float, pairs: int, rules: CompareParameters) -> bool:
    """Tell whether this many pairs decide it with a probability of `POWER`, at the last analysis."""
    wide, narrow = _confidences(rules.max_pairs, rules)
    if rules.precision is not None:
        # Half of the width takes the quantile of the confidence alone; an effect takes that of power, too.
        quantile = t_multiplier(wide, math.inf)
        effect = smallest_effect(log_sd, pairs, confidence=wide)
        return effect * quantile <= math.log1p(rules.precision) * (
            quantile + normal_quantile(POWER)
        )

    def chance(room: float, confidence: float = wide) -> float:
        return power(room, log_sd, pairs, confidence=confidence)

    if rules.fail_if_slower is not None:
        return chance(abs(center - math.log1p(rules.fail_if_slower))) >= POWER
    margin = math.log1p(rules.equivalence)
    # Equal only where both one-sided tests say so.
    equal = chance(margin - abs(center), narrow) + chance(margin + abs(center), narrow) - 1
    return max(chance(abs(center)), equal) >= POWER


def _judged(pairs: int, wide: Interval, narrow: Interval, rules: CompareParameters) -> Interim:
    equal, gate = 1 + rules.equivalence, None
    # What lies within the margin counts as equal, even where the difference is significant.
    if 1 / equal < narrow.low <= narrow.high < equal:
        verdict = Verdict.EQUIVALENT
    elif wide.excludes_one:
        verdict = Verdict.SLOWER if wide.low > 1 else Verdict.FASTER
    else:
        verdict = Verdict.INCONCLUSIVE
    if rules.fail_if_slower is not None:
        limit = 1 + rules.fail_if_slower
        failed = Gate.FAIL if wide.low > limit else Gate.INCONCLUSIVE
        gate = Gate.PASS if wide.high < limit else failed
    # How far the interval reaches to either side on average, as a share.
    is_bounded = wide.low > 0 and not math.isinf(wide.high)
    log_width = math.log(wide.high) - math.log(wide.low) if is_bounded else math.inf
    is_precise = rules.precision is None or bounded_exp(log_width / 2) - 1 <= rules.precision
    is_decided = is_precise and gate is not Gate.INCONCLUSIVE
    if gate is None and rules.precision is None:
        is_decided = verdict is not Verdict.INCONCLUSIVE
    return Interim(pairs, wide, narrow, verdict, gate, is_decided)


def _end(trials: Pairing, rules: CompareParameters) -> End:
    ends = (End.REFERENCE_FAILED, End.TREATMENT_FAILED)
    for side, end in enumerate(ends):
        if any(one.outcome is Outcome.UNTESTABLE for one in trials.failures(side)):
            return end
    if len(trials.pairs) >= FIRST_INTERIM and not trials.committed:
        return End.NOTHING_COMMITTED
    for side, end in enumerate(ends):
        if len(trials.failures(side)) >= MOST_FAILURES and not trials.pairs:
            return end
    if len(trials.failed) >= MOST_FAILED_BLOCKS:
        return End.FAILED_OFTEN
    return End.MAX_PAIRS if len(trials.pairs) >= rules.max_pairs else End.GOING_ON
