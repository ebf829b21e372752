"""What did a run find? From its results to findings, rung by rung.

Works on any run, finished or not: a rung without trials says "not run yet", one without a number
says why, and the rungs around it are compared with each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pgdrag.findings import levels
from pgdrag.findings.answer import answer_sentence, run_warnings
from pgdrag.findings.claims import answer_step, answer_total, untestable_words
from pgdrag.findings.combine import RungTrials, group
from pgdrag.findings.decay.together import RungDecay, finding_of, rung_decays
from pgdrag.findings.decay.words import drift_sentence
from pgdrag.findings.design_analysis import find_of_design
from pgdrag.findings.dose.find import horizon_finding
from pgdrag.findings.expecto.speed import operational_speeds
from pgdrag.findings.expecto.view import expecto_finding
from pgdrag.findings.holds.replay import replay_finding
from pgdrag.findings.mechanisms.find import find_mechanisms
from pgdrag.findings.mechanisms.findings import MechanismsFinding
from pgdrag.findings.mechanisms.trials import Trials
from pgdrag.findings.movement import movements, sentence
from pgdrag.findings.new_orders import new_orders
from pgdrag.findings.plan_diff import plan_changes
from pgdrag.findings.series_claims import answer_ordering, answer_series
from pgdrag.findings.spent_time import spent_time
from pgdrag.findings.steps import StepRatios, step_findings
from pgdrag.findings.values import (
    LADDER,
    NOT_RUN,
    ClaimFinding,
    Comparison,
    DesignFinding,
    Findings,
    Movement,
    RungFinding,
    Verdict,
)
from pgdrag.findings.wording import detectable_words
from pgdrag.model import OPERATIONAL_SPEED, Applied, Outcome, Rung, RunRecord
from pgdrag.model.recordings import StatementPlan
from pgdrag.stats.linear_model import fit
from pgdrag.stats.noise import Noise
from pgdrag.stats.rates import TrialRate, combined_rate, repeat_noise
from pgdrag.stats.ratios import slowdown
from pgdrag.units import format_interval


def find(run: RunRecord) -> Findings:
    """Return all that the results of a run say, whatever state the run and its trials are in.

    In a ladder each rung is compared with the baseline and with the nearest rung before it that
    has a number; in any other design both comparisons are with the baseline. Treatments that a
    design made itself stand behind the rungs, unless it has an analysis of its own.
    """
    found = find_of_design(run)
    if found is None or not found.names_all_treatments:
        run = replace(run, study=replace(run.study, rungs=_with_further_treatments(run)))
    grouped = group(run.study.rungs, run.results)
    decays = rung_decays(grouped)
    trending = {name for name, decay in decays.items() if decay.has_trend}
    trials = tuple(replace(one, has_trend=one.rung.name in trending) for one in grouped)
    noise = repeat_noise([trials[0].rates]) if trials else None
    seen = Trials(trials)
    rungs = tuple(
        _with_decay(_find_rung(run, trials, at, noise, found, seen), decays.get(one.rung.name))
        for at, one in enumerate(trials)
    )
    if rungs and _is_ladder(run):
        rungs = _with_shares(rungs)
    if any(rung.steps for rung in rungs):
        ratios = StepRatios({one.rung.name: one.numbered for one in trials}, rungs[0].rung.name)
        rungs = tuple(
            replace(rung, steps=ratios.beside(rung.steps, rung.rung.name)) for rung in rungs
        )
    if any(rung.rung.claim.of == OPERATIONAL_SPEED for rung in rungs):
        rungs = _with_operational_speed(rungs, trials)
    return Findings(
        run=run,
        rungs=rungs,
        answer=_answer(run, rungs, found),
        noise_floor=_noise_floor(trials[0]) if trials else None,
        warnings=(
            *(found.warnings if found is not None else ()),
            *run_warnings(run, rungs, has_noise=noise is not None),
        ),
        found=found,
        ordering=answer_ordering([one.rung for one in trials], decays),
        horizon=horizon_finding(trials, decays),
    )


def _with_decay(rung: RungFinding, decay: RungDecay | None) -> RungFinding:
    """Add how throughput went; where that has a trend, it says what the drift only hints at."""
    claim = answer_series(rung.rung.claim, decay) if rung.trials else None
    if decay is None:
        return replace(rung, series_claim=claim)
    found = finding_of(decay)
    drift, warnings = rung.drift, rung.warnings
    if drift and (found.has_trend or found.direction == "steady"):
        drift = drift_sentence(found) if found.has_trend else ""
        rest = tuple(one for one in warnings if one != rung.drift)
        warnings = (*rest, drift) if drift else rest
    told = rung.sentence
    is_slower = rung.to_previous is not None and rung.to_previous.verdict is Verdict.SLOWER
    if rung.to_previous is not None and found.direction == "falling" and not is_slower:
        # A mean over all of the window hides what a part of it was.
        told = f"{told} But {drift_sentence(found)}."
    return replace(
        rung, sentence=told, decay=found, series_claim=claim, drift=drift, warnings=warnings
    )


def _answer(run: RunRecord, rungs: Sequence[RungFinding], found: DesignFinding | None) -> str:
    if found is not None and not found.completes_answer:
        return found.answer
    told = answer_sentence(run.study, rungs)
    return told if found is None else f"{told} {found.answer}".strip()


def _with_further_treatments(run: RunRecord) -> tuple[Rung, ...]:
    """Return the study's rungs and, for each treatment run that none of them names, one more."""
    rungs = {rung.treatment.name: rung for rung in run.study.rungs}
    reference = run.study.rungs[0].treatment.levels if run.study.rungs else ()
    for result in run.results:
        treatment = result.trial.treatment
        added = tuple(level for level in treatment.levels if level not in reference)
        rungs.setdefault(treatment.name, Rung(treatment.name, "", treatment, added))
    return tuple(rungs.values())


