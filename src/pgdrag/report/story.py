"""A run's story in ten lines, or a rung's: what it found, which steps did it, and what moved, each with its number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.english import as_sentence, listed, percent_words
from pgdrag.errors import UsageError
from pgdrag.findings.decay.analysis import Drift
from pgdrag.findings.mechanisms.findings import MechanismsFinding
from pgdrag.findings.movement import Movement, Movements, is_notable
from pgdrag.findings.values import Findings, TreatmentFinding, Verdict
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.rung_words import (
    cause_sentence,
    change_sentence,
    mechanisms_sentence,
    plan_sentence,
    time_sentence,
)
from pgdrag.report.sections.answer import noise_words
from pgdrag.report.trial_story import trial_story

LINES = 10
_STEPS = 4  # of a whole run, each in two lines


def story(findings: Findings, name: str | None = None) -> tuple[str, ...]:
    """Return at most ten lines on a run, on one of its rungs, or on the trial of a number.

    Raises:
        UsageError: there is no rung of that name, and no trial of that number.
    """
    if name is None:
        return _of_run(findings)[:LINES]
    rungs = {rung.rung.name: rung for rung in findings.rungs}
    if name in rungs:
        return _of_rung(rungs[name])[:LINES]
    results = findings.run.results
    if name in (str(result.trial.number) for result in results):
        return trial_story(results, int(name))[:LINES]
    trials = f", and trials 1 to {results[-1].trial.number}" if results else ""
    raise UsageError(
        f'run {findings.run.run_id} has no rung and no trial "{name}"',
        hint=f"It has rungs {listed(list(rungs)) or 'none yet'}{trials}.",
    )


def _of_run(findings: Findings) -> tuple[str, ...]:
    lines = [findings.answer]
    for rung in _largest_steps(findings.rungs):
        lines.append(_step_words(rung))
        texts = (cause_sentence(rung) or change_sentence(rung), plan_sentence(rung))
        if cause := " ".join(text for text in texts if text):
            lines.append(cause)
    return (*lines, *noise_words(findings))


def _of_rung(rung: TreatmentFinding) -> tuple[str, ...]:
    lines = [
        _step_words(rung)
        if rung.to_previous is not None
        else f"{rung.rung.heading}: {rung.state}.",
        _baseline_words(rung),
        mechanisms_sentence(rung.get(MechanismsFinding)),
        time_sentence(rung),
        f"Claimed: {as_sentence(rung.rung.mechanism)}" if rung.rung.mechanism else "",
        change_sentence(rung),
        plan_sentence(rung),
        *(as_sentence(move.sentence) for move in _unsaid(rung)),
        as_sentence(drift.sentence) if (drift := rung.get(Drift)) else "",
        *(as_sentence(text) for text in rung.warnings),
    ]
    return tuple(text for text in lines if text)


def _largest_steps(rungs: Sequence[TreatmentFinding]) -> list[TreatmentFinding]:
    """Return the rungs that changed most against the one before, in their order."""
    steps = [
        rung
        for rung in rungs
        if rung.to_previous is not None and rung.to_previous.verdict is not Verdict.EQUIVALENT
    ]
    ranked = sorted(steps, key=_size, reverse=True)[:_STEPS]
    return [rung for rung in steps if rung in ranked]


def _size(rung: TreatmentFinding) -> float:
    assert rung.to_previous is not None, "only steps with a number are ranked"
    found = rung.to_previous.slowdown
    bound = found.low if math.isinf(found.center) else found.center
    return abs(math.log(bound)) if bound > 0 else math.inf


def _step_words(rung: TreatmentFinding) -> str:
    assert rung.to_previous is not None, "a step has two ends"
    words = f"{rung.rung.heading}: {slowdown_words(rung.to_previous.slowdown)} than {rung.previous}"
    note = ", not significant" if rung.to_previous.verdict is Verdict.INCONCLUSIVE else ""
    share = "" if rung.step_share is None else f", {percent_words(rung.step_share)} of the whole"
    return f"{words}{share}{note}."


def _baseline_words(rung: TreatmentFinding) -> str:
    if rung.to_baseline is None or rung.to_baseline == rung.to_previous:
        return ""
    return f"From the baseline on: {slowdown_words(rung.to_baseline.slowdown)}."


def _unsaid(rung: TreatmentFinding) -> list[Movement]:
    """Return what moved beside what the rung's sentence names already."""
    said = change_sentence(rung).lower()
    moves = (rung.get(Movements) or Movements()).moves
    return [one for one in moves if is_notable(one) and one.sentence.lower() not in said]
