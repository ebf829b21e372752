"""What is the answer to the study's question, in a sentence or two, and what are the warnings?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import capital, counted, listed, percent_words
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.decay.findings import DecayFinding, way_words
from pgdrag.findings.driver_limits import DriverFinding
from pgdrag.findings.values import Comparison, Interval, TreatmentFinding, Verdict
from pgdrag.findings.wording import detectable_words, published_words, slowdown_words
from pgdrag.model import Outcome, RunRecord, Study
from pgdrag.units import format_duration, format_rate


def answer_sentence(study: Study, rungs: Sequence[TreatmentFinding]) -> str:
    """Return the study's question answered in one to three sentences."""
    if not rungs:
        return "No answer: the study has no treatment."
    baseline, *steps = rungs
    if baseline.tps is None:
        why = f" ({baseline.reason})" if baseline.reason not in ("", baseline.state) else ""
        return f"No answer: the baseline {baseline.rung.name} has no number: {baseline.state}{why}."
    compared = [(step.to_baseline, step) for step in steps if step.to_baseline is not None]
    if not compared:
        speed = _way(baseline) or format_rate(baseline.tps.center)
        return f"No answer yet: only the baseline has a number ({speed})." + _gaps(steps)
    if study.is_cumulative:
        return _ladder_answer(study, steps, *compared[-1])
    return _variants_answer(baseline, compared) + _gaps(steps)


def run_warnings(
    run: RunRecord, rungs: Sequence[TreatmentFinding], *, wanted: tuple[int, int] | None = None
) -> tuple[str, ...]:
    """Return the warnings about the run as a whole, each with the remedy still untried.

    Args:
        wanted: how many trials its design asks for at least and at most, where its time did not allow them.
    """
    warnings = []
    if run.status != "done":
        planned = "" if run.planned_trials is None else f" of {run.planned_trials}"
        state = "still running" if run.status == "running" else run.status
        warnings.append(
            f"the run is {state}: {len(run.results)}{planned} trials are done{_under_way(run)}; "
            f"{run.study.noun}s without a number may still get one"
        )
    elif run.is_ended_by_budget and run.study.budget_s is not None:
        fewest, most = wanted or (0, 0)
        of_many = f" of {fewest}" if fewest else ""
        of_many += f" to {most}" if most > fewest else ""
        warnings.append(
            f"the time budget of {format_duration(run.study.budget_s)} ended the run after "
            f"{len(run.results)}{of_many} trials; continue with "
            f'"pgdrag resume {run.run_id} --budget TIME"'
        )
    if run.study.is_cumulative and len(rungs) > 2:
        warnings.append("the share of a step depends on the order of the rungs")
    if len(run.study.load.steps) > 1:
        warnings.append(
            f"the load has {len(run.study.load.steps)} steps: the throughput of each {run.study.noun} is the mean over all of "
            "them, and its interval leaves out how much the steps differ; compare step by step"
        )
    suspect = [
        one.rung.name for one in rungs if (driver := one.get(DriverFinding)) and driver.is_suspect
    ]
    if suspect:
        limited = listed(suspect) if len(rungs) > 1 else "throughput"
        warnings.append(
            f"the load driver or the network may have limited {limited}; a further warning says which, "
            "and what helps"
        )
    return tuple(warnings)


def _under_way(run: RunRecord) -> str:
    at = run.under_way
    if at is None:
        return ""
    length = format_duration(run.study.load.measure_s)
    return f" and {at.words}, which measures for {length}, is in progress"


def _ladder_answer(
    study: Study, steps: Sequence[TreatmentFinding], comparison: Comparison, last: TreatmentFinding
) -> str:
    if len(steps) == 1:
        subject = f"with {last.rung.name}"
    elif last is steps[-1] and all(step.tps is not None for step in steps):
        subject = f"with all {len(steps)} steps"
    else:
        subject = f"with the steps up to {last.rung.name}"
    text = _no_change(comparison, subject)
    if comparison.is_significant:
        text = capital(f"{_headline(comparison.slowdown)} {subject}.")
    # Where the last rung committed nothing, how slow is the last one that did?
    committed = [step for step in steps if step.tps is not None and step.tps.center]
    if committed and last not in committed and (before := committed[-1].to_baseline) is not None:
        text += (
            f" {last.rung.name} committed nothing; up to {committed[-1].rung.name} it is "
            f"{slowdown_words(before.slowdown)}."
        )
    published = _published(study, last)
    text += _largest_share(steps) + (f" Published: {published}." if published else "")
    return text + _gaps(steps)


