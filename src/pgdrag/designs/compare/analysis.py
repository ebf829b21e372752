"""What did a comparison find? Its verdict, the interval behind it, and what else differs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdrag.designs.compare.findings import (
    CompareFinding,
    Failures,
    Prospect,
    Trend,
    TrialPair,
)
from pgdrag.designs.compare.pairs import Pair, Pairing, pairing
from pgdrag.designs.compare.quantities import quantities
from pgdrag.designs.compare.rules import (
    CompareParameters,
    End,
    Gate,
    Interim,
    NoiseFloor,
    has_few_commits,
    last_interim,
    pairs_needed,
    pairs_to_detect,
    progress,
    slowdown_by_counts,
)
from pgdrag.designs.compare.section import answer, warnings
from pgdrag.findings.values import Interval, Verdict
from pgdrag.model import Outcome, RunRecord
from pgdrag.stats.distributions import f_beyond
from pgdrag.stats.line import line_through
from pgdrag.stats.pair_logs import ORDER_PAIRS, PairedLogs
from pgdrag.stats.paired import bootstrap, detectable, interval, p_value
from pgdrag.stats.ratios import slowdown
from pgdrag.stats.sequential import interim_confidence

if TYPE_CHECKING:
    from pgdrag.designs.compare import Compare

_SLOWDOWNS = (1.01, 1.02, 1.05, 1.1)  # that people ask for
_LEVEL = 0.01  # of what is tested in every comparison beside its question
_ORDER_MATTERS, _TREND_MATTERS = 0.005, 0.01
_TREND_PAIRS = 4


def finding_of(design: Compare, run: RunRecord) -> CompareFinding:
    """Return the verdict on what was run so far."""
    rules, floor = design.parameters, design.parameters.noise_floor
    trials = pairing(run.results, design.reference, design.treatment)
    stands = progress(trials, rules)
    outcomes = [_outcomes(trials, side) for side in (0, 1)]
    failures = [_failures(trials, side) for side in (0, 1)]
    last = last_interim(trials, rules, stands)
    gate = _gate(trials, rules, stands.end, last)
    interims = stands.interims
    if last is not None and last not in interims:
        interims = (*interims, last)
    if last is not None:
        trials = trials.first(last.pairs)
    logs = None if has_few_commits(trials) or len(trials.pairs) < 2 else trials.logs
    found = CompareFinding(
        answer="",
        warnings=(),
        reference=design.rungs[0].name,
        treatment=design.rungs[-1].name,
        verdict=Verdict.INCONCLUSIVE if last is None else last.verdict,
        confidence=rules.confidence,
        slowdown=_of_one_pair(trials, rules) if last is None else _shown(last),
        fixed=None,
        bootstrap=None,
        p=None,
        gate=gate,
        margin=rules.fail_if_slower,
        equivalence=rules.equivalence,
        end=stands.end,
        interims=interims,
        pairs=tuple(map(_pair_finding, trials.pairs)),
        detectable=_detectable(trials, logs, rules),
        more_pairs=0 if last is not None and last.is_decided else None,
        pair_log_sd=None,
        prospects=(),
        is_same=design.reference.identity == design.treatment.identity,
        noise_floor=floor,
        is_noisier=False,
        order=None,
        trend=_trend(trials.pairs),
        quantities=quantities(trials.pairs, confidence=rules.confidence),
        reference_outcomes=outcomes[0],
        treatment_outcomes=outcomes[1],
        reference_failures=failures[0],
        treatment_failures=failures[1],
    )
    if logs is not None:
        found = _with_logs(found, logs, rules)
    return replace(found, answer=answer(found), warnings=tuple(warnings(found)))


def _with_logs(found: CompareFinding, logs: PairedLogs, rules: CompareParameters) -> CompareFinding:
    """Return the same with what the log ratios of two or more pairs say."""
    boot = bootstrap(logs, confidence=rules.confidence)
    order, floor = logs.order, rules.noise_floor
    has_order = order is not None and order.p < _LEVEL and abs(order.log) > _ORDER_MATTERS
    needed = None if found.more_pairs == 0 else pairs_needed(logs, rules)
    # With two or three pairs the noise is hardly known.
    slowdowns = _SLOWDOWNS if len(logs) >= ORDER_PAIRS else ()
    return replace(
        found,
        fixed=interval(logs, confidence=rules.confidence, is_guarded=False).ratio,
        bootstrap=None if boot is None else boot.ratio,
        p=p_value(logs),
        more_pairs=found.more_pairs if needed is None else max(needed - len(logs), 1),
        pair_log_sd=logs.sd,
        prospects=tuple(Prospect(x, pairs_to_detect(x, logs.sd, rules)) for x in slowdowns),
        is_noisier=floor is not None and _is_noisier(logs, floor),
        order=math.exp(-order.log) if order is not None and has_order else None,
    )


def _shown(last: Interim) -> Interval:
    """Return the interval that the verdict rests on; a gate always rests on the wider one."""
    is_equal = last.verdict is Verdict.EQUIVALENT and last.gate is None
    return last.inner if is_equal else last.slowdown


def _gate(trials: Pairing, rules: CompareParameters, end: End, last: Interim | None) -> Gate | None:
    if rules.fail_if_slower is None:
        return None
    if end is End.TREATMENT_FAILED:
        broke = trials.failures(1)[-1].outcome in (Outcome.DID_NOT_START, Outcome.CRASHED)
        return Gate.FAIL if broke and not trials.failures(0) else Gate.INCONCLUSIVE
    return Gate.INCONCLUSIVE if last is None or last.gate is None else last.gate


def _of_one_pair(trials: Pairing, rules: CompareParameters) -> Interval | None:
    """Return what a single pair shows; None without one, or where neither side committed anything."""
    return slowdown_by_counts(trials, rules.confidence) if trials.committed else None


def _detectable(trials: Pairing, logs: PairedLogs | None, rules: CompareParameters) -> float:
    pairs = max(len(trials.pairs), 2)
    confidence = interim_confidence(pairs, max(rules.max_pairs, pairs), confidence=rules.confidence)
    if logs is not None:
        return detectable(logs, confidence=confidence)
    before, after = trials.rates
    if len(before) < 2 or not any(rate.committed for rate in before):
        return math.inf
    return slowdown(before, after, confidence=confidence).detectable


def _is_noisier(logs: PairedLogs, floor: NoiseFloor) -> bool:
    """Tell whether pairs differ by more than the machine's noise floor explains (an F test)."""
    if not floor.log_sd:
        return False
    ratio = (logs.sd / floor.log_sd) ** 2
    return f_beyond(ratio, max(len(logs) - 2, 1), floor.pairs - 1) < _LEVEL


