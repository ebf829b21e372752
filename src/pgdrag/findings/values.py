"""What was found: the values that the analysis hands to the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, TypeVar

from pgdrag.english import capital
from pgdrag.model import Applied, Observation, Outcome, Rung, RunRecord
from pgdrag.model.claims import Answer as Answer
from pgdrag.model.measurement import Arrivals, Counts, Latency, Sample
from pgdrag.model.recordings import Recordings
from pgdrag.stats.interval import Comparison as Comparison
from pgdrag.stats.interval import Interval as Interval
from pgdrag.stats.interval import Verdict as Verdict

NOT_RUN_YET, NOT_RUN = "not run yet", "not run"  # before and after the end of the run
FALSE_DISCOVERIES = 0.05  # the rate of them that is accepted among all that is called moved
F = TypeVar("F")


@dataclass(frozen=True)
class ClaimFinding:
    """A published ratio beside the one found here; ratios say how many times slower.

    Attributes:
        why: published and found ratio and the reason of the answer, in words that finish a sentence.
        in_kind: the ratio found of the quantity that was published, where that is not throughput.
        reason: the reason alone.
    """

    answer: Answer
    published: float | None
    found: Interval | None
    why: str
    in_kind: Interval | None = None
    reason: str = ""


@dataclass(frozen=True)
class NamedRate:
    """Transactions of one kind committed per minute, under the name that the workload has for it: "tpmC"."""

    label: str
    per_min: Interval


@dataclass(frozen=True)
class TreatmentFinding:
    """What a run found of one treatment: how fast it is, and what each analysis found of it.

    Attributes:
        outcome: of its trials together: measured where one of them was, and inert where it was
            measured but each level that it names reads as before (it has its number all the same).
            With `trials` 0 it means nothing, and `state` says "not run yet" or "not run".
        reason: why there is no number, or ""; where no trial was run "not run yet", and "not run" once the
            run is over.
        trials: trials with a number; where none has one, all that were run.
        counts, errors: over the trials with a number.
        latency, samples, applied, recordings: of the trial of median throughput.
        middle_trial: the number of that trial; None where none has a number.
        arrivals: of that trial: how many came, and how long they waited; None in closed loop.
        evidence: the median over the trials with a number.
        tps: committed transactions/s; None where no trial of it was measured.
        to_baseline, to_previous: None for the baseline itself, and where a side has no number.
        previous: name of the rung that `to_previous` refers to: the nearest one with a number in a
            ladder, the baseline in any other design; "" where there is none.
        step_share: part that this step has in the log slowdown from the baseline to the last rung
            that committed anything, in a ladder; None where either end of the step has no rate, or
            the whole is not significant. May be negative.
        found: what each analysis found, by the class of that; see `get`.
    """

    rung: Rung
    outcome: Outcome
    reason: str
    trials: int
    tps: Interval | None
    to_baseline: Comparison | None
    to_previous: Comparison | None
    previous: str
    counts: Counts | None
    latency: dict[str, Latency]
    errors: tuple[tuple[str, str, str, int], ...]
    samples: tuple[Sample, ...]
    applied: tuple[Applied, ...]
    evidence: tuple[Observation, ...]
    warnings: tuple[str, ...]
    step_share: float | None = None
    arrivals: Arrivals | None = None
    recordings: Recordings = field(default_factory=Recordings)
    middle_trial: int | None = None
    found: Mapping[type, object] = field(default_factory=dict)

    def get(self, kind: type[F]) -> F | None:
        """Return what the analysis that finds this class found of the treatment; None where it found nothing."""
        return _of_kind(self.found, kind)

    @property
    def state(self) -> str:
        """How the rung ended, in words; "not run yet" or "not run" without a trial."""
        return self.outcome.value if self.trials else self.reason or NOT_RUN_YET


class Gate(StrEnum):
    """Whether a treatment is slower than it may be."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class LeastWorking:
    """The smallest value of a setting that works.

    Attributes:
        value: as it was written; None: no value tried works.
        failing: the next smaller value tried, which does not; None: all work.
    """

    value: str | None
    failing: str | None


@dataclass(frozen=True)
class FoundConfiguration:
    """A configuration that a run recommends.

    Attributes:
        settings: by name, as postgresql.conf takes them.
        others: levels that are no settings, in words.
        comments: by name, what a line brings here.
        header: lines to stand above it.
    """

    settings: Mapping[str, str]
    others: tuple[str, ...]
    comments: Mapping[str, str]
    header: tuple[str, ...]


@dataclass(frozen=True)
class ChangeEffect:
    """How much slower changes of factors make a workload, where the run changed nothing else.

    Attributes:
        changes: name, value before and value after of each; None: not set.
        beside: what else was in force, in words that follow "measured": "alone", "on top of A3".
    """

    changes: tuple[tuple[str, str | None, str | None], ...]
    slowdown: Interval
    beside: str


