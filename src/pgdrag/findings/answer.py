"""What is the answer to the study's question, in a sentence or two, and what is doubtful about it?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import counted, listed, percent_words
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.decay.words import way_words
from pgdrag.findings.driver_limits import DriverFinding
from pgdrag.findings.values import LADDER, Comparison, TreatmentFinding, Verdict
from pgdrag.findings.wording import detectable_words, published_words, slowdown_words
from pgdrag.model import Outcome, RunRecord, Study
from pgdrag.units import format_duration, format_interval, format_rate


def answer_sentence(study: Study, rungs: Sequence[TreatmentFinding]) -> str:
    """Return the study's question answered in one to three sentences."""
    if not rungs:
        return "No answer: the study has no rung."
    baseline, *steps = rungs
    if baseline.tps is None:
        return f"No answer: the baseline {_without_number(baseline)}."
    compared = [step for step in steps if step.to_baseline is not None]
    if not compared:
        speed = _speed(baseline, baseline.tps.center)
        return f"No answer yet: only the baseline has a number ({speed})." + _gaps(steps)
    if study.design == LADDER:
        return _ladder_answer(steps, compared[-1])
    return _variants_answer(baseline, compared) + _gaps(steps)


def run_warnings(
    run: RunRecord, rungs: Sequence[TreatmentFinding], *, has_noise: bool
) -> tuple[str, ...]:
    """Return the doubts about the run as a whole, each with the remedy still untried."""
    doubts = []
    if run.status != "done":
        planned = "" if run.planned_trials is None else f" of {run.planned_trials}"
        state = "still running" if run.status == "running" else run.status
        doubts.append(
            f"the run is {state}: {len(run.results)}{planned} trials are in; "
            "rungs without a number may still get one"
        )
    elif run.study.budget_s is not None and (run.planned_trials or 0) > len(run.results):
        doubts.append(
            f"the time given, {format_duration(run.study.budget_s)}, was used up after {counted(len(run.results), 'trial')}; "
            f'go on with "pgdrag resume {run.run_id} --budget TIME"'
        )
    single = [rung.rung.name for rung in rungs if rung.tps is not None and rung.trials == 1]
    if single:
        noise = (
            "what differs from trial to trial is taken from the repeats of the baseline"
            if has_noise
            else "what differs from trial to trial is in no interval"
        )
        doubts.append(f"one trial each of {listed(single)}: {noise}; run 3 or more replicates")
    if run.study.design == LADDER and len(rungs) > 2:
        doubts.append(
            "the step's share depends on the order of the rungs; another order gives other shares "
            "of the same total"
        )
    if len(run.study.load.steps) > 1:
        doubts.append(
            f"the load changes in {len(run.study.load.steps)} steps: the throughput of a rung is the "
            "mean over all of them, each with its length; its interval holds how unsteady it was within "
            "the steps, and not what they differ by: compare step by step"
        )
    in_doubt = [
        one.rung.name for one in rungs if (driver := one.get(DriverFinding)) and driver.is_suspect
    ]
    if in_doubt:
        doubts.append(
            f"the load driver may have shaped the numbers of {listed(in_doubt)}: see what it used; "
            "run on a quieter machine, or with more driver threads"
        )
    return tuple(doubts)


def _ladder_answer(steps: Sequence[TreatmentFinding], last: TreatmentFinding) -> str:
    comparison = last.to_baseline
    assert comparison is not None, last.rung.name
    is_whole = last is steps[-1] and all(step.tps is not None for step in steps)
    if len(steps) == 1:
        subject, verb = f"Rung {last.rung.name}", "makes"
    elif is_whole:
        subject, verb = f"All {len(steps)} rungs together", "make"
    else:
        subject, verb = f"The rungs up to {last.rung.name} together", "make"
    published = _published(last)
    if comparison.verdict in (Verdict.SLOWER, Verdict.FASTER):
        text = f"{subject} {verb} this server {slowdown_words(comparison.slowdown)}{published}."
    else:
        does = "do" if verb == "make" else "does"
        text = f"{subject} {does} {_no_change_words(comparison)}{published}."
    return text + _committed_words(steps, last) + _largest_share(steps) + _gaps(steps)


