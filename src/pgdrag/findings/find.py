"""What did a run find? From its results to findings, treatment by treatment.

Works on any run, finished or not: a rung without trials says "not run yet" or "not run", one without
a number says why, and the rungs around it are compared with each other. What more is asked of treatments is
in the registered analyses (`analysis`), which this module runs without knowing them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args, get_type_hints

from pgdrag.findings import levels
from pgdrag.findings.analysis import run_analyses, treatment_analyses
from pgdrag.findings.answer import answer_sentence, run_warnings
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Compared, Treatments, compared, with_further_treatments
from pgdrag.findings.values import DesignFinding, Findings, TreatmentFinding
from pgdrag.model import Forecast, Outcome, Result, Rung, RunRecord, Treatment
from pgdrag.model.design import Design, all_designs, make_design


def find(run: RunRecord) -> Findings:
    """Return all findings of a run, in whatever state the run and its trials are.

    In a ladder each rung is compared with the baseline and with the nearest rung before it that
    has a number; in any other design both comparisons are with the baseline. Treatments that a
    design made itself stand behind the rungs, unless it has an analysis of its own.
    """
    design, done = _replay(run)
    # Before it looks at the results of a block that is not complete.
    more = design.trials_left() if design and run.is_ended_by_budget else None
    found = None if design is None else design.find(run)
    if found is None or not found.names_all_treatments:
        run = with_further_treatments(run)
    treatments = compared(run, found)
    rungs = [_finding(one, treatments) for one in treatments.all]
    if run.study.is_cumulative:
        rungs = _with_shares(rungs)
    answers = [] if found is None else [found.answer]
    if found is None or found.completes_answer:
        answers.insert(0, answer_sentence(run.study, rungs))
    warnings = run_warnings(
        run, rungs, wanted=None if more is None else (done + more.fewest, done + more.greatest)
    )
    of_run: dict[type, object] = {}
    for analysis in run_analyses().values():
        what = analysis.find(treatments)
        if what is not None:
            of_run[analysis.finds] = what
            answers.append(analysis.words(what))
    return Findings(
        run=run,
        rungs=tuple(rungs),
        answer=" ".join(text for text in answers if text),
        noise_floor=_noise_floor(treatments.trials[0]) if rungs else None,
        warnings=(*(found.warnings if found is not None else ()), *warnings),
        found=found,
        of_run=of_run,
    )


def design_finding(run: RunRecord) -> DesignFinding | None:
    """Return what only the run's design can say of its results; None without an analysis of its own."""
    design, _ = _replay(run)
    return None if design is None else design.find(run)


def finding_class(design: str) -> type[DesignFinding]:
    """Return what the analysis of a design finds; of one that says no more than its rungs, what all of them share."""
    kind = all_designs().get(design, Design)
    hint = get_type_hints(kind.find)["return"]
    # Of a design whose treatments may say it all, `find` returns a finding or None.
    kinds: list[type[DesignFinding]] = [x for x in get_args(hint) or [hint] if x is not type(None)]
    (found,) = kinds
    return found


def trials_left(run: RunRecord) -> Forecast:
    """Return how many trials of a run are still to come, as its design foretells them."""
    design, done = _replay(run)
    if design is None:
        return Forecast(0, 0)
    left = design.trials_left()
    for result in sorted(run.results, key=lambda result: result.trial.number)[done:]:
        left = left.without(is_brief=result.trial.is_brief)
    return left


def _replay(run: RunRecord) -> tuple[Design | None, int]:
    """Return the run's design after every block that is complete, and how many results it has received.

    A block still under way is left out, and so is one that this design did not ask for.

    Returns:
        None where the design is unknown.
    """
    study, done = run.study, 0
    if study.design not in all_designs():
        return None, 0
    rungs = study.rungs or (Rung("reference", "", Treatment("reference")),)
    design = make_design(replace(study, rungs=rungs))
    blocks: dict[int, list[Result]] = {}
    for result in sorted(run.results, key=lambda result: result.trial.number):
        blocks.setdefault((result.trial.block - 1) // study.replicates, []).append(result)
    for _, results in sorted(blocks.items()):
        block = design.ask()
        times = block.times(study.replicates)
        asked = Counter(x.identity for x in block.treatments for _ in range(times))
        if Counter(x.trial.treatment.identity for x in results) != asked:
            break
        design.tell(results)
        done += len(results)
    return design, done


def _finding(one: Compared, treatments: Treatments) -> TreatmentFinding:
    """Return how fast a rung is, what its trials counted, and what each registered analysis found of it."""
    here, window = one.trials, one.trials.window
    outcome = here.outcome
    if (
        outcome is Outcome.MEASURED
        and not one.is_baseline
        and levels.is_whole_rung_inert(here.rung.added, here.applied, one.applied_before)
    ):
        outcome = Outcome.INERT
    found: dict[type, object] = {}
    warnings = list(here.warnings)
    for analysis in treatment_analyses().values():
        what = analysis.find(one, treatments)
        if what is not None:
            found[analysis.finds] = what
            warnings += analysis.warnings(what)
    return TreatmentFinding(
        rung=here.rung,
        outcome=outcome,
        reason=here.reason,
        trials=len(here.numbered) or len(here.results),
        tps=one.tps,
        to_baseline=one.to_baseline,
        to_previous=one.to_previous,
        previous=one.previous,
        counts=here.counts,
        latency=dict(window.latency) if window else {},
        errors=here.errors,
        samples=here.samples,
        applied=here.applied,
        evidence=here.evidence,
        warnings=tuple(dict.fromkeys(warnings)),
        arrivals=window.arrivals if window else None,
        recordings=here.recordings,
        middle_trial=here.middle.trial.number if window and here.middle else None,
        found=found,
    )


def _with_shares(rungs: Sequence[TreatmentFinding]) -> list[TreatmentFinding]:
    """Give each step its part of the log slowdown to the last rung that committed anything."""
    # By comparisons, not rates: those of two rungs may be from other blocks.
    logs = {
        rung.rung.name: math.log(rung.to_previous.slowdown.center)
        for rung in rungs
        if rung.to_previous is not None and 0 < rung.to_previous.slowdown.center < math.inf
    }
    last = next((rung for rung in reversed(rungs) if rung.rung.name in logs), None)
    total = math.fsum(logs.values())
    if last is None or last.to_baseline is None or not last.to_baseline.is_significant or not total:
        return list(rungs)
    return [
        replace(rung, step_share=logs[rung.rung.name] / total) if rung.rung.name in logs else rung
        for rung in rungs
    ]


def _noise_floor(baseline: RungTrials) -> float | None:
    rates = [trial.per_s for trial in baseline.rates if trial.committed]
    return max(rates) / min(rates) if len(rates) > 1 else None
