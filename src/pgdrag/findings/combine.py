"""What do the trials of one rung say together?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pgdrag.english import counted, percent_words
from pgdrag.findings.holds.levels import held_span
from pgdrag.findings.values import NOT_RUN_YET
from pgdrag.model import Applied, Observation, Outcome, Result, Rung
from pgdrag.model.measurement import Counts, Measurement, Sample
from pgdrag.model.recordings import Recordings
from pgdrag.stats.rates import TrialRate, trend
from pgdrag.units import format_duration

FAILED_MATTERS = 0.01  # share of failed transactions above which a rate needs a word
LOST_MATTERS = 0.01  # share of arrivals dropped or skipped above which it does
_PART_MIN_S = 1.0  # what begins or ends closer to the window's is no part of its own


@dataclass(frozen=True)
class RungTrials:
    """The results of one rung, in the order run.

    Attributes:
        has_trend: throughput within their windows has one.
        missing: why there are none, where there are none.
    """

    rung: Rung
    results: tuple[Result, ...]
    has_trend: bool = False
    missing: str = NOT_RUN_YET

    @cached_property
    def numbered(self) -> tuple[tuple[Result, Measurement], ...]:
        """The trials that say something of throughput, nothing committed included."""
        found = ((result, measured_if_numbered(result)) for result in self.results)
        return tuple((result, measured) for result, measured in found if measured is not None)

    @cached_property
    def rates(self) -> tuple[TrialRate, ...]:
        """Throughput of the numbered trials."""
        return tuple(
            replace(rate_of(result, measured), has_trend=self.has_trend)
            for result, measured in self.numbered
        )

    @property
    def outcome(self) -> Outcome:
        """Measured where one trial was, else stalled where one did, else how the last one ended."""
        outcomes = {result.outcome for result, _ in self.numbered}
        if outcomes:
            return Outcome.MEASURED if Outcome.MEASURED in outcomes else Outcome.STALLED
        last = self.results[-1].outcome if self.results else Outcome.UNTESTABLE
        # Measured, but without a measurement to show for it.
        return Outcome.INVALID if last is Outcome.MEASURED else last

    @property
    def reason(self) -> str:
        """Why the rung has no number, or committed nothing; "" where it was simply measured."""
        if not self.results:
            return self.missing
        outcome = self.outcome
        if outcome is Outcome.MEASURED:
            return ""
        reasons = [result.reason for result in self.results if result.outcome is outcome]
        return next((reason for reason in reversed(reasons) if reason), "")

    @cached_property
    def middle(self) -> Result | None:
        """The trial of median throughput; without a number, the last that read levels back."""
        if self.numbered:
            ranked = sorted(self.numbered, key=lambda pair: rate_of(*pair).per_s)
            return ranked[(len(ranked) - 1) // 2][0]
        return next((result for result in reversed(self.results) if result.applied), None)

    @property
    def applied(self) -> tuple[Applied, ...]:
        """What became of each level, in the middle trial."""
        return self.middle.applied if self.middle is not None else ()

    @property
    def window(self) -> Measurement | None:
        """What was measured in the middle trial; None where none has a number."""
        return self.middle.measurement if self.numbered and self.middle is not None else None

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The window second by second, in the middle trial."""
        return self.window.samples if self.window is not None else ()

    @property
    def recordings(self) -> Recordings:
        """What collectors brought beside numbers, in the middle trial."""
        return self.middle.recordings if self.numbered and self.middle is not None else Recordings()

    @property
    def counts(self) -> Counts | None:
        """How all transactions ended, over the numbered trials."""
        if not self.numbered:
            return None
        return sum((measured.total for _, measured in self.numbered), Counts())

    @property
    def errors(self) -> tuple[tuple[str, str, str, int], ...]:
        """First message and count of each transaction type and SQLSTATE, most frequent first."""
        merged: dict[tuple[str, str], tuple[str, int]] = {}
        for _, measured in self.numbered:
            for kind, sqlstate, message, count in measured.errors:
                first, sum_so_far = merged.get((kind, sqlstate), (message, 0))
                merged[kind, sqlstate] = (first, sum_so_far + count)
        rows = [(kind, state, text, count) for (kind, state), (text, count) in merged.items()]
        return tuple(sorted(rows, key=lambda row: (-row[3], row[0], row[1])))

    @cached_property
    def evidence(self) -> tuple[Observation, ...]:
        """Each observation with the median of its values over the numbered trials."""
        by_name: dict[str, list[Observation]] = {}
        for result, _ in self.numbered:
            for observation in result.evidence:
                by_name.setdefault(observation.name, []).append(observation)
        return tuple(_median(observations) for observations in by_name.values())

    @property
    def drift(self) -> str:
        """A sentence where throughput had a trend that matters within a window, else ""."""
        # Under a load that changes by design throughput has every reason to change.
        steady = [measured for result, measured in self.numbered if not result.trial.load.steps]
        slopes = [(trend(measured.samples), measured) for measured in steady]
        drifting = [(slope, m) for slope, m in slopes if slope is not None and slope.matters]
        if not drifting:
            return ""
        steepest, measured = max(drifting, key=lambda pair: abs(pair[0].change))
        verb = "fell" if steepest.change < 0 else "rose"
        which = "" if len(slopes) == 1 else f" in {len(drifting)} of {len(slopes)} trials"
        return (
            f"throughput {verb} by {percent_words(abs(steepest.change))} during the window of "
            f"{format_duration(measured.elapsed_s)} ({steepest.slope_per_s_relative * 100:+.2g} % per "
            f"second){which}; its mean depends on the length of the window"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to bear in mind with these trials, each once."""
        warnings = [warning for result in self.results for warning in result.warnings]
        warnings += [
            f"trial {result.trial.number} failed its check: {violation}"
            for result in self.results
            for violation in result.violations
        ]
        numbered = [result for result, _ in self.numbered]
        warnings += [
            f"trial {result.trial.number} does not count: {result.outcome.value}"
            + (f" ({result.reason})" if result.reason else "")
            for result in self.results
            if numbered and not any(result is one for one in numbered)
        ]
        for result, measured in self.numbered:
            warnings += _window_warnings(result.trial.number, measured)
        return tuple(dict.fromkeys(warnings))


def group(rungs: Sequence[Rung], results: Sequence[Result]) -> tuple[RungTrials, ...]:
    """Give each rung the results of the treatment that bears its treatment's name.

    Short trials are not compared with whole ones: they are taken where some rung has no other.
    """
    named = {rung.treatment.name for rung in rungs}
    of_rungs = [result for result in results if result.trial.treatment.name in named]
    whole = {result.trial.treatment.name for result in of_rungs if not result.trial.is_brief}
    has_whole = all(result.trial.treatment.name in whole for result in of_rungs)
    by_treatment: dict[str, list[Result]] = {}
    for result in of_rungs:
        if result.trial.is_brief != has_whole:
            by_treatment.setdefault(result.trial.treatment.name, []).append(result)
    return tuple(
        RungTrials(rung, tuple(by_treatment.get(rung.treatment.name, ()))) for rung in rungs
    )


def measured_if_numbered(result: Result) -> Measurement | None:
    """Return what a trial measured, if it says something of throughput, nothing committed included."""
    measured = result.measurement
    is_numbered = result.outcome in (Outcome.MEASURED, Outcome.STALLED)
    return measured if is_numbered and measured is not None and measured.elapsed_s > 0 else None


def rate_of(result: Result, measured: Measurement) -> TrialRate:
    """Return the throughput of one window, and whether it ended with its last commit."""
    load, committed = result.trial.load, measured.total.committed
    changes_s, span = load.changes_s, held_span(result, measured)
    # Where the horizon is let go within the window, it is of two parts or three.
    if not changes_s and span is not None and span.is_released:
        changes_s = tuple(at_s for at_s in (span.begin_s, span.end_s) if at_s >= _PART_MIN_S)
    return TrialRate(
        result.trial.block,
        committed,
        measured.elapsed_s,
        measured.samples,
        # A single commit leaves an unbiased rate of zero; as a count it has wider bounds than it must.
        is_inverse_sampled=committed > 1
        and (
            measured.stopped_by == "transactions"
            or (measured.elapsed_s > load.measure_s and committed == load.min_commits)
        ),
        changes_s=changes_s,
    )


def _median(observations: Sequence[Observation]) -> Observation:
    seen = [one for one in observations if one.value is not None]
    if len(seen) < 2:
        return seen[0] if seen else observations[-1]
    return replace(
        seen[0],
        value=statistics.median([one.value for one in seen if one.value is not None]),
        resolution=max(one.resolution for one in seen),
        detail=f"median of {counted(len(seen), 'trial')}",
    )


def _window_warnings(number: int, measured: Measurement) -> list[str]:
    """Warn of a window for how its transactions ended."""
    total, warnings = measured.total, []
    scheduled = max(total.scheduled, 1)
    if total.failed > FAILED_MATTERS * scheduled:
        states = total.failed_by_sqlstate
        most = max(states, key=lambda state: states[state], default="unknown")
        messages = [text for _, state, text, _ in measured.errors if state == most and text]
        why = f" ({messages[0]})" if messages else ""
        warnings.append(
            f"{percent_words(total.failed / scheduled)} of the transactions of trial {number} "
            f"failed, most often with SQLSTATE {most}{why}; the rate counts only those that committed: find "
            "out why the others failed"
        )
    lost = total.dropped + total.skipped
    if lost > LOST_MATTERS * scheduled:
        warnings.append(
            f"{percent_words(lost / scheduled)} of the arrivals of trial {number} were dropped or "
            "skipped: the server did not keep up, and the wait of those is in no latency; offer less, or "
            "read the throughput as what it can do"
        )
    if measured.stopped_by == "clients":
        first = next(iter(measured.errors), None)
        why = f" ({first[2]}, SQLSTATE {first[1]})" if first else ""
        warnings.append(
            f"the window of trial {number} ended after {format_duration(measured.elapsed_s)}: no client "
            f"could go on{why}; fix the workload"
        )
    return warnings