def _find_rung(
    run: RunRecord,
    trials: Sequence[RungTrials],
    at: int,
    noise: Noise | None,
    found: DesignFinding | None,
    seen: Trials,
) -> RungFinding:
    here = trials[at]
    rung = here.rung
    before = _previous(run, trials, at)
    to_baseline = _compare(trials[0], here, noise) if at else None
    to_previous = _compare(trials[before], here, noise) if before is not None else None
    # Where the design knows better than the trials alone, there is one number and not two.
    if found is not None and at:
        to_baseline = to_baseline and (found.comparison(rung.name) or to_baseline)
        to_previous = to_previous and (found.step(rung.name) or to_previous)
    # With no number on either side the claim still speaks of the rung just before.
    reference = before if before is not None else max(at - 1, 0)
    moved = movements(trials[reference].evidence, here.evidence, rung.expects) if at else ()
    moved = seen.with_chances(moved, trials[reference].rung.name, rung.name)
    applied = here.applied
    earlier = _applied_before(run, trials, at)
    known = found.rate(rung.name) if found is not None else None
    tps = known or (combined_rate(here.rates) if here.rates else None)
    overridden = levels.overrides(run.study.rungs, at) if _is_ladder(run) else ()
    return RungFinding(
        rung=rung,
        outcome=_outcome(here, earlier) if at else here.outcome,
        reason=here.reason,
        trials=len(here.numbered) or len(here.results),
        tps=tps,
        to_baseline=to_baseline,
        to_previous=to_previous,
        previous=trials[before].rung.name if before is not None else "",
        total_claim=_total_claim(trials, at, to_baseline) if at else None,
        step_claim=_step_claim(trials, at, reference, to_previous) if at else None,
        counts=here.counts,
        latency=dict(here.latency),
        errors=here.errors,
        samples=here.samples,
        applied=applied,
        evidence=here.evidence,
        movements=moved,
        untested=levels.untested(rung.added, applied),
        overrides=overridden,
        inert=levels.inert(rung.added, applied, earlier) if at else (),
        sentence=_rung_sentence(here, trials[reference], moved, to_previous),
        drift=here.drift,
        warnings=here.warnings,
        arrivals=here.arrivals,
        driver=here.driver,
        steps=step_findings(here.numbered),
        recordings=here.recordings,
        expecto=expecto_finding(here.samples, here.recordings),
        middle_trial=here.middle_trial,
        replay=replay_finding(rung.treatment, here.numbered),
        plan_changes=plan_changes(
            trials[before].recordings.of(StatementPlan), here.recordings.of(StatementPlan)
        )
        if before is not None
        else (),
        mechanisms=_mechanisms(seen, trials, reference, at, (to_baseline, to_previous)),
        new_orders=new_orders(run.study.workload, tps, here.numbered),
        spent=spent_time(
            trials[reference].evidence if at else (),
            here.evidence,
            is_noise=to_previous is None
            or to_previous.verdict in (Verdict.INCONCLUSIVE, Verdict.EQUIVALENT),
        ),
    )


