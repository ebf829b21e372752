"""What do the trials of one rung say together?"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.analysis.findings import NOT_RUN
from pgdrag.analysis.rates import TrialRate, trend
from pgdrag.analysis.wording import counted, percent_words
from pgdrag.plan import (
    Applied,
    Counts,
    Latency,
    Measurement,
    Observation,
    Outcome,
    Result,
    Rung,
    Sample,
)
from pgdrag.units import format_duration

FAILED_MATTERS = 0.01  # share of failed transactions above which a rate needs a word
DRIVER_BUSY = 0.7  # CPU share of a driver thread from which the driver may be the bottleneck
DRIVER_LATE_US = 10_000.0  # p99 of its loop's lateness from which it may be


@dataclass(frozen=True)
class RungTrials:
    """The results of one rung, in the order run."""

    rung: Rung
    results: tuple[Result, ...]

    @property
    def numbered(self) -> tuple[tuple[Result, Measurement], ...]:
        """The trials that say something of throughput, nothing committed included."""
        return tuple(
            (result, result.measurement)
            for result in self.results
            if result.outcome in (Outcome.MEASURED, Outcome.STALLED)
            and result.measurement is not None
            and result.measurement.elapsed_s > 0
        )

    @property
    def rates(self) -> tuple[TrialRate, ...]:
        """Throughput of the numbered trials."""
        return tuple(rate_of(result, measured) for result, measured in self.numbered)

    @property
    def outcome(self) -> Outcome:
        """Measured where one trial was, else stalled where one did, else how the last one ended."""
        outcomes = {result.outcome for result, _ in self.numbered}
        for outcome in (Outcome.MEASURED, Outcome.STALLED):
            if outcome in outcomes:
                return outcome
        ends = [result.outcome for result in self.results]
        if not ends:
            return Outcome.UNTESTABLE
        # Measured, but without a measurement to show for it.
        return Outcome.INVALID if ends[-1] is Outcome.MEASURED else ends[-1]

    @property
    def reason(self) -> str:
        """Why the rung has no number, or committed nothing; "" where it was simply measured."""
        if not self.results:
            return NOT_RUN
        outcome = self.outcome
        if outcome is Outcome.MEASURED:
            return ""
        reasons = [result.reason for result in self.results if result.outcome is outcome]
        return next((reason for reason in reversed(reasons) if reason), "")

    @property
    def middle(self) -> Result | None:
        """The trial in the middle by throughput; without a number, the last that read levels back."""
        if self.numbered:
            ranked = sorted(self.numbered, key=lambda pair: rate_of(*pair).per_s)
            return ranked[(len(ranked) - 1) // 2][0]
        return next((result for result in reversed(self.results) if result.applied), None)

    @property
    def applied(self) -> tuple[Applied, ...]:
        """What became of each level, in the middle trial."""
        return self.middle.applied if self.middle is not None else ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The window second by second, in the middle trial."""
        measured = self._middle_measurement
        return measured.samples if measured is not None else ()

    @property
    def latency(self) -> Mapping[str, Latency]:
        """Latencies by transaction type, in the middle trial."""
        measured = self._middle_measurement
        return measured.latency if measured is not None else {}

    @property
    def queue_us_p99(self) -> float | None:
        """How long work waited before its first attempt, in the middle trial; None without a rate."""
        measured = self._middle_measurement
        return measured.queue_us_p99 if measured is not None else None

    @property
    def max_queue(self) -> int | None:
        """How much work waited at once, in the middle trial; None without a rate."""
        measured = self._middle_measurement
        return measured.max_queue if measured is not None else None

    @property
    def _middle_measurement(self) -> Measurement | None:
        return self.middle.measurement if self.numbered and self.middle is not None else None

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

    @property
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
        slopes = [(trend(measured.samples), measured) for _, measured in self.numbered]
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
    def driver_cpu_share(self) -> float | None:
        """CPU seconds of the driver per second of window, in the trial where it was busiest."""
        return max((_cpu_share(measured) for _, measured in self.numbered), default=None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about these trials, each once."""
        doubts = [warning for result in self.results for warning in result.warnings]
        doubts += [
            f"trial {result.trial.number} failed its check: {violation}"
            for result in self.results
            for violation in result.violations
        ]
        if self.numbered:
            has_number = {id(result) for result, _ in self.numbered}
            doubts += [
                f"trial {result.trial.number} is not in the number: {result.outcome.value}"
                + (f" ({result.reason})" if result.reason else "")
                for result in self.results
                if id(result) not in has_number
            ]
        for result, measured in self.numbered:
            doubts += [*_failure_doubts(result.trial.number, measured), *_driver_doubts(measured)]
        if self.drift:
            doubts.append(self.drift)
        return tuple(dict.fromkeys(doubts))


def group(rungs: Sequence[Rung], results: Sequence[Result]) -> tuple[RungTrials, ...]:
    """Give each rung the results of the treatment that bears its treatment's name."""
    by_treatment: dict[str, list[Result]] = {}
    for result in results:
        by_treatment.setdefault(result.trial.treatment.name, []).append(result)
    return tuple(
        RungTrials(rung, tuple(by_treatment.get(rung.treatment.name, ()))) for rung in rungs
    )


def rate_of(result: Result, measured: Measurement) -> TrialRate:
    """Return what one window tells of throughput, and whether it ended with its last commit."""
    load, committed = result.trial.load, measured.total.committed
    return TrialRate(
        result.trial.block,
        committed,
        measured.elapsed_s,
        measured.samples,
        # A single commit leaves an unbiased rate of zero; as a count it has wider bounds than it must.
        is_inverse_sampled=measured.elapsed_s > load.measure_s
        and committed == load.min_commits
        and committed > 1,
    )


def _median(observations: Sequence[Observation]) -> Observation:
    seen = [observation for observation in observations if observation.value is not None]
    if not seen:
        return observations[-1]
    if len(seen) == 1:
        return seen[0]
    middle = statistics.median([o.value for o in seen if o.value is not None])
    detail = f"median of {counted(len(seen), 'trial')}"
    resolution = max(observation.resolution for observation in seen)
    return replace(seen[0], value=middle, resolution=resolution, detail=detail)


def _cpu_share(measured: Measurement) -> float:
    return (measured.driver.user_cpu_s + measured.driver.system_cpu_s) / measured.elapsed_s


def _failure_doubts(number: int, measured: Measurement) -> list[str]:
    """Doubt a trial in which more than a few transactions failed, and say with what."""
    total = measured.total
    if total.failed <= FAILED_MATTERS * total.scheduled:
        return []
    states = total.failed_by_sqlstate
    most = max(states, key=lambda state: states[state], default="unknown")
    messages = [text for _, state, text, _ in measured.errors if state == most and text]
    why = f" ({messages[0]})" if messages else ""
    return [
        f"in trial {number} {percent_words(total.failed / total.scheduled)} of the transactions "
        f"failed, most often with SQLSTATE {most}{why}; the rate is of those that committed: find "
        "out why the others failed"
    ]


def _driver_doubts(measured: Measurement) -> list[str]:
    doubts = []
    per_thread = _cpu_share(measured) / max(measured.driver.threads, 1)
    if per_thread > DRIVER_BUSY:
        doubts.append(
            f"the driver may have been the bottleneck: its threads were busy {percent_words(per_thread)} of the "
            "time; give it more threads, or a machine of its own"
        )
    if measured.driver.loop_lag_us_p99 > DRIVER_LATE_US:
        lag = format_duration(measured.driver.loop_lag_us_p99 / 1e6)
        doubts.append(
            f"the driver may have been the bottleneck: one in a hundred of its timers was {lag} late or "
            "more; use fewer connections, or a machine of its own"
        )
    return doubts