@dataclass(frozen=True)
class DesignFinding:
    """What only the run's design can say; each design's analysis has a subclass of its own.

    Class attributes:
        has_rungs: the rungs one by one say something beside it.
        completes_answer: its answer follows the one that the rungs give, and does not replace it.
        names_all_treatments: every treatment that was run stands among its own findings; else those that the
            design made stand behind the rungs.

    Attributes:
        answer: the study's question answered in one to three sentences.
        warnings: what to bear in mind with it, each naming the remedy still untried.
    """

    has_rungs: ClassVar[bool] = True
    completes_answer: ClassVar[bool] = False
    names_all_treatments: ClassVar[bool] = True

    answer: str
    warnings: tuple[str, ...]

    @property
    def decision(self) -> Gate | None:
        """Whether the study passed, where it was asked to decide; the command's exit status says so."""
        return None

    @property
    def bound(self) -> str:
        """What `decision` decides on, in words that stand alone; "" where it was not asked to."""
        return ""

    @property
    def significance(self) -> str:
        """How sure the answer is, in a sentence; "" where its treatments' intervals say it all."""
        return ""

    def comparison(self, rung: str) -> Comparison | None:
        """Return the design's own comparison of a rung with the baseline; None to use its trials alone."""
        return None

    def step(self, rung: str) -> Comparison | None:
        """Return how it compares with the rung before it; outside of a ladder that is the baseline."""
        return self.comparison(rung)

    def rate(self, rung: str) -> Interval | None:
        """Return the design's own estimate of a rung's committed transactions/s; None to use its trials alone."""
        return None

    def effects(self) -> tuple[ChangeEffect, ...]:
        """Return what single changes do, where the design tells them apart better than its treatments do."""
        return ()

    def least_working(self, setting: str) -> LeastWorking | None:
        """Return the smallest value of a setting that works, where the design looks for it and is done."""
        return None

    def configuration(self) -> FoundConfiguration | None:
        """Return the configuration that the run recommends, where the design looks for one and has it."""
        return None

    def claim_notes(self) -> tuple[str, ...]:
        """Return sentences to stand beside a published total; by default none."""
        return ()


@dataclass(frozen=True)
class InstrumentCost:
    """What the collectors cost on a machine: they looked and rested in turns while a load went on.

    Attributes:
        slowdown: throughput without collectors divided by that with them.
        blocks: of four turns, that it was estimated from.
        when_unix_s: when these were begun.
        workload: what ran meanwhile, in a few words.
        is_alike: it is the workload and the load of the run that is reported.
    """

    slowdown: Interval
    blocks: int
    when_unix_s: float
    workload: str
    is_alike: bool


@dataclass(frozen=True)
class Findings:
    """What a run found, ready to print.

    Attributes:
        answer: the study's question answered in one to three sentences.
        noise_floor: ratio of two trials of the same treatment that this run saw (over 1), or None.
        warnings: about the run as a whole.
        found: what only the run's design can say; None where it says no more than its treatments do.
        instrument: what the collectors cost on the run's machine; None: not measured there.
        of_run: what each analysis of all treatments together found, by the class of that; see `get`.
    """

    run: RunRecord
    rungs: tuple[TreatmentFinding, ...]
    answer: str
    noise_floor: float | None
    warnings: tuple[str, ...]
    found: DesignFinding | None = None
    instrument: InstrumentCost | None = None
    of_run: Mapping[type, object] = field(default_factory=dict)

    def get(self, kind: type[F]) -> F | None:
        """Return what the analysis that finds this class found of the run; None where it found nothing."""
        return _of_kind(self.of_run, kind)

    def has(self, kind: type) -> bool:
        """Tell whether the design, an analysis of the run, or one of any treatment found this class."""
        is_of_run = isinstance(self.found, kind) or kind in self.of_run
        return is_of_run or any(kind in rung.found for rung in self.rungs)

    def by_rung(self, kind: type[F]) -> dict[str, F]:
        """Return what the analysis that finds this class found, by the name of the rung."""
        found = ((one.rung.name, one.get(kind)) for one in self.rungs)
        return {name: one for name, one in found if one is not None}

    @property
    def has_rungs(self) -> bool:
        """The rungs one by one say something of their own."""
        return bool(self.rungs) and (self.found is None or self.found.has_rungs)

    @property
    def is_cumulative(self) -> bool:
        """Each rung builds upon the ones before it."""
        return self.run.study.is_cumulative

    @property
    def noun(self) -> str:
        """What the design calls one of its treatments: "arm", "rung", "treatment"."""
        return self.run.study.noun

    @property
    def noun_heading(self) -> str:
        """The same as the heading of a column."""
        return capital(self.noun)


def _of_kind(found: Mapping[type, object], kind: type[F]) -> F | None:
    one = found.get(kind)
    assert one is None or isinstance(one, kind), type(one)
    return one