def _mechanisms(
    seen: Trials,
    trials: Sequence[RungTrials],
    reference: int,
    at: int,
    comparisons: tuple[Comparison | None, Comparison | None],
) -> MechanismsFinding:
    """Return what made the step; where that may be noise, and the whole way is not, what made that."""
    to_baseline, to_previous = comparisons
    is_noise = to_previous is not None and to_previous.verdict is Verdict.INCONCLUSIVE
    if is_noise and to_baseline is not None and to_baseline.verdict is not Verdict.INCONCLUSIVE:
        reference, to_previous = 0, to_baseline
    return find_mechanisms(seen, trials[reference].rung.name, trials[at].rung.name, to_previous)


def _is_ladder(run: RunRecord) -> bool:
    return run.study.design == LADDER


def _previous(run: RunRecord, trials: Sequence[RungTrials], at: int) -> int | None:
    """Return the place of the rung that this one's step starts from."""
    candidates = range(at - 1, -1, -1) if _is_ladder(run) else range(min(at, 1))
    return next((place for place in candidates if trials[place].rates), None)


def _applied_before(run: RunRecord, trials: Sequence[RungTrials], at: int) -> tuple[Applied, ...]:
    """Return what each factor read, where that was last read, on the rungs that this one builds on."""
    nearest: dict[tuple[str, str], Applied] = {}
    for before in trials[: at if _is_ladder(run) else min(at, 1)]:
        # A rung that could not be tested here read nothing back, and left all as it was.
        read = {one.level.factor: one for one in before.applied if one.effective is not None}
        nearest.update(read)
    return tuple(nearest.values())


def _outcome(here: RungTrials, earlier: Sequence[Applied]) -> Outcome:
    """Return how the rung ended: inert where it was measured, but changed nothing effective."""
    is_inert = levels.is_whole_rung_inert(here.rung.added, here.applied, earlier)
    return Outcome.INERT if here.outcome is Outcome.MEASURED and is_inert else here.outcome


def _compare(reference: RungTrials, here: RungTrials, noise: Noise | None) -> Comparison | None:
    """Compare two rungs; None where a side has no number, or neither committed anything."""
    sides = (reference.rates, here.rates)
    if not all(sides) or not any(trial.committed for side in sides for trial in side):
        return None
    return slowdown(*sides, noise=noise)


def _total_claim(
    trials: Sequence[RungTrials], at: int, comparison: Comparison | None
) -> ClaimFinding | None:
    here, baseline = trials[at], trials[0]
    # A level that the baseline lacks as well is no part of what is compared.
    common = set(baseline.rung.treatment.levels)
    changed = [level for level in here.rung.treatment.levels if level not in common]
    lacking = levels.untested([*changed, *here.rung.added], here.applied)
    why = _why_untestable(here, baseline, lacking)
    return answer_total(baseline.rung.claim, here.rung.claim, comparison, why_untestable=why)


def _step_claim(
    trials: Sequence[RungTrials], at: int, reference: int, comparison: Comparison | None
) -> ClaimFinding | None:
    here, before = trials[at], trials[reference]
    # Rungs between the two have no number of their own: their levels are part of this step.
    added = [level for one in trials[reference + 1 : at + 1] for level in one.rung.added]
    why = _why_untestable(here, before, levels.untested(added, here.applied))
    if not why and levels.is_whole_rung_inert(added, here.applied, before.applied):
        why = f"nothing effective changed from {before.rung.name} to {here.rung.name}"
    return answer_step(before.rung.claim, here.rung.claim, comparison, why_untestable=why)


