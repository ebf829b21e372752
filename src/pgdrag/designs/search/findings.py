"""What a search found: the values that its report is made of.

Gains say how many times better a configuration is than the baseline for what was searched: faster where the search
maximizes, slower where it minimizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pgdrag.designs.search.objectives import OBJECTIVES
from pgdrag.designs.search.parameters import Goal
from pgdrag.designs.search.procedure import Stage
from pgdrag.findings.values import ChangeEffect, DesignFinding, FoundConfiguration, Interval
from pgdrag.findings.wording import inverse


@dataclass(frozen=True)
class CourseFinding:
    """The best configuration known after a number of trials, and its gain.

    Attributes:
        time_s: what the run took until then, in seconds.
    """

    trials: int
    time_s: float
    gain: Interval


@dataclass(frozen=True)
class TrialFinding:
    """One trial of the search.

    Attributes:
        number: of those with a number and those that failed, from 1.
        gains: over the median of the baseline's trials; of several objectives together and in each; none
            where the trial failed.
    """

    number: int
    gains: tuple[float, ...]


@dataclass(frozen=True)
class DimensionFinding:
    """What the search learnt of one setting.

    Attributes:
        name, group: of the setting.
        start, best: the baseline's value, and the best one by what is known.
        gain: of the best value over the baseline's.
        slice: by value, the gain over the baseline's value.
        seen: by value, the gains of the trials that had it, less what the model says of their other settings.
        failing: values that are thought to make the server fail.
    """

    name: str
    group: str
    start: str
    best: str
    gain: Interval
    slice: Mapping[str, Interval]
    seen: Mapping[str, tuple[float, ...]]
    failing: tuple[str, ...]


@dataclass(frozen=True)
class LineFinding:
    """One line of the configuration that was found.

    Attributes:
        brings: how many times worse the configuration is without the line; None: it was not left out alone.
    """

    name: str
    value: str
    start: str
    brings: Interval | None


@dataclass(frozen=True)
class RivalFinding:
    """A configuration that what was found was compared with on the same fresh clusters.

    Attributes:
        gain: its own over the baseline.
        beaten_by: the gain of what was found over it.
    """

    name: str
    gain: Interval
    beaten_by: Interval


@dataclass(frozen=True)
class FewestFinding:
    """The fewest changes of what was found that beat a rival, on fresh clusters.

    Attributes:
        lines: values that differ from the baseline's, by name.
        gain: over the baseline.
        over_rival: over the rival.
    """

    rival: str
    lines: Mapping[str, str]
    gain: Interval
    over_rival: Interval


@dataclass(frozen=True)
class FrontFinding:
    """A configuration of a search with several objectives, on fresh clusters.

    Attributes:
        lines: its values that differ from the baseline's, by name; none of an experiment's own treatment.
        gains: over the baseline, by objective.
        is_beaten: another one, or the baseline, is at least as good in every objective, and better in one, by
            the estimates.
    """

    name: str
    lines: Mapping[str, str]
    gains: Mapping[str, Interval]
    is_beaten: bool


@dataclass(frozen=True)
class LimitFinding:
    """A limit of the search, and what the found configuration needs on fresh clusters, both with their units.

    Attributes:
        label: of the observation.
    """

    label: str
    limit: str
    highest: str
    is_kept: bool


@dataclass(frozen=True)
class SearchFinding(DesignFinding):
    """What a search found so far.

    Attributes:
        goal: "maximize" looks for the fastest, "minimize" for the slowest configuration.
        objective: in words; of several, all of them.
        better, worse: what a configuration is that gains 1.2 times, or loses as much: "1.2× faster".
        proof_unit: what each trial of the proof is: "fresh cluster"; on a server that exists "full-length trial".
        stage: how far the search is.
        trials, failed: short trials of the exploration, and all trials that did not run.
        budget: short trials that it may explore with.
        course: the best that had been tried, after each block of short trials.
        tried: every short trial.
        dimensions: what is known of each setting, those that gain most first.
        lines: the fewest changes that keep the winner's gain, those that bring most first.
        winner_changes: how many changes the winner had before it was reduced.
        claimed: the gain by the short trials, before the proof; None before it is known.
        proved: the gain on fresh clusters.
        rivals: what else was run there: the rules of thumb, the experiment's other treatments.
        fewest: by rival, where fewer changes than all beat it by the short trials.
        front: of several objectives, what each configuration of the proof gains in each.
        redeployments: the gain on each fresh cluster.
        limits: those of the search that were observed on fresh clusters.
        found: the lines as a file; None before they are proved.
    """

    has_rungs: ClassVar[bool] = False

    goal: Goal
    objective: str
    better: str
    worse: str
    proof_unit: str
    stage: Stage
    trials: int
    budget: int
    failed: int
    course: tuple[CourseFinding, ...]
    tried: tuple[TrialFinding, ...]
    dimensions: tuple[DimensionFinding, ...]
    lines: tuple[LineFinding, ...]
    winner_changes: int
    claimed: Interval | None
    proved: Interval | None
    rivals: tuple[RivalFinding, ...]
    fewest: tuple[FewestFinding, ...]
    front: tuple[FrontFinding, ...]
    redeployments: tuple[float, ...]
    limits: tuple[LimitFinding, ...]
    found: FoundConfiguration | None

    def configuration(self) -> FoundConfiguration | None:
        """Return the configuration, with the gain of each line."""
        return self.found

    def effects(self) -> tuple[ChangeEffect, ...]:
        """Return how much throughput each line of the configuration gains together with the others."""
        if self.objective != OBJECTIVES["throughput"].words:
            return ()
        return tuple(
            ChangeEffect(
                ((one.name, one.start, one.value),),
                one.brings if self.goal == "minimize" else _inverse(one.brings),
                "beside the other lines of what was found",
            )
            for one in self.lines
            if one.brings is not None
        )


def _inverse(found: Interval) -> Interval:
    low, center, high = (inverse(x) for x in (found.high, found.center, found.low))
    return replace(found, low=low, center=center, high=high)
