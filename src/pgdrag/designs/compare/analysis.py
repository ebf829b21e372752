"""What did a comparison find? Its verdict, what that rests on, and what else differs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import ClassVar

from pgdrag.designs.compare.findings import (
    CompareFinding,
    NoiseFloor,
    Prospect,
    pair_finding,
    trend,
)
from pgdrag.designs.compare.pairs import Pairing, pairing, throughput_logs
from pgdrag.designs.compare.quantities import quantities
from pgdrag.designs.compare.rules import (
    End,
    Gate,
    Look,
    Rules,
    Standing,
    is_of_counts,
    last_look,
    pairs_needed,
    pairs_to_tell,
    ratio_of,
    standing,
)
from pgdrag.designs.compare.words import answer_words, doubts
from pgdrag.findings.design_analysis import DesignAnalysis
from pgdrag.findings.values import Interval, Verdict
from pgdrag.model import Outcome, Rung, RunRecord, Treatment
from pgdrag.stats.distributions import noncentrality
from pgdrag.stats.pair_logs import ORDER_PAIRS, OrderEffect, PairedLogs
from pgdrag.stats.paired import (
    EXACT_PAIRS,
    TWO_INTERVALS,
    bootstrap,
    interval,
    p_value,
)
from pgdrag.stats.ratios import slowdown
from pgdrag.stats.sequential import look_confidence

_SLOWDOWNS = (1.01, 1.02, 1.05, 1.1)  # that people ask for
_ORDER_LEVEL = 0.01  # it is looked for in every comparison: few of those that are none may be told
_ORDER_MATTERS = 0.005
_LOG_MAX = 700.0  # exp() of more is not a float


class CompareAnalysis(DesignAnalysis):
    """The comparison of a study's first treatment with its last."""

    name: ClassVar[str] = "compare"

    def find(self, run: RunRecord) -> CompareFinding:
        """Return the verdict on what was run so far."""
        rungs = run.study.rungs or (Rung("reference", "", Treatment("reference")),)
        reference, treatment = (rung.treatment for rung in (rungs[0], rungs[-1]))
        trials = pairing(run.results, reference, treatment)
        rules = Rules.from_parameters(run.study.design_parameters)
        stands = standing(trials, rules)
        ended = _outcomes(trials)
        last = last_look(trials, rules, stands)
        if last is not None:
            trials = trials.first(last.pairs)
        found = _finding(trials, rules, stands, last)
        found = replace(
            found,
            reference=rungs[0].name,
            treatment=rungs[-1].name,
            is_same=reference.identity == treatment.identity,
            noise_floor=NoiseFloor.from_parameters(run.study.design_parameters),
            reference_outcomes=ended[0],
            treatment_outcomes=ended[1],
        )
        return replace(
            found, answer=answer_words(found, trials), warnings=tuple(doubts(found, trials))
        )


def _finding(trials: Pairing, rules: Rules, stands: Standing, last: Look | None) -> CompareFinding:
    logs = None if is_of_counts(trials) else throughput_logs(trials.pairs)
    told = logs if logs is not None and len(logs) >= 2 else None
    order = told.order if told is not None else None
    boot = None if told is None else bootstrap(told, confidence=rules.confidence)
    return CompareFinding(
        answer="",
        warnings=(),
        reference="",
        treatment="",
        verdict=Verdict.INCONCLUSIVE if last is None else last.verdict,
        slowdown=_of_one_pair(trials, rules) if last is None else _shown(last),
        fixed=_fixed(told, rules),
        bootstrap=None if boot is None else ratio_of(boot, rules.confidence),
        p=None if told is None else p_value(told),
        gate=_gate(trials, rules, stands, last),
        margin=rules.fail_if_slower,
        equivalence=rules.equivalence,
        end=stands.end,
        looks=stands.looks if last is None or last in stands.looks else (*stands.looks, last),
        pairs=tuple(pair_finding(pair) for pair in trials.pairs),
        detectable=_detectable(trials, told, rules),
        more_pairs=_more_pairs(told, last, rules),
        pair_log_sd=None if told is None else told.sd,
        prospects=_prospects(told, rules),
        is_same=False,
        noise_floor=None,
        order=math.exp(-order.log) if order is not None and _matters(order) else None,
        trend=trend(trials.pairs),
        quantities=quantities(trials.pairs, confidence=rules.confidence),
        reference_outcomes={},
        treatment_outcomes={},
    )


