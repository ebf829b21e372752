"""How long will trials take here, and which still fit into a budget? From what the newest ones like them took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from pydantic import ValidationError

from pgdrag.factors.treated_workload import workload_of
from pgdrag.model import Forecast, LoadProfile, Result, Study, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import TimeLeft

PREPARE = "prepare"  # the phase of a run's first trial that stands for loading its dataset
# Trials that an estimate rests on: enough for a mean, and few enough to follow a machine that changes.
NEWEST = 9
# So that a run of ten thousand trials takes no longer to look back than one of a hundred.
_REMEMBERED = 100
# What a trial takes beside its load where nothing is known yet, in seconds, and bytes/s of its dataset.
_ASSUMED_S, _ASSUMED_RATE = 1.5, 250e6
_UNKNOWN = 5  # times as long it may be then
# How long these phases take depends on the size of the dataset.
_BY_SIZE = ("restore", "empty page cache", "remove")
_CHECK = "check"


@dataclass(frozen=True)
class Span:
    """How long something takes, in seconds: the mean, and the longest seen so far."""

    expected_s: float
    longest_s: float


def took_s(result: Result) -> float:
    """Return the seconds that a trial took, with what came before it: what a budget counts."""
    return max(result.took_s, sum(result.phases_s.values()))


@dataclass(frozen=True)
class _Seen:
    """What is remembered of a trial: how long its parts took, in seconds."""

    workload: WorkloadSpec
    dataset_bytes: int
    by_size_s: float
    check_s: float | None
    other_s: float
    measure_s: float
    window_s: float

    def scaled(self, dataset_bytes: int) -> float:
        """Return how many times as large another dataset is; 1 where a size is unknown."""
        return dataset_bytes / self.dataset_bytes if dataset_bytes and self.dataset_bytes else 1.0


@dataclass(frozen=True)
class Experience:
    """What earlier trials took, the newest first. It knows no clock: results bring their times."""

    _seen: tuple[_Seen, ...] = ()
    # Of each trial, if its server broke and there was no window.
    _broken_s: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Result]) -> Experience:
        """Return the experience that results bring, the newest of them first."""
        results = list(results)
        return cls(
            tuple(seen for result in results if (seen := _seen(result)) is not None),
            tuple(map(_broken_s, results)),
        )

    def after(self, result: Result) -> Experience:
        """Return it with one more result, the newest."""
        new = Experience.of([result])
        return Experience(
            (*new._seen, *self._seen)[:_REMEMBERED], (*new._broken_s, *self._broken_s)[:_REMEMBERED]
        )

    def trials_like(self, workload: WorkloadSpec) -> int:
        """Return how many trials of this very workload it knows."""
        return sum(one.workload == workload for one in self._seen)

    def basis(self, workload: WorkloadSpec) -> str:
        """Return what an estimate for a workload rests on, as an object: "trials of this workload …"."""
        nearest = next(self._nearest(workload), None)
        if nearest is None:
            return "assumptions, as no trial has run on this machine yet"
        seen = nearest.workload
        if seen == workload:
            return "trials of this workload on this machine"
        if seen.kind == workload.kind:
            return f"trials of workload {seen.kind} with other parameters on this machine"
        return f"trials of another workload, {seen.kind}, on this machine"

    def overhead(
        self, workload: WorkloadSpec, treatment: Treatment, *, is_checked: bool = True
    ) -> Span:
        """Return what a trial takes beside its warm-up and its window.

        From trials of the same workload, else of the same kind of workload, else of any, and what depends on
        the size of the dataset scaled by that.
        """
        size = _dataset_bytes(workload, treatment)
        guess_s = size / _ASSUMED_RATE
        near = islice(self._nearest(workload), NEWEST)
        parts = [one.other_s + one.by_size_s * one.scaled(size) for one in near]
        assumed_s = _ASSUMED_S + guess_s
        span = _span(parts) if parts else Span(assumed_s, _UNKNOWN * assumed_s)
        if not is_checked:
            return span
        near_s = (
            one.check_s * one.scaled(size)
            for one in self._nearest(workload)
            if one.check_s is not None
        )
        checks = list(islice(near_s, NEWEST))
        check = _span(checks) if checks else Span(guess_s, 2 * guess_s)
        return Span(span.expected_s + check.expected_s, span.longest_s + check.longest_s)

    def window_s(self, workload: WorkloadSpec, load: LoadProfile) -> float:
        """Return how long a measured window takes, in seconds: few commits extend it, as they did before."""
        same = list(islice((one for one in self._seen if one.workload == workload), NEWEST))
        return fmean(_window_s(one, load) for one in same) if same else load.measure_s

    def trials(self, study: Study, forecast: Forecast) -> tuple[float, float]:
        """Return how long these trials of a study take, in seconds: the fewest, and the most of them."""
        newest = self._broken_s[:NEWEST]
        broken_s = [seconds for seconds in newest if seconds is not None]
        # Treatments that break the server are soon done, and come again.
        share = len(broken_s) / len(newest) if newest else 0.0

        def one_s(load: LoadProfile) -> float:
            works_s = self._besides_s(study, load) + self.window_s(study.workload, load)
            return (1 - share) * works_s + share * (fmean(broken_s) if broken_s else 0.0)

        whole_s = one_s(study.load)
        brief_s = one_s(study.load.shortened()) if forecast.brief_most else 0.0
        most_whole, most_brief = forecast.longest
        return (
            forecast.least * whole_s + forecast.brief_least * brief_s,
            most_whole * whole_s + most_brief * brief_s,
        )

    def extended(self, study: Study, forecast: Forecast) -> float:
        """Return how long the most trials take if few commits extend every window, in seconds."""
        most_whole, most_brief = forecast.longest
        whole, brief = study.load, study.load.shortened()
        return most_whole * (self._besides_s(study, whole) + whole.budget_s) + most_brief * (
            self._besides_s(study, brief) + brief.budget_s
        )

    def _besides_s(self, study: Study, load: LoadProfile) -> float:
        """Return what a trial of a study takes beside its window."""
        is_checked = study.is_checked and load == study.load  # short trials are not
        overhead = self.overhead(study.workload, study.rungs[0].treatment, is_checked=is_checked)
        return overhead.expected_s + load.warm_up_s

    def _nearest(self, workload: WorkloadSpec) -> Iterator[_Seen]:
        likenesses: tuple[Callable[[_Seen], bool], ...] = (
            lambda one: one.workload == workload,
            lambda one: one.workload.kind == workload.kind,
            lambda one: True,
        )
        found = (is_like for is_like in likenesses if any(map(is_like, self._seen)))
        return filter(next(found, None), self._seen)


class Budget:
    """The time budget of a run, and how much of it is left.

    It counts from the results, so that a resumed run agrees with itself.

    Args:
        limit_s: of the whole run, in seconds; None: none.
        experience: of earlier runs; each result of this one is added.
    """

    def __init__(self, limit_s: float | None, experience: Experience) -> None:
        self.experience = experience
        self._limit_s = limit_s
        self._spent_s: dict[str, float] = {}

    @property
    def spent_s(self) -> float:
        """What the trials took: of hosts that ran them side by side, those of the busiest one."""
        return max(self._spent_s.values(), default=0.0)

    def spend(self, result: Result) -> None:
        """Count what a trial took."""
        self._spent_s[result.host] = self._spent_s.get(result.host, 0.0) + took_s(result)
        self.experience = self.experience.after(result)

    def fitted(self, trial: Trial, spent_s: float = 0.0, host: str = "") -> Trial | None:
        """Return the trial, with its window extended no longer than there is time; None: it does not fit.

        The first trial of a run is not refused for what others took: that may be another matter.

        Args:
            spent_s: what has been spent beside the results.
            host: that is to run it.
        """
        if self._limit_s is None:
            return trial
        load = trial.load
        overhead = self.experience.overhead(
            trial.workload, trial.treatment, is_checked=trial.is_checked
        )
        room_s = self._limit_s - self._spent_s.get(host, 0.0) - spent_s - load.warm_up_s
        overhead_s = overhead.longest_s if self._spent_s else 0.0
        if room_s < load.measure_s + overhead_s:
            return None
        longest_s = max(load.measure_s, round(room_s - overhead.longest_s, 1))
        return replace(trial, load=replace(load, budget_s=min(load.budget_s, longest_s)))

    def time_left(self, study: Study, left: Forecast, spent_s: float = 0.0) -> TimeLeft:
        """Return how long the remaining trials take, within the budget; for `spent_s` see `fitted`."""
        hosts = max(len(self._spent_s), 1)
        least_s, most_s = (seconds / hosts for seconds in self.experience.trials(study, left))
        if self._limit_s is None:
            return TimeLeft(least_s, most_s)
        room_s = max(0.0, self._limit_s - self.spent_s - spent_s)
        return TimeLeft(min(least_s, room_s), min(most_s, room_s))


def _seen(result: Result) -> _Seen | None:
    measured, phases_s, trial = result.measurement, result.phases_s, result.trial
    if measured is None:
        return None
    by_size_s = sum(phases_s.get(name, 0.0) for name in _BY_SIZE)
    check_s = phases_s.get(_CHECK)
    known_s = by_size_s + (check_s or 0.0) + phases_s.get(PREPARE, 0.0)
    load_s = trial.load.warm_up_s + measured.elapsed_s
    return _Seen(
        workload=trial.workload,
        dataset_bytes=_dataset_bytes(trial.workload, trial.treatment),
        by_size_s=by_size_s,
        check_s=check_s,
        other_s=max(0.0, took_s(result) - known_s - load_s),
        measure_s=trial.load.measure_s,
        window_s=measured.elapsed_s,
    )


def _broken_s(result: Result) -> float | None:
    """Return how long a trial took whose server broke before there was a window; None of any other."""
    if result.measurement is not None:
        return None
    return took_s(result) - result.phases_s.get(PREPARE, 0.0)


def _dataset_bytes(workload: WorkloadSpec, treatment: Treatment) -> int:
    """Return the size of a treatment's dataset; 0 for a workload that this pgdrag does not know."""
    try:
        return workload_of(workload, treatment).dataset_bytes()
    except (KeyError, ValidationError):
        return 0


def _window_s(one: _Seen, load: LoadProfile) -> float:
    """Return how long a window of this load would be with the commits of a trial that was seen."""
    was_extended = one.window_s > 1.05 * one.measure_s
    return max(load.measure_s, min(one.window_s, load.budget_s)) if was_extended else load.measure_s


def _span(seconds: Sequence[float]) -> Span:
    # The fewer were seen, the more the next one may exceed them.
    return Span(fmean(seconds), max(seconds) * (1 + 1 / len(seconds)))