def _committed_words(steps: Sequence[TreatmentFinding], last: TreatmentFinding) -> str:
    """Where the last rung committed nothing, say how slow the last one is that did."""
    assert last.tps is not None, last.rung.name
    committed = [step for step in steps if step.tps is not None and step.tps.center]
    if last.tps.center or not committed or committed[-1].to_baseline is None:
        return ""
    number = slowdown_words(committed[-1].to_baseline.slowdown)
    return (
        f" Nothing committed on {last.rung.name}; up to {committed[-1].rung.name} it is {number}"
        f"{_published(committed[-1])}."
    )


def _no_change_words(comparison: Comparison) -> str:
    found = comparison.slowdown
    number = format_interval(found.low, found.center, found.high)
    if comparison.verdict is Verdict.EQUIVALENT:
        return f"not change throughput: slowdown {number}"
    seen = detectable_words(comparison.detectable)
    return f"not slow this server by more than noise: slowdown {number}; {seen}"


def _published(rung: TreatmentFinding) -> str:
    claim = rung.total_claim
    if claim is None or claim.published is None:
        return ""
    return f"; published: {published_words(claim.published)}"


def _largest_share(steps: Sequence[TreatmentFinding]) -> str:
    # What changed nothing effective carries nothing: its share is noise.
    shares = [
        (step.step_share, step)
        for step in steps
        if step.step_share is not None and step.outcome is not Outcome.INERT
    ]
    if len(shares) < 2:
        return ""
    whole = shares[-1][1].to_baseline
    if whole is None or whole.verdict is not Verdict.SLOWER:
        return ""
    share, step = max(shares, key=lambda pair: pair[0])
    title = f" ({step.rung.title})" if step.rung.title else ""
    return f" Rung {step.rung.name}{title} carries {percent_words(share)} of that log slowdown."


def _gaps(steps: Sequence[TreatmentFinding]) -> str:
    """Say which rungs have no number, those of one state together."""
    by_state: dict[str, list[str]] = {}
    for step in steps:
        if step.tps is None:
            by_state.setdefault(step.state, []).append(step.rung.name)
    return "".join(f" No number for {listed(names)}: {state}." for state, names in by_state.items())


def _without_number(rung: TreatmentFinding) -> str:
    reason = f" ({rung.reason})" if rung.reason and rung.reason != rung.state else ""
    return f"{rung.rung.name} has no number: {rung.state}{reason}"


def _variants_answer(baseline: TreatmentFinding, compared: Sequence[TreatmentFinding]) -> str:
    """Answer for rungs that each stand on their own: the slowest and the fastest of them."""
    against = f"than {baseline.rung.name}"
    told = [step for step in compared if _is_told(step)]
    if not told:
        if len(compared) == 1 and compared[0].to_baseline is not None:
            only = compared[0].to_baseline
            return f"{compared[0].rung.name} does {_no_change_words(only)}."
        return f"None of {len(compared)} variants could be told from {baseline.rung.name}."
    ranked = sorted(told, key=_center)
    parts = [
        f"{step.rung.name} is {slowdown_words(step.to_baseline.slowdown)} {against}"
        for step in ([ranked[-1]] if len(ranked) == 1 else [ranked[-1], ranked[0]])
        if step.to_baseline is not None
    ]
    rest = len(compared) - len(told)
    others = f" {counted(rest, 'other')} could not be told from it." if rest else ""
    named = [baseline, *([ranked[-1]] if len(ranked) == 1 else [ranked[-1], ranked[0]])]
    return f"{'; '.join(parts)}.{others}{_courses(named)}"


def _courses(rungs: Sequence[TreatmentFinding]) -> str:
    """Say of the rungs that an answer compares by means which of them have no mean."""
    told = [
        f"{rung.rung.name} goes from {way_words(decay)} in {format_duration(round(decay.end_s - decay.begin_s))}"
        for rung in rungs
        if (decay := rung.get(DecayFinding)) and decay.has_trend
    ]
    return f" These are means over whole windows: {listed(told)}." if told else ""


def _speed(rung: TreatmentFinding, mean_per_s: float) -> str:
    decay = rung.get(DecayFinding)
    return way_words(decay) if decay is not None and decay.has_trend else format_rate(mean_per_s)


def _is_told(step: TreatmentFinding) -> bool:
    return step.to_baseline is not None and step.to_baseline.verdict in (
        Verdict.SLOWER,
        Verdict.FASTER,
    )


def _center(step: TreatmentFinding) -> float:
    assert step.to_baseline is not None, step.rung.name
    return step.to_baseline.slowdown.center