def _published(study: Study, last: TreatmentFinding) -> str:
    """Return what was published of all rungs together: the study's headline, or the ratio of the last rung."""
    if study.headline is not None:
        return study.headline.text
    claims = last.get(ClaimsFinding)
    total = None if claims is None or claims.total is None else claims.total.published
    return "" if total is None else published_words(total)


def _headline(found: Interval) -> str:
    """Return `4,620× slower (95 % CI 2,380× to 10,400×)`."""
    return slowdown_words(found).replace(" (", f" ({found.confidence * 100:.3g} % CI ", 1)


def _no_change(comparison: Comparison, subject: str) -> str:
    size = slowdown_words(comparison.slowdown)
    if comparison.verdict is Verdict.EQUIVALENT:
        return f"No change {subject}: {size}."
    detectable = capital(detectable_words(comparison.detectable))
    return f"No significant change {subject}: {size}. {detectable}."


def _largest_share(steps: Sequence[TreatmentFinding]) -> str:
    # What changed nothing effective carries nothing: its share is noise.
    shares = [
        (step.step_share, step)
        for step in steps
        if step.step_share is not None and step.outcome is not Outcome.INERT
    ]
    whole = shares[-1][1].to_baseline if len(shares) > 1 else None
    if whole is None or whole.verdict is not Verdict.SLOWER:
        return ""
    share, step = max(shares, key=lambda pair: pair[0])
    title = f" ({step.rung.title})" if step.rung.title else ""
    return f" Step {step.rung.name}{title} accounts for {percent_words(share)} of it."


def _gaps(steps: Sequence[TreatmentFinding]) -> str:
    """Say which rungs have no number, those of one state together."""
    by_state: dict[str, list[str]] = {}
    for step in steps:
        if step.tps is None:
            by_state.setdefault(step.state, []).append(step.rung.name)
    return "".join(f" No number for {listed(names)}: {state}." for state, names in by_state.items())


def _variants_answer(
    baseline: TreatmentFinding, compared: Sequence[tuple[Comparison, TreatmentFinding]]
) -> str:
    """Answer for rungs that each stand on their own: the slowest and the fastest of them."""
    ranked = sorted(
        ((found.slowdown, step) for found, step in compared if found.is_significant),
        key=lambda pair: -pair[0].center,
    )
    if not ranked and len(compared) == 1:
        (only, step), *_ = compared
        return _no_change(only, f"with {step.rung.name}")
    if not ranked:
        return f"None of {len(compared)} variants differs significantly from {baseline.rung.name}."
    named = [ranked[0], ranked[-1]] if len(ranked) > 1 else ranked
    parts = [
        f"{step.rung.name} is {_headline(found)} than {baseline.rung.name}" for found, step in named
    ]
    rest = len(compared) - len(ranked)
    differ = "does not differ" if rest == 1 else "do not differ"
    others = f" {counted(rest, 'other')} {differ} significantly." if rest else ""
    # What is compared by means may have none.
    courses = [
        f"{rung.rung.name} goes from {way} in {format_duration(round(decay.end_s - decay.begin_s))}"
        for rung in (baseline, *(step for _, step in named))
        if (decay := rung.get(DecayFinding)) and (way := _way(rung))
    ]
    means = f" These are means over whole windows, but {listed(courses)}." if courses else ""
    return f"{'; '.join(parts)}.{others}{means}"


def _way(rung: TreatmentFinding) -> str:
    """Return the rates at both ends of a trend; "" without one."""
    decay = rung.get(DecayFinding)
    return way_words(decay) if decay is not None and decay.has_trend else ""