def _why_untestable(here: RungTrials, reference: RungTrials, lacking: Sequence[str]) -> str:
    for side in (here, reference):
        if not side.rates:
            state = side.outcome.value if side.results else NOT_RUN
            why = f" ({side.reason})" if side.reason and side.results else ""
            return f"{side.rung.name}: {state}{why}"
    if not any(trial.committed for side in (here, reference) for trial in side.rates):
        return f"nothing committed on {reference.rung.name} nor on {here.rung.name}"
    return untestable_words(lacking)


def _rung_sentence(
    here: RungTrials, before: RungTrials, moved: Sequence[Movement], step: Comparison | None
) -> str:
    if not here.results:
        return "Not run yet."
    if not here.rates:
        reason = f": {here.reason}" if here.reason else ""
        return f"No number: {here.outcome.value}{reason}."
    if here is before:  # the baseline
        return ""
    if step is None:
        return "Nothing to compare with: no rung before it has a number, or nothing was committed."
    missing = {one.name: one.missing for one in here.evidence if one.value is None}
    factor = step.slowdown.center if math.isfinite(step.slowdown.center) else step.slowdown.low
    told = sentence(moved, here.rung.expects, missing=missing, slowdown=max(factor, 1.0))
    if levels.is_whole_rung_inert(here.rung.added, here.applied, before.applied):
        told = f"Inert here: nothing effective changed from {before.rung.name}. {told}"
    return _effect_words(step) + told


def _effect_words(step: Comparison) -> str:
    """Say in words that a rung slows nothing here; "" where it does."""
    if step.verdict is Verdict.SLOWER:
        return ""
    found = step.slowdown
    number = format_interval(found.low, found.center, found.high)
    if step.verdict is Verdict.FASTER:
        return f"No slowdown here, but a gain: {number}. "
    seen = detectable_words(step.detectable)
    return f"No further slowdown seen here: {number}; {seen}. "


def _with_shares(rungs: Sequence[RungFinding]) -> tuple[RungFinding, ...]:
    """Give each step its part of the log slowdown to the last rung that committed anything."""
    logs = {
        rung.rung.name: math.log(rung.tps.center)
        for rung in rungs
        if rung.tps is not None and rung.tps.center > 0
    }
    first, last = (
        rungs[0].rung.name,
        next((r for r in reversed(rungs) if r.rung.name in logs), None),
    )
    whole = last.to_baseline if last is not None else None
    is_significant = whole is not None and whole.verdict in (Verdict.SLOWER, Verdict.FASTER)
    if (
        last is None
        or not is_significant
        or first not in logs
        or logs[first] == logs[last.rung.name]
    ):
        return tuple(rungs)
    total = logs[first] - logs[last.rung.name]
    return tuple(
        replace(rung, step_share=(logs[rung.previous] - logs[rung.rung.name]) / total)
        if {rung.previous, rung.rung.name} <= logs.keys()
        else rung
        for rung in rungs
    )


def _with_operational_speed(
    rungs: Sequence[RungFinding], trials: Sequence[RungTrials]
) -> tuple[RungFinding, ...]:
    """Give each claim on operational speed the ratio of that speed itself, with an interval."""
    speeds = fit({one.rung.name: _speed_rates(one) for one in trials})
    baseline = rungs[0].rung.name
    told = []
    for rung in rungs:
        claim, found = rung.total_claim, speeds.slowdown(baseline, rung.rung.name)
        if claim is not None and found is not None and rung.rung.claim.of == OPERATIONAL_SPEED:
            rung = replace(rung, total_claim=replace(claim, in_kind=found.interval()))
        told.append(rung)
    return tuple(told)


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


def _noise_floor(baseline: RungTrials) -> float | None:
    rates = [trial.per_s for trial in baseline.rates if trial.committed]
    return max(rates) / min(rates) if len(rates) > 1 else None
