"""What did a run find? From its results to findings, treatment by treatment.

Works on any run, finished or not: a rung without trials says "not run yet", one without a number
says why, and the rungs around it are compared with each other. What more is asked of treatments is
in the registered analyses (`analysis`), which this module runs without knowing them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pgdrag.findings import levels
from pgdrag.findings.analysis import run_analyses, treatment_analyses
from pgdrag.findings.answer import answer_sentence, run_warnings
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Compared, Treatments, compared, with_further_treatments
from pgdrag.findings.design import find_of_design
from pgdrag.findings.values import (
    DesignFinding,
    Findings,
    TreatmentFinding,
    Verdict,
)
from pgdrag.model import Applied, Outcome, RunRecord


def find(run: RunRecord) -> Findings:
    """Return all that the results of a run say, whatever state the run and its trials are in.

    In a ladder each rung is compared with the baseline and with the nearest rung before it that
    has a number; in any other design both comparisons are with the baseline. Treatments that a
    design made itself stand behind the rungs, unless it has an analysis of its own.
    """
    found = find_of_design(run)
    if found is None or not found.names_all_treatments:
        run = with_further_treatments(run)
    treatments = compared(run, found)
    rungs = tuple(_core(treatments, at) for at in range(len(treatments.all)))
    if rungs and run.study.is_cumulative:
        rungs = _with_shares(rungs)
    rungs = tuple(
        _analysed(rung, one, treatments) for rung, one in zip(rungs, treatments.all, strict=True)
    )
    return Findings(
        run=run,
        rungs=rungs,
        answer=_answer(run, rungs, found),
        noise_floor=_noise_floor(treatments.trials[0]) if rungs else None,
        warnings=(
            *(found.warnings if found is not None else ()),
            *run_warnings(
                run,
                rungs,
                has_noise=treatments.noise is not None,
                needs_replicates=found is None or found.needs_replicates,
            ),
        ),
        found=found,
        of_run={
            kind.finds: one
            for kind in run_analyses().values()
            if (one := kind().find(treatments)) is not None
        },
    )


def _analysed(rung: TreatmentFinding, one: Compared, treatments: Treatments) -> TreatmentFinding:
    """Add what each registered analysis found of a rung, with its warnings."""
    found: dict[type, object] = {}
    warnings = list(rung.warnings)
    for kind in treatment_analyses().values():
        analysis = kind()
        what = analysis.find(one, treatments)
        if what is not None:
            found[kind.finds] = what
            warnings += analysis.warnings(what)
    return replace(rung, found=found, warnings=tuple(dict.fromkeys(warnings)))


def _answer(run: RunRecord, rungs: Sequence[TreatmentFinding], found: DesignFinding | None) -> str:
    if found is not None and not found.completes_answer:
        return found.answer
    sentence = answer_sentence(run.study, rungs)
    return sentence if found is None else f"{sentence} {found.answer}".strip()


def _core(treatments: Treatments, at: int) -> TreatmentFinding:
    """Return how fast a rung is, against its baseline and the rung before, and what its trials counted."""
    one = treatments.all[at]
    here = one.trials
    rung = here.rung
    return TreatmentFinding(
        rung=rung,
        outcome=_outcome(here, one.applied_before) if at else here.outcome,
        reason=here.reason,
        trials=len(here.numbered) or len(here.results),
        tps=one.tps,
        to_baseline=one.to_baseline,
        to_previous=one.to_previous,
        previous=one.previous,
        counts=here.counts,
        latency=dict(here.latency),
        errors=here.errors,
        samples=here.samples,
        applied=here.applied,
        evidence=here.evidence,
        warnings=here.warnings,
        arrivals=here.arrivals,
        recordings=here.recordings,
        middle_trial=here.middle_trial,
    )


def _outcome(here: RungTrials, earlier: Sequence[Applied]) -> Outcome:
    """Return how the rung ended: inert where it was measured, but changed nothing effective."""
    is_inert = levels.is_whole_rung_inert(here.rung.added, here.applied, earlier)
    return Outcome.INERT if here.outcome is Outcome.MEASURED and is_inert else here.outcome


def _with_shares(rungs: Sequence[TreatmentFinding]) -> tuple[TreatmentFinding, ...]:
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


def _noise_floor(baseline: RungTrials) -> float | None:
    rates = [trial.per_s for trial in baseline.rates if trial.committed]
    return max(rates) / min(rates) if len(rates) > 1 else None
