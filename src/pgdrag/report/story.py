"""A run's story in ten lines, or that of a rung or a trial: what happened, and what moved, each with its number."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from pgdrag.english import as_sentence, counted, listed, percent_words
from pgdrag.errors import UsageError
from pgdrag.findings.decay.analysis import Drift
from pgdrag.findings.decay.together import trial_rate_words
from pgdrag.findings.mechanisms.analysis import MechanismsFinding
from pgdrag.findings.movement import Movements, is_notable, moved
from pgdrag.findings.plausibility import implausible
from pgdrag.findings.values import Findings, TreatmentFinding, Verdict
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import Observation, Result
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import SESSION_TYPES, Recordings, WaitTime
from pgdrag.report.rung_words import (
    cause_sentence,
    change_sentence,
    mechanisms_sentence,
    plan_sentence,
    time_sentence,
)
from pgdrag.units import format_duration, format_ratio

LINES = 10
_STEPS = 4  # of a whole run, each in two lines
_NAMED_WAITS = 4
_NAMED_MOVES = 4
_LEAST_SHARE = 0.01

AGREED = 0.005  # a difference of repeats below this would read as 1.00×


def story(findings: Findings, name: str | None = None) -> tuple[str, ...]:
    """Return at most ten lines on a run, on one of its rungs, or on the trial of a number.

    Raises:
        UsageError: there is no rung of that name, and no trial of that number.
    """
    rungs = {rung.rung.name: rung for rung in findings.rungs}
    results = findings.run.results
    trial = next((one for one in results if str(one.trial.number) == name), None)
    if name is None:
        lines = _of_run(findings)
    elif name in rungs:
        lines = _of_rung(rungs[name])
    elif trial is not None:
        lines = _of_trial(trial, results)
    else:
        trials = f", and trials 1 to {results[-1].trial.number}" if results else ""
        raise UsageError(
            f'run {findings.run.run_id} has no {findings.noun} and no trial "{name}"',
            hint=f"It has {findings.noun}s {listed(list(rungs)) or 'none yet'}{trials}.",
        )
    return tuple(line for line in lines if line)[:LINES]


def _of_run(findings: Findings) -> Iterator[str]:
    yield findings.answer
    steps = [
        rung
        for rung in findings.rungs
        if rung.to_previous is not None and rung.to_previous.verdict is not Verdict.EQUIVALENT
    ]
    largest = sorted(steps, key=_size, reverse=True)[:_STEPS]
    for rung in steps:
        if rung in largest:
            yield _step_words(rung)
            texts = (cause_sentence(rung) or change_sentence(rung), plan_sentence(rung))
            yield " ".join(text for text in texts if text)
    yield from noise_words(findings)


def _size(rung: TreatmentFinding) -> float:
    assert rung.to_previous is not None, "only steps with a number are ranked"
    found = rung.to_previous.slowdown
    bound = found.low if math.isinf(found.center) else found.center
    return abs(math.log(bound)) if bound > 0 else math.inf


def _step_words(rung: TreatmentFinding) -> str:
    if rung.to_previous is None:
        return f"{rung.rung.heading}: {rung.state}."
    words = f"{rung.rung.heading}: {slowdown_words(rung.to_previous.slowdown)} than {rung.previous}"
    note = ", not significant" if rung.to_previous.verdict is Verdict.INCONCLUSIVE else ""
    share = (
        ""
        if rung.step_share is None
        else f", {percent_words(min(rung.step_share, 1.0))} of the whole"
    )
    return f"{words}{share}{note}."


def _of_rung(rung: TreatmentFinding) -> Iterator[str]:
    yield _step_words(rung)
    if rung.to_baseline is not None and rung.to_baseline != rung.to_previous:
        yield f"From the baseline on: {slowdown_words(rung.to_baseline.slowdown)}."
    yield mechanisms_sentence(rung.get(MechanismsFinding))
    yield time_sentence(rung)
    if rung.rung.mechanism:
        yield f"Claimed: {as_sentence(rung.rung.mechanism)}"
    change = change_sentence(rung)
    yield change
    yield plan_sentence(rung)
    # What moved beside what the rung's sentence names already.
    for move in (rung.get(Movements) or Movements()).moves:
        if is_notable(move) and move.sentence.lower() not in change.lower():
            yield as_sentence(move.sentence)
    if drift := rung.get(Drift):
        yield as_sentence(drift.sentence)
    yield from (as_sentence(text) for text in rung.warnings)


def _of_trial(result: Result, results: Sequence[Result]) -> Iterator[str]:
    trial, measured = result.trial, result.measurement
    brief = ", short" if trial.is_brief else ""
    yield (
        f"Trial {trial.number}: {trial.treatment.name}, replicate {trial.replicate}, block {trial.block}"
        f"{brief}: {result.outcome.value}."
    )
    if result.reason:
        yield as_sentence(result.reason)
    if measured is not None:
        total = measured.total
        failed = f", {total.failed:,} failed" if total.failed else ""
        yield (
            f"It committed {trial_rate_words(result, measured)}: {total.committed:,} in "
            f"{format_duration(measured.elapsed_s)}{failed}."
        )
        like = [
            other
            for other in results
            if other is not result
            and other.measurement is not None
            and other.trial.treatment.identity == trial.treatment.identity
            and other.trial.is_brief == trial.is_brief
        ]
        yield _among(measured, like)
        yield _waited(result.recordings)
        kinds: Counter[str] = Counter()
        for event in result.recordings.events:
            kinds[event.kind] += event.count
        if kinds:
            yield f"Logged: {listed([counted(n, kind) for kind, n in kinds.most_common()])}."
        yield from _unlike(result, like)
    yield from (as_sentence(text) for text in (*result.violations, *result.warnings))


def _among(measured: Measurement, like: Sequence[Result]) -> str:
    """Say how it compares with the other trials of its treatment."""
    rates = [x.measurement.committed_per_s for x in like if x.measurement is not None]
    rates = [rate for rate in rates if rate > 0]
    if not rates or not measured.committed_per_s:
        return ""
    ratio = measured.committed_per_s / statistics.median(rates)
    others = counted(len(rates), "other trial")
    return f"That is {format_ratio(ratio)} the throughput of the {others} of this treatment (their median)."


def _waited(recordings: Recordings) -> str:
    waits: dict[str, float] = {}
    for one in recordings.of(WaitTime):
        if one.backend_type in SESSION_TYPES:
            wait = one.wait or "on CPU"
            waits[wait] = waits.get(wait, 0.0) + one.time_s
    whole = sum(waits.values())
    if not whole:
        return ""
    ranked = sorted(waits.items(), key=lambda each: -each[1])[:_NAMED_WAITS]
    shares = [(wait, time_s / whole) for wait, time_s in ranked]
    named = [f"{wait} {percent_words(x)}" for wait, x in shares if x >= _LEAST_SHARE]
    return f"Sessions' time: {listed(named)}."


def _unlike(result: Result, like: Sequence[Result]) -> list[str]:
    """Say in what it differs most from the other trials of its treatment."""
    found = []
    wrong = implausible(result.evidence)
    for one in result.evidence:
        others = [
            x.value
            for other in like
            for x in other.evidence
            if (x.name, x.unit) == (one.name, one.unit) and x.value is not None
        ]
        if one.value is not None and others and one.name not in wrong:
            middle = statistics.median(others)
            usual = Observation(one.name, one.label, middle, one.unit, one.resolution)
            found.append(moved(usual, one))
    moves = sorted((x for x in found if x.direction != "unmoved"), key=lambda x: -x.size)
    return [f"Differs from the others: {move.sentence}." for move in moves[:_NAMED_MOVES]]


def noise_words(findings: Findings) -> tuple[str, ...]:
    """Say how far two trials of the same treatment lay apart, unless the design has its own words for it."""
    if findings.found is not None and not findings.found.completes_answer:
        return ()
    if findings.noise_floor is None:
        return ("The baseline ran once: the noise between trials is unknown.",)
    if findings.noise_floor < 1 + AGREED:
        return (f"Noise: repeats of the baseline agree within {AGREED * 100:.1f} %.",)
    return (
        f"Noise: repeats of the baseline differ by up to {format_ratio(findings.noise_floor)}.",
    )
