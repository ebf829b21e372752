"""Is one treatment faster or slower than another, and by how much?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import correlation, linear_regression

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.compare.findings import (
    CompareFinding,
    Failures,
    Prospect,
    Trend,
    TrialPair,
    moves,
    quantities,
)
from pgdrag.designs.compare.rules import (
    CompareParameters,
    End,
    Interim,
    Pair,
    Pairing,
    Progress,
    analyse,
    last_interim,
    pairing,
    pairs_needed,
    pairs_to_detect,
    progress,
    slowdown_by_counts,
)
from pgdrag.designs.compare.section import answer, warnings
from pgdrag.findings.values import Gate, Verdict
from pgdrag.findings.wording import so_far_words
from pgdrag.model import Block, Forecast, Outcome, Result, Rung, RunRecord, Treatment
from pgdrag.stats.distributions import correlation_p_value, f_beyond
from pgdrag.stats.paired import ORDER_PAIRS, PairedLogs, detectable, p_value
from pgdrag.stats.rates import have_few_commits
from pgdrag.stats.ratios import slowdown
from pgdrag.stats.sequential import FIRST_INTERIM, interim_confidence

_SLOWDOWNS = (1.01, 1.02, 1.05, 1.1)  # that people ask for
_LEVEL = 0.01  # of what is tested in every comparison beside its question
_ORDER_MATTERS, _TREND_MATTERS = 0.005, 0.01
_TREND_PAIRS = 4


class Compare(Design):
    """Pairs of the first and the last treatment, until they are decided or the limit is reached.

    The laboratory draws the order within each pair. A side that fails twice, and never had a
    number, ends the comparison: that is the answer.
    """

    name = "compare"
    noun = "arm"
    summary = "two treatments in pairs, until it is clear which is faster, or that neither is"
    Parameters = CompareParameters
    parameters: CompareParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.reference, self.treatment = rungs[0].treatment, rungs[-1].treatment
        self._progress = Progress()
        self._results: list[Result] = []

    def ask(self) -> Block:
        """Return one pair, or nothing once the comparison is over."""
        is_over = self._progress.end is not End.GOING_ON
        return Block() if is_over else Block((self.reference, self.treatment))

    def ask_ahead(self, most: int) -> Sequence[Block]:
        """Return further pairs: whether they are needed depends on the results, and what they are does not."""
        left = self.parameters.max_pairs - len(self._pairing(self._results).pairs) - 1
        return [self.ask()] * min(most, left)

    def tell(self, results: Sequence[Result]) -> None:
        """Analyse the pairs so far, where an interim analysis is due."""
        self._results += results
        trials = self._pairing(self._results)
        self._progress = progress(trials, self.parameters, known=self._progress.interims)

    def label(self, treatment: Treatment) -> str:
        labels = {self.treatment.name: "B", self.reference.name: "A"}
        return labels.get(treatment.name, treatment.name)

    def so_far(self, results: Sequence[Result]) -> str:
        found = self.interim(results)
        return "" if found is None else f"B is {so_far_words(found.shown)} so far"

    def interim(self, results: Sequence[Result]) -> Interim | None:
        """Return an analysis of all pairs, `results` included, at the confidence of an interim analysis here.

        None with too few pairs, and where nothing was committed.
        """
        trials = self._pairing((*self._results, *results))
        is_enough = len(trials.pairs) >= FIRST_INTERIM and trials.committed
        return analyse(trials, self.parameters) if is_enough else None

    def forecast(self) -> Forecast:
        if self._progress.end is not End.GOING_ON:
            return Forecast(0, 0)
        trials = self._pairing(self._results)
        pairs = len(trials.pairs)
        # A side that has failed once, and never had a number, ends it when it fails again.
        is_failing = bool(trials.failed) and not pairs
        least = 1 if is_failing else max(FIRST_INTERIM - pairs, 1)
        return Forecast(2 * least, 2 * max(self.parameters.max_pairs - pairs, least))

    def find(self, run: RunRecord) -> CompareFinding:
        """Return the verdict on what was run so far: its interval, and what else differs."""
        rules, floor = self.parameters, self.parameters.noise_floor
        trials = self._pairing(run.results)
        stands = progress(trials, rules)
        outcomes: list[dict[str, int]] = []
        failures: list[Failures | None] = []
        for side in (0, 1):
            failed = trials.failures(side)
            paired = [(pair.reference, pair.treatment)[side] for pair in trials.pairs]
            outcomes.append(dict(Counter(one.outcome.value for one in (*paired, *failed))))
            last_failed = (
                Failures(len(failed), failed[-1].outcome, failed[-1].reason) if failed else None
            )
            failures.append(last_failed)
        is_late = stands.end is End.GOING_ON and run.is_ended_by_budget
        end = End.BUDGET if is_late else stands.end
        last, interims = last_interim(trials, rules, stands), stands.interims
        gate = _gate(trials, rules, stands.end, last)
        if last is None:
            # What a single pair shows; nothing without one, or where neither side committed anything.
            shown = slowdown_by_counts(trials, rules.confidence) if trials.committed else None
        else:
            shown = last.shown
            interims = interims if last in interims else (*interims, last)
            trials = trials.first(last.pairs)
        is_counted = len(trials.pairs) < 2 or any(map(have_few_commits, trials.rates))
        logs = None if is_counted else trials.logs
        found = CompareFinding(
            answer="",
            warnings=(),
            reference=self.rungs[0].name,
            treatment=self.rungs[-1].name,
            verdict=Verdict.INCONCLUSIVE if last is None else last.verdict,
            confidence=rules.confidence,
            slowdown=shown,
            p=None,
            gate=gate,
            margin=rules.fail_if_slower,
            equivalence=rules.equivalence,
            end=end,
            interims=interims,
            pairs=tuple(map(_pair_finding, trials.pairs)),
            detectable=_detectable(trials, logs, rules),
            more_pairs=0 if last is not None and last.is_decided else None,
            pair_log_sd=None,
            prospects=(),
            is_same=self.reference.identity == self.treatment.identity,
            noise_floor=floor,
            is_noisier=False,
            order=None,
            trend=_trend(trials.pairs),
            quantities=quantities(trials.pairs, confidence=rules.confidence),
            moves=moves(trials.pairs),
            defaults=rules.defaults,
            reference_outcomes=outcomes[0],
            treatment_outcomes=outcomes[1],
            reference_failures=failures[0],
            treatment_failures=failures[1],
        )
        if logs is not None:
            found = _with_logs(found, logs, rules)
        return replace(found, answer=answer(found), warnings=tuple(warnings(found)))

    def _pairing(self, results: Sequence[Result]) -> Pairing:
        return pairing(results, self.reference, self.treatment)


def _with_logs(found: CompareFinding, logs: PairedLogs, rules: CompareParameters) -> CompareFinding:
    """Return the same with what the log ratios of two or more pairs say."""
    needed = None if found.more_pairs == 0 else pairs_needed(logs, rules)
    # With two or three pairs the noise is hardly known.
    slowdowns = _SLOWDOWNS if len(logs) >= ORDER_PAIRS else ()
    fit, floor, is_noisier = logs.fit, rules.noise_floor, False
    has_order = fit is not None and fit.p < _LEVEL and abs(fit.order) > _ORDER_MATTERS
    if floor is not None and floor.log_sd:
        # Pairs differ by more than the machine's noise floor explains (an F test).
        ratio, dof = (logs.sd / floor.log_sd) ** 2, max(len(logs) - 2, 1)
        is_noisier = f_beyond(ratio, dof, floor.pairs - 1) < _LEVEL
    return replace(
        found,
        p=p_value(logs),
        more_pairs=found.more_pairs if needed is None else max(needed - len(logs), 1),
        pair_log_sd=logs.sd,
        prospects=tuple(Prospect(x, pairs_to_detect(x, logs.sd, rules)) for x in slowdowns),
        is_noisier=is_noisier,
        order=math.exp(-fit.order) if fit is not None and has_order else None,
    )


def _gate(trials: Pairing, rules: CompareParameters, end: End, last: Interim | None) -> Gate | None:
    if rules.fail_if_slower is None:
        return None
    if end is End.TREATMENT_FAILED:
        broke = trials.failures(1)[-1].outcome in (Outcome.DID_NOT_START, Outcome.CRASHED)
        return Gate.FAIL if broke and not trials.failures(0) else Gate.INCONCLUSIVE
    return Gate.INCONCLUSIVE if last is None or last.gate is None else last.gate


def _detectable(trials: Pairing, logs: PairedLogs | None, rules: CompareParameters) -> float:
    pairs = max(len(trials.pairs), 2)
    confidence = interim_confidence(pairs, max(rules.max_pairs, pairs), confidence=rules.confidence)
    if logs is not None:
        return detectable(logs, confidence=confidence)
    before, after = trials.rates
    if len(before) < 2 or not any(rate.committed for rate in before):
        return math.inf
    return slowdown(before, after, confidence=confidence).detectable


def _trend(pairs: Sequence[Pair]) -> Trend | None:
    """Return how both sides together drifted over the run; None where that is noise or too little."""
    rates = [pair.rates for pair in pairs]
    if len({pair.reference.host for pair in pairs}) > 1:
        return None  # hosts that take turns look like a trend
    if len(pairs) < _TREND_PAIRS or any(not rate.per_s for both in rates for rate in both):
        return None
    times = [(one.reference.started_unix_s + one.treatment.started_unix_s) / 2 for one in pairs]
    lasted_s = times[-1] - times[0]
    if lasted_s <= 0:
        return None
    levels = [(math.log(before.per_s) + math.log(after.per_s)) / 2 for before, after in rates]
    change = linear_regression(times, levels).slope * lasted_s
    if abs(change) < _TREND_MATTERS:
        return None
    if correlation_p_value(correlation(times, levels), len(pairs)) > _LEVEL:
        return None
    return Trend(math.exp(change), lasted_s)


def _pair_finding(pair: Pair) -> TrialPair:
    before, after = (rate.per_s for rate in pair.rates)
    ratio = before / after if after else (math.inf if before else 1.0)
    return TrialPair(pair.reference.trial.block, before, after, ratio, pair.is_reference_first)