def _trend(pairs: Sequence[Pair]) -> Trend | None:
    """Return how both sides together drifted over the run; None where that is noise or too little."""
    rates = [pair.rates for pair in pairs]
    if len(pairs) < _TREND_PAIRS or any(not rate.per_s for both in rates for rate in both):
        return None
    times = [(one.reference.started_unix_s + one.treatment.started_unix_s) / 2 for one in pairs]
    lasted_s = times[-1] - times[0]
    if lasted_s <= 0:
        return None
    levels = [(math.log(before.per_s) + math.log(after.per_s)) / 2 for before, after in rates]
    line = line_through(times, levels)
    change = line.slope * lasted_s
    if line.p_value > _LEVEL or abs(change) < _TREND_MATTERS:
        return None
    return Trend(math.exp(change), lasted_s)


def _pair_finding(pair: Pair) -> TrialPair:
    before, after = (rate.per_s for rate in pair.rates)
    ratio = before / after if after else (math.inf if before else 1.0)
    return TrialPair(pair.reference.trial.block, before, after, ratio, pair.is_reference_first)


def _outcomes(trials: Pairing, side: int) -> dict[str, int]:
    """Count how the trials of a side ended, those of complete blocks."""
    paired = [(pair.reference, pair.treatment)[side] for pair in trials.pairs]
    return dict(Counter(one.outcome.value for one in (*paired, *trials.failures(side))))


def _failures(trials: Pairing, side: int) -> Failures | None:
    failed = trials.failures(side)
    return Failures(len(failed), failed[-1].outcome, failed[-1].reason) if failed else None
