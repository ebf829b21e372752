"""One trial's story in ten lines: what it did, how it compares with other trials of its treatment, and what happened in it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from pgdrag.english import as_sentence, counted, listed, percent_words
from pgdrag.findings.decay.words import trial_rate_words
from pgdrag.findings.movement import moved
from pgdrag.model import Observation, Result
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import SESSION_TYPES, Recordings, WaitTime
from pgdrag.units import format_duration, format_ratio

_NAMED_WAITS = 4
_NAMED_MOVES = 4
_LEAST_SHARE = 0.01


def trial_story(results: Sequence[Result], number: int) -> tuple[str, ...]:
    """Return the lines on one trial of a run, which is among its results."""
    trial = next(result for result in results if result.trial.number == number)
    like = [
        other
        for other in results
        if other is not trial
        and other.measurement is not None
        and other.trial.treatment.identity == trial.trial.treatment.identity
        and other.trial.is_brief == trial.trial.is_brief
    ]
    lines = [_what_it_was(trial), as_sentence(trial.reason) if trial.reason else ""]
    if trial.measurement is not None:
        lines += [
            _counted(trial, trial.measurement),
            _among(trial.measurement, [x.measurement for x in like if x.measurement is not None]),
            _waited(trial.recordings),
            _happened(trial.recordings),
            *_unlike(trial, like),
        ]
    lines += [as_sentence(text) for text in (*trial.violations, *trial.warnings)]
    return tuple(text for text in lines if text)


def _what_it_was(result: Result) -> str:
    trial = result.trial
    brief = ", short" if trial.is_brief else ""
    return (
        f"Trial {trial.number}: {trial.treatment.name}, replicate {trial.replicate}, block {trial.block}"
        f"{brief}: {result.outcome.value}."
    )


def _counted(result: Result, measured: Measurement) -> str:
    total = measured.total
    failed = f", {total.failed:,} failed" if total.failed else ""
    return (
        f"It committed {trial_rate_words(result, measured)}: {total.committed:,} in "
        f"{format_duration(measured.elapsed_s)}{failed}."
    )


def _among(measured: Measurement, like: Sequence[Measurement]) -> str:
    """Say how it compares with the other trials of its treatment."""
    rates = [one.committed_per_s for one in like if one.committed_per_s > 0]
    if not rates or not measured.committed_per_s:
        return ""
    ratio = measured.committed_per_s / statistics.median(rates)
    others = counted(len(rates), "other trial")
    return f"That is {format_ratio(ratio)} the throughput of the {others} of this treatment (their median)."


def _waited(recordings: Recordings) -> str:
    waits: Counter[str] = Counter()
    for one in recordings.of(WaitTime):
        if one.backend_type in SESSION_TYPES:
            waits[one.wait or "on CPU"] += one.time_s  # type: ignore[assignment]
    whole = sum(waits.values())
    if not whole:
        return ""
    named = [
        f"{wait} {percent_words(time_s / whole)}"
        for wait, time_s in waits.most_common(_NAMED_WAITS)
        if time_s >= _LEAST_SHARE * whole
    ]
    return f"Sessions' time: {listed(named)}."


def _happened(recordings: Recordings) -> str:
    kinds: Counter[str] = Counter()
    for event in recordings.events:
        kinds[event.kind] += event.count
    named = [counted(count, kind) for kind, count in kinds.most_common()]
    return f"Logged: {listed(named)}." if named else ""


def _unlike(trial: Result, like: Sequence[Result]) -> list[str]:
    """Say in what it differs most from the other trials of its treatment."""
    found = []
    for one in trial.evidence:
        others = [
            (x, x.value)
            for other in like
            for x in other.evidence
            if _is_same(x, one) and x.value is not None
        ]
        if one.value is None or not others:
            continue
        middle = statistics.median(value for _, value in others)
        found.append(moved(Observation(one.name, one.label, middle, one.unit, one.resolution), one))
    moves = sorted((x for x in found if x.direction != "unmoved"), key=lambda x: -x.size)
    return [f"Differs from the others: {move.sentence}." for move in moves[:_NAMED_MOVES]]


def _is_same(one: Observation, other: Observation) -> bool:
    return one.name == other.name and one.unit == other.unit