def _matters(order: OrderEffect) -> bool:
    return order.p < _ORDER_LEVEL and abs(order.log) > _ORDER_MATTERS


def _shown(last: Look) -> Interval:
    """Return the interval that the verdict rests on; a gate rests on the wider one always."""
    is_equal = last.verdict is Verdict.EQUIVALENT and last.gate is None
    return last.inner if is_equal else last.slowdown


def _gate(trials: Pairing, rules: Rules, stands: Standing, last: Look | None) -> Gate | None:
    if rules.fail_if_slower is None:
        return None
    if stands.end is End.TREATMENT_FAILED:
        broke = trials.failures(1)[-1].outcome in (Outcome.DID_NOT_START, Outcome.CRASHED)
        return Gate.FAIL if broke and not trials.failures(0) else Gate.INCONCLUSIVE
    return Gate.INCONCLUSIVE if last is None or last.gate is None else last.gate


def _prospects(logs: PairedLogs | None, rules: Rules) -> tuple[Prospect, ...]:
    """Return what the noise lets a comparison tell; with two or three pairs it is hardly known."""
    if logs is None or len(logs) < ORDER_PAIRS:
        return ()
    return tuple(Prospect(ratio, pairs_to_tell(ratio, logs.sd, rules)) for ratio in _SLOWDOWNS)


def _confidence(trials: Pairing, rules: Rules) -> float:
    pairs = max(len(trials.pairs), 2)
    return look_confidence(pairs, max(rules.max_pairs, pairs), confidence=rules.confidence)


def _of_one_pair(trials: Pairing, rules: Rules) -> Interval | None:
    """Return what a single pair shows; None without one, or where neither side committed anything."""
    before, after = trials.rates
    if not any(rate.committed for rate in (*before, *after)):
        return None
    return slowdown(before, after, confidence=rules.confidence).slowdown


def _fixed(logs: PairedLogs | None, rules: Rules) -> Interval | None:
    if logs is None:
        return None
    found = interval(logs, confidence=rules.confidence, is_guarded=False)
    return ratio_of(found, rules.confidence)


def _detectable(trials: Pairing, logs: PairedLogs | None, rules: Rules) -> float:
    confidence = _confidence(trials, rules)
    if logs is not None:
        found = interval(logs, confidence=confidence)
        both = TWO_INTERVALS if len(logs) < EXACT_PAIRS else 1.0
        log = both * noncentrality(found.dof, confidence) * found.se
        return math.exp(log) if log < _LOG_MAX else math.inf
    before, after = trials.rates
    if len(trials.pairs) < 2 or not any(rate.committed for rate in before):
        return math.inf
    return slowdown(before, after, confidence=confidence).detectable


def _more_pairs(logs: PairedLogs | None, last: Look | None, rules: Rules) -> int | None:
    if last is not None and last.is_decided:
        return 0
    if logs is None:
        return None
    needed = pairs_needed(logs, rules)
    return None if needed is None else max(needed - len(logs), 1)


def _outcomes(trials: Pairing) -> tuple[dict[str, int], dict[str, int]]:
    """Count how the trials of each side ended, those of complete blocks."""
    pairs = [(pair.reference, pair.treatment) for pair in trials.pairs]
    sides = [
        Counter(
            one.outcome.value for one in (*(pair[side] for pair in pairs), *trials.failures(side))
        )
        for side in (0, 1)
    ]
    return dict(sides[0]), dict(sides[1])
